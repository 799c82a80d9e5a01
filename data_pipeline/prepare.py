"""A corpus as downloaded -> manifests, in one command that tells everything it leaves out.

data/thchs30/train.jsonl, dev.jsonl, test.jsonl    what can be used
data/thchs30/left_out.tsv                          what cannot, and why; a line each
data/thchs30/prepared.json                         where it comes from, and whether all is there
data/thchs30/audio/                                recordings that had to be cut or converted
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, audio_duration_s, refuse_pipe
from asr.base.files import cannot_write, is_utf8, whole_file
from asr.base.lock import alone_in
from asr.base.types import UserError, Utterance
from asr.base.units import Unit
from data_pipeline.corpora import FORMS, find_corpus
from data_pipeline.corpora.layout import PREPARED
from data_pipeline.corpora.listed import ID_TWICE
from data_pipeline.corpora.recording import UNREADABLE_AUDIO, Corpus, LeftOut, Recording
from data_pipeline.corpora.syllables import syllables_of
from data_pipeline.labels import UnlabelledError, label
from data_pipeline.left_out import reasons_told, write_left_out
from data_pipeline.manifest import write_manifest
from data_pipeline.segments import cut_segments
from data_pipeline.splitting import complete_splits
from data_pipeline.work import in_threads

LEFT_OUT = "left_out.tsv"
OWN_UNITS = "its own"

Kept = TypeVar("Kept")


def prepare_corpus(
    name: str, source: str, target: Path, units: Unit | None = None, *, again: bool = False
) -> dict[str, Path]:
    """Manifests of a corpus by split, made where they are not there yet.

    Args:
        name: of a corpus or a form that `data_pipeline.corpora` knows.
        source: the corpus as downloaded; "" for one that the project carries.
        target: the folder of its manifests, and of audio that had to be made.
        units: to cut the text into; None for the corpus's own labels, where it brings them, and else the
            units it is usually labelled with.
        again: prepare even if that was done before.

    Raises:
        UserError: there is no such corpus or no such source, it holds nothing that can be used, or
            something else was prepared in the target.
    """
    corpus = find_corpus(name)
    origin = {
        "corpus": name,
        "source": str(Path(source).resolve()) if corpus.needs_source else "",
        "units": units or OWN_UNITS,
    }
    before = _prepared_before(target, origin, other_units=again)
    if before.is_whole and not again:
        return before.manifests
    if corpus.needs_source and not (source and Path(source).exists()):
        raise UserError(
            f"{name}: no folder {source!r} with its recordings; {where_from(name, corpus)}. "
            "Training finds it by --set data.source=FOLDER"
        )
    with alone_in(target, "asr prepare"):
        try:
            return _prepare(corpus, Path(source), target, origin, before.manifests)
        except OSError as error:
            path = Path(str(error.filename or target))
            if error.filename and not path.resolve().is_relative_to(target.resolve()):
                raise UserError(f"{path}: cannot read this ({error.strerror})") from None
            raise cannot_write(path, "corpus", error) from None


def where_from(name: str, corpus: Corpus) -> str:
    """How a user comes by a corpus."""
    layout = f"; the folder holds {corpus.layout}" if corpus.layout else ""
    if corpus.archives:
        return f"`asr download {name} FOLDER` fetches it{layout}"
    return f"get it from {corpus.address}{layout}" if corpus.address else f"expected {corpus.about}{layout}"


@dataclass(frozen=True)
class _Before:
    """What an earlier command made in a target.

    Attributes:
        manifests: by split, or those that it was about to write.
        is_whole: whether it came to its end, and all of them are still there.
    """

    manifests: dict[str, Path]
    is_whole: bool


def _prepared_before(target: Path, origin: dict[str, str], *, other_units: bool) -> _Before:
    """What there is already.

    Raises:
        UserError: it is of something else; other units are no matter where all is made again.
    """
    try:
        found = json.loads((target / PREPARED).read_text(encoding="utf-8"))
        manifests = {split: target / file for split, file in found["manifests"].items()}
        is_finished = bool(found["finished"])
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError, KeyError, TypeError):
        return _Before({}, is_whole=False)
    for key, wanted in origin.items():
        if found.get(key) != wanted and not (other_units and key == "units"):
            raise UserError(
                f"{target}: prepared from {key} {found.get(key)!r}, not from {wanted!r}; remove that folder, "
                "or choose another one (in a configuration: data.prepared_dir)"
            )
    return _Before(manifests, is_finished and all(path.exists() for path in manifests.values()))


def _write_prepared(
    target: Path, origin: dict[str, str], manifests: dict[str, Path], *, finished: bool
) -> None:
    names = {split: path.name for split, path in manifests.items()}
    with whole_file(target / PREPARED, "description") as file:
        described = {**origin, "manifests": names, "finished": finished}
        file.write(
            json.dumps(described, ensure_ascii=False, indent=2).encode(errors="backslashreplace") + b"\n"
        )


def _prepare(
    corpus: Corpus, source: Path, target: Path, origin: dict[str, Any], before: dict[str, Path]
) -> dict[str, Path]:
    name = origin["corpus"]
    labels_given = origin["units"] == OWN_UNITS
    units = corpus.units if labels_given else origin["units"]
    reading = corpus.read(source, target)
    splits, how_cut = complete_splits(reading.splits, may_cut_train=name in FORMS)
    left_out = list(reading.left_out)
    num_found = sum(map(len, splits.values())) + len(left_out)
    by_split = _with_ids_of_their_own(splits, left_out)
    split_of = {recording.id: split for split, rows in by_split.items() for recording in rows}
    recordings = [recording for rows in by_split.values() for recording in rows]
    labelled = (_labelled(r, units, labels_given) for r in tqdm(recordings, f"{name}: labels", unit=" clips"))
    recordings = _kept(labelled, left_out)
    recordings = _kept(cut_segments(recordings, target / "audio"), left_out)
    utterances = _kept(in_threads(_measured, recordings, f"{name}: headers"), left_out)

    write_left_out(target / LEFT_OUT, left_out)
    told = reasons_told(left_out, target / LEFT_OUT)
    if not utterances:
        raise UserError("\n".join([f"{source}: nothing that can be used", *told]))
    usable: dict[str, list[Utterance]] = collections.defaultdict(list)
    for utterance in utterances:
        usable[split_of[utterance.id]].append(utterance)
    usable = {split: usable[split] for split in splits if split in usable}
    manifests = _write_manifests(target, origin, before, usable)

    print(f"{name}: {target}")
    for split, rows in usable.items():
        print(f"  {_summary(split, rows)}")
    if how_cut:
        print(f"  {how_cut}")
    if left_out:
        print(f"  left out: {len(left_out):,} of {num_found:,}")
        print("\n".join(told))
    return manifests


def _write_manifests(
    target: Path,
    origin: dict[str, str],
    before: dict[str, Path],
    usable: dict[str, list[Utterance]],
) -> dict[str, Path]:
    """A manifest for each split in place of those made before; nobody else's is written over."""
    manifests = {split: target / f"{split}.jsonl" for split in usable}
    for path in manifests.values():
        if path.exists() and path not in before.values():
            raise UserError(f"{path}: was not made by asr prepare, and would be lost; choose another folder")
    _write_prepared(target, origin, {**before, **manifests}, finished=False)
    for split, path in manifests.items():
        write_manifest(path, usable[split])
    for stale in set(before.values()) - set(manifests.values()):
        stale.unlink(missing_ok=True)  # of a split that is not there any more
    _write_prepared(target, origin, manifests, finished=True)
    return manifests


