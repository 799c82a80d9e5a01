"""Test the page in a real browser, as a person uses it."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.browser import expect_nothing_from_elsewhere
from helpers.servers import server_in_thread

from asr.audio.recording import read_audio, write_wav
from asr.transcription import transcript

TOKEN = "a secret of some length"
WRITTEN = "#transcript .unit"
TOO_LONG = "书" * 101  # to be favoured


def choose(page, path):
    """Choose a file and wait for its transcript."""
    page.set_input_files("#file", str(path))
    wait_for_transcript(page)


def wait_for_transcript(page):
    """Wait until a transcript is complete and its recording can be played."""
    page.wait_for_selector("#keep", state="visible")
    page.evaluate(
        "audio.readyState || new Promise((go) => audio.addEventListener('loadedmetadata', () => go(1)))"
    )


def overflow(page):
    """Return by how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.fixture(scope="module")
def clip(clips):
    return Path(clips[0].audio_path)


@pytest.fixture
def shown(open_page, address, clip):
    """Return the page with the transcript of a clip."""
    page = open_page(address)
    choose(page, clip)
    return page


def test_chosen_file_is_transcribed_as_by_asr_transcribe(shown, recognizer, clip):
    expected = recognizer.transcribe(clip)
    assert "".join(shown.locator(".written").all_inner_texts()) == expected.text
    assert shown.locator(WRITTEN).count() == len(expected.tokens)
    assert shown.inner_text("#file-name") == clip.name
    assert shown.title() == "model"


def test_click_on_a_syllable_plays_from_its_time(shown, recognizer, clip):
    start_s = recognizer.transcribe(clip).times_s[2]
    shown.evaluate("document.getElementById('audio').play = async function () { this.begun = true }")
    shown.locator(WRITTEN).nth(2).click()
    assert shown.evaluate("document.getElementById('audio').currentTime") == pytest.approx(start_s, abs=0.01)
    assert shown.evaluate("document.getElementById('audio').begun") is True
    assert "now" in shown.locator(WRITTEN).nth(2).get_attribute("class")


@pytest.mark.parametrize(("limit", "expected"), [(0.0, ""), (1.1, "probably wrong")])
def test_a_transcript_of_low_confidence_is_said_to_be_doubtful(
    open_page, address, clip, monkeypatch, limit, expected
):
    monkeypatch.setattr(transcript, "DOUBTFUL", limit)
    page = open_page(address)
    choose(page, clip)
    said = page.inner_text("#status")
    assert expected in said if expected else not said


def test_click_on_the_waveform_seeks(shown):
    box = shown.locator("#waveform").bounding_box()
    shown.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    now, whole = shown.evaluate("[audio.currentTime, audio.duration]")
    assert now == pytest.approx(whole / 2, rel=0.02)


def test_all_is_reached_by_keyboard(shown):
    shown.locator(WRITTEN).first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        shown.keyboard.press(key)
    focused = "[...document.querySelectorAll('#transcript .unit')].indexOf(document.activeElement)"
    assert shown.evaluate(focused) == 1
    shown.keyboard.press("Enter")
    start_s = float(shown.locator(WRITTEN).nth(1).get_attribute("data-start"))
    assert shown.evaluate("audio.currentTime") >= start_s
    shown.evaluate("audio.pause()")
    shown.locator("#waveform").focus()
    shown.keyboard.press("Home")
    assert shown.get_attribute("#waveform", "aria-valuenow") == "0.0"
    shown.locator("#language").focus()
    reached = []
    for _ in range(15):
        shown.keyboard.press("Tab")
        reached.append(shown.evaluate("document.activeElement.id || document.activeElement.dataset.suffix"))
    assert reached[:5] == ["record", "choose", "hot-words", "play", "waveform"]
    assert {"copy", "txt", "srt", "TextGrid", "json"} <= set(reached)


