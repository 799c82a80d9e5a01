"""Describe a trained model as JSON, for programs that run it without Polyphone: `model.json`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES
from asr.base.version import __version__
from asr.base.vocabulary import BLANK, BLANK_ID
from asr.export.format import ABOUT_FILE
from asr.model.onnx_runner import OnnxModel
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer


def describe(run: Run, recognizer: Recognizer) -> dict[str, Any]:
    """Return what is known of a run's chosen epoch.

    Returns:
        rates, frames, the blank, the unit of the tokens, the run and its settings, and how many samples
        before and after sample `frame_samples` t its logits t, or their chunk, depend on (null for the whole
        clip); whether short recordings need no cutting at their pauses.
    """
    model, vocabulary = recognizer.model, recognizer.vocabulary
    assert recognizer.origin is not None
    checkpoint = recognizer.origin.files[0]
    config = run.config()
    chosen = [metrics for metrics in run.metrics() if metrics.chosen]
    dev_error = chosen[-1].dev_error if chosen else run.start_error()
    stated = run.stated()
    return {
        "polyphone": __version__,
        "run": stated.get("run", run.directory.resolve().name),
        "checkpoint": checkpoint.name,
        "dev_error_rate": stated.get("dev_error_rate", dev_error),
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "shortest_clip_samples": WINDOW_SAMPLES,
        **OnnxModel.of(model).as_json(),
        "unit": vocabulary.unit,
        "blank": BLANK,
        "blank_id": BLANK_ID,
        "num_tokens": len(vocabulary),
        "features": dataclasses.asdict(config.features),
        "model": dataclasses.asdict(config.model),
    }


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what `describe` returned, and more, as `model.json`."""
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / ABOUT_FILE).write_text(f"{text}\n", encoding="utf-8")