def _kept(results: Iterable[Kept | LeftOut], left_out: list[LeftOut]) -> list[Kept]:
    """Part what can be used from what cannot."""
    kept: list[Kept] = []
    for result in results:
        if isinstance(result, LeftOut):
            left_out.append(result)
        else:
            kept.append(result)
    return kept


def _with_ids_of_their_own(
    splits: dict[str, list[Recording]], left_out: list[LeftOut]
) -> dict[str, list[Recording]]:
    """Recordings whose ids differ in all splits, those first that are tested on.

    Of one recording in two splits the first stays; another recording of the same id gets its split's name
    before it.
    """
    order = sorted(splits, key=lambda split: (split == "train", not split.startswith("test")))
    seen: dict[str, Recording] = {}
    own: dict[str, list[Recording]] = {}
    for split in order:
        own[split] = []
        for recording in splits[split]:
            other = seen.get(recording.id)
            if other and _place(other) != _place(recording):
                recording = dataclasses.replace(recording, id=f"{split}-{recording.id}")
            if recording.id in seen:
                left_out.append(LeftOut(recording.audio_path, ID_TWICE, recording.id))
            else:
                seen[recording.id] = recording
                own[split].append(recording)
    return own


def _place(recording: Recording) -> tuple[str, float, float | None]:
    return recording.audio_path, recording.begin_s, recording.end_s


def _labelled(recording: Recording, units: Unit, labels_given: bool) -> Recording | LeftOut:
    try:
        if not (recording.tokens and labels_given):
            tokens = label(recording.text, units)
        elif units == "syllables":
            tokens = syllables_of(" ".join(recording.tokens))
        else:
            tokens = recording.tokens
    except UnlabelledError as error:
        return LeftOut(recording.audio_path, error.reason, error.detail)
    except UserError as error:
        return LeftOut(recording.audio_path, "labels that are no syllables", str(error))
    return dataclasses.replace(recording, tokens=tokens)


def _measured(recording: Recording) -> Utterance | LeftOut:
    path = recording.audio_path
    if not (is_utf8(path) and is_utf8(recording.id)):
        return LeftOut(path, "a name that is not UTF-8; rename it")
    try:
        refuse_pipe(path)
        duration_s = audio_duration_s(path)
    except UserError as error:
        reason = UNREADABLE_AUDIO if Path(path).exists() else "no such audio file"
        return LeftOut(path, reason, str(error).removeprefix(f"{path}: "))
    if duration_s * SAMPLE_RATE_HZ < WINDOW_SAMPLES:
        return LeftOut(path, "audio shorter than 25 ms", f"{duration_s * 1000:.1f} ms")
    return Utterance(recording.id, path, duration_s, recording.text, recording.tokens, recording.speaker)


def _summary(split: str, utterances: Sequence[Utterance]) -> str:
    hours = sum(utterance.duration_s for utterance in utterances) / 3600
    speakers = len({utterance.speaker for utterance in utterances} - {""})
    return f"{split:<8} {len(utterances):>9,} utterances {hours:>9,.2f} h {speakers:>6,} speakers"
