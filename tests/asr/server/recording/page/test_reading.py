"""Test the recording page in a real browser, as a person reads to it."""

import dataclasses
import json

import pytest
import soundfile
from helpers.reading import (
    likeness,
    read_sentences,
    record_silence,
    show_again,
    turn_on_microphone,
    wait_for_states,
)
from helpers.recording_server import recording_server
from helpers.servers import wait_until
from helpers.takes import ask, noise, wav_of

from asr.audio.recording import read_audio
from data_pipeline.collection.checks import MIN_CHECKED
from data_pipeline.collection.prompts import Prompt

NUMBER, RECORDED = "#number", "#list .state[data-state=kept]"


def journal(folder):
    """Return the lines about takes."""
    return [json.loads(line) for line in (folder / "takes.journal").read_text("utf-8").splitlines()]


def test_sentences_are_recorded_one_after_the_other_with_their_sound(open_reader, address, folder, clips):
    page = open_reader(address)
    read_sentences(page, 3, turn_on=True)
    processing = ("echoCancellation", "noiseSuppression", "autoGainControl")
    assert [page.evaluate(f"wishes.audio.{name}") for name in processing] == [False] * 3
    wait_for_states(page, "kept", 3)
    rows = journal(folder)
    assert [row["text"] for row in rows] == [clip.text for clip in clips[:3]]
    for row, clip in zip(rows, clips, strict=False):
        path = folder / row["audio"]
        assert soundfile.info(path).samplerate == page.evaluate("new AudioContext().sampleRate")
        assert likeness(read_audio(path), read_audio(clip.audio_path)) > 0.9

    page.reload()
    page.wait_for_selector("body[data-ready]", state="attached")
    assert page.inner_text(NUMBER) == "Sentence 4"
    assert page.locator(RECORDED).count() == 3


def test_next_sentence_is_shown_before_the_answer_and_nothing_is_called_recorded_until_then(
    open_reader, folder, prompts
):
    with recording_server(folder, prompts) as address:
        port = int(address.rpartition(":")[2])
        page = open_reader(address)
        turn_on_microphone(page)
    # the server is gone
    read_sentences(page, 2)
    assert page.inner_text(NUMBER) == "Sentence 3"
    page.wait_for_selector("#problem:text('Not yet on disk: 2')")
    assert page.locator(RECORDED).count() == 0
    assert page.locator("#list .state[data-state=sending]").count() == 2
    leaving = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(leaving) is False
    with recording_server(folder, prompts, port=port):
        wait_for_states(page, "kept", 2)
        assert page.locator("#problem").is_hidden()
        assert page.evaluate(leaving) is True
        assert [row["prompt"] for row in journal(folder)] == ["s1", "s2"]


def test_take_with_a_problem_comes_back_with_what_to_do_and_is_kept_if_the_reader_says_so(
    open_reader, address, folder
):
    page = open_reader(address)
    turn_on_microphone(page)
    record_silence(page)
    show_again(page)
    assert page.inner_text(NUMBER) == "Sentence 1"
    assert "Check that the right microphone is chosen" in page.inner_text("#verdict")
    assert not journal(folder)
    page.keyboard.press("k")
    page.wait_for_selector(f"{NUMBER}:text('Sentence 2')")
    page.wait_for_selector(RECORDED, state="attached")
    (row,) = journal(folder)
    assert [problem["kind"] for problem in row["problems"]] == ["silent"]


def test_take_is_played_recorded_again_and_discarded(open_reader, address, folder):
    page = open_reader(address)
    turn_on_microphone(page)
    read_sentences(page)
    page.wait_for_selector(RECORDED, state="attached")
    page.keyboard.press("p")
    page.wait_for_selector("#play-text:text('Stop playing')")
    page.wait_for_selector("#play-text:text('Play the last')")
    page.keyboard.press("r")
    page.wait_for_selector(f"{NUMBER}:text('Sentence 1')")
    read_sentences(page)
    wait_until(lambda: len(journal(folder)) == 2)
    page.wait_for_selector("#state:text('')", state="attached")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#state:text('recorded')")
    page.click("#discard")
    assert page.inner_text("#discard") == "Discard for good?"
    page.click("#discard")
    page.wait_for_selector(RECORDED, state="detached")
    assert journal(folder)[-1]["state"] == "todo"


