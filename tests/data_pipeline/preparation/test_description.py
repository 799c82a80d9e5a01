import itertools
import json
import sys

import numpy as np
import pytest
import soundfile
from helpers.corpora.chinese import build_thchs30

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.cli.main import main
from asr.evaluation.scores import EvaluationRecord, tones_of
from asr.training.data import with_manifests
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import LABELS_VERSION
from data_pipeline.labels.normalization import Normalizer, has_numbers
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.description import LabelsDescription, labels_beside
from data_pipeline.preparation.prepare import prepare_corpus

SENTENCES = ["你好", "一定不是", "行长你好", "我们也很好", "再见", "谢谢"]


@pytest.fixture
def source(tmp_path):
    """Return a folder with a transcript beside each clip."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, sentence in enumerate(SENTENCES):
        soundfile.write(folder / f"c{number}.wav", rng.normal(0, 0.1, 16000), 16000)
        (folder / f"c{number}.txt").write_text(sentence, encoding="utf-8")
    return folder


def labels_in(out):
    """Return the syllables of each sentence as one string."""
    return {u.text: " ".join(u.tokens) for path in out.glob("*.jsonl") for u in read_manifest(path)}


def rewrite(out, **changes):
    """Change what the description of a prepared corpus says; None removes a key."""
    path = out / "prepared.json"
    described = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(
        json.dumps({key: value for key, value in described.items() if value is not None}), "utf-8"
    )


def test_tones_and_table_make_the_labels_and_are_recorded(source, tmp_path, capsys):
    table, out = tmp_path / "own.txt", tmp_path / "out"
    table.write_text("行长 xing2 zhang3\n", encoding="utf-8")
    options = ["--tones", "spoken", "--readings", str(table)]
    assert main(["prepare", "folder", str(source), str(out), *options]) == 0
    labels = labels_in(out)
    assert labels["一定不是"] == "yi2 ding4 bu2 shi4"
    assert labels["行长你好"] == "xing2 zhang3 ni2 hao3"
    assert "spoken tones, a table of readings" in capsys.readouterr().out
    description = labels_beside(next(out.glob("*.jsonl")))
    assert description.tones == "spoken"
    assert description.version == LABELS_VERSION
    assert len(description.readings) == 64


def test_corpus_labelled_by_another_version_is_reported_and_labelled_again(source, tmp_path, capsys):
    out = tmp_path / "out"
    prepare_corpus("folder", str(source), out)
    rewrite(out, labels={"version": LABELS_VERSION - 1, "tones": "citation"})
    before = prepare_corpus("folder", str(source), out)
    assert any(f"version {LABELS_VERSION - 1}" in line for line in before.lines())
    assert before.manifests
    assert main(["prepare", "folder", str(source), str(out)]) == 0
    assert f"version {LABELS_VERSION - 1}" in capsys.readouterr().out
    assert not prepare_corpus("folder", str(source), out).lines()


def test_corpus_prepared_before_versions_is_usable_and_reported(source, tmp_path):
    out = tmp_path / "out"
    made = prepare_corpus("folder", str(source), out)
    rewrite(out, labels=None)
    before = prepare_corpus("folder", str(source), out)
    assert before.manifests == made.manifests
    assert any("version 1" in line for line in before.lines())
    assert labels_beside(made.manifests["train"]) == LabelsDescription(version=1)


def test_labels_by_the_makers_have_no_version(tmp_path):
    source, out = build_thchs30(tmp_path / "in"), tmp_path / "out"
    made = prepare_corpus("thchs30", str(source), out)
    assert labels_beside(made.manifests["train"]) is None
    rewrite(out, labels=None)
    assert not prepare_corpus("thchs30", str(source), out).lines()


@pytest.mark.parametrize(
    "options", [["--units", "characters"], []], ids=["characters", "labels of the makers"]
)
def test_tones_of_labels_that_are_not_made_from_text_raise(options, tmp_path, capsys):
    source, out = build_thchs30(tmp_path / "in"), tmp_path / "out"
    assert main(["prepare", "thchs30", str(source), str(out), "--tones", "spoken", *options])
    error = capsys.readouterr().err
    assert "--tones" in error
    assert "--units syllables" in error
    assert not list(out.glob("*.jsonl"))


def test_broken_table_is_reported_with_its_line_before_anything_is_written(source, tmp_path, capsys):
    table = tmp_path / "own.txt"
    table.write_text("银行 yin2 hang2\n行长 hang2\n", encoding="utf-8")
    assert main(["prepare", "folder", str(source), str(tmp_path / "out"), "--readings", str(table)])
    assert "own.txt, line 2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_labels_of_an_interrupted_preparation_are_not_known(source, tmp_path):
    made = prepare_corpus("folder", str(source), tmp_path / "out")
    assert labels_beside(made.manifests["train"]) is not None
    rewrite(tmp_path / "out", finished=False)
    assert labels_beside(made.manifests["train"]) is None


@pytest.mark.parametrize("content", ["", "[]", '{"manifests": 1}', '{"manifests": {"a": "m.jsonl"}}'])
def test_labels_beside_a_manifest_of_unknown_origin_are_not_known(content, tmp_path):
    (tmp_path / "prepared.json").write_text(content, encoding="utf-8")
    assert labels_beside(tmp_path / "m.jsonl") is None
    assert labels_beside(tmp_path / "none" / "m.jsonl") is None


@pytest.fixture
def prepared(source, tmp_path):
    """Return the training manifest of a corpus with spoken tones, labelled by an earlier version."""
    out = tmp_path / "out"
    assert main(["prepare", "folder", str(source), str(out), "--tones", "spoken"]) == 0
    rewrite(out, labels={"version": LABELS_VERSION - 1, "tones": "spoken", "readings": ""})
    return out / "train.jsonl"


def clean(manifest, folder):
    main(["doctor", str(manifest), "--write-clean", str(folder), "--html", str(folder.with_suffix(".html"))])
    return folder / manifest.name


def pack(manifest, folder):
    assert main(["pack", str(manifest), str(folder)]) == 0
    return folder / manifest.name


def test_clean_and_packed_manifests_keep_how_their_labels_were_made(prepared, tmp_path):
    cleaned = clean(prepared, tmp_path / "clean")
    packed = pack(cleaned, tmp_path / "packed")
    pack(prepared.with_name("dev.jsonl"), tmp_path / "packed")
    for manifest in (cleaned, packed, packed.with_name("dev.jsonl")):
        assert labels_beside(manifest) == LabelsDescription(LABELS_VERSION - 1, "spoken")
        assert tones_of(EvaluationRecord("demo", str(manifest), {}, [], [], [])) == "spoken"
    assert labels_beside(packed.with_name("other.jsonl")) is None


def test_training_says_that_labels_of_its_manifests_are_of_another_version(prepared, tmp_path, caplog):
    packed = pack(prepared, tmp_path / "packed")
    dev = clean(prepared.with_name("dev.jsonl"), tmp_path / "clean")
    overrides = [f"data.train={packed}", f"data.dev={dev}", f"data.test={packed}"]
    with caplog.at_level("INFO"):
        with_manifests(load_config("demo", overrides))
    lines = [line for line in caplog.messages if f"version {LABELS_VERSION - 1} of the labels" in line]
    assert [line.partition(":")[0] for line in lines] == [str(packed.parent), str(dev.parent)]


def test_labels_of_a_source_that_is_not_known_are_no_longer_kept(prepared, tmp_path):
    cleaned = clean(prepared, tmp_path / "clean")
    assert labels_beside(cleaned)
    unknown = tmp_path / "unknown" / prepared.name
    unknown.parent.mkdir()
    unknown.write_bytes(prepared.read_bytes())
    assert labels_beside(clean(unknown, tmp_path / "clean")) is None
    assert not (clean(unknown, tmp_path / "new").parent / "labels.json").exists()


def test_folder_with_labels_that_were_carried_is_not_one_that_was_prepared(
    source, prepared, tmp_path, capsys
):
    cleaned = clean(prepared, tmp_path / "clean")
    before = cleaned.read_bytes()
    assert main(["prepare", "folder", str(source), str(cleaned.parent)]) == 2
    assert "not made by `asr prepare`" in capsys.readouterr().err
    assert cleaned.read_bytes() == before


def test_unusable_table_is_a_mistake_of_the_user(source, tmp_path):
    from data_pipeline.preparation.labeller import ReadingOptions

    with pytest.raises(UserError, match=r"none\.txt: cannot read"):
        prepare_corpus(
            "folder", str(source), tmp_path / "out", reading=ReadingOptions(readings=tmp_path / "none.txt")
        )


@pytest.fixture
def with_digits(source):
    """Return the folder with texts that hold digits, signs and Latin letters."""
    for number, text in enumerate(["2019年", "涨了3.5%", "12:30", "T恤3号"]):
        (source / f"c{number}.txt").write_text(text, encoding="utf-8")
    return source


@pytest.mark.parametrize("units", ["syllables", "characters"])
def test_normalized_texts_are_labelled_and_listed(units, with_digits, tmp_path, capsys):
    pytest.importorskip("wetext")
    out = tmp_path / "out"
    options = ["--normalize", "--units", units]
    assert main(["prepare", "folder", str(with_digits), str(out), *options]) == 0
    labels = labels_in(out)
    assert {"二零一九年", "涨了百分之三点五", "十二点三十分", "再见", "谢谢"} <= labels.keys()
    if units == "syllables":
        assert labels["二零一九年"] == "er4 ling2 yi1 jiu3 nian2"
        assert "found Latin letters" in (out / "left_out.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in (out / "normalized.tsv").read_text("utf-8").splitlines()]
    assert ("2019年", "二零一九年") in {(written, spoken) for _, written, spoken in rows}
    assert all(written != spoken and path.endswith(".wav") for path, written, spoken in rows)
    assert "normalized.tsv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("吃了½个", "吃了二分之一个"),
        ("2¾小时", "二又四分之三小时"),
        ("第Ⅳ章", "第四章"),
        ("①号", "一号"),
        ("５～6个", "五到六个"),
        ("5〜6个", "五到六个"),
        ("涨了50％", "涨了百分之五十"),
        ("学生有5—6个", "学生有五到六个"),
        ("9–12岁", "九到十二岁"),
        ("10-20%的人", "十到百分之二十的人"),
        ("约10%-20%的人", "约百分之十到百分之二十的人"),
        ("2-3次", "二到三次"),
        ("6-7点", "六到七点"),
        ("花了￥12,500元", "花了一万二千五百元"),
        ("花了¥1,500", "花了一千五百元"),
        ("¥1,234,567", "一百二十三万四千五百六十七元"),
        ("3，4个人", "三、四个人"),
        ("今天是2月2日", "今天是二月二日"),
        ("2月2日-3月3日", "二月二日到三月三日"),
        ("高度为100，200和300米", "高度为一百、两百和三百米"),
        ("编号5；6号", "编号五;六号"),
        ("那是1999——20年后我们才", "那是一千九百九十九——二十年后我们才"),
        ("2020年2月2日", "二零二零年二月二日"),
        ("5-3=2", "五减三等于二"),
        ("二十一人", "二十一人"),
        ('他说"我有3个苹果"', '他说"我有三个苹果"'),
        (r"在\temp里有3个", r"在\temp里有三个"),
        (r'in \temp he said "3 apples"', r'in \temp he said "three apples"'),
    ],
)
def test_wide_circled_and_roman_numbers_and_fractions_are_written_out(written, spoken):
    pytest.importorskip("wetext")
    assert Normalizer()(written) == spoken
    assert has_numbers(written) == (written != spoken)


@pytest.mark.parametrize(
    ("written", "sign"),
    [
        ("第1.2.3版", "."),
        ("7*24小时", "*"),
        ("比分3-2", "-"),
        ("3′20″", "′"),
        ("价格减少5-6左右", "-"),
        ("2019-20赛季", "-"),
    ],
)
def test_number_with_a_sign_that_is_not_read_is_refused(written, sign):
    pytest.importorskip("wetext")
    with pytest.raises(UnlabelledError, match="number with a sign in it") as raised:
        Normalizer()(written)
    assert raised.value.detail.startswith(repr(sign))


@pytest.mark.parametrize("units", ["characters", "syllables"])
def test_recordings_whose_number_is_not_read_are_left_out(source, tmp_path, units):
    pytest.importorskip("wetext")
    (source / "c0.txt").write_text("第1.2.3版", encoding="utf-8")
    out = tmp_path / "out"
    assert main(["prepare", "folder", str(source), str(out), "--normalize", "--units", units]) == 0
    assert "number with a sign in it" in (out / "left_out.tsv").read_text("utf-8")
    assert not any("版" in text for text in labels_in(out))


def test_numbers_alone_in_an_english_corpus_are_read_in_english(source, tmp_path):
    pytest.importorskip("wetext")
    texts = itertools.cycle(["2019", "turn the light on", "3½", "good night"])
    for path, text in zip(sorted(source.glob("*.txt")), texts, strict=False):
        path.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["prepare", "folder", str(source), str(out), "--normalize", "--units", "characters"]) == 0
    assert {"twenty nineteen", "three and a half"} <= labels_in(out).keys()


def test_digits_are_left_out_with_the_remedy(with_digits, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["prepare", "folder", str(with_digits), str(out)]) == 0
    assert "2019年" not in labels_in(out)
    assert not (out / "normalized.tsv").exists()
    output = capsys.readouterr().out
    assert "found digits" in output
    assert "--normalize" in output


def test_stale_list_of_normalized_texts_is_removed(with_digits, tmp_path):
    pytest.importorskip("wetext")
    out = tmp_path / "out"
    assert main(["prepare", "folder", str(with_digits), str(out), "--normalize"]) == 0
    assert main(["prepare", "folder", str(with_digits), str(out)]) == 0
    assert not (out / "normalized.tsv").exists()


def test_corpus_of_digits_alone_is_refused_with_the_remedy(source, tmp_path, capsys):
    for text in source.glob("*.txt"):
        text.write_text("2019", encoding="utf-8")
    assert main(["prepare", "folder", str(source), str(tmp_path / "out")])
    assert "--normalize" in capsys.readouterr().err


def test_latin_words_are_left_out_with_the_units_that_label_them(with_digits, tmp_path, capsys):
    assert main(["prepare", "folder", str(with_digits), str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "found Latin letters" in output
    assert "--units mixed" in output


@pytest.mark.parametrize(("text", "remedy"), [("turn on the light", "bpe:500"), ("打开iPhone", "mixed")])
def test_corpus_of_latin_letters_is_refused_with_the_units_that_label_it(
    source, tmp_path, capsys, text, remedy
):
    for transcript in source.glob("*.txt"):
        transcript.write_text(text, encoding="utf-8")
    assert main(["prepare", "folder", str(source), str(tmp_path / "out")])
    assert f"--units {remedy} labels" in capsys.readouterr().err


def test_missing_package_is_named_with_how_to_install_it(source, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wetext", None)
    assert main(["prepare", "folder", str(source), str(tmp_path / "out"), "--normalize"])
    error = capsys.readouterr().err
    assert "polyphone[normalize]" in error
    assert "--normalize" in error
    assert not (tmp_path / "out").exists()
