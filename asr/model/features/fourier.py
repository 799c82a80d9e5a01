"""Compute a Fourier transform by products with small matrices (Cooley & Tukey, 1965).

One of N = P Q points is Q transforms of P points, a rotation, and P transforms of Q points. With P = N / 16
it takes a seventh of the multiplications of one N x N matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.model.features.layer import WINDOW

Float64 = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

Q = 16  # divides the window and both sizes of transforms, 512 and 400


def by_column_factors(size: int) -> Float64:
    """Return the matrix (25, rows * 2) from a column of a window to the parts of every row.

    Sample 16 a + b of a window is in row a and column b; zeros follow it, up to `size` points. Bin k + P c is
    in row k and column c of the result, which has the first `rows` k. Parts are the real and the imaginary
    one.
    """
    a, k = np.arange(WINDOW // Q)[:, None, None], np.arange(num_rows(size))[:, None]
    found: Float64 = cosines(size)[(a * k * Q - np.array([0, size // 4])) % size].reshape(WINDOW // Q, -1)
    return found


class RowTurns(NamedTuple):
    """How the matrices follow from cosines that lead from a row's columns to the parts of its bins.

    Their axes are (rows, 16, 2, 2, 16): row, column and part of what is given, part and column of the result.
    An element is the cosine of numbers * columns + parts, which contains the rotation of the columns.
    """

    numbers: Indices  # k + P c, (rows, 1, 1, 1, 16)
    columns: Indices  # b, (16, 1, 1, 1)
    parts: Indices  # quarters of a turn, (2, 2, 1)


def row_turns(size: int) -> RowTurns:
    """Return the turns in the matrices of a transform of `size` points, as steps of 1 / size."""
    numbers = np.arange(num_rows(size))[:, None, None, None, None] + size // Q * np.arange(Q)
    # a sine is a cosine, a quarter turn later
    parts = size // 4 * np.array([[0, -1], [1, 0]])[..., None]
    return RowTurns(numbers, np.arange(Q)[:, None, None, None], parts)


def cosines(size: int) -> Float64:
    """Return the cosines (size,) of one turn."""
    found: Float64 = np.cos(2 * np.pi * np.arange(size) / size)
    return found


def num_rows(size: int) -> int:
    """Return the number of rows that contain every bin up to half the size."""
    return size // Q // 2 + 1


def bins(size: int) -> Indices:
    """Return which bin each element of the result is, row by row; some bins appear twice."""
    rows, columns = np.arange(num_rows(size))[:, None], np.arange(Q)[None]
    numbers: Indices = (rows + size // Q * columns).reshape(-1)
    folded: Indices = np.minimum(numbers, size - numbers)
    return folded
