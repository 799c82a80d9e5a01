"""Small random models, and the exhaustive search over segmentations and words that a converter must equal."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from asr.language.hanzi.converter import Converter
from asr.language.hanzi.dictionary import Dictionary, Readings
from asr.language.ngram.model import NGramModel, NGrams

READINGS = {
    "你": ["ni3"],
    "尼": ["ni2"],
    "好": ["hao3", "hao4"],
    "号": ["hao4"],
    "你好": ["ni3 hao3"],
    "吗": ["ma5"],
    "马": ["ma3"],
    "号码": ["hao4 ma3"],
    "码": ["ma3"],
    "好马": ["hao3 ma3"],
    "你好吗": ["ni3 hao3 ma5"],
}
TONE_COST = 1.5


def random_model(seed, order):
    """Return a model of the words above with random n-grams of each order."""
    rng = np.random.default_rng(seed)
    words = ["<unk>", "<s>", "</s>", *READINGS]
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    tables = [NGrams(ids, logs(rng, len(words)), logs(rng, len(words)))]
    for length in range(2, order + 1):
        chosen = {tuple(row) for row in rng.integers(1, len(words), (40, 2)).tolist()}
        if length > 2:
            before = {tuple(row) for row in tables[-1].ids.tolist()}
            chosen = {(*a, b[-1]) for a in before for b in before if a[1:] == b[:-1]}
        rows = np.array(sorted(chosen), np.int32)
        backoffs = logs(rng, len(rows)) if length < order else np.zeros(len(rows), np.float32)
        tables.append(NGrams(rows, logs(rng, len(rows)), backoffs))
    return NGramModel.of_ngrams(words, tables)


def logs(rng, count):
    return rng.uniform(-2, -0.1, count).astype(np.float32)


def dictionary_of(model, readings=READINGS):
    rows = [(word, text, math.log(1 / len(texts))) for word, texts in readings.items() for text in texts]
    words, texts, log_probs = zip(*rows, strict=True)
    return Dictionary.of_readings(Readings(words, texts, np.array(log_probs, np.float32)), model.ids, 0)


def brute_force(model, syllables, tone_cost=math.inf):
    """Return score and text of the best of all segmentations into all words."""
    if not syllables:
        return model.log_probs([])[0], ""
    return max(
        (sum(model.log_probs(words)) + score, "".join(words))
        for words, score in segmentations(tuple(syllables), tone_cost)
    )


def segmentations(syllables, tone_cost):
    if not syllables:
        yield [], 0.0
    for word, texts in READINGS.items():
        for text in texts:
            reading = text.split()
            given = syllables[: len(reading)]
            if [s.rstrip("12345") for s in given] != [s.rstrip("12345") for s in reading]:
                continue
            wrong = sum(a != b and a[-1].isdigit() for a, b in zip(given, reading, strict=True))
            if wrong and tone_cost == math.inf:
                continue
            score = math.log(1 / len(texts)) - (wrong * tone_cost if wrong else 0)
            for words, rest in segmentations(syllables[len(reading) :], tone_cost):
                yield [word, *words], score + rest


@pytest.fixture(scope="session")
def small():
    """Return what the tests of this folder share."""
    return SimpleNamespace(
        random_model=random_model,
        dictionary_of=dictionary_of,
        brute_force=brute_force,
        readings=READINGS,
        tone_cost=TONE_COST,
        exact=lambda model, soft=None: Converter(
            model, dictionary_of(model), soft, beam=1000, margin=math.inf
        ),
    )
