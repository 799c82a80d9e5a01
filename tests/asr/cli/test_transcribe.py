"""Test `asr transcribe` on several devices, and with interruptions."""

import csv
import io
import math
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import srt
from helpers import ROOT
from helpers.clips import clip_segments

import multigpu.replication.towers
from asr.audio import opening
from asr.audio.recording import SAMPLE_RATE_HZ, audio_duration_s, read_audio, write_wav
from asr.base.text.wording import duration
from asr.cli.commands.speech.transcribe import _only_errors_reach_the_terminal
from asr.cli.main import main
from asr.model.devices import Devices
from asr.runs.run import Run
from asr.transcription import clips as clips_module
from asr.transcription import file_recognizer, recognizer
from asr.transcription.file_recognizer import file_chunks
from asr.transcription.files import write_list
from asr.transcription.formats import format_transcript
from asr.transcription.recognizer import Recognizer
from asr.transcription.to_files import shards
from asr.transcription.to_files.journal import Journal
from multigpu.devices import short_name
from multigpu.replication.towers import data_parallelism

FILES_AT_ONCE = 2

# a command that is killed while it writes the results of a chunk: half of their bytes are there
KILLED_WHILE_WRITING = f"""
import os, signal, sys
sys.path.append("tests")
from helpers.tiny import register_tiny
register_tiny()
from asr.transcription import file_recognizer
from asr.cli.main import main
from asr.transcription.to_files.journal import Journal

file_recognizer.FILES_AT_ONCE = {FILES_AT_ONCE}
write = Journal._write

def write_or_die(journal, data):
    global writes_left
    writes_left -= 1
    if writes_left < 0:
        write(journal, data[:len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    write(journal, data)

Journal._write = write_or_die
for writes in sys.argv[1].split(","):
    # a child each, which finds TensorFlow imported
    if os.fork() == 0:
        writes_left = int(writes)
        os._exit(main(sys.argv[2:]))
    _, status = os.wait()
    print("killed by", os.WTERMSIG(status), file=sys.stderr, flush=True)
"""


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(file_recognizer, "FILES_AT_ONCE", FILES_AT_ONCE)


@pytest.fixture(scope="module")
def folder(clips, tmp_path_factory):
    """Return a folder of clips, with one file in the middle that is not a recording."""
    folder = tmp_path_factory.mktemp("audio")
    for number, clip in enumerate(clips):
        shutil.copy(clip.audio_path, folder / f"{number:02}.wav")
    (folder / "05b.wav").write_text("not sound")
    return folder


@pytest.fixture(scope="module")
def one_device(trained_run):
    return Recognizer.load(trained_run)


@pytest.fixture
def loaded(one_device, monkeypatch):
    """Replace the loading of the model, which takes seconds."""
    monkeypatch.setattr(Recognizer, "of_run", lambda *_, **__: one_device)


@pytest.fixture(scope="module")
def whole(folder, one_device, tmp_path_factory):
    """Return the transcripts of the folder without an interruption, as files by format."""
    out = tmp_path_factory.mktemp("whole")
    sources = sorted(folder.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_recognizer, "FILES_AT_ONCE", FILES_AT_ONCE)
        results = list(one_device.transcribe_files(sources))
    for format_name in ("text", "jsonl", "csv"):
        write_list(out / format_name, format_name, zip(sources, results, strict=True), with_names=True)
    return {path.name: path for path in out.iterdir()}


@pytest.fixture
def files_read(monkeypatch):
    """Return a list that collects the names of the files that are opened from now on."""
    names = []
    opened = recognizer.open_recording

    def open_it(source, **how):
        names.append(Path(source).name)
        return opened(source, **how)

    monkeypatch.setattr(recognizer, "open_recording", open_it)
    return names


def transcribe(run, folder, out, *options):
    """Transcribe a folder into a file, and return the exit status."""
    return main(["transcribe", str(run), str(folder), "--out", str(out), *options])


def interrupt(monkeypatch, after_chunks):
    """Interrupt the next command after it has written a number of chunks."""
    add, added = Journal.add, []

    def add_or_stop(journal, results):
        if len(added) == after_chunks:
            monkeypatch.setattr(Journal, "add", add)
            raise KeyboardInterrupt
        added.append(results)
        add(journal, results)

    monkeypatch.setattr(Journal, "add", add_or_stop)


