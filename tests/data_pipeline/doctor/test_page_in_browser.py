"""Test in a real Chromium that the findings on the doctor's page are searched, filtered and sorted."""

import pytest
from helpers.browser import chromium
from helpers.corpora.defects import DEFECTS, SmallCorpus, examine

from data_pipeline.doctor.page import write_doctor_page


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    """Return a page with errors (40 of one kind), warnings and notes."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "corpus").mkdir()
    corpus = SmallCorpus(folder / "corpus")
    for code in ("no-speaker", "shared-sentence", "missing-audio"):
        DEFECTS[code][0](corpus)
    unlabelled = {**corpus.records["train"][-1], "tokens": ""}
    corpus.records["train"] += [
        {**unlabelled, "id": f"odd-{number}", "text": f"第{number}句"} for number in range(40)
    ]
    write_doctor_page(folder / "doctor.html", examine(corpus))
    return folder / "doctor.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, page_path):
    problems = []
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(page_path.as_uri())
    yield page
    page.close()
    assert not problems


def shown(page):
    """Return the titles of the cards that are shown, in their order."""
    return page.eval_on_selector_all(
        "article", "cards => cards.filter(c => c.checkVisibility()).map(c => c.dataset.title)"
    )


def test_search_finds_a_finding_that_is_folded_away(page):
    page.get_by_label("Search").fill("NO LABEL odd-37")
    assert shown(page) == ["no label"]
    assert page.locator("tbody tr:visible", has_text="odd-").all_inner_texts()[0].startswith("train.jsonl:")
    assert page.locator(".findings tbody tr:visible").count() == 1
    assert page.locator("output").inner_text().startswith("1 / ")
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function("document.querySelector('output').textContent === ''")
    assert len(shown(page)) > 3
    assert page.locator(".findings tbody tr:visible").count() == 0


def test_kinds_of_a_severity_are_hidden_by_the_keyboard_alone(page):
    before = shown(page)
    page.get_by_label("Search").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    after = shown(page)
    assert 0 < len(after) < len(before)
    assert "no label" not in after
    assert "no speaker given" in after
    assert page.locator("[data-severity=error]").is_hidden()


def test_kinds_are_sorted_by_number_and_rows_by_their_columns(page):
    page.get_by_label("Order").select_option("by number")
    assert shown(page)[0] == "no label"
    page.get_by_text("34 more").click()
    heading = page.locator("article", has_text="no label").get_by_role("button", name="where")
    heading.click()
    rows = page.locator(".findings tbody tr:visible th").all_inner_texts()
    heading.press("Enter")
    assert page.locator(".findings tbody tr:visible th").all_inner_texts() == rows[::-1]
    numbers = [int(row.rpartition("-")[2]) for row in rows]
    assert numbers == sorted(numbers)
    assert page.locator("[aria-sort=descending]").count() == 1


def test_page_is_no_wider_than_a_telephone(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_player_is_made_when_it_is_asked_for(page):
    assert page.locator("audio").count() == 0
    card = page.locator("article", has_text="no label")
    with page.expect_event("requestfinished", lambda request: request.url.endswith(".wav")):
        card.get_by_role("button", name="Play").first.click()
    assert page.locator("audio").count() == 1
