"""Compute a Fourier transform by products with small matrices (Cooley & Tukey, 1965).

One of N = P Q points is Q transforms of P points, a rotation, and P transforms of Q points. With P = N / 16
it takes a fifth of the multiplications of one N x N matrix and 10 kB of constants instead of 800.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.model.features.layer import WINDOW

Array = npt.NDArray[np.float32]

Q = 16  # divides the window and both sizes of transforms, 512 and 400


class Factors(NamedTuple):
    """Holds the matrices of a transform of real windows.

    Sample 16 a + b is in row a and column b of a window; bin k + P c is in row k and column c of the result,
    which has the first `rows` k.
    """

    cos_rows: Array  # (rows, 25)
    sin_rows: Array
    cos_rotation: Array  # (rows, 16)
    sin_rotation: Array
    columns: Array  # (32, 32), from real and imaginary parts to real and imaginary parts


def fourier_factors(size: int) -> Factors:
    """Return the matrices of a transform of `size` points, 400 or 512 with zeros behind the window."""
    p = size // Q
    k, a, b, c = np.arange(num_rows(size)), np.arange(WINDOW // Q), np.arange(Q), np.arange(Q)
    rows, rotation, columns = _angles(k, a, p), _angles(k, b, size), _angles(b, c, Q)
    both = np.block([[np.cos(columns), np.sin(columns)], [-np.sin(columns), np.cos(columns)]])
    found = (np.cos(rows), np.sin(rows), np.cos(rotation), np.sin(rotation), both)
    return Factors(*(matrix.astype(np.float32) for matrix in found))


def num_rows(size: int) -> int:
    """Return the number of rows that contain every bin up to half the size."""
    return size // Q // 2 + 1


def bins(size: int) -> npt.NDArray[np.int64]:
    """Return which bin each element of the result is, row by row; some bins appear twice."""
    rows, columns = np.arange(num_rows(size))[:, None], np.arange(Q)[None]
    numbers: npt.NDArray[np.int64] = (rows + size // Q * columns).reshape(-1)
    folded: npt.NDArray[np.int64] = np.minimum(numbers, size - numbers)
    return folded


def _angles(
    rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.float64]:
    """Return 2 pi i j / size for each row i and column j, exactly within one turn."""
    return 2 * np.pi * (np.outer(rows, columns) % size) / size
