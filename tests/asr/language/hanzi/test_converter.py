import itertools
import json
import math
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from asr.base.errors import UserError
from asr.language.hanzi.converter import Converter
from asr.language.hanzi.mixture import own_shares
from asr.language.hanzi.packed import pack, unpack
from asr.language.ngram.model import NGramModel, NGrams
from asr.language.ngram.model_file import save_model
from asr.training.language_model import train_language_models
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE

SYLLABLES = ["ni3", "hao3", "hao4", "ma3", "ma5", "ni2"]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_conversion_is_the_best_of_all_segmentations_and_words(small, order):
    for seed in range(25):
        model = small.random_model(seed, order)
        converter = small.exact(model)
        rng = np.random.default_rng(seed)
        for syllables in (rng.choice(SYLLABLES, size).tolist() for size in (0, 1, 2, 3, 5, 6, 7, 7)):
            score, text = small.brute_force(model, syllables)
            conversion = converter.convert(syllables)
            assert conversion.text == text
            assert conversion.score == pytest.approx(score, abs=1e-4)


def test_soft_tones_cost_for_each_wrong_tone(small):
    for seed in range(5):
        model = small.random_model(seed, 3)
        converter = small.exact(model, small.tone_cost)
        for syllables in itertools.product(["ni4", "ni3", "ni"], ["hao1", "hao"], ["ma1", "ma5"]):
            score, text = small.brute_force(model, syllables, small.tone_cost)
            conversion = converter.convert(syllables)
            assert conversion.text == text
            assert conversion.score == pytest.approx(score, abs=1e-4)


def test_syllables_without_a_tone_match_every_tone_at_no_cost(small):
    model = small.random_model(0, 2)
    best = max(small.brute_force(model, pair) for pair in itertools.product(["ni2", "ni3"], ["hao3", "hao4"]))
    conversion = small.exact(model).convert(["ni", "hao"])
    assert (conversion.text, conversion.score) == (best[1], pytest.approx(best[0], abs=1e-4))


def test_converted_words_have_their_syllables_and_positions(small):
    conversion = small.exact(small.random_model(1, 3)).convert(["ni3", "hao3", "xyz9", "OK", "ma3"])
    assert "".join(word.text for word in conversion.words) == conversion.text
    assert conversion.syllables == ("ni3", "hao3", "xyz9", "OK", "ma3")
    assert [word.start for word in conversion.words] == [0, *(word.end for word in conversion.words[:-1])]
    assert [word.text for word in conversion.words if not word.is_known] == ["〔xyz9〕", "〔OK〕"]


def test_a_syllable_without_a_word_becomes_a_character_that_pypinyin_knows(small):
    converter = small.exact(small.random_model(1, 3))
    word = converter.convert(["wo3"]).words[0]
    assert (word.text, word.is_known) == ("我", False)
    assert converter.convert(["wo9"]).text == "〔wo9〕"


def test_a_narrow_beam_finds_no_better_score_than_the_exact_search(small):
    model = small.random_model(2, 3)
    exact = small.exact(model)
    narrow = Converter(model, small.dictionary_of(model), beam=1, margin=2.0)
    for syllables in itertools.product(SYLLABLES, repeat=3):
        assert narrow.convert(syllables).score <= exact.convert(syllables).score + 1e-9


def test_threads_do_not_change_conversions(small):
    converter = small.exact(small.random_model(3, 3))
    sentences = list(itertools.product(SYLLABLES, repeat=3))
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(converter.convert, sentences)] == [*map(converter.convert, sentences)]


def own_folder(folder, model, readings):
    """Write a model and its pronunciations as `asr lm train` does."""
    save_model(folder / "words.klm", model)
    rows = [(word, text, math.log(1 / len(texts))) for word, texts in readings.items() for text in texts]
    lines = [f"{word}\t{text}\t{log_prob:.6f}\n" for word, text, log_prob in rows]
    (folder / "pronunciations.tsv").write_text("".join(lines), encoding="utf-8")
    return folder


def test_words_of_the_general_model_stay_known_with_an_own_one(small, tmp_path):
    own = Converter.load(own_folder(tmp_path, small.random_model(4, 3), small.readings))
    for pinyin in ("xie4 xie4", "jin1 tian1 tian1 qi4 hen3 hao3", "yi1 ran2", "ni3 hao3 ma5"):
        assert own.convert_pinyin(pinyin).text == Converter.load().convert_pinyin(pinyin).text


def test_an_own_text_teaches_its_names(tmp_path):
    (tmp_path / "own.txt").write_text("宓蘅来了\n我找宓蘅\n" * 50, encoding="utf-8")
    train_language_models([str(tmp_path / "own.txt")], tmp_path / "lm")
    sentence = ["wo3", "zhao3", "mi4", "heng2"]
    assert Converter.load().convert(sentence).text != "我找宓蘅"
    assert Converter.load(tmp_path / "lm").convert(sentence).text == "我找宓蘅"


