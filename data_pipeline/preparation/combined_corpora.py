"""Join prepared corpora into one training set, and set speakers aside who are tested on but never trained on.

data/mandarin_demo/train.jsonl, ...                     each corpus as `prepare_corpus` makes it
data/mine/train.jsonl, ...
data/mandarin_demo+mine/train.jsonl, dev.jsonl, ...     the joint manifests

Ids and speakers get their corpus's name in front, since two corpora may use the same ones.
"""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from asr.base.text.units import unit_of
from asr.base.text.wording import counted, did_you_mean, duration, listed
from asr.base.types import Utterance
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.manifests.left_out import reason_lines, write_left_out
from data_pipeline.manifests.manifest import holds_utterances, read_manifest, write_manifest
from data_pipeline.preparation.description import (
    LEFT_OUT,
    OWN_UNITS,
    PreparedCorpus,
    prepared_before,
    write_prepared,
)
from data_pipeline.preparation.learned_units import (
    PieceUnits,
    labelled_by_pieces,
    setting_of,
    split_units,
    write_pieces,
)
from data_pipeline.preparation.prepare import prepare_corpus, refuse_missing_source
from data_pipeline.recordings.concatenated_words import joined_utterances
from data_pipeline.types import SPLITS

LONGEST_NAME = 120  # of a folder, in bytes
NUM_NAMED = 8  # speakers in an error
MAX_WEIGHT = 1000.0

Sets = Mapping[str, Sequence[Utterance]]  # utterances by split


@dataclass(frozen=True)
class CorpusPart:
    """A corpus to train on.

    Attributes:
        name: of the corpus among the others, and of its folder.
        corpus: a corpus or form of `data_pipeline.corpora`; the name itself where no other is given.
        source: the corpus as downloaded; "" if none is given.
    """

    name: str
    corpus: str
    source: str = ""


@dataclass(frozen=True)
class JointCorpora:
    """The manifests of joint corpora.

    Attributes:
        folder: of the manifests.
        manifests: by split.
        prepared: each corpus.
        train: utterances and seconds of training of each corpus, by its name; empty for a single corpus
            without held-out speakers, which keeps its own manifests.
        notes: lines on how pieces were made of their text.
    """

    folder: Path
    manifests: Mapping[str, Path]
    prepared: Sequence[PreparedCorpus]
    train: Mapping[str, tuple[int, float]] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()

    def lines(self, weights: Mapping[str, float]) -> list[str]:
        """Return what was prepared for display, and what each corpus contributes to an epoch.

        Args:
            weights: how often an utterance of a corpus occurs in an epoch, 1 where it is not named.
        """
        lines = [line for prepared in self.prepared for line in prepared.lines()]
        total_s = sum(weights.get(name, 1.0) * train_s for name, (_, train_s) in self.train.items())
        if len(self.train) > 1:
            width = max(map(len, self.train))
            lines.append(f"joint training: {self.folder}")
            lines += [
                f"  {name:<{width}} {counted(num, 'utterance'):>18} {duration(train_s):>14}   "
                f"{weights.get(name, 1.0) * train_s / total_s:4.0%} of an epoch"
                for name, (num, train_s) in self.train.items()
            ]
        if self.train:
            further = [
                str(path)
                for one in self.prepared
                for name, path in one.manifests.items()
                if name not in SPLITS
            ]
            if further:
                lines.append(f"  not evaluated; data.more_tests may name them: {', '.join(further)}")
        return [*lines, *(f"  {note.strip()}" for note in self.notes)]


