from __future__ import annotations

import base64
import dataclasses
import io
import re
from collections.abc import Sequence
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder

import numpy as np
import pytest
from helpers.transcripts import segment_of
from PIL import Image

from asr.audio.recording import read_audio, write_wav
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.evaluation.errors.metrics import align, total_edits
from asr.evaluation.labels.label_review import review_labels
from asr.evaluation.scores import scores_of
from asr.report import evaluation_page
from asr.report.evaluation_page import ReportedRun, ReportedSet
from asr.report.sound import Flag, in_lanes, times_of_pairs
from asr.runs.progress import EpochMetrics
from asr.transcription.transcript import Segment

VOID_TAGS = {"meta", "img"}
NASTY = "<script>alert('&')</script>\"<!--"


class PageParser(HTMLParser):
    """Parses HTML into an element tree; asserts that tags match."""

    def __init__(self) -> None:
        super().__init__()
        self.builder, self.open_tags, self.decls = TreeBuilder(), list[str](), list[str]()

    def handle_decl(self, decl: str) -> None:
        self.decls.append(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID_TAGS:
            self.builder.end(tag)
        else:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        if self.open_tags:
            verbatim = {"pre", "title", "style", "script"} & set(self.open_tags)
            self.builder.data(data if verbatim else re.sub("[ \n]+", " ", data))  # as a browser shows it
        else:
            assert not data.strip()

    @classmethod
    def parse(cls, path: Path) -> Element:
        parser = cls()
        parser.feed(path.read_text(encoding="utf-8"))
        parser.close()
        assert parser.decls == ["doctype html"]
        assert parser.open_tags == []
        root = parser.builder.close()
        assert root is not None
        return root


def example(said: str, recognized: str, **fields: Any) -> tuple[Utterance, Segment]:
    """Return an utterance and its hypothesis, tokens given as words."""
    values = {"id": "u", "audio_path": "u.wav", "duration_s": 1.5, "text": said, "speaker": "ann", **fields}
    utterance = Utterance(tokens=tuple(said.split()), **values)
    tokens = tuple(recognized.split())
    return utterance, segment_of(tokens, recognized, score=-2.5)


def evaluation_of(*rows: tuple[Utterance, Segment]) -> Any:
    """Return a substitute for asr.evaluation.evaluator.Evaluation."""
    utterances, hypotheses = zip(*rows, strict=True)
    edits = total_edits((u.tokens, h.tokens) for u, h in rows)
    return SimpleNamespace(
        utterances=utterances,
        hypotheses=hypotheses,
        loss=1.25,
        edits=edits,
        token="",
        reference_log_probs=[-1.0] * len(rows),
        hypothesis_log_probs=[-1.0] * len(rows),
    )


def write_report(
    path: Path,
    evaluation: Any,
    *,
    run_name: str = "demo",
    set_name: str = "test",
    tones: str = "",
    advice: Sequence[str] = (),
    written: datetime | None = None,
    **of_run: Any,
) -> None:
    """Write a report with rates and doubtful labels, as the command does."""
    scores = scores_of(evaluation.utterances, evaluation.hypotheses)
    tested = ReportedSet(set_name, evaluation, scores, review_labels(evaluation), tones)
    evaluation_page.write_report(
        path, ReportedRun(run_name, **of_run), tested, advice=advice, written=written
    )


def epochs_of(dev_errors: Sequence[float]) -> list[EpochMetrics]:
    lowest = 1 + dev_errors.index(min(dev_errors))
    return [
        EpochMetrics(
            epoch,
            50 / epoch,
            2 / epoch,
            40 / epoch,
            error,
            1e-3,
            600.0,
            10.0 * epoch,
            best=error <= min(dev_errors[:epoch]),
            chosen=epoch == lowest,
        )
        for epoch, error in enumerate(dev_errors, start=1)
    ]


MANDARIN = (
    example("ni3 hao3 ma5", "ni2 hao3", id="sub-del", speaker="ann", duration_s=1.2, text="你好吗"),
    example("zhong1 guo2", "zong1 guo2 ren2", id="sub-ins", speaker="bo", duration_s=1.9, text="中国"),
    example("xie4 xie5", "xie4 xie5", id="right", speaker="bo", duration_s=4.0, text="谢谢"),
    example("shi4 de5 ma5", "si4 di5 ma5", id="two-subs", speaker="bo", duration_s=2.5, text="是的吗"),
)


@pytest.fixture
def page(tmp_path: Path) -> Any:
    """Write a report and return its tree."""

    def write(*rows: tuple[Utterance, Segment], **arguments: Any) -> Element:
        path = tmp_path / "report.html"
        write_report(path, evaluation_of(*(rows or MANDARIN)), **arguments)
        return PageParser.parse(path)

    return write


@pytest.mark.parametrize(
    ("tones", "named", "other"),
    [
        ("spoken", "spoken tones", "citation"),
        ("citation", "citation tones", "spoken"),
        ("", "", "The labels have"),
    ],
)
def test_tone_errors_say_which_tones_the_labels_have(page, tones, named, other):
    text = text_of(page(tones=tones))
    assert named in text
    assert other not in text


def text_of(node: Element | None) -> str:
    return "" if node is None else "".join(node.itertext())


def headings_of(root: Element) -> list[str]:
    return [text_of(heading) for heading in root.iter("h2")]


def rows_of(root: Element, first_heading: str) -> dict[str, list[str]]:
    """Return the body of the table with this first heading: name of the row -> its other cells."""
    for table in root.iter("table"):
        if text_of(table.find("thead/tr/th")) == first_heading:
            return {
                text_of(row[0]): [text_of(cell) for cell in row[1:]] for row in table.iterfind("tbody/tr")
            }
    raise AssertionError(f"no table headed {first_heading!r}")


def cards_of(root: Element, heading: str) -> list[Element]:
    section = next(s for s in root.iter("section") if text_of(s.find("h2")) == heading)
    return list(section.iter("article"))


def alignment_of(card: Element) -> list[list[str]]:
    """Return (reference, hypothesis, mark) of each column."""
    return [[text_of(cell) for cell in row] for row in card.iterfind("table/tbody/tr")]


def facts_of(root: Element) -> dict[str, str]:
    return {text_of(fact.find("dt")): text_of(fact.find("dd")) for fact in root.iterfind(".//dl/div")}


def test_page_loads_nothing_from_elsewhere(page: Any) -> None:
    root = page(metrics=epochs_of([0.9, 0.5, 0.6]), config_toml="[train]\nepochs = 3\n")
    assert not {"link", "img", "iframe", "object", "use", "image"} & {node.tag for node in root.iter()}
    attributes = {name for node in root.iter() for name in node.attrib}
    assert not {"src", "srcset", "xlink:href", "background"} & attributes
    assert all(node.attrib["href"].startswith("#") for node in root.iter("a"))
    assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|//", text_of(root.find("head/style")))
    assert "prefers-color-scheme: dark" in text_of(root.find("head/style"))


def test_header_shows_the_error_rate_and_key_figures(page: Any) -> None:
    root = page(metrics=epochs_of([0.9, 0.5, 0.6]))
    assert text_of(root.find(".//strong[@class='headline']")) == "60.0%"  # 6 edits in 10 syllables
    assert text_of(root.find(".//h1")) == "demo"
    assert "syllable error rate on test" in text_of(root.find(".//header"))
    assert facts_of(root) == {
        "entirely right": "1 of 4 (25.0%)",
        "utterances": "4",
        "syllables": "10",
        "speakers": "2",
        "audio": "10 s",
        "CTC loss": "1.25 per utterance",
        "chosen epoch": "2 of 3",
        "best epoch": "2, 50.0% on dev",
        "training": "30 s",
        "throughput": "600× real time",
    }


def test_text_from_data_is_escaped(page: Any) -> None:
    row = example(NASTY, "<b>", id="<i>id", speaker="<u>speaker", text=f"{NASTY} text")
    right = example("<em>", "<em>", text="<h1>")
    root = page(row, right, run_name=NASTY, set_name="<s>", config_toml="</pre>" + NASTY)
    assert not {"u", "s", "em"} & {node.tag for node in root.iter()}
    assert [script.attrib.get("id") for script in root.iter("script")] == ["words", None, None]
    assert text_of(root.find("head/title")).endswith(NASTY)
    (card,) = cards_of(root, "Worst utterances")
    assert text_of(card.find("h3/q")) == f"{NASTY} text"
    assert "<i>id · <u>speaker" in text_of(card)
    assert [said for said, _, _ in alignment_of(card)] == [NASTY]
    assert "<u>speaker" in rows_of(root, "speaker")
    assert rows_of(root, "reference")[NASTY][0] == "<b>"
    assert text_of(root.find(".//pre")) == "</pre>" + NASTY


def test_error_rates_count_each_kind_of_edit(page: Any) -> None:
    rows = rows_of(page(), "")
    assert rows["syllables"] == ["60.0%", "15.5\u201388.9%", "6", "4", "1", "1", "10"]
    assert rows["syllables without their tones"] == ["50.0%", "12.9\u201380.0%", "5", "3", "1", "1", "10"]
    assert rows["sentences with an error"] == ["75.0%", "19.4\u2013100.0%", "3", "", "", "", "4"]


def test_substituted_syllables_are_counted_by_the_part_that_is_wrong(page: Any) -> None:
    root = page(*MANDARIN, example("zhi1", "ci1"), example("ni3", "li4"))
    rows = rows_of(root, "wrong part")
    assert rows["initial"] == ["66.7%", "4", "50.0%", "3"]  # zhong/zong, shi/si, zhi/ci; ni3/li4
    assert rows["final"] == ["16.7%", "1", "16.7%", "1"]  # de/di
    assert rows["tone"] == ["33.3%", "2", "16.7%", "1"]  # ni3/ni2; ni3/li4
    assert rows_of(root, "initial said")["n"] == ["l", "1 of 2", "50.0%"]
    known = rows_of(root, "well-known confusions")
    assert known["flat and retroflex: z zh, c ch, s sh"][:2] == ["2", "66.7%"]
    assert known["n and l"][2] == "n\u00a0>\u00a0l\u00a0(1)"


def test_tone_matrix_has_shares_of_each_row_and_lost_tones(page: Any) -> None:
    rows = rows_of(
        page(example("ma1 ma1 ma1 ma1 ma2", "ma1 ma1 ma4 x"), example("ba5", "pa5")), "said in tone"
    )
    assert rows["1"] == ["50.0%", "", "", "25.0%", "", "25.0%", "4"]
    assert rows["2"] == ["", "", "", "", "", "100.0%", "1"]
    assert rows["5, neutral"] == ["", "", "", "", "100.0%", "", "1"]


def test_tokens_that_are_not_syllables_have_no_section_on_mandarin(page: Any) -> None:
    root = page(example("你 好", "你 号"))
    assert list(rows_of(root, "")) == ["characters", "words", "sentences with an error"]
    assert "character error rate" in text_of(root.find(".//header"))
    assert "Initial, final or tone" not in headings_of(root)
    assert next(iter(rows_of(page(example("hello world", "hello word")), ""))) == "tokens"


def test_speakers_are_listed_worst_first_and_only_if_known(page: Any) -> None:
    rows = rows_of(page(), "speaker")
    assert rows["ann"] == ["66.7%", "", "3", "0 of 1"]  # a single utterance has no interval
    assert [(name, *cells[2:]) for name, cells in rows.items()] == [
        ("ann", "3", "0 of 1"),
        ("bo", "7", "1 of 3"),
    ]
    with pytest.raises(AssertionError, match="no table"):
        rows_of(page(example("ni3", "ni2", speaker="")), "speaker")


def test_corpora_are_listed_where_there_are_several(page: Any) -> None:
    first, second = example("ni3", "ni3"), example("ni3", "ni2")
    joint = [
        (dataclasses.replace(utterance, corpus=name), hypothesis)
        for name, (utterance, hypothesis) in zip(("mine", "yours"), (first, second), strict=True)
    ]
    assert {name: cells[0] for name, cells in rows_of(page(*joint), "corpus").items()} == {
        "mine": "0.0%",
        "yours": "100.0%",
    }
    with pytest.raises(AssertionError, match="no table"):
        rows_of(page(first), "corpus")


def test_corpora_are_also_listed_by_characters_where_syllables_become_hanzi(page: Any) -> None:
    said = [("ni3 hao3", "ni3 hao4", "你好", "你号"), ("ta1", "ta1", "他", "他")]
    joint = [
        (dataclasses.replace(utterance, corpus=name), segment_of(hypothesis.tokens, written))
        for name, (reference, found, text, written) in zip(("mine", "yours"), said, strict=True)
        for utterance, hypothesis in [example(reference, found, text=text)]
    ]
    root = page(*joint)
    tables = [table for table in root.iter("table") if text_of(table.find("thead/tr/th")) == "corpus"]
    heads = [[text_of(cell) for cell in table.iterfind("thead/tr/th")][3] for table in tables]
    assert heads == ["syllables", "characters"]
    first = next([text_of(cell) for cell in row] for row in tables[1].iterfind("tbody/tr"))
    assert (first[0], first[1], first[3]) == ("mine", "50.0%", "2")


def test_clips_are_grouped_by_length_shortest_first(page: Any) -> None:
    rows = rows_of(page(), "length of clip")
    assert list(rows.items()) == [
        ("1 to 2 s", ["80.0%", "12.6\u2013100.0%", "5", "0 of 2"]),
        ("2 to 3 s", ["66.7%", "", "3", "0 of 1"]),
        ("3 to 5 s", ["0.0%", "", "2", "1 of 1"]),
    ]
    edges = page(example("ni3", "ni3", duration_s=1.0), example("ni3", "ni3", duration_s=20.5))
    assert list(rows_of(edges, "length of clip")) == ["up to 1 s", "over 20 s"]


def test_clips_are_grouped_by_noise_and_unreadable_ones_are_last(page: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tone = 8000 * np.sin(np.arange(16000) * 0.1) * (np.arange(16000) // 2000 % 2)
    rows = []
    for level, said in ((1500, "ma1"), (25, "ma2")):  # the tone, half of the time, is at 5657
        path = tmp_path / f"{said}.wav"
        write_wav(path, (tone + level * rng.standard_normal(16000)).astype(np.int16))
        rows.append(example(said, "ma1", audio_path=str(path)))
    table = rows_of(page(*rows, example("ma3", "ma3", audio_path="gone.wav")), "speech above noise")
    assert list(table) == ["5 to 10 dB", "over 40 dB", "unknown"]
    assert table["over 40 dB"][0] == "100.0%"
    with pytest.raises(AssertionError, match="no table"):
        rows_of(page(), "speech above noise")


def test_confidences_are_compared_with_accuracies(page: Any) -> None:
    said, hypothesis = example("a b c d", "a b x d")
    hypothesis = segment_of(hypothesis.tokens, hypothesis.text, confidences=(1.0, 0.9, 0.95, 0.45))
    root = page((said, hypothesis))
    rows = rows_of(root, "confidence")
    assert rows == {
        "90% to 100%": ["66.7%", "95.0%", "3"],
        "40% to 50%": ["100.0%", "45.0%", "1"],
    }
    section = next(s for s in root.iter("section") if text_of(s.find("h2")) == "Confidences")
    assert "Expected calibration error: 35.0%" in text_of(section)  # (3 * 0.283 + 0.55) / 4
    assert "Reliability" in charts_of(root)


def test_wrong_hanzi_are_counted_by_whether_their_syllable_is_right(page: Any) -> None:
    said, hypothesis = example("ta1 de5 shu1", "ta1 de5 su1", text="他的书")
    root = page((said, segment_of(hypothesis.tokens, "她得苏")))
    rows = hanzi_rows(root)
    assert rows["right syllable, wrong hanzi: language model"] == ["66.7%", "2"]
    assert rows["wrong syllable, wrong hanzi: acoustics"] == ["33.3%", "1"]


def hanzi_rows(root: Element) -> dict[str, list[str]]:
    section = next(s for s in root.iter("section") if text_of(s.find("h2")) == "Pinyin right, hanzi wrong")
    return rows_of(section, "")


def test_labels_to_review_have_their_sound(tmp_path: Path, recording: Path) -> None:
    said, hypothesis = sounding(recording, "yin2 xing2", "yin2 hang2", 0.2, 0.5)
    evaluation = evaluation_of((dataclasses.replace(said, text="银行"), hypothesis))
    evaluation.reference_log_probs, evaluation.hypothesis_log_probs = [-20.0], [-0.5]
    path = tmp_path / "report.html"
    write_report(path, evaluation)
    (card,) = cards_of(PageParser.parse(path), "Labels to review")
    assert "行 xing2 > hang2 (another reading) · score 19.5" in text_of(card)
    audio = card.find("audio")
    assert audio is not None
    sound = base64.b64decode(audio.attrib["src"].partition(",")[2], validate=True)
    assert len(read_audio(io.BytesIO(sound))) == pytest.approx(32000, abs=3000)


def test_the_15_most_frequent_confusions_are_listed_in_order(page: Any) -> None:
    often = example("ni3 ni3 ni3 hao3", "ni2 ni2 ni3 hao3")
    others = [
        example(f"wo{tone} x{number}", f"wo{tone} y{number}") for tone in (1, 2) for number in range(10)
    ]
    rows = rows_of(page(*others, often), "reference")
    assert len(rows) == 11
    assert next(iter(rows.items())) == ("ni3", ["ni2", "2 of 3", "tone"])
    distinct = [example(f"a{number}", f"b{number}") for number in range(20)]
    assert len(rows_of(page(*distinct), "reference")) == 15


def test_deleted_and_inserted_tokens_are_counted(page: Any) -> None:
    root = page()
    assert rows_of(root, "deleted") == {"ma5": ["1 of 2"]}
    assert rows_of(root, "inserted") == {"ren2": ["1"]}


def test_worst_utterances_are_ordered_by_errors_then_by_rate(page: Any) -> None:
    rows = [
        example("a b c d", "x b c d", text="one of four"),
        example("a b", "x b", text="one of two"),
        example("a b c d e", "x y c d e", text="two of five"),
    ]
    cards = cards_of(page(*rows), "Worst utterances")
    assert [text_of(card.find("h3/q")) for card in cards] == ["two of five", "one of two", "one of four"]
    assert "2 errors in 5 characters · u · ann · 1.5 s · log p\u00a0−2.5" in text_of(cards[0])
    assert len(cards_of(page(*rows * 10), "Worst utterances")) == 20


@pytest.mark.parametrize(
    ("said", "recognized"),
    [
        ("ni3 hao3 ma5", "ni2 hao3"),
        ("zhong1 guo2", "da4 zhong1 guo2 ren2"),
        ("ni3 hao3", ""),
        ("", "ni3 hao3"),
        ("a b c d e f " * 10, "b a d c f e " * 9),
    ],
    ids=["substitution", "insertions", "empty hypothesis", "empty reference", "long"],
)
def test_alignment_has_every_token_once_with_its_edit_marked(page: Any, said: str, recognized: str) -> None:
    (card,) = cards_of(page(example(said, recognized)), "Worst utterances")
    columns = alignment_of(card)
    assert {len(column) for column in columns} == {3}
    assert [reference for reference, _, _ in columns if reference] == said.split()
    assert [hypothesis for _, hypothesis, _ in columns if hypothesis] == recognized.split()
    for reference, hypothesis, mark in columns:
        equal, deletion, insertion = reference == hypothesis, not hypothesis, not reference
        assert mark == ("" if equal else "D" if deletion else "I" if insertion else "S")


def test_rate_of_an_empty_reference_is_infinite(page: Any) -> None:
    root = page(example("", "ni3 hao3"))
    assert text_of(root.find(".//strong[@class='headline']")) == "∞"
    assert rows_of(root, "")["tokens"] == ["∞", "", "2", "0", "2", "0", "0"]


def test_an_empty_hypothesis_of_silence_is_right(page: Any) -> None:
    root = page(example("", ""))
    assert facts_of(root)["entirely right"] == "1 of 1 (100.0%)"
    assert headings_of(root) == ["Error rates", "Entirely right"]


def test_flawless_set_shows_its_longest_utterances_and_no_worst(page: Any) -> None:
    rows = [example("ni3 " * length, "ni3 " * length, id=f"length {length}") for length in range(1, 9)]
    root = page(*rows)
    assert headings_of(root) == ["Error rates", "Entirely right"]
    cards = cards_of(root, "Entirely right")
    assert [text_of(card.find("p")).count("ni3") for card in cards] == [8, 7, 6, 5, 4]


def test_chosen_epoch_is_named_and_marked_in_both_charts(page: Any) -> None:
    root = page(metrics=epochs_of([0.9, 0.5, 0.3, 0.4, 0.3]))
    marks = [text_of(mark) for mark in root.iterfind(".//svg/text[@class='chosen']")]
    assert marks == ["chosen: epoch 3, 30%", "chosen: epoch 3, 13.3"]
    assert facts_of(root)["chosen epoch"] == "3 of 5"
    assert facts_of(root)["best epoch"] == "5, 30.0% on dev"  # of equal ones the latest
    assert {"3 (chosen)", "5 (best)"} < rows_of(root, "epoch").keys()
    line = root.find(".//svg/polyline[@class='dev']")
    ring = root.find(".//svg/circle[@class='chosen']")
    assert line is not None
    assert ring is not None
    assert line.attrib["points"].split()[2] == f"{ring.attrib['cx']},{ring.attrib['cy']}"


def test_run_of_one_epoch_draws_dots(page: Any) -> None:
    root = page(metrics=epochs_of([0.9]))
    assert root.find(".//polyline") is None
    assert [dot.attrib["class"] for dot in root.iter("circle")] == [
        "train",
        "dev",
        "train",
        "dev",
        "rate",
        "rate",
    ]
    assert rows_of(root, "epoch")["1 (best, chosen)"][:2] == ["200.0%", "90.0%"]


def test_an_evaluation_without_metrics_has_neither_curves_nor_configuration(page: Any) -> None:
    root = page()
    assert root.find(".//svg") is None
    assert "chosen epoch" not in facts_of(root)
    assert headings_of(root) == [
        "Error rates",
        "Initial, final or tone",
        "Most frequent confusions",
        "Worst utterances",
        "Entirely right",
    ]


def test_configuration_is_folded_and_verbatim(page: Any) -> None:
    toml = '[model]\nfamily = "separable"\n'
    root = page(config_toml=toml)
    assert text_of(root.find(".//details/pre")) == toml


def test_footer_shows_the_date(page: Any) -> None:
    footer = page(written=datetime(2026, 3, 4, 5, 6)).find(".//footer")
    assert "2026-03-04 at 05:06" in text_of(footer)


def test_a_lone_surrogate_from_a_manifest_can_be_written(page: Any) -> None:
    assert page(example("ni3", "ni2", text="half \ud83d pair")) is not None


def test_a_failed_write_keeps_the_old_report_and_is_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def full_disk(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(UserError, match=r"report\.html: cannot write .*No space left"):
        write_report(path, evaluation_of(*MANDARIN))
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"report\.html"):
        write_report(tmp_path / "file" / "report.html", evaluation_of(*MANDARIN))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return the path of 2 s of noise."""
    path = tmp_path / "noise.wav"
    write_wav(path, np.random.default_rng(0).integers(-5000, 5000, 32000).astype(np.int16))
    return path


def sounding(path: Path, said: str, recognized: str, *times_s: float) -> tuple[Utterance, Segment]:
    """Return an utterance with a recording, and a hypothesis with the time of each token."""
    utterance, hypothesis = example(said, recognized, audio_path=str(path), duration_s=2.0)
    return utterance, segment_of(hypothesis.tokens, hypothesis.text, times_s=times_s)


def flags_of(card: Element, kind: str) -> list[tuple[str, str, float]]:
    """Return (token, edit, percent from the left) of each flag above or below a spectrogram."""
    flags = card.iterfind(f".//div[@class='flags {kind}']/span")
    return [
        (
            flag[0].text or "",
            flag.attrib["class"].split()[1],
            float(flag.attrib["style"].split(";")[0].removeprefix("left:").removesuffix("%")),
        )
        for flag in flags
    ]


def test_tokens_are_at_their_times_on_the_spectrogram(page: Any, recording: Path) -> None:
    row = sounding(recording, "ni3 hao3 a5", "ni3 hao2 a5 wo3", 0.2, 0.5, 1.5, 1.9)
    (card,) = cards_of(page(row), "Worst utterances")
    assert flags_of(card, "hypothesis") == [
        ("ni3", "equal", 10.0),
        ("hao2", "substitution", 25.0),
        ("a5", "equal", 75.0),
        ("wo3", "insertion", 95.0),
    ]
    image = card.find(".//img")
    assert image is not None
    data = image.attrib["src"].removeprefix("data:image/png;base64,")
    assert Image.open(io.BytesIO(base64.b64decode(data, validate=True))).size == (200, 96)
    ticks = [tick.attrib["style"] for tick in card.iter("i")]
    assert ticks == ["left:10.00%", "left:25.00%", "left:75.00%", "left:95.00%"]
    assert card.find("table") is None


def test_deleted_tokens_are_between_their_neighbours_on_the_spectrogram(page: Any, recording: Path) -> None:
    row = sounding(recording, "a b c d e", "b e", 0.5, 1.4)
    (card,) = cards_of(page(row), "Worst utterances")
    assert flags_of(card, "said") == [
        ("a", "deletion", 12.5),
        ("b", "equal", 25.0),
        ("c", "deletion", 40.0),
        ("d", "deletion", 55.0),
        ("e", "equal", 70.0),
    ]
    assert [token for token, *_ in flags_of(card, "hypothesis")] == ["b", "e"]
    nothing = times_of_pairs(align(["a", "b", "c"], []), [], duration_s=2.0)
    assert nothing == pytest.approx([0.5, 1.0, 1.5])


@pytest.mark.parametrize("spacing_s", [0.0, 0.05, 0.3])
def test_flags_on_the_spectrogram_never_overlap(spacing_s: float) -> None:
    times_s = [0.1 + spacing_s * number for number in range(30)]
    row = [Flag("zhuang1", "equal", time_s) for time_s in times_s if time_s <= 2.0]
    placed = in_lanes(row, duration_s=2.0, width_px=600)
    spans: dict[int, list[tuple[float, float]]] = {}
    for one in placed:
        x = one.flag.time_s * 300
        begin = x - one.flag.width_px if one.left else x
        assert begin >= 0
        assert begin + one.flag.width_px <= 600
        for other_begin, other_end in spans.setdefault(one.lane, []):
            assert begin + one.flag.width_px <= other_begin or begin >= other_end
        spans[one.lane].append((begin, begin + one.flag.width_px))
    assert max(spans) + 1 <= (3 if spacing_s == 0.3 else 30)


def test_a_long_clip_scrolls_and_its_spectrogram_stays_small(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    write_wav(path, np.random.default_rng(0).integers(-5000, 5000, 60 * 16000).astype(np.int16))
    (card,) = cards_of(page(sounding(path, "a b", "a c", 1.0, 50.0)), "Worst utterances")
    sound = card.find(".//div[@class='sound']")
    assert sound is not None
    assert sound.attrib["style"] == "min-width:4500px"
    assert (tmp_path / "report.html").stat().st_size < 200_000


def test_worst_utterances_have_their_sound_unless_it_is_long(
    page: Any, recording: Path, tmp_path: Path
) -> None:
    path = tmp_path / "long.wav"
    write_wav(path, np.zeros(30 * 16000, np.int16))
    rows = [sounding(recording, "a b", "a c", 0.1, 0.2), sounding(path, "a b c", "x y z", 0.1, 0.2, 0.3)]
    long, short = cards_of(page(*rows), "Worst utterances")
    assert long.find("audio") is None
    audio, picture = short.find("audio"), short.find(".//div[@class='picture']")
    assert audio is not None
    assert picture is not None
    sound = base64.b64decode(audio.attrib["src"].partition(",")[2], validate=True)
    assert len(read_audio(io.BytesIO(sound))) == pytest.approx(32000, abs=3000)
    assert float(picture.attrib["data-duration-s"]) == 2.0


def test_headline_has_the_rate_of_the_written_text_beside_that_of_the_labels(page: Any) -> None:
    said, hypothesis = example("ni3 hao3", "ni3 hao3", text="你好")
    root = page((said, segment_of(hypothesis.tokens, "你号")))
    figures = [text_of(node) for node in root.findall(".//strong[@class='headline']")]
    assert figures == ["0.0%", "50.0%"]


def test_bar_of_edits_is_to_scale(page: Any) -> None:
    strip = page(example("a b c d e f g", "a b c d e f h i j")).find(".//div[@class='strip']")
    assert strip is not None
    widths = {node.attrib["class"]: node.attrib["style"] for node in strip}
    assert widths == {
        "equal": "width:66.667%",
        "substitution": "width:11.111%",
        "insertion": "width:22.222%",
    }


def test_contents_link_every_section(page: Any) -> None:
    root = page(metrics=epochs_of([0.9, 0.5]))
    links = {text_of(link): link.attrib["href"] for link in root.iterfind(".//nav//a")}
    assert links == {text_of(heading): f"#{heading.attrib['id']}" for heading in root.iter("h2")}
    assert links["Worst utterances"] == "#worst-utterances"


def test_a_missing_recording_is_reported_beside_the_alignment(page: Any, recording: Path) -> None:
    rows = [sounding(recording, "a b", "a c", 0.1, 0.2), example("a b c", "x y z", audio_path="gone.wav")]
    gone, there = cards_of(page(*rows), "Worst utterances")
    assert "No spectrogram: gone.wav: cannot read" in text_of(gone)
    assert alignment_of(gone) == [["a", "x", "S"], ["b", "y", "S"], ["c", "z", "S"]]
    assert there.find(".//img") is not None


def test_error_rates_are_shown_by_frequency_in_training(page: Any) -> None:
    rows = [example("a b c d", "a x c"), example("a e e f", "a e y f z")]
    counts = {"a": 500, "b": 5, "c": 6, "d": 1, "e": 2, "unsaid": 9}
    root = page(*rows, token_counts=counts)
    assert rows_of(root, "character in training") == {
        "never": ["0.0%", "0", "1", "1"],  # f
        "once": ["100.0%", "1", "1", "1"],  # d
        "2 to 5 times": ["66.7%", "2", "3", "2"],  # b, and e twice
        "6 to 20 times": ["0.0%", "0", "1", "1"],  # c
        "101 to 1,000 times": ["0.0%", "0", "2", "1"],  # a
    }
    assert "1 character of this set not in the training set, said 1 time: f\u00a0(1)" in text_of(root)


def test_without_token_counts_there_is_no_section_on_frequency(page: Any) -> None:
    for counts in (None, {}):
        assert "Error rate by frequency in training" not in headings_of(page(token_counts=counts))


def measured(**fields: Any) -> list[EpochMetrics]:
    """Return three epochs of 10 s with these fields."""
    return [dataclasses.replace(epoch, **fields) for epoch in epochs_of([0.9, 0.5, 0.6])]


def charts_of(root: Element) -> list[str]:
    return [text_of(title) for title in root.iterfind(".//figcaption/strong")]


def test_the_time_of_an_epoch_is_divided_into_device_waiting_and_evaluation(page: Any) -> None:
    root = page(metrics=measured(dev_s=10.0, waiting_share=0.2))
    tips = [text_of(tip) for tip in root.iterfind(".//rect/title") if "waiting" in text_of(tip)]
    assert tips == [f"epoch {n}\non the device 40%\nwaiting for data 10%\nevaluation 50%" for n in (1, 2, 3)]
    summary = (
        "Of 1 min 00 s: 40.0% on the device (24 s), 10.0% waiting for data (6 s), 50.0% evaluation (30 s)."
    )
    assert summary in text_of(root)


def test_quantities_that_an_old_run_did_not_measure_are_not_drawn(page: Any) -> None:
    always = ["Syllable error rate", "Loss", "Learning rate"]
    assert charts_of(page(metrics=measured())) == [*always, "Throughput"]
    everything = page(metrics=measured(dev_s=1.0, gradient_norm=3.0, skipped=1))
    assert charts_of(everything) == [
        *always,
        "Where the time went",
        "Throughput",
        "Gradient norm",
        "Skipped batches",
    ]


def test_a_run_without_a_chosen_epoch_has_a_report(page: Any) -> None:
    root = page(metrics=measured(chosen=False))
    assert facts_of(root)["chosen epoch"] == "none of 3"
    assert root.find(".//svg/text[@class='chosen']") is None
