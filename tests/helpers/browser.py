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


def expect_nothing_from_elsewhere(page, address):
    """Fail if an open page loads anything from another server, or its policy would let it."""
    hosts = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin)")
    assert set(hosts) == {address}
    policy = page.request.get(address).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in policy