def test_a_word_that_the_general_model_lacks_is_written_as_the_own_text_has_it(tmp_path):
    words = ["<unk>", "<s>", "</s>", "魑鸹"]
    ids = np.arange(4, dtype=np.int32)[:, None]
    unigrams = NGrams(ids, np.full(4, -0.6, np.float32), np.zeros(4, np.float32))
    pair = NGrams(np.array([[1, 3]], np.int32), np.full(1, -0.1, np.float32), np.zeros(1, np.float32))
    model = NGramModel.of_ngrams(words, [unigrams, pair])
    conversion = Converter.load(own_folder(tmp_path, model, {"魑鸹": ["lo7 lo7"]})).convert(
        ["xie4", "xie4", "lo7", "lo7"]
    )
    assert [word.text for word in conversion.words] == ["谢谢", "魑鸹"]
    assert all(word.is_known for word in conversion.words)


def test_a_score_is_that_of_the_interpolated_probabilities(small, tmp_path):
    own_model = small.random_model(6, 3)
    converter = Converter.load(own_folder(tmp_path, own_model, small.readings))
    words = [word.text for word in converter.convert(["ni3", "hao3"]).words]
    trie = converter.dictionary.trie
    entries = [converter.dictionary.words.index(word) for word in words]  # each has one reading
    of_readings = sum(float(trie.entry_log_probs[entry]) for entry in entries)
    probs = [np.exp(model.log_probs(words)) for model in (converter.model, own_model)]
    shares = own_shares(max(own_model.counts), 3)
    assert 0 < shares[0] < shares[1] == shares[2] < 1e-3
    low, high = (np.log((1 - share) * probs[0] + share * probs[1]).sum() for share in shares[:2])
    score = converter.convert(["ni3", "hao3"]).score - of_readings
    assert min(low, high) - 1e-4 <= score <= max(low, high) + 1e-4


def test_an_own_model_counts_more_the_more_text_it_has():
    assert own_shares(500_000, 3).tolist() == [0.2, 0.5, 0.5]
    assert (own_shares(600, 2) < own_shares(6000, 2)).all()


def test_loading_a_converter_names_a_missing_file_and_a_damaged_line(small, tmp_path):
    with pytest.raises(UserError, match=r"found no words\.klm.*asr lm train"):
        Converter.load(tmp_path)
    save_model(tmp_path / "words.klm", small.random_model(0, 2))
    for line in ("", "你", "你\tni3\tmany", "你\tni3  hao3\t0", "\tni3\t0", "你\tni3\t0.5", "你\tni3\tnan"):
        (tmp_path / "pronunciations.tsv").write_text(f"好\thao3\t0\n{line}\n", encoding="utf-8")
        with pytest.raises(UserError, match=r"pronunciations\.tsv:2: expected WORD"):
            Converter.load(tmp_path)


def test_a_packed_model_converts_like_the_original(small, tmp_path):
    model = small.random_model(5, 3)
    rng = np.random.default_rng(5)
    count = len(model.words)
    steps = lambda n: (-rng.integers(1, 60, n) / 32).astype(np.float32)  # noqa: E731
    pairs = np.array([[1, 3], [3, 5], [4, 6]], np.int32)
    ngrams = [
        NGrams(np.arange(count, dtype=np.int32)[:, None], steps(count), steps(count)),
        NGrams(pairs, steps(3), np.zeros(3, np.float32)),
    ]
    model = type(model).of_ngrams(model.words, ngrams)
    dictionary = small.dictionary_of(model)
    pack(tmp_path / "model.npz", model.words, ngrams, dictionary)
    unpacked, its_dictionary = unpack(tmp_path / "model.npz")
    for sentence in itertools.product(SYLLABLES, repeat=3):
        one = Converter(model, dictionary).convert(sentence)
        other = Converter(unpacked, its_dictionary).convert(sentence)
        assert other.text == one.text
        assert other.score == pytest.approx(one.score, abs=0.1)  # probabilities of readings are rounded
    (tmp_path / "model.npz").write_bytes((tmp_path / "model.npz").read_bytes()[:200])
    with pytest.raises(UserError, match=r"model\.npz: cannot read"):
        unpack(tmp_path / "model.npz")


@pytest.fixture(scope="module")
def general():
    return Converter.load()


def test_the_built_in_model_converts_the_demo_corpus_correctly(general):
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = [json.loads(line) for line in archive.read("manifest.jsonl").decode().splitlines()]
    found = [general.convert(record["pinyin"].split()) for record in records]
    texts = ["".join(filter(str.isalpha, record["text"])) for record in records]
    errors = sum(Levenshtein.distance(a, b.text) for a, b in zip(texts, found, strict=True))
    assert errors / sum(map(len, texts)) < 0.03


def test_the_built_in_model_knows_spoken_sandhi(general):
    assert general.convert(["wo3", "de5", "peng2", "you3"]).text == "我的朋友"
    assert general.convert(["wo3", "bu2", "qu4"]).text == "我不去"
    assert general.convert(["yi2", "ge4", "ren2"]).text == "一个人"


def test_converting_imports_no_tensorflow():
    program = (
        "import sys, asr.language.hanzi.converter; "
        "assert not {'tensorflow', 'keras', 'pypinyin'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
