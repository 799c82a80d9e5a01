import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.full_disk import largest_file
from helpers.kokoro import write_model, write_voices
from helpers.processes import children_of

from asr.audio.recording import audio_header, read_audio
from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from data_pipeline.labels.from_text import label
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.recordings.kokoro.corpus import COMMAND, KokoroSettings, synthesize_by_kokoro

TEXT = """今天下雨，我没去学校。你呢？我也没去！
银行行长来了。打开客厅的灯吧。明天早上八点见。
他买了三斤苹果和两斤梨。这条路通向火车站。
绿色的裙子很好看。小猫在窗台上睡觉。
"""


def settings_in(source):
    voices = write_voices(source / "voices")
    (source / "text.txt").write_text(TEXT, encoding="utf-8")
    return KokoroSettings(write_model(source / "tiny.onnx"), voices, [str(source / "text.txt")])


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path / "source")


class Corpus:
    """A corpus of 30 clips of these settings, with what its making reported; each process takes seconds."""

    def __init__(self, folder):
        self.folder, self.reports = folder / "corpus", []
        before = set(children_of(os.getpid()))
        self.made = synthesize_by_kokoro(
            self.folder, settings_in(folder / "source"), num_utterances=30, on_progress=self.reports.append
        )
        self.processes_left = set(children_of(os.getpid())) - before

    def copied(self, out):
        """Return a folder with the clips, whose manifest is to be written again."""
        shutil.copytree(self.folder, out)
        (out / "manifest.jsonl").unlink()
        return out


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("made"))


@pytest.fixture(autouse=True)
def _one_process(monkeypatch):
    """Make the other corpora in one process, since few clips take less time than the start of another."""
    monkeypatch.setattr("data_pipeline.recordings.kokoro.corpus.available_cores", lambda: 1)


def changed(settings, **values):
    return KokoroSettings(**{**vars(settings), **values})


def without_paths(manifest):
    return [(u.id, u.text, u.tokens, u.speaker, round(u.duration_s, 3)) for u in read_manifest(manifest)]


def test_manifest_describes_the_recordings(corpus):
    made = corpus.made
    utterances = read_manifest(made.manifest)
    assert made.manifest == corpus.folder / "manifest.jsonl"
    assert [u.id for u in utterances] == [f"kokoro-{number:05d}" for number in range(1, 31)]
    assert made.num_utterances == 30
    assert made.duration_s == pytest.approx(sum(u.duration_s for u in utterances), abs=0.1)
    assert len({u.text for u in utterances}) == 10  # all of the text
    assert len({u.speaker for u in utterances}) > 10
    assert all(u.speaker.startswith("z") for u in utterances)
    for utterance in utterances:
        assert utterance.tokens == label(utterance.text, "syllables")
        header = audio_header(utterance.audio_path)
        assert (header.container, header.rate_hz, header.num_channels) == ("OGG", 16000, 1)
        assert len(read_audio(utterance.audio_path)) / 16000 == pytest.approx(utterance.duration_s, abs=0.01)


def test_speeds_differ_by_up_to_a_half(settings, tmp_path):
    one = tmp_path / "one.txt"
    one.write_text("今天下雨，我没去学校。", encoding="utf-8")
    made = synthesize_by_kokoro(
        tmp_path / "out", changed(settings, texts=[str(one)], container="wav"), num_utterances=40
    )
    durations_s = [u.duration_s for u in read_manifest(made.manifest)]
    assert 1.3 < max(durations_s) / min(durations_s) < 1.6


@pytest.mark.slow
def test_same_seed_gives_the_same_sound_in_any_folder(corpus, settings, tmp_path):
    same = synthesize_by_kokoro(tmp_path / "same", settings, num_utterances=6)
    other = synthesize_by_kokoro(tmp_path / "other", changed(settings, seed=2), num_utterances=6)
    first = without_paths(corpus.made.manifest)[:6]
    assert without_paths(same.manifest) == first != without_paths(other.manifest)
    clips = list((tmp_path / "same" / "audio").iterdir())
    assert len(clips) == 6
    for path in clips:
        np.testing.assert_array_equal(read_audio(path), read_audio(corpus.folder / "audio" / path.name))


def test_smaller_number_is_the_beginning_and_a_larger_one_adds(corpus, settings, tmp_path):
    out = corpus.copied(tmp_path / "out")
    times = {p: p.stat().st_mtime_ns for p in (out / "audio").iterdir()}
    assert len(times) == 30
    whole = without_paths(corpus.made.manifest)
    assert without_paths(synthesize_by_kokoro(out, settings, num_utterances=4).manifest) == whole[:4]
    large = without_paths(synthesize_by_kokoro(out, settings, num_utterances=33).manifest)
    assert large[:30] == whole
    assert len(large) == 33
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_hours_of_speech_are_made(corpus, settings, tmp_path, monkeypatch):
    monkeypatch.undo()  # several processes, which end in the middle of clips
    made = synthesize_by_kokoro(tmp_path / "out", settings, hours=20 / 3600)
    utterances = read_manifest(made.manifest)
    assert 20 <= made.duration_s < 20 + utterances[-1].duration_s
    whole = without_paths(corpus.made.manifest)  # whichever process was the faster one in each
    assert without_paths(made.manifest) == whole[: len(utterances)]


