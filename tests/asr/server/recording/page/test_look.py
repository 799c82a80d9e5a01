"""Test how the recording page looks: widths, colours, languages, and what it loads."""

import re

import pytest
from helpers.browser import expect_nothing_from_elsewhere
from helpers.reading import record_silence, show_again, turn_on_microphone
from helpers.recording_server import recording_server

from data_pipeline.collection.prompts import Prompt

# texts that are shown, but for names
ENGLISH = """
  () => [...document.querySelectorAll("body *")].flatMap((element) =>
    element.closest("[translate=no], [hidden], noscript, kbd, pre, #language, .eyebrow") ? [] :
    [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim())
  ).concat([...document.querySelectorAll("[aria-label]")].map((one) => one.getAttribute("aria-label")))
  .concat(document.title)
  .filter((words) => /[A-Za-z]{2}/.test(words.replace(/asr record|Ctrl-C/g, "")))
"""


def overflow(page):
    """Return by how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def test_nothing_overflows_at_390_pixels(open_reader, folder):
    long = Prompt("zh", "窗" * 60 + "。", ("chuang1",) * 60)
    word = Prompt("en", "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik at home", ())
    with recording_server(folder, [long, word]) as address:
        page = open_reader(address, width=390)
        assert page.locator("#sentence rt").count() == 60
        assert overflow(page) <= 0
        turn_on_microphone(page)
        record_silence(page)
        show_again(page)
        assert overflow(page) <= 0
        page.keyboard.press("ArrowRight")
        page.click("summary")
        assert overflow(page) <= 0
        shown = page.locator("button:visible").all()
        assert all(button.bounding_box()["height"] >= 24 for button in shown)
        page.click("#finish")
        page.wait_for_selector("#end", state="visible")
        assert overflow(page) <= 0


def test_words_are_the_same_in_both_languages(open_page, address):
    page = open_page(address)
    names = """async () => {
        const { WORDS } = await import("/page/words.js");
        const names = (words, path) => Object.entries(words).flatMap(([name, value]) =>
            typeof value === "string" ? [path + name] : names(value, `${path}${name}.`));
        return { en: names(WORDS.en, ""), zh: names(WORDS.zh, "") };
    }"""
    found = page.evaluate(names)
    assert found["en"] == found["zh"]
    assert len(found["en"]) > 80


def test_no_text_is_without_chinese(open_reader, folder, prompts):
    found = {"kind": "missing", "start": 0, "end": 1, "recognized": ""}
    with recording_server(folder, prompts, speakers={"": "小明"}, check=lambda *_: [found]) as address:
        page = open_reader(address, locale="zh-CN")
        assert page.evaluate(ENGLISH) == []
        assert page.get_attribute("html", "lang") == "zh-CN"
        turn_on_microphone(page)
        record_silence(page)
        show_again(page)
        assert page.evaluate(ENGLISH) == []
        page.keyboard.press("k")
        page.wait_for_selector("#list .state[data-state=again]", state="attached")
        page.keyboard.press("Space")
        assert page.evaluate(ENGLISH) == []
        page.keyboard.press("Escape")
        page.click("#finish")
        page.wait_for_selector("#end", state="visible")
        assert page.evaluate(ENGLISH) == []
        page.click("#language")
        assert page.inner_text("#continue") == "Record more"
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_follows_the_colour_scheme(open_page, address, scheme):
    page = open_page(address, color_scheme=scheme)
    colours = page.evaluate(
        "['body', '#card', '#sentence'].map((one) => getComputedStyle(document.querySelector(one)))"
        ".map((style, place) => place < 2 ? style.backgroundColor : style.color)"
    )
    paper, card, ink = (sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3 for colour in colours)
    assert (
        (max(paper, card) < 60 and ink > 200) if scheme == "dark" else (min(paper, card) > 230 and ink < 60)
    )


def test_page_loads_nothing_from_elsewhere(open_page, address):
    expect_nothing_from_elsewhere(open_page(address), address)
