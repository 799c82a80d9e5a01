"""Compares prefix beam search over a batch with TensorFlow's and, where it is installed, pyctcdecode's.

python train.py && python train.py --name weak --set train.epochs=1
asr lm train data/mandarin_demo/train.jsonl --out lm
python -m benchmarks.peers.beam_search runs/demo --weak runs/weak --lm lm

Decodes a model's outputs for the demo's test set, cut into clips of 200 frames and spread over 1,428 tokens,
without and with a random 3-gram model of 300,000 n-grams; likewise random outputs without peaks. With `--lm`
also the outputs of the models as they are, with a language model of the training texts. Every search with a
language model is compared with the same one that tries all tokens of a frame.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import argparse
import dataclasses
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from asr.audio.recording import pad_waveforms, read_audio
from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.ctc.beam_search import BeamSearch
from asr.evaluation.errors.metrics import total_edits
from asr.language.ngram.folder import fusion_model
from asr.language.ngram.model import NO_EXTENSION, NGramModel, NGrams
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer
from benchmarks.common import compare, show
from data_pipeline.manifests.manifest import read_manifest

BATCH, NUM_FRAMES, NUM_TOKENS, BEAM = 16, 200, 1428, 16
FRAME_S = (0.08, 0.04)
TEST = Path("data/mandarin_demo/test.jsonl")
TOKEN_BONUSES = (1.0, 4.0)
SETTINGS = DecoderSettings(beam=BEAM, lm_weight=0.5, token_bonus=1.0)
DRAW = np.random.default_rng(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of prefix beam search.")
    parser.add_argument("run", nargs="?", default="runs/demo", help="a trained run of the demo")
    parser.add_argument("--weak", help="a run of the demo that was hardly trained")
    parser.add_argument("--lm", type=Path, help="folder of `asr lm train`")
    arguments = parser.parse_args()
    vocabulary = Vocabulary(chr(0x4E00 + index) for index in range(NUM_TOKENS - 1))
    num_frames = np.full(BATCH, NUM_FRAMES)
    plain = BeamSearch(vocabulary, SETTINGS)
    model = random_model(vocabulary)
    fused = BeamSearch(vocabulary, SETTINGS, model)
    clips = spread(model_outputs(arguments.run))
    flat = log_softmax(DRAW.normal(size=(BATCH, NUM_FRAMES, NUM_TOKENS)))

    rows = {}
    for title, log_probs in (("of a model", clips), ("random and flat", flat)):
        plain_s, _, _ = compare(lambda x=log_probs: plain.decode(x, num_frames), lambda: None, runs=7)
        rows[f"log probabilities {title}"] = speed_text(plain_s, BATCH)
        name = f"{title}, and a 3-gram of {sum(model.counts):,} n-grams"
        rows[name] = pruning_text(fused, log_probs, num_frames)
    peers = {"tf.nn.ctc_beam_search_decoder": tensorflow_decode}
    if importlib.util.find_spec("pyctcdecode"):
        peers["pyctcdecode"] = pyctcdecode_decoder(vocabulary)
    for name, peer in peers.items():
        _, peer_s, ratio = compare(
            lambda: plain.decode(clips[:1], num_frames[:1]),
            lambda run=peer: run(clips[:1], num_frames[:1]),
            3,
        )
        rows[f"{name}, one clip"] = f"{speed_text(peer_s, 1)}; ours is {ratio:.0f} times as fast"
    if arguments.lm:
        for run in filter(None, (arguments.run, arguments.weak)):
            rows |= pruning_rows(run, arguments.lm)
    show(f"beam {BEAM}, {BATCH} clips of {NUM_FRAMES} frames, {NUM_TOKENS:,} tokens", rows)


def speed_text(seconds: float, clips: int) -> str:
    speeds = [f"{clips * NUM_FRAMES * frame_s / seconds:,.0f}" for frame_s in FRAME_S]
    return f"{seconds * 1000:6.0f} ms, {speeds[0]} times real time with frames of 80 ms, {speeds[1]} of 40 ms"


def pruning_text(
    search: BeamSearch,
    log_probs: np.ndarray,
    num_frames: np.ndarray,
    references: Sequence[Sequence[str]] = (),
) -> str:
    """Compare a search with one that tries every token of a frame: speed, results and errors.

    The speed is that of the cores' own time, added up, which other work on the machine hardly changes.
    """
    exhaustive = BeamSearch(search.vocabulary, search.settings, search.language_model)
    exhaustive._pruning = exhaustive._pruning._replace(max_tokens=len(search.vocabulary))
    ours_s, other_s = (
        statistics.median(cpu_seconds(lambda x=one: x.decode(log_probs, num_frames)) for _ in range(4))
        for one in (search, exhaustive)
    )
    found = [[c[0].ids for c in one.decode(log_probs, num_frames)] for one in (search, exhaustive)]
    same = sum(a == b for a, b in zip(*found, strict=True))
    audio_s = num_frames.sum() * FRAME_S[0]
    text = (
        f"{ours_s * 1000:6.0f} ms, {audio_s / ours_s:,.0f} times real time on one core; all tokens tried: "
        f"{other_s * 1000:.0f} ms, ratio {other_s / ours_s:.2f}, {same} of {len(found[0])} the same"
    )
    if not references:
        return text
    decoded = [[search.vocabulary.decode(ids) for ids in one] for one in found]
    errors = [total_edits(zip(references, one, strict=True)).rate for one in decoded]
    return f"{text}, errors {errors[0]:.2%} and {errors[1]:.2%}"


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the seconds that one call takes, of all cores together."""
    started = time.process_time()
    run()
    return time.process_time() - started


