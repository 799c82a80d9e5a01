"""Checks which decoders can be chosen, and how a choice is recorded in evaluations and journals."""

from pathlib import Path

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.ctc.hot_words import HotWords
from asr.ctc.search import GreedySearch, NBestSearch
from asr.language.hanzi.converter import GENERAL_MODEL
from asr.language.ngram.arpa import write_arpa
from asr.language.ngram.model import NGramModel, NGrams
from asr.transcription.decoder_choice import DecoderChoice

SYLLABLES, WORDS = Vocabulary(["hao3", "ni3"]), Vocabulary(["hello", "world"])
BEAM = DecoderSettings(beam=16)
HOT_WORDS = HotWords({(1,): 1.0}, path=Path("words"))


def test_the_record_of_a_decoder_does_not_depend_on_how_its_paths_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = DecoderSettings(beam=16, language_model="lm")
    near = DecoderChoice(settings, HOT_WORDS, hanzi_model=Path("zi")).as_record()
    far = tmp_path / "else" / ".."
    elsewhere = DecoderSettings(beam=16, language_model="./lm/")
    hot_words = HotWords(HOT_WORDS.weights, path=far / "words")
    assert DecoderChoice(elsewhere, hot_words, hanzi_model=far / "zi").as_record() == near
    assert DecoderChoice(settings).as_record() != DecoderChoice(BEAM).as_record()


@pytest.mark.parametrize(
    ("choice", "hanzi"),
    [
        (DecoderChoice(BEAM), True),
        (DecoderChoice(BEAM, write_hanzi=False), False),
        (DecoderChoice(BEAM, hanzi_model=GENERAL_MODEL), "general"),
        (DecoderChoice(BEAM, hanzi_model=Path("/models/news")), "/models/news"),
    ],
)
def test_the_record_of_hanzi_is_unchanged(choice, hanzi):
    record = choice.as_record()
    assert record["hanzi"] == hanzi
    assert (record["language_model"], record["hot_words"]) == ("", "")
    assert choice.identity() == f"{BEAM} hanzi={hanzi}"


def test_syllables_rescored_by_another_hanzi_model_are_another_decoder():
    general = DecoderChoice(BEAM, write_hanzi=False, hanzi_model=GENERAL_MODEL)
    assert general.as_record() != DecoderChoice(BEAM, write_hanzi=False).as_record()


@pytest.mark.parametrize(
    ("settings", "hot_words", "parameter"),
    [
        (DecoderSettings(), HOT_WORDS, "`beam=1`"),
        (DecoderSettings(n_best=2), None, "`beam=1`"),
        (DecoderSettings(language_model="lm"), None, "`beam=1`: .*language model"),
        (DecoderSettings(beam=4, n_best=5), None, "`n_best=5`"),
    ],
)
def test_settings_that_the_search_does_not_support_are_refused(settings, hot_words, parameter):
    with pytest.raises(UserError, match=parameter):
        DecoderChoice(settings, hot_words)


def test_a_decoder_has_a_converter_if_it_writes_hanzi_or_rescores_by_words():
    greedy = DecoderSettings()
    assert DecoderChoice(greedy).decoder(SYLLABLES, 0.08).writer.text(["ni3", "hao3"]) == "你好"
    for choice, vocabulary in (
        (DecoderChoice(greedy, write_hanzi=False), SYLLABLES),
        (DecoderChoice(greedy), WORDS),
    ):
        plain = choice.decoder(vocabulary, 0.08)
        assert isinstance(plain.search, GreedySearch)
        assert plain.writer.converter is None
    by_words = DecoderChoice(BEAM, write_hanzi=False).decoder(SYLLABLES, 0.08)
    assert isinstance(by_words.search, NBestSearch)
    assert by_words.search.converter is not None
    assert by_words.writer.text(["ni3", "hao3"]) == "ni3 hao3"


def test_a_hanzi_model_is_refused_for_a_vocabulary_without_syllables():
    with pytest.raises(UserError, match="`hanzi_model"):
        DecoderChoice(BEAM, hanzi_model=GENERAL_MODEL).decoder(WORDS, 0.08)


def test_files_are_those_of_language_model_hot_words_and_hanzi_model(tmp_path):
    (tmp_path / "lm").mkdir()
    for name in ("a", "b"):
        (tmp_path / "lm" / name).touch()
    settings = DecoderSettings(beam=16, language_model=str(tmp_path / "lm"))
    choice = DecoderChoice(settings, HOT_WORDS, hanzi_model=GENERAL_MODEL)
    assert choice.files() == [tmp_path / "lm" / "a", tmp_path / "lm" / "b", Path("words"), GENERAL_MODEL]
    assert DecoderChoice(BEAM).files() == []


def test_reading_a_language_model_reports_progress(tmp_path):
    words = ("<unk>", "<s>", "</s>", *SYLLABLES.tokens[1:])
    zeros = np.zeros(len(words), np.float32)
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    pairs = NGrams(np.array([[1, 2]], np.int32), np.full(1, -0.5, np.float32), zeros[:1])
    path = tmp_path / "lm.arpa"
    write_arpa(path, NGramModel.of_ngrams(words, [NGrams(ids, zeros - 1, zeros), pairs]))
    reports = []
    settings = DecoderSettings(beam=16, language_model=str(path))
    DecoderChoice(settings, write_hanzi=False).decoder(SYLLABLES, 0.08, reports.append)
    assert {report.task for report in reports} == {"reading lm.arpa"}
