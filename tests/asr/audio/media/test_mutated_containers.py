"""Randomly damaged and crafted containers crash, block and fill nothing, and each is read or named."""

import functools
import io
import re
import struct

import numpy as np
import pytest
from helpers.damage import blank, cut, insert_garbage
from helpers.media import serve_until_killed, serve_without_end, serve_without_measure, written

from asr.audio.media import child
from asr.audio.recording import audio_header, read_audio
from asr.base.errors import UserError

KINDS = ["m4a", "mp4", "webm", "mkv", "amr"]
LIMIT_S = 3600  # of what a file of a second may unfold to


@pytest.fixture(scope="module")
def whole(clips):
    speech = read_audio(clips[0].audio_path)[:16000]
    return functools.cache(lambda name: written(speech, name))


def flip_bits(data, rng):
    for place in _places(data, rng, 40):
        data[place] ^= 1 << rng.integers(8)


def replace_bytes(data, rng):
    for place in _places(data, rng, 12):
        data[place] = rng.integers(256)


def declare_huge_sizes(data, rng):
    for place in _places(data, rng, 4):
        data[place : place + 4] = rng.choice([0x7FFFFFFF, 0xFFFFFFFF, 0x10000000, 0]).item().to_bytes(4)


DAMAGES = [flip_bits, replace_bytes, declare_huge_sizes, cut, insert_garbage, blank]


def _places(data, rng, most):
    """Return places to damage, mostly near the begin or the end, where containers have their index."""
    near = min(1500, len(data))
    anywhere = rng.integers(len(data), size=rng.integers(1, most))
    return {
        0: anywhere % near,
        1: len(data) - 1 - anywhere % near,
        2: anywhere,
    }[rng.integers(3).item()]


def mutated(whole, number):
    """Return a damaged file of a second, and its name."""
    rng = np.random.default_rng(number)
    name = KINDS[number % len(KINDS)]
    data = bytearray(whole(name))
    DAMAGES[number // len(KINDS) % len(DAMAGES)](data, rng)
    return bytes(data), name


def error_of(path):
    """Return the error of a file that is not read, else an empty text."""
    try:
        waveform = read_audio(path)
        audio_header(path)
    except UserError as error:
        return str(error)
    assert len(waveform) < LIMIT_S * 16000
    return ""


@pytest.mark.parametrize("numbers", [range(60), pytest.param(range(60, 1000), marks=pytest.mark.slow)])
def test_damaged_container_is_read_or_named(numbers, whole, tmp_path):
    errors = []
    for number in numbers:
        data, name = mutated(whole, number)
        path = tmp_path / f"{number}.{name}"
        path.write_bytes(data)
        errors.append(error_of(path))
        assert errors[-1].startswith(str(path)) or not errors[-1]
    assert 0.1 < np.mean([bool(error) for error in errors]) < 0.9


@pytest.fixture
def workers(monkeypatch):
    """Forget the processes that decode, so that those of this test have its limits."""

    def end_idle():
        while child._idle:
            child._idle.pop().child.kill()

    end_idle()
    yield
    end_idle()


def declaring_samples(data, number):
    """Return an MP4 file whose index declares samples of one byte each."""
    data = bytearray(data)
    struct.pack_into(">III", data, data.find(b"stsz") + 4, 0, 1, number)
    struct.pack_into(">II", data, data.find(b"stsc") + 16, number, 1)
    struct.pack_into(">II", data, data.find(b"stts") + 12, number, 1024)
    return bytes(data)


def test_index_that_would_fill_the_memory_is_refused(whole, tmp_path):
    path = tmp_path / "bomb.m4a"
    path.write_bytes(declaring_samples(whole("m4a"), 80_000_000))
    # FFmpeg continues without the index that it has no memory for; without the limit, it fails at its samples
    limited = r"its audio track has no audio|cannot allocate memory|takes more than 1024 MiB"
    with pytest.raises(UserError, match=f"{re.escape(str(path))}: .*({limited})"):
        read_audio(path)


def test_edits_that_repeat_the_audio_without_end_are_refused(whole):
    data = bytearray(whole("m4a"))
    place = data.find(b"elst")
    end = place - 4 + struct.unpack_from(">I", data, place - 4)[0]
    entry = bytes(data[end - 12 : end])
    more = entry * 5000
    for name in (b"elst", b"edts", b"trak", b"moov"):
        at = data.find(name) - 4
        struct.pack_into(">I", data, at, struct.unpack_from(">I", data, at)[0] + len(more))
    struct.pack_into(">I", data, place + 8, struct.unpack_from(">I", data, place + 8)[0] + 5000)
    data[end:end] = more
    with pytest.raises(UserError, match="audio stream: unfolds to more than"):
        read_audio(io.BytesIO(data))


@pytest.mark.parametrize(
    ("serve", "what"), [(serve_without_end, "more than 20 s"), (serve_without_measure, "more than 1024 MiB")]
)
def test_file_that_takes_the_decoder_too_much_is_named(serve, what, whole, workers, monkeypatch):
    monkeypatch.setattr(child, "_serve", serve)
    with pytest.raises(UserError, match=f"audio stream: damaged, or made to do harm: it takes {what}"):
        read_audio(io.BytesIO(whole("m4a")))


def test_file_that_crashes_the_decoder_is_named_and_the_next_one_is_read(whole, workers, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(child, "_serve", serve_until_killed)
        with pytest.raises(UserError, match=r"crashes the decoder \(SIGKILL\)"):
            read_audio(io.BytesIO(whole("m4a")))
    assert len(read_audio(io.BytesIO(whole("m4a")))) > 15000


def test_process_that_was_ended_while_idle_is_replaced(whole, workers):
    read_audio(io.BytesIO(whole("amr")))
    (worker,) = child._idle
    worker.child._process.kill()
    worker.child._process.wait()
    worker.child._reader.join()
    read_audio(io.BytesIO(whole("amr")))
    assert child._idle != [worker]


def test_playlist_that_names_other_files_is_not_followed(tmp_path, whole):
    secret = tmp_path / "secret.m4a"
    secret.write_bytes(whole("m4a"))
    for text in (f"#EXTM3U\n#EXTINF:1,\nfile://{secret}\n", f"ffconcat version 1.0\nfile {secret}\n"):
        for suffix in (".m4a", ".m3u8", ".mp4"):
            path = tmp_path / f"list{suffix}"
            path.write_text(text)
            with pytest.raises(UserError, match="not audio that can be read"):
                read_audio(path)
