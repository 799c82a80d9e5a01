"""Split recordings into train, dev and test if their corpus has no splits."""

from __future__ import annotations

import operator
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from data_pipeline.text.sentences import sentence_key
from data_pipeline.types import Recording

HELD_OUT = 0.05  # of the recordings, for each of dev and test
ENOUGH_SPEAKERS, FEW_SPEAKERS = 10, 3
ENOUGH_SENTENCES = 20  # with fewer, a split would hold a single sentence


def complete_splits(
    splits: Mapping[str, Sequence[Recording]], *, may_cut_train: bool = True
) -> tuple[dict[str, Sequence[Recording]], str]:
    """Return splits with train, dev and test if possible, and a note how missing ones were made, or "".

    "all" is cut into three, so that no speaker is in two of them; with fewer than ten speakers, so that no
    sentence is. The same recordings are always cut in the same way.

    Args:
        splits: as the corpus has them.
        may_cut_train: whether a missing dev split may be taken from train, too.
    """
    # recordings outside the corpus's splits are used for training
    everything = [*splits.get("train", []), *splits.get("all", [])]
    others = {name: recordings for name, recordings in splits.items() if name not in ("all", "train")}
    wanted = [name for name in ("test", "dev") if name not in others]
    if "all" not in splits:
        # a known corpus must not be evaluated on another dev set than its own
        wanted = [name for name in wanted if name == "dev" and may_cut_train]
    if not everything or not wanted:
        return {**({"train": everything} if everything else {}), **others}, ""
    key, what = _separated_by(everything)
    cut = _cut(everything, wanted, key)
    return {**cut, **others}, _note([name for name in ("dev", "test") if name in wanted], cut, what)


def splits_by_speaker(recordings: Sequence[Recording]) -> tuple[dict[str, Sequence[Recording]], str]:
    """Return train, dev and test with different speakers, however few these are, and a note.

    Args:
        recordings: of at least FEW_SPEAKERS speakers.
    """
    wanted = ("test", "dev")
    sizes = sorted(Counter(map(_speaker, recordings)).values())
    largest = max(sizes[len(wanted) - 1], 2 * HELD_OUT * len(recordings))  # so that there is one for each
    cut = _cut(recordings, wanted, _speaker, largest)
    return {**cut}, "dev and test made of other speakers, of few recordings where there is a choice"


def _note(wanted: Sequence[str], cut: Mapping[str, Sequence[Recording]], what: str) -> str:
    missing = " and ".join(name for name in wanted if not cut[name])
    if missing:
        return f"too few recordings to make {missing}; add recordings, or splits of your own"
    each = " each" * (len(wanted) > 1)
    return f"{' and '.join(wanted)} made of {HELD_OUT:.0%} of the recordings{each}, {what}"


def _separated_by(recordings: Sequence[Recording]) -> tuple[Callable[[Recording], str], str]:
    speakers = {recording.speaker for recording in recordings}
    sentences = {_sentence(recording) for recording in recordings}
    by_speaker = (_speaker, "no speaker in two of them")
    if "" not in speakers and len(speakers) >= ENOUGH_SPEAKERS:
        return by_speaker
    if len(sentences) >= min(ENOUGH_SENTENCES, len(recordings) / 2):
        return _sentence, "no sentence in two of them"
    if "" not in speakers and len(speakers) >= FEW_SPEAKERS:
        return by_speaker
    return operator.attrgetter("id"), "the same sentences in all of them"


def _speaker(recording: Recording) -> str:
    return recording.speaker


def _sentence(recording: Recording) -> str:
    return sentence_key(recording.text, recording.tokens) or recording.id


def _cut(
    recordings: Sequence[Recording],
    wanted: Sequence[str],
    key: Callable[[Recording], str],
    largest: float | None = None,
) -> dict[str, list[Recording]]:
    """Move whole groups of equal key to the wanted splits until each has its share; the rest is train.

    Args:
        recordings: all of them.
        wanted: names of splits.
        key: of a recording.
        largest: recordings of a group that may be moved; None for twice the share.
    """
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(key(recording), []).append(recording)
    # order by checksum, so that neither the corpus's order nor the alphabet matters
    order = sorted(groups, key=lambda name: (zlib.crc32(name.encode(errors="backslashreplace")), name))
    target = HELD_OUT * len(recordings)
    largest = max(2 * target, 1) if largest is None else largest
    small = [name for name in order if len(groups[name]) <= largest]
    split_of: dict[str, str] = {}
    for number, split in enumerate(wanted, 1):
        taken, num_later = 0, len(wanted) - number
        for name in small:
            if name in split_of or taken >= target or len(order) - len(split_of) == 1:
                continue
            is_spare = len(small) - len(split_of) > num_later  # each of the later splits can have one
            if not taken or (is_spare and taken + len(groups[name]) <= 2 * target):
                split_of[name] = split
                taken += len(groups[name])
    cut: dict[str, list[Recording]] = {
        split: [] for split in ("train", "dev", "test") if split in {*wanted, "train"}
    }
    for recording in recordings:
        cut[split_of.get(key(recording), "train")].append(recording)
    return cut
