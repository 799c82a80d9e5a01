"""Checks labels and texts: damaged characters, the vocabulary, the number of frames, the speaking rate."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.errors import UserError
from asr.base.text.hanzi_text import hanzi_in
from asr.base.text.pinyin import mandarin_syllables
from asr.base.text.units import unit_of
from asr.base.text.wording import counted
from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor.findings import Finding, ManifestLine, about
from data_pipeline.doctor.text_defects import damage, is_composed, unseen, unusual_space

MIN_TO_COMPARE = 20  # utterances; with fewer, outliers cannot be identified
OUTLIER_SPREADS = 6.0  # median absolute deviations of the logarithm
OUTLIER_FACTOR = 2.5


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


def vocabulary_of(entries: Iterable[ManifestLine]) -> tuple[Vocabulary | None, list[Finding]]:
    """Return the vocabulary of training on these entries, None if there is none, and findings about it."""
    tokens = sorted({token for entry in entries for token in entry.utterance.tokens})
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


def form_findings(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield tokens that occur in two Unicode forms, which the vocabulary counts as two tokens."""
    counts: Counter[str] = Counter()
    first: dict[str, ManifestLine] = {}
    for entry in entries:
        counts.update(entry.utterance.tokens)
        for token in entry.utterance.tokens:
            first.setdefault(token, entry)
    for token, count in sorted(counts.items()):
        composed = unicodedata.normalize("NFC", token)
        if composed != token and composed in counts:
            detail = f"{composed!r}: {counts[composed]} composed (NFC), {count} decomposed"
            yield about(first[token], "mixed-forms", detail)


def syllable_findings(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield tokens that are not syllables where most are, and texts whose length differs from their label."""
    counts = Counter(token for entry in entries for token in entry.utterance.tokens)
    if unit_of(counts.elements()) != "syllables":
        return
    syllables = set(mandarin_syllables())
    erhua = {syllable[:-1] + "r" + syllable[-1] for syllable in syllables}
    odd = counts.keys() - syllables - erhua
    for entry in entries:
        utterance = entry.utterance
        if found := [token for token in dict.fromkeys(utterance.tokens) if token in odd]:
            yield about(entry, "odd-token", ", ".join(map(repr, found)))
        if not utterance.tokens or any(char.isalnum() and not hanzi_in(char) for char in utterance.text):
            continue
        hanzi = len(hanzi_in(utterance.text))
        if hanzi and not hanzi - utterance.text.count("儿") <= len(utterance.tokens) <= hanzi:
            yield about(entry, "text-and-tokens", f"{hanzi} hanzi, {counted(len(utterance.tokens), 'token')}")


def rate_findings(entries: Sequence[ManifestLine], durations_s: Sequence[float]) -> Iterator[Finding]:
    """Yield utterances that are spoken much faster or slower than the others, or are much longer or shorter.

    Speaking rates are compared among utterances of similar length: short ones have more silence.
    """
    kept = [
        (entry, duration_s, len(entry.utterance.tokens))
        for entry, duration_s in zip(entries, durations_s, strict=True)
        if entry.utterance.tokens and duration_s > 0
    ]
    if len(kept) < MIN_TO_COMPARE:
        return
    seconds = np.array([duration_s for _, duration_s, _ in kept])
    num_tokens = np.array([count for *_, count in kept])
    expected = _expected_seconds(num_tokens, seconds)
    for index in np.flatnonzero(_is_outlier(seconds / expected)):
        entry, duration_s, count = kept[index]
        rate = count / duration_s
        usual = count / expected[index]
        yield about(entry, "speaking-rate", f"{rate:.1f} tokens per second, expected about {usual:.1f}")
    for index in np.flatnonzero(_is_outlier(seconds)):
        entry, duration_s, _ = kept[index]
        detail = f"{duration_s:.2f} s, the median is {np.median(seconds):.2f} s"
        yield about(entry, "unusual-length", detail)


def speaker_findings(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield the number of each manifest's utterances without a speaker."""
    counts = Counter(entry.source for entry in entries)
    for source, missing in Counter(e.source for e in entries if not e.utterance.speaker).items():
        yield Finding("no-speaker", f"{missing:,} of {counted(counts[source], 'utterance')}", source)


def _checked(make: Callable[[], Vocabulary]) -> tuple[Vocabulary | None, list[Finding]]:
    try:
        return make(), []
    except UserError as error:
        return None, [Finding("broken-vocabulary", str(error))]


def _expected_seconds(
    num_tokens: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Fit the expected seconds by the number of tokens: a line through the medians of both halves."""
    of_one_token = float(np.median(seconds / num_tokens))
    order = np.argsort(num_tokens, kind="stable")
    halves = np.array_split(order, 2)
    (few, few_s), (many, many_s) = (
        (float(np.median(num_tokens[half])), float(np.median(seconds[half]))) for half in halves
    )
    slope = (many_s - few_s) / (many - few) if many > few else of_one_token
    result: npt.NDArray[np.float64] = np.maximum(few_s + slope * (num_tokens - few), of_one_token)
    return result


def _is_outlier(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    distance = np.abs(np.log(values) - np.median(np.log(values)))
    limit = max(float(np.log(OUTLIER_FACTOR)), OUTLIER_SPREADS * float(np.median(distance)))
    outlier: npt.NDArray[np.bool_] = distance > limit
    return outlier
