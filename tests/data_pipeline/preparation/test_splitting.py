import pytest

from data_pipeline.preparation.splitting import complete_splits, splits_by_speaker
from data_pipeline.types import Recording


def recordings(num, num_speakers, num_sentences):
    return [
        Recording(
            f"r{i}",
            f"{i}.wav",
            f"句{i % num_sentences}",
            f"speaker{i % num_speakers}" if num_speakers else "",
        )
        for i in range(num)
    ]


@pytest.mark.parametrize(
    ("num_speakers", "num_sentences", "apart"),
    [(40, 500, "speaker"), (3, 200, "text"), (0, 200, "text")],
)
def test_split_corpus_shares_no_speaker_or_sentence_between_splits(num_speakers, num_sentences, apart):
    rows = recordings(2000, num_speakers, num_sentences)
    splits, note = complete_splits({"all": rows})
    assert list(splits) == ["train", "dev", "test"]
    assert sorted(r.id for part in splits.values() for r in part) == sorted(r.id for r in rows)
    seen = [{getattr(r, apart) for r in splits[name]} for name in splits]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    groups = sorted(set().union(*seen))
    assert seen[2] != set(groups[: len(seen[2])])  # the order is not alphabetical
    for name in ("dev", "test"):
        assert 0.05 <= len(splits[name]) / 2000 < 0.08
    assert ("no speaker" if apart == "speaker" else "no sentence") in note
    # the order of the files does not change the splits
    again, _ = complete_splits({"all": rows[::-1]})
    assert {name: {r.id for r in part} for name, part in again.items()} == {
        name: {r.id for r in part} for name, part in splits.items()
    }


def test_speaker_with_most_recordings_stays_in_train():
    for name in "abcdefghijkl":
        much = [Recording(f"m{i}", f"m{i}.wav", f"句{i}", f"much-{name}") for i in range(1000)]
        little = [Recording(f"l{i}", f"l{i}.wav", f"话{i}", f"little{i % 12}") for i in range(120)]
        splits, _ = complete_splits({"all": much + little})
        assert {r.speaker for r in much} <= {r.speaker for r in splits["train"]}
        assert splits["dev"]
        assert splits["test"]


@pytest.mark.parametrize("sizes", [(38, 2, 2), (500, 20, 20), (500, 400, 20, 20), (50, 40, 30)])
def test_of_few_speakers_those_with_few_recordings_are_held_out(sizes):
    for name in "abcdefghijkl":
        rows = [
            Recording(f"{place}-{i}", f"{place}-{i}.wav", f"句{i}", f"{name}{place}")
            for place, size in enumerate(sizes)
            for i in range(size)
        ]
        splits, _ = splits_by_speaker(rows)
        held_out = {place: {r.speaker for r in splits[place]} for place in ("dev", "test")}
        assert all(len(speakers) == 1 for speakers in held_out.values())
        assert f"{name}0" in {r.speaker for r in splits["train"]}
        assert len(splits["dev"]) + len(splits["test"]) == sum(sorted(sizes)[:2])


def test_sentences_that_differ_only_in_punctuation_are_in_one_split():
    rows = [Recording(f"a{i}", f"a{i}.wav", f"第{i}句") for i in range(300)]
    rows += [Recording(f"b{i}", f"b{i}.wav", f" 第{i}句。") for i in range(300)]
    splits, _ = complete_splits({"all": rows})
    seen = [{r.id[1:] for r in part} for part in splits.values()]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]


def test_recordings_without_speaker_are_split_by_sentence():
    rows = [
        Recording(f"a{i}", f"a{i}.wav", f"第{i % 50}句", "" if i % 2 else f"s{i % 40}") for i in range(600)
    ]
    splits, note = complete_splits({"all": rows})
    assert "no sentence" in note
    assert not {r.text for r in splits["train"]} & {r.text for r in splits["test"]}


def test_recordings_outside_the_given_splits_are_used_for_training():
    rows = recordings(100, 0, 100)
    splits, _ = complete_splits(
        {"all": rows[:60], "train": rows[60:80], "dev": rows[80:90], "test": rows[90:]}
    )
    assert {name: len(part) for name, part in splits.items()} == {"train": 80, "dev": 10, "test": 10}
    splits, _ = complete_splits({"all": rows[:60], "test": rows[60:]})
    assert splits["test"] == rows[60:]
    assert sum(len(part) for part in splits.values()) == 100


def test_missing_dev_is_taken_from_train_and_test_is_kept():
    test = recordings(30, 3, 30)
    splits, note = complete_splits({"train": recordings(1000, 30, 100), "test": test, "other": test[:2]})
    assert splits["test"] == test
    assert splits["other"] == test[:2]
    assert len(splits["train"]) + len(splits["dev"]) == 1000
    assert len(splits["dev"]) >= 50
    assert "dev made of 5%" in note


def test_given_splits_are_kept():
    splits = {"train": recordings(5, 1, 5), "dev": recordings(1, 1, 1), "test": recordings(1, 1, 1)}
    assert complete_splits(splits) == (splits, "")


@pytest.mark.parametrize("num", [1, 2, 3, 4])
def test_few_recordings_leave_at_least_one_for_training(num):
    splits, _ = complete_splits({"all": recordings(num, 0, num)})
    assert len(splits["train"]) >= 1
    assert sum(map(len, splits.values())) == num


def test_note_names_only_the_splits_that_could_not_be_made():
    splits, note = complete_splits({"all": recordings(2, 0, 2)})
    assert splits["test"]
    assert not splits["dev"]
    assert "to make dev;" in note
