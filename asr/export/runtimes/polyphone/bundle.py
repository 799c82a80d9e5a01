"""Write a model file: the weights to decode with, what uses them, and a card."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from asr.base.config import toml_lines
from asr.base.errors import UserError
from asr.base.model_files.model_file import ABOUT, CARD, CONFIG, VERSION, VOCABULARY, digest_of, pack
from asr.base.system.files import whole_file
from asr.base.text.pieces import UNITS_MODEL
from asr.evaluation.scores import decoder_name, read_json, scores_of
from asr.export.folder import write_decoder
from asr.export.format import Settings, TrainedModel, Written
from asr.export.runtimes.polyphone.card import card_of, text_of
from asr.runs.checkpoint import read_checkpoint, write_weights
from asr.runs.chosen_model import cpu_runner
from asr.runs.run import Run

RATE = {"set", "decoder", "unit", "rate", "interval", "utterances"}  # keys of an error rate in the card

logger = logging.getLogger(__name__)


def write_bundle(trained: TrainedModel, folder: Path, settings: Settings) -> Written:
    """Write the files of a model file into a folder, which is then a run's directory."""
    run, vocabulary, card = trained.run, trained.recognizer.vocabulary, settings.card
    stated, origin = run.stated(), trained.recognizer.origin
    assert origin is not None
    # the recognizer's: a training that has not ended may have chosen another checkpoint meanwhile
    checkpoint = read_checkpoint(origin.files[0], ("model", "ema"))
    weights = checkpoint.decoding_weights
    if settings.quantize:
        weights = {name: _narrowed(array) for name, array in weights.items()}
    stored = folder / "checkpoints" / checkpoint.path.name
    write_weights(stored, weights, checkpoint.progress)
    vocabulary.save(folder / VOCABULARY)
    if vocabulary.pieces is not None:
        vocabulary.pieces.without_paths().save(folder / UNITS_MODEL)
    config = run.config()  # the other sections name files of this machine
    lines = ["[features]", *toml_lines(config.features), "", "[model]", *toml_lines(config.model)]
    (folder / CONFIG).write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_decoder(folder, run)
    text = card.text or (text_of(run.directory / CARD) if run.is_model_file else "")
    (folder / CARD).write_text(text, encoding="utf-8")
    cpu_runner(Run(folder), vocabulary)  # makes the graph that is compared with the trained model
    about = {
        "file_version": VERSION,
        "licence": card.licence or stated.get("licence", ""),
        "recognizes": card.recognizes and stated.get("recognizes", True),
        "corpora": _corpora(run),
        "num_parameters": int(sum(array.size for array in weights.values())),
        "init_from": stated.get("init_from", Path(run.config().train.init_from).name),
        "error_rates": _error_rates(run, checkpoint.path.name),
        "weights_sha256": digest_of(stored),
    }
    return Written([stored.relative_to(folder).as_posix()], about)


def pack_bundle(folder: Path, target: Path) -> None:
    """Make the file of a folder, and before it one with its digest, which `asr` reads at an address."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    manifest = Path(about["parity"]["manifest"])
    about["parity"]["manifest"] = "/".join(manifest.parts[-2:])  # without the folders of this machine
    (folder / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    card = card_of(target.stem, about, (folder / CARD).read_text(encoding="utf-8"))
    (folder / CARD).write_text(card, encoding="utf-8")
    packed = folder / target.name
    pack(folder, packed)
    with whole_file(target.with_name(f"{target.name}.sha256"), "digest") as file:
        file.write(f"{digest_of(packed)}  {target.name}\n".encode())
    packed.replace(target)


def _narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return weights as float16; those beyond its range, such as a variance, stay."""
    narrow = array.astype(np.float16)
    return narrow if np.isfinite(narrow).all() and array.ndim > 1 else array


def _stated(run: Run, key: str) -> list[Any]:
    """Return a list that a model file states about the run it is from."""
    stated = run.stated().get(key)
    return stated if isinstance(stated, list) else []


def _corpora(run: Run) -> list[str]:
    """Return the names of the corpora that the run was trained on, without their folders."""
    if run.is_model_file:
        return [str(name) for name in _stated(run, "corpora")]
    corpora = run.config().data.corpus
    return [entry.partition("=")[0].strip() for entry in corpora.split(",") if entry.strip()]


def _error_rates(run: Run, checkpoint: str) -> list[dict[str, Any]]:
    """Return the error rates of the run's evaluations of a checkpoint, with 95 % confidence intervals."""
    if run.is_model_file:
        return [
            rate for rate in _stated(run, "error_rates") if isinstance(rate, dict) and rate.keys() >= RATE
        ]
    found = []
    for path in sorted(run.directory.glob("report*.json")):
        try:
            record = read_json(path)
        except UserError as error:
            logger.warning("%s; its error rates are not in the card", error)
            continue
        if record.checkpoint not in ("", checkpoint):
            what = f"{record.checkpoint}, not of {checkpoint}"
            logger.warning("%s: an evaluation of %s; its error rates are not in the card", path, what)
            continue
        manifest, decoder = Path(record.manifest), decoder_name(record.decoder) or "greedy"
        name = path.stem.removeprefix("report").removeprefix(f"-{manifest.parent.name}-{manifest.stem}")
        if (name := name.removeprefix("-")) not in ("", decoder):
            decoder += f" ({name})"  # another evaluation of the same set
        for score in scores_of(record.utterances, record.hypotheses, record.token):
            found.append(
                {
                    "set": f"{manifest.parent.name}/{manifest.stem}",
                    "decoder": decoder,
                    "unit": score.name,
                    "rate": score.total.rate,
                    "interval": list(score.interval),
                    "utterances": len(record.utterances),
                }
            )
    return found
