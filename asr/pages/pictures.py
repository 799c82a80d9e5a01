"""Draw spectrograms and heat maps as arrays of pixels, and encode them as PNG."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.fft import rfft

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform

Picture = npt.NDArray[np.uint8]  # (H, W, 3), the first row at the top

HOP_SAMPLES = 160  # 10 ms
FFT_SIZE = 1024  # longer than the window, as low bands are narrow
LOW_HZ = 20.0
RANGE_DB = 65.0  # from the loudest level down to black
BLOCK_FRAMES = 4096
NUM_SHADES = 64  # more could not be distinguished, and would enlarge the PNG
# from quiet to loud; lightness increases, so that the order is kept in greyscale
ANCHORS = ("0c0d1f", "2c2160", "6a2c7c", "b23f72", "e46a52", "f9b15c", "fdf4cf")


def spectrogram_picture(waveform: Waveform, height_px: int = 128) -> Picture:
    """Draw a spectrogram: a column every 10 ms, mel bands with low frequencies at the bottom.

    Column c shows the 25 ms around c times 10 ms.

    Args:
        waveform: (S,) int16 samples at 16 kHz, at least one.
        height_px: number of mel bands, one for each row.

    Returns:
        (height_px, ceil(S / 160), 3) uint8.
    """
    padded = np.pad(waveform.astype(np.float32), (WINDOW_SAMPLES // 2, WINDOW_SAMPLES))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES]
    windows = windows[: -(-len(waveform) // HOP_SAMPLES)]
    taper, bands = np.hanning(WINDOW_SAMPLES).astype(np.float32), mel_bands(height_px)
    blocks = [
        np.abs(rfft(windows[begin : begin + BLOCK_FRAMES] * taper, FFT_SIZE)) ** 2 @ bands
        for begin in range(0, len(windows), BLOCK_FRAMES)
    ]
    level_db = 10 * np.log10(np.concatenate(blocks) + 1.0)  # (T, height_px)
    loudest_db = max(float(level_db.max()), RANGE_DB)  # silence stays black
    return apply_colours(1 + (level_db.T[::-1] - loudest_db) / RANGE_DB)


def heatmap(values: npt.NDArray[np.floating], row_px: int, width_px: int) -> Picture:
    """Draw a matrix as apply_colours stripes, with its first row at the top.

    Args:
        values: (rows, columns), from 0 (dark) to 1 (bright).
        row_px: height of a row.
        width_px: width of the picture, over which the columns are distributed.

    Returns:
        (rows x row_px, width_px, 3) uint8.
    """
    columns = np.arange(width_px) * values.shape[1] // width_px
    return apply_colours(np.repeat(values[:, columns], row_px, axis=0))


def png_bytes(picture: Picture) -> bytes:
    """Encode a picture as PNG, with a palette if 256 colours suffice: a third of the size."""
    packed = picture.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)  # (H, W)
    colours, shades = np.unique(packed.ravel(), return_inverse=True)
    if len(colours) <= 256:
        image = Image.fromarray(shades.reshape(packed.shape).astype(np.uint8))
        image.putpalette(np.stack([colours >> 16, colours >> 8, colours], axis=1).astype(np.uint8).tobytes())
    else:
        image = Image.fromarray(picture)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def apply_colours(values: npt.NDArray[np.floating]) -> Picture:
    """Return the colours of values clipped to 0 to 1: (H, W) -> (H, W, 3)."""
    anchors = np.array([list(bytes.fromhex(colour)) for colour in ANCHORS], np.float32)
    indices = np.linspace(0, len(anchors) - 1, NUM_SHADES)
    palette = np.stack([np.interp(indices, np.arange(len(anchors)), part) for part in anchors.T], axis=1)
    shades = np.rint(np.clip(values, 0.0, 1.0) * (NUM_SHADES - 1)).astype(np.intp)
    picture: Picture = np.rint(palette).astype(np.uint8)[shades]
    return picture


def mel_bands(num_bands: int) -> npt.NDArray[np.float32]:
    """Return mel filters (FFT_SIZE / 2 + 1, num_bands): triangles at least as wide as two bins."""
    bins_hz = np.fft.rfftfreq(FFT_SIZE, 1 / SAMPLE_RATE_HZ)
    low_mel, high_mel = (2595 * np.log10(1 + hz / 700) for hz in (LOW_HZ, SAMPLE_RATE_HZ / 2))
    centres_hz = 700 * (10 ** (np.linspace(low_mel, high_mel, num_bands) / 2595) - 1)
    half_width_hz = np.maximum(np.gradient(centres_hz), bins_hz[1])
    weights = np.clip(1 - np.abs(bins_hz[:, None] - centres_hz) / half_width_hz, 0, None)
    bands: npt.NDArray[np.float32] = (weights / weights.sum(axis=0)).astype(np.float32)
    return bands
