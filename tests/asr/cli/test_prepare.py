import pytest

from asr.cli.main import main
from data_pipeline.corpora import CORPORA, FORMS


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["hsk_word", "a", "b"], "did you mean hsk_words?"),
        (["digits", "a"], "expected DIR OUT"),
        (["mandarin_demo", "a", "b"], "expected OUT"),
        (["digits", "/no/such/folder", "out"], "no folder '/no/such/folder'"),
        (["/", "out"], "`asr prepare folder / OUT`"),
        ([], "--list"),
    ],
)
def test_wrong_prepare_command_says_what_was_expected(arguments, error, capsys):
    assert main(["prepare", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_prepare_list_shows_every_corpus_with_licence_and_address(capsys):
    assert main(["prepare", "--list"]) == 0
    output = capsys.readouterr().out
    for name, corpus in CORPORA.items():
        assert f"\n{name}\n" in output
        assert corpus.licence
        assert corpus.licence in output
        assert corpus.address in output
        assert corpus.hours or name == "common_voice"  # grows every few months
    for name, form in FORMS.items():
        assert f"\n{name}\n" in output
        assert form.about in output
