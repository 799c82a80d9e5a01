"""Starts a real Chromium for tests of pages, or skips them where there is none."""

import contextlib
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium(*arguments):
    """Yield a browser without a window, started with further arguments."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"needs a browser: found none of {', '.join(BROWSERS)}")
    playwright = pytest.importorskip("playwright.sync_api")
    # its event loop runs until the end, so that later tests of this process could not start their own
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", *arguments])
        yield browser
        browser.close()
