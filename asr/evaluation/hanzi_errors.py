"""Wrong hanzi by what went wrong: the syllable under it, or only the choice of the hanzi."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asr.base.hanzi_text import hanzi_in
from asr.base.pinyin import is_syllable
from asr.base.types import Hypothesis, Utterance
from asr.evaluation.metrics import align


@dataclass(frozen=True)
class HanziErrors:
    """Errors of hanzi, counted along the alignment of the syllables under them.

    Attributes:
        num_said: hanzi of the references that were compared.
        under_right: other hanzi for the same syllable: the language model's and the conversion's.
        under_wrong: hanzi that are wrong, missing or too many where their syllable is: the acoustics'.
        saved: right hanzi over a wrong syllable.
        num_not_compared: utterances whose text, on either side, does not hold one hanzi a syllable.
        examples: (said, heard, syllable) of errors under right syllables, and how often, most frequent first.
    """

    num_said: int
    under_right: int
    under_wrong: int
    saved: int
    num_not_compared: int
    examples: Sequence[tuple[tuple[str, str, str], int]]


def hanzi_errors(heard: Iterable[tuple[Utterance, Hypothesis]]) -> HanziErrors | None:
    """Split the errors of hanzi; None where no syllables were turned into any."""
    comparable, num_not_compared = [], 0
    for utterance, hypothesis in heard:
        said, written = hanzi_in(utterance.text), hanzi_in(hypothesis.text)
        fits = len(said) == len(utterance.tokens) and len(written) == len(hypothesis.tokens)
        if fits and (written or not hypothesis.tokens) and all(map(is_syllable, utterance.tokens)):
            comparable.append((utterance.tokens, said, hypothesis.tokens, written))
        else:
            num_not_compared += 1
    if not any(written for *_, written in comparable):
        return None
    counts, confused = Counter[str](), Counter[tuple[str, str, str]]()
    for tokens, said, heard_tokens, written in comparable:
        of_reference, of_hypothesis = iter(said), iter(written)
        for edit, syllable, _ in align(tokens, heard_tokens):
            one = "" if edit == "insertion" else next(of_reference)
            other = "" if edit == "deletion" else next(of_hypothesis)
            if one == other:
                counts["saved"] += edit != "equal"
            elif edit == "equal":
                counts["right"] += 1
                confused[one, other, syllable] += 1
            else:
                counts["wrong"] += 1
    return HanziErrors(
        num_said=sum(len(said) for _, said, *_ in comparable),
        under_right=counts["right"],
        under_wrong=counts["wrong"],
        saved=counts["saved"],
        num_not_compared=num_not_compared,
        examples=sorted(confused.items(), key=lambda item: (-item[1], item[0])),
    )
