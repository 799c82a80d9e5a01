"""Test the folder of takes: what was stored is read back, whatever ended the process or filled the disk."""

import json
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from helpers import ROOT
from helpers.full_disk import largest_file
from helpers.takes import noise, prompts_of

from asr.base.errors import UserError
from data_pipeline.collection.takes import open_takes

FIRST, SECOND, *_ = prompts_of()


def stored(folder):
    with open_takes(folder, None) as takes:
        return {(take.speaker, take.prompt): take for take in takes.all()}


def files_in(folder):
    return sorted(path.name for path in (folder / "audio").rglob("*") if path.is_file())


def test_take_is_read_back_with_its_samples_and_rate(tmp_path):
    samples = noise(rate_hz=48_000)
    with open_takes(tmp_path / "out", "characters") as takes:
        takes.keep("小明", FIRST, samples, 48_000, [{"kind": "quiet", "detail": "-50 dB"}])
    (take,) = stored(tmp_path / "out").values()
    read, rate_hz = soundfile.read(tmp_path / "out" / take.audio, dtype="int16")
    assert rate_hz == 48_000
    assert np.array_equal(read, samples)
    assert (take.speaker, take.text, take.tokens) == ("小明", FIRST.text, FIRST.tokens)
    assert take.problems == ({"kind": "quiet", "detail": "-50 dB"},)
    assert take.duration_s == pytest.approx(1.0)


def test_new_take_replaces_the_former_and_a_removed_one_stays_removed(tmp_path):
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0), 16_000)
        takes.keep("a", FIRST, noise(1, 2.0), 16_000)
        takes.keep("b", FIRST, noise(2), 16_000)
        takes.keep("a", SECOND, noise(3), 16_000)
        assert takes.drop("a", SECOND.id)
        assert not takes.drop("a", SECOND.id)
    found = stored(tmp_path)
    assert set(found) == {("a", "p0"), ("b", "p0")}
    assert found["a", "p0"].duration_s == pytest.approx(2.0)
    assert files_in(tmp_path) == ["p0-1.flac", "p0-2.flac"]  # of b and a
    with open_takes(tmp_path, None) as takes:  # no name is given twice
        takes.keep("a", SECOND, noise(4), 16_000)
    assert stored(tmp_path)["a", "p1"].audio.endswith("p1-2.flac")


def test_verdicts_of_a_check_are_kept_unless_the_take_was_replaced(tmp_path):
    differences = [{"kind": "missing", "start": 1, "end": 2, "recognized": ""}]
    with open_takes(tmp_path, "characters") as takes:
        old = takes.keep("a", FIRST, noise(0), 16_000)
        new = takes.keep("a", FIRST, noise(1), 16_000)
        assert takes.decide(old, differences) is None
        assert not stored_doubt(takes)
        takes.decide(new, differences)
        assert stored_doubt(takes)
    take = stored(tmp_path)["a", "p0"]
    assert take.in_doubt
    assert take.differences == tuple(differences)
    with open_takes(tmp_path, None) as takes:
        assert takes.decide(takes.find("a", "p0"), ()).checked > take.checked
    assert not stored(tmp_path)["a", "p0"].in_doubt


def stored_doubt(takes):
    return takes.find("a", "p0").in_doubt


@pytest.mark.parametrize("torn", [b'{"id": "a-p1", "audio"', b"\0" * 300, b'{"id": 1}\n'[:-1], b"\0\0\n{"])
def test_torn_end_of_the_journal_is_cut_off(tmp_path, torn):
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0), 16_000)
    whole = (tmp_path / "takes.journal").read_bytes()
    (tmp_path / "takes.journal").write_bytes(whole + torn)
    assert set(stored(tmp_path)) == {("a", "p0")}
    assert (tmp_path / "takes.journal").read_bytes() == whole
    with open_takes(tmp_path, None) as takes:
        takes.keep("a", SECOND, noise(1), 16_000)
    assert set(stored(tmp_path)) == {("a", "p0"), ("a", "p1")}


@pytest.mark.parametrize(
    "broken", ["{", '{"speaker": "a"}', "7", '{"speaker": "a", "prompt": "x", "audio": "../b"}']
)
def test_broken_line_in_the_middle_is_named(tmp_path, broken):
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0), 16_000)
    whole = (tmp_path / "takes.journal").read_text(encoding="utf-8")
    (tmp_path / "takes.journal").write_text(f"{whole}{broken}\n{whole}", encoding="utf-8")
    with pytest.raises(UserError, match=r"takes\.journal:2"), open_takes(tmp_path, None):
        pass
    assert len((tmp_path / "takes.journal").read_text(encoding="utf-8").splitlines()) == 3


