"""No text of a page lacks its Chinese, apart from names: pages of every kind, with all that they can show."""

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.corpora.defects import DEFECTS, SmallCorpus, examine
from helpers.transcripts import segment_of

from asr.audio.recording import write_wav
from asr.base.config import Config, TrainConfig, dump_config
from asr.base.types import EditCounts, Utterance
from asr.cli.main import main
from asr.evaluation.comparison import compare_records
from asr.evaluation.errors.mandarin_errors import PARTS
from asr.evaluation.errors.metrics import total_edits
from asr.evaluation.labels.label_review import review_labels
from asr.evaluation.published.figures import published_sets
from asr.evaluation.scores import EvaluationRecord, scores_of
from asr.pages.languages import chinese, untranslated
from asr.report.evaluation_comparison_page import write_evaluation_comparison
from asr.report.evaluation_page import ReportedRun, ReportedSet, write_report
from asr.report.training_page import TrainingPage
from asr.runs.advice import advice
from asr.runs.progress import EpochMetrics
from asr.runs.run import Run
from data_pipeline.doctor.findings import KINDS
from data_pipeline.doctor.page import write_doctor_page

EPOCHS = [
    EpochMetrics(
        epoch, 500 / epoch**4, 1 / epoch, 400 / epoch**4, 2 / epoch, 1e-3, 600.0, 100.0 * epoch,
        best=True, chosen=epoch == 4, gradient_norm=3.0, skipped=1, waiting_share=0.1, dev_s=20.0,
    )
    for epoch in range(1, 6)
]  # fmt: skip
SAID = (
    ("ni3 hao3 ma5 zhong1 guo2 ren2", "你好吗中国人"),
    ("shi4 fu2 lai2 ri4 ban4 ju1", "是福来日办居"),
    ("yin1 lu4 jia1 shi2 ma1 ma5", "因路家十妈妈"),
)
RECOGNIZED = (
    ("ni2 hao3 zong1 gang2 ren2 a5", "你好宗刚人啊"),
    ("si4 hu2 nai2 li4 pan4 zu1", "四湖奶力盼租"),
    ("ying2 lv4 jia1 shi2 ma1 ma3", "应绿佳十妈马"),
)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Return utterances with hypotheses in which everything is wrong that a report can show."""
    folder = tmp_path_factory.mktemp("clips")
    write_wav(folder / "a.wav", np.random.default_rng(0).integers(-5000, 5000, 32000).astype(np.int16))
    paths = [folder / "a.wav", folder / "gone.wav", folder / "a.wav"]
    utterances, hypotheses = [], []
    for number, ((said, text), (tokens, found), path) in enumerate(zip(SAID, RECOGNIZED, paths, strict=True)):
        utterances.append(
            Utterance(
                id=f"u{number}",
                audio_path=str(path),
                duration_s=2.0,
                tokens=tuple(said.split()),
                text=text,
                speaker=f"speaker {number % 2}",
                corpus=f"corpus {number}",
            )
        )
        tokens = tokens.split()
        confidences = tuple([0.95, 0.4] * len(tokens))[: len(tokens)]
        hypotheses.append(segment_of(tokens, found, confidences=confidences, score=-3.0))
    right = Utterance(id="right", audio_path=str(paths[0]), duration_s=2.0, tokens=("yi1",), text="一")
    return [*utterances, right], [*hypotheses, segment_of(["yi1"], "一", confidences=(0.2,))]


def report_of(path, utterances, hypotheses, *, tones="", advice=(), published=None, decoder=None, **of_run):
    evaluation = SimpleNamespace(
        utterances=utterances,
        hypotheses=hypotheses,
        loss=1.25,
        edits=total_edits((u.tokens, h.tokens) for u, h in zip(utterances, hypotheses, strict=True)),
        token="",
        reference_log_probs=[-90.0] * len(utterances),
        hypothesis_log_probs=[-1.0] * len(utterances),
    )
    scores = scores_of(utterances, hypotheses)
    tested = ReportedSet(
        "my test set", evaluation, scores, review_labels(evaluation), tones, published, decoder or {}
    )
    write_report(path, ReportedRun("Run of mine", **of_run), tested, advice=advice)
    return path


def missing(path: Path) -> list[str]:
    return untranslated(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("tones", ["spoken", "citation", ""])
def test_report_of_syllables(examples, tmp_path, tones):
    counts = {"ni3": 1, "hao3": 3, "guo2": 300, "shi4": 30_000}
    path = report_of(
        tmp_path / "r.html",
        *examples,
        tones=tones,
        metrics=EPOCHS,
        token_counts=counts,
        config_toml="seed = 1",
    )
    page = path.read_text(encoding="utf-8")
    shown = "Worst utterances|Labels to review|Confidences|Tones|Pinyin right|Entirely right|Skipped batches"
    assert all(title in page for title in shown.split("|"))
    assert missing(path) == []


@pytest.mark.parametrize("decoder", [{}, {"beam": 16}, {"beam": 8, "language_model": "lm"}])
def test_report_of_a_set_with_published_figures(examples, tmp_path, decoder):
    for number, published in enumerate(published_sets()):
        path = report_of(tmp_path / f"{number}.html", *examples, published=published, decoder=decoder)
        assert f"Published figures: {published.name}" in path.read_text(encoding="utf-8")
        assert missing(path) == []


def test_report_of_characters_and_of_words(examples, tmp_path):
    utterances, hypotheses = examples
    for split in (list, lambda text: [f"word{ord(char)}" for char in text]):
        others = [dataclasses.replace(u, tokens=tuple(split(u.text)), text=f"{u.text}") for u in utterances]
        found = [segment_of(split(h.text), h.text) for h in hypotheses]
        assert missing(report_of(tmp_path / "r.html", others, found, metrics=EPOCHS[:1])) == []


def test_every_class_of_confusions_and_its_remedy(tmp_path):
    from asr.evaluation.errors.mandarin_errors import _KNOWN

    texts = [text for known in _KNOWN for text in (known.name, known.remedy)]
    assert [text for text in (*texts, *PARTS) if chinese(text) is None] == []


def test_training_page(tmp_path):
    run = Run(tmp_path)
    page = TrainingPage(run, Config(train=TrainConfig(epochs=5)), "syllable", "asr train x --resume")
    for history in ([], EPOCHS[:1], EPOCHS):
        page.show(history)
        assert missing(run.report_path) == []
    page.evaluating()
    assert missing(run.report_path) == []
    for error in (KeyboardInterrupt(), ValueError("no words here")):
        with pytest.raises(type(error)), page:
            raise error
        assert missing(run.report_path) == []


@pytest.mark.parametrize("code", DEFECTS)
def test_doctor_page_with_every_kind_of_finding(tmp_path, code):
    (tmp_path / "corpus").mkdir()
    corpus = SmallCorpus(tmp_path / "corpus")
    DEFECTS[code][0](corpus)
    write_doctor_page(tmp_path / "doctor.html", examine(corpus))
    assert missing(tmp_path / "doctor.html") == []


def test_every_kind_of_finding_has_a_chinese_name_and_remedy():
    texts = [
        text
        for kind in KINDS.values()
        for text in (kind.title, f"{kind.remedy[0].upper()}{kind.remedy[1:]}.")
    ]
    assert [text for text in texts if chinese(text) is None] == []


def test_inspect_page(tmp_path, monkeypatch):
    (tmp_path / "corpus").mkdir()
    corpus = SmallCorpus(tmp_path / "corpus")
    corpus.records["test"][0].update(tokens="zhuang4 zhuang4 e4", speaker="")
    corpus.save()
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", "corpus/train.jsonl", "corpus/test.jsonl", "--html", "inspect.html"]) == 0
    assert missing(tmp_path / "inspect.html") == []


def test_comparison_of_runs(tmp_path, monkeypatch):
    for name, history in (("a", EPOCHS), ("b", EPOCHS[:2]), ("c", [])):
        run = Run(tmp_path / name)
        run.directory.mkdir()
        config = Config(train=TrainConfig(epochs=5, seed=77 if name == "b" else 1))
        (run.directory / "config.toml").write_text(dump_config(config), encoding="utf-8")
        run.write_metrics(history)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "a", "b", "c"]) == 0
    (page,) = tmp_path.glob("**/compare*.html")
    assert "77" in page.read_text()
    assert missing(page) == []


def test_comparison_of_evaluations(examples, tmp_path):
    utterances, hypotheses = examples
    right = [segment_of(u.tokens, u.text) for u in utterances]
    a, b = (
        EvaluationRecord("Run", "/x/test.jsonl", {"beam": beam}, utterances, found, [-1.0] * len(utterances))
        for beam, found in ((1, hypotheses), (16, right))
    )
    bare = dataclasses.replace(b, hypotheses=[segment_of(u.tokens, "") for u in utterances])
    for one, other in itertools.permutations((a, b, bare), 2):
        write_evaluation_comparison(tmp_path / "c.html", compare_records(one, other))
        assert missing(tmp_path / "c.html") == []
    write_evaluation_comparison(tmp_path / "c.html", compare_records(a, a))
    assert missing(tmp_path / "c.html") == []


@pytest.mark.parametrize("unit", ["syllable", "character", "word", "token"])
@pytest.mark.parametrize("starts_from_trained", [False, True])
@pytest.mark.parametrize(
    "rates",
    [
        [(0.1, 0.6)] * 8,
        [(0.5, 0.6)] * 8,
        [(0.1, 0.12)] * 8,
        [(0.9 / epoch, 0.9 / epoch) for epoch in range(1, 9)],
    ],
)
def test_advice(rates, starts_from_trained, unit):
    history = [
        EpochMetrics(epoch, 1.0, train, 1.0, dev, 1e-3, 100.0, 60.0 * epoch, best=True, chosen=True)
        for epoch, (train, dev) in enumerate(rates, start=1)
    ]
    far = EditCounts(substitutions=900, reference_length=1000)
    lines = advice(
        history, unit, test=far, resume="asr train x --resume", starts_from_trained=starts_from_trained
    )
    assert lines
    assert [line for line in lines if chinese(line.split("\n")[0]) is None] == []


def test_why_no_label_is_doubted(examples):
    utterances, hypotheses = examples
    sure = [segment_of(h.tokens, h.text, confidences=(0.99,) * len(h.tokens), score=-3.0) for h in hypotheses]
    found = set()
    for one in (hypotheses, sure, [segment_of(["e4"], "饿", confidences=(0.99,))] * len(utterances)):
        for log_probs in ([-90.0] * len(utterances), [-90.0] + [-0.5] * (len(utterances) - 1)):
            for repeats in (1, 20):
                evaluation = SimpleNamespace(
                    utterances=utterances * repeats,
                    hypotheses=list(one) * repeats,
                    token="syllable",
                    reference_log_probs=log_probs * repeats,
                    hypothesis_log_probs=[-1.0] * len(utterances) * repeats,
                )
                found.add(review_labels(evaluation).why_none)
    assert len(found - {""}) > 2
    shown = [f"No label is called into question: {why}." for why in found if why]
    assert [text for text in shown if chinese(text) is None] == []
