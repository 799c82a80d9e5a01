"""Test that browsers killed in the middle of a take and of an upload lose nothing that was confirmed."""

import os
import signal

import pytest
import soundfile
from helpers.browser import chromium
from helpers.reading import (
    LISTEN,
    pick_demo_clips,
    read_sentences,
    turn_on_microphone,
    wait_for,
    wait_for_states,
    write_microphone,
)
from helpers.recording_server import recording_server

from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.takes import open_takes

BYTES_PER_S = 20_000  # of an upload that is killed; a take has a few hundred thousand bytes


def kill(browser):
    """Kill all processes of a browser, as a crash of the machine would."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    (main,) = (one["id"] for one in processes if one["type"] == "browser")
    os.kill(main, signal.SIGKILL)


def in_take(page):
    """Begin a take, and return in the middle of it."""
    page.keyboard.press("Space")
    wait_for(page, "!['0:00', ''].includes(document.getElementById('clock').textContent)")


def in_upload(page):
    """Read a sentence, and return while its take is sent."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": BYTES_PER_S}
    session.send("Network.emulateNetworkConditions", limits)
    read_sentences(page)
    wait_for_states(page, "sending", 1)
    page.wait_for_timeout(1000)  # a part has arrived


@pytest.mark.slow
@pytest.mark.parametrize("moment", [in_take, in_upload])
def test_browser_killed_in_the_middle_loses_nothing_that_was_confirmed(tmp_path, moment):
    clips = pick_demo_clips(tmp_path / "clips", 3)
    prompts = [Prompt(f"s{number}", clip.text, clip.tokens) for number, clip in enumerate(clips, 1)]
    write_microphone(tmp_path / "read.wav", clips)
    options = [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={tmp_path / 'read.wav'}",
    ]
    out = tmp_path / "mine"
    with recording_server(out, prompts) as address:
        with chromium(*options) as browser:
            page = opened(browser, address)
            turn_on_microphone(page)
            read_sentences(page)
            wait_for_states(page, "kept", 1)
            moment(page)
            kill(browser)
        with chromium(*options) as browser:
            page = opened(browser, address)
            assert page.inner_text("#number") == "Sentence 2"
            assert page.locator("#list .state[data-state=kept]").count() == 1
            turn_on_microphone(page)
            read_sentences(page)
            wait_for_states(page, "kept", 2)
    with open_takes(out, None) as takes:
        assert [take.prompt for take in takes.all()] == ["s1", "s2"]
        assert not takes.missing
        files = sorted(path.relative_to(out).as_posix() for path in (out / "audio").rglob("*.*"))
        assert files == sorted(take.audio for take in takes.all())
        assert all(soundfile.info(out / path).frames for path in files)


def opened(browser, address):
    """Return the recording page of a browser."""
    context = browser.new_context(locale="en-GB")
    context.add_init_script(LISTEN)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("body[data-ready]", state="attached")
    return page
