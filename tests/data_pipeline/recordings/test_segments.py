import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.dask_cluster import dask_cluster

from asr.audio.recording import read_audio, write_wav
from asr.base.cluster import Cluster
from asr.base.errors import UserError
from data_pipeline.recordings import segments
from data_pipeline.recordings.segments import MAX_IN_MEMORY, cut_segments, file_name, read_spans
from data_pipeline.types import LeftOut, Recording


def test_segments_of_a_long_recording_are_cut_into_files(tmp_path):
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "long.flac", rng.normal(0, 0.1, 32000), 16000)
    whole = read_audio(tmp_path / "long.flac")
    long = str(tmp_path / "long.flac")
    rows = [
        Recording("all", long, "全", begin_s=0.0, end_s=1.98),
        Recording("a/1", long, "甲", begin_s=0.5, end_s=1.25),
        Recording("a_1", long, "乙", begin_s=1.25),
        Recording("whole", long, "丙"),
        Recording("beyond", long, "丁", begin_s=1.0, end_s=3.0),
        Recording("backwards", long, "戊", begin_s=1.0, end_s=0.5),
        Recording("gone", "gone.wav", "己", begin_s=1.0),
    ]
    results = list(cut_segments(rows, tmp_path / "audio"))
    kept = {r.id: r for r in results if isinstance(r, Recording)}
    assert set(kept) == {"a/1", "a_1", "whole", "all"}
    assert kept["whole"] == rows[3]
    assert kept["all"].audio_path == long  # the whole file is not copied
    assert all(recording.begin_s == 0 and recording.end_s is None for recording in kept.values())
    np.testing.assert_array_equal(read_audio(kept["a/1"].audio_path), whole[8000:20000])
    np.testing.assert_array_equal(read_audio(kept["a_1"].audio_path), whole[20000:])
    left_out = {r.what: r.reason for r in results if isinstance(r, LeftOut)}
    assert set(left_out) == {"beyond", "backwards", "gone"}
    assert "outside" in left_out["beyond"]


def test_other_times_make_another_file_and_an_interrupted_write_leaves_the_whole_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "long.flac", rng.normal(0, 0.1, 64000), 16000)
    row = Recording("1", str(tmp_path / "long.flac"), "甲", begin_s=0.5, end_s=1.5)
    rows = [row, dataclasses.replace(row, begin_s=2.0, end_s=3.0)]
    first, second = (next(cut_segments([one], tmp_path / "audio")) for one in rows)
    samples = [read_audio(recording.audio_path).tolist() for recording in (first, second)]
    assert first.audio_path != second.audio_path
    assert samples[0] != samples[1]

    def killed(path, *_, **__):
        Path(path).write_bytes(b"RIFF")
        raise KeyboardInterrupt

    monkeypatch.setattr(soundfile, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        write_wav(Path(first.audio_path), np.zeros(16000, np.int16))
    assert read_audio(first.audio_path).tolist() == samples[0]
    assert not list((tmp_path / "audio").glob("*.part"))


COUNTING = """
import os, time
from asr.audio.recording import read_audio
from data_pipeline.recordings import segments
def counted(path):
    with open(os.environ["READ"], "a") as file:
        file.write("+")
    time.sleep(0.3)
    waveform = read_audio(path)
    with open(os.environ["READ"], "a") as file:
        file.write("-")
    return waveform
segments.read_audio = counted
"""


def test_worker_of_many_threads_reads_a_few_long_recordings_at_once(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra cluster")
    rows = []
    for number in range(12):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.full(16000, number / 100), 16000)
        rows.append(Recording(str(number), str(path), "全", begin_s=0.25, end_s=0.75))
    read = tmp_path / "read"
    with dask_cluster(tmp_path, 0, READ=str(read)) as running:
        running.add_worker(COUNTING, num_threads=12)
        with Cluster.connect(running.address) as cluster:
            results = list(cut_segments(rows, tmp_path / "audio", cluster=cluster))
    assert results == list(cut_segments(rows, tmp_path / "audio"))
    changes = read.read_text()
    assert changes.count("+") == changes.count("-") == len(rows)
    at_once = itertools.accumulate(1 if change == "+" else -1 for change in changes)
    assert 1 < max(at_once) <= MAX_IN_MEMORY


@pytest.mark.parametrize("block_s", [0.1, 0.37, 30.0])
def test_spans_of_a_recording_are_read_block_by_block(block_s, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "BLOCK_S", block_s)
    soundfile.write(tmp_path / "long.flac", np.random.default_rng(0).normal(0, 0.1, 44100), 22050)
    whole = read_audio(tmp_path / "long.flac")
    spans = [(0, 700), (700, 701), (9000, 9001), (9001, 20000), (31000, len(whole))]
    for (begin, end), samples in zip(spans, read_spans(tmp_path / "long.flac", spans), strict=True):
        np.testing.assert_array_equal(samples, whole[begin:end])
    with pytest.raises(UserError, match="has become shorter"):
        list(read_spans(tmp_path / "long.flac", [(100, 200), (30000, len(whole) + 1)]))


def test_file_names_are_portable_and_unique():
    ids = ["a", "a/b", "a_b", "a:b", "..", "中文", "x" * 300, "x" * 299, "长" * 200]
    names = [file_name(each) for each in ids]
    assert len(set(names)) == len(ids)
    assert names[0] == "a"
    assert all("/" not in name and not name.startswith(".") and len(name.encode()) < 200 for name in names)
