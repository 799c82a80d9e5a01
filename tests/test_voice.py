"""Code and pages are in plain English, and the check that says so finds what is not."""

from pathlib import Path

import pytest
from helpers import voice


def test_code_and_pages_are_in_plain_english():
    assert [str(finding) for finding in voice.findings()] == []


@pytest.mark.parametrize(
    "line",
    [
        "what was heard",
        "def heard_text(self):",
        "It TOLD us",
        "the id stands twice",
        "train it anew",
        "so many rows",
    ],
)
def test_a_foreign_word_is_found_in_text_and_in_names(line, tmp_path, monkeypatch):
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(f"fine\n{line}\n")
    assert [finding.line for finding in voice.words(path)] == [2]


@pytest.mark.parametrize(
    "line", ["CTC stands for connectionist", "standard", "a shear", "understand", "sheard"]
)
def test_words_that_contain_a_foreign_word_are_fine(line, tmp_path, monkeypatch):
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(line)
    assert not list(voice.words(path))


@pytest.mark.parametrize(
    ("docstring", "is_fine"),
    [
        ("Return the learning rate of the next step.", True),
        ("Of the next step of training.", False),
        ("The number of samples in it.", False),
        ("Return the rate.", False),
    ],
)
def test_a_docstring_of_a_function_begins_with_a_verb_and_has_four_words(
    docstring, is_fine, tmp_path, monkeypatch
):
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    path = tmp_path / "asr" / "module.py"
    path.parent.mkdir()
    path.write_text(f'"""Computes learning rates of steps."""\n\n\ndef f():\n    """{docstring}"""\n')
    assert (not list(voice.docstrings(path))) == is_fine


def test_a_docstring_of_a_class_has_a_verb_somewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    path = tmp_path / "asr" / "module.py"
    path.parent.mkdir()
    path.write_text(
        '"""One step of the training loop."""\n\n\nclass C:\n    """A step that updates the weights."""\n'
    )
    assert [finding.line for finding in voice.docstrings(path)] == [1]


def test_every_exception_is_of_a_line_that_exists():
    for file, part, reason in voice.ALLOWED:
        assert part in Path(voice.ROOT / file).read_text("utf-8"), (file, part)
        assert reason
