import dataclasses
import math
from types import SimpleNamespace

import pytest
from helpers.transcripts import segment_of

from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.evaluation.labels.label_review import MIN_SCORE, review_labels, row_of, write_review_of
from asr.evaluation.labels.review_file import ReviewRow, read_review, write_review


def row(said, recognized, margin, *, name="u", text="", confidences=()):
    utterance = Utterance(name, f"{name}.wav", 1.0, text, tuple(said.split()))
    tokens = tuple(recognized.split())
    return (
        utterance,
        segment_of(tokens, recognized, score=-1.0, confidences=confidences),
        -1.0 - margin,
        -1.0,
    )


def evaluation_of(*rows):
    columns = zip(*rows, strict=True)
    names = ("utterances", "hypotheses", "reference_log_probs", "hypothesis_log_probs")
    return SimpleNamespace(**dict(zip(names, columns, strict=True)), token="syllable")


def candidates_of(*rows):
    return review_labels(evaluation_of(*rows)).candidates


def write_list(path, *rows):
    return write_review_of(candidates_of(*rows), evaluation_of(*rows).utterances, path)


def test_candidates_are_ordered_by_their_margin_per_differing_token():
    rows = [
        row("a b c d", "a x c y", 24.0, name="two"),
        row("a b", "a x", 13.0, name="one"),
        row("a b", "a x", 13.0, name="another"),
        *(row("a b c d", "a b c d", 90.0, name=f"right {index}") for index in range(3)),
        row("a b", "a x", MIN_SCORE - 0.01, name="doubtful"),
        row("a b", "a x", -3.0, name="sure of the label"),
        row("a b c", "a", math.inf, name="does not fit its sound"),
        row("a b c", "", 60.0, name="all deleted"),
    ]
    found = [(candidate.utterance.id, candidate.score) for candidate in candidates_of(*rows)]
    assert found == [("does not fit its sound", math.inf), ("another", 13.0), ("one", 13.0), ("two", 12.0)]


def test_an_utterance_without_finite_probabilities_is_not_a_candidate():
    utterance, hypothesis, *_ = row("a b", "a x", 0.0)
    assert candidates_of((utterance, hypothesis, -math.inf, -math.inf)) == []


SPOILED = row("a b c d", "a x c d", 20.0, name="spoiled")


def test_a_model_that_is_often_wrong_doubts_no_label_and_says_why():
    wrong = [row("a b c d", "a y z d", -3.0, name=str(index)) for index in range(10)]
    right = [row("a b c d", "a b c d", 9.0, name=f"right {index}") for index in range(10)]
    review = review_labels(evaluation_of(SPOILED, *wrong))
    assert not review.candidates
    assert "50% of the other syllables wrong" in review.why_none
    review = review_labels(evaluation_of(SPOILED, *wrong[:1], *right))
    assert [one.utterance.id for one in review.candidates] == ["spoiled"]
    assert not review.why_none


def test_a_model_that_is_wrong_where_it_is_sure_doubts_no_label():
    sure, doubtful = (0.99, 0.99, 0.99, 0.99), (0.99, 0.5, 0.99, 0.99)
    right = [row("a b c d", "a b c d", 9.0, name=f"right {n}", confidences=sure) for n in range(5)]
    wrong = [row("a b c d", "a y c d", -3.0, name=f"wrong {n}", confidences=sure) for n in range(5)]
    assert "of which the model is sure" in review_labels(evaluation_of(SPOILED, *right, *wrong)).why_none
    wrong = [row("a b c d", "a y c d", -3.0, name=f"wrong {n}", confidences=doubtful) for n in range(5)]
    assert len(review_labels(evaluation_of(SPOILED, *right, *wrong)).candidates) == 1


def test_labels_that_the_model_doubts_do_not_count_against_it():
    spoiled = [row("a b c d", "e f g h", 80.0, name=f"spoiled {index}") for index in range(10)]
    right = [row("a b c d", "a b c d", 9.0, name=f"right {index}") for index in range(5)]
    assert len(review_labels(evaluation_of(*spoiled, *right)).candidates) == 10