def texts(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [(Path(row["file"]).name, row["text"]) for row in csv.DictReader(file)]


@pytest.mark.slow
def test_killed_transcription_resumes_to_the_same_output(
    trained_run, folder, whole, tmp_path, small_chunks, files_read, capsys
):
    """Kill the command twice while it writes; complete results are not transcribed again."""
    out = tmp_path / "out.csv"
    arguments = ["transcribe", trained_run, folder, "--format", "csv", "--out", out]
    # the first of three writes is the journal's header
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, "3,2", *map(str, arguments)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not out.exists()
    *errors, rest = killed.stderr.split(f"killed by {signal.SIGKILL:d}\n")
    assert len(errors) == 2
    assert not rest
    assert "resuming" not in errors[0]
    assert "out.csv.unfinished: resuming after 4 of 13 recordings" in errors[1]
    assert transcribe(trained_run, folder, out, "--format", "csv") == 2  # the failed one is among the kept
    errors = capsys.readouterr().err
    assert "resuming after 8 of 13 recordings (1 with errors)" in errors
    assert "13/13" in errors
    assert sorted(files_read) == sorted(path.name for path in folder.iterdir())[8:]
    assert out.read_bytes() == whole["csv"].read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("format_name", ["text", "jsonl"])
def test_interrupted_transcription_resumes_in_every_format(
    format_name, loaded, trained_run, folder, whole, tmp_path, small_chunks, files_read, monkeypatch, capsys
):
    out, options = tmp_path / "out", ["--format", format_name]
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, *options) == 130
    errors = capsys.readouterr().err
    assert "4 of 13 recordings are kept; run the same command again to resume" in errors
    assert "Traceback" not in errors
    files_read.clear()
    assert transcribe(trained_run, folder, out, *options) == 2
    assert len(files_read) == 13 - 4
    assert out.read_bytes() == whole[format_name].read_bytes()


@pytest.mark.parametrize("format_name", ["text", "jsonl", "csv"])
def test_merged_shards_equal_one_transcription_byte_for_byte(
    format_name, loaded, trained_run, folder, whole, tmp_path, small_chunks, files_read, monkeypatch, capsys
):
    monkeypatch.setattr(shards, "MIN_CHUNKS", 1)
    out = tmp_path / f"all.{format_name}"
    statuses = [transcribe(trained_run, folder, out, "--shard", f"{number}/4") for number in (4, 2, 1)]
    assert statuses == [0, 0, 0]
    assert main(["merge", str(out)]) == 2
    assert f"1 of 4 shards missing or not finished (all-3-of-4.{format_name})" in capsys.readouterr().err
    assert not out.exists()
    assert transcribe(trained_run, folder, out, "--shard", "3/4") == 2  # one of them is not a recording
    assert sorted(files_read) == sorted(path.name for path in folder.iterdir())
    assert main(["merge", str(out)]) == 0
    assert out.read_bytes() == whole[format_name].read_bytes()


@pytest.fixture(scope="module")
def subtitles(folder, one_device):
    """Return the subtitles of each recording that can be read, by the name of their file."""
    found = {}
    for source in sorted(set(folder.iterdir()) - {folder / "05b.wav"}):
        found[f"{source.stem}.srt"] = format_transcript(one_device.transcribe(source), "srt")
    return found


def files_below(folder):
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_each_recording_of_a_folder_gets_subtitles(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, capsys
):
    out = tmp_path / "subtitles"
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2  # one is not a recording
    assert "05b.wav" in capsys.readouterr().err
    written = files_below(out)
    assert written == subtitles
    assert any(list(srt.parse(contents, ignore_errors=False)) for contents in written.values())


def test_interrupted_subtitles_resume_and_those_done_are_there(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, files_read, monkeypatch
):
    out, options = tmp_path / "subtitles", ["--format", "srt"]
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, *options) == 130
    assert set(files_below(out)) == {"00.srt", "01.srt", "02.srt", "03.srt", "transcripts.unfinished"}
    (out / "01.srt").unlink()
    files_read.clear()
    assert transcribe(trained_run, folder, out, *options) == 2
    assert len(files_read) == 13 - 4
    assert files_below(out) == subtitles


def test_interrupted_subtitles_of_a_folder_that_has_grown_resume_with_the_new_recordings(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, files_read, monkeypatch, caplog
):
    out = tmp_path / "subtitles"
    out.mkdir()
    for name in ("00.srt", "01.srt", "02.srt", "11.srt"):  # of an earlier call
        (out / name).write_text(subtitles[name], encoding="utf-8")
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    files_read.clear()
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert len(files_read) == 13 - 4 - 4
    assert "starting over" not in caplog.text
    assert files_below(out) == subtitles


