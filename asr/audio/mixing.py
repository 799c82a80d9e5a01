"""Mix the channels of a recording down, so that neither phase nor empty channels silence a voice.

Exported folders contain a copy of this module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

INT16_SCALE = 32768.0
MIXED_AT_ONCE = 1 << 20  # samples of each channel
CANCELLED = 0.1  # share of the loudest channel's power, below which the mean of all channels is not used
SILENT, OPPOSITE = 0.01, -0.5  # share of the loudest power; correlation with that channel
EQUAL = 0.9  # share of the loudest power, above which only chance decides which channel is louder
WINDOWS_PER_S = 4  # in which channels are compared
BAND = slice(75, 850)  # of multiples of 4 Hz: a telephone's, without the hum that channels share
MAX_FLOAT = 100.0  # times full scale; more is another scale, not a loud recording


def mixed_down(samples: npt.NDArray[Any], rate_hz: int) -> npt.NDArray[Any]:
    """Return the mean of the channels on the int16 scale, (S, channels) -> (S,).

    Where the mean has much less speech than the loudest channel, average the channels that have any, opposite
    phases turned.
    """
    if samples.shape[1] == 1 and samples.dtype == np.int16:
        return samples[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        mono = _mean_of_channels(samples, rate_hz)
        if samples.dtype != np.int16:
            mono *= np.float32(INT16_SCALE)
    return mono


def float_reason(samples: npt.NDArray[Any]) -> str:
    """Return why float samples, (S, channels), are no recording; "" if they are, as integers always are."""
    if samples.dtype == np.int16 or not samples.size:
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        peak = float(np.maximum(samples.max(), -samples.min()))
        if not peak * INT16_SCALE * samples.shape[1] < np.finfo(np.float32).max:
            return (
                "has samples that are not finite numbers (NaN or infinite); convert the file again from its "
                "source, or leave it out"
            )
        if peak <= 1 or not _is_of_another_scale(samples, peak):
            return ""
    return (
        f"expected float samples from -1 to 1, received up to {peak:,.4g}; divide them by the full scale, "
        "such as 32768, and write the file again"
    )


def _is_of_another_scale(samples: npt.NDArray[Any], peak: float) -> bool:
    """Return whether samples are whole numbers, or louder on average than any recording can be."""
    power = float(np.square(samples, dtype=np.float64).mean(axis=0).max())
    return peak > MAX_FLOAT or power > 1 or bool(np.array_equal(samples, np.rint(samples)))


def _mean_of_channels(samples: npt.NDArray[Any], rate_hz: int) -> npt.NDArray[np.float32]:
    mean: npt.NDArray[np.float32] = samples.mean(axis=1, dtype=np.float32)
    if samples.shape[1] == 1 or not len(samples):  # nothing to compare, and most recordings are
        return mean
    products = _products(samples, rate_hz)  # (channels, channels)
    powers = products.diagonal()
    if not products.mean() < CANCELLED * powers.max():  # NaN: refused later
        return mean
    has_sound = powers > SILENT * powers.max()
    loudest = int((powers > EQUAL * powers.max()).argmax())  # the first, or blocks would differ in their sign
    likeness = products[loudest, has_sound] / np.sqrt(powers[loudest] * powers[has_sound])  # -1 to 1
    signs = np.where(likeness < OPPOSITE, -1, 1)
    aligned: npt.NDArray[np.float32] = (samples[:, has_sound] * signs.astype(np.float32)).mean(axis=1)
    return aligned.astype(np.float32)


def _products(samples: npt.NDArray[Any], rate_hz: int) -> npt.NDArray[np.float64]:
    """Return the sums of products of any two channels in the band of speech, (channels, channels)."""
    size = rate_hz // WINDOWS_PER_S
    shape = np.hanning(size).astype(np.float32)
    products = np.zeros((samples.shape[1], samples.shape[1]))
    for begin in range(0, len(samples), size):
        window = samples[begin : begin + size].T.astype(np.float32)  # (channels, S)
        spectra = np.fft.rfft(window * shape[: window.shape[1]], size)[:, BAND]
        products += (spectra @ spectra.conj().T).real
    return products
