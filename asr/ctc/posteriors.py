"""Turn logits into posteriors of labels, in NumPy.

That of SciPy does the same, but its import takes longer than a short clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def log_softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the natural logarithm of the softmax over the last axis: (..., V) -> (..., V)."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalized: npt.NDArray[Any] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalized
