"""How far the logits of two runtimes of one model may be apart, and how that is measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LARGEST_LOGIT_DIFFERENCE = 1e-2  # as `largest_difference` measures it
LEAST = -10.0  # log-probability: beam search drops tokens below -9


def largest_difference(expected: npt.NDArray[np.float32], received: npt.NDArray[np.float32]) -> float:
    """Return the largest difference of logits (T, V); infinity if their shapes differ, NaN where one is.

    Logits are compared as log-probabilities, and those that are below LEAST in both do not count: outputs
    that never were in training can be at -2,000, where float32 has steps of 1e-4, and what is added to all
    logits of a frame changes nothing.
    """
    import numpy as np  # not above, since the command line reads the bound of each export
    from scipy.special import log_softmax

    if expected.shape != received.shape:
        return math.inf
    first, second = (log_softmax(logits.astype(np.float64), axis=-1) for logits in (expected, received))
    negligible = np.maximum(first, second) < LEAST  # NaN is not
    return float(np.max(np.abs(first - second), where=~negligible, initial=0.0))
