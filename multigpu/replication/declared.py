"""Finds out which results of a function have rows, from the shapes that it declares for any number of them.

Sizes cannot show it: a vector of four numbers and four rows look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Shapes: TypeAlias = Sequence[tf.TensorShape | None]
"""Of each of a function's results; None where it is unknown."""


def declared_shapes(function: Callable[[Any], Any], batch: Any) -> Shapes | None:
    """Return the shapes of a function's results for a batch with an unknown number of rows.

    The function is traced, not computed.

    Args:
        function: takes the batch.
        batch: tensors, or structures of them; those of at least one dimension have rows.

    Returns:
        The shapes, None in place of the number of rows, or None if the function cannot be traced.
    """
    leaves = tf.nest.flatten(batch)
    tensors = [leaf for leaf in leaves if tf.is_tensor(leaf)]
    shapes: list[tf.TensorShape | None] = []

    def trace(*given: Any) -> None:
        symbolic = iter(given)
        rows = [next(symbolic) if tf.is_tensor(leaf) else leaf for leaf in leaves]
        results = function(tf.nest.pack_sequence_as(batch, rows))
        shapes.extend(getattr(result, "shape", None) for result in tf.nest.flatten(results))

    try:
        specs = list(map(_any_number_of_rows, tensors))
        tf.function(trace, autograph=False).get_concrete_function(*specs)
    except Exception:  # functions may do anything, and their own errors are raised when they are computed
        return None
    if any(None in spec.shape[1:] for spec in specs if spec.shape.rank):
        # what is unknown after the first dimension need not be the number of rows
        return [None if _has_unknown_behind_first(shape) else shape for shape in shapes]
    return shapes


def is_row_wise(shape: tf.TensorShape | None) -> bool | None:
    """Return whether a result with a declared shape has rows, None where that is unknown.

    Raises:
        ValueError: its rows are not in the first dimension.
    """
    if not isinstance(shape, tf.TensorShape) or shape.rank is None:
        return None
    if _has_unknown_behind_first(shape):
        raise ValueError(
            f"expected outputs whose first dimension is the rows, received one of shape {tuple(shape)}, "
            "where None is the number of rows; transpose it"
        )
    return bool(shape.rank and shape[0] is None)


def _has_unknown_behind_first(shape: tf.TensorShape | None) -> bool:
    return bool(isinstance(shape, tf.TensorShape) and shape.rank and shape[0] and None in shape.as_list())


def _any_number_of_rows(tensor: Any) -> Any:
    shape = [None, *tensor.shape[1:]] if tensor.shape.rank else tensor.shape
    if isinstance(tensor, tf.RaggedTensor):
        return tf.RaggedTensorSpec(shape, tensor.dtype, tensor.ragged_rank, tensor.row_splits.dtype)
    return tf.TensorSpec(shape, tensor.dtype)
