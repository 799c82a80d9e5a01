"""Turns loss functions into what the last stage computes after its layers, the finish of a micro-batch.

An engine's loss function calls the model itself. So it runs twice: up to that call before the first stage, to
find out what the model is called with, and in the last stage, where the call returns what the layers did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from multigpu.replication.stateless import masks_of
from multigpu.replication.towers import LossOf, Structure, Tensor

LossOfOutputs: TypeAlias = Callable[..., Tensor]
"""(outputs, *rows) -> () mean loss over these rows."""

Finish: TypeAlias = Callable[..., tuple[Tensor | None, Structure]]
"""(outputs, *rows) -> (() mean loss over these rows or None, what a step returns of these rows)."""


def finish_with_loss(loss_of: LossOfOutputs) -> Finish:
    """Return a function that returns the loss of some rows, and the outputs with their masks."""
    return lambda outputs, *rows: (loss_of(outputs, *rows), (outputs, masks_of(outputs)))


def finish_without_loss(outputs: Structure) -> tuple[None, Structure]:
    """Return no loss, and the outputs with their masks."""
    return None, (outputs, masks_of(outputs))


def called_with(loss_of: LossOf, batch: Sequence[Tensor]) -> Structure:
    """Return what a loss function calls its model with, for a batch."""
    found: list[tuple[Structure, ...]] = []

    def answer(*inputs: Structure) -> Structure:
        found.append(inputs)
        raise RuntimeError("the model is not run here; its inputs are known now")

    try:
        loss_of(_StandIn(answer), *batch)
    except Exception:  # what is raised after the call does not matter: the last stage runs it again
        if not found:
            raise
    if not found:
        raise ValueError("expected a loss function that calls the model once, received one that never does")
    return found[0] if len(found[0]) > 1 else found[0][0]


def finish_of_loss_function(loss_of: LossOf) -> Finish:
    """Return the part of a loss function that follows the call of the model."""

    def finish(outputs: Structure, *rows: Tensor) -> tuple[Tensor, Structure]:
        model = _StandIn(lambda *_: outputs)
        loss, results = loss_of(model, *rows)
        if model.num_calls != 1:
            raise ValueError(
                "expected a loss function that calls the model once, received one that calls it "
                f"{model.num_calls} times"
            )
        return loss, results

    return finish


class _StandIn:
    """Given to a loss function in place of its model.

    Args:
        answer: takes what the loss function calls the model with, and returns the outputs.
    """

    def __init__(self, answer: Callable[..., Structure]) -> None:
        self.num_calls = 0
        self._answer = answer

    def __call__(self, *inputs: Structure, training: bool = False) -> Structure:
        self.num_calls += 1
        if not training:
            raise ValueError("expected a loss function that calls the model with training=True")
        return self._answer(*inputs)