def test_progress_counts_utterances_and_the_speech(corpus):
    last = [report for report in corpus.reports if report.task == "synthesizing"]
    assert [(one.done, one.total) for one in last] == [(number, 30) for number in range(1, 31)]
    assert "s of speech" in last[-1].note


def test_excluded_voices_speak_in_no_clip(settings, tmp_path):
    excluded = ("zf_two", "af_four")
    made = synthesize_by_kokoro(
        tmp_path / "out", changed(settings, excluded_voices=excluded, container="wav"), num_utterances=60
    )
    speakers = " ".join(u.speaker for u in read_manifest(made.manifest))
    assert not any(voice in speakers for voice in excluded)
    assert all(voice in speakers for voice in ("zf_one", "zm_three", "jm_five"))


# a process that ends in the middle of its work
PROGRAM = """
import os, signal, sys
from pathlib import Path
from asr.base.errors import UserError
from data_pipeline.recordings.kokoro.corpus import KokoroSettings, synthesize_by_kokoro
from helpers.processes import children_of

def end(work):
    if work.task == {task!r} and work.done == {done}:
        {kill}

out, model, voices, text = sys.argv[1:]
settings = KokoroSettings(Path(model), Path(voices), [text])
try:
    synthesize_by_kokoro(Path(out), settings, num_utterances={number}, on_progress=end)
except UserError as error:
    sys.exit(str(error))
"""
KILL_ITSELF = "os.kill(os.getpid(), signal.SIGKILL)"
KILL_CHILDREN = "[os.kill(child, signal.SIGKILL) for child in children_of(os.getpid())]"


def run_until_killed(out, settings, number=12, **values):
    arguments = [out, settings.model, settings.voices, *settings.texts]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(number=number, **values), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(("task", "done"), [("synthesizing", 5), ("reading hanzi", 1), ("reading texts", 0)])
def test_killed_process_resumes_to_the_same_corpus(corpus, settings, tmp_path, task, done):
    out = tmp_path / "out"
    killed = run_until_killed(out, settings, task=task, done=done, kill=KILL_ITSELF)
    assert killed.returncode == -9
    assert not (out / "manifest.jsonl").exists()
    before = {path: path.stat().st_mtime_ns for path in out.glob("audio/*.opus")}
    assert len(before) >= (5 if task == "synthesizing" else 0)
    resumed = synthesize_by_kokoro(out, settings, num_utterances=12)
    assert without_paths(resumed.manifest) == without_paths(corpus.made.manifest)[:12]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


@pytest.mark.slow
def test_end_of_a_child_is_an_error_that_names_the_remedy(settings, tmp_path):
    # more clips than the children can make before they are killed
    ended = run_until_killed(
        tmp_path / "out", settings, number=400, task="synthesizing", done=2, kill=KILL_CHILDREN
    )
    assert ended.returncode == 1
    assert "SIGKILL" in ended.stderr
    assert "run the same command again" in ended.stderr


def test_no_process_is_left(corpus):
    assert not corpus.processes_left


def test_full_disk_raises_and_the_same_call_resumes(settings, tmp_path):
    settings = changed(settings, container="wav")
    with largest_file(20_000), pytest.raises(UserError, match=r"cannot write this recording.*free space"):
        synthesize_by_kokoro(tmp_path / "out", settings, num_utterances=5)
    assert not list((tmp_path / "out" / "audio").glob("*.wav"))
    assert synthesize_by_kokoro(tmp_path / "out", settings, num_utterances=5).num_utterances == 5


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"seed": 2}, r"other settings \(seed\)"),
        ({"container": "wav"}, r"other settings \(format\)"),
        ({"excluded_voices": ["zf_two"]}, r"other settings \(voices\)"),
    ],
)
def test_other_settings_in_the_same_folder_raise(corpus, settings, values, name):
    with pytest.raises(UserError, match=name):
        synthesize_by_kokoro(corpus.folder, changed(settings, **values), num_utterances=1)


def test_other_text_or_model_in_the_same_folder_raises(corpus, settings, tmp_path):
    other = write_model(tmp_path / "other.onnx", "tokens")
    Path(settings.texts[0]).write_text("换了别的句子。", encoding="utf-8")
    with pytest.raises(UserError, match=r"other settings \(model, texts\)"):
        synthesize_by_kokoro(corpus.folder, changed(settings, model=other), num_utterances=1)


