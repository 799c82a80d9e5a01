"""English digits by a real speaker, labelled by pieces of words, from preparation to every way out."""

import json
from pathlib import Path

import numpy as np
import openai
import pytest
from helpers import ROOT
from helpers.random_run import random_run
from helpers.recognize import recognize
from helpers.servers import server_in_thread

from asr.audio.recording import read_audio, write_wav
from asr.base.config import load_config
from asr.base.decoder_settings import DecoderSettings
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.cli.main import main
from asr.ctc.beam_search import BeamSearch
from asr.ctc.hot_words import HotWords
from asr.ctc.search import NBestSearch
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.language.ngram.folder import fusion_model
from asr.training.data import make_vocabulary
from asr.transcription.decoder_choice import DecoderChoice
from data_pipeline.manifests.manifest import read_manifest

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RECORDINGS = ROOT.parent / "shared" / "data" / "fsdd" / "recordings"
SPEAKER = "jackson"
NUM_TRAIN, NUM_DEV = 12, 3
SPLITS = (("train", "dev", "test"), ("train", "dev", "dev"))

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="needs the Free Spoken Digit Dataset in ../shared"
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return the folder of manifests of strings of three digits, with a short pause between them."""
    folder = tmp_path_factory.mktemp("digits")
    rng = np.random.default_rng(3)
    rows = ["path,text,speaker,split"]
    for number in range(NUM_TRAIN + NUM_DEV):
        digits = rng.integers(10, size=3)
        files = [RECORDINGS / f"{digit}_{SPEAKER}_{rng.integers(5)}.wav" for digit in digits]
        parts = [part for file in files for part in (read_audio(file), np.zeros(800, np.int16))]
        write_wav(folder / f"{number:02}.wav", np.concatenate(parts))
        text = " ".join(WORDS[digit] for digit in digits).capitalize()
        rows.append(f"{number:02}.wav,{text}!,{SPEAKER},{'train' if number < NUM_TRAIN else 'dev'}")
    (folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    out = folder / "manifests"
    assert main(["prepare", "table", str(folder / "list.csv"), str(out), "--units", "bpe:30"]) == 0
    return out


@pytest.fixture(scope="module")
def config(prepared):
    """Return a configuration that memorizes the strings."""
    path = prepared.with_name("digits.toml")
    path.write_text(
        f"""
        [data]
        train = "{prepared}/train.jsonl"
        dev = "{prepared}/train.jsonl"
        test = "{prepared}/dev.jsonl"
        [augment]
        pauses = 0.0
        frequency_masks = 0
        [features]
        normalize = false
        [model]
        size = "xs"
        dropout = 0.0
        [train]
        epochs = 60
        batch_s = 5.0
        cpu_towers = 1
        runs_dir = "{prepared.parent}/runs"
        """,
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def run(prepared, tmp_path_factory):
    """Return a run whose weights are random, but its outputs clear."""
    manifests = [f"data.{name}={prepared}/{split}.jsonl" for name, split in zip(*SPLITS, strict=True)]
    config = load_config(
        "base", [*manifests, "model.size=xs", "features.normalize_over=clip", "train.seed=2"]
    )
    return random_run(config, make_vocabulary(config), tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return export(run, tmp_path_factory.mktemp("export") / "out", clips=2).folder


@pytest.fixture(scope="module")
def recognizer(exported):
    return ExportedModel.open(exported).recognizer(DecoderChoice(DecoderSettings()))


@pytest.fixture(scope="module")
def clips(prepared):
    return [utterance.audio_path for utterance in read_manifest(prepared / "train.jsonl")]


def test_the_text_of_pieces_is_the_same_in_a_program_a_script_a_server_and_a_stream(
    recognizer, exported, clips
):
    expected = [recognizer.transcribe(path) for path in clips]
    assert len({token for one in expected for token in one.tokens}) > 2
    assert all(one.text == recognizer.vocabulary.join(one.tokens) for one in expected)
    done = recognize(exported, *clips, "--format", "jsonl")
    assert done.returncode == 0, done.stderr.decode()
    printed = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [one["text"] for one in printed] == [one.text for one in expected]
    with (
        server_in_thread(recognizer) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
    ):
        answers = [client.audio.transcriptions.create(model="m", file=Path(path)) for path in clips]
    assert [answer.text for answer in answers] == [one.text for one in expected]
    stream = recognizer.stream()
    waveform = read_audio(clips[0])
    segments = []
    for begin in range(0, len(waveform), 3200):
        segments += stream.feed(waveform[begin : begin + 3200]).segments
    segments += stream.finish()
    assert segments
    assert all(one.text == recognizer.vocabulary.join(one.tokens) for one in segments)


def test_beam_search_takes_a_language_model_over_pieces_and_hot_words(prepared, tmp_path):
    """Beside the right piece of each frame another one is a little more probable."""
    text, folder = tmp_path / "text.txt", tmp_path / "lm"
    text.write_text("Seven zero one.\n" * 5 + "One nine.\n" * 5, encoding="utf-8")
    model = prepared / UNITS_MODEL
    arguments = ["--out", str(folder), "--units", "pieces", "--pieces", str(model), "--order", "4"]
    assert main(["lm", "train", str(text), *arguments]) == 0
    assert main(["lm", "perplexity", str(folder), str(text)]) == 0
    pieces = Pieces.load(model)
    vocabulary = Vocabulary.of_pieces(pieces)
    ids = vocabulary.encode(pieces.encode("seven zero one"))
    (wrong,) = vocabulary.encode(["x"])
    log_probs = np.full((2 * len(ids), len(vocabulary)), -20.0, np.float32)
    for place, token in enumerate(ids):
        log_probs[2 * place, [token, wrong]] = np.log([0.45, 0.55])
        log_probs[2 * place + 1, BLANK_ID] = 0.0
    plain, settings = DecoderSettings(beam=16), DecoderSettings(beam=16, lm_weight=1.0)
    words = HotWords.of(["Seven", "zero one"], vocabulary)

    def best(settings, language_model=None, hot_words=None):
        search = BeamSearch(vocabulary, settings, language_model, hot_words)
        found = search.decode(log_probs[None], np.array([len(log_probs)]))
        return vocabulary.join(vocabulary.decode(found[0][0].ids))

    assert best(plain) != "seven zero one"
    assert best(settings, fusion_model(folder, vocabulary)) == "seven zero one"
    assert best(plain, hot_words=words) == "seven zero one"


def test_a_language_model_over_words_decides_between_words_that_pieces_spell(prepared, tmp_path, capsys):
    """The pieces of a word that the text does not have are a little more probable."""
    text, folder = tmp_path / "text.txt", tmp_path / "lm"
    text.write_text("Seven zero one.\n" * 5 + "One nine.\n" * 5, encoding="utf-8")
    model = prepared / UNITS_MODEL
    assert (
        main(["lm", "train", str(text), "--out", str(folder), "--units", "words", "--pieces", str(model)])
        == 0
    )
    assert "lm convert" not in capsys.readouterr().out
    assert main(["lm", "perplexity", str(folder), str(text)]) == 0
    assert "0 of them unknown" in capsys.readouterr().out
    pieces = Pieces.load(model)
    vocabulary = Vocabulary.of_pieces(pieces)
    right = vocabulary.encode(pieces.encode("seven zero one"))
    wrong = vocabulary.encode(["x"])[0]
    log_probs = np.full((2 * len(right), len(vocabulary)), -20.0, np.float32)
    for place, token in enumerate(right):
        log_probs[2 * place, [token, wrong]] = np.log([0.45, 0.55])
        log_probs[2 * place + 1, BLANK_ID] = 0.0
    language_model = fusion_model(folder, vocabulary)
    assert language_model.words[3:] == ["seven", "zero", "one", "nine"]

    def best(language_model):
        settings = DecoderSettings(beam=16, lm_weight=1.0)
        search = NBestSearch(BeamSearch(vocabulary, settings, language_model), frame_s=0.08)
        (found,), *_ = search.hypotheses((log_probs[None], np.array([len(log_probs)])))
        state = search.start()
        for row in log_probs:
            search.feed(state, row[None])
        assert search.finish(state) == [found]
        return vocabulary.join(found.tokens)

    assert best(None) != "seven zero one"
    assert best(language_model) == "seven zero one"


def test_a_run_and_its_exported_folder_decode_alike_with_a_language_model_over_words(
    run, exported, clips, tmp_path, capsys
):
    text, folder = tmp_path / "text.txt", tmp_path / "lm"
    text.write_text("Seven zero one.\nOne nine two.\nThree four five.\n", encoding="utf-8")
    options = ["--units", "words", "--pieces", str(run / UNITS_MODEL)]
    assert main(["lm", "train", str(text), "--out", str(folder), *options]) == 0
    capsys.readouterr()
    weights = ["--decoder", "lm_weight=2.0", "--format", "jsonl"]
    assert main(["transcribe", str(run), *map(str, clips[:3]), "--lm", str(folder), *weights]) == 0
    printed = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert any(printed)
    settings = DecoderSettings(beam=16, lm_weight=2.0, language_model=str(folder))
    recognizer = ExportedModel.open(exported).recognizer(DecoderChoice(settings))
    assert recognizer.decoder.search.beam.language_model.words[3:6] == ["seven", "zero", "one"]
    with (
        server_in_thread(recognizer) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
    ):
        answers = [client.audio.transcriptions.create(model="m", file=Path(path)) for path in clips[:3]]
    assert [answer.text for answer in answers] == printed


@pytest.mark.slow
def test_a_network_learns_pieces_until_every_training_clip_is_exact(config, prepared):
    assert main(["train", str(config), "--name", "digits"]) == 0
    run = prepared.parent / "runs" / "digits"
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert epochs[-1]["loss"] < epochs[0]["loss"] / 10
    assert min(epoch["dev_error"] for epoch in epochs) == 0  # dev is the training set
    assert (run / "units.model").read_bytes() == (prepared / "units.model").read_bytes()
