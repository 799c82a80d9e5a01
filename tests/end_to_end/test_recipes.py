"""Each recipe, from the download to the report, on its corpora in miniature."""

import json
import re
import tomllib

import pytest
from helpers.archive_server import archive_server
from helpers.corpora.miniatures import miniature
from helpers.tiny import TINY

from asr.base.config import BUILT_IN, load_config
from asr.cli.main import main
from asr.evaluation.scores import read_json
from asr.runs.run import Run
from data_pipeline.corpora import CORPORA

THCHS30 = "/18/"  # in the path of its archive
NAMES = ("thchs30", "aishell1", "st_cmds", "primewords", "magicdata", "librispeech")
QUICK = [
    *(f"model.family={TINY}", "model.stem=1d", "model.factored_output=false"),
    *("train.epochs=1", "train.batch_s=20", "train.cpu_towers=1", "train.tensorboard_utterances=0"),
]


@pytest.fixture(scope="module")
def served(clips):
    """Yield a server of all corpora in miniature, whose first answer for that of THCHS-30 breaks off."""
    files = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in NAMES:
            corpus, contents = miniature(name, clips)
            patch.setitem(CORPORA, name, corpus)
            files |= contents
        with archive_server(files, cut=THCHS30) as server:
            yield server


@pytest.fixture(scope="module")
def trained(served, tmp_path_factory):
    """Return what trains a recipe by one command in an empty folder, and returns its run."""

    def train(name, *changes):
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            settings = [f"data.download={served.address}", *QUICK, *changes]
            assert main(["train", name, "--set", *settings]) == 0
        return Run(folder / "runs" / name)

    return train


def rates(path):
    return [rate["name"] for rate in json.loads(path.read_text(encoding="utf-8"))["rates"]]


def decoder_of(run):
    return tomllib.loads((run.directory / "decoder.toml").read_text(encoding="utf-8"))


def test_thchs30_from_download_to_report(trained, served):
    run = trained("thchs30")
    resumed = [begin for path, begin in served.asked if THCHS30 in path]
    assert len(resumed) == 2
    assert resumed[1] > 0
    assert run.config().data.test.endswith("thchs30/test.jsonl")
    assert rates(run.directory / "report.json")[0] == "syllable"
    assert "character" in rates(run.directory / "report.json")
    # the words of the training text, too, turn syllables into hanzi
    assert {path.name for path in (run.directory / "lm").iterdir()} >= {"syllables.klm", "words.klm"}
    assert decoder_of(run)["language_model"] == "lm"
    assert read_json(run.directory / "report.json").decoder["beam"] == 16


@pytest.mark.slow
def test_aishell1_is_scored_by_characters(trained):
    run = trained("aishell1")
    assert rates(run.directory / "report.json")[0] == "character"
    assert {path.name for path in (run.directory / "lm").iterdir()} >= {"characters.klm"}
    assert "Published figures: AISHELL-1 test" in (run.directory / "report.html").read_text(encoding="utf-8")
    assert decoder_of(run)["beam"] == 16


@pytest.mark.slow
def test_librispeech_is_scored_by_words_clean_and_other(trained, capsys):
    run = trained("librispeech", "data.units=bpe:30")
    shown = capsys.readouterr().out
    other = run.directory / "report-librispeech-test_other-beam16-lm.json"
    for path, number in ((run.directory / "report.json", 1), (other, 1)):
        assert rates(path)[0] == "word"
        assert len(read_json(path).utterances) == number
    assert re.findall(r"on 1 utterance of \S+/(test\w*)\.jsonl", shown) == ["test", "test_other"]
    for page, name in ((run.report_path, "test-clean"), (other.with_suffix(".html"), "test-other")):
        assert f"Published figures: LibriSpeech {name}" in page.read_text(encoding="utf-8")
    assert str(other.with_suffix(".html").relative_to(run.directory.parents[1])) in shown
    assert (run.directory / "lm" / "pieces.klm").exists()


@pytest.mark.slow
def test_mandarin_open_reports_each_corpus(trained):
    run = trained("mandarin_open")
    names = {name for name in NAMES if name != "librispeech"}
    page = (run.directory / "report.html").read_text(encoding="utf-8")
    assert "Published figures" not in page  # its test set is a mixture
    corpora = {u.id.partition("-")[0] for u in read_json(run.directory / "report.json").utterances}
    assert corpora == names
    assert all(f">{name}</td>" in page or f">{name}<" in page for name in names)


@pytest.mark.parametrize(
    "name", ["thchs30", "aishell1", "aishell1_syllables", "librispeech", "mandarin_open"]
)
def test_recipe_states_its_settings_for_several_cards(name):
    text = (BUILT_IN / f"{name}.toml").read_text(encoding="utf-8")
    config = load_config(name)
    assert config.data.download == "published"
    assert config.decode.language_model == "train"
    batches = re.findall(r"--gpus (\d) --set train\.batch_s=(\d+)", text)
    if name != "aishell1_syllables":  # as its parent
        assert [(number, int(size)) for number, size in batches] == [
            (str(number), number * config.train.batch_s) for number in (2, 4, 8)
        ]