def test_a_model_that_contradicts_most_labels_doubts_none():
    sure = (0.99, 0.99, 0.99, 0.99)
    wrong = [row("a b c d", "e f g h", 80.0, name=str(index), confidences=sure) for index in range(20)]
    review = review_labels(evaluation_of(*wrong))
    assert not review.candidates
    assert "contradicts 100% of the labels" in review.why_none


@pytest.mark.parametrize(
    ("said", "recognized", "text", "differs"),
    [
        ("yin2 xing2", "yin2 hang2", "银行", "行 xing2 > hang2 (another reading)"),
        ("hai2 shi4", "huan2 shi4", "还是", "还 hai2 > huan2 (another reading)"),
        ("dong1 xi1", "dong1 xi5", "东西", "西 xi1 > xi5 (another reading)"),
        ("nv3 er2", "lv3 er2", "女儿", "女 nv3 > lv3"),
        ("yi1 ge4", "yi2 ge4", "一个", "一 yi1 > yi2 (tone sandhi)"),
        ("ni3 hao3", "ni2 hao3", "你好", "你 ni3 > ni2 (tone sandhi)"),
        ("ni3 men5", "ni2 men5", "你们", "你 ni3 > ni2"),
        ("yin2 xing2", "yin2 hang2", "银行卡", "xing2 > hang2"),  # hanzi and syllables are not one to one
        ("yin2 xing2", "yin2 hang2", "银\ufa08", "行 xing2 > hang2 (another reading)"),  # another code point
        ("yin2 xing2", "yin2", "银行", "行 xing2 > nothing"),
        ("yin2", "yin2 hang2", "银", "nothing > hang2"),
    ],
)
def test_other_readings_and_tone_sandhi_are_distinguished_from_other_differences(
    said, recognized, text, differs
):
    (candidate,) = candidates_of(row(said, recognized, 20.0, text=text))
    assert row_of(candidate).differs == differs
    assert candidate.is_polyphone == ("another reading" in differs)
    assert candidate.suggested == tuple(recognized.split())


def test_only_tokens_that_the_model_is_sure_of_are_suggested():
    said, recognized = "yi1 a1 er4 b1 san1", "yi1 a2 er4 b2 san1"
    (candidate,) = candidates_of(row(said, recognized, 40.0, confidences=(0.2, 0.9, 0.2, 0.4, 0.9)))
    assert candidate.suggested == ("yi1", "a2", "er4", "b1", "san1")
    assert [str(difference) for difference in candidate.differences] == ["a1 > a2"]
    (candidate,) = candidates_of(row(said, recognized, 40.0, confidences=(0.2, 0.3, 0.2, 0.4, 0.9)))
    assert candidate.suggested == tuple(recognized.split())  # no token alone is sure, only all together
    (candidate,) = candidates_of(row(said, "yi1 er4 b2 san1", 40.0, confidences=(0.9, 0.9, 0.4, 0.9)))
    assert candidate.suggested == ("yi1", "er4", "b1", "san1")


NASTY = [
    "0012",
    "1e5",
    "=1+1",
    "+x",
    "-",
    "@you",
    "'quoted",
    "jun4",
    "Mar-3",
    "TRUE",
    '"',
    "a,b;c\td",
    "3/4",
    "x\ny",
]


def rows_like(*names):
    return [
        ReviewRow("", name, f"{name}.wav", f"{name} 文", ("jun4",), ("jun1", "de5"), "jun4 > jun1", "7.5")
        for name in names
    ]


def content_of(row):
    return row.id, row.audio, row.text, row.reference, row.suggested, row.differs, row.score


def test_a_review_list_is_read_back_unchanged(tmp_path):
    rows = rows_like(*NASTY)
    write_review(tmp_path / "review.csv", rows)
    back = read_review(tmp_path / "review.csv")
    assert list(map(content_of, back)) == list(map(content_of, rows))
    assert [row.line for row in back][:3] == [2, 3, 4]