def test_files_may_move_between_two_calls(corpus, settings, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(settings.model.parent, moved)
    elsewhere = changed(
        settings, model=moved / "tiny.onnx", voices=moved / "voices", texts=[str(moved / "text.txt")]
    )
    out = corpus.copied(tmp_path / "out")
    assert synthesize_by_kokoro(out, elsewhere, num_utterances=3).num_utterances == 3


def test_foreign_manifest_and_damaged_settings_are_kept(settings, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.jsonl").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        synthesize_by_kokoro(tmp_path / "a", settings, num_utterances=1)
    assert (tmp_path / "a" / "manifest.jsonl").read_text() == "mine"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "synthesis.json").write_text("[")
    with pytest.raises(UserError, match=r"synthesis\.json: cannot read these settings"):
        synthesize_by_kokoro(tmp_path / "b", settings, num_utterances=1)


def test_second_call_on_a_folder_at_the_same_time_raises(settings, tmp_path):
    with (
        exclusive_lock(tmp_path / "out", COMMAND),
        pytest.raises(UserError, match="another asr synthesize is running"),
    ):
        synthesize_by_kokoro(tmp_path / "out", settings, num_utterances=1)


def test_silent_voices_are_reported_after_a_few_clips(settings, tmp_path):
    silent = changed(settings, voices=write_voices(tmp_path / "silent", loudness=0.0))
    with pytest.raises(UserError, match="none of the first 20 clips is speech"):
        synthesize_by_kokoro(tmp_path / "out", silent, num_utterances=1000)
    with pytest.raises(UserError, match="none of the first 3 clips is speech"):
        synthesize_by_kokoro(tmp_path / "few", silent, num_utterances=3)


def test_sentences_of_several_lines_and_long_rows_of_dots_do_no_harm(settings, tmp_path):
    text = tmp_path / "lines.jsonl"
    texts = ["今天天气\n很好。", f"第一章开始{'…' * 600}"]
    rows = [{"id": t, "audio": "a.wav", "duration_s": 1, "text": t, "tokens": ""} for t in texts]
    text.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    both = changed(settings, texts=[str(text)])
    made = synthesize_by_kokoro(tmp_path / "out", both, num_utterances=2)
    assert made.left_out == {"too much to say at once": 1}
    assert {u.text for u in read_manifest(made.manifest)} == {"今天天气 很好。"}
    assert synthesize_by_kokoro(tmp_path / "out", both, num_utterances=3).num_utterances == 3
    (tmp_path / "out" / "sentences.tsv").write_text("今天\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"sentences\.tsv: damaged"):
        synthesize_by_kokoro(tmp_path / "out", both, num_utterances=3)


def test_clips_within_the_folder_of_texts_are_refused_at_once(settings, tmp_path):
    within = changed(settings, texts=[str(tmp_path)])
    with pytest.raises(UserError, match="lies in the folder of texts"):
        synthesize_by_kokoro(tmp_path / "out", within, num_utterances=1)


def test_clips_without_speech_are_left_out_and_counted(settings, tmp_path):
    write_voices(tmp_path / "source" / "voices", ["zf_one"], loudness=0.0)
    made = synthesize_by_kokoro(tmp_path / "out", changed(settings, container="wav"), num_utterances=30)
    assert made.left_out == {"no speech: silence": 30 - made.num_utterances}
    assert 0 < made.num_utterances < 30
    assert not any(u.speaker == "zf_one" for u in read_manifest(made.manifest))


@pytest.mark.parametrize(
    ("amount", "seed"),
    [
        ({}, 1),
        ({"num_utterances": 0}, 1),
        ({"hours": -1}, 1),
        ({"hours": float("nan")}, 1),
        ({"hours": 1, "num_utterances": 1}, 1),
        ({"num_utterances": 1}, -1),
    ],
)
def test_numbers_out_of_range_raise_before_anything_is_written(settings, tmp_path, amount, seed):
    with pytest.raises(UserError, match=r"`num_utterances` of at least 1|`seed`"):
        synthesize_by_kokoro(tmp_path / "out", changed(settings, seed=seed), **amount)
    assert not (tmp_path / "out").exists()


def test_broken_model_raises_before_texts_are_read(settings, tmp_path):
    settings.model.write_text("no model")
    tasks = []
    with pytest.raises(UserError, match=r"tiny\.onnx: not a model"):
        synthesize_by_kokoro(tmp_path / "out", settings, num_utterances=9, on_progress=tasks.append)
    assert not tasks
    write_model(settings.model)  # the folder is free for the right one
    assert synthesize_by_kokoro(tmp_path / "out", settings, num_utterances=1).num_utterances == 1


def test_standard_input_raises_since_it_cannot_be_resumed(settings, tmp_path):
    with pytest.raises(UserError, match="save the text to a file"):
        synthesize_by_kokoro(tmp_path / "out", changed(settings, texts=["-"]), num_utterances=1)


def test_settings_name_no_path(corpus):
    written = (corpus.folder / "synthesis.json").read_text()
    assert str(corpus.folder.parent) not in written
    assert json.loads(written)["engine"] == "kokoro"
