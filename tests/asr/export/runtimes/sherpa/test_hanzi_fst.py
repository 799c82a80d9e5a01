import kaldifst
import pytest

from asr.base.text.hanzi_text import is_hanzi
from asr.export.runtimes.sherpa.hanzi_fst import write_hanzi_fst
from asr.language.hanzi.converter import Converter

SENTENCES = [
    "huo3 che1 piao4 duo1 shao3 qian2",
    "ye2 ye2 ai4 chi1 yu2",
    "ma1 ma1 tou2 bu4 shu1 fu2",
    "wo3 men5 zai4 tu2 shu1 guan3 xue2 xi2 han4 yu3",
    "ni3 hao3",
    "shi4 shei2",
]
RARE = ["ng2", "bo5", "zhong5", "eng5"]  # readings of no word, some of them not of any character
TOKENS = sorted({*" ".join(SENTENCES).split(), *RARE})


@pytest.fixture(scope="module")
def normalize(tmp_path_factory):
    path = tmp_path_factory.mktemp("fst") / "hanzi.fst"
    write_hanzi_fst(path, TOKENS)
    return kaldifst.TextNormalizer(str(path))


@pytest.fixture(scope="module")
def converter():
    return Converter.load()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentence_becomes_the_hanzi_of_the_converter(normalize, converter, sentence):
    assert normalize(f" {sentence}") == converter.convert(sentence.split()).text


def test_pair_of_words_decides_between_words_of_one_reading(normalize):
    assert normalize(" duo1 shao3 qian2") == "多少钱"
    assert normalize(" qian2").encode() == "前".encode()


def test_reading_of_no_word_becomes_what_the_converter_writes(normalize, converter):
    assert [normalize(f" {token}") for token in RARE] == [converter.convert([t]).text for t in RARE]
    assert normalize(" eng5") == "〔eng5〕"


def test_every_token_alone_becomes_hanzi(normalize):
    common = sorted(set(TOKENS) - set(RARE))
    assert all(is_hanzi(normalize(f" {token}")) and len(normalize(f" {token}")) == 1 for token in common)


def test_space_before_the_first_token_does_not_matter(normalize):
    assert normalize("ni3 hao3") == normalize(" ni3 hao3") == "你好"


@pytest.mark.parametrize(
    ("text", "written"),
    [("", ""), (" ni3 hello", "你hello"), ("嗯?", "嗯?"), (" ni3 hao3 wo", "你好wo"), ("x y", "x y")],
)
def test_text_that_is_no_token_is_kept(normalize, text, written):
    assert normalize(text) == written


def test_every_beginning_of_a_text_is_converted_as_in_a_stream(normalize):
    syllables = SENTENCES[3].split()
    texts = [normalize(" " + " ".join(syllables[:length])) for length in range(1, len(syllables) + 1)]
    assert all(map(is_hanzi, texts))
    assert list(map(len, texts)) == list(range(1, len(syllables) + 1))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" ni3 hao3 C C T V", "你好CCTV"),
        (" C C T V ni3 hao3", "CCTV你好"),
        (" ni3 hao3 iphone app A P P ni3 hao3", "你好iphone app APP你好"),
        (" A P P store ni3 hao3 A", "APP store你好A"),
    ],
)
def test_latin_words_stay_and_letters_in_a_row_are_one_word(normalize, text, written):
    assert normalize(text) == written
