"""ARPA files of every form have the meaning that KenLM gives them, and broken ones are refused with a reason.

kenlm_files/ was made by KenLM (kenlm 0.3.0 of PyPI): scores.json holds what its query says of each model.
"""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.language.ngram import arpa_text
from asr.language.ngram.arpa import read_arpa, write_arpa
from asr.language.ngram.listing import ngrams_of
from asr.language.ngram.model_file import load_model

FILES = Path(__file__).parent / "kenlm_files"
KENLM = json.loads((FILES / "scores.json").read_text(encoding="utf-8"))
SMALL = r"""\data\
ngram 1=5
ngram 2=4
ngram 3=2

\1-grams:
-1.5 <unk>
-99 <s> -0.25
-0.75 </s>
-0.5 你 -0.125
-1 好	-0.5

\2-grams:
-0.25	<s> 你	-0.375
-0.5	你 好	0
-0.125	好 </s>
-1	好 你

\3-grams:
-0.0625	<s> 你 好
-0.03125	你 好 </s>

\end\
"""


def log10_probs(model):
    return [
        [log_prob / math.log(10) for log_prob in model.log_probs(sentence.split())]
        for sentence in KENLM["sentences"]
    ]


def assert_same(model, other):
    assert list(model.words) == list(other.words)
    for table, of_other in zip(ngrams_of(model), ngrams_of(other), strict=True):
        for column, of_other_column in zip(table, of_other, strict=True):
            assert np.array_equal(column, of_other_column)


def written(tmp_path, text, name="model.arpa"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["whole", "no_unk", "pruned"])
def test_sentences_in_arpa_models_have_the_probabilities_of_kenlm(name):
    expected = KENLM["log10_probs"][f"{name}.arpa"]
    for ours, theirs in zip(log10_probs(load_model(FILES / f"{name}.arpa")), expected, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6)


def test_pruned_ngrams_that_longer_ones_end_with_are_restored():
    model = read_arpa(FILES / "pruned.arpa")
    given = [int(line.split("=")[1]) for line in (FILES / "pruned.arpa").read_text().splitlines()[1:5]]
    assert model.counts[0] == given[0]
    assert model.counts[2] > given[2]


@pytest.mark.parametrize(
    "form",
    [
        "tabs",
        "spaces",
        "windows",
        "byte order mark",
        "gzip and mark",
        "gzip",
        "comments",
        "no end of line",
        "digits",
    ],
)
def test_an_arpa_file_has_the_same_meaning_in_every_form(form, tmp_path):
    forms = {
        "tabs": SMALL.replace(" ", "\t").replace("ngram\t", "ngram "),
        "spaces": SMALL.replace("\t", "   ").replace("好\n", "好  \n"),
        "windows": SMALL.replace("\n", "\r\n"),
        "byte order mark": "\ufeff" + SMALL,
        "gzip and mark": gzip.compress(("\ufeff" + SMALL).encode()),
        "gzip": gzip.compress(SMALL.encode()),
        "comments": "\n# made by hand\n" + SMALL,
        "no end of line": SMALL.strip(),
        "digits": SMALL.replace("-1\t", "-1.E+0\t")
        .replace("-0.5", "-5.0e-1")
        .replace("-0.25", "-0.25000000000000000000")
        .replace("-0.125", "-.125"),
    }
    assert_same(read_arpa(written(tmp_path, forms[form])), read_arpa(written(tmp_path, SMALL, "small.arpa")))


def test_block_boundaries_do_not_change_an_arpa_model(monkeypatch, tmp_path):
    whole = read_arpa(FILES / "whole.arpa")
    for block_bytes in (1, 50, 333):
        monkeypatch.setattr(arpa_text, "BLOCK_BYTES", block_bytes)
        assert_same(read_arpa(FILES / "whole.arpa"), whole)


def test_unk_has_log_probability_minus_100_if_the_file_has_none():
    assert read_arpa(FILES / "no_unk.arpa").log_probs(["zebra"])[0] == pytest.approx(
        -100 * math.log(10), rel=0.1
    )


def test_probability_of_zero_may_be_written_as_minus_infinity(tmp_path):
    infinite, finite = (
        read_arpa(written(tmp_path, SMALL.replace("-0.0625", number), f"{number}.arpa"))
        for number in ("-inf", "-99")
    )
    assert_same(infinite, finite)


def test_capital_unk_is_unk(tmp_path):
    model = read_arpa(written(tmp_path, SMALL.replace("<unk>", "<UNK>")))
    assert_same(model, read_arpa(written(tmp_path, SMALL, "small.arpa")))


