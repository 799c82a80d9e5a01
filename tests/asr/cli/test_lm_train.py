"""Test `asr lm train` from the command line."""

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.processes import LIMIT_S, children_of, wait_until_ended

from asr.cli.main import main
from asr.language.ngram.folder import converts_to_hanzi, read_info, units_in
from asr.language.ngram.model_file import load_model

WORDS = [
    "今天",
    "天气",
    "很",
    "好",
    "我们",
    "去",
    "公园",
    "走路",
    "银行",
    "的",
    "行长",
    "长大",
    "孩子",
    "喜欢",
]


def random_text(num_lines, seed=0):
    draw = random.Random(seed)
    lines = (
        "".join(draw.choices(WORDS, range(len(WORDS), 0, -1), k=draw.randrange(1, 9)))
        for _ in range(num_lines)
    )
    return "，\n".join(lines) + "。\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(random_text(2000), encoding="utf-8")
    return path


def train(*arguments):
    return main(["lm", "train", *map(str, arguments)])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "info.json"}


def test_lm_train_writes_a_folder_of_models(text, tmp_path, capsys):
    out = tmp_path / "models" / "lm"
    assert train(text, "--out", out) == 0
    output = capsys.readouterr().out
    assert "2,000 sentences" in output
    assert "lm perplexity" in output
    assert set(units_in(out)) == {"syllables", "words", "characters"}
    assert converts_to_hanzi(out)
    info = read_info(out)
    assert (
        info.units["characters"].num_tokens == sum(len(line) for line in text.read_text().split("，\n")) - 2
    )
    for unit, known in (("syllables", "hang2"), ("words", "银行"), ("characters", "银")):
        model = load_model(out / f"{unit}.klm")
        assert known in model.ids
        assert model.counts == info.units[unit].counts
    lines = [line.split("\t") for line in (out / "pronunciations.tsv").read_text("utf-8").splitlines()]
    assert lines == sorted(lines)
    readings = {(word, reading): float(log_prob) for word, reading, log_prob in lines}
    assert readings["银行", "yin2 hang2"] == 0
    assert math.exp(readings["的", "de5"]) > 0.9
    assert not [path for path in out.parent.iterdir() if path != out]


def test_same_text_gives_identical_models_with_any_memory_limit(text, tmp_path):
    for out, memory in (("one", "1000"), ("other", "1000"), ("little", "20")):
        assert train(text, "--out", tmp_path / out, "--memory", memory) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "other") == contents(tmp_path / "little")


def test_models_have_the_given_units_order_and_pruning(text, tmp_path, capsys):
    out = tmp_path / "lm"
    arguments = ("--units", "syllables", "--order", "4", "--prune", "0", "0", "1", "--max-size", "0.02")
    assert train(text, "--out", out, *arguments) == 0
    assert units_in(out) == ("syllables",)
    assert load_model(out / "syllables.klm").order == 4
    assert 15_000 < (out / "syllables.klm").stat().st_size <= 20_000
    assert " of " in capsys.readouterr().out  # n-grams left out


def test_lm_train_reports_left_out_characters(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("今天是12号，用Python写", encoding="utf-8")
    assert train(path, "--out", tmp_path / "lm") == 0
    output = capsys.readouterr().out
    assert "2 digits" in output
    assert "6 Latin letters" in output
    assert "text is too small" in output


def test_lm_train_replaces_an_older_folder_of_models(text, tmp_path):
    out = tmp_path / "lm"
    assert train(text, "--out", out) == 0
    assert train(text, "--out", out, "--units", "words") == 0
    assert units_in(out) == ("words",)


def test_folder_with_other_files_is_refused(text, tmp_path, capsys):
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.jpg").write_bytes(b"cat")
    assert train(text, "--out", out) == 2
    assert "found cat.jpg" in capsys.readouterr().err
    assert train(text, "--out", text) == 2
    assert "found a file" in capsys.readouterr().err
    assert (out / "cat.jpg").exists()


@pytest.mark.parametrize("out", [".", "..", "../..", "/"])
def test_current_folder_and_those_above_it_are_refused(out, text, tmp_path, monkeypatch, capsys):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert train(text, "--out", out) == 2
    assert "expected a folder that can be replaced" in capsys.readouterr().err
    assert text.exists()


def test_current_folder_is_refused_even_if_it_holds_models(text, tmp_path, monkeypatch, capsys):
    out = tmp_path / "lm"
    assert train(text, "--out", out, "--units", "syllables") == 0
    monkeypatch.chdir(out)
    assert train(text, "--out", ".") == 2
    assert "expected a folder that can be replaced" in capsys.readouterr().err
    assert units_in(out) == ("syllables",)


def test_target_of_a_link_is_replaced_and_the_link_is_kept(text, tmp_path):
    link, out = tmp_path / "link", tmp_path / "models" / "lm"
    link.symlink_to(out)
    for units in ("syllables", "words"):
        assert train(text, "--out", link, "--units", units) == 0
        assert link.is_symlink()
        assert units_in(out) == (units,)
    assert list(out.parent.iterdir()) == [out]


def test_link_to_itself_is_refused_before_training(text, tmp_path, capsys):
    link = tmp_path / "link"
    link.symlink_to(link)
    assert train(text, "--out", link) == 2
    assert "expected a folder" in capsys.readouterr().err


def test_failed_training_keeps_the_older_model(text, tmp_path, capsys):
    out = tmp_path / "lm"
    assert train(text, "--out", out) == 0
    before = contents(out)
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"\0\1\2")
    assert train(broken, "--out", out) == 2
    assert contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.txt", "lm", "text.txt"]


