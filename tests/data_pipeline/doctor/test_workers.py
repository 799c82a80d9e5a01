import os
import random
import shutil
import signal
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.corpora.defects import noise
from helpers.processes import children_of, wait_until_ended

from data_pipeline.doctor.checkup import check_recording
from data_pipeline.doctor.findings import KINDS
from data_pipeline.doctor.workers import FILES_AT_ONCE, check_recordings

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
NUM_MUTATED = 104


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Return the paths of one recording in four containers."""
    folder = tmp_path_factory.mktemp("recordings")
    paths = [folder / f"whole{suffix}" for suffix in SUFFIXES]
    for path in paths:
        soundfile.write(path, np.int16(noise(1, 1.5) * 32767), 16000)
    return paths


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file damaged as disks, networks and programs do."""
    data = bytearray(data)
    kind = rng.randrange(6)
    if kind == 0:  # bits flipped anywhere
        for _ in range(rng.randrange(1, 200)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:  # cut
        data = data[: rng.randrange(len(data))]
    elif kind == 2:  # another header
        data[: rng.randrange(1, 60)] = rng.randbytes(rng.randrange(1, 60))
    elif kind == 3:  # a huge number where a size may be
        place = rng.randrange(0, 64)
        data[place : place + 4] = struct.pack("<I", rng.choice([0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFEFFF, 1 << 30]))
    elif kind == 4:  # a hole
        begin = rng.randrange(len(data))
        data[begin : begin + 4096] = bytes(min(4096, len(data) - begin))
    else:  # bits flipped in the header
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(64)] ^= 1 << rng.randrange(8)
    return bytes(data)


def test_every_mutated_file_gets_a_checkup(recordings, tmp_path):
    rng = random.Random(4)
    paths = []
    for number in range(NUM_MUTATED):
        whole = recordings[number % len(recordings)]
        paths.append(tmp_path / f"{number}{whole.suffix}")
        paths[-1].write_bytes(mutated(whole.read_bytes(), rng))
    checkups = dict(check_recordings([str(path) for path in paths], limit_s=20.0))
    assert sorted(checkups) == list(range(NUM_MUTATED))
    for one in checkups.values():
        assert one.problem in KINDS if one.problem else one.duration_s > 0 and one.digest
    assert sum(bool(one.problem) for one in checkups.values()) > NUM_MUTATED / 4
    assert any(not one.problem for one in checkups.values())


def test_files_checked_in_parallel_equal_files_checked_alone(recordings):
    paths = [str(recordings[place % 4]) for place in range(2 * FILES_AT_ONCE + 5)]
    checkups = list(check_recordings(paths, num_workers=3))
    assert sorted(place for place, _ in checkups) == list(range(len(paths)))
    alone = [check_recording(str(path)) for path in recordings]
    assert all(one == alone[place % 4] for place, one in checkups)
    assert alone[0].digest == alone[1].digest  # the same samples as WAV and FLAC


def test_checking_no_files_starts_no_process():
    assert list(check_recordings([])) == []


@pytest.fixture
def terminal(tmp_path):
    """Return the path of a terminal where nobody types, which reading waits for."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs Linux's list of open files")
    ours, theirs = os.openpty()
    path = tmp_path / "waits.wav"
    path.symlink_to(os.ttyname(theirs))
    os.close(theirs)  # only a process that reads the file has it open
    yield path
    os.close(ours)


def test_hanging_file_is_reported_and_others_are_checked(recordings, terminal):
    paths = [str(recordings[0]), str(terminal), str(recordings[1]), str(recordings[2])]
    before = children_of(os.getpid())  # decoders of other tests, which wait for the next recording
    checkups = dict(check_recordings(paths, num_workers=1, limit_s=1.5))
    assert checkups[1].problem == "decoder-stopped"
    assert "did not end within 1.5 s" in checkups[1].detail
    assert [checkups[place].problem for place in (0, 2, 3)] == ["", "", ""]
    assert set(children_of(os.getpid())) <= set(before)


@pytest.mark.parametrize("num_deaths", [1, 2])
def test_killed_worker_loses_at_most_one_file(recordings, terminal, num_deaths):
    paths = [str(recordings[0]), str(terminal), str(recordings[1])]
    stop = threading.Thread(target=kill_while_reading, args=(terminal, recordings[0], num_deaths))
    stop.start()
    checkups = dict(check_recordings(paths, num_workers=1))
    stop.join()
    assert [checkups[0].problem, checkups[2].problem] == ["", ""]
    if num_deaths == 1:  # an accident: another process checks the file
        assert checkups[1].digest == checkups[0].digest
    else:
        assert (checkups[1].problem, checkups[1].detail) == (
            "decoder-stopped",
            "the decoder crashed (SIGKILL)",
        )


def kill_while_reading(terminal, whole, num_deaths):
    """Kill the process that reads a terminal; if only once, put a recording in its place for the next one."""
    opened = terminal.resolve()
    for _ in range(num_deaths):
        while not (children := [one for one in children_of(os.getpid()) if has_open(one, opened)]):
            time.sleep(0.01)
        if num_deaths == 1:
            terminal.unlink()
            shutil.copy(whole, terminal)
        os.kill(children[0], signal.SIGKILL)
        wait_until_ended(children)


def has_open(pid, path):
    try:
        return any(file.resolve() == path for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended
        return False
