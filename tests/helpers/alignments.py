"""What a beam search must find: sums over every alignment, enumerated; and models with random parameters."""

import collections
import itertools
import operator

import numpy as np

from asr.language.ngram.model import NO_EXTENSION, NGramModel, NGrams


def random_log_probs(seed, num_frames, num_tokens, sharpness=2.0):
    logits = np.random.default_rng(seed).normal(0, sharpness, (num_frames, num_tokens))
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


def sums_over_alignments(log_probs):
    """Return the log probability of every token sequence, by enumerating every alignment."""
    rows, alignments = log_probs.tolist(), collections.defaultdict(list)
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        ids = tuple(label for label, _ in itertools.groupby(path) if label)
        alignments[ids].append(sum(map(operator.getitem, rows, path)))
    return {ids: float(np.logaddexp.reduce(values)) for ids, values in alignments.items()}


def decoded(search, log_probs):
    """Return the candidates of a clip."""
    return search.decode(log_probs[None], np.array([len(log_probs)]))[0]


def streams(search, log_probs):
    """Yield the state of a search after a clip that was fed in 41 chunks, cut elsewhere each time."""
    for seed in range(5):
        cuts = np.sort(np.random.default_rng(seed).integers(0, len(log_probs) + 1, 40))
        state = search.start()
        for chunk in np.split(log_probs, cuts):
            search.feed(state, chunk)
        yield state


def random_model(*words):
    """Return a 3-gram model over words with random parameters."""
    draw = np.random.default_rng(3)
    ids = range(1, 3 + len(words))
    pairs = [key for key in itertools.product(ids, repeat=2) if draw.random() < 0.6]
    triples = [(*pair, word) for pair in pairs for word in ids[1:] if (pair[1], word) in pairs]
    begun = {key[:2] for key in triples}

    def table(keys, order):
        backoffs = [
            NO_EXTENSION if order == 2 and key not in begun else -draw.uniform(0.01, 1) for key in keys
        ]
        backoffs = np.zeros(len(keys)) if order == 3 else np.array(backoffs)
        probs = -draw.uniform(0.1, 2, len(keys))
        return NGrams(np.array(keys, np.int32), probs.astype(np.float32), backoffs.astype(np.float32))

    orders = [[(index,) for index in (0, *ids)], pairs, triples]
    tables = [table(keys, order) for order, keys in enumerate(orders, start=1)]
    return NGramModel.of_ngrams(("<unk>", "<s>", "</s>", *words), tables)
