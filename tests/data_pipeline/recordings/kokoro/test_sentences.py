import itertools
import sys
from collections import Counter

import pytest

from asr.base.errors import UserError
from data_pipeline.collection.prompts import OWN_SENTENCES
from data_pipeline.recordings.kokoro import sentences as module
from data_pipeline.recordings.kokoro.sentences import Sentence, SentencePool


def pool_of(tmp_path, text, seed=1):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    return SentencePool.read([str(path)], seed)


@pytest.fixture(scope="module")
def own():
    return SentencePool.read([str(OWN_SENTENCES)], 1)


def test_sentences_are_labelled_by_the_projects_own_rules(tmp_path):
    pool = pool_of(tmp_path, "银行行长来了。\n")
    tokens = ("yin2", "hang2", "hang2", "zhang3", "lai2", "le5")
    assert pool.sentences == [Sentence("银行行长来了。", tokens)]


def test_each_sentence_is_taken_once(tmp_path):
    pool = pool_of(tmp_path, "我们走吧。\n我们走吧！\n他们来了。\n")
    assert sorted(one.text for one in pool.sentences) == ["他们来了。", "我们走吧。"]


def test_numbers_are_written_out_as_they_are_said(tmp_path):
    pytest.importorskip("wetext", reason="pip install 'polyphone[normalize]'")
    (sentence,) = pool_of(tmp_path, "我2019年去了。\n").sentences
    assert sentence.text == "我二零一九年去了。"
    assert len(sentence.tokens) == 8


def test_without_the_extra_sentences_with_digits_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wetext", None)
    module._normalizer.cache_clear()
    pool = pool_of(tmp_path, "我2019年去了。\n我们走吧。\n")
    module._normalizer.cache_clear()
    assert [one.text for one in pool.sentences] == ["我们走吧。"]
    assert "digits" in next(iter(pool.left_out))


def test_sentences_that_cannot_be_labelled_are_counted_by_reason(tmp_path):
    pool = pool_of(tmp_path, "我用GPU训练。\n我有iPad和书。\n我们走吧。\n")
    assert len(pool.sentences) == 1
    assert pool.left_out.total() == 2
    assert "Latin letters" in next(iter(pool.left_out))


@pytest.mark.parametrize("text", ["Only English here.\n", "好。\n", "我用GPU。\n", "\n"])
def test_texts_without_a_sentence_that_can_be_said_raise(tmp_path, text):
    with pytest.raises(UserError, match=r"text\.txt: expected sentences in hanzi"):
        pool_of(tmp_path, text)


def test_saved_sentences_are_the_same(own, tmp_path):
    own.save(tmp_path / "a.tsv")
    assert SentencePool.load(tmp_path / "a.tsv").sentences == own.sentences


def test_a_seed_draws_from_texts_that_are_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SENTENCES", 5)
    hanzi = "天地人你我他日月水火山石田土"
    text = "\n".join(f"{a}{b}。" for a in hanzi for b in hanzi)
    some, again, others = (
        [one.text for one in pool_of(tmp_path, text, seed).sentences] for seed in (1, 1, 2)
    )
    assert len(some) == len(set(some)) == 5
    assert some == again
    assert set(some) != set(others)


def test_each_sentence_is_said_once_before_any_is_repeated(own):
    texts = [one.text for one in itertools.islice(own.choose(1), 2 * len(own.sentences))]
    half = len(own.sentences)
    assert len(set(texts[:half])) == len(set(texts[half:])) == half


def test_choice_depends_on_the_seed_only(own):
    first, again, other = (list(itertools.islice(own.choose(seed), 50)) for seed in (1, 1, 2))
    assert first == again != other


def test_chosen_sentences_have_more_different_syllables_than_random_ones(own):
    chosen = Counter(token for one in itertools.islice(own.choose(1), 100) for token in one.tokens)
    random = Counter(token for one in own.sentences[:100] for token in one.tokens)
    assert len(chosen) > 1.15 * len(random)


def test_syllables_count_until_they_have_been_said_often_enough():
    frequent = [Sentence(f"a{number}", ("de5",)) for number in range(400)]
    rare = [Sentence(f"b{number}", ("niao3",)) for number in range(100)]
    pool = SentencePool([*frequent, *rare], Counter())
    first = [one.tokens[0] for one in itertools.islice(pool.choose(3), 200)]
    assert first[:100].count("niao3") == pytest.approx(50, abs=2)  # as often as the frequent one
    assert first[100:].count("niao3") < 30  # as often as in the texts
