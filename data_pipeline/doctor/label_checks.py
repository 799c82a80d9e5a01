"""Checks labels and texts: damaged characters, the vocabulary, the number of frames, the speaking rate."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.errors import UserError
from asr.base.text.hanzi_text import hanzi_in
from asr.base.text.pinyin import known_syllables
from asr.base.text.units import unit_of
from asr.base.text.wording import counted
from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor.contents import Entries
from data_pipeline.doctor.findings import Finding, ManifestLine, about
from data_pipeline.doctor.text_defects import damage, is_composed, unseen, unusual_space
from data_pipeline.manifests.columns import Columns

MIN_TO_COMPARE = 20  # utterances; with fewer, outliers cannot be identified
# of words, sentences and syllables together, these find 16 of 20 swapped texts, 19 of 20 recordings cut to
# a fifth and 20 of 20 with 20 s of silence, with no false warning in 12,369 (tests/data_pipeline/doctor)
OUTLIER_SPREADS = 5.0  # median absolute deviations of the logarithm
OUTLIER_FACTOR = 2.0
GROUP_SIZE = 8  # utterances of similar length whose medians are compared with
ALONE_FACTOR = 2.5


@dataclass(frozen=True)
class LabelRules:
    """What labels are checked against.

    Attributes:
        vocabulary: vocabulary of the model; None if unknown.
        frames_needed: returns the smallest number of frames for which CTC can align label ids.
        num_output_frames: returns the number of frames of the model for a number of samples.
        model: name of the model, for people.
        batch_s: the configuration's train.batch_s; None to skip this check.
    """

    vocabulary: Vocabulary | None
    frames_needed: Callable[[list[int]], int]
    num_output_frames: Callable[[int], int]
    model: str
    batch_s: float | None = None


def vocabulary_of(columns: Columns) -> tuple[Vocabulary | None, list[Finding]]:
    """Return the vocabulary of training on utterances, None if there is none, and findings about it."""
    tokens = sorted(columns.tokens_in_use())
    if not tokens:
        return None, []
    return _checked(lambda: Vocabulary(tokens))


def load_vocabulary(path: Path) -> tuple[Vocabulary | None, list[Finding]]:
    """Return the vocabulary of a file, None if it is broken, and findings about it."""
    return _checked(lambda: Vocabulary.load(path))


def label_findings(entry: ManifestLine, duration_s: float, rules: LabelRules) -> Iterator[Finding]:
    """Yield the defects of an utterance's tokens, alone and compared with its audio.

    Args:
        entry: the utterance.
        duration_s: duration of its audio.
        rules: rules for labels.
    """
    tokens = entry.utterance.tokens
    if not tokens:
        yield about(entry, "no-label", "tokens: empty")
        return
    if damaged := damage(" ".join(tokens)) or next(filter(None, map(unseen, tokens)), ""):
        yield about(entry, "damaged-label", damaged)
    elif rules.vocabulary and (unknown := [token for token in tokens if token not in rules.vocabulary]):
        code = "unknown-token" if entry.source.role == "train" else "unseen-token"
        yield about(entry, code, ", ".join(map(repr, dict.fromkeys(unknown))))
    ids = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    needed = rules.frames_needed([ids[token] for token in tokens])
    available = max(0, int(rules.num_output_frames(round(duration_s * SAMPLE_RATE_HZ))))
    if needed > available:
        repeats = f" and {counted(needed - len(tokens), 'repeat')}" if needed > len(tokens) else ""
        yield about(
            entry,
            "too-many-tokens",
            f"{counted(len(tokens), 'token')}{repeats}, expected at least {counted(needed, 'frame')}; "
            f"{duration_s:.2f} s give {available}",
        )
    if rules.batch_s and duration_s > rules.batch_s:
        yield about(entry, "longer-than-batch", f"{duration_s:.2f} s, train.batch_s is {rules.batch_s:g} s")


def text_findings(entry: ManifestLine) -> Iterator[Finding]:
    """Yield the defects of the characters of an utterance's id, text and speaker."""
    utterance = entry.utterance
    fields = {"id": utterance.id, "text": utterance.text, "speaker": utterance.speaker}
    for name, text in fields.items():
        if text.isascii() and text.isprintable():
            continue
        if damaged := damage(text):
            yield about(entry, "damaged-text", f"{name}: {damaged}")
        if space := unusual_space(text):
            yield about(entry, "odd-space", f"{name}: {text!r} contains {space}")
        if not is_composed(text):
            yield about(entry, "decomposed", f"{name}: {text!r}")


def form_findings(entries: Entries) -> Iterator[Finding]:
    """Yield tokens that occur in two Unicode forms, which the vocabulary counts as two tokens."""
    columns = entries.columns
    counts = columns.token_counts()
    for token, count in sorted(counts.items()):
        composed = unicodedata.normalize("NFC", token)
        if composed != token and composed in counts:
            first = columns.first_with(token)
            detail = f"{composed!r}: {counts[composed]} composed (NFC), {count} decomposed"
            yield about(entries[first], "mixed-forms", detail)