def pruning_rows(run: str, folder: Path) -> dict[str, str]:
    """Measure the search on a model's own outputs for the test set, with a trained language model."""
    vocabulary = Vocabulary.load(Path(run) / "vocabulary.txt")
    outputs = model_outputs(run)
    num_frames = np.array([len(output) for output in outputs])
    padded = np.zeros((len(outputs), num_frames.max(), len(vocabulary)))
    for row, output in zip(padded, outputs, strict=True):
        row[: len(output)] = output
    log_probs, model = log_softmax(padded), fusion_model(folder, vocabulary)
    references = [utterance.tokens for utterance in read_manifest(TEST)]
    rows = {}
    for bonus in TOKEN_BONUSES:
        search = BeamSearch(vocabulary, dataclasses.replace(SETTINGS, token_bonus=bonus), model)
        rows[f"{run}, {folder}, token bonus {bonus}"] = pruning_text(
            search, log_probs, num_frames, references
        )
    return rows


def model_outputs(run: str) -> list[np.ndarray]:
    """Return the (T, V) logits of each clip of the test set."""
    recognizer = Recognizer.trained(Run.open(run))
    utterances = read_manifest(TEST)
    outputs = []
    for start in range(0, len(utterances), BATCH):
        waveforms = [read_audio(Path(u.audio_path)) for u in utterances[start : start + BATCH]]
        values, lengths = recognizer.model(*pad_waveforms(waveforms))
        outputs += [row[:length] for row, length in zip(values.numpy(), lengths.numpy(), strict=True)]
    return outputs


def spread(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return (B, T, V) of the concatenated clips, the model's tokens spread over all tokens at random."""
    frames = np.resize(np.concatenate(outputs), (BATCH, NUM_FRAMES, outputs[0].shape[-1]))
    logits = frames.min(-1, keepdims=True) + DRAW.normal(size=(BATCH, NUM_FRAMES, NUM_TOKENS))
    logits[..., 0] = frames[..., 0]
    logits[..., 1 + DRAW.permutation(NUM_TOKENS - 1)[: frames.shape[-1] - 1]] = frames[..., 1:]
    return log_softmax(logits)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return tf.nn.log_softmax(logits.astype(np.float32)).numpy()


def random_model(vocabulary: Vocabulary) -> NGramModel:
    """Return a model of all 1-, 2- and 3-grams of a text whose words are drawn by Zipf's law."""
    words = ("<unk>", "<s>", "</s>", *vocabulary.tokens[1:])
    chances = 1 / np.arange(1, len(words) - 2)
    text = DRAW.choice(np.arange(3, len(words)), 290_000, p=chances / chances.sum()).astype(np.int32)
    text[::15], text[14::15] = 1, 2  # <s> and </s>
    tables = [ngrams(np.arange(len(words), dtype=np.int32)[:, None], longest=False)]
    for order in (2, 3):
        windows = np.unique(np.lib.stride_tricks.sliding_window_view(text, order), axis=0)
        tables.append(ngrams(windows, longest=order == 3))
    return NGramModel.of_ngrams(words, tables)


def ngrams(ids: np.ndarray, longest: bool) -> NGrams:
    backoffs = np.full(len(ids), NO_EXTENSION) if longest else -DRAW.uniform(0.1, 1, len(ids))
    return NGrams(ids, -DRAW.uniform(0.5, 4, len(ids)).astype(np.float32), backoffs.astype(np.float32))


def tensorflow_decode(log_probs: np.ndarray, num_frames: np.ndarray) -> object:
    blank_last = np.roll(log_probs, -1, axis=-1).transpose(1, 0, 2)
    return tf.nn.ctc_beam_search_decoder(blank_last, num_frames.astype(np.int32), BEAM, top_paths=1)


def pyctcdecode_decoder(vocabulary: Vocabulary) -> object:
    from pyctcdecode import build_ctcdecoder

    decoder = build_ctcdecoder(["", *vocabulary.tokens[1:]])

    def decode(log_probs: np.ndarray, num_frames: np.ndarray) -> object:
        return [
            decoder.decode_beams(
                row[:length],
                beam_width=BEAM,
                beam_prune_logp=-SETTINGS.beam_width,
                token_min_logp=SETTINGS.min_token_log_prob,
            )
            for row, length in zip(log_probs, num_frames, strict=True)
        ]

    return decode


if __name__ == "__main__":
    main()
