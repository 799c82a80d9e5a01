"""Test in a real Chromium that a page is shown in the language that was chosen, whatever it shows later."""

import pytest
from helpers.browser import chromium

from asr.base.config import Config
from asr.pages.languages import first_language
from asr.report.training_page import TrainingPage
from asr.runs.progress import EpochMetrics
from asr.runs.run import Run


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser, tmp_path, monkeypatch):
    """Return a function that writes a page of a run in training under a locale, and opens it."""
    opened = browser.new_context(viewport={"width": 390, "height": 800})
    problems = []

    def write(locale):
        for name in ("LC_ALL", "LC_MESSAGES"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("LANG", locale)
        epochs = [
            EpochMetrics(epoch, 50.0, 0.6, 40.0, 0.7, 1e-3, 600.0, 100.0 * epoch, True, dev_s=9.0)
            for epoch in (1, 2)
        ]
        TrainingPage(Run(tmp_path), Config(), "syllable", "resume it").show(epochs)
        page = opened.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((tmp_path / "report.html").as_uri())
        return page

    yield write
    opened.close()
    assert not problems


def shown(page):
    """Return the language, the title of the first section, and the first chart's tooltip and description."""
    tooltip = page.locator("svg title").first.evaluate("title => title.textContent")
    return (
        page.evaluate("document.documentElement.lang"),
        page.locator("h2").first.inner_text(),
        tooltip.splitlines(),
        page.locator("svg").first.get_attribute("aria-label"),
    )


ENGLISH = ("en", "Learning curves", ["epoch 1", "training 60%", "dev 70%"], "Syllable error rate")
CHINESE = ("zh-CN", "学习曲线", ["第 1 个 epoch", "训练 60%", "开发集 70%"], "音节错误率")


def test_button_switches_back_and_forth_and_the_next_page_opens_in_the_chosen_language(show):
    page = show("C.UTF-8")
    assert shown(page) == ENGLISH
    page.get_by_role("button", name="中文").click()
    assert shown(page) == CHINESE
    assert shown(show("C.UTF-8")) == CHINESE
    page.get_by_role("button", name="English").click()
    assert shown(page) == ENGLISH


def test_page_opens_in_the_language_of_the_locale(show):
    assert shown(show("zh_CN.UTF-8")) == CHINESE


def test_text_that_a_script_adds_is_translated(show):
    page = show("zh_CN.UTF-8")
    page.evaluate(
        "document.querySelector('h1').after(Object.assign(document.createElement('p'), {id: 'new'}))"
    )
    page.evaluate("document.getElementById('new').textContent = 'Learning curves'")
    page.wait_for_function("document.getElementById('new').textContent === '学习曲线'")


def test_text_of_charts_has_at_least_11_pixels_on_a_telephone(show):
    heights = show("C").eval_on_selector_all(
        "svg text", "texts => texts.map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a)"
    )
    assert len(heights) > 20
    assert min(heights) >= 11


def test_locale_decides_by_its_first_variable():
    assert first_language({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert first_language({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}) == "en"
    assert first_language({}) == "en"
