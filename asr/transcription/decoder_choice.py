"""The decoder that a user chose: settings, hot words, and how syllables become hanzi."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.decoder_settings import GENERAL, DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress

if TYPE_CHECKING:
    from asr.ctc.hot_words import HotWords
    from asr.language.hanzi.converter import Converter
    from asr.transcription.decoder import Decoder


@dataclass(frozen=True)
class DecoderChoice:
    """A user's choice of decoder: arguments of `asr.transcription.recognizer.Recognizer.load`.

    Attributes:
        settings: of the search.
        hot_words: words that it favours.
        write_hanzi: whether the text of a Mandarin model is hanzi; else it is the syllables.
        hanzi_model: a folder of `asr lm train` whose words are used, besides those of the general model, to
            convert syllables to hanzi, or `asr.language.hanzi.converter.GENERAL_MODEL` for the general model
            alone; None for the language model of the settings if it has words, else the general model.
        itn: whether numbers, dates and amounts of a Mandarin model are written in digits (inverse text
            normalisation).

    Raises:
        UserError: a language model, hot words or several hypotheses are asked of greedy decoding, or more
            hypotheses than the beam holds.
    """

    settings: DecoderSettings
    hot_words: HotWords | None = None
    write_hanzi: bool = True
    hanzi_model: Path | None = None
    itn: bool = False

    def __post_init__(self) -> None:
        beam, n_best = self.settings.beam, self.settings.n_best
        if beam == 1 and (self.hot_words or n_best > 1 or self.settings.language_model):
            raise UserError(
                "`beam=1`: greedy decoding supports neither a language model nor hot words nor alternatives; "
                "choose a larger one, such as `beam=16`, or leave these out"
            )
        if n_best > beam:
            raise UserError(
                f"`n_best={n_best}`: expected at most {beam}, the size of the beam; "
                f"choose `beam={n_best}` or more"
            )
        if self.itn and not self.write_hanzi:
            raise UserError("`itn`: only hanzi contain numbers to rewrite; leave out `tokens` or `itn`")

    def decoder(
        self, vocabulary: Vocabulary, frame_s: float, on_progress: OnProgress = ignore_progress
    ) -> Decoder:
        """Return the decoder of a model's logits.

        Args:
            vocabulary: of the logits.
            frame_s: seconds from one frame to the next.
            on_progress: receives how much of a language model has been read.

        Raises:
            UserError: a language model cannot be used with this vocabulary.
        """
        from asr.ctc.search import make_search
        from asr.transcription.decoder import Decoder
        from asr.transcription.text_writer import TextWriter

        converter = self.converter_for(vocabulary)
        search = make_search(vocabulary, frame_s, self.settings, self.hot_words, converter, on_progress)
        return Decoder(search, TextWriter(vocabulary, converter if self.write_hanzi else None))

    def converter_for(self, vocabulary: Vocabulary) -> Converter | None:
        """Return the converter that decoding needs, if it needs one; it is loaded once.

        Raises:
            UserError: its folder cannot be used, or not with this vocabulary.
        """
        return self.converter if self._needs_converter(vocabulary) else None

    def require_language_model(self) -> None:
        """Raise a UserError if no language model was chosen."""
        if not self.settings.language_model:
            raise UserError(
                "`language_model`: tuning needs one, received none; `asr lm train` builds one from text"
            )

    def _needs_converter(self, vocabulary: Vocabulary) -> bool:
        if self.hanzi_model is not None and not vocabulary.is_mandarin:
            raise UserError(
                f"`hanzi_model={self.hanzi_model}`: the acoustic model's tokens are not syllables; "
                "leave out `hanzi_model`"
            )
        if self.itn and not vocabulary.is_mandarin:
            raise UserError("`itn`: the acoustic model's tokens are not syllables; leave out `itn`")
        chooses_by_words = self.settings.beam > 1 and bool(self.settings.hanzi_weight)
        return vocabulary.is_mandarin and (self.write_hanzi or chooses_by_words)

    @functools.cached_property
    def converter(self) -> Converter:
        """Return the converter of syllables to hanzi; it is loaded once.

        Raises:
            UserError: its folder cannot be used, or a package is missing.
        """
        if not self.itn:
            return self._spoken_converter()
        from asr.language.hanzi.written_numbers import NumberConverter

        return NumberConverter(self._spoken_converter())

    def _spoken_converter(self) -> Converter:
        from asr.language.hanzi.converter import Converter
        from asr.language.ngram.folder import converts_to_hanzi

        if self.hanzi_model is not None:
            return Converter.load(self.hanzi_model)
        own = Path(self.settings.language_model) if self.settings.language_model else None
        return Converter.load(own if own and converts_to_hanzi(own) else None)

    def files(self) -> list[Path]:
        """Return the files that affect the transcript, besides the acoustic model."""
        named = [
            Path(self.settings.language_model) if self.settings.language_model else None,
            self.hot_words.path if self.hot_words else None,
            self.hanzi_model,
        ]
        return [file for path in named if path for file in _files_in(path)]

    def as_record(self) -> Mapping[str, str | int | float | bool]:
        """Return every setting that affects decoding, as evaluation records store it.

        Paths are absolute, so that a record does not depend on the working directory. The value of
        `hanzi` is whether hanzi were written, or the model that wrote them.
        """
        language_model = self.settings.language_model
        hot_words = self.hot_words.path if self.hot_words else None
        return {
            **dataclasses.asdict(self.settings),
            "language_model": str(Path(language_model).resolve()) if language_model else "",
            "hot_words": str(hot_words.resolve()) if hot_words else "",
            "hanzi": self._hanzi_record() if self.write_hanzi else False,
            # only where the model ranked hypotheses whose syllables are written
            **({} if self.write_hanzi or not self.hanzi_model else {"hanzi_model": self._hanzi_record()}),
            **({"itn": True} if self.itn else {}),
        }

    def identity(self) -> str:
        """Return a line of text that identifies the choice, except for the contents of its files."""
        record = self.as_record()
        itn = " itn" if self.itn else ""
        return f"{self.settings} hanzi={record['hanzi']}{itn}"

    def _hanzi_record(self) -> str | bool:
        from asr.language.hanzi.converter import GENERAL_MODEL

        if self.hanzi_model is None:
            return True
        return GENERAL if self.hanzi_model == GENERAL_MODEL else str(self.hanzi_model.resolve())


def _files_in(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


GREEDY_TOKENS = DecoderChoice(DecoderSettings(), write_hanzi=False)
"""Greedy decoding that writes the tokens."""
