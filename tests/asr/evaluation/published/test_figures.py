"""A test set's published figures are found by how its manifest was prepared, and are those of the docs."""

import json

import pytest
from helpers import ROOT

from asr.evaluation.published.figures import published_set, published_sets
from asr.pages.languages import chinese
from data_pipeline.corpora import CORPORA
from data_pipeline.preparation.description import PREPARED


def prepared(folder, corpus, manifests):
    folder.mkdir()
    described = {"corpus": corpus, "manifests": manifests, "finished": True}
    (folder / PREPARED).write_text(json.dumps(described), encoding="utf-8")
    return folder


def test_a_test_set_is_recognized_by_the_corpus_and_split_that_it_was_prepared_as(tmp_path):
    splits = {"train": "train.jsonl", "test": "test.jsonl", "test_other": "test_other.jsonl"}
    folder = prepared(tmp_path / "mine", "librispeech", splits)
    names = [published_set(folder / name).name for name in ("test.jsonl", "test_other.jsonl")]
    assert names == ["LibriSpeech test-clean", "LibriSpeech test-other"]


@pytest.mark.parametrize(
    ("corpus", "name"),
    [
        ("aishell1", "train.jsonl"),
        ("aishell1", "aishell1-test.jsonl"),  # not made by the preparation
        ("table", "test.jsonl"),
        ("thchs30, aishell1", "test.jsonl"),
    ],
)
def test_other_manifests_have_no_published_figures(corpus, name, tmp_path):
    folder = prepared(tmp_path / "aishell1", corpus, {"train": "train.jsonl", "test": "test.jsonl"})
    assert published_set(folder / name) is None
    assert published_set(tmp_path / "librispeech" / "test.jsonl") is None


def test_every_set_is_of_a_corpus_that_can_be_prepared():
    assert {one.corpus for one in published_sets()} <= set(CORPORA)
    assert len({(one.corpus, one.split) for one in published_sets()}) == len(published_sets())
    assert all(0 < float(figure.rate) < 100 for one in published_sets() for figure in one.figures)


def row(name, figure, decoding):
    first = f"| {name} |" if name else "| |"
    return f"{first} {figure.system} | {decoding} | [{figure.toolkit}]({figure.source}) | {figure.rate} | |"


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("docs/guides/recipes.md", "| test set | system | decoding | source | published | here |"),
        ("docs/zh/guides/recipes.md", "| 测试集 | 系统 | 解码 | 出处 | 公开的结果 | 本项目 |"),
    ],
    ids=["en", "zh"],
)
def test_the_table_of_the_docs_has_these_figures(page, heading):
    expected = []
    for one in published_sets():
        name = f"{one.name}，{chinese(one.unit)}" if "/zh/" in page else f"{one.name}, {one.unit}s"
        for figure in one.figures:
            decoding = chinese(figure.decoding) if "/zh/" in page else figure.decoding
            expected.append(row(name, figure, decoding))
            name = ""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    begin = lines.index(heading) + 2
    end = next(number for number in range(begin, len(lines)) if not lines[number])
    assert lines[begin:end] == expected