@pytest.mark.parametrize("suffix", ["txt", "srt", "TextGrid", "json"])
def test_transcript_is_downloaded(shown, recognizer, clip, suffix):
    with shown.expect_download() as download:
        shown.click(f"[data-suffix={suffix}]")
    assert download.value.suggested_filename == f"{clip.stem}.{suffix}"
    contents = Path(download.value.path()).read_text("utf-8")
    expected = recognizer.transcribe(clip)
    if suffix == "TextGrid":
        syllables, characters = (
            re.findall('text = "(.+)"', tier) for tier in re.split("item \\[\\d\\]:", contents)[1:3]
        )
        assert syllables == list(expected.tokens)
        assert "".join(characters) == expected.text
    elif suffix == "json":
        assert [unit["token"] for unit in json.loads(contents)["tokens"]] == list(expected.tokens)
    else:
        assert expected.text in contents.replace("\n", "") if suffix == "srt" else f"{expected.text}\n"


def test_text_is_copied(open_page, address, clip, recognizer):
    page = open_page(address, permissions=["clipboard-read", "clipboard-write"])
    choose(page, clip)
    page.click("#copy")
    page.wait_for_selector("#copy:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == recognizer.transcribe(clip).text


def test_long_recording_has_a_time_for_each_segment(open_page, address, recognizer, long_file):
    page = open_page(address)
    choose(page, long_file)
    texts = recognizer.transcribe(long_file).text.split(" ")
    assert ["".join(line.split()) for line in texts] == [
        "".join(row.locator(".written").all_inner_texts()) for row in page.locator(".segment").all()
    ]
    times = [float(time.get_attribute("data-start")) for time in page.locator(".time").all()]
    assert times == sorted(set(times))


def test_dropped_file_is_transcribed(open_page, address, clip, recognizer):
    page = open_page(address)
    data = list(clip.read_bytes())
    transfer = page.evaluate_handle(
        """data => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(data)], "dropped.wav"));
            return transfer;
        }""",
        data,
    )
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    wait_for_transcript(page)
    assert "".join(page.locator(".written").all_inner_texts()) == recognizer.transcribe(clip).text
    assert page.inner_text("#file-name") == "dropped.wav"


def test_microphone_is_transcribed_while_one_speaks_and_as_a_whole_afterwards(open_page, address, recognizer):
    page = open_page(address, permissions=["microphone"])
    page.click("#record")
    page.wait_for_selector("#live", state="visible")  # there is text
    written = set("".join(recognizer.vocabulary.tokens)) | {"〔", "〕", " "}
    assert all(char in written or "\u4e00" <= char <= "\u9fff" for char in page.inner_text("#live"))
    page.wait_for_selector("#clock:text-matches('0:0[1-9]')")
    page.click("#record")
    wait_for_transcript(page)
    assert page.locator("#live").is_hidden()
    assert page.locator(WRITTEN).count() > 0
    assert page.evaluate("audio.duration") >= 1


def test_recording_that_the_server_refuses_is_kept_and_tried_again(open_page, address):
    page = open_page(address, permissions=["microphone"])
    page.click("#record")
    page.wait_for_selector("#live", state="visible")
    page.wait_for_selector("#clock:text-matches('0:0[1-9]')")
    page.fill("#hot-words", TOO_LONG)
    page.click("#record")
    page.wait_for_selector("#problem", state="visible")
    assert page.inner_text("#live")
    assert page.locator("#play").is_visible()
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename.endswith(".wav")
    saved = soundfile.info(download.value.path())
    assert (saved.samplerate, saved.channels) == (16_000, 1)
    assert saved.duration >= 1
    page.click("#language")
    assert (page.inner_text("#again"), page.inner_text("#save")) == ("重试", "下载录音")
    page.fill("#hot-words", "")
    page.click("#again")
    wait_for_transcript(page)
    assert page.locator(WRITTEN).count() > 0
    assert page.locator("#live").is_hidden()
    assert page.locator("#failed").is_hidden()


def test_live_text_of_a_refused_recording_stays_until_the_next_one_begins(open_page, address):
    page = open_page(address, permissions=["microphone"])
    page.click("#record")
    page.wait_for_selector("#live", state="visible")
    page.fill("#hot-words", TOO_LONG)
    page.click("#record")
    page.wait_for_selector("#problem", state="visible")
    assert page.locator("#live").is_visible()
    page.click("#record")  # without live text, which these words have refused
    page.wait_for_selector("#meter", state="visible")
    assert page.locator("#live").is_hidden()
    assert page.locator("#again").is_disabled()
    page.close()


def test_live_text_begins_empty_with_each_recording(open_page, address):
    script = """async () => {
        const { LiveText } = await import("/page/live.js");
        const texts = [];
        const live = new LiveText((text) => texts.push(text));
        for (const text of ["one", "two"]) {
            live.open(16000, "");
            live.close();
            live.show({ text });
        }
        return texts;
    }"""
    assert open_page(address).evaluate(script) == ["", "one", "", "two"]


def test_refused_file_is_tried_again(open_page, address, clip, recognizer):
    page = open_page(address)
    page.fill("#hot-words", TOO_LONG)
    page.set_input_files("#file", str(clip))
    page.wait_for_selector("#problem", state="visible")
    assert page.locator("#save").is_hidden()
    page.fill("#hot-words", "")
    page.click("#again")
    wait_for_transcript(page)
    assert "".join(page.locator(".written").all_inner_texts()) == recognizer.transcribe(clip).text


@pytest.mark.parametrize("rate_hz", [44_100, 48_000])
def test_recordings_are_resampled_without_aliases(open_page, address, rate_hz):
    script = """async (rateHz) => {
        const { speechFile } = await import("/page/recorder.js");
        const contents = [];
        for (const hz of [1000, 11000]) {
            const step = (2 * Math.PI * hz) / rateHz;
            const tone = Float32Array.from({ length: rateHz }, (_, n) => Math.sin(step * n));
            const file = await speechFile([tone], rateHz);
            contents.push([...new Uint8Array(await file.arrayBuffer())]);
        }
        return contents;
    }"""
    contents = open_page(address).evaluate(script, rate_hz)
    (low, low_hz), (high, high_hz) = (soundfile.read(io.BytesIO(bytes(data))) for data in contents)
    assert low_hz == high_hz == len(low) == len(high) == 16_000
    assert np.std(low) == pytest.approx(0.5**0.5, rel=0.02)
    assert np.std(high[100:-100]) < 0.01  # a filter has an end


def test_hot_words_change_the_text(open_page, address, clips):
    page, hot = open_page(address), "水里"
    choose(page, clips[2].audio_path)
    assert hot not in "".join(page.locator(".written").all_inner_texts())
    page.fill("#hot-words", f"李雷，{hot}:10")
    choose(page, clips[2].audio_path)
    assert hot in "".join(page.locator(".written").all_inner_texts())


def test_nothing_overflows_at_390_pixels(open_page, address, clips, tmp_path):
    page = open_page(address, width=390)
    assert overflow(page) <= 0
    together = np.concatenate([read_audio(clip.audio_path) for clip in clips])
    write_wav(tmp_path / "a name that is too long for the screen of a telephone.wav", together)
    choose(page, next(tmp_path.iterdir()))
    assert page.locator("#transcript .line").first.bounding_box()["height"] > 100  # two rows or more
    page.click("summary >> nth=-1")
    assert overflow(page) <= 0
    shown = page.locator("button:visible").all()
    assert all(button.bounding_box()["height"] >= 24 for button in shown)


def luminance(page, selector, name):
    """Return the brightness of an element's colour, from 0 to 255."""
    found = page.evaluate(
        "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]", [selector, name]
    )
    return sum(map(float, re.findall(r"[\d.]+", found)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_follows_the_colour_scheme(open_page, address, scheme):
    page = open_page(address, color_scheme=scheme)
    paper, ink = luminance(page, "body", "backgroundColor"), luminance(page, "h1", "color")
    assert (paper < 60 and ink > 200) if scheme == "dark" else (paper > 230 and ink < 60)


def test_language_is_the_browsers_and_can_be_switched(open_page, address):
    page = open_page(address, locale="zh-CN")
    assert page.inner_text("#record") == "录音"
    assert page.get_attribute("html", "lang") == "zh-CN"
    page.click("#language")
    assert page.inner_text("#record") == "Record"
    page.reload()
    page.wait_for_selector("body[data-ready]", state="attached")
    assert page.inner_text("#record") == "Record"


def test_errors_are_shown_in_plain_words(open_page, address, tmp_path, clip):
    page = open_page(address)
    no_audio = tmp_path / "notes.wav"
    no_audio.write_text("these are notes")
    page.set_input_files("#file", str(no_audio))
    page.wait_for_selector("#problem", state="visible")
    assert "cannot read this file" in page.inner_text("#problem")
    page.click("#language")
    assert "无法读取" in page.inner_text("#problem")
    choose(page, clip)
    assert page.locator("#problem").is_hidden()


def test_what_is_too_long_is_refused_with_the_limits(open_page, recognizer, clip):
    with server_in_thread(recognizer, max_audio_s=0.6) as (_, address):
        page = open_page(address)
        page.set_input_files("#file", str(clip))
        page.wait_for_selector("#problem", state="visible")
        assert "at most 0.6 seconds" in page.inner_text("#problem")


def test_page_asks_for_the_token(open_page, recognizer, clip):
    with server_in_thread(recognizer, TOKEN) as (_, address):
        page = open_page(address)
        page.fill("#token", "wrong")
        page.click("#token-form button")
        page.wait_for_selector("#problem", state="visible")
        page.fill("#token", TOKEN)
        page.click("#token-form button")
        page.wait_for_selector("#token-form", state="hidden")
        choose(page, clip)
        page.context.grant_permissions(["microphone"])
        page.click("#record")
        page.wait_for_selector("#live", state="visible")
        page.close()


def test_page_loads_nothing_from_elsewhere(open_page, address, clip):
    expect_nothing_from_elsewhere(open_page(address), address)


def test_token_in_the_address_is_used_and_taken_out_of_it(open_page, recognizer, clip):
    with server_in_thread(recognizer, TOKEN) as (_, address):
        page = open_page(f"{address}/?token={TOKEN.replace(' ', '%20')}")
        assert page.url == f"{address}/"
        choose(page, clip)
        page.reload()
        page.wait_for_selector("body[data-ready]", state="attached")
        assert page.locator("#token-form").is_hidden()
        streams = []
        page.on("websocket", lambda stream: streams.append(stream.url))
        page.context.grant_permissions(["microphone"])
        page.click("#record")
        page.wait_for_selector("#live", state="visible")
        assert streams == [f"{address.replace('http', 'ws')}/vosk"]
        page.close()


def test_calls_have_the_token_and_headings_of_the_language(open_page, recognizer):
    with server_in_thread(recognizer, TOKEN) as (_, address):
        page = open_page(address, locale="zh-CN")
        page.click("summary >> nth=-1")
        headings, calls = (
            page.locator(".calls h2").all_inner_texts(),
            page.locator(".calls pre").all_inner_texts(),
        )
        page.close()
    assert headings[:2] == ["curl", "字幕"]
    assert "undefined" not in headings
    assert all("Bearer TOKEN" in call or 'api_key="TOKEN"' in call for call in calls)


def test_too_many_hot_words_are_named(open_page, address, clip):
    page = open_page(address)
    page.fill("#hot-words", TOO_LONG)
    page.set_input_files("#file", str(clip))
    page.wait_for_selector("#problem", state="visible")
    assert "100 characters" in page.inner_text("#problem")
