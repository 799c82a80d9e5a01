"""The table of published figures has the run's own rate by the set's unit, and how it was decoded."""

import pytest
from helpers import ROOT

from asr.base.types import EditCounts
from asr.evaluation.published.figures import published_sets
from asr.evaluation.scores import Score
from asr.report.published import published_table

(AISHELL,) = (one for one in published_sets() if one.corpus == "aishell1")


def score(name, errors, num_utterances):
    edits = [EditCounts(errors, 0, 0, 1000)] * num_utterances
    return Score(name, edits, sum(edits, EditCounts()), (0.0, 1.0))


@pytest.mark.parametrize(
    ("decoder", "decoding"),
    [
        ({}, "CTC greedy"),
        ({"beam": 1}, "CTC greedy"),
        ({"beam": 16}, "CTC beam of 16"),
        ({"beam": 16, "language_model": "lm"}, "CTC beam of 16, language model"),
        ({"beam": 16, "language_model": ""}, "CTC beam of 16"),
        ({"beam": 16, "hot_words": "words.txt"}, "CTC beam of 16, hot words"),
    ],
)
def test_the_run_has_its_rate_by_the_unit_of_the_set(decoder, decoding):
    table = published_table(AISHELL, decoder, [score("character", 52, 7176)])
    assert (table.rate, table.decoding, table.is_part) == ("5.20", decoding, False)
    from_syllables = [score("syllable", 31, 7176), score("character", 52, 7176)]
    table = published_table(AISHELL, decoder, from_syllables)
    expected = f"{decoding}, hanzi from syllables by a language model"
    assert (table.rate, table.decoding, table.is_part) == ("5.20", expected, False)
    chinese = (ROOT / "asr/pages/templates/chinese.toml").read_text(encoding="utf-8")
    assert f'"{expected.replace("of 16", "of {n}")}" = ' in chinese


def test_a_part_of_the_set_and_a_run_without_such_a_rate_are_named():
    table = published_table(AISHELL, {}, [score("syllable", 31, 10)])
    assert (table.rate, table.is_part, table.num_utterances) == ("", True, 10)


def test_figures_are_shown_from_the_lowest():
    rates = [
        float(figure.rate) for figure in published_table(AISHELL, {}, [score("character", 1, 1)]).figures
    ]
    assert rates == sorted(rates)
    assert len(rates) == len(AISHELL.figures)