def test_cells_that_a_spreadsheet_would_convert_are_escaped(tmp_path):
    write_review(tmp_path / "review.csv", rows_like(*NASTY))
    text = (tmp_path / "review.csv").read_text(encoding="utf-8-sig")
    for cell in ("0012", "1e5", "=1+1", "+x", "-", "@you", "jun4", "Mar-3", "TRUE", "3/4"):
        assert f",{cell}," not in text
        assert f",'{cell}," in text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lists_saved_by_spreadsheets_are_read(tmp_path, encoding, delimiter, newline):
    path = tmp_path / "review.csv"
    lines = [
        delimiter.join(
            ["ID", "Decision", "reference", "suggested", "my notes", "audio", "text", "score", "differs"]
        ),
        delimiter.join(
            ["u1", " Y ", "yi1", "yi2", f'"a{delimiter} ""b"""', "u1.wav", "一", "9,5", "yi1 > yi2"][:7]
        ),
        delimiter * 8,
        delimiter.join(["u2", "ａ", "er4", "er2", "", "u2.wav", "二", "8", ""]),
    ]
    path.write_bytes((newline.join(lines) + newline).encode(encoding))
    rows = read_review(path)
    assert [(row.id, row.is_accepted, row.suggested, row.text, row.line) for row in rows] == [
        ("u1", True, ("yi2",), "一", 2),
        ("u2", True, ("er2",), "二", 4),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "missing"),
        (b"id,decision\nu,a\n", "audio, text, reference, suggested, differs, score missing"),
        (
            b"decision,id,audio,text,reference,suggested,differs,score\nmaybe,u,,,a,b,,\n",
            r":2: decision: .*'maybe'",
        ),
        (b"decision,id,audio,text,reference,suggested,differs,score\na,,,,a,b,,\n", ":2: the id is missing"),
        (
            b"decision,id,audio,text,reference,suggested,differs,score\na,u,,,a,b,,\n,u,,,a,c,,\n",
            "'u' appears in lines 2 and 3",
        ),
        (b'decision,id,audio,text,reference,suggested,differs,score\na,"u,,,a,b,,\n', "not a line of CSV"),
        (b"PK\x03\x04rest", "a workbook"),
        (b"\xff\xfe\x00", "save this list to review again as UTF-8"),
        (b"decision,id,\xff\xff\n", "save this list to review again as UTF-8"),
    ],
)
def test_files_that_are_not_review_lists_are_refused(tmp_path, content, message):
    (tmp_path / "review.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_review(tmp_path / "review.csv")


def test_a_missing_review_list_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.csv: no such list"):
        read_review(tmp_path / "none.csv")


def test_decisions_are_kept_by_a_new_evaluation_unless_the_label_has_changed(tmp_path):
    path = tmp_path / "review.csv"
    rows = [row("a b", "a x", 20.0 - n, name=f"u{n}") for n in range(5)]
    assert write_list(path, *rows) == 5
    decided = [
        dataclasses.replace(one, decision=decision, suggested=("a", "edited"))
        for one, decision in zip(read_review(path), ["a", "n", "a", "", "a"], strict=True)
    ]
    write_review(path, decided)
    rows[1] = row("a b", "a b", 0.0, name="u1")  # no longer a candidate
    rows[2] = row("a c", "a x", 18.0, name="u2")  # another label since
    rows[4] = row("a c", "a c", 0.0, name="u4")  # corrected since
    assert write_list(path, *rows) == 4
    kept = [(one.id, one.decision, " ".join(one.suggested)) for one in read_review(path)]
    assert kept == [("u0", "a", "a edited"), ("u2", "", "a x"), ("u3", "", "a x"), ("u1", "n", "a edited")]


def test_a_set_without_candidates_writes_no_list(tmp_path):
    assert write_list(tmp_path / "review.csv", row("a", "a", 9.0)) == 0
    assert not list(tmp_path.iterdir())


def test_the_list_is_removed_when_no_candidates_are_left(tmp_path):
    path = tmp_path / "review.csv"
    assert write_list(path, row("a b", "a x", 20.0)) == 1
    assert write_list(path, row("a b", "a b", 9.0)) == 0
    assert not path.exists()


def test_decisions_are_kept_when_no_candidates_are_left(tmp_path):
    path = tmp_path / "review.csv"
    write_list(path, row("a b", "a x", 20.0))
    write_review(path, [dataclasses.replace(one, decision="n") for one in read_review(path)])
    assert write_list(path, row("a b", "a b", 9.0)) == 1
    assert [one.decision for one in read_review(path)] == ["n"]
