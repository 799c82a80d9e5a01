"""Compute a Fourier transform by products with small matrices (Cooley & Tukey, 1965).

One of N = P Q points is Q transforms of P points, a rotation, and P transforms of Q points. With P = N / 16
it takes a fifth of the multiplications of one N x N matrix and 10 kB of constants instead of 800.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.model.features.layer import FFT_SIZE, WINDOW

Array = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

Q = 16  # divides the window and both sizes of transforms, 512 and 400


class Factors(NamedTuple):
    """The matrices of a transform of real windows.

    Sample 16 a + b is in row a and column b of a window; bin k + P c is in row k and column c of the result,
    which has the first `rows` k.
    """

    cos_rows: Array  # (rows, 25)
    sin_rows: Array
    cos_rotation: Array  # (rows, 16)
    sin_rotation: Array
    columns: Array  # (32, 32), from real and imaginary parts to real and imaginary parts


def fourier_factors() -> Factors:
    """Return the matrices of a transform of 512 points: a window, and zeros after it."""
    k, a, b, c = np.arange(num_rows(FFT_SIZE)), np.arange(WINDOW // Q), np.arange(Q), np.arange(Q)
    rows, rotation, columns = _angles(k, a, FFT_SIZE // Q), _angles(k, b, FFT_SIZE), _angles(b, c, Q)
    both = np.block([[np.cos(columns), np.sin(columns)], [-np.sin(columns), np.cos(columns)]])
    found = (np.cos(rows), np.sin(rows), np.cos(rotation), np.sin(rotation), both)
    return Factors(*(matrix.astype(np.float32) for matrix in found))


class PreciseFactors(NamedTuple):
    """The matrices of a transform of real windows in double precision, with the rotation in the second.

    Windows, rows and columns are those of `Factors`; parts are the real and the imaginary one.
    """

    by_column: Float64  # (25, rows * 2), from a column of a window to the parts of every row
    by_row: (
        Float64  # (rows, 16 * 2, 2 * 16), from a row's columns, with their parts, to the parts of its bins
    )


def precise_factors() -> PreciseFactors:
    """Return the matrices of a transform of 400 points, a window."""
    k, a, b, c = np.arange(num_rows(WINDOW)), np.arange(WINDOW // Q), np.arange(Q), np.arange(Q)
    rows = _angles(a, k, WINDOW // Q)  # (25, rows)
    by_column = np.stack([np.cos(rows), np.sin(rows)], axis=-1).reshape(len(a), -1)
    turns = _angles(b, np.add.outer(k, WINDOW // Q * c).reshape(-1), WINDOW).reshape(Q, len(k), Q)
    cos, sin = np.cos(turns), np.sin(turns)  # (16, rows, 16)
    by_row = np.stack([np.stack([cos, sin], axis=2), np.stack([-sin, cos], axis=2)], axis=1)
    return PreciseFactors(by_column, by_row.transpose(2, 0, 1, 3, 4).reshape(len(k), 2 * Q, 2 * Q))


def num_rows(size: int) -> int:
    """Return the number of rows that contain every bin up to half the size."""
    return size // Q // 2 + 1


def bins(size: int) -> npt.NDArray[np.int64]:
    """Return which bin each element of the result is, row by row; some bins appear twice."""
    rows, columns = np.arange(num_rows(size))[:, None], np.arange(Q)[None]
    numbers: npt.NDArray[np.int64] = (rows + size // Q * columns).reshape(-1)
    folded: npt.NDArray[np.int64] = np.minimum(numbers, size - numbers)
    return folded


def _angles(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], size: int) -> Float64:
    """Return 2 pi i j / size for each row i and column j, exactly within one turn."""
    return 2 * np.pi * (np.outer(rows, columns) % size) / size
