"""How far the logits of two runtimes of one model may be apart, and how that is measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LARGEST_LOGIT_DIFFERENCE = 1e-3  # as `largest_difference` measures it
LARGE = 100.0  # the largest logit whose difference counts in full


def largest_difference(expected: npt.NDArray[np.float32], received: npt.NDArray[np.float32]) -> float:
    """Return the largest difference of logits (T, V); infinity if their shapes differ, NaN where one is.

    The difference of a logit beyond LARGE is divided by |logit| / LARGE: the rounding of float32 grows with
    the numbers, and an output that never was in training can be at -1,500.
    """
    import numpy as np  # not above, since the command line reads the bound of each export

    if expected.shape != received.shape:
        return math.inf
    differences = np.abs(expected - received) / np.maximum(1.0, np.abs(expected) / LARGE)
    return float(np.max(differences, initial=0.0))
