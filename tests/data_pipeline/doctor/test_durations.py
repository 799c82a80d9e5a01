"""Durations are judged among texts of a similar length: real words, sentences and syllables together."""

import json
import random
import statistics
from pathlib import Path

import numpy as np
import pytest

from asr.audio.recording import audio_header
from asr.base.text.hanzi_text import hanzi_in
from asr.base.types import Utterance
from data_pipeline.doctor.findings import CheckedManifest, ManifestLine
from data_pipeline.doctor.label_checks import rate_findings

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
SOURCE = CheckedManifest(Path("train.jsonl"), "train")
SPOILED = 20


@pytest.fixture(scope="module")
def spoken():
    """Return the numbers of syllables and the durations of real words, sentences and syllables."""
    words = sorted((SHARED / "hsk_words" / "audio").glob("*.mp3"))
    if not words:
        pytest.skip("needs ../shared/data, which has recordings of real people")
    lines = [(len(hanzi_in(path.stem)), audio_header(str(path)).duration_s) for path in words[::4]]
    for name in ("aishell_sample", "syllables"):
        for line in (SHARED / "real_mandarin" / name / "all.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            num_syllables = len(hanzi_in(record.get("text", ""))) or len(record["tokens"].split())
            lines.append((num_syllables, record["duration_s"]))
    return [line for line in lines if line[0]]


def found(spoken):
    """Return the indices of utterances that are warned of."""
    entries = [
        ManifestLine(SOURCE, line, Utterance(str(line), f"{line}.wav", duration_s, "", ("a1",) * num))
        for line, (num, duration_s) in enumerate(spoken)
    ]
    num_tokens, durations_s = (np.array(column) for column in zip(*spoken, strict=True))
    return {finding.line for finding in rate_findings(entries, num_tokens, durations_s)}


def mixture(spoken, num_syllables, num_words, num_sentences):
    """Return some syllables, words of up to five, and sentences."""
    generator = random.Random(1)
    return [
        line
        for (least, most), size in {(1, 1): num_syllables, (2, 5): num_words, (6, 99): num_sentences}.items()
        for line in generator.sample([line for line in spoken if least <= line[0] <= most], size)
    ]


@pytest.mark.parametrize(
    "sizes", [(2000, 1500, 600), (0, 600, 100), (0, 100, 600), (300, 300, 30), (0, 500, 0)]
)
def test_words_and_sentences_together_give_no_false_warning(spoken, sizes):
    assert found(mixture(spoken, *sizes)) == set()


@pytest.mark.parametrize(
    ("spoil", "least"),
    [
        (lambda line, other: (other[0], line[1]), 19),  # the text of another recording
        (lambda line, other: (line[0], line[1] / 5), 19),  # a cut recording
        (lambda line, other: (line[0], line[1] + 20), 20),  # silence behind it
    ],
    ids=["text", "cut", "silence"],
)
def test_wrong_texts_cut_recordings_and_long_silence_are_found(spoken, spoil, least):
    lines = mixture(spoken, 0, 600, 100)
    words = random.Random(2).sample(range(600), SPOILED // 2)
    sentences = random.Random(2).sample(range(600, 700), SPOILED // 2)
    spoiled = dict(zip([*words, *sentences], [*sentences, *words], strict=True))
    warned = found(
        [spoil(line, lines[spoiled[index]]) if index in spoiled else line for index, line in enumerate(lines)]
    )
    assert warned <= spoiled.keys()
    assert len(warned) >= least


def test_a_recording_unlike_all_others_is_found_though_its_text_fits(spoken):
    lines = mixture(spoken, 0, 300, 0)
    syllable_s = statistics.median(duration_s / num for num, duration_s in lines)
    assert len(lines) in found([*lines, (100, 100 * syllable_s)])
