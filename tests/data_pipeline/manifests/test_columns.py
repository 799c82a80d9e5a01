import numpy as np

from asr.base.types import MachineLabel, Utterance
from data_pipeline.manifests.columns import Columns, joined_columns, utterance_keys

LABEL = MachineLabel("runs/demo", "epoch-0012", "0.1.0", "2026-11-26", 0.93, "/long/a.mp3")
UTTERANCES = [
    Utterance("a", "a.wav", 1.25, "", ("x", "y"), corpus="one"),
    Utterance("b", "b.wav", 2.5, "", (), corpus="two"),
    Utterance("c", "c.wav", 0.1, "", ("y", "z", "y"), corpus="one", labelled_by=LABEL),
]


def tokens_of(columns):
    return [[columns.token_names[index] for index in row] for row in columns.tokens]


def test_columns_have_the_fields_of_the_utterances():
    columns = Columns.of(UTTERANCES)
    assert len(columns) == 3
    assert columns.durations_s.tolist() == [1.25, 2.5, 0.1]
    assert columns.keys.tolist() == utterance_keys("abc").tolist()
    assert tokens_of(columns) == [["x", "y"], [], ["y", "z", "y"]]
    assert columns.by_machine.tolist() == [False, False, True]
    assert columns.tokens_in_use() == {"x", "y", "z"}
    assert columns.corpora_in_use() == ["one", "two"]
    assert columns.duration_s == 1.25 + 2.5 + 0.1


def test_part_of_columns_is_that_of_its_utterances():
    for chosen in (slice(1, 3), np.array([2, 1])):
        part = Columns.of(UTTERANCES).take(chosen)
        assert part.durations_s.tolist() == np.array([1.25, 2.5, 0.1])[chosen].tolist()
        assert part.tokens_in_use() == {"y", "z"}
        assert sorted(part.corpora_in_use()) == ["one", "two"]


def test_joined_columns_have_the_tokens_and_corpora_of_each():
    joined = joined_columns([Columns.of(UTTERANCES[1:]).take(np.array([1])), Columns.of(UTTERANCES[:2])])
    assert tokens_of(joined) == [["y", "z", "y"], ["x", "y"], []]
    assert [joined.corpus_names[index] for index in joined.corpora] == ["one", "one", "two"]
    assert joined.by_machine.tolist() == [True, False, False]
    assert joined.keys.tolist() == utterance_keys("cab").tolist()
