"""Orders the passes of micro-batches through stages.

Stages run at the same time because a graph only says what depends on what. The order of each stage is that
of 1F1B (one forward, one backward pass; Narayanan et al., 2021, arXiv:2006.09503): stage k of S begins the
forward pass of a micro-batch when the backward pass of the one S - k before it has ended. So at most S - k of
them hold activations there. Where a stage repeats forward passes, each waits for the backward pass of the
micro-batch before, so one of them does. Where layers or losses need sums over the whole batch, all
micro-batches run stage by stage instead, and all of them hold activations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from multigpu.replication.lockstep import run_in_lockstep
from multigpu.replication.model_towers import combined_gradients
from multigpu.replication.towers import Tensor
from multigpu.stages.stage_run import Backward, Forward, Gradients, StageRun, Values


class MicroBatch(NamedTuple):
    """A part of a batch and what runs it."""

    inputs: Values  # of the model, by key
    runs: Sequence[StageRun]  # of each stage
    factor: Tensor  # gradient of the losses, () float64


class Passes(NamedTuple):
    """The results of all micro-batches."""

    forwards: list[list[Forward]]  # of each micro-batch, stage by stage
    gradients: list[list[Tensor | None]]  # of each stage's weights, summed; empty without a backward pass


Schedule: TypeAlias = Callable[[Sequence[Sequence[MicroBatch]], Sequence[str]], Passes]
"""Takes the micro-batches of each replica, and the name of the device that holds each stage's weights."""


def one_forward_one_backward(replicas: Sequence[Sequence[MicroBatch]], homes: Sequence[str]) -> Passes:
    """Run both passes, with at most S - k micro-batches of a replica alive in stage k of S."""
    passes = [_pipelined(micro_batches) for micro_batches in replicas]
    gradients = []
    columns = zip(*(own.gradients for own in passes), strict=True)
    for run, column, home in zip(replicas[0][0].runs, columns, homes, strict=True):
        with tf.device(home):
            gradients.append(combined_gradients(run.trained, column))
    return Passes([forwards for own in passes for forwards in own.forwards], gradients)


def _pipelined(micro_batches: Sequence[MicroBatch]) -> Passes:
    """Run both passes of a replica; gradients are summed on its own devices."""
    num_stages = len(micro_batches[0].runs)
    passes = Passes([], [[] for _ in range(num_stages)])
    ended: list[list[Any]] = [[] for _ in range(num_stages)]  # of each stage's backward passes
    for index, (inputs, runs, factor) in enumerate(micro_batches):
        values, forwards = dict(inputs), []
        for run in runs:
            before = index - (num_stages - run.stage.index)
            after = [ended[run.stage.index][before]] if before >= 0 else []
            forwards.append(run.forward(values, after, differentiable=True))
            values.update(forwards[-1].values)
        passes.forwards.append(forwards)
        above: Gradients = {}
        for run in reversed(runs):
            stage = run.stage.index
            back = run.backward(above, factor, after=ended[stage][-1:])
            above = _collected(above, back.below)
            with tf.device(run.device):
                sums = [passes.gradients[stage]] if index else []
                passes.gradients[stage] = combined_gradients(run.trained, [*sums, back.gradients])
                below = itertools.chain.from_iterable(back.below.values())
                known = [one for one in (*back.gradients, *below) if one is not None]
                ended[stage].append(tf.group(*known))
    return passes


def stage_by_stage(replicas: Sequence[Sequence[MicroBatch]], homes: Sequence[str]) -> Passes:
    """Run both passes; the micro-batches of all replicas synchronize within a stage."""
    micro_batches = [micro_batch for own in replicas for micro_batch in own]
    forwards = forward_in_lockstep(replicas, homes, differentiable=True).forwards
    gradients: list[list[Tensor | None]] = []
    above: list[Gradients] = [{} for _ in micro_batches]
    for stage, home in reversed(list(enumerate(homes))):
        calls = [
            functools.partial(micro_batch.runs[stage].backward, own, micro_batch.factor)
            for micro_batch, own in zip(micro_batches, above, strict=True)
        ]
        with tf.device(home):
            backs: list[Backward] = run_in_lockstep(calls)
            trained = micro_batches[0].runs[stage].trained
            gradients.insert(0, combined_gradients(trained, [back.gradients for back in backs]))
        above = [_collected(own, back.below) for own, back in zip(above, backs, strict=True)]
    return Passes(forwards, gradients)


def forward_in_lockstep(
    replicas: Sequence[Sequence[MicroBatch]], homes: Sequence[str], *, differentiable: bool = False
) -> Passes:
    """Run the forward pass; the micro-batches of all replicas synchronize within a stage."""
    micro_batches = [micro_batch for own in replicas for micro_batch in own]
    values = [dict(micro_batch.inputs) for micro_batch in micro_batches]
    passes = Passes([[] for _ in micro_batches], [])
    for stage, home in enumerate(homes):
        calls = [
            functools.partial(micro_batch.runs[stage].forward, own, differentiable=differentiable)
            for micro_batch, own in zip(micro_batches, values, strict=True)
        ]
        with tf.device(home):
            for own, forwards, forward in zip(values, passes.forwards, run_in_lockstep(calls), strict=True):
                own.update(forward.values)
                forwards.append(forward)
    return passes


def forward_in_turn(replicas: Sequence[Sequence[MicroBatch]], homes: Sequence[str]) -> Passes:
    """Run the forward pass; no backward pass can follow."""
    passes = Passes([], [])
    for micro_batch in (micro_batch for own in replicas for micro_batch in own):
        values, forwards = dict(micro_batch.inputs), []
        for run in micro_batch.runs:
            forwards.append(run.forward(values))
            values.update(forwards[-1].values)
        passes.forwards.append(forwards)
    return passes


def _collected(above: Gradients, below: Mapping[int, Sequence[Tensor | None]]) -> Gradients:
    """Return gradients of values with those from one more stage that took them."""
    collected = dict(above)
    for key, column in below.items():
        known = collected.get(key, [[] for _ in column])
        more = [[] if gradient is None else [gradient] for gradient in column]
        collected[key] = [[*old, *new] for old, new in zip(known, more, strict=True)]
    return collected
