"""Plan the batches of an epoch: a pure function of the clips' lengths, a seed and the epoch's number.

A batch is padded to one of a few lengths, sixteen per octave: 64 between one second and sixteen. A device
therefore sees few shapes, and soon has tuned or compiled its kernels for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data_pipeline.manifests.rows import Rows

STEPS_PER_OCTAVE = 16

Lengths = Sequence[int] | npt.NDArray[np.int64]


def padded_length(num_samples: int) -> int:
    """Return the length that a clip is padded to, in samples."""
    return int(_padded_lengths([num_samples])[0])


def plan_epoch(num_samples: Lengths, budget_samples: int, seed: int, epoch: int) -> Rows:
    """Cut clips into batches of similar length and shuffle the batches.

    Every clip is in exactly one batch. A batch holds as many clips as fit its budget, each counted at the
    length it is padded to; a clip above the budget has a batch of its own. Clips of one padded length are
    combined differently in every epoch.

    Args:
        num_samples: samples of each clip.
        budget_samples: samples of a batch, padding included.
        seed: of the run.
        epoch: from 0.

    Returns:
        Batches of indices into `num_samples`.
    """
    rng = np.random.default_rng((seed, epoch))
    padded = _padded_lengths(num_samples)
    tie_breakers = rng.random(len(padded))
    batches = _cut(np.lexsort((tie_breakers, padded)), padded, budget_samples)
    return batches.take(rng.permutation(len(batches)))


def plan_in_order(num_samples: Lengths, budget_samples: int) -> Rows:
    """Cut clips into batches for evaluation: the shortest first, without randomness."""
    lengths = np.asarray(num_samples, np.int64)
    return _cut(np.argsort(lengths, kind="stable"), _padded_lengths(lengths), budget_samples)


def _padded_lengths(num_samples: Lengths) -> npt.NDArray[np.int64]:
    """Round lengths up to multiples of a sixteenth of the power of two below."""
    lengths = np.asarray(num_samples, np.int64)
    octave = np.exp2(np.floor(np.log2(np.maximum(lengths, 1)))).astype(np.int64)
    step = np.maximum(octave // STEPS_PER_OCTAVE, 1)
    return -(-lengths // step) * step


def _cut(order: npt.NDArray[np.int64], padded: npt.NDArray[np.int64], budget_samples: int) -> Rows:
    """Fill batches with clips in order of their padded lengths, as many as fit the budget."""
    lengths, num_clips = padded[order].data, len(order)
    begins = [0]
    while (begin := begins[-1]) < num_clips:
        # every clip of the batch is as long as its first one or longer, which bounds their number
        most = max(1, budget_samples // lengths[begin]) if lengths[begin] else num_clips

        def is_too_much(end: int, begin: int = begin) -> bool:
            """Return whether a batch would be above the budget with the clip at this index."""
            return lengths[end] * (end - begin + 1) > budget_samples

        others = range(begin + 1, min(begin + most, num_clips))
        begins.append(begin + 1 + bisect_left(others, True, key=is_too_much))
    return Rows(order, np.array(begins, np.int64))