def test_interrupted_subtitles_resume_with_a_new_recording_that_comes_first(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, files_read, monkeypatch, caplog
):
    folder, out = shutil.copytree(folder, tmp_path / "audio"), tmp_path / "subtitles"
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    shutil.copy(folder / "00.wav", folder / "0.wav")
    files_read.clear()
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert len(files_read) == 14 - 4
    assert "starting over" not in caplog.text
    assert files_below(out) == subtitles | {"0.srt": subtitles["00.srt"]}


def test_interrupted_subtitles_whose_recordings_changed_are_kept_and_not_transcribed_again(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, files_read, monkeypatch
):
    folder, out = shutil.copytree(folder, tmp_path / "audio"), tmp_path / "subtitles"
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    (folder / "00.wav").unlink()
    shutil.copy(folder / "04.wav", folder / "01.wav")
    files_read.clear()
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert len(files_read) == 13 - 4
    assert files_below(out) == subtitles


def test_journal_of_subtitles_that_are_all_there_is_removed(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, monkeypatch
):
    folder, out = shutil.copytree(folder, tmp_path / "audio"), tmp_path / "subtitles"
    interrupt(monkeypatch, after_chunks=1)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    for path in folder.iterdir():
        if path.name != "00.wav":
            path.unlink()
    assert transcribe(trained_run, folder, out, "--format", "srt") == 0
    assert set(files_below(out)) == {"00.srt", "01.srt"}


def test_interrupted_subtitles_are_not_completed_by_another_decoder(
    trained_run, folder, subtitles, tmp_path, small_chunks, monkeypatch, capsys
):
    out = tmp_path / "subtitles"
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    before = files_below(out)
    capsys.readouterr()
    assert transcribe(trained_run, folder, out, "--format", "srt", "--tokens") == 2
    errors = capsys.readouterr().err
    assert "00.srt" in errors
    assert "choose another folder" in errors
    assert files_below(out) == before
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert files_below(out) == subtitles


def test_recording_whose_name_is_too_long_for_that_of_its_subtitles_is_refused_first(
    loaded, trained_run, tmp_path, folder, capsys
):
    longest = "很" * 83 + ".wav"  # 253 bytes; with .TextGrid there would be 258
    (tmp_path / "in").mkdir()
    shutil.copy(folder / "00.wav", tmp_path / "in" / longest)
    assert transcribe(trained_run, tmp_path / "in", tmp_path / "srt", "--format", "srt") == 0
    assert [path.suffix for path in (tmp_path / "srt").iterdir()] == [".srt"]
    assert transcribe(trained_run, tmp_path / "in", tmp_path / "grid", "--format", "textgrid") == 2
    assert "its name is too long for one that ends in .TextGrid; rename it" in capsys.readouterr().err


def test_files_of_ones_own_are_kept_and_only_other_recordings_transcribed(
    loaded, trained_run, folder, subtitles, tmp_path, small_chunks, files_read, monkeypatch, capsys
):
    own, out = {"01.srt": "corrected by hand", "11.srt": "mine"}, tmp_path / "own"
    out.mkdir()
    (out / "11.srt").write_text("mine")
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "srt") == 130
    (out / "01.srt").write_text("corrected by hand")
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert files_below(out) == subtitles | own
    files_read.clear()
    capsys.readouterr()
    assert transcribe(trained_run, folder, out, "--format", "srt") == 2
    assert [Path(path).name for path in files_read] == ["05b.wav"]
    assert "12 of 13 recordings have a file already" in capsys.readouterr().err
    assert files_below(out) == subtitles | own


def test_shards_of_subtitles_share_a_folder(loaded, trained_run, folder, subtitles, tmp_path, small_chunks):
    out = tmp_path / "subtitles"
    for number in (1, 2):
        transcribe(trained_run, folder, out, "--format", "srt", "--shard", f"{number}/2")
    assert files_below(out) == subtitles


def test_subtitles_of_one_recording_are_printed_or_written_by_the_suffix(
    loaded, trained_run, folder, subtitles, tmp_path, capsys
):
    recording, out = folder / "00.wav", tmp_path / "a.srt"
    assert main(["transcribe", str(trained_run), str(recording), "--format", "srt"]) == 0
    assert capsys.readouterr().out == subtitles["00.srt"]
    assert transcribe(trained_run, recording, out) == 0
    assert files_below(tmp_path) == {"a.srt": subtitles["00.srt"]}


def test_subtitles_of_several_recordings_need_a_folder(trained_run, folder, capsys):
    assert main(["transcribe", str(trained_run), str(folder), "--format", "vtt"]) == 2
    assert "name a folder with --out" in capsys.readouterr().err


