"""How far the logits of two runtimes of one model may be apart, and how that is measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from asr.model.acoustic_model import AcousticModel

LARGEST_LOGIT_DIFFERENCE = 1e-3  # as `largest_difference` measures it
LARGE = 100.0  # the largest logit whose difference counts in full
# Eight units in the last place of float32, as the layers of a network round one after another.
MILLIONTH = 1e-6
DRAWS = 8  # random changes of the features
WORST = 4.0  # the largest change by rounding, in parts of the largest by these draws


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


def allowed_difference(
    difference: float, model: AcousticModel | None, waveform: npt.NDArray[np.int16]
) -> float:
    """Return the difference that is allowed of a clip's logits, where this one was found.

    That is LARGEST_LOGIT_DIFFERENCE, or, of a model that magnifies rounding, four times what its own logits
    change by when its features of the clip change by a millionth: no other runtime can be nearer to it.

    Args:
        difference: as `largest_difference` found it; the model is only asked if it is larger.
        model: the trained model; None asks none.
        waveform: the clip, (S,).
    """
    if model is None or difference <= LARGEST_LOGIT_DIFFERENCE or not math.isfinite(difference):
        return LARGEST_LOGIT_DIFFERENCE
    return max(LARGEST_LOGIT_DIFFERENCE, WORST * _magnified_rounding(model, waveform))


def _magnified_rounding(model: AcousticModel, waveform: npt.NDArray[np.int16]) -> float:
    """Return the largest change of a clip's logits when its features change by a millionth."""
    import numpy as np

    features, num_frames = model.features(waveform[None], np.array([len(waveform)], np.int32))
    features = np.asarray(features)
    expected = np.asarray(model.network(features, num_frames)[0])[0]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(DRAWS):
        factors = 1 + rng.uniform(-MILLIONTH, MILLIONTH, features.shape)
        changed = model.network((features * factors).astype(np.float32), num_frames)[0]
        found.append(largest_difference(expected, np.asarray(changed)[0]))
    return max(found)
