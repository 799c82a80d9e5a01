"""Test the tables of error rates of groups."""

import numpy as np

from asr.base.types import EditCounts, Utterance
from asr.evaluation.errors.significance import blocks_of, rate_interval
from asr.report.rates import group_table, interval
from asr.report.utterances import Scored


def test_interval_of_a_group_is_by_speakers_as_that_of_the_whole_set():
    rng = np.random.default_rng(0)
    members = []
    for speaker in range(30):
        for number in range(20):
            edits = EditCounts(int(rng.binomial(10, (0.02, 0.1, 0.5)[speaker % 3])), 0, 0, 10)
            utterance = Utterance(f"{speaker}-{number}", "a.wav", 1.0, "", ("a",), f"s{speaker}")
            members.append(Scored(utterance, None, (), edits))
    blocks = blocks_of([s.utterance.speaker for s in members])
    errors, lengths = [s.edits.errors for s in members], [s.edits.reference_length for s in members]
    by_speakers = rate_interval(blocks.summed(errors), blocks.summed(lengths))
    table = group_table("corpus", "syllable", {"a": members}).shown
    assert table.rows[0][2] == interval(by_speakers, len(members))
    assert table.rows[0][2] != interval(rate_interval(errors, lengths), len(members))