def test_new_checkpoint_restarts_transcription_and_keeps_old_results_until_done(
    trained_run, folder, tmp_path, small_chunks, files_read, monkeypatch, capsys
):
    run, out = shutil.copytree(trained_run, tmp_path / "run"), tmp_path / "out.csv"
    out.write_text("results of yesterday")
    interrupt(monkeypatch, after_chunks=3)
    assert transcribe(run, folder, out) == 130
    assert out.read_text() == "results of yesterday"
    best = Run(run).chosen_checkpoint()
    with np.load(best) as arrays:
        changed = {name: array * 2 if array.dtype == np.float32 else array for name, array in arrays.items()}
    np.savez(best, **changed)
    files_read.clear()
    assert transcribe(run, folder, out) == 2
    assert "another model or version; starting over" in capsys.readouterr().err
    assert len(files_read) == 13
    assert len(out.read_text().splitlines()) == 14


def test_added_recording_is_transcribed_with_those_after_it(
    loaded, trained_run, folder, tmp_path, small_chunks, files_read, monkeypatch, capsys
):
    folder, out = shutil.copytree(folder, tmp_path / "audio"), tmp_path / "out.csv"
    interrupt(monkeypatch, after_chunks=2)
    assert transcribe(trained_run, folder, out, "--format", "csv") == 130
    shutil.copy(folder / "00.wav", folder / "02b.wav")
    files_read.clear()
    assert transcribe(trained_run, folder, out, "--format", "csv") == 2
    errors = capsys.readouterr().err
    assert "02b.wav on; resuming after 2 of 14 recordings" in errors
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(files_read) == names[2:]
    assert [name for name, _ in texts(out)] == names


def test_several_devices_give_the_transcripts_of_one(trained_run, folder, whole, tmp_path, monkeypatch):
    used = []

    def spy(devices, function, *batch):
        used.append(tuple(devices))
        return data_parallelism(devices, function, *batch)

    monkeypatch.setattr(multigpu.replication.towers, "data_parallelism", spy)
    assert transcribe(trained_run, folder, tmp_path / "out", "--format", "csv", "--gpus", "0,2") == 2
    assert used == [("/CPU:0", "/CPU:2")]
    transcripts = texts(tmp_path / "out")
    assert transcripts == texts(whole["csv"])
    assert any(text for _, text in transcripts)


@pytest.fixture(scope="module", params=[Devices(3), Devices(stages=2)], ids=str)
def several_devices(request, trained_run):
    return Recognizer.load(trained_run, request.param)


def test_more_devices_than_recordings_give_correct_transcripts(one_device, several_devices, clips):
    waveforms = [read_audio(clip.audio_path) for clip in clips[:5]]
    for num in (1, 2, 4, 5):
        alone, spread = (clip_segments(r, waveforms[:num]) for r in (one_device, several_devices))
        for a, b in zip(alone, spread, strict=True):
            assert (a.tokens, a.times_s, a.end_s) == (b.tokens, b.times_s, b.end_s)
            assert a.score == pytest.approx(b.score, abs=1e-3)


def test_weights_of_a_model_in_stages_are_divided_among_devices(trained_run, clips, capsys):
    model = Recognizer.load(trained_run, Devices(stages=3)).model
    held = Counter()
    for weight in model.weights:
        held[short_name(weight.value.device)] += math.prod(weight.shape)
    # which stages also have layers without weights depends on measured time
    assert len(held) > 1
    assert set(held) <= {"/CPU:0", "/CPU:1", "/CPU:2"}
    assert main(["transcribe", str(trained_run), clips[0].audio_path, "--stages", "20", "--gpus", "2"]) == 2
    assert "--stages: expected" in capsys.readouterr().err


def test_batch_and_chunk_sizes_grow_with_the_devices(trained_run, clips, monkeypatch):
    batches = []

    def pad(waveforms):
        batches.append(len(waveforms))
        return original(waveforms)

    original = clips_module.pad_waveforms
    paths = [Path(clip.audio_path) for clip in clips]
    monkeypatch.setattr(clips_module, "pad_waveforms", pad)
    monkeypatch.setattr(clips_module, "BATCH_SAMPLES", 1)  # one recording for each device
    monkeypatch.setattr(file_recognizer, "FILES_AT_ONCE", 4)
    loaded = Recognizer.load(trained_run, Devices(3))
    assert [len(chunk) for chunk in file_chunks(paths, 3)] == [12]
    assert len(list(loaded.transcribe_files(paths))) == 12
    assert batches == [3, 3, 3, 3]
    batches.clear()
    assert len(list(loaded.transcribe_files(paths, chunk_sizes=[2, 4, 6]))) == 12
    assert batches == [2, 3, 1, 3, 3]
    largest = max(path.stat().st_size for path in paths)
    monkeypatch.setattr(file_recognizer, "BYTES_AT_ONCE", largest)
    assert 3 <= len(file_chunks(paths, 3)[0]) < 12
    assert [path for chunk in file_chunks(paths, 3) for path in chunk] == paths