@pytest.mark.parametrize("name", ["whole.arpa", "pruned.arpa", "no_unk.arpa", "quantised.klm", "probing.klm"])
def test_a_written_arpa_model_is_read_back_bit_for_bit(name, tmp_path):
    model = load_model(FILES / name)
    write_arpa(tmp_path / "again.arpa", model)
    assert_same(read_arpa(tmp_path / "again.arpa"), model)


def test_every_single_precision_number_is_read_back_exactly(tmp_path):
    draw = np.random.default_rng(3)
    lines = [f"{-value:.9g}\tw{i}\t{value - 3:.9g}" for i, value in enumerate(draw.uniform(0, 9, 3000))]
    text = SMALL.replace("ngram 1=5", "ngram 1=3005").replace("-1 好", "\n".join(lines) + "\n-1 好")
    model = read_arpa(written(tmp_path, text))
    probs = ngrams_of(model)[0].log10_probs[4:-1]
    assert np.array_equal(probs, np.array([line.split("\t")[0] for line in lines], np.float32))
    write_arpa(tmp_path / "again.arpa", model)
    assert_same(read_arpa(tmp_path / "again.arpa"), model)


BROKEN = {
    "nothing at all": ("", "line 1: expected .*KenLM, received the end of the file"),
    "another file": ("{}", r"line 1: expected .*\\data\\.* received '\{\}'"),
    "no counts": ("\\data\\\n\n\\end\\\n", "line 3: expected `ngram 1="),
    "unigrams alone": (
        SMALL.replace("ngram 2=4\nngram 3=2\n", ""),
        "order from 2 to 6.*, received 1 line",
    ),
    "counts out of order": (SMALL.replace("ngram 2=4\n", ""), "line 3: expected the number of 2-grams"),
    "more counted": (
        SMALL.replace("ngram 2=4", "ngram 2=5"),
        "line 18: expected 5 2-grams, received 4, then an empty",
    ),
    "fewer counted": (
        SMALL.replace("ngram 2=4", "ngram 2=3"),
        r"line 17: expected \\3-grams:, after the end of the 3 before",
    ),
    "counts beyond reason": (SMALL.replace("ngram 3=2", "ngram 3=99999999999"), "has room for"),
    "no end": (SMALL.replace("\\end\\\n", ""), r"expected \\end\\.*end of the file: it is truncated"),
    "cut inside a line": (SMALL[: SMALL.index("好 </s>") + 2], "line 16: expected a probability, 2 words"),
    "more after the end": (SMALL + "more\n", r"line 24: expected nothing after \\end\\, received 'more'"),
    "a word of no unigram": (
        SMALL.replace("好 你", "坏 你"),
        "line 17: expected a word that is among the 1-grams, received '坏'",
    ),
    "a word too many": (
        SMALL.replace("-1\t好 你", "-1\t好 你 好 你"),
        "line 17: expected a probability, 2 words",
    ),
    "no number": (SMALL.replace("-0.0625", "-0.06x"), "line 20: expected a number, received '-0.06x'"),
    "not finite": (SMALL.replace("-0.0625", "-nan"), "line 20: expected a number, received '-nan'"),
    "a positive probability": (
        SMALL.replace("-0.0625", "0.0625"),
        "line 20: expected a logarithm.*, received 0.0625",
    ),
    "a backoff of the longest": (
        SMALL.replace("</s>\n\n\\end", "</s>\t-0.5\n\n\\end"),
        "line 21: expected no backoff",
    ),
    "a word twice": (
        SMALL.replace("好	-0.5", "你	-0.5"),
        "line 11: expected different words, received '你' again",
    ),
    "an n-gram twice": (SMALL.replace("-1\t好 你", "-1\t你 好"), "2-gram '你 好' appears twice"),
    "no context": (
        SMALL.replace("-0.25\t<s> 你\t-0.375", "-0.25\t<s> 好\t-0.375"),
        "'<s> 你' among the 2-grams, as '<s> 你 好'",
    ),
    "no mark of the end": (SMALL.replace("</s>", "end"), "expected </s> among the words"),
    "not UTF-8": (SMALL.encode("gbk"), "line 10: expected UTF-8, received b'"),
    "truncated gzip": (gzip.compress(SMALL.encode())[:-30], "cannot read the file to its end"),
    "a damaged gzip": (gzip.compress(SMALL.encode())[:30] + b"\0" * 80, "cannot read the file to its end"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_arpa_file_is_refused_with_line_and_expectation(kind, tmp_path):
    text, message = BROKEN[kind]
    with pytest.raises(UserError, match=message) as error:
        load_model(written(tmp_path, text))
    assert str(error.value).startswith(str(tmp_path / "model.arpa"))


def test_a_truncated_arpa_file_is_refused(tmp_path):
    whole = (FILES / "no_unk.arpa").read_bytes()
    for length in range(0, len(whole) - 2, 3):
        with pytest.raises(UserError):
            load_model(written(tmp_path, whole[:length]))
