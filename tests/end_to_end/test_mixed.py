"""Mandarin with Latin words, said by espeak-ng, from preparation to every way out."""

import json
import re
from pathlib import Path

import numpy as np
import openai
import pytest
from helpers.mixed_speech import MixedSynthesizer
from helpers.random_run import random_run, trained_recognizer
from helpers.recognize import recognize
from helpers.servers import server_in_thread
from helpers.tiny import TINY

from asr.audio.recording import read_audio, write_wav
from asr.base.config import load_config
from asr.base.decoder_settings import DecoderSettings
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.types import Hypothesis
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.cli.main import main
from asr.ctc.beam_search import BeamSearch
from asr.ctc.hot_words import HotWords
from asr.export import export
from asr.export.runtimes.onnx.recognizer import ExportedModel
from asr.language.ngram.folder import fusion_model
from asr.language.ngram.model_file import load_model
from asr.training.data import make_vocabulary
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.text_writer import TextWriter
from data_pipeline.labels.from_text import label
from data_pipeline.manifests.manifest import read_manifest

pytest.importorskip("espeakng_loader")

TRAIN = (
    "我需要看CCTV5",
    "打开iPhone的设置",
    "这个APP很好用",
    "我的WiFi密码",
    "打开Google地图",
    "今天天气很好",
    "我要买iPhone",
    "OK，我们走吧",
    "用google找一下",
    "我的 iPhone APP 很好用",
)
DEV = ("打开WiFi", "看CCTV", "OK，很好")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return the folder of manifests of sentences with a Latin word each."""
    folder = tmp_path_factory.mktemp("mixed")
    synthesizer = MixedSynthesizer()
    rows = ["path,text,speaker,split"]
    for split, texts in (("train", TRAIN), ("dev", DEV)):
        for number, text in enumerate(texts):
            silence = np.zeros(1600, np.int16)
            waveform = np.concatenate([silence, synthesizer.say_text(text), silence])
            write_wav(folder / f"{split}{number}.wav", waveform)
            rows.append(f"{split}{number}.wav,{text},espeak,{split}")
    (folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    out = folder / "manifests"
    assert main(["prepare", "table", str(folder / "list.csv"), str(out), "--units", "mixed"]) == 0
    return out


@pytest.fixture(scope="module")
def run(prepared, tmp_path_factory):
    """Return a run whose weights are random, but its outputs clear."""
    splits = {"train": "train", "dev": "dev", "test": "dev"}
    manifests = [f"data.{name}={prepared}/{split}.jsonl" for name, split in splits.items()]
    config = load_config(
        "base", [*manifests, "model.size=xs", "features.normalize_over=clip", "train.seed=5"]
    )
    return random_run(config, make_vocabulary(config), tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def vocabulary(prepared):
    config = load_config("base", [f"data.train={prepared}/train.jsonl"])
    return make_vocabulary(config)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return export(run, tmp_path_factory.mktemp("export") / "out", clips=2).folder


@pytest.fixture(scope="module")
def recognizer(exported):
    return ExportedModel.open(exported).recognizer(DecoderChoice(DecoderSettings()))


@pytest.fixture(scope="module")
def clips(prepared):
    return [utterance.audio_path for utterance in read_manifest(prepared / "train.jsonl")]


def test_every_sentence_with_latin_words_is_labelled_and_fits_its_audio(prepared, capsys):
    assert len(read_manifest(prepared / "train.jsonl")) == len(TRAIN)
    manifests = [str(prepared / f"{split}.jsonl") for split in ("train", "dev")]
    html = str(prepared / "doctor.html")
    assert main(["doctor", *manifests, "--html", html, "--set", "data.corpus="]) in (0, 1)
    printed = capsys.readouterr().out
    assert "odd" not in printed
    assert "not in the vocabulary" not in printed


def test_hanzi_beside_latin_words_are_those_without_them_and_spaces_are_between_latin_words_alone(
    prepared, vocabulary
):
    writer = TextWriter(vocabulary, DecoderChoice(DecoderSettings()).converter)
    written = {
        utterance.text: writer.text(utterance.tokens) for utterance in read_manifest(prepared / "train.jsonl")
    }
    assert written["这个APP很好用"] == "这个APP很好用"
    assert written["打开iPhone的设置"] == "打开iphone的设置"
    assert written["我的 iPhone APP 很好用"] == "我的iphone APP很好用"
    assert written["今天天气很好"] == "今天天气很好"


def test_words_have_times_and_confidences_and_a_latin_word_is_one(vocabulary):
    pieces = vocabulary.expect_pieces().encode("iphone")
    tokens = ("da3", "kai1", *pieces, "A", "P", "P")
    times_s = tuple(0.1 * number for number in range(len(tokens)))
    confidences = tuple(1 - time_s / 2 for time_s in times_s)
    hypothesis = Hypothesis(tokens, times_s, -1.0, -1.0, confidences)
    for converter, opened in (
        (None, ["da3", "kai1"]),
        (DecoderChoice(DecoderSettings()).converter, ["打开"]),
    ):
        segment = TextWriter(vocabulary, converter).segment([hypothesis], 0.0, 5.0)
        assert [word.text for word in segment.words] == [*opened, "iphone", "APP"]
        *_, iphone, app = segment.words
        assert (iphone.spoken, app.spoken) == ("iphone", "APP")
        assert iphone.start_s == pytest.approx(times_s[2])
        assert app.confidence == pytest.approx(confidences[-1])


def test_the_text_is_the_same_in_a_program_a_script_a_server_and_a_stream(recognizer, exported, clips):
    expected = [recognizer.transcribe(path) for path in clips]
    tokens = {token for one in expected for token in one.tokens}
    assert any(token[-1].isdigit() for token in tokens)
    assert any(len(token) == 1 and token.isupper() for token in tokens)
    assert any(token.startswith("▁") for token in tokens)
    for option, texts in ((), [one.text for one in expected]), (("--tokens",), None):
        done = recognize(exported, *clips, "--format", "jsonl", *option)
        assert done.returncode == 0, done.stderr.decode()
        printed = [json.loads(line) for line in done.stdout.decode().splitlines()]
        wanted = texts or [recognizer.vocabulary.join(one.tokens) for one in expected]
        assert [one["text"] for one in printed] == wanted
    with (
        server_in_thread(recognizer) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
    ):
        answers = [client.audio.transcriptions.create(model="m", file=Path(path)) for path in clips[:3]]
    assert [answer.text for answer in answers] == [one.text for one in expected[:3]]
    stream = recognizer.stream()
    waveform = read_audio(clips[0])
    segments = []
    for begin in range(0, len(waveform), 3200):
        segments += stream.feed(waveform[begin : begin + 3200]).segments
    segments += stream.finish()
    writer = recognizer.decoder.writer
    assert segments
    assert all(one.text == writer.text(one.tokens) for one in segments)


@pytest.mark.slow
@pytest.mark.parametrize("format_name", ["saved_model", "litert", "sherpa"])
def test_other_formats_write_the_same_tokens_and_texts(run, tmp_path, format_name):
    done = export(run, tmp_path / "out", format_name, clips=3)
    assert done.parity.num_same_tokens == done.parity.num_clips == 3


def misheard(pieces):
    """Return a vocabulary, tokens, and frames in which another token is a little more probable than each."""
    vocabulary = Vocabulary.of_pieces(pieces, ["wo3", "yao4", "da3", "kai1", "de5", "tian1", "qi4"])
    said = ("da3", "kai1", *pieces.encode("iphone"), "de5", "A", "P", "P")
    right, (wrong,) = vocabulary.encode(said), vocabulary.encode(["x"])
    log_probs = np.full((2 * len(right), len(vocabulary)), -20.0, np.float32)
    for place, token in enumerate(right):
        log_probs[2 * place, [token, wrong]] = np.log([0.45, 0.55])
        log_probs[2 * place + 1, BLANK_ID] = 0.0
    return vocabulary, said, log_probs


def test_beam_search_takes_a_language_model_over_mixed_units_and_hot_words(prepared, tmp_path, capsys):
    """Beside the right token of each frame another one is a little more probable."""
    text, folder = tmp_path / "text.txt", tmp_path / "lm"
    text.write_text("我要打开iPhone的APP。\n" * 5 + "今天天气很好\n" * 5, encoding="utf-8")
    model = prepared / UNITS_MODEL
    arguments = ["--out", str(folder), "--units", "mixed", "--pieces", str(model), "--order", "4"]
    assert main(["lm", "train", str(text), *arguments]) == 0
    assert main(["lm", "perplexity", str(folder), str(text)]) == 0
    assert main(["lm", "info", str(folder)]) == 0
    assert "mixed" in capsys.readouterr().out
    vocabulary, said, log_probs = misheard(Pieces.load(model))

    def best(settings, language_model=None, hot_words=None):
        search = BeamSearch(vocabulary, settings, language_model, hot_words)
        found = search.decode(log_probs[None], np.array([len(log_probs)]))
        return vocabulary.decode(found[0][0].ids)

    plain = DecoderSettings(beam=16)
    words = HotWords.of(["打开iPhone的app"], vocabulary, label)
    assert best(plain) != said
    assert best(DecoderSettings(beam=16, lm_weight=1.0), fusion_model(folder, vocabulary)) == said
    assert best(plain, hot_words=words) == said


def test_a_language_model_over_syllables_and_whole_latin_words_decides(prepared, tmp_path, capsys):
    """Beside the right token of each frame another one is a little more probable."""
    text, folder = tmp_path / "text.txt", tmp_path / "lm"
    text.write_text("我要打开iPhone的APP。\n" * 5 + "今天天气很好\n" * 5, encoding="utf-8")
    model = prepared / UNITS_MODEL
    arguments = ["--out", str(folder), "--units", "mixed,words", "--pieces", str(model)]
    assert main(["lm", "train", str(text), *arguments]) == 0
    assert main(["lm", "perplexity", str(folder), str(text)]) == 0
    capsys.readouterr()
    assert main(["lm", "info", str(folder)]) == 0
    assert re.findall(r"^  (mixed|words|syllables) ", capsys.readouterr().out, re.M) == ["words", "mixed"]
    assert {"mixed.klm", "words.klm"} <= {path.name for path in folder.iterdir()}
    assert "iphone" in {*load_model(folder / "words.klm").words}
    vocabulary, said, log_probs = misheard(Pieces.load(model))
    for path in (folder, folder / "mixed.klm"):
        search = BeamSearch(
            vocabulary, DecoderSettings(beam=16, lm_weight=1.0), fusion_model(path, vocabulary)
        )
        (best, *_), *_ = search.decode(log_probs[None], np.array([len(log_probs)]))
        assert vocabulary.decode(best.ids) == said


def test_hot_words_are_labelled_as_the_text_is(vocabulary):
    for word, tokens in {
        "CCTV5": "C C T V wu3",
        "打开 iPhone": f"da3 kai1 {' '.join(vocabulary.expect_pieces().encode('iphone'))}",
        "A P P": "A P P",
        "kan4 A": "kan4 A",
    }.items():
        assert list(HotWords.of([word], vocabulary, label).weights) == [
            tuple(vocabulary.encode(tokens.split()))
        ]


def test_words_choose_among_hypotheses_with_latin_words(run, clips):
    settings = DecoderSettings(beam=8, n_best=4, hanzi_weight=0.5)
    found = trained_recognizer(run, settings).transcribe(clips[0])
    assert found.alternatives
    writer = TextWriter(trained_recognizer(run).vocabulary, DecoderChoice(settings).converter)
    assert found.segments[0].text == writer.text(found.tokens)


def test_a_sentence_with_latin_words_is_aligned(run, prepared, tmp_path):
    clip = read_manifest(prepared / "train.jsonl")[0]
    out = tmp_path / "a.TextGrid"
    assert main(["align", str(run), clip.audio_path, "我需要看CCTV5！", "--out", str(out)]) == 0
    grid = out.read_text("utf-8")
    assert [grid.count(f'text = "{token}"') for token in ("kan4", "C", "T", "wu3")] == [1, 2, 1, 1]


def test_the_report_has_errors_by_language_and_at_the_switch(run, prepared, capsys):
    assert main(["evaluate", str(run), str(prepared / "dev.jsonl")]) == 0
    printed = capsys.readouterr().out
    for name in ("mixed", "Mandarin syllable", "Latin word", "language switch", "mixed unit"):
        assert f"{name} error rate" in printed
    (page,) = (path.read_text("utf-8") for path in run.rglob("*.html"))
    assert "next to a change of language" in page
    assert "语言切换处" in page


@pytest.mark.slow
def test_hanzi_and_spelt_letters_alone_are_trained_evaluated_and_transcribed(tmp_path):
    synthesizer = MixedSynthesizer()
    rows = ["path,text,split"]
    for split, texts in (("train", ("看CCTV5", "这个APP很好用", "今天天气很好")), ("dev", ("打开APP",))):
        for number, text in enumerate(texts):
            write_wav(tmp_path / f"{split}{number}.wav", synthesizer.say_text(text))
            rows.append(f"{split}{number}.wav,{text},{split}")
    (tmp_path / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    out = tmp_path / "manifests"
    assert main(["prepare", "table", str(tmp_path / "list.csv"), str(out), "--units", "mixed"]) == 0
    settings = [
        *(f"data.{name}={out}/{split}.jsonl" for name, split in (("train", "train"), ("dev", "dev"))),
        f"data.test={out}/dev.jsonl",
        f"train.runs_dir={tmp_path}",
        f"model.family={TINY}",
        "augment.piece_sampling=0.1",
        "train.epochs=1",
        "train.cpu_towers=1",
        "decode.language_model=train",
    ]
    assert main(["train", "base", "--name", "letters", "--set", *settings]) == 0
    run = tmp_path / "letters"
    vocabulary = Vocabulary.load(run / "vocabulary.txt")
    assert vocabulary.unit == "mixed"
    assert vocabulary.are_tokens(["kan4", "C", "C", "T", "V"])
    assert json.loads((run / "lm" / "info.json").read_text("utf-8"))["units"].keys() == {"mixed"}
    assert "混合" in (run / "report.html").read_text("utf-8")
    (tmp_path / "hot.txt").write_text("CCTV5\niPhone", encoding="utf-8")
    command = ["transcribe", str(run), str(tmp_path / "dev0.wav"), "--hot-words", str(tmp_path / "hot.txt")]
    assert main(command) == 0


@pytest.mark.slow
def test_a_network_learns_mixed_units_until_every_training_clip_is_exact(prepared, tmp_path):
    settings = [
        f"data.train={prepared}/train.jsonl",
        f"data.dev={prepared}/train.jsonl",
        f"data.test={prepared}/dev.jsonl",
        f"train.runs_dir={tmp_path}",
        "augment.pauses=0",
        "augment.frequency_masks=0",
        "features.normalize=false",
        "model.size=xs",
        "model.dropout=0",
        "train.epochs=80",
        "train.batch_s=5",
        "train.cpu_towers=1",
        "decode.language_model=train",
    ]
    assert main(["train", "base", "--name", "mixed", "--set", *settings]) == 0
    run = tmp_path / "mixed"
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert min(epoch["dev_error"] for epoch in epochs) == 0  # dev is the training set
    assert (run / "units.model").read_bytes() == (prepared / "units.model").read_bytes()
    assert json.loads((run / "lm" / "info.json").read_text("utf-8"))["units"].keys() == {"mixed"}
