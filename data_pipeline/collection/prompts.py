"""Sentences to read aloud: the project's own, or those of a file."""

from __future__ import annotations

import contextlib
import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.pinyin import is_syllable, with_tone_mark
from asr.base.text.units import WORD_BOUNDARY, Unit, unit_of
from asr.base.text.wording import listed
from data_pipeline.collection.prompt_files import is_plain_text, written_texts
from data_pipeline.collection.prompt_order import CandidateText, letters_and_pairs, teaching_order, use_of
from data_pipeline.labels.from_text import USUAL
from data_pipeline.labels.normalization import Normalizer, has_numbers
from data_pipeline.labels.syllable_use import syllable_use
from data_pipeline.manifests.left_out import Partition, partition
from data_pipeline.preparation.labeller import Labeller, ReadingOptions
from data_pipeline.text.reading_text import LONGEST_S, reading_time_s
from data_pipeline.text.sentences import sentence_key
from data_pipeline.types import LeftOut, Recording

# with labels, since reading hanzi takes seconds
OWN_SENTENCES = Path(__file__).with_name("sentences_zh.tsv")  # in Mandarin
USUAL_GOAL_S = 1800.0
LONGEST_ALLOWED_S = 2 * LONGEST_S  # of a sentence without punctuation to cut it at
MAX_LISTED = 5


@dataclass(frozen=True)
class Prompt:
    """A sentence to read aloud.

    Attributes:
        id: made from the text, the same in every run.
        text: as shown.
        tokens: its labels.
    """

    id: str
    text: str
    tokens: tuple[str, ...]

    def syllables_by_character(self) -> tuple[str | None, ...] | None:
        """Return the pinyin of each character of the text, `zhōng`, and None for those that have none.

        Returns:
            None if the labels are not one syllable for each hanzi.
        """
        hanzi = [is_hanzi(char) for char in self.text]
        if sum(hanzi) != len(self.tokens) or not all(map(is_syllable, self.tokens)):
            return None
        syllables = map(with_tone_mark, self.tokens)
        return tuple(next(syllables) if one else None for one in hanzi)

    def places(self) -> tuple[tuple[int, int], ...] | None:
        """Return which characters of the text each label stands for, as (first, last + 1).

        Returns:
            None if the labels do not spell the text, as those of digits that are written out.
        """
        if readings := self.syllables_by_character():
            return tuple((index, index + 1) for index, one in enumerate(readings) if one)
        found: list[tuple[int, int]] = []
        end = 0
        for token in self.tokens:
            spelling = [token] if is_syllable(token) else token.replace(WORD_BOUNDARY, "")
            begin = end
            for sign in spelling:
                at = _place_of(sign, self.text, end)
                if at is None:
                    return None
                begin, end = (at if begin == end else begin), at + 1
            found.append((begin, end))
        return tuple(found)


def _place_of(sign: str, text: str, begin: int) -> int | None:
    """Return where a letter or a syllable of labels is in a text, after nothing but punctuation."""
    for at in range(begin, len(text)):
        if _spells(text[at], sign):
            return at
        if text[at].isalnum():
            return None
    return None


def _spells(written: str, sign: str) -> bool:
    """Return whether a character of a text may stand for a letter, a mark or a toned syllable."""
    if is_syllable(sign):
        return is_hanzi(written)
    return unicodedata.normalize("NFKC", written).lower().replace("’", "'") == sign.lower()


def expected_duration_s(prompt: Prompt) -> float:
    """Return the seconds that a person needs to read a prompt aloud, with silence around it."""
    return reading_time_s(prompt.text)


def own_prompts(units: Unit) -> list[Prompt]:
    """Return the project's own sentences, the most instructive first.

    Args:
        units: of the labels.

    Raises:
        UserError: they have no such units.
    """
    if units == "words":
        raise UserError(
            "no sentences of the project's own in words, as Mandarin is written without spaces; "
            "give `prompts`, a text with one sentence a line"
        )
    found = partition(_labelled(written_texts(OWN_SENTENCES), units))
    assert not found.left_out, found.left_out
    return most_instructive_first(found.kept)


def read_prompts(path: Path, units: Unit, goal_s: float = USUAL_GOAL_S) -> Partition[Prompt]:
    """Return the sentences of a file, and those that cannot be recorded with the reason.

    Those of a table or a manifest stay in their order. Those of a plain text that takes longer to read than
    the goal are returned with the most instructive first.

    Args:
        path: of a text with a sentence in each line, a table with a column of texts, or a manifest.
        units: of the labels.
        goal_s: how long the person means to read.

    Raises:
        UserError: the file cannot be read, or no sentence of it can be recorded.
    """
    found = partition(_without_repeated(_labelled(written_texts(path), units)))
    if not found.kept:
        reasons = [f"{out.what}: {out.reason}{': ' * bool(out.detail)}{out.detail}" for out in found.left_out]
        other = "; for other languages choose `units` words or characters" * (units == "syllables")
        raise UserError(
            f"{path}: no sentence that can be recorded with labels in {units}{other}:\n"
            + listed(reasons, MAX_LISTED, separator="\n")
        )
    if is_plain_text(path) and sum(map(expected_duration_s, found.kept)) > goal_s:
        return Partition(most_instructive_first(found.kept), found.left_out)
    return found


def most_instructive_first(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return prompts in the order that soonest covers Mandarin's toned syllables, or characters and pairs.

    Syllables count as much as Mandarin uses them, characters and pairs of them as much as these prompts do.
    """
    are_syllables = unit_of(token for prompt in prompts for token in prompt.tokens) == "syllables"
    features = [
        Counter(prompt.tokens) if are_syllables else letters_and_pairs(prompt.text) for prompt in prompts
    ]
    weights = syllable_use() if are_syllables else use_of(features)
    candidates = list(map(CandidateText, features, map(expected_duration_s, prompts)))
    return [prompts[index] for index in teaching_order(candidates, weights)]


def _labelled(texts: Sequence[Recording], units: Unit) -> Iterable[Prompt | LeftOut]:
    """Yield a prompt for each text, with digits written out if possible, or why it cannot be recorded."""
    are_given = unit_of(token for one in texts for token in one.tokens) == units
    normalizer = None
    if units == "syllables" and any(has_numbers(one.text) for one in texts):
        with contextlib.suppress(UserError):  # it is an extra: without it, texts with digits are left out
            normalizer = Normalizer()
    labeller = Labeller(units, are_given, ReadingOptions(), USUAL, normalizer)
    for one in labeller.label_all(texts):
        if isinstance(one, LeftOut):
            yield one
        elif reading_time_s(one.text) > LONGEST_ALLOWED_S:
            yield LeftOut(one.audio_path, "too long to read at once; add punctuation", f"{one.text[:40]}...")
        else:
            key = sentence_key(one.text, one.tokens)
            yield Prompt(hashlib.sha256(key.encode()).hexdigest()[:16], one.text, one.tokens)


def _without_repeated(prompts: Iterable[Prompt | LeftOut]) -> Iterable[Prompt | LeftOut]:
    """Yield the prompts, each sentence once."""
    seen = set()
    for prompt in prompts:
        if isinstance(prompt, LeftOut) or prompt.id not in seen:
            yield prompt
        if isinstance(prompt, Prompt):
            seen.add(prompt.id)