def test_recording_that_is_gone_is_reported_and_can_be_made_again(tmp_path):
    with open_takes(tmp_path, "characters") as takes:
        gone = takes.keep("a", FIRST, noise(0), 16_000)
        takes.keep("a", SECOND, noise(0), 16_000)
    (tmp_path / gone.audio).unlink()
    with open_takes(tmp_path, None) as takes:
        assert [take.prompt for take in takes.missing] == ["p0"]
        assert [take.prompt for take in takes.all()] == ["p1"]
        takes.keep("a", FIRST, noise(1), 16_000)
    assert set(stored(tmp_path)) == {("a", "p0"), ("a", "p1")}


def test_line_that_a_person_removed_costs_no_recording(tmp_path):
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0), 16_000)
        takes.keep("a", FIRST, noise(1), 16_000)
    journal = tmp_path / "takes.journal"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[1])
    with open_takes(tmp_path, None) as takes:
        newest = takes.keep("a", FIRST, noise(2), 16_000)
        assert (tmp_path / newest.audio).is_file()
    assert files_in(tmp_path) == ["p0-3.flac"]


def test_full_disk_keeps_the_earlier_take_and_nothing_of_the_new_one(tmp_path):
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0, 0.1), 16_000)
        before = (tmp_path / "takes.journal").read_bytes()
        with largest_file(len(before) + 40):  # neither the recording nor the line fits
            with pytest.raises(UserError, match="free space"):
                takes.keep("a", FIRST, noise(1, 2.0), 16_000)
            with pytest.raises(UserError, match="free space"):
                takes.drop("a", FIRST.id)
            assert takes.find("a", FIRST.id).duration_s == pytest.approx(0.1)
        assert files_in(tmp_path) == ["p0-1.flac"]
        assert (tmp_path / "takes.journal").read_bytes() == before
        takes.keep("a", FIRST, noise(2, 2.0), 16_000)
    assert stored(tmp_path)["a", "p0"].duration_s == pytest.approx(2.0)


def test_recording_without_a_line_is_removed_where_the_line_does_not_fit(tmp_path):
    long = prompts_of(["很" * 3000])[0]
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", SECOND, noise(0, 0.1), 16_000)
        with largest_file(8000), pytest.raises(UserError, match="takes"):
            takes.keep("a", long, np.zeros(1600, np.int16), 16_000)
        assert files_in(tmp_path) == ["p1-1.flac"]
    assert set(stored(tmp_path)) == {("a", "p1")}


def test_recordings_that_a_killed_process_was_to_remove_are_removed(tmp_path):
    with open_takes(tmp_path, "characters") as takes:
        first = tmp_path / takes.keep("a", FIRST, noise(0), 16_000).audio
        content = first.read_bytes()
        takes.keep("a", FIRST, noise(1), 16_000)
    first.write_bytes(content)
    assert set(stored(tmp_path)) == {("a", "p0")}
    assert files_in(tmp_path) == ["p0-2.flac"]


def test_second_process_is_refused_until_the_first_ends(tmp_path):
    program = (
        "import sys\nfrom pathlib import Path\nfrom data_pipeline.collection.takes import open_takes\n"
        "with open_takes(Path(sys.argv[1]), 'words'):\n    print('open', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UserError, match="another asr record"), open_takes(tmp_path / "out", None):
            pass
        other.kill()
        other.wait()
    with open_takes(tmp_path / "out", None) as takes:
        assert takes.settings.units == "words"


def test_folder_that_is_something_else_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "prepared.json").write_text("{}")
    for name, reason in {"file": "a file", "full": "notes.txt", "prepared": "asr prepare"}.items():
        with pytest.raises(UserError, match=reason), open_takes(tmp_path / name, None):
            pass
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]


def test_broken_description_is_refused(tmp_path):
    with open_takes(tmp_path, "characters"):
        pass
    (tmp_path / "record.json").write_text(json.dumps({"units": "characters"}))
    with pytest.raises(UserError, match=r"record\.json"), open_takes(tmp_path, None):
        pass


def test_units_can_be_chosen_again_until_there_is_a_take(tmp_path):
    with open_takes(tmp_path, None) as takes:
        assert takes.settings.units == "syllables"
    with open_takes(tmp_path, "characters") as takes:
        takes.keep("a", FIRST, noise(0), 16_000)
    with pytest.raises(UserError, match="characters"), open_takes(tmp_path, "words"):
        pass
