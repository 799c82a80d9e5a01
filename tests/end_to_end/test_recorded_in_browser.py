"""Read real recordings to `asr record` in a real browser, and train on what comes out."""

import json
import shlex

import pytest
from helpers.browser import chromium
from helpers.reading import (
    LISTEN,
    PAUSE_S,
    likeness,
    pick_demo_clips,
    read_sentences,
    wait_for_states,
    write_microphone,
)
from helpers.recording_server import record_process

from asr.audio.recording import read_audio
from asr.cli.main import main
from data_pipeline.manifests.manifest import read_manifest

NUM_SENTENCES = 10


def words_of(command, name):
    """Return the arguments of a command of this project, which has a name."""
    words = shlex.split(command)
    return words[words.index(name) :]


@pytest.mark.slow
def test_sentences_read_to_the_page_are_a_corpus_to_train_on(tmp_path, capsys, monkeypatch):
    clips = pick_demo_clips(tmp_path / "clips", NUM_SENTENCES)
    prompts, out = tmp_path / "sentences.txt", tmp_path / "mine"
    prompts.write_text("".join(f"{clip.text}\n" for clip in clips), encoding="utf-8")
    write_microphone(tmp_path / "read.wav", clips)
    options = [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={tmp_path / 'read.wav'}",
    ]
    arguments = ["--prompts", prompts, "--speaker", "anna"]
    with chromium(*options) as browser, record_process(out, *arguments) as address:
        context = browser.new_context(locale="en-GB")
        context.add_init_script(LISTEN)
        context.set_default_timeout(1000 * (60 + PAUSE_S))
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        read_sentences(page, NUM_SENTENCES, turn_on=True)
        wait_for_states(page, "kept", NUM_SENTENCES)
        page.click("#finish")
        page.wait_for_selector("#end", state="visible")
        doctor, _inspect, train = page.locator("#commands pre").all_inner_texts()
        context.close()

    manifests = sorted(out.glob("*.jsonl"))
    recorded = {one.text: one for path in manifests for one in read_manifest(path)}
    assert recorded.keys() == {clip.text for clip in clips}
    for clip in clips:
        take = recorded[clip.text]
        # their tones are those of the text, the clip's those that were spoken
        assert [token[:-1] for token in take.tokens] == [token[:-1] for token in clip.tokens]
        assert likeness(read_audio(take.audio_path), read_audio(clip.audio_path)) > 0.9

    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main([*words_of(doctor, "doctor"), "--json", "found.json"]) == 0
    # ten sentences of one person cannot do without warnings, none of which is about sound or text
    findings = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert {one["code"] for one in findings} <= {"shared-speaker", "unseen-token", "resampled"}
    settings = [
        "train.init_from=",
        "train.epochs=1",
        "train.batch_s=6.0",
        f"train.runs_dir={tmp_path / 'runs'}",
    ]
    assert main([*words_of(train, "train"), *settings]) == 0
    assert list((tmp_path / "runs").glob("*/checkpoints/*"))
