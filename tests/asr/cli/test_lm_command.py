"""Test `asr lm info` and `asr lm perplexity`; test_arpa.py tests the files."""

import json
import re
import subprocess
import sys

import pytest
from helpers import ROOT

from asr.cli.main import main

FILES = ROOT / "tests/asr/language/ngram/kenlm_files"
KENLM = json.loads((FILES / "scores.json").read_text(encoding="utf-8"))
TEXT = "我们去学校。\n他们去公园!\n我们明天去北京,他们后天去上海。\n" * 5


def rows(printed):
    """Return {name: value} of the printed rows, which are indented."""
    return dict(
        re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in printed.splitlines() if line[0] == " "
    )


@pytest.fixture
def tokenized(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(KENLM["sentences"]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    assert main(["lm", "train", str(folder / "text.txt"), "--out", str(folder / "model")]) == 0
    return folder / "model"


@pytest.mark.parametrize("name", ["probing.klm", "trie.klm", "whole.arpa"])
def test_perplexity_equals_that_of_kenlm(name, tokenized, capsys):
    known = {line.split()[1] for line in (FILES / "whole.arpa").read_text(encoding="utf-8").split("\n")[7:19]}
    total = unknown_total = 0.0
    num_words = num_unknown = num_sentences = 0
    for sentence, scores in zip(KENLM["sentences"], KENLM["log10_probs"][name], strict=True):
        if not sentence:
            continue  # an empty line is no sentence
        is_unknown = [word not in known for word in sentence.split()]
        total += sum(scores)
        unknown_total += sum(score for score, unknown in zip(scores, is_unknown, strict=False) if unknown)
        num_words += len(is_unknown)
        num_unknown += sum(is_unknown)
        num_sentences += 1
    num_tokens = num_words + num_sentences
    assert main(["lm", "perplexity", str(FILES / name), str(tokenized), "--tokenized"]) == 0
    table = rows(capsys.readouterr().out)
    assert num_unknown > 0
    assert table["sentences"] == str(num_sentences)
    assert table["words"] == f"{num_words}, {num_unknown} of them unknown ({num_unknown / num_words:.2%})"
    assert float(table["perplexity"]) == pytest.approx(10 ** (-total / num_tokens), abs=0.01)
    without = 10 ** (-(total - unknown_total) / (num_tokens - num_unknown))
    assert float(table["of known words"]) == pytest.approx(without, abs=0.01)


def test_all_models_of_a_folder_are_measured_on_chinese_text(trained, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("我们后天去公园。3个人去上海\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["lm", "perplexity", str(trained), str(text)]) == 0
    printed = capsys.readouterr().out
    table = rows(printed)
    assert table["syllables"].startswith("12, 2 of them unknown ")  # ge4 ren2
    assert table["characters"].startswith("12, 2 of them unknown ")
    assert table["words"].startswith("7, 1 of them unknown ")  # 个人
    assert "left out of the text: 1 digits" in printed


def test_training_text_has_a_lower_perplexity_than_another(trained, tmp_path, capsys):
    def perplexity(text):
        path = tmp_path / "text.txt"
        path.write_text(text, encoding="utf-8")
        capsys.readouterr()
        assert main(["lm", "perplexity", str(trained / "syllables.klm"), str(path)]) == 0
        return float(rows(capsys.readouterr().out)["perplexity"])

    assert perplexity(TEXT) < perplexity("去去我去天们上他") / 2


def test_info_shows_the_models_of_a_folder_and_their_texts(trained, capsys):
    capsys.readouterr()
    assert main(["lm", "info", str(trained)]) == 0
    printed = capsys.readouterr().out
    table = rows(printed)
    assert "text.txt" in table["from"]
    for unit in ("syllables", "characters", "words"):
        assert f"{trained / unit}.klm:" in printed
    assert table["file"].startswith("KenLM binary (probing), ")
    assert table["order"] == "3"
    assert len(table["2-gram discounts"].split(", ")) == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("whole.arpa", "ARPA"),
        ("quantised_array.klm", "KenLM binary (quantised array trie)"),
        ("no_unk.klm", "KenLM"),
    ],
)
def test_info_shows_the_contents_of_a_file(name, kind, capsys):
    assert main(["lm", "info", str(FILES / name)]) == 0
    table = rows(capsys.readouterr().out)
    assert table["file"].startswith(kind)
    if name != "no_unk.klm":
        assert table["n-grams"] == "12 of order 1, 38 of order 2, 72 of order 3, 57 of order 4"
    assert table["words"].startswith("9, such as ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "{tmp}"], "no language model in this folder"),
        (["info", "{tmp}/none"], "cannot read this language model"),
        (["perplexity", "{files}/probing.klm", "{tmp}/none.txt"], "none.txt: no such file"),
        (["perplexity", "{files}/probing.klm", "{tmp}/other.txt"], "none of the 3 different words"),
        (
            ["perplexity", "{files}/probing.klm", "{tmp}/empty.txt", "--tokenized"],
            "expected words, received none",
        ),
        (["perplexity", "{files}/probing.klm", "{tmp}/empty.txt"], "expected Chinese text"),
    ],
)
def test_language_model_errors_are_one_line(arguments, message, tmp_path, capsys):
    (tmp_path / "other.txt").write_text("明天 去 上海\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    filled = [argument.format(tmp=tmp_path, files=FILES) for argument in arguments]
    assert main(["lm", *filled]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error


def test_model_exported_as_text_and_converted_back_is_identical(trained, tmp_path, capsys):
    model, text, again = trained / "words.klm", tmp_path / "words.arpa", tmp_path / "again.klm"
    assert main(["lm", "export", str(model), str(text)]) == 0
    assert text.read_text(encoding="utf-8").startswith("\\data\\")
    assert main(["lm", "export", str(text), str(again)]) == 0
    assert main(["lm", "export", str(again), str(tmp_path / "again.arpa")]) == 0
    assert (tmp_path / "again.arpa").read_bytes() == text.read_bytes()
    assert main(["lm", "export", str(text), str(again)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["lm", "export", str(text), str(tmp_path / "model.txt")]) == 2
    assert "expected a name that ends in .arpa or .klm" in capsys.readouterr().err


def test_perplexity_reads_text_from_standard_input():
    command = [
        sys.executable,
        "-m",
        "asr",
        "lm",
        "perplexity",
        str(FILES / "probing.klm"),
        "-",
        "--tokenized",
    ]
    output = subprocess.run(
        command, input="一 一\n".encode(), capture_output=True, check=True
    ).stdout.decode()
    assert rows(output)["words"].startswith("2, 0 of them unknown ")


def test_help_compiles_nothing():
    program = (
        "import sys\nfrom asr.cli.main import main\n"
        "try: main(['lm', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'numba', 'numpy', 'tensorflow'} & set(sys.modules), 'imported for --help'"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.decode()
    assert all(name in output for name in ("train", "info", "perplexity", "convert"))
