"""Write the folder of the format `sherpa`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.base.text.mixed import begins_word, is_toned
from asr.base.vocabulary import BLANK_ID, WORD_BOUNDARY, Vocabulary
from asr.evaluation.data import evaluation_data
from asr.export.format import Settings, TrainedModel, Written
from asr.export.runtimes.onnx.quantize import save_model
from asr.export.runtimes.sherpa.graphs import omnilingual_model, stream_model, stream_window, zipformer_model
from asr.export.runtimes.sherpa.hanzi_fst import write_hanzi_fst
from asr.export.runtimes.sherpa.runtime import HANZI, MODEL, STREAM, STREAM_RUNTIME, TOKENS
from asr.model.features.fbank import Fbank

TEMPLATES = Path(__file__).with_name("templates")
NUM_CLIPS = 50  # of the dev set, whose loudness is measured


def write_folder(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of the format `sherpa`.

    Raises:
        UserError: a layer has no exporter, or the frames of the model do not fit sherpa-onnx's.
    """
    model, vocabulary = trained.recognizer.model, trained.recognizer.vocabulary
    metadata = trained.metadata
    fbank = isinstance(model.features, Fbank) and not model.features.pitch  # the runtime computes no pitch
    about: dict[str, Any] = {"feature_dim": model.features.num_features, "stream": None}
    if fbank:
        about["model"] = "zipformer_ctc"
        written = zipformer_model(model, len(vocabulary), {**metadata, "model_type": "zipformer2_ctc"})
        if window := stream_window(model):
            about["stream"] = {**window._asdict(), "flush_s": window.flush_s}
            save_model(stream_model(model, len(vocabulary), window, metadata), folder / STREAM, settings)
    else:
        about["model"], about["loudness"] = "omnilingual", _loudness(trained)
        written = omnilingual_model(model, len(vocabulary), about["loudness"], metadata)
    save_model(written, folder / MODEL, settings)
    write_tokens(folder / TOKENS, vocabulary)
    if vocabulary.is_mandarin:
        tokens: Sequence[str] = vocabulary.tokens[BLANK_ID + 1 :]
        if vocabulary.unit == "mixed":  # Latin words pass through
            tokens = [token for token in tokens if is_toned(token)]
        write_hanzi_fst(folder / HANZI, tokens)
    _write_readme(folder, about, hanzi=vocabulary.is_mandarin)
    stream_runtime = STREAM_RUNTIME if about["stream"] else ""
    return Written([MODEL], {"sherpa": about}, stream_runtime)


def write_tokens(path: Path, vocabulary: Vocabulary) -> None:
    """Write a token and its id in each line, with spaces marked where the vocabulary joins tokens by them."""
    lines = []
    for index, token in enumerate(vocabulary.tokens):
        is_spaced = begins_word(token) if vocabulary.unit == "mixed" else vocabulary.is_spaced
        marked = is_spaced and index != BLANK_ID and not token.startswith(WORD_BOUNDARY)
        lines.append(f"{WORD_BOUNDARY if marked else ''}{token} {index}\n")
    path.write_text("".join(lines), encoding="utf-8")


def _loudness(trained: TrainedModel) -> float:
    """Return the median standard deviation of some clips of the dev set, on the int16 scale.

    Without a dev set, as in a model file, it is that of the clips that the exported model is compared on.
    """
    dev, vocabulary = path_of(trained.run.config().data.dev), trained.recognizer.vocabulary
    try:
        data, _ = evaluation_data(dev, vocabulary, num_clips=NUM_CLIPS)
    except UserError:
        data, _ = evaluation_data(trained.manifest, vocabulary, num_clips=NUM_CLIPS)
    deviations = []
    for batch in data.in_order()[1]:
        audio, num_samples = np.asarray(batch.audio), np.asarray(batch.num_samples)
        deviations += [np.std(row[:length]) for row, length in zip(audio, num_samples, strict=True)]
    return round(float(np.median(deviations)), 1)


def _write_readme(folder: Path, about: dict[str, Any], *, hanzi: bool) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    fbank = about["model"] == "zipformer_ctc"
    text = environment.get_template("README.md").render(**about, fbank=fbank, hanzi=hanzi)
    (folder / "README.md").write_text(text, encoding="utf-8")
