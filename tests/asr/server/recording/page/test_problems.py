"""Test what the recording page says of a microphone, a link and a server that it cannot use."""

import pytest
from helpers.reading import problem_of, turn_on_microphone
from helpers.recording_server import recording_server

KEYS = {"a-key-that-nobody-guesses": "anna", "another-key-of-some-length": "小明"}


def test_page_by_http_from_another_host_says_how_the_microphone_may_be_used(open_page, folder, prompts):
    with recording_server(folder, prompts, speakers=KEYS) as address:
        key, port = next(iter(KEYS)), address.rpartition(":")[2]
        page = open_page(f"http://elsewhere.example:{port}/#{key}")
        page.click("#record")
        assert "--cert" in problem_of(page)
        assert f"http://localhost:{port}" in problem_of(page)
        assert "https" in problem_of(page, language="zh")
        page.close()


def test_microphone_that_goes_away_ends_the_take_and_can_be_turned_on_again(open_reader, address, folder):
    page = open_reader(address)
    turn_on_microphone(page)
    page.keyboard.press("Space")
    page.wait_for_selector("body.recording")
    page.evaluate("window.stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
    assert "The microphone is gone" in problem_of(page)
    assert page.locator("body.recording").count() == 0
    assert page.inner_text("#number") == "Sentence 1"
    page.keyboard.press("Space")
    page.wait_for_selector("#record-text:text('Record')")
    assert page.locator("#problem").is_hidden()
    assert not (folder / "audio").exists()


def test_page_asks_for_the_key_and_takes_that_of_the_link_out_of_the_address(open_page, folder, prompts):
    with recording_server(folder, prompts, speakers=KEYS) as address:
        page = open_page(address)
        assert "Open the whole link" in problem_of(page)
        assert "完整链接" in problem_of(page, language="zh")
        page.fill("#token", "wrong")
        page.click("#token-form button")
        page.wait_for_selector("#problem", state="visible")
        page.fill("#token", list(KEYS)[1])
        page.click("#token-form button")
        page.wait_for_selector("#reading", state="visible")
        assert "小明" in page.inner_text(".eyebrow")
        page = open_page(f"{address}/#{next(iter(KEYS))}")
        assert page.url == f"{address}/"
        assert "anna" in page.inner_text(".eyebrow")
        page.reload()
        page.wait_for_selector("#reading", state="visible")
        page.close()


@pytest.mark.slow
def test_page_waits_for_a_server_that_is_gone(open_page, folder, prompts):
    with recording_server(folder, prompts) as address:
        port = int(address.rpartition(":")[2])
        page = open_page(address)
    page.keyboard.press("ArrowRight")
    page.click("#finish")
    assert "Start asr record again" in problem_of(page)
    assert "重新启动" in problem_of(page, language="zh")
    with recording_server(folder, prompts, port=port):
        page.click("#finish")
        page.wait_for_selector("#problem", state="hidden")
        page.close()