def tokens_among_syllables(columns: Columns, vocabulary: Vocabulary | None = None) -> set[str] | None:
    """Return the tokens that are not syllables where most are; None if the units are others.

    Args:
        columns: of all utterances.
        vocabulary: that training would use; with mixed units, labels may have other tokens. None if unknown.
    """
    counts = columns.token_counts()
    is_mixed = vocabulary is not None and vocabulary.unit == "mixed"
    if is_mixed or unit_of(counts) != "syllables":
        return None
    syllables = known_syllables()
    erhua = {syllable[:-1] + "r" + syllable[-1] for syllable in syllables}
    return counts.keys() - syllables - erhua


def syllable_findings(entry: ManifestLine, odd: set[str]) -> Iterator[Finding]:
    """Yield tokens that are not syllables, and a text whose length differs from its label.

    Args:
        entry: one of those whose units are syllables.
        odd: tokens that are none.
    """
    utterance = entry.utterance
    if found := [token for token in dict.fromkeys(utterance.tokens) if token in odd]:
        yield about(entry, "odd-token", ", ".join(map(repr, found)))
    if not utterance.tokens or any(char.isalnum() and not hanzi_in(char) for char in utterance.text):
        return
    hanzi = len(hanzi_in(utterance.text))
    if hanzi and not hanzi - utterance.text.count("儿") <= len(utterance.tokens) <= hanzi:
        yield about(entry, "text-and-tokens", f"{hanzi} hanzi, {counted(len(utterance.tokens), 'token')}")


def rate_findings(
    entries: Sequence[ManifestLine],
    num_tokens: npt.NDArray[np.int64],
    durations_s: npt.NDArray[np.float64],
) -> Iterator[Finding]:
    """Yield utterances that are much too long or short for their text, or of a length like no other's.

    A set may have several kinds, such as words and sentences: a duration is compared with those of texts of
    a similar length.

    Args:
        entries: of all manifests, N of them.
        num_tokens: of each, (N,).
        durations_s: of each one's audio, (N,).
    """
    kept = np.flatnonzero((num_tokens > 0) & (durations_s > 0))
    if len(kept) < MIN_TO_COMPARE:
        return
    seconds, num_tokens = durations_s[kept], num_tokens[kept]
    expected, limits = _expected_seconds(num_tokens, seconds)
    for index in np.flatnonzero(np.abs(np.log(seconds / expected)) > limits):
        tokens = counted(int(num_tokens[index]), "token")
        detail = f"{tokens} in {seconds[index]:.2f} s, expected about {expected[index]:.2f} s"
        yield about(entries[int(kept[index])], "speaking-rate", detail)
    for index in np.flatnonzero(_is_alone(np.log(seconds))):
        detail = f"{seconds[index]:.2f} s, no other is within a factor of {ALONE_FACTOR:g}"
        yield about(entries[int(kept[index])], "unusual-length", detail)


def _checked(make: Callable[[], Vocabulary]) -> tuple[Vocabulary | None, list[Finding]]:
    try:
        return make(), []
    except UserError as error:
        return None, [Finding("broken-vocabulary", str(error))]


def _expected_seconds(
    num_tokens: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Fit the seconds by the number of tokens: lines through the medians of texts of similar lengths.

    A single line does not do: single words have more silence for each token than sentences have.

    Returns:
        of each utterance the expected seconds, and how far the logarithm of its own may be from theirs.
    """
    groups = _groups(num_tokens)
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    tokens = np.array([np.median(num_tokens[member]) for member in members])
    medians_s = np.maximum.accumulate([np.median(seconds[member]) for member in members])
    token_s = medians_s[0] / tokens[0]
    slope = (medians_s[-1] - medians_s[0]) / (tokens[-1] - tokens[0]) if len(members) > 1 else token_s
    shorter = np.maximum(medians_s[0] - slope * (tokens[0] - num_tokens), token_s * num_tokens)
    longer = medians_s[-1] + slope * (num_tokens - tokens[-1])
    expected = np.interp(num_tokens, tokens, medians_s)
    expected = np.where(num_tokens < tokens[0], shorter, expected)
    expected = np.where(num_tokens > tokens[-1], longer, expected)
    distance = np.abs(np.log(seconds / expected))
    usual = np.array([np.median(distance[member]) for member in members])
    spread = np.maximum(usual, np.median(distance))[groups]  # that of a few utterances may be small by chance
    return expected, np.maximum(np.log(OUTLIER_FACTOR), OUTLIER_SPREADS * spread)


def _groups(num_tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the index of each utterance's group, whose texts are of one length, or of several if few."""
    lengths, counts = np.unique(num_tokens, return_counts=True)
    group, size, group_of = 0, 0, []
    for count in counts:
        group_of.append(group)
        size += int(count)
        if size >= GROUP_SIZE:
            group, size = group + 1, 0
    if 0 < size < GROUP_SIZE // 2 and group:  # the longest texts are too few for a group of their own
        group_of = [min(one, group - 1) for one in group_of]
    groups: npt.NDArray[np.int64] = np.array(group_of)[np.searchsorted(lengths, num_tokens)]
    return groups


def _is_alone(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which values have no other one near."""
    gaps = np.diff(np.sort(values), prepend=-np.inf, append=np.inf) > np.log(ALONE_FACTOR)
    alone: npt.NDArray[np.bool_] = (gaps[:-1] & gaps[1:])[np.argsort(np.argsort(values, kind="stable"))]
    return alone
