"""Test `asr record`: what it refuses, its links, and that it continues."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.reading import pick_demo_clips
from helpers.servers import LIMIT_S
from helpers.takes import ask, noise, recording_process, wav_of

from asr.base.model_files import named
from asr.cli.commands.data.record import _next_commands
from asr.cli.main import main
from data_pipeline.manifests.manifest import read_manifest


def error_of(capsys, *arguments):
    assert main(["record", *map(str, arguments), "--no-browser"]) == 2
    return capsys.readouterr().err


def test_mistakes_are_named_with_their_options(capsys, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "file").write_text("x")
    (tmp_path / "names").write_text("anna\nbo\n")
    (tmp_path / "token").write_text("short\n")
    assert "a file" in error_of(capsys, tmp_path / "file")
    assert "expected a name" in error_of(capsys, out, "--speaker", "../up")
    assert "cannot read this list of speakers" in error_of(capsys, out, "--speakers", tmp_path / "none")
    assert "--token-file" in error_of(
        capsys, out, "--speakers", tmp_path / "names", "--token-file", tmp_path / "token"
    )
    assert "--insecure" in error_of(capsys, out, "--speakers", tmp_path / "names", "--insecure")
    assert "at least 8" in error_of(capsys, out, "--token-file", tmp_path / "token", "--port", 0)
    assert "--minutes" in error_of(capsys, out, "--minutes", 0)
    assert "--minutes" in error_of(capsys, out, "--minutes", "nan")
    assert "--key" in error_of(capsys, out, "--cert", tmp_path / "token")
    assert str(tmp_path / "none") in error_of(capsys, out, "--prompts", tmp_path / "none")
    assert "no run here" in error_of(capsys, out, "--run", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in error_of(capsys, out, "--port", taken.getsockname()[1])
    assert not out.exists()
    out.mkdir()
    assert "--minutes" in error_of(capsys, out, "--minutes", 0)
    assert out.exists()


def test_missing_packages_are_named_with_the_extra(tmp_path):
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from asr.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "record", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2
    assert "polyphone[serve]" in done.stderr
    assert not (tmp_path / "out").exists()


def stopped(process, number):
    """Stop a recording server by a signal, and return what it prints then."""
    process.send_signal(number)
    written = process.communicate(timeout=LIMIT_S)[0]
    assert process.returncode == 0
    return written


@pytest.mark.slow
def test_same_command_continues_with_the_same_links(tmp_path):
    out, names = tmp_path / "mine", tmp_path / "names.txt"
    names.write_text("小明\nanna\n", encoding="utf-8")
    # characters, for which there is no model that would doubt noise
    with recording_process(out, "--speakers", names, "--units", "characters") as (process, links):
        assert set(links) == {"小明", "anna"}
        prompt = ask(links["小明"], "session")[1]["prompts"][0]["id"]
        assert ask(links["小明"], f"takes/{prompt}?keep=1", wav_of(noise()))[1]["state"] == "kept"
        assert "doctor" in stopped(process, signal.SIGTERM)
    assert [row.speaker for row in read_manifest(out / "train.jsonl")] == ["小明"]
    (out / "train.jsonl").unlink()
    with recording_process(out, "--speakers", names) as (process, again):
        keys = {name: link.partition("/#")[2] for name, link in links.items()}
        assert {name: link.partition("/#")[2] for name, link in again.items()} == keys
        state = ask(again["小明"], "session")[1]["prompts"][0]["state"]
        assert state == "kept"
        second = [sys.executable, "-m", "asr", "record", str(out), "--port", "0", "--no-browser"]
        done = subprocess.run(second, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 2
        assert "another asr record is running" in done.stderr
        assert "doctor" in stopped(process, signal.SIGINT)
    assert [row.speaker for row in read_manifest(out / "train.jsonl")] == ["小明"]


@pytest.mark.slow
def test_what_was_said_otherwise_is_offered_again_without_naming_a_model(tmp_path):
    out, prompts = tmp_path / "mine", tmp_path / "sentences.txt"
    clips = pick_demo_clips(tmp_path / "clips", 3)
    prompts.write_text("".join(f"{clip.text}\n" for clip in clips), encoding="utf-8")
    with recording_process(out, "--prompts", prompts, "--speaker", "anna") as (process, links):
        address = links["anna"]
        ids = {prompt["text"]: prompt["id"] for prompt in ask(address, "session")[1]["prompts"]}
        said = (clips[0], clips[1], clips[1])
        for clip, other in zip(clips, said, strict=True):
            wav = Path(other.audio_path).read_bytes()
            assert ask(address, f"takes/{ids[clip.text]}?keep=1", wav)[1]["state"] == "kept"
        checked, last = {}, 0
        while len(checked) < len(clips):  # the answer waits for a result
            found = ask(address, f"checks?after={last}")[1]
            checked |= {row["id"]: row["state"] for row in found["results"]}
            last = found["last"]
        stopped(process, signal.SIGINT)
    states = [checked[ids[clip.text]] for clip in clips]
    assert states == ["kept", "kept", "again"]


def commands_after(out, monkeypatch, tmp_path, run=None):
    monkeypatch.chdir(tmp_path)
    return _next_commands(Path(out), "syllables", run, ("train", "dev"))


def test_next_commands_begin_from_weights_that_exist_and_have_a_free_name(monkeypatch, tmp_path):
    first = commands_after("data/voice", monkeypatch, tmp_path)
    assert list(first) == ["doctor", "inspect", "train"]
    voice = "--name voice --set"
    assert f"{voice} train.init_from=general data.corpus= data.train=data/voice/train.jsonl" in first["train"]
    with monkeypatch.context() as patch:
        patch.setattr(named, "BOX", tmp_path / "none.polyphone")
        assert f"{voice} data.corpus=" in commands_after("data/voice", monkeypatch, tmp_path)["train"]
    (tmp_path / "runs" / "voice").mkdir(parents=True)
    second = commands_after("data/voice", monkeypatch, tmp_path, Path("runs/voice"))["train"]
    assert "--name voice-2 --set train.init_from=runs/voice" in second
