from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers.corpora.defects import DEFECTS, SmallCorpus, examine

from asr.base.system.storage.address import path_of
from data_pipeline.doctor.findings import KINDS
from data_pipeline.doctor.page import NUM_EXAMPLES, NUM_LISTED, _common_folder, write_doctor_page

VOID_TAGS = {"meta", "br", "input"}
NASTY = "<script>alert('&')</script>\"你好"


class Page(HTMLParser):
    """Parses a page; fails on tags that do not match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open_tags == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open_tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    return SmallCorpus(tmp_path / "corpus")


def page_of(corpus, tmp_path) -> Page:
    path = tmp_path / "pages" / "doctor.html"
    write_doctor_page(path, examine(corpus), datetime(2024, 5, 6))
    return Page(path)


def players_of(page):
    """Return the buttons that make a player; the page has none before."""
    assert not page.all("audio")
    return [button for button in page.all("button") if button.get("class") == "play"]


def test_page_of_an_intact_corpus_has_histograms_and_no_findings(corpus, tmp_path):
    page = page_of(corpus, tmp_path)
    assert "No errors" in page.text
    assert "28" in page.text
    assert len(page.all("svg")) == 3
    assert not page.all("article")
    assert len(page.all("script")) == 2  # the language


@pytest.mark.parametrize("code", DEFECTS)
def test_page_shows_every_kind_of_finding_with_its_remedy(corpus, tmp_path, code):
    DEFECTS[code][0](corpus)
    page = page_of(corpus, tmp_path)
    assert KINDS[code].title in page.text
    assert KINDS[code].remedy[1:] in page.text


def test_page_escapes_names(corpus, tmp_path):
    name = "<b>&'名字'</b>".replace("/", "_")
    renamed = corpus.audio().rename(corpus.folder / f"{name}.wav")
    corpus.train().update(id=NASTY, text=NASTY, speaker="", audio=renamed.name)
    corpus.write(name, [0.0] * 19200)
    page = page_of(corpus, tmp_path)
    assert NASTY in page.text
    assert renamed.name in page.text
    assert len(page.all("script")) == 3


def test_links_and_players_point_to_the_recordings(corpus, tmp_path):
    renamed = corpus.audio().rename(corpus.folder / "名 #1%?.wav")
    corpus.train().update(audio=renamed.name, tokens="")
    page = page_of(corpus, tmp_path)
    links = [link["href"] for link in page.all("a") if not link["href"].startswith("#")]
    addresses = [links[0], players_of(page)[0]["data-address"]]
    for address in addresses:
        assert (tmp_path / "pages" / unquote(address)).resolve() == renamed
        assert "#" not in address
        assert "?" not in address


def test_recording_in_object_storage_has_neither_player_nor_link(corpus, tmp_path):
    corpus.train().update(audio=f"local://{corpus.audio()}", tokens="")
    page = page_of(corpus, tmp_path)
    assert not players_of(page)
    assert not [link for link in page.all("a") if "local" in link.get("href", "")]


def test_folder_of_manifests_on_a_disk_and_at_an_address_is_the_current_one(tmp_path):
    assert _common_folder([path_of("s3://bucket/train.jsonl"), tmp_path / "dev.jsonl"]) == Path.cwd()
    assert _common_folder([tmp_path / "a" / "train.jsonl", tmp_path / "b" / "dev.jsonl"]) == tmp_path


def test_unplayable_recording_has_no_player(corpus, tmp_path):
    corpus.audio().write_bytes(b"")
    assert not players_of(page_of(corpus, tmp_path))


def test_page_stays_small_with_many_findings(corpus, tmp_path):
    record = corpus.records["train"][0]
    corpus.records["train"] = [{**record, "id": f"u{number}", "tokens": ""} for number in range(500)]
    page = page_of(corpus, tmp_path)
    assert "500 × no-label" in page.text
    rows = sum(1 for _ in page.all("tr"))
    assert rows < 3 * NUM_LISTED
    assert 0 < len(players_of(page)) <= NUM_EXAMPLES * len(page.all("article"))
