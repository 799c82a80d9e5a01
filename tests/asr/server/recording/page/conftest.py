"""Define the browser and the server of tests of the recording page."""

import pytest
from helpers.browser import chromium
from helpers.reading import LISTEN, write_microphone
from helpers.recording_server import recording_server

from data_pipeline.collection.prompts import Prompt


@pytest.fixture(scope="module")
def browser(clips, tmp_path_factory):
    """Return a real Chromium, whose microphone plays four clips, over and over, with pauses between them."""
    path = tmp_path_factory.mktemp("microphone") / "read.wav"
    write_microphone(path, clips[:4])
    with chromium(
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={path}",
        "--host-resolver-rules=MAP elsewhere.example 127.0.0.1",
    ) as started:
        yield started


@pytest.fixture
def prompts(clips):
    """Return the sentences of the clips."""
    return [Prompt(f"s{number}", clip.text, clip.tokens) for number, clip in enumerate(clips[:4], 1)]


@pytest.fixture
def folder(tmp_path):
    """Return where takes are stored."""
    return tmp_path / "mine"


@pytest.fixture
def address(folder, prompts):
    """Return the address of a server of one person."""
    with recording_server(folder, prompts) as found:
        yield found


@pytest.fixture
def open_reader(open_page):
    """Return a function that opens the recording page as someone who reads to it."""
    return lambda address, **options: open_page(address, script=LISTEN, **options)
