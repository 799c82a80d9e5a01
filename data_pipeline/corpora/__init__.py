"""Corpora: a directory as downloaded -> utterances in train, dev and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from asr.config import nearest
from asr.types import UserError, Utterance
from data_pipeline.corpora import digits, hsk_words, mandarin_demo
from data_pipeline.manifest import write_manifest

Splits = dict[str, list[Utterance]]
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Corpus:
    """How a corpus is prepared.

    Attributes:
        prepare: (source, target) -> utterances by split; writes audio below target where it must.
        needs_source: whether the user brings the recordings.
        about: one line on what it holds and where it comes from.
    """

    prepare: Callable[[Path, Path], Splits]
    needs_source: bool
    about: str


CORPORA = {
    "mandarin_demo": Corpus(mandarin_demo.prepare, False, mandarin_demo.ABOUT),
    "hsk_words": Corpus(hsk_words.prepare, True, hsk_words.ABOUT),
    "digits": Corpus(digits.prepare, True, digits.ABOUT),
}


def prepare_corpus(name: str, source: str, target: Path) -> dict[str, Path]:
    """Manifests of a corpus by split, made where they are not there yet.

    Args:
        name: a key of CORPORA.
        source: the corpus as downloaded; "" for one that the project carries.
        target: the folder of its manifests, and of audio that had to be converted.

    Raises:
        UserError: there is no such corpus, or no such source.
    """
    if name not in CORPORA:
        known = ", ".join(CORPORA)
        raise UserError(f"data.corpus: expected one of {known}, received {name!r}{nearest(name, CORPORA)}")
    manifests = {split: target / f"{split}.jsonl" for split in SPLITS}
    corpus = CORPORA[name]
    origin = target / "source.txt"
    wanted = str(Path(source).resolve()) if corpus.needs_source else "carried by the project"
    if all(path.exists() for path in manifests.values()):
        found = origin.read_text(encoding="utf-8").strip() if origin.exists() else "another place"
        if found != wanted:
            raise UserError(
                f"{target}: prepared from {found}, not from {wanted}; remove that folder, "
                "or choose another data.prepared_dir"
            )
        return manifests
    if corpus.needs_source and not Path(source).is_dir():
        raise UserError(
            f"{name}: no folder {source!r} with its recordings ({corpus.about}); "
            "say where they are with --set data.source=FOLDER"
        )
    try:
        splits = corpus.prepare(Path(source), target)
        origin.write_text(wanted + "\n", encoding="utf-8")
        for split, path in manifests.items():
            write_manifest(path, splits[split])
    except OSError as error:
        raise UserError(
            f"{target}: cannot prepare {name} here ({error.strerror}); choose another data.prepared_dir"
        ) from None
    return manifests