def parts_of(corpora: str, sources: str) -> list[CorpusPart]:
    """Return the corpora that two settings name.

    Args:
        corpora: `data.corpus`, such as "thchs30" or "mandarin_demo, mine=table".
        sources: `data.source`: the folder of a single corpus; of several "thchs30=FOLDER, mine=FILE", in
            which a folder without a name holds a folder for each of the others, by its name.

    Raises:
        UserError: a name appears twice or belongs to no corpus.
    """
    parts = []
    for entry in _entries(corpora):
        name, _, corpus = (text.strip() for text in entry.partition("="))
        parts.append(CorpusPart(name, corpus or name))
    names = [part.name for part in parts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(
            f"data.corpus: {min(twice)} appears twice; give each a name of its own, such as "
            f"{min(twice)}_a={min(twice)}"
        )
    if wrong := [name for name in names if Path(name).name != name or name in ("", ".", "..")]:
        raise UserError(f"data.corpus: expected a name, received {wrong[0]!r}")
    if len(parts) == 1 and not sources.startswith(f"{names[0]}="):
        return [dataclasses.replace(parts[0], source=sources)]
    named = dict(_named(entry, names, "data.source") for entry in _entries(sources) if "=" in entry)
    roots = [entry for entry in _entries(sources) if "=" not in entry]
    if len(roots) > 1:
        raise UserError(
            f"data.source: {roots[0]} and {roots[1]} have no name; expected at most one such folder, which "
            "holds the others by their names, and NAME=FOLDER for the rest"
        )
    root = Path(roots[0]) if roots else None
    return [
        dataclasses.replace(part, source=named.get(part.name, str(root / part.name) if root else ""))
        for part in parts
    ]


def weights_of(weights: str, names: Sequence[str]) -> dict[str, float]:
    """Return the weights that `data.weights` names, such as "keywords=0.2, thchs30=2".

    Raises:
        UserError: a corpus is not among these names, there is only one, or a weight is not a number above 0.
    """
    if weights.strip() and len(names) < 2:
        raise UserError(
            f"data.weights: expected several corpora to weigh, received {weights!r} for a single one; leave "
            "it out, or name several in data.corpus"
        )
    found: dict[str, float] = {}
    for entry in _entries(weights):
        name, number = _named(entry, names, "data.weights")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if not 0 < weight <= MAX_WEIGHT:
            raise UserError(
                f"data.weights: {name}: expected a number above 0, up to {MAX_WEIGHT:g}, received {number!r}"
            )
        found[name] = weight
    return found


def folder_of(
    parts: Sequence[CorpusPart], prepared_dir: Path, held_out_speakers: str = "", strings: str = ""
) -> Path:
    """Return the folder of the manifests; no other corpora, held-out speakers or strings have the same.

    Args:
        parts: the corpora.
        prepared_dir: folder of all prepared corpora.
        held_out_speakers: names, separated by commas.
        strings: corpora whose training set is joined to strings, separated by commas.
    """
    name = "+".join(part.name for part in parts)
    name += "".join(f"-without-{speaker}" for speaker in _entries(held_out_speakers))
    name += "".join(f"-strings-{corpus}" for corpus in _entries(strings))
    encoded = name.encode()
    if len(encoded) > LONGEST_NAME or Path(name).name != name:
        name = f"{parts[0].name}+{len(parts) - 1}-{zlib.crc32(encoded):08x}"
    return prepared_dir / name


def prepare_joint(
    parts: Sequence[CorpusPart],
    prepared_dir: Path,
    units: str | None = None,
    held_out_speakers: str = "",
    strings: str = "",
    on_progress: OnProgress = ignore_progress,
) -> JointCorpora:
    """Prepare corpora, and join their manifests; wait while another process joins the same ones.

    Utterances of held-out speakers are in the test set only, where they replace their corpus's own. One
    corpus without held-out speakers and strings keeps its own manifests.

    Args:
        parts: the corpora.
        prepared_dir: folder of all prepared corpora.
        units: of the labels; see `prepare_corpus`.
        held_out_speakers: names, separated by commas; "mine-a" for speaker `a` of `mine` only.
        strings: corpora whose training set is joined to strings, separated by commas; see
            `data_pipeline.recordings.concatenated_words`.
        on_progress: receives the progress of preparation.

    Raises:
        UserError: a corpus cannot be prepared, their labels are of different units, a speaker does not
            exist, nothing is left to train on, or the same corpora were joined with other units.
    """
    speakers = _entries(held_out_speakers)
    target = folder_of(parts, prepared_dir, held_out_speakers, strings)
    names = [part.name for part in parts]
    with_strings = [_known(name, names, "data.strings") for name in _entries(strings)]
    is_single = len(parts) == 1 and not speakers and not with_strings
    unit, by_pieces = split_units(units)
    own_units = setting_of(unit) if by_pieces and not is_single else units
    by_pieces = None if is_single else by_pieces
    _refuse_missing_sources(parts, prepared_dir, own_units)
    prepared = [
        prepare_corpus(part.corpus, part.source, prepared_dir / part.name, own_units, on_progress=on_progress)
        for part in parts
    ]
    if is_single:
        return JointCorpora(target, prepared[0].manifests, prepared)
    sets: dict[str, Sets] = {
        part.name: {
            split: _read(one.manifests[split], part.name) for split in SPLITS if split in one.manifests
        }
        for part, one in zip(parts, prepared, strict=True)
    }
    if by_pieces is None:  # else all are labelled from their text, some perhaps without a Latin word
        _refuse_different_units(sets)
    sets = _with_held_out(sets, speakers)
    if not any(of_part.get("train") for of_part in sets.values()):
        raise UserError("data.held_out_speakers: no utterance is left to train on; name fewer speakers")
    labels = prepared[0].labels if len({one.labels for one in prepared}) == 1 else None
    origin = {
        "corpus": ", ".join(sets),
        "source": "",
        "units": units or OWN_UNITS,
        "held_out_speakers": ", ".join(speakers),
        "strings": ", ".join(with_strings),
    }
    _refuse_same_names(sets)
    waiting = Work("waiting for another training that joins these corpora", 0)
    notes: list[str] = []
    with exclusive_lock(target, "joining corpora", on_wait=lambda: on_progress(waiting)):
        # the folder's name has all else of its origin
        prepared_before(target, {"units": origin["units"]}, other_units=False)
        if by_pieces is not None:
            sets, notes = _with_pieces(sets, by_pieces, target, on_progress)
        else:
            write_pieces(target, None)
        for name in with_strings:  # no other process removes what is being written
            words = sets[name].get("train", [])
            joined = joined_utterances(words, target / "strings" / name, on_progress)
            sets[name] = {**sets[name], "train": joined}
        joint = {
            split: [utterance for of_part in sets.values() for utterance in of_part.get(split, [])]
            for split in SPLITS
        }
        manifests = {split: target / f"{split}.jsonl" for split in SPLITS if joint[split]}
        for split, path in manifests.items():
            if not holds_utterances(path, joint[split]):  # a changed file would be checked again
                write_manifest(path, joint[split])
        write_prepared(target, origin, manifests, labels, finished=True)
    train = {
        name: (len(of_part["train"]), sum(utterance.duration_s for utterance in of_part["train"]))
        for name, of_part in sets.items()
        if of_part.get("train")
    }
    return JointCorpora(target, manifests, prepared, train, notes)


def _with_pieces(
    sets: Mapping[str, Sets], units: PieceUnits, folder: Path, on_progress: OnProgress
) -> tuple[dict[str, Sets], list[str]]:
    """Return the sets labelled by pieces of the training text of all, and lines on how; write the model."""
    everything = {
        split: [utterance for of_part in sets.values() for utterance in of_part.get(split, [])]
        for split in SPLITS
    }
    labelled = labelled_by_pieces(everything, units, on_progress)
    write_pieces(folder, labelled.pieces)
    write_left_out(folder / LEFT_OUT, labelled.left_out)
    found: dict[str, Sets] = {
        name: {
            split: [utterance for utterance in rows if utterance.corpus == name]
            for split, rows in labelled.kept.items()
        }
        for name in sets
    }
    return found, [labelled.note, *reason_lines(labelled.left_out, folder / LEFT_OUT)]


def _refuse_same_names(sets: Mapping[str, Sets]) -> None:
    """Raise a UserError where names that begin with those of their corpora are the same in two of them."""
    for name, longer in itertools.permutations(sets, 2):
        if not longer.startswith(f"{name}-"):
            continue
        for what, field in (("speaker", "speaker"), ("recording", "id")):
            one, other = (
                {getattr(utterance, field) for rows in sets[part].values() for utterance in rows} - {""}
                for part in (name, longer)
            )
            if shared := sorted(one & other):
                raise UserError(
                    f"data.corpus: {name} and {longer} would both have the {what} {shared[0]!r}, since names "
                    "begin with that of their corpus; give one of the corpora another name"
                )


def _entries(setting: str) -> list[str]:
    return [entry for text in setting.split(",") if (entry := text.strip())]


def _named(entry: str, names: Sequence[str], key: str) -> tuple[str, str]:
    """Split NAME=VALUE, whose name must be one of the corpora's."""
    name, equals, value = (text.strip() for text in entry.partition("="))
    if not (equals and value):
        raise UserError(f"{key}: expected NAME=VALUE, separated by commas, received {entry!r}")
    return _known(name, names, key), value


def _known(name: str, names: Sequence[str], key: str) -> str:
    if name not in names:
        raise UserError(
            f"{key}: {name} is not among the corpora {', '.join(names)}{did_you_mean(name, names)}"
        )
    return name


def _refuse_missing_sources(parts: Sequence[CorpusPart], prepared_dir: Path, units: str | None) -> None:
    """Raise a UserError that names all corpora which cannot be prepared, before hours go into the first."""
    errors = []
    for part in parts:
        listed_as = part.name if len(parts) > 1 else ""
        try:
            refuse_missing_source(
                part.corpus, part.source, prepared_dir / part.name, units, listed_as=listed_as
            )
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError("\n".join(errors))


def _read(manifest: Path, name: str) -> list[Utterance]:
    return [
        dataclasses.replace(
            utterance,
            id=f"{name}-{utterance.id}",
            speaker=utterance.speaker and f"{name}-{utterance.speaker}",
            corpus=name,
        )
        for utterance in read_manifest(manifest)
    ]


def _refuse_different_units(sets: Mapping[str, Sets]) -> None:
    """Raise a UserError for corpora that cannot share an output layer."""
    units = {
        name: unit_of({token for utterance in of_part.get("train", []) for token in utterance.tokens})
        for name, of_part in sets.items()
    }
    if len(set(units.values())) > 1:
        found = ", ".join(f"{unit} of {name}" for name, unit in units.items())
        raise UserError(f"data.corpus: labels of different units: {found}; set data.units for all of them")


def _with_held_out(sets: Mapping[str, Sets], asked: Sequence[str]) -> dict[str, Sets]:
    """Return the sets with the utterances of some speakers as their corpus's test set, and nowhere else."""
    speakers = {
        utterance.speaker
        for of_part in sets.values()
        for utterances in of_part.values()
        for utterance in utterances
    } - {""}
    held_out: set[str] = set()
    for name in asked:
        found = speakers & {name, *(f"{part}-{name}" for part in sets)}
        if not found:
            known = sorted(speakers)
            similar = did_you_mean(name, known)
            raise UserError(
                f"data.held_out_speakers: no speaker {name}{similar}; there "
                + (f"are {listed(known, NUM_NAMED)}" if known else "is no speaker known by name")
            )
        held_out |= found
    return {name: _without(of_part, held_out) for name, of_part in sets.items()}


def _without(sets: Sets, held_out: set[str]) -> Sets:
    test = [u for utterances in sets.values() for u in utterances if u.speaker in held_out]
    if not test:
        return sets
    kept = {split: [u for u in utterances if u.speaker not in held_out] for split, utterances in sets.items()}
    return {**kept, "test": test}
