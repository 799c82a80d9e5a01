"""Splits a batch into one share for each device, and merges the results of the shares.

from multigpu.replication.towers import data_parallelism

@tf.function
def predict(audio, num_samples):
    return data_parallelism(["/GPU:0", "/GPU:2"], model, audio, num_samples)

`data_parallelism` after the function of that name in THUMT (Zhang et al., 2017, arXiv:1706.06415).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from multigpu.devices import DeviceSpec, parse_devices
from multigpu.replication.declared import Shapes, declared_shapes, is_row_wise

Tensor: TypeAlias = Any
Structure: TypeAlias = Any  # a tensor, or lists, tuples and dicts of them
LossOf: TypeAlias = Callable[..., tuple[Tensor, Structure]]  # (model, *batch) -> (loss, outputs)


@dataclass(frozen=True)
class Share:
    """The rows of a batch that one tower processes.

    A tower without rows of its own (a batch of one on three devices) processes a row of its neighbour's,
    so that no mean over zero rows arises; its weight is 0, and its outputs are dropped.

    Attributes:
        start: index of the first row, () int32 or int.
        size: number of the tower's own rows, 0 for a tower that has none.
        num_rows: number of rows of the whole batch.
    """

    start: Tensor
    size: Tensor
    num_rows: Tensor

    @property
    def weight(self) -> Tensor:
        """Return the share's fraction of the batch, () float64; the fractions of a batch sum to 1."""
        return tf.cast(self.size, tf.float64) / tf.cast(self.num_rows, tf.float64)

    @property
    def in_use(self) -> Tensor:
        """Return 1 if the tower has rows of its own, 0 if not, () float32."""
        return tf.cast(tf.minimum(self.size, 1), tf.float32)

    def rows(self, batch: Structure) -> Structure:
        """Return this share of every tensor of a batch; values without rows are returned as they are."""
        return tf.nest.map_structure(self._rows_of, batch)

    @property
    def num_processed(self) -> Tensor:
        """Return the number of rows that the tower processes, 1 for a tower that has none of its own."""
        return max(self.size, 1) if isinstance(self.size, int) else tf.maximum(self.size, 1)

    def own_rows_of(self, output: Any) -> Any:
        """Return a tower's output if the tower has rows of its own, else an empty slice of it."""
        if isinstance(self.size, int):
            return output if self.size else output[:0]
        return output[: tf.shape(output)[0] * tf.minimum(self.size, 1)]

    def _rows_of(self, value: Any) -> Any:
        if not has_rows(value):
            return value
        # slice on the batch's device, mostly the host, so that only the share is copied to the tower's device
        with tf.device(getattr(value, "device", "") or "/CPU:0"):
            own = value[self.start : self.start + self.num_processed]
        return tf.identity(own)


def share_out(batch: Structure, num_towers: int) -> list[Share]:
    """Return the share of each tower in a batch.

    Raises:
        ValueError: no tensor of the batch has rows, their numbers of rows differ, or a tensor is sparse.
    """
    with_rows = [value for value in tf.nest.flatten(batch) if has_rows(value)]
    if any(isinstance(value, tf.SparseTensor) for value in with_rows):
        raise ValueError("expected dense or ragged tensors, received a sparse tensor; use tf.sparse.to_dense")
    known = {value.shape[0] for value in with_rows} - {None}
    if not with_rows or known == {0}:
        raise ValueError("expected a batch with at least one row, received none")
    if len(known) > 1:
        raise ValueError(
            f"expected the same number of rows in every tensor of a batch, received {sorted(known)}"
        )
    return cut_rows(known.pop() if known else tf.shape(with_rows[0])[0], num_towers)


