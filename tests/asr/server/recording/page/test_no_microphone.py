"""Test what the recording page says without a microphone, in browsers of their own."""

import pytest
from helpers.browser import chromium
from helpers.reading import problem_of


@pytest.mark.parametrize(
    ("flags", "permissions", "english", "chinese"),
    [
        (["--use-fake-device-for-media-stream"], [], "does not allow this page to use", "不允许"),
        ([], ["microphone"], "No microphone was found", "没有找到麦克风"),
    ],
)
def test_microphone_that_is_denied_or_missing(address, flags, permissions, english, chinese):
    with chromium(*flags) as browser:
        context = browser.new_context(locale="en-GB")
        context.grant_permissions(permissions)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        page.click("#record")
        assert english in problem_of(page)
        assert chinese in problem_of(page, language="zh")
        assert page.inner_text("#record-text") == "打开麦克风"  # to try again
        context.close()
