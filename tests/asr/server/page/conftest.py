"""Define the browser that tests of the page share."""

import pytest
from helpers.browser import chromium


@pytest.fixture(scope="module")
def browser(clips):
    """Return a real Chromium, whose microphone plays a clip, over and over."""
    with chromium(
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={clips[0].audio_path}",
        "--autoplay-policy=no-user-gesture-required",
    ) as started:
        yield started