def cut_rows(num_rows: Tensor, num_towers: int) -> list[Share]:
    """Divide rows into shares that differ by one row at most, the larger ones first.

    Args:
        num_rows: number of rows, at least 1; an int, or () int32.
        num_towers: number of shares.
    """
    each, rest = num_rows // num_towers, num_rows % num_towers
    least = min if isinstance(num_rows, int) else tf.minimum
    return [
        Share(
            start=least(index * each + least(index, rest), num_rows - 1),
            size=each + least(1, rest // (index + 1)),
            num_rows=num_rows,
        )
        for index in range(num_towers)
    ]


def merge(
    outputs: Sequence[Structure],
    shares: Sequence[Share],
    declared: Callable[[], Shapes | None] = lambda: None,
) -> Structure:
    """Merge the towers' outputs to those of the whole batch: concatenate rows, average outputs without rows.

    Averages are weighted by the towers' rows; of whole numbers without rows the first tower's are kept.
    Outputs of towers without rows of their own are dropped.

    Args:
        outputs: of each tower.
        shares: the towers' rows.
        declared: returns the shapes of the outputs for any number of rows; called where the sizes of the
            outputs do not show which of them have rows.

    Raises:
        ValueError: an output has rows in another dimension than the first.
    """
    shapes = functools.cache(declared)
    indices = itertools.count()

    def merge_one(*values: Any) -> Any:
        index = next(indices)
        if not tf.is_tensor(values[0]):
            return values[0]
        if _have_rows(values, shares, lambda: (shapes() or {index: None})[index]):
            return tf.concat([s.own_rows_of(v) for v, s in zip(values, shares, strict=True)], axis=0)
        if not values[0].dtype.is_floating:
            return values[0]
        return weighted_mean(values, shares)

    return tf.nest.map_structure(merge_one, *outputs)


def weighted_mean(values: Sequence[Tensor], shares: Sequence[Share]) -> Tensor:
    """Return the mean of the towers' values, weighted by their rows."""
    return tf.add_n([v * tf.cast(s.weight, v.dtype) for v, s in zip(values, shares, strict=True)])


def data_parallelism(
    devices: DeviceSpec, function: Callable[..., Structure], *args: Structure, **kwargs: Structure
) -> Structure:
    """Call a function once on each device with its share of the rows, and merge the outputs.

    Tensors and arrays of at least one dimension are split along the first; scalars and everything that is
    not a tensor are passed to every call. Within a `tf.function` the devices run at the same time. Gradients
    taken through it from outside are computed on the first device: use `ParallelModel` for training.

    Args:
        devices: what `multigpu.devices.parse_devices` takes; with one device the function is called unsplit.
        function: processes each row independently.
        *args: its arguments.
        **kwargs: its arguments by name.

    Returns:
        The function's outputs for the whole batch: those with rows in the order of the inputs, floating-point
        outputs without rows averaged over the rows, and of whole numbers without rows those of the first
        device. Where sizes do not show which outputs have rows, the function is traced once more to see.
    """
    inputs = as_tensors((args, kwargs))
    devices = parse_devices(devices)
    if len(devices) == 1:
        with tf.device(devices[0]):
            return function(*inputs[0], **inputs[1])
    shares = share_out(inputs, len(devices))

    def call(inputs: tuple[Any, Any]) -> Structure:
        return as_tensors(function(*inputs[0], **inputs[1]))

    outputs = []
    for device, share in zip(devices, shares, strict=True):
        with tf.device(device):
            outputs.append(call(share.rows(inputs)))
    with tf.device(devices[0]):
        return merge(outputs, shares, lambda: declared_shapes(call, inputs))


def as_tensors(structure: Structure) -> Structure:
    """Return the structure with its arrays converted to tensors; the rest stays as it is."""
    return tf.nest.map_structure(
        lambda value: tf.convert_to_tensor(value) if isinstance(value, np.ndarray | tf.Variable) else value,
        structure,
    )


def _have_rows(
    outputs: Sequence[Any], shares: Sequence[Share], declared: Callable[[], tf.TensorShape | None]
) -> bool:
    """Return whether outputs have the same number of rows for each row that their tower processed."""
    if not has_rows(outputs[0]) or outputs[0].shape[0] is None:
        return has_rows(outputs[0])
    if not isinstance(shares[0].size, int):
        # the number of the output's rows is known, that of the batch is not
        return None in outputs[0].shape.as_list() and bool(is_row_wise(declared()))
    sizes = [share.num_processed for share in shares]
    quotients = {divmod(output.shape[0], size) for output, size in zip(outputs, sizes, strict=True)}
    fit = len(quotients) == 1 and quotients.pop()[1] == 0
    is_sure = len(set(sizes)) > 1 if fit else outputs[0].shape.rank == 1
    if is_sure or num_in_use(shares) == 1:
        return fit
    known = is_row_wise(declared())
    return fit if known is None else known


def num_in_use(shares: Sequence[Share]) -> int:
    """Return the number of shares that have rows of their own; all of them where it is not known."""
    return sum(1 for share in shares if not isinstance(share.size, int) or share.size)


def has_rows(value: Any) -> bool:
    """Return whether a value is a tensor with a first dimension."""
    return bool(tf.is_tensor(value) and value.shape.rank != 0)