def test_missing_device_is_a_one_line_error(trained_run, clips, capsys):
    assert main(["transcribe", str(trained_run), clips[0].audio_path, "--gpus", "9"]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: --gpus")
    assert "/CPU:0, /CPU:1, /CPU:2" in error
    assert "\n" not in error


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_transcribe_writes_only_to_regular_files(kind, trained_run, folder, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir() if kind == "folder" else os.mkfifo(out)
    assert transcribe(trained_run, folder, out) == 2
    assert "expected a file" in capsys.readouterr().err
    assert out.is_dir() if kind == "folder" else out.is_fifo()


def test_errors_are_on_lines_of_their_own_beside_the_bar(loaded, trained_run, folder, tmp_path, capsys):
    assert transcribe(trained_run, folder, tmp_path / "out") == 2
    lines = [line.strip() for line in capsys.readouterr().err.replace("\r", "\n").splitlines()]
    errors = [line for line in lines if "error: " in line]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {folder}/05b.wav: not audio")
    (*_, bar) = [line for line in lines if "warning: " not in line]
    assert "13/13" in bar


def test_no_bar_is_drawn_among_transcripts_in_the_terminal(tmp_path, monkeypatch):
    terminal = os.openpty()[1]
    reader = os.pipe()[1]
    with (tmp_path / "out").open("w") as file, open(terminal, "w") as tty, open(reader, "w") as pipe:  # noqa: PTH123
        monkeypatch.setattr(sys, "stderr", tty)
        shown = []
        for stdout in (file, tty, pipe):
            monkeypatch.setattr(sys, "stdout", stdout)
            shown.append(_only_errors_reach_the_terminal())
        monkeypatch.setattr(sys, "stdout", file)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        shown.append(_only_errors_reach_the_terminal())
    assert shown == [True, False, False, False]


def test_long_recording_is_transcribed_piece_by_piece(one_device, clips, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "LONG_S", 5.0)
    waveforms = [read_audio(clip.audio_path) for clip in clips[:6]]
    pause = np.zeros(SAMPLE_RATE_HZ, np.int16)
    write_wav(tmp_path / "long.wav", np.concatenate([part for w in waveforms for part in (w, pause)]))
    shutil.copy(clips[0].audio_path, tmp_path / "short.wav")
    works = []
    long, short = one_device.transcribe_files([tmp_path / "long.wav", tmp_path / "short.wav"], works.append)
    assert len(long.segments) > 1
    assert long.duration_s == audio_duration_s(tmp_path / "long.wav")
    assert short == one_device.transcribe(tmp_path / "short.wav")
    assert long == one_device.transcribe(tmp_path / "long.wav")
    assert list(long.times_s) == sorted(long.times_s)
    assert long.times_s[-1] > 5.0
    assert len(long.tokens) == len(long.confidences)
    first, *_, reading, done = works
    assert (first.done, first.total, first.note) == (0, 2, "")
    assert reading.note == f"{duration(audio_duration_s(tmp_path / 'long.wav'))} of long.wav"
    assert (reading.done, done.done, done.is_done) == (0, 2, True)


def test_recording_without_speech_is_reported(trained_run, tmp_path, capsys):
    noise = np.random.default_rng(1).integers(-20, 20, 70 * SAMPLE_RATE_HZ).astype(np.int16)
    write_wav(tmp_path / "quiet.wav", noise)
    assert main(["transcribe", str(trained_run), str(tmp_path / "quiet.wav")]) == 0
    printed = capsys.readouterr()
    assert printed.out == "\n"
    assert f"{tmp_path / 'quiet.wav'}: no speech found" in printed.err


def test_exported_folder_in_place_of_a_run_is_named(exported, clips, capsys):
    assert main(["transcribe", str(exported.folder), clips[0].audio_path]) == 2
    assert "received a folder of `asr export`; its README.md" in capsys.readouterr().err
    assert main(["align", str(exported.folder), clips[0].audio_path, "你好"]) == 2
    assert "received a folder of `asr export`; its README.md" in capsys.readouterr().err
    assert main(["transcribe", str(exported.folder)]) == 2
    assert "expected after the run" in capsys.readouterr().err
