"""Test that the utterances of a manifest are those of its lines, whatever becomes of the file, and small."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asr.base.types import MachineLabel, Utterance
from data_pipeline.manifests import lines
from data_pipeline.manifests.columns import utterance_keys
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.manifests.utterances import UtterancesById, columns_of, durations_of, some_of

LABEL = MachineLabel("runs/demo", "epoch-0012", "0.1.0", "2026-11-26", 0.93, "/long/a.mp3", 12.5)
MAX_BYTES = 550  # of memory for an utterance and its plan; 1,000 as objects, with lists of labels


@pytest.fixture(params=[True, False], ids=["plain", "compressed"])
def utterances(request, tmp_path, monkeypatch):
    """Return 400 utterances; their lines are kept as they are, or compressed."""
    if not request.param:
        monkeypatch.setattr(lines.Lines.__init__, "__defaults__", (0,))
    return [
        Utterance(
            f"a-{number}",
            str(tmp_path / f"音 {number}.wav"),
            1 + number / 8,
            f"第 {number}",
            ("di4", "yi1")[: number % 3],
            f"s{number % 7}",
            labelled_by=LABEL if number % 5 == 0 else None,
        )
        for number in range(400)
    ]


@pytest.fixture
def manifest(utterances, tmp_path):
    write_manifest(tmp_path / "train.jsonl", utterances)
    return tmp_path / "train.jsonl"


def test_utterances_are_read_one_by_one_in_parts_and_as_a_whole(utterances, manifest):
    read = read_manifest(manifest)
    assert read == utterances
    assert utterances == read
    assert read[-1] == utterances[-1] == read[399]
    assert read[7:3:-2] == utterances[7:3:-2]
    assert read[380:][10:] == utterances[390:]
    assert some_of(read, [5, 2]) == some_of(utterances, [5, 2]) == [utterances[5], utterances[2]]
    assert read != [*utterances[:-1], dataclasses.replace(utterances[-1], text="other")]
    assert read != utterances[:-1]
    with pytest.raises(IndexError):
        read[400]


def test_columns_of_a_manifest_are_those_of_its_utterances(utterances, manifest):
    ours, theirs = (columns_of(one[3:200]) for one in (read_manifest(manifest), utterances))
    for name in ("durations_s", "keys", "by_machine"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.tokens.lengths.tolist() == theirs.tokens.lengths.tolist()
    assert durations_of(read_manifest(manifest)).tolist() == durations_of(utterances).tolist()


def test_utterances_follow_those_of_another_manifest(utterances, manifest, tmp_path):
    other = tmp_path / "other" / "more.jsonl"
    write_manifest(other, [dataclasses.replace(one, id=f"b{one.id}") for one in utterances])
    more = read_manifest(other)
    joined = read_manifest(manifest).take(np.array([9, 1])).followed_by([more[5:7], more[:1]])
    assert joined == [utterances[9], utterances[1], more[5], more[6], more[0]]
    assert joined[3] == more[6]
    assert joined.columns.durations_s.tolist() == [one.duration_s for one in joined]


def test_utterances_are_found_by_their_ids_though_keys_may_be_equal(utterances, manifest):
    read = read_manifest(manifest)
    by_id = UtterancesById(read)
    assert [by_id.find(one.id) for one in utterances] == list(range(len(utterances)))
    assert by_id.find("a-400") is None
    read.columns.keys[:] = utterance_keys(["a-7"])  # as if all keys were equal by chance
    assert UtterancesById(read).find("a-7") == 7


@pytest.mark.parametrize("change", ["replaced", "overwritten", "cut off", "removed"])
def test_change_of_the_file_changes_no_utterance(utterances, manifest, change):
    read = read_manifest(manifest)
    if change == "replaced":
        write_manifest(manifest, [dataclasses.replace(one, text="other") for one in utterances])
    elif change == "removed":
        manifest.unlink()
    else:
        with manifest.open("r+b") as file:
            if change == "cut off":
                file.truncate(100)
            else:
                file.write(b"x" * 10_000)
    assert read == utterances


PLANNED = """
import re, sys
from pathlib import Path
from asr.base.vocabulary import Vocabulary
from data_pipeline.batches.dataset import Dataset
from data_pipeline.manifests.manifest import read_manifest

def memory(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

def plan(manifest):
    utterances = read_manifest(manifest)
    data = Dataset(utterances, Vocabulary(sorted(utterances.columns.tokens_in_use())), 60.0)
    plan, _ = data.epoch(0, 1, lambda num_samples, labels: True)
    return data, plan

few = plan(Path(sys.argv[1]))  # imports and first uses
Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
before = memory("VmRSS")
many = plan(Path(sys.argv[2]))
print(memory("VmHWM") - before, sum(map(len, many[1])))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs the memory of Linux' /proc")
def test_memory_of_a_plan_is_bounded_for_each_utterance(tmp_path):
    number = 150_000
    syllables = [f"{initial}a{tone}" for initial in "bpmfdtnlgkh" for tone in range(1, 6)]
    with (tmp_path / "many.jsonl").open("w", encoding="utf-8") as file:
        for index in range(number):
            tokens = [syllables[(index * 7 + place * (index % 11 + 1)) % 55] for place in range(12)]
            record = {
                "id": f"corpus-{index % 977:03d}-{index:07d}",
                "audio": f"audio/{index % 977:03d}/{index:07d}.wav",
                "duration_s": 1 + index * 7919 % 100_000 / 10_000,
                "text": "".join(chr(0x4E00 + (index * place * 31) % 3000) for place in range(12)),
                "tokens": " ".join(tokens),
                "speaker": f"{index % 977:03d}",
            }
            file.write(f"{json.dumps(record, ensure_ascii=False)}\n")
    first = (tmp_path / "many.jsonl").read_bytes().split(b"\n", 1000)[:1000]
    (tmp_path / "few.jsonl").write_bytes(b"\n".join(first))
    command = [sys.executable, "-c", PLANNED, tmp_path / "few.jsonl", tmp_path / "many.jsonl"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    grown, planned = map(int, output.split())
    assert planned == number
    assert grown / number < MAX_BYTES
