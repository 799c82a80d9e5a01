import pytest

from data_pipeline.splitting import complete_splits
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
def test_a_corpus_without_splits_is_cut_so_that_they_share_nothing(num_speakers, num_sentences, apart):
    rows = recordings(2000, num_speakers, num_sentences)
    splits, told = complete_splits({"all": rows})
    assert list(splits) == ["train", "dev", "test"]
    assert sorted(r.id for part in splits.values() for r in part) == sorted(r.id for r in rows)
    seen = [{getattr(r, apart) for r in splits[name]} for name in splits]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    groups = sorted(set().union(*seen))
    assert seen[2] != set(groups[: len(seen[2])])  # the alphabet does not decide
    for name in ("dev", "test"):
        assert 0.05 <= len(splits[name]) / 2000 < 0.08
    assert ("no speaker" if apart == "speaker" else "no sentence") in told
    # another order of files is no other cut
    again, _ = complete_splits({"all": rows[::-1]})
    assert {name: {r.id for r in part} for name, part in again.items()} == {
        name: {r.id for r in part} for name, part in splits.items()
    }


def test_a_speaker_who_says_most_is_trained_on():
    for name in "abcdefghijkl":
        much = [Recording(f"m{i}", f"m{i}.wav", f"句{i}", f"much-{name}") for i in range(1000)]
        little = [Recording(f"l{i}", f"l{i}.wav", f"话{i}", f"little{i % 12}") for i in range(120)]
        splits, _ = complete_splits({"all": much + little})
        assert {r.speaker for r in much} <= {r.speaker for r in splits["train"]}
        assert splits["dev"]
        assert splits["test"]


def test_a_sentence_punctuated_otherwise_is_the_same_sentence():
    rows = [Recording(f"a{i}", f"a{i}.wav", f"第{i}句") for i in range(300)]
    rows += [Recording(f"b{i}", f"b{i}.wav", f" 第{i}句。") for i in range(300)]
    splits, _ = complete_splits({"all": rows})
    seen = [{r.id[1:] for r in part} for part in splits.values()]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]


def test_recordings_of_nobody_are_not_taken_for_speakers():
    rows = [
        Recording(f"a{i}", f"a{i}.wav", f"第{i % 50}句", "" if i % 2 else f"s{i % 40}") for i in range(600)
    ]
    splits, told = complete_splits({"all": rows})
    assert "no sentence" in told
    assert not {r.text for r in splits["train"]} & {r.text for r in splits["test"]}


def test_what_is_in_no_split_beside_others_is_trained_on():
    rows = recordings(100, 0, 100)
    splits, _ = complete_splits(
        {"all": rows[:60], "train": rows[60:80], "dev": rows[80:90], "test": rows[90:]}
    )
    assert {name: len(part) for name, part in splits.items()} == {"train": 80, "dev": 10, "test": 10}
    splits, _ = complete_splits({"all": rows[:60], "test": rows[60:]})
    assert splits["test"] == rows[60:]
    assert sum(len(part) for part in splits.values()) == 100


def test_a_corpus_without_dev_gives_some_of_train_and_keeps_its_test():
    test = recordings(30, 3, 30)
    splits, told = complete_splits({"train": recordings(1000, 30, 100), "test": test, "other": test[:2]})
    assert splits["test"] == test
    assert splits["other"] == test[:2]
    assert len(splits["train"]) + len(splits["dev"]) == 1000
    assert len(splits["dev"]) >= 50
    assert "dev made of 5%" in told


def test_a_corpus_with_its_own_splits_keeps_them():
    splits = {"train": recordings(5, 1, 5), "dev": recordings(1, 1, 1), "test": recordings(1, 1, 1)}
    assert complete_splits(splits) == (splits, "")


@pytest.mark.parametrize("num", [1, 2, 3, 4])
def test_a_handful_of_recordings_leaves_some_to_train_on(num):
    splits, _ = complete_splits({"all": recordings(num, 0, num)})
    assert len(splits["train"]) >= 1
    assert sum(map(len, splits.values())) == num
