"""Define the model and the recordings that tests of the server share."""

import threading

import numpy as np
import pytest
from helpers.servers import LIMIT_S, server_in_thread

from asr.audio.recording import read_audio, write_wav
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.transcription.decoder_choice import DecoderChoice


@pytest.fixture(scope="session")
def recognizer(exported):
    """Return the recognizer of an exported folder, which is quick to load and to run."""
    model = ExportedModel.open(exported.folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


@pytest.fixture(scope="session")
def served(recognizer):
    """Return a service and the address of its server, with limits that no honest test reaches."""
    with server_in_thread(recognizer) as service_and_address:
        yield service_and_address


@pytest.fixture(scope="session")
def address(served):
    """Return the address of the shared server."""
    return served[1]


@pytest.fixture(scope="session")
def exact_recognizer(bounded_run, tmp_path_factory):
    """Return a recognizer whose streams equal whole recordings."""
    folder = tmp_path_factory.mktemp("bounded") / "out"
    model = ExportedModel.open(export(bounded_run, folder, clips=1).folder)
    return model.recognizer(DecoderChoice(model.decoder_settings()))


@pytest.fixture(scope="session")
def long_file(clips, tmp_path_factory):
    """Return a recording with pauses, which is recognized piece by piece."""
    pause = np.zeros(24_000, np.int16)
    path = tmp_path_factory.mktemp("long") / "long.wav"
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    write_wav(path, np.concatenate([part for waveform in waveforms for part in (waveform, pause)]))
    return path


class SlowReading:
    """A reading of hot words that continues once the test lets it.

    Attributes:
        asked: the words that were to be read.
        begun: is set with the first of them.
        go_on: an event that the test sets.
    """

    def __init__(self):
        self.asked, self.begun, self.go_on = [], threading.Event(), threading.Event()

    def __call__(self, word, _unit):
        """Return the syllables of a word, whatever it is."""
        self.asked.append(word)
        self.begun.set()
        assert self.go_on.wait(10 * LIMIT_S)
        return ["shui3", "li3"]


@pytest.fixture
def slow_reading():
    """Return a reading of hot words that waits for the test, and for its end at most."""
    reading = SlowReading()
    yield reading
    reading.go_on.set()


@pytest.fixture
def open_page(browser):
    """Return a function that opens an address in a fresh window; problems of its scripts fail the test."""
    contexts, problems = [], []

    def opened(address, width=1280, script="", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, **{"locale": "en-GB", **options}
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        context.add_init_script(script)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and problems.append(line.text))
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    asked_for = ("status of 4", "ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE")  # by tests
    assert not [problem for problem in problems if not any(part in problem for part in asked_for)]
