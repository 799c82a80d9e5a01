from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.pages.pictures import (
    ANCHORS,
    Picture,
    apply_colours,
    heatmap,
    mel_bands,
    png_bytes,
    spectrogram_picture,
)


def tone(frequency_hz: float, duration_s: float = 1.0, begin_s: float = 0.0) -> Waveform:
    time_s = np.arange(round(SAMPLE_RATE_HZ * duration_s)) / SAMPLE_RATE_HZ
    wave = 8000 * np.sin(2 * np.pi * frequency_hz * time_s) * (time_s >= begin_s)
    return wave.astype(np.int16)


def lightness(picture: Picture) -> npt.NDArray[np.float64]:
    """Return the luminance (Rec. 709)."""
    return picture @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("num_samples", "columns"), [(1, 1), (160, 1), (161, 2), (400, 3), (16000, 100)])
def test_a_spectrogram_column_covers_10_ms(num_samples: int, columns: int) -> None:
    picture = spectrogram_picture(np.ones(num_samples, np.int16), height_px=40)
    assert picture.shape == (40, columns, 3)
    assert picture.dtype == np.uint8


def test_low_tones_are_at_the_bottom_of_a_spectrogram() -> None:
    rows = [int(lightness(spectrogram_picture(tone(hz)))[:, 50].argmax()) for hz in (200, 1000, 4000, 7500)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > 100
    assert rows[-1] < 10


def test_a_sound_is_drawn_at_its_time() -> None:
    loudness = lightness(spectrogram_picture(tone(1000, begin_s=0.5))).max(axis=0)
    assert loudness[:49].max() < 20
    assert loudness[50:].min() > 100


def test_silence_is_dark_and_a_spectrogram_is_independent_of_gain() -> None:
    assert (spectrogram_picture(np.zeros(8000, np.int16)) == list(bytes.fromhex(ANCHORS[0]))).all()
    loud, quiet = tone(1000), (tone(1000) // 4).astype(np.int16)
    difference = lightness(spectrogram_picture(loud)) - lightness(spectrogram_picture(quiet))
    assert abs(np.median(difference)) < 10


@pytest.mark.parametrize("num_bands", [16, 128, 500])
def test_every_mel_band_responds(num_bands: int) -> None:
    bands = mel_bands(num_bands)
    assert np.isfinite(bands).all()
    assert bands.sum(axis=0) == pytest.approx(np.ones(num_bands))


def test_lightness_increases_with_the_value_in_greyscale() -> None:
    ramp = lightness(apply_colours(np.linspace(0, 1, 64)[None]))[0]
    assert (np.diff(ramp) > 0).all()
    assert (apply_colours(np.array([[-3.0, 4.0]])) == apply_colours(np.array([[0.0, 1.0]]))).all()


def test_a_heatmap_stretches_columns_and_keeps_rows() -> None:
    values = np.array([[0.0, 1.0], [1.0, 0.0]])
    grey = lightness(heatmap(values, row_px=3, width_px=10))
    assert grey.shape == (6, 10)
    dark, bright = grey.min(), grey.max()
    assert (grey[:3, :5] == dark).all()
    assert (grey[:3, 5:] == bright).all()
    assert (grey[3:, :5] == bright).all()


@pytest.mark.parametrize("kind", ["few colours", "many colours", "one pixel"])
def test_a_png_decodes_to_exactly_the_picture(kind: str) -> None:
    pictures = {
        "few colours": spectrogram_picture(tone(700)),
        "many colours": np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8),
        "one pixel": np.full((1, 1, 3), 7, np.uint8),
    }
    data = png_bytes(pictures[kind])
    assert data.startswith(b"\x89PNG")
    assert (np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) == pictures[kind]).all()