BAD_TEXTS = {
    "empty": (b"", "found no hanzi"),
    "blank": ("\n 。\n".encode(), "found no hanzi"),
    "foreign": (
        b"Hello, world! 42",
        "found no hanzi but 10 Latin letters, 2 digits; of other languages, --units pieces,words --pieces",
    ),
    "binary": (bytes(range(256)), "a binary file"),
    "shift_jis": (("ひらがな" * 50).encode("shift_jis"), "neither UTF-8, UTF-16, GB 18030 nor Big5"),
}


@pytest.mark.parametrize(("data", "expected"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_unusable_texts_are_errors(data, expected, tmp_path, capsys):
    path = tmp_path / "bad.txt"
    path.write_bytes(data)
    assert train(path, "--out", tmp_path / "lm") == 2
    error = capsys.readouterr().err
    assert "bad.txt" in error
    assert expected in error
    assert not (tmp_path / "lm").exists()


def test_models_are_trained_on_a_single_sentence(tmp_path, capsys):
    path = tmp_path / "one.txt"
    path.write_text("你好", encoding="utf-8")
    assert train(path, "--out", tmp_path / "lm") == 0
    printed = capsys.readouterr().out
    assert "1 sentence, 1 word" in printed
    assert "per minute" not in printed  # that of six bytes would be the time of starting
    logs = load_model(tmp_path / "lm" / "characters.klm").log_probs("你好")
    assert all(-3 < log_prob < 0 for log_prob in logs)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--units", "letters"),
            "--units: expected some of syllables, characters, words, pieces, mixed, received 'letters'",
        ),
        (("--units", "pieces,syllables"), "--units: expected pieces or mixed alone or with words"),
        (("--pieces", "units.model"), "--pieces: syllables, characters, words have none; use it with"),
        (("--order", "9"), "--order: expected 2 to 6, received 9"),
        (("--prune", "1"), "the first 0"),
        (("--max-size", "0"), "--max-size: expected megabytes"),
        (("--max-size", "nan"), "expected megabytes"),
        (("--max-size", "inf"), "expected megabytes"),
        (("--max-size", "0.0001"), "take alone"),
        (("--memory", "1"), "--memory: expected at least 20 megabytes"),
        (("--memory", "inf"), "at least 20 megabytes and fewer than 1e+09, received inf"),
        (("--memory", "1e300"), "fewer than 1e+09"),
        (("--memory", "nan"), "received nan"),
    ],
)
def test_lm_train_options_out_of_range_are_errors(arguments, expected, text, tmp_path, capsys):
    assert train(text, "--out", tmp_path / "lm", *arguments) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "lm").exists()


def test_unwritable_folder_is_an_error(text, tmp_path, capsys):
    assert train(text, "--out", text / "lm") == 2
    assert "cannot write this folder" in capsys.readouterr().err


def command(*arguments):
    return [sys.executable, "-m", "asr", "lm", "train", *map(str, arguments)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc lists a process's children")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_interrupted_lm_train_leaves_no_model_and_no_process(number, tmp_path):
    out = tmp_path / "lm"
    process = subprocess.Popen(
        command("-", "--out", out),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TQDM_MININTERVAL": "0"},
    )
    writing = threading.Thread(target=write_without_end, args=(process.stdin,), daemon=True)
    writing.start()
    try:
        output = b""
        while b"reading" not in output:  # a child has done its first piece
            byte = process.stderr.read(1)
            assert byte, output.decode()
            output += byte
        children = children_of(process.pid)
        assert children
        process.send_signal(number)
        assert process.wait(LIMIT_S) in (-signal.SIGKILL, 128 + signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    wait_until_ended(children)
    writing.join()
    assert not out.exists()
    if number == signal.SIGTERM:
        assert not list(tmp_path.iterdir())


def write_without_end(stream):
    """Write text, most of it spaces, which take no time, until the reader has ended."""
    with contextlib.suppress(BrokenPipeError), stream:
        while True:
            stream.write((WORDS[0] + " " * 1000 + "\n").encode())


@pytest.mark.slow
def test_lm_train_reads_text_from_standard_input(text, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    arguments = command("-", "--out", tmp_path / "piped")
    with text.open("rb") as file:
        subprocess.run(arguments, stdin=file, cwd=ROOT, env=environment, check=True, capture_output=True)
    assert train(text, "--out", tmp_path / "named") == 0
    assert contents(tmp_path / "piped") == contents(tmp_path / "named")
