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


@pytest.fixture
def open_page(browser):
    """Return a function that opens an address in a fresh window; problems of its scripts fail the test."""
    contexts, problems = [], []

    def opened(address, width=1280, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, **{"locale": "en-GB", **options}
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and problems.append(line.text))
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    unexpected = [
        problem for problem in problems if "status of 4" not in problem
    ]  # answers that tests ask for
    assert not unexpected
