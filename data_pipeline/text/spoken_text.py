"""Store a text on disk as a stream of spoken words, to be read as syllables, characters or words."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asr.base.errors import UserError
from asr.base.system.child_process import ChildEndedError, ChildProcess
from asr.base.system.files import cannot_write
from asr.base.system.shards import is_manifest_name
from asr.base.system.storage.address import path_of
from asr.base.text.units import Unit
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.labels.readings.rules import SENTENCE_END
from data_pipeline.text import manifest_text
from data_pipeline.text.pronunciations import Pronunciation, pronunciations
from data_pipeline.text.segmented_text import (
    Int32,
    Reading,
    SegmentedBlock,
    SpokenWord,
    default_readings,
    map_in,
    processes,
    segment_files,
)
from data_pipeline.text.text_files import STANDARD_INPUT, find_text_files

TOKENS_AT_ONCE = 1 << 20
WORDS_AT_ONCE = 2000
END = 0  # place of the sentence end among the spoken words


class SpokenText:
    """The sentences of files, which are read once.

    Args:
        paths: files, folders, or - for standard input; readings come from the labels of manifests (`.jsonl`).
        folder: for an unnamed temporary file.
        on_progress: called as files are read and words are looked up.

    Attributes:
        sources: the files.
        num_sentences: that hold a word.
        num_words: in total.
        num_bytes: of the text in UTF-8.
        left_out: number of characters left out, by reason.

    Raises:
        UserError: a file cannot be read, the disk is full, or no file has any hanzi.
    """

    def __init__(self, paths: Sequence[str], folder: Path, on_progress: OnProgress = ignore_progress) -> None:
        self.sources = find_text_files(paths)
        self.num_bytes, self.num_sentences, self.num_words = 0, 0, 0
        self.left_out: Counter[str] = Counter()
        self._places: dict[SpokenWord, int] = {SpokenWord(SENTENCE_END, None): END}
        self._counts = np.zeros(1, np.int64)
        self._folder, self._on_progress = folder, on_progress
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise cannot_write(folder, "temporary file", error) from None
        try:
            num_bytes = None
            if STANDARD_INPUT not in self.sources:
                num_bytes = sum(path_of(source).stat().st_size for source in self.sources)
            with processes(num_bytes) as children:
                self._read(children, num_bytes)
                self._usual = self._usual_readings(children)
        except ChildEndedError:
            raise UserError(
                "a process that segments text was killed, most likely because memory ran out; "
                "free memory and try again"
            ) from None

    def vocabulary(self, unit: Unit) -> list[str]:
        """Return the distinct syllables, characters or words of the text, sorted."""
        return sorted({token for spoken in self._spoken() for token in self._parts(spoken, unit)})

    def blocks(self, unit: Unit, first_id: int, end_id: int) -> Iterator[tuple[Int32, int]]:
        """Yield blocks of sentences as token ids in the vocabulary's order, with their number of words.

        Args:
            unit: of the tokens.
            first_id: of the vocabulary's first token.
            end_id: ends each sentence.
        """
        ids = {token: index for index, token in enumerate(self.vocabulary(unit), start=first_id)}
        parts = [[end_id], *([ids[part] for part in self._parts(one, unit)] for one in self._spoken())]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        begins = np.cumsum(lengths) - lengths
        values = np.fromiter((part for row in parts for part in row), np.int32, int(lengths.sum()))
        for tokens in self._token_blocks():
            num = lengths[tokens]
            within = np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)
            yield values[np.repeat(begins[tokens], num) + within], int((tokens != END).sum())

    def pronunciations(self) -> list[Pronunciation]:
        """Return the readings of the text's words with their probabilities."""
        occurrences = dict(zip(self._spoken(), self._counts[1:].tolist(), strict=True))
        return pronunciations(occurrences, self._usual)

    def _spoken(self) -> list[SpokenWord]:
        return list(self._places)[1:]

    def _parts(self, spoken: SpokenWord, unit: Unit) -> Sequence[str]:
        if unit == "words":
            return (spoken.word,)
        return spoken.word if unit == "characters" else spoken.reading or self._usual[spoken.word]

    def _read(self, children: Sequence[ChildProcess], num_bytes: int | None) -> None:
        num_read = 0
        manifests = [source for source in self.sources if is_manifest_name(source)]
        texts = [source for source in self.sources if source not in manifests]
        labelled = (manifest_text.segment_manifest(path_of(source)) for source in manifests)
        for block in itertools.chain(segment_files(texts, children), *labelled):
            self._take(block)
            num_read += block.num_bytes
            self._on_progress(Work("reading", num_read, num_bytes, "bytes"))
        if not self.num_words:
            others = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.most_common())
            raise UserError(
                f"{', '.join(self.sources[:3])}: expected Chinese text, found no hanzi"
                + (f" but {others}" if others else "")
                + "; of other languages, `units=pieces,words` `pieces=RUN/units.model` trains models for "
                "runs with pieces"
            )

    def _take(self, block: SegmentedBlock) -> None:
        indices = np.array(
            [self._places.setdefault(one, len(self._places)) for one in block.spoken], np.int32
        )
        tokens = indices[block.tokens]
        counts = np.bincount(tokens, minlength=len(self._places))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self.num_sentences += int((tokens == END).sum())
        self.num_words += int((tokens != END).sum())
        self.num_bytes += block.num_text_bytes
        self.left_out += block.left_out
        try:
            self._file.seek(0, 2)
            self._file.write(tokens.data)
            self._file.flush()
        except OSError as error:
            raise cannot_write(self._folder, "temporary file", error) from None

    def _token_blocks(self) -> Iterator[Int32]:
        """Yield blocks of whole sentences as ids of spoken words."""
        self._file.seek(0)
        kept = np.zeros(0, np.int32)
        while data := self._file.read(TOKENS_AT_ONCE * 4):
            tokens = np.concatenate([kept, np.frombuffer(data, np.int32)])
            end = int(np.flatnonzero(tokens == END)[-1]) + 1 if (tokens == END).any() else 0
            yield tokens[:end]
            kept = tokens[end:]

    def _usual_readings(self, children: Sequence[ChildProcess]) -> dict[str, Reading]:
        words = list(dict.fromkeys(one.word for one in self._spoken()))
        slices = [words[begin : begin + WORDS_AT_ONCE] for begin in range(0, len(words), WORDS_AT_ONCE)]
        readings: list[Reading] = []
        for of_slice in map_in(children, default_readings, slices):
            readings.extend(of_slice)
            self._on_progress(Work("looking up words", len(readings), len(words), "words"))
        return dict(zip(words, readings, strict=True))
