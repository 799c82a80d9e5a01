"""Test that lines and findings that are kept in arrays are what they were, and small."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from data_pipeline.doctor.contents import GrowingFindings, read_contents
from data_pipeline.doctor.findings import KINDS, CheckedManifest, Finding, about
from data_pipeline.manifests.manifest import read_manifest

MAX_BYTES = 900  # of memory for an utterance with a finding, lines not compressed; 1,300 as objects


@pytest.fixture
def contents(tmp_path):
    """Return two manifests, of which the first has broken lines, and a third that is not there."""
    for split, number in (("train", 50), ("dev", 9)):
        lines = [
            json.dumps({"id": f"{split}-{n}", "audio": f"{n}.wav", "duration_s": 1 + n, "tokens": "x"})
            for n in range(number)
        ]
        if split == "train":
            lines[7:7] = ["", "broken", "[]"]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    names = ("train", "test", "dev")
    return read_contents([CheckedManifest(tmp_path / f"{name}.jsonl", name) for name in names])


def test_entries_are_the_readable_lines_of_all_manifests(contents):
    entries = contents.entries
    train, test, dev = contents.sources
    places = [(entry.source, entry.line, entry.utterance.id) for entry in entries]
    expected = [(train, n + 1 + 3 * (n >= 7), f"train-{n}") for n in range(50)]
    assert places == [*expected, *((dev, n + 1, f"dev-{n}") for n in range(9))]
    assert list(entries) == [entries[index] for index in range(len(entries))] == entries[:]
    assert list(entries.utterances[50:]) == list(read_manifest(dev.path))
    assert [entries.find(entry.source, entry.line) for entry in entries] == list(range(59))
    assert [entries.find(source, 9) for source in (None, train, test)] == [None] * 3
    assert entries.find(dev, 10) is None
    assert [list(entries.of_source(source))[:1] for source in (train, test, dev)] == [[0], [], [50]]
    assert [(finding.code, finding.line) for finding in contents.findings] == [
        ("broken-line", 9),
        ("broken-line", 10),
        ("unreadable-manifest", 0),
    ]


def test_findings_in_arrays_are_those_that_were_added_in_the_order_of_kinds_and_lines(contents):
    generator = random.Random(1)
    ranks = {code: rank for rank, code in enumerate(KINDS)}
    findings = [
        about(
            contents.entries[generator.randrange(59)], generator.choice(list(KINDS)), f"detail {n} \udce4\n您"
        )
        for n in range(200)
    ]
    findings += [*contents.findings, Finding("broken-vocabulary", "no manifest"), Finding("no-speaker", "1")]
    growing = GrowingFindings(contents.entries)
    growing.extend(findings)
    found = growing.findings().in_order()

    def order(finding):
        source = contents.sources.index(finding.source) if finding.source else -1
        return ranks[finding.code], source, finding.line

    expected = sorted(findings, key=order)
    assert found == expected
    assert {code: list(of_kind) for code, of_kind in found.by_kind().items()} == {
        code: [one for one in expected if one.code == code]
        for code in KINDS
        if any(one.code == code for one in expected)
    }
    for source in contents.sources:
        assert list(found.about(source)) == [one for one in expected if one.source == source]
    left_out = {(one.source, one.line) for one in findings if one.kind.left_out and one.source}
    assert set(found.places_left_out()) == left_out
    usable = [(entry.source, entry.line) not in left_out for entry in contents.entries]
    assert found.usable().tolist() == usable


EXAMINED = """
import re, sys
from pathlib import Path
from asr.base.text.pinyin import mandarin_syllables
from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor.checkup import Checkup, Checkups
from data_pipeline.doctor.contents import read_contents
from data_pipeline.doctor.diagnosis import diagnose
from data_pipeline.doctor.findings import sources_of
from data_pipeline.doctor.label_checks import LabelRules
from data_pipeline.doctor.page import write_doctor_page

def memory(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

def examined(folder):
    contents = read_contents(sources_of([folder / "train.jsonl", folder / "dev.jsonl"]))
    checkups = Checkups(len(contents.entries))
    for index, duration_s in enumerate(contents.entries.columns.durations_s.tolist()):
        digest = index.to_bytes(16, "big")
        checkups[index] = Checkup("", "", 48000, 1, True, duration_s, 0.5, -20.0, digest=digest)
    rules = LabelRules(Vocabulary(mandarin_syllables()), len, lambda n: n // 640, "model")
    diagnosis = diagnose(contents, checkups, rules)
    write_doctor_page(folder / "page.html", diagnosis)
    return diagnosis

few = examined(Path(sys.argv[1]))  # imports and first uses
Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
before = memory("VmRSS")
many = examined(Path(sys.argv[2]))
print(memory("VmHWM") - before, len(many.contents.entries), len(many.by_kind()["resampled"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs the memory of Linux' /proc")
def test_memory_of_the_doctor_is_bounded_for_each_utterance_and_finding(tmp_path):
    syllables = [f"{initial}a{tone}" for initial in "bpmfdtnlgkh" for tone in range(1, 5)]
    numbers = {"few": 1_000, "many": 20_000}
    for name, number in numbers.items():
        (tmp_path / name).mkdir()
        for split, first in (("train", number // 100), ("dev", 0)):
            last = number if split == "train" else number // 100
            with (tmp_path / name / f"{split}.jsonl").open("w", encoding="utf-8") as file:
                for index in range(first, last):
                    record = {
                        "id": f"corpus-{index % 977:03d}-{index:07d}",
                        "audio": f"audio/{index % 977:03d}/{index:07d}.wav",
                        "duration_s": 3 + index * 7919 % 10_000 / 10_000,
                        "text": "".join(chr(0x4E00 + (index * n * 31) % 3000) for n in range(1, 13)),
                        "tokens": " ".join(
                            syllables[(index * 7 + n * (index % 11 + 1)) % 44] for n in range(12)
                        ),
                        "speaker": f"{split}{index % 977:03d}",
                    }
                    file.write(f"{json.dumps(record, ensure_ascii=False)}\n")
    command = [sys.executable, "-c", EXAMINED, tmp_path / "few", tmp_path / "many"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    grown, examined, resampled = map(int, output.split())
    assert examined == resampled == numbers["many"]
    assert grown / examined < MAX_BYTES