def test_take_in_doubt_is_offered_again_with_the_place_marked(open_reader, folder, prompts):
    differences = [
        {"kind": "missing", "start": 0, "end": 1, "recognized": ""},
        {"kind": "other", "start": 1, "end": 2, "recognized": "ma"},
    ]
    with recording_server(folder, prompts, check=lambda *_: differences) as address:
        page = open_reader(address)
        turn_on_microphone(page)
        read_sentences(page)
        page.wait_for_selector("#list .state[data-state=again]", state="attached")
        assert page.inner_text(NUMBER) == "Sentence 2"  # it does not interrupt
        page.keyboard.press("ArrowLeft")
        marked = page.locator("#sentence mark ruby").evaluate_all(
            "all => all.map((one) => one.firstChild.data)"
        )
        assert marked == list(prompts[0].text[:2])
        first, second = prompts[0].text[:2]
        lines = page.locator("#verdict li").all_inner_texts()
        assert lines[:2] == [f"“{first}” may be missing.", f"“{second}” may have been read as “ma”."]
        page.keyboard.press("k")
        page.wait_for_selector(RECORDED, state="attached")
        assert journal(folder)[-1]["state"] == "kept"
        page.close()


def test_place_in_doubt_is_marked_in_words_of_letters(open_reader, folder):
    differences = [{"kind": "missing", "start": 1, "end": 2, "recognized": ""}]
    words = [Prompt("s1", "Turn it on.", ("turn", "it", "on"))]
    with recording_server(folder, words, check=lambda *_: differences) as address:
        assert ask(address, "takes/s1?keep=1", wav_of(noise()))[0] == 200
        page = open_reader(address)
        page.wait_for_selector("#verdict li:text('“it” may be missing.')")
        assert "".join(page.locator("#sentence mark").all_inner_texts()) == "it"
        page.close()


def test_page_says_that_the_model_contradicts_too_many_takes(open_reader, folder, prompts):
    differences = [{"kind": "missing", "start": 0, "end": 1, "recognized": ""}]
    many = [dataclasses.replace(prompts[0], id=f"s{number}") for number in range(MIN_CHECKED + 1)]
    with recording_server(folder, many, check=lambda *_: differences) as address:
        page = open_reader(address)
        for prompt in many[: MIN_CHECKED - 1]:
            assert ask(address, f"takes/{prompt.id}?keep=1", wav_of(noise()))[0] == 200
        wait_for_states(page, "again", MIN_CHECKED - 1)
        assert page.locator("#contradicted").is_hidden()
        ask(address, f"takes/{many[MIN_CHECKED - 1].id}?keep=1", wav_of(noise()))
        wait_for_states(page, "kept", MIN_CHECKED)
        assert "does not know your voice" in page.inner_text("#contradicted")
        page.click("#language")
        assert "不熟悉这个声音" in page.inner_text("#contradicted")
        page.close()


def test_all_is_done_by_keyboard(open_reader, address):
    page = open_reader(address)
    turn_on_microphone(page)
    page.keyboard.press("ArrowRight")
    assert page.inner_text(NUMBER) == "Sentence 2"
    page.keyboard.press("Space")
    page.wait_for_selector("body.recording")
    page.keyboard.press("ArrowRight")  # nothing is lost by a slip
    page.keyboard.press("Escape")
    page.wait_for_selector("body:not(.recording)")
    assert page.inner_text(NUMBER) == "Sentence 2"
    page.locator("#next").focus()
    page.keyboard.press("Space")  # a button with the focus is pressed as everywhere
    assert page.inner_text(NUMBER) == "Sentence 3"
    assert page.locator("body.recording").count() == 0
    page.locator("#language").focus()
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached == ["back", "record", "next", "SUMMARY"]
    page.keyboard.press("Enter")
    page.click(".sentence-row >> nth=0")
    assert page.inner_text(NUMBER) == "Sentence 1"
    page.keyboard.press("Space")  # after a click, it records
    page.wait_for_selector("body.recording")


@pytest.mark.slow
def test_end_has_what_was_recorded_and_the_next_commands(open_reader, address, folder):
    page = open_reader(address, permissions=["clipboard-read", "clipboard-write", "microphone"])
    turn_on_microphone(page)
    read_sentences(page)
    page.wait_for_selector(RECORDED, state="attached")
    page.click("#finish")
    page.wait_for_selector("#end", state="visible")
    assert page.inner_text("#counts div >> nth=0").split() == ["Sentences", "1"]
    assert (folder / "train.jsonl").exists()
    assert "asr doctor" in page.inner_text("#commands pre >> nth=0")
    page.click("#commands button >> nth=0")
    page.wait_for_selector("#commands button:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "asr doctor mine/train.jsonl"
    page.click("#continue")
    assert page.inner_text(NUMBER) == "Sentence 2"
