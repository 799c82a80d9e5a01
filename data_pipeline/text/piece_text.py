"""Store a text on disk as a stream of pieces, of any language, or of mixed labels, and of their words."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from asr.base.errors import UserError
from asr.base.system.files import cannot_write
from asr.base.system.shards import is_manifest_name
from asr.base.system.storage.address import path_of
from asr.base.text.mixed import begins_word, mixed_vocabulary, mixed_words, words_of_mixed
from asr.base.text.pieces import Pieces, text_of_pieces
from asr.base.text.pinyin import mandarin_syllables
from asr.base.text.units import WORD_BOUNDARY, Unit
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.in_pieces import pieces_of
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.text.segmented_text import Int32
from data_pipeline.text.text_files import STANDARD_INPUT, find_text_files, read_blocks

SENTENCE = re.compile(r"[^.!?;。！？；\n]+(?:[.!?;](?=\S)[^.!?;。！？；\n]+)*")  # "3.14" is in one
END = -1  # of a sentence, in the file


class _Block(NamedTuple):
    """Whole sentences in the file."""

    num_tokens: int
    num_words: int


class _Stream(NamedTuple):
    """The sentences as units of one kind.

    Attributes:
        ids: of the units.
        file: the sentences, as ids each ended by `END`.
        blocks: of the file.
    """

    ids: dict[str, int]
    file: IO[bytes]
    blocks: list[_Block]


class PieceText:
    """The sentences of files, which are read once, as pieces or as the words that these spell.

    Args:
        paths: text files, plain or gzipped, manifests, folders of them, or - for standard input; labels of
            manifests count as they are.
        pieces: that words are split into.
        folder: for an unnamed temporary file.
        on_progress: called as files are read.
        unit: "pieces", or "mixed" for syllables, letters and pieces of Latin words.
        words: whether there is a stream of words as well: of mixed labels, these are the syllables, the
            letters that are said by their names, and whole Latin words.

    Attributes:
        sources: the files.
        num_sentences: with at least one piece.
        num_words: in total.
        num_bytes: of the text in UTF-8.
        left_out: number of sentences left out, by reason.

    Raises:
        UserError: a file cannot be read, the disk is full, or no sentence can be split.
    """

    def __init__(
        self,
        paths: Sequence[str],
        pieces: Pieces,
        folder: Path,
        on_progress: OnProgress = ignore_progress,
        *,
        unit: Unit = "pieces",
        words: bool = False,
    ) -> None:
        self.sources = find_text_files(paths)
        self.num_bytes, self.num_sentences, self.num_words = 0, 0, 0
        self.left_out: Counter[str] = Counter()
        self._pieces, self._unit = pieces, unit
        tokens = mixed_vocabulary(mandarin_syllables(), pieces) if unit == "mixed" else pieces.tokens
        known: dict[Unit, Sequence[str]] = {unit: tokens}
        if words:  # those that are tokens by themselves, in the text or not
            known["words"] = [token for token in tokens if begins_word(token)] if unit == "mixed" else []
        try:
            self._streams = {
                name: _Stream(
                    {token: index for index, token in enumerate(units)},
                    tempfile.TemporaryFile(dir=folder),  # noqa: SIM115
                    [],
                )
                for name, units in known.items()
            }
            for source in self.sources:
                for sentences in self._sentences_of(source):
                    self._take(sentences)
                    on_progress(Work("reading", self.num_bytes, unit="bytes"))
        except OSError as error:
            raise cannot_write(folder, "temporary file", error) from None
        if not self.num_words:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.most_common())
            raise UserError(
                f"{', '.join(self.sources[:3])}: no text in the pieces of {pieces.source}"
                + (f"; left out: {reasons}" if reasons else "")
            )

    def vocabulary(self, unit: Unit) -> list[str]:
        """Return all pieces, of mixed labels also all syllables and letters, or the words of the text."""
        return list(self._streams[unit].ids)

    def blocks(self, unit: Unit, first_id: int, end_id: int) -> Iterator[tuple[Int32, int]]:
        """Yield blocks of sentences as ids of units, with their number of words.

        Args:
            unit: "words", or that of the text.
            first_id: of the first unit.
            end_id: ends each sentence.
        """
        stream = self._streams[unit]
        stream.file.seek(0)
        for block in stream.blocks:
            tokens = np.frombuffer(stream.file.read(4 * block.num_tokens), np.int32)
            yield np.where(tokens == END, end_id, tokens + first_id).astype(np.int32), block.num_words

    def _sentences_of(self, source: str) -> Iterator[list[tuple[str, ...]]]:
        """Yield the sentences of a file as pieces, some megabytes at a time."""
        if source != STANDARD_INPUT and is_manifest_name(source):
            yield [
                tokens
                for utterance in read_manifest(path_of(source))
                if (tokens := self._labels(utterance.text, utterance.tokens))
            ]
            return
        for block in read_blocks(source):
            found = SENTENCE.findall(block.text)
            yield [tokens for text in found if text.strip() and (tokens := self._labels(text))]

    def _labels(self, text: str, labels: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the pieces of a sentence; none if it has to be left out."""
        self.num_bytes += len(text.encode(errors="replace"))
        are_known = labels and all(token in self._streams[self._unit].ids for token in labels)
        if are_known and (self._unit == "mixed" or labels[0][0] == WORD_BOUNDARY):
            return labels
        try:
            return pieces_of(text, self._pieces, self._unit)
        except UnlabelledError as error:
            self.left_out[f"sentences: {error.reason}"] += 1
            return ()

    def _take(self, sentences: Sequence[tuple[str, ...]]) -> None:
        if self._unit == "mixed":
            num_words = sum(len(mixed_words(sentence)) for sentence in sentences)
        else:
            num_words = sum(token[0] == WORD_BOUNDARY for sentence in sentences for token in sentence)
        for unit, stream in self._streams.items():
            ids: list[int] = []
            for sentence in sentences:
                units = sentence if unit == self._unit else self._words_of(sentence)
                ids += [stream.ids.setdefault(one, len(stream.ids)) for one in units]
                ids.append(END)
            stream.file.write(np.array(ids, np.int32).data)
            stream.blocks.append(_Block(len(ids), num_words))
        self.num_sentences += len(sentences)
        self.num_words += num_words

    def _words_of(self, sentence: Sequence[str]) -> list[str]:
        return words_of_mixed(sentence) if self._unit == "mixed" else text_of_pieces(sentence).split()
