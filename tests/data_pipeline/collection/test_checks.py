"""Test the check in the background: every take once, the latest first, none in the way of the next one."""

import threading

import pytest
from helpers.takes import SENTENCES, collection_in, noise

from asr.base.errors import UserError
from data_pipeline.collection.checks import MIN_CHECKED, contradicts_many
from data_pipeline.collection.take import Take

LIMIT_S = 120


class SlowCheck:
    """A check that waits until the test lets it, and finds a difference in what the test says.

    Attributes:
        texts: that were checked.
        begun: set with the first check.
        free: set by the test.
    """

    def __init__(self, wrong=(), failing=()):
        self.texts, self.wrong, self.failing = [], wrong, failing
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, path, tokens):
        text = "".join(tokens)
        assert path.is_file() or text in self.failing
        self.texts.append(text)
        self.begun.set()
        assert self.free.wait(LIMIT_S)
        if text in self.failing:
            raise UserError("broken")
        return [{"kind": "missing", "start": 0, "end": 1, "recognized": ""}] if text in self.wrong else []


def record(collection, prompt, seed=0):
    return collection.record("a", prompt, noise(seed), 16_000, keep=True)


def texts_of(takes, *prompts):
    return ["".join(takes.find("a", prompt).tokens) for prompt in prompts]


class Results:
    """Waits for a number of results."""

    def __init__(self):
        self._count = threading.Semaphore(0)

    def __call__(self):
        self._count.release()

    def wait_for(self, number):
        for _ in range(number):
            assert self._count.acquire(timeout=LIMIT_S)


def test_results_come_while_takes_are_recorded_and_survive_a_restart(tmp_path):
    with collection_in(tmp_path) as (takes, collection):
        record(collection, "p0")
        texts = texts_of(takes, "p0")
        check, results = SlowCheck(wrong=texts), Results()
        collection.start_checks(check, results)
        assert check.begun.wait(LIMIT_S)
        assert record(collection, "p1")["state"] == "kept"  # while the other is checked
        assert collection.checked("a", 0)["results"] == []
        check.free.set()
        results.wait_for(2)
        assert collection.checked("b", 0)["results"] == []
        found = collection.checked("a", 0)
        assert {row["id"]: row["state"] for row in found["results"]} == {"p0": "again", "p1": "kept"}
        assert collection.checked("a", found["last"])["results"] == []
        assert collection.session("a")["prompts"][0]["differences"][0]["kind"] == "missing"
        assert collection.kept_s("a") == 1.0
        collection.accept("a", "p0")
        assert collection.kept_s("a") == 2.0
    with collection_in(tmp_path) as (takes, collection):
        again = SlowCheck()
        again.free.set()
        collection.start_checks(again, lambda: None)
        record(collection, "p2")
        states = {row["id"]: row["state"] for row in collection.checked("a", 0)["results"]}
        assert states["p0"] == states["p1"] == "kept"
        collection.close()
        assert set(again.texts) <= {"他在图书馆看书"}  # what was checked is not checked again


def test_a_run_checks_again_what_general_has_checked_and_the_speaker_has_not_accepted(tmp_path):
    def checked_by(collection, check, judge):
        check.free.set()
        results = Results()
        collection.start_checks(check, results, judge)
        return results

    with collection_in(tmp_path) as (takes, collection):
        for prompt in ("p0", "p1", "p2"):
            record(collection, prompt)
        by_general = SlowCheck(wrong=texts_of(takes, "p0", "p1"))
        checked_by(collection, by_general, "").wait_for(3)
        collection.accept("a", "p0")
    with collection_in(tmp_path) as (takes, collection):
        by_run = SlowCheck(wrong=texts_of(takes, "p0", "p2"))
        checked_by(collection, by_run, "runs/a").wait_for(2)
        assert sorted(by_run.texts) == sorted(texts_of(takes, "p1", "p2"))
        assert [take.in_doubt for take in takes.all()] == [False, False, True]
    with collection_in(tmp_path) as (takes, collection):
        for prompt, judge in (("p3", "runs/b"), ("p4", "")):
            record(collection, prompt)
            check = SlowCheck()
            collection.start_checks(check, lambda: None, judge)
            assert check.begun.wait(LIMIT_S)
            assert collection._checks._waiting == []  # but the new take, the latest
            check.free.set()
            collection.close()


