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


def test_every_exception_is_of_a_line_that_exists():
    for file, part, reason in voice.ALLOWED:
        assert part in Path(voice.ROOT / file).read_text("utf-8"), (file, part)
        assert reason
