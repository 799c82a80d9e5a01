import dataclasses
import math
from types import SimpleNamespace

import pytest

from asr.base.types import Hypothesis, UserError, Utterance
from asr.evaluation.label_review import LEAST_SCORE, review_candidates, row_of, write_review_of
from asr.evaluation.review_file import ReviewRow, read_review, write_review


def row(said, heard, margin, *, name="u", text="", confidences=()):
    utterance = Utterance(name, f"{name}.wav", 1.0, text, tuple(said.split()))
    tokens = tuple(heard.split())
    return utterance, Hypothesis(name, tokens, heard, -1.0, (), confidences=confidences), -1.0 - margin, -1.0


def evaluation_of(*rows):
    columns = zip(*rows, strict=True)
    names = ("utterances", "hypotheses", "reference_log_probs", "heard_log_probs")
    return SimpleNamespace(**dict(zip(names, columns, strict=True)))


def candidates_of(*rows):
    return review_candidates(evaluation_of(*rows))


def write_list(path, *rows):
    return write_review_of(candidates_of(*rows), evaluation_of(*rows).utterances, path)


def test_the_margin_of_each_token_that_differs_decides_the_order():
    rows = [
        row("a b c d", "a x c y", 24.0, name="two"),
        row("a b", "a x", 13.0, name="one"),
        row("a b", "a x", 13.0, name="another"),
        row("a b", "a b", 90.0, name="right"),
        row("a b", "a x", LEAST_SCORE - 0.01, name="doubtful"),
        row("a b", "a x", -3.0, name="sure of the label"),
        row("a b c", "", math.inf, name="does not fit its sound"),
    ]
    found = [(candidate.utterance.id, candidate.score) for candidate in candidates_of(*rows)]
    assert found == [("does not fit its sound", math.inf), ("another", 13.0), ("one", 13.0), ("two", 12.0)]


def test_what_neither_side_can_write_is_no_candidate():
    utterance, hypothesis, *_ = row("a b", "a x", 0.0)
    assert candidates_of((utterance, hypothesis, -math.inf, -math.inf)) == []


@pytest.mark.parametrize(
    ("said", "heard", "text", "told"),
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
def test_another_reading_of_the_same_hanzi_is_told_apart(said, heard, text, told):
    (candidate,) = candidates_of(row(said, heard, 20.0, text=text))
    assert row_of(candidate).differs == told
    assert candidate.is_polyphone == ("another reading" in told)
    assert candidate.suggested == tuple(heard.split())


def test_suggested_is_only_what_the_model_is_sure_of():
    said, heard = "yi1 a1 er4 b1 san1", "yi1 a2 er4 b2 san1"
    (candidate,) = candidates_of(row(said, heard, 40.0, confidences=(0.2, 0.9, 0.2, 0.4, 0.9)))
    assert candidate.suggested == ("yi1", "a2", "er4", "b1", "san1")
    assert [str(difference) for difference in candidate.differences] == ["a1 > a2"]
    (candidate,) = candidates_of(row(said, heard, 40.0, confidences=(0.2, 0.3, 0.2, 0.4, 0.9)))
    assert candidate.suggested == tuple(heard.split())  # as a whole it is what stands against the label
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


def test_list_comes_back_as_it_was(tmp_path):
    rows = rows_like(*NASTY)
    write_review(tmp_path / "review.csv", rows)
    back = read_review(tmp_path / "review.csv")
    assert list(map(content_of, back)) == list(map(content_of, rows))
    assert [row.line for row in back][:3] == [2, 3, 4]


def test_no_cell_is_what_a_spreadsheet_would_compute_or_turn_into_a_date(tmp_path):
    write_review(tmp_path / "review.csv", rows_like(*NASTY))
    text = (tmp_path / "review.csv").read_text(encoding="utf-8-sig")
    for cell in ("0012", "1e5", "=1+1", "+x", "-", "@you", "jun4", "Mar-3", "TRUE", "3/4"):
        assert f",{cell}," not in text
        assert f",'{cell}," in text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_spreadsheets_may_save_it_in_their_own_way(tmp_path, encoding, delimiter, newline):
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
        (b"decision,id,audio,text,reference,suggested,differs,score\na,,,,a,b,,\n", ":2: no id"),
        (
            b"decision,id,audio,text,reference,suggested,differs,score\na,u,,,a,b,,\n,u,,,a,c,,\n",
            "'u' stands in lines 2 and 3",
        ),
        (b'decision,id,audio,text,reference,suggested,differs,score\na,"u,,,a,b,,\n', "no line of a table"),
        (b"PK\x03\x04rest", "a workbook"),
        (b"\xff\xfe\x00", "neither UTF-8"),
        (b"decision,id,\xff\xff\n", "neither UTF-8"),
    ],
)
def test_what_is_no_such_list_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "review.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_review(tmp_path / "review.csv")


def test_list_that_is_not_there_is_a_users_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.csv: cannot read"):
        read_review(tmp_path / "none.csv")


def test_decisions_outlive_another_evaluation_unless_the_label_has_changed(tmp_path):
    path = tmp_path / "review.csv"
    rows = [row("a b", "a x", 20.0 - n, name=f"u{n}") for n in range(5)]
    assert write_list(path, *rows) == 5
    decided = [
        dataclasses.replace(one, decision=decision, suggested=("a", "edited"))
        for one, decision in zip(read_review(path), ["a", "n", "a", "", "a"], strict=True)
    ]
    write_review(path, decided)
    rows[1] = row("a b", "a b", 0.0, name="u1")  # no candidate any more
    rows[2] = row("a c", "a x", 18.0, name="u2")  # another label since
    rows[4] = row("a c", "a c", 0.0, name="u4")  # corrected since
    assert write_list(path, *rows) == 4
    told = [(one.id, one.decision, " ".join(one.suggested)) for one in read_review(path)]
    assert told == [("u0", "a", "a edited"), ("u2", "", "a x"), ("u3", "", "a x"), ("u1", "n", "a edited")]


def test_a_set_without_candidates_makes_no_list(tmp_path):
    assert write_list(tmp_path / "review.csv", row("a", "a", 9.0)) == 0
    assert not list(tmp_path.iterdir())


def test_suggestions_that_no_longer_stand_are_removed(tmp_path):
    path = tmp_path / "review.csv"
    assert write_list(path, row("a b", "a x", 20.0)) == 1
    assert write_list(path, row("a b", "a b", 9.0)) == 0
    assert not path.exists()


def test_decisions_stay_where_no_candidate_is_left(tmp_path):
    path = tmp_path / "review.csv"
    write_list(path, row("a b", "a x", 20.0))
    write_review(path, [dataclasses.replace(one, decision="n") for one in read_review(path)])
    assert write_list(path, row("a b", "a b", 9.0)) == 1
    assert [one.decision for one in read_review(path)] == ["n"]
