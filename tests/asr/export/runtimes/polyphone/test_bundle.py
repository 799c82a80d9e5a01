"""A model file is used wherever a run is, with the run's results."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.model_files import members_of, served, write_members
from helpers.processes import LIMIT_S
from helpers.random_run import trained_recognizer

from asr import Recognizer, evaluate, load_config, resume, train
from asr.base.decoder_settings import DecoderSettings, save_settings
from asr.base.errors import UserError
from asr.base.model_files import named
from asr.base.system.cache import cache_folder
from asr.cli.commands.data import record
from asr.cli.commands.speech import serve
from asr.cli.main import main, make_parser
from asr.evaluation.record_files import report_path
from asr.export import Card, export
from asr.export.exporting import format_of
from asr.export.folder import write_decoder
from asr.export.runtimes.polyphone import card
from asr.export.runtimes.polyphone.bundle import _corpora, _error_rates, pack_bundle
from asr.runs.checkpoint import read_checkpoint
from asr.runs.run import Run

CARD = Card("CC BY-SA 4.0", "It has learned nothing.\n")


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Keep models in a cache of these tests, with the compiled loops of the usual one."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "polyphone").mkdir()
    for compiled in cache_folder().glob("compiled-*"):
        (folder / "polyphone" / compiled.name).symlink_to(compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(folder))
        yield


@pytest.fixture(scope="module")
def exported_file(separable_run, tmp_path_factory):
    """Return the export of the run as one file."""
    return export(separable_run, tmp_path_factory.mktemp("file") / "small.polyphone", "polyphone", card=CARD)


@pytest.fixture(scope="module")
def small(exported_file):
    return exported_file.folder


@pytest.fixture(scope="module")
def for_tuning(separable_run, tmp_path_factory):
    """Return a file for fine-tuning alone, made by the command of a run with an evaluation and a decoder."""
    folder = tmp_path_factory.mktemp("tuning")
    shutil.copytree(separable_run, folder / "run")
    save_settings(folder / "run" / "decoder.toml", DecoderSettings(beam=7))
    manifest = Run(separable_run).config().data.test
    assert main(["evaluate", str(folder / "run"), manifest, "--beam", "1"]) == 0
    (folder / "words.md").write_text("Teachers read.\n", encoding="utf-8")
    options = ["--license", "CC0", "--card", str(folder / "words.md"), "--fine-tuning-only", "--clips", "1"]
    out = folder / "new.polyphone"
    assert main(["export", str(folder / "run"), str(out), "--format", "polyphone", *options]) == 0
    return out


def about(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("model.json"))


def text_of_card(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read("card.md").decode().rpartition("```\n")[2].strip()


def test_exported_file_has_the_logits_and_tokens_of_the_run(exported_file):
    parity = exported_file.parity
    assert 0 < parity.max_logit_difference < 1e-3
    assert parity.num_same_tokens == parity.num_clips == 4
    assert parity.exported == parity.trained


@pytest.mark.slow
def test_transcripts_are_those_of_the_run_with_any_decoder(small, separable_run, clips):
    paths = [clip.audio_path for clip in clips]
    for settings in (DecoderSettings(), DecoderSettings(beam=4)):
        ours = Recognizer.load(small, settings=settings)
        theirs = trained_recognizer(separable_run, settings, write_hanzi=True)
        assert [ours.transcribe(path).text for path in paths] == [
            theirs.transcribe(path).text for path in paths
        ]
    assert any(ours.transcribe(path).text for path in paths)


def test_file_names_nothing_of_this_machine(small, separable_run):
    with zipfile.ZipFile(small) as archive:
        everything = b"".join(archive.read(name) for name in archive.namelist())
    assert str(separable_run.parent).encode() not in everything
    assert b".jsonl" in everything  # the name of the set alone
    assert b"/tmp" not in everything


def test_card_says_what_the_publisher_and_the_evaluations_say(for_tuning):
    with zipfile.ZipFile(for_tuning) as archive:
        card = archive.read("card.md").decode()
    assert "licence of the weights: CC0" in card
    units = list(dict.fromkeys(rate["unit"] for rate in about(for_tuning)["error_rates"]))
    assert f"\n| set | decoder | utterances | {' | '.join(units)} |\n" in card
    rate = r" [\d.]+% \([\d.]+% to [\d.]+%\) \|"
    assert re.search(rf"\n\| config/dev \| greedy \| 4 \|({rate}){{{len(units)}}}\n", card)
    assert card.endswith("Teachers read.\n")
    assert "start for fine-tuning" in card
    assert "asr transcribe" not in card
    assert about(for_tuning)["recognizes"] is False
    assert {rate["unit"] for rate in about(for_tuning)["error_rates"]} >= {"syllable"}


def test_card_has_each_evaluation_of_these_weights(for_tuning, tmp_path, caplog):
    run = Run(shutil.copytree(for_tuning.parent / "run", tmp_path / "run"))
    (report,) = run.directory.glob("report*.json")
    shutil.copy(report, report.with_stem(f"{report.stem}-second"))
    record = json.loads(report.read_text("utf-8"))
    assert record["checkpoint"] == run.chosen_checkpoint().name
    stale = report.with_stem(f"{report.stem}-first-half")
    stale.write_text(json.dumps({**record, "checkpoint": "epoch-0000.npz"}), encoding="utf-8")
    rates = _error_rates(run, record["checkpoint"])
    assert {rate["decoder"] for rate in rates} == {"greedy", "greedy (second)"}
    assert f"{stale}: an evaluation of epoch-0000.npz, not of {record['checkpoint']}" in caplog.text
    table = "\n".join(card._table(rates))
    assert table.count("| config/dev | greedy") == 2


def test_weights_are_those_that_were_compared_if_training_goes_on(separable_run, tmp_path):
    run = Run(shutil.copytree(separable_run, tmp_path / "run"))
    checkpoint = run.chosen_checkpoint()

    def train_on(_work):
        shutil.copy(checkpoint, run.epoch_checkpoint(99))
        metrics = run.directory / "metrics.jsonl"
        if metrics.exists():
            last = json.loads(metrics.read_text("utf-8").splitlines()[-1])
            metrics.write_text(json.dumps({**last, "epoch": 99, "dev_error": 0.0}) + "\n", encoding="utf-8")

    file = export(run.directory, tmp_path / "a.polyphone", "polyphone", clips=1, on_progress=train_on).folder
    assert run.chosen_checkpoint() != checkpoint
    assert about(file)["checkpoint"] == checkpoint.name
    with zipfile.ZipFile(file) as archive:
        assert f"checkpoints/{checkpoint.name}" in archive.namelist()


def test_file_is_not_there_without_its_digest(small, tmp_path):
    with zipfile.ZipFile(small) as archive:
        archive.extractall(tmp_path / "folder")
    (tmp_path / "a.polyphone.sha256").mkdir()
    with pytest.raises(UserError, match="cannot write this digest"):
        pack_bundle(tmp_path / "folder", tmp_path / "a.polyphone")
    assert not (tmp_path / "a.polyphone").exists()


@pytest.mark.slow
def test_float16_is_half_the_size_and_its_cost_is_measured(separable_run, small, tmp_path, clips):
    half = export(separable_run, tmp_path / "half.polyphone", "polyphone", quantize="float16")
    assert half.folder.stat().st_size < 0.6 * small.stat().st_size
    assert half.parity.max_logit_difference > 1e-4
    assert half.parity.exported.rate == pytest.approx(half.parity.trained.rate, abs=0.1)
    weights = read_checkpoint(Run.open(half.folder).chosen_checkpoint()).decoding_weights
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}
    assert Recognizer.load(half.folder).transcribe(clips[0].audio_path).text
    with zipfile.ZipFile(half.folder) as archive:
        assert "cost of float16" in archive.read("card.md").decode()


def test_decoder_settings_travel_without_their_language_model(for_tuning, tmp_path, caplog):
    assert Run.open(for_tuning).decoder_settings().beam == 7
    run, copy, second = (Run(tmp_path / name) for name in ("run", "copy", "second"))
    save_settings(run.decoder_path, DecoderSettings(beam=7, lm_weight=0.9, language_model="/tmp/lm"))
    write_decoder(copy.directory, run)
    assert "/tmp/lm, is not exported" in caplog.text
    write_decoder(second.directory, copy)
    for one in (copy, second):
        assert "/tmp" not in one.decoder_path.read_text(encoding="utf-8")
        assert one.decoder_settings() == DecoderSettings()
        assert one.decoder_settings("lm") == DecoderSettings(beam=7, lm_weight=0.9, language_model="lm")


def test_model_file_is_evaluated_as_the_run_with_reports_in_the_working_directory(
    small, separable_run, tmp_path, monkeypatch
):
    manifest = Run(separable_run).config().data.test
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(small), manifest]) == 0
    (page,) = tmp_path.glob("small-reports/*.html")
    assert page.name == report_path(Run(separable_run), tmp_path / manifest, {}).name
    ours, theirs = evaluate(small, manifest), evaluate(separable_run, manifest)
    assert ours.scores[0].total == theirs.scores[0].total
    assert ours.scores[0].total.errors


@pytest.mark.slow
def test_training_starts_from_the_weights_of_a_model_file(small, separable_run, separable_config, tmp_path):
    settings = ["train.epochs=1", f"train.runs_dir={tmp_path}"]
    config = load_config(separable_config, [*settings, f"train.init_from={small}"])
    tuned = train(config, name="tuned").run
    first = read_checkpoint(tuned.epoch_checkpoint(0)).decoding_weights
    theirs = read_checkpoint(Run(separable_run).chosen_checkpoint()).decoding_weights
    assert all((first[path] == array).all() for path, array in theirs.items() if "seed" not in path)
    assert tuned.start_error() == evaluate(separable_run, config.data.dev).scores[0].total.rate


def test_model_file_is_neither_resumed_nor_tuned(small, tmp_path):
    with pytest.raises(UserError, match=r"\(model file\) have no optimizer"):
        resume(small)
    assert main(["tune-decoder", str(small), "dev.jsonl", "--lm", str(tmp_path)]) == 2


@pytest.mark.slow
def test_commands_use_a_model_file_in_a_process_of_their_own(small, separable_run, clips, tmp_path):
    clip, text = clips[0].audio_path, " ".join(clips[0].tokens)
    expected = trained_recognizer(separable_run, write_hanzi=True).transcribe(clip).text
    with served({"/small.polyphone": small.read_bytes()}) as server:
        digest = small.with_name("small.polyphone.sha256").read_text().split()[0]
        address = f"{server.address}/small.polyphone#sha256={digest}"
        for run in (str(small), address, address):
            assert output_of("transcribe", run, clip).strip() == expected
        assert len(server.asked) == 1
    assert output_of("align", str(small), clip, text) == output_of("align", str(separable_run), clip, text)


def output_of(*words):
    command = [sys.executable, "-m", "asr", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=5 * LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_general_model_is_the_default_of_programs_and_commands(
    small, separable_run, clips, monkeypatch, capsys
):
    monkeypatch.setattr(named, "BOX", small)
    clip, text = clips[0].audio_path, " ".join(clips[0].tokens)
    expected = trained_recognizer(separable_run, write_hanzi=True).transcribe(clip).text
    assert Recognizer.load().transcribe(clip).text == expected
    assert main(["transcribe", clip]) == 0
    assert capsys.readouterr().out.strip() == expected
    assert main(["transcribe", clip, clip]) == 0
    assert capsys.readouterr().out.count(expected) == 2
    assert main(["transcribe", "--beam", "1", "general", "--tokens", clip]) == 0
    assert main(["align", clip, text]) == 0
    assert main(["transcribe", "runs/nothing", clip]) == 2
    assert "runs/nothing: no run here" in capsys.readouterr().err
    for words in (["serve"], ["serve", str(small)]):
        recognizer, name = serve._recognizer(make_parser().parse_args(words))
        assert name == "small"
        assert recognizer.transcribe(clip).text == expected


def test_takes_are_checked_by_the_general_model_and_training_begins_from_it(
    small, clips, monkeypatch, tmp_path
):
    monkeypatch.setattr(named, "BOX", tmp_path / "none.polyphone")
    assert record._check(None, "syllables") is None
    monkeypatch.setattr(named, "BOX", small)
    check = record._check(None, "syllables")
    assert check(
        Path(clips[0].audio_path), clips[0].tokens
    )  # of random weights: it recognizes other syllables
    assert record._check(None, "characters") is None
    monkeypatch.chdir(tmp_path)
    commands = record._next_commands(Path("data/voice"), "syllables", None, ("train", "dev"))
    assert "train.init_from=general" in commands["train"]


def test_model_for_fine_tuning_recognizes_only_where_it_is_named(for_tuning, clips, monkeypatch, capsys):
    monkeypatch.setattr(named, "BOX", for_tuning)
    clip = clips[0].audio_path
    with pytest.raises(UserError, match="does not recognize well enough"):
        Recognizer.load()
    assert main(["transcribe", clip]) == 2
    assert "does not recognize well enough" in capsys.readouterr().err
    assert main(["serve", "--no-browser", "--port", "0"]) == 2
    assert "does not recognize well enough" in capsys.readouterr().err
    assert Recognizer.load("general").transcribe(clip).text


def test_model_for_fine_tuning_aligns_and_checks_takes_without_being_named(
    for_tuning, clips, monkeypatch, capsys, caplog
):
    monkeypatch.setattr(named, "BOX", for_tuning)
    clip, tokens = clips[0].audio_path, clips[0].tokens
    assert main(["align", clip, " ".join(tokens)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split("\t")[2] for row in rows] == list(tokens)
    check = record._check(None, "syllables")
    assert check(Path(clip), tokens)  # of random weights: it recognizes other syllables
    assert "does not recognize" not in caplog.text
    monkeypatch.setattr(named, "BOX", for_tuning.with_name("none.polyphone"))
    assert main(["align", clip, " ".join(tokens)]) == 2
    assert record._check(None, "syllables") is None


def test_file_for_fine_tuning_that_is_named_recognizes_with_a_warning(for_tuning, small, clips, caplog):
    assert Recognizer.load(small).transcribe(clips[0].audio_path).text
    assert "fine-tuning" not in caplog.text
    assert Recognizer.load(for_tuning).transcribe(clips[0].audio_path).text
    assert "new: does not recognize well enough as it is; fine-tune it" in caplog.text


@pytest.mark.slow
def test_export_of_a_model_file_keeps_its_licence_and_what_it_is_for(for_tuning, separable_run, tmp_path):
    def of(name, card):
        manifest = Run(separable_run).config().data.test
        file = tmp_path / name
        return about(export(for_tuning, file, "polyphone", manifest=manifest, clips=1, card=card).folder)

    kept, stated = of("a.polyphone", None), of("b.polyphone", Card("CC BY-SA 4.0", "New words."))
    for name, text in (("a", "Teachers read."), ("b", "New words.")):
        assert text_of_card(tmp_path / f"{name}.polyphone") == text
    before = about(for_tuning)
    for key in ("run", "checkpoint", "dev_error_rate", "init_from"):
        assert kept[key] == before[key]
    assert (kept["licence"], kept["recognizes"]) == ("CC0", False)
    assert (stated["licence"], stated["recognizes"]) == ("CC BY-SA 4.0", False)


def test_model_file_of_a_model_file_states_the_same_corpora_and_error_rates(tmp_path):
    rate = {"set": "a/test", "decoder": "greedy", "unit": "syllable", "rate": 0.1, "utterances": 9}
    rates = [{**rate, "interval": [0.05, 0.15]}, {"set": "b/test"}]
    members = members_of(corpora=["thchs30"], error_rates=rates)
    run = Run.open(write_members(tmp_path / "a.polyphone", members))
    assert _corpora(run) == ["thchs30"]
    assert _error_rates(run, "epoch-0003.npz") == rates[:1]
    run = Run.open(write_members(tmp_path / "b.polyphone", members_of()))
    assert (_corpora(run), _error_rates(run, "epoch-0003.npz")) == ([], [])


def test_model_file_without_sets_asks_for_them(small, clips, tmp_path, capsys):
    assert main(["export", str(small), str(tmp_path / "out.polyphone")]) == 2
    assert "a model file has no test or dev set" in capsys.readouterr().err
    assert main(["label", str(small), clips[0].audio_path, "--out", str(tmp_path / "l.jsonl")]) == 2
    assert "a model file has no dev set" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_mistakes_are_found_before_anything_is_written(separable_run, tmp_path):
    with pytest.raises(UserError, match=r"a name that ends in \.polyphone"):
        export(separable_run, tmp_path / "out", "polyphone")
    with pytest.raises(UserError, match="`card`: expected none for the format onnx"):
        export(separable_run, tmp_path / "out", card=CARD)
    with pytest.raises(UserError, match="`quantize`: expected float16"):
        export(separable_run, tmp_path / "out.polyphone", "polyphone", quantize="int8")
    assert not list(tmp_path.iterdir())
    assert format_of("polyphone").suffix == ".polyphone"