def test_verdicts_of_another_model_do_not_count_against_the_one_that_checked_last():
    def takes_by(judge, first, wrong):
        differences = ({"kind": "missing"},) if wrong else ()
        fields = {"differences": differences, "judge": judge}
        return [
            Take("a", f"p{number}", f"audio/a/p{number}-1.flac", 1.0, "", (), checked=number, **fields)
            for number in range(first, first + MIN_CHECKED)
        ]

    by_general = takes_by("", 1, wrong=True)
    assert contradicts_many(by_general)
    assert not contradicts_many([*by_general, *takes_by("runs/a", 100, wrong=False)])
    assert contradicts_many([*takes_by("runs/a", 100, wrong=True), *takes_by("", 1, wrong=False)])
    assert not contradicts_many([])


def test_take_that_is_replaced_during_its_check_is_checked_again(tmp_path):
    with collection_in(tmp_path) as (takes, collection):
        check, results = SlowCheck(), Results()
        collection.start_checks(check, results)
        record(collection, "p0")
        assert check.begun.wait(LIMIT_S)
        check.wrong = texts_of(takes, "p0")
        record(collection, "p0", seed=1)
        check.free.set()
        results.wait_for(1)
        assert len(check.texts) == 2
        assert takes.find("a", "p0").in_doubt


def test_take_that_its_speaker_accepts_during_a_check_stays_accepted(tmp_path):
    with collection_in(tmp_path) as (takes, collection):
        check, results = SlowCheck(), Results()
        collection.start_checks(check, results)
        record(collection, "p0")
        assert check.begun.wait(LIMIT_S)
        check.wrong = texts_of(takes, "p0")
        takes.accept(takes.find("a", "p0"))
        record(collection, "p1")
        check.free.set()
        results.wait_for(1)  # of the second
        take = takes.find("a", "p0")
        assert (take.accepted, take.in_doubt) == (True, False)


def test_check_that_fails_does_not_end_the_others(tmp_path):
    with collection_in(tmp_path) as (takes, collection):
        record(collection, "p0")
        record(collection, "p1")
        check, results = SlowCheck(failing=texts_of(takes, "p1")), Results()
        check.free.set()
        collection.start_checks(check, results)
        results.wait_for(1)
        assert takes.find("a", "p0").checked
        assert not takes.find("a", "p1").checked


@pytest.mark.parametrize("num_wrong", [MIN_CHECKED * 3 // 10, MIN_CHECKED * 3 // 10 + 1])
def test_model_that_contradicts_many_takes_of_a_speaker_doubts_none_of_them(tmp_path, num_wrong):
    texts = [f"{SENTENCES[0]}{number}" for number in range(MIN_CHECKED)]
    stops = num_wrong > 0.3 * MIN_CHECKED
    check, results = SlowCheck(wrong=[*texts[: num_wrong - 1], texts[-1]]), Results()
    check.free.set()
    with collection_in(tmp_path, texts) as (takes, collection):
        collection.start_checks(check, results)
        for number in range(MIN_CHECKED - 1):
            record(collection, f"p{number}")
        results.wait_for(MIN_CHECKED - 1)
        found = collection.checked("a", 0)
        states = [row["state"] for row in found["results"]]
        assert (states.count("again"), found["contradicts_many"]) == (num_wrong - 1, False)
        record(collection, f"p{MIN_CHECKED - 1}")
        results.wait_for(1)
        found = collection.checked("a", found["last"])
        assert found["contradicts_many"] is stops
        assert len(found["results"]) == (num_wrong if stops else 1)  # whose doubts end, and the new one
        in_doubt = sum(take.in_doubt for take in takes.all())
        assert in_doubt == (0 if stops else num_wrong)
        assert collection.speakers_contradicted() == (["a"] if stops else [])
        collection.record("b", "p0", noise(1), 16_000, keep=True)
        results.wait_for(1)
        assert takes.find("b", "p0").in_doubt  # of others it may be right
    with collection_in(tmp_path, texts) as (_, collection):
        assert collection.checked("a", 0)["contradicts_many"] is stops
