"""Split words into pieces, the subword units of a model that sentencepiece learns from text.

pieces = learn_pieces(["turn the light on", ...], LearnedUnits("bpe", 500))
pieces.encode("turn it on")      # ("▁turn", "▁it", "▁on"), where ▁ begins a word

Byte-pair encoding: Sennrich et al. (2016, arXiv:1508.07909); unigram: Kudo (2018, arXiv:1804.10959). Text is
split as it is given, so that the pieces in a row are the text.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.units import AS_MANY_AS_POSSIBLE, WORD_BOUNDARY, LearnedUnits, is_piece
from asr.base.text.wording import counted

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

UNITS_MODEL = "units.model"  # beside manifests, and in a run beside its vocabulary
LONGEST_BYTES = 1 << 20  # of a sentence; sentencepiece skips longer ones
USUAL_MIXED = 200  # pieces of Latin words among syllables; conversation has a few hundred such words
LATIN = "abcdefghijklmnopqrstuvwxyz'"  # of which any Latin word can be written
TOO_FEW = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
TOO_MANY = re.compile(r"Please set it to a value <= (\d+)")


class Pieces:
    """A model that splits text into pieces.

    Args:
        proto: the model, as sentencepiece writes it.
        source: its file, for errors.

    Raises:
        UserError: it is not such a model, or its pieces do not mark the begin of words.
    """

    def __init__(self, proto: bytes, source: str) -> None:
        self.source, self._proto = source, proto
        if not any(map(is_piece, self.tokens)):
            raise UserError(
                f"{source}: no piece is longer than a character and begins a word with {WORD_BOUNDARY}; ask "
                "for more pieces, or choose other units"
            )

    @functools.cached_property
    def tokens(self) -> tuple[str, ...]:
        """Return the pieces in the model's order, without `<unk>` and other markers."""
        model = self._processor
        markers = (model.is_unknown, model.is_control, model.is_unused, model.is_byte)
        ids = [i for i in range(model.get_piece_size()) if not any(is_marker(i) for is_marker in markers)]
        return tuple(model.id_to_piece(index) for index in ids)

    @functools.cached_property
    def scores(self) -> Mapping[str, float]:
        """Return the score of each piece: the order of byte pairs, the log probability of unigram pieces."""
        model = self._processor
        return {piece: float(model.get_score(model.piece_to_id(piece))) for piece in self.tokens}

    @property
    def is_of_merges(self) -> bool:
        """Return whether the pieces are byte pairs; sentencepiece numbers these 0, -1, -2 and so on."""
        return all(score.is_integer() for score in self.scores.values())

    def encode(self, text: str) -> tuple[str, ...]:
        """Return the pieces of a text; characters that the model does not know are returned as they are."""
        return tuple(self._processor.encode(text, out_type=str))

    def unknown_characters(self, text: str) -> str:
        """Return the characters of a text that no piece has, each once."""
        return "".join(dict.fromkeys(char for char in text if not char.isspace() and char not in self._known))

    def save(self, path: Path) -> None:
        """Write the model, unless the file holds it already."""
        if not (path.exists() and path.read_bytes() == self._proto):
            with whole_file(path, "model of units") as file:
                file.write(self._proto)

    def without_paths(self) -> Pieces:
        """Return the model without the names of the files that sentencepiece made it from, to publish it."""
        from sentencepiece import sentencepiece_model_pb2

        model = sentencepiece_model_pb2.ModelProto.FromString(self._proto)  # type: ignore[attr-defined]
        if not (model.trainer_spec.input or model.trainer_spec.model_prefix):
            return self
        model.trainer_spec.ClearField("input")
        model.trainer_spec.ClearField("model_prefix")
        return Pieces(model.SerializeToString(), self.source)

    @classmethod
    def load(cls, path: Path) -> Pieces:
        """Read a model that `save`, or sentencepiece, wrote.

        Raises:
            UserError: the file cannot be read, or is not such a model.
        """
        try:
            return cls(path.read_bytes(), str(path))
        except OSError as error:
            raise UserError(f"{path}: cannot read this model of units ({error.strerror})") from None

    @functools.cached_property
    def _processor(self) -> SentencePieceProcessor:
        from sentencepiece import SentencePieceProcessor

        try:
            return SentencePieceProcessor(model_proto=self._proto)
        except RuntimeError:
            raise UserError(
                f"{self.source}: expected a model of sentencepiece, received something else; restore the file"
            ) from None

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset("".join(self.tokens))


def learn_pieces(texts: Sequence[str], units: LearnedUnits) -> Pieces:
    """Learn pieces from text; the same text gives the same pieces.

    Args:
        texts: sentences, normalized as they will be split; of mixed units, their spoken Latin words.
        units: the method and the number of pieces, `<unk>` not counted.

    Raises:
        UserError: the text has more characters than this, or too few different words.
    """
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    is_mixed = units.method == "mixed"
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe" if is_mixed else units.method,
            vocab_size=(units.number or USUAL_MIXED) + 1,  # and <unk>
            character_coverage=1.0,  # every text that is trained on can be split
            required_chars=LATIN if is_mixed else "",
            normalization_rule_name="identity",  # the text policy has normalized it
            max_sentence_length=LONGEST_BYTES,
            bos_id=-1,
            eos_id=-1,
            num_threads=1,  # sums of several threads differ in their last digits
            minloglevel=2,
        )
    except RuntimeError as error:
        most = TOO_MANY.search(str(error))
        if most and units.number == AS_MANY_AS_POSSIBLE:
            return learn_pieces(texts, units._replace(number=int(most[1]) - 1))
        raise UserError(f"{units}: {_reason(str(error), units, len(texts))}") from None
    return Pieces(model.getvalue(), str(units))


def pieces_of_letters() -> Pieces:
    """Return the fewest pieces of which any Latin word can be written, for mixed labels without one."""
    with_mark_and_first = len(LATIN) + 2  # the mark by itself, and a piece that begins a word with it
    return learn_pieces(["a"], LearnedUnits("mixed", with_mark_and_first))


def text_of_pieces(pieces: Iterable[str]) -> str:
    """Return the text that pieces were made of."""
    return "".join(pieces).replace(WORD_BOUNDARY, " ").strip()


def _reason(message: str, units: LearnedUnits, num_texts: int) -> str:
    """Return why sentencepiece learned nothing, and what to do."""
    if found := TOO_FEW.search(message):
        least = int(found[1])  # with <unk>, so that one piece is longer than a character
        return (
            f"the training text has {least - 1:,} different characters, the space among them, and each is a "
            f"piece; ask for more pieces than that, such as {units.method}:{2 * least}"
        )
    if found := TOO_MANY.search(message):
        most = int(found[1]) - 1
        return (
            f"the training text has too few different words for {units.number:,} pieces; ask for at most "
            f"{most:,}, `{units.method}:{most}`, or add text"
        )
    return f"no pieces can be learned from {counted(num_texts, 'text')} ({message}); add text"
