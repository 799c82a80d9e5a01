"""Test what the recording page says without a microphone; in a browser of its own."""

import pytest
from helpers.browser import chromium
from helpers.reading import problem_of


@pytest.fixture(scope="module")
def bare_browser():
    """Return a browser without a microphone, which asks nobody."""
    with chromium() as started:
        yield started


@pytest.mark.parametrize(
    ("permissions", "english", "chinese"),
    [
        ([], "does not allow this page to use", "不允许"),
        (["microphone"], "No microphone was found", "没有找到麦克风"),
    ],
)
def test_microphone_that_is_denied_or_missing(bare_browser, address, permissions, english, chinese):
    context = bare_browser.new_context(locale="en-GB")
    context.grant_permissions(permissions)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("body[data-ready]", state="attached")
    page.click("#record")
    assert english in problem_of(page)
    assert chinese in problem_of(page, language="zh")
    assert page.inner_text("#record-text") == "打开麦克风"  # once more
    context.close()
