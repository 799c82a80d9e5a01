"""What each stage's devices hold of a model, and their part of the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from multigpu.devices import short_name
from multigpu.stages.cut import ModelStage
from multigpu.stages.measure import LayerCost, joined
from multigpu.stages.weights import bytes_of


class StagePlacement(NamedTuple):
    """What a stage's devices hold of a model, and their part of the work.

    Attributes:
        devices: names; weights and the optimiser's variables are on the first.
        layers: names, in the order of their calls.
        num_parameters: number of the weights' elements.
        weight_bytes: of all variables of the layers.
        optimizer_bytes: of the optimiser's variables, 0 where no optimiser is given.
        activation_bytes: estimate of the most that each device holds for the backward pass; None where the
            layers were not measured.
        time_share: share of the time that both passes take through all stages; None where the layers were
            not measured.
    """

    devices: tuple[str, ...]
    layers: list[str]
    num_parameters: int
    weight_bytes: int
    optimizer_bytes: int
    activation_bytes: int | None
    time_share: float | None


def stage_placements(
    stages: Sequence[ModelStage],
    devices: Sequence[Sequence[str]],
    optimizer: Any = None,
    costs: Sequence[LayerCost] = (),
    samples_held: Sequence[float] = (),
) -> list[StagePlacement]:
    """Return what the devices of each stage hold.

    Args:
        stages: of the model.
        devices: names of each stage's devices.
        optimizer: one that is built for the model, or None.
        costs: of all layers, for a sample; empty where they were not measured.
        samples_held: the most rows whose activations a device of each stage holds, in samples.
    """
    slots = optimizer.variables if optimizer is not None else []
    names = [{layer.name for layer in stage.layers} for stage in stages]
    of_stages = [joined([cost for cost in costs if set(cost.names) & of_stage]) for of_stage in names]
    total_s = sum(cost.seconds for cost in of_stages)
    return [
        StagePlacement(
            devices=tuple(devices[stage.index]),
            layers=[layer.name for layer in stage.layers],
            # the state of a random generator is no parameter
            num_parameters=sum(int(tf.size(v.value)) for v in stage.variables if v.value.dtype.is_floating),
            weight_bytes=sum(map(bytes_of, stage.variables)),
            optimizer_bytes=sum(
                bytes_of(slot) for slot in slots if short_name(slot.value.device) == devices[stage.index][0]
            ),
            activation_bytes=round(cost.activation_bytes * samples_held[stage.index]) if costs else None,
            time_share=cost.seconds / total_s if costs else None,
        )
        for stage, cost in zip(stages, of_stages, strict=True)
    ]
