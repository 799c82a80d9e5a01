"""Cuts a model into stages: which layers each has, and which tensors pass from stage to stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from multigpu.replication.keras_internals import LayerCall, LayerGraph
from multigpu.wording import listed

MAX_LISTED = 8  # names in a message


@dataclass(frozen=True)
class ModelStage:
    """A part of a model that runs on one device.

    Attributes:
        index: position among the stages, from 0.
        calls: the calls of its layers, in an order in which they can run.
        batch_inputs: keys of the model's inputs that it takes.
        inputs: keys of the values that it takes from earlier stages.
        outputs: keys of the values that it computes for stages after it, or that the model returns.
    """

    index: int
    calls: tuple[LayerCall, ...]
    batch_inputs: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def layers(self) -> list[keras.Layer]:
        """Return the stage's layers, each once."""
        layers = {id(call.layer): call.layer for call in self.calls if isinstance(call.layer, keras.Layer)}
        return list(layers.values())

    @property
    def variables(self) -> list[Any]:
        """Return the variables of the stage's layers, those of seeds and metrics included."""
        return list({id(v): v for layer in self.layers for v in layer.variables}.values())


def cut(graph: LayerGraph, names: Sequence[Sequence[str]]) -> list[ModelStage]:
    """Return the stages of a model.

    Inputs need not be named, nor operations that are not layers (`x + y`): an input belongs to the stage that
    first uses it, an operation to the latest stage whose values it takes.

    Args:
        graph: the model's calls of layers.
        names: of each stage's layers.

    Raises:
        ValueError: a layer is named twice or not at all, or does not exist; a stage has none; a layer needs a
            value of a later stage; or stages share a layer or a variable.
    """
    stage_of = _stages_of_names(graph, names)
    stages = _stages_of_calls(graph, stage_of)
    _check_order(graph, stages)
    made_in = {key: stage for call, stage in zip(graph.calls, stages, strict=True) for key in call.outputs}
    last = len(names) - 1
    cuts = []
    for index in range(len(names)):
        calls = tuple(call for call, stage in zip(graph.calls, stages, strict=True) if stage == index)
        taken = [key for call in calls for key in call.inputs]
        if index == last:
            taken += graph.outputs
        later = {
            key
            for call, stage in zip(graph.calls, stages, strict=True)
            if stage > index
            for key in call.inputs
        }
        made = [key for call in calls for key in call.outputs if key in later or key in graph.outputs]
        of_batch = dict.fromkeys(key for key in taken if key not in made_in)
        of_stages = dict.fromkeys(key for key in taken if made_in.get(key, index) != index)
        cuts.append(ModelStage(index, calls, tuple(of_batch), tuple(of_stages), tuple(dict.fromkeys(made))))
    _check_variables(cuts)
    return cuts


def check_all_variables(inner: keras.Model, variables: Sequence[Any]) -> None:
    """Raise an error if a subclassed model has weights that belong to none of its stages."""
    known = {id(variable) for variable in variables}
    strays = [weight.path for weight in inner.weights if id(weight) not in known]
    if strays:
        raise ValueError(
            f"{type(inner).__name__}.stages: the weights {listed(strays)} belong to none of its "
            "layers; every weight must belong to a layer of one stage"
        )


def _stages_of_names(graph: LayerGraph, names: Sequence[Sequence[str]]) -> dict[str, int]:
    if any(isinstance(stage, str) for stage in names):
        raise ValueError(
            f"`stages`: expected a list of layer names for each stage, received {list(names)!r}; write "
            '[["first"], ["second", "third"]]'
        )
    inputs = {tensor.name for tensor in keras.tree.flatten(graph.input) if tensor is not None}
    names = [[name for name in stage if name not in inputs] for stage in names]
    calls = [call for call in graph.calls if isinstance(call.layer, keras.Layer)]
    layers = list(dict.fromkeys(call.layer.name for call in calls))
    known = {call.layer.name for call in graph.calls}
    if len(names) > len(layers):
        raise ValueError(f"`stages`: expected at most {len(layers)}, one a layer, received {len(names)}")
    stage_of: dict[str, int] = {}
    for index, stage in enumerate(names):
        if not stage:
            raise ValueError(f"`stages`: stage {index} has no layers; every stage needs one")
        for name in stage:
            if name in stage_of:
                raise ValueError(
                    f"`stages`: layer {name!r} is in stages {stage_of[name]} and {index}; name it once"
                )
            if name not in known:
                raise ValueError(
                    f"`stages`: the model has no layer {name!r}; it has {_quoted(layers)}; layers within "
                    "one of them cannot be named"
                )
            stage_of[name] = index
    if missing := [name for name in layers if name not in stage_of]:
        raise ValueError(f"`stages`: layers {_quoted(missing)} are in no stage; name each once")
    return stage_of


def _stages_of_calls(graph: LayerGraph, stage_of: dict[str, int]) -> list[int]:
    """Return the stage of each call: that of its layer, for other operations the latest it takes from."""
    made_in: dict[int, int] = {}
    stages: list[int | None] = []
    for call in graph.calls:
        before = [made_in[key] for key in call.inputs if key in made_in]
        stage = stage_of.get(call.layer.name, max(before, default=None))
        stages.append(stage)
        if stage is not None:
            made_in.update(dict.fromkeys(call.outputs, stage))
    # operations on inputs only are in the stage that first uses their result
    uses: dict[int, int] = {}
    for index in reversed(range(len(stages))):
        call, stage = graph.calls[index], stages[index]
        if stage is None:
            stage = stages[index] = min((uses[key] for key in call.outputs if key in uses), default=0)
        for key in call.inputs:
            uses[key] = min(stage, uses.get(key, stage))
    return [stage for stage in stages if stage is not None]


def _check_order(graph: LayerGraph, stages: Sequence[int]) -> None:
    made_by = {
        key: (call.layer.name, stage)
        for call, stage in zip(graph.calls, stages, strict=True)
        for key in call.outputs
    }
    num_calls: dict[int, int] = {}
    for call in graph.calls:
        num_calls[id(call.layer)] = num_calls.get(id(call.layer), 0) + 1
    for call, stage in zip(graph.calls, stages, strict=True):
        for key in call.inputs:
            source, source_stage = made_by.get(key, ("", stage))
            if source_stage <= stage:
                continue
            if num_calls[id(call.layer)] > 1:
                raise ValueError(
                    f"`stages`: layer {call.layer.name!r} of stage {stage} is shared: it is called again "
                    f"with the output of {source!r} of stage {source_stage}; put both into one stage"
                )
            raise ValueError(
                f"`stages`: cannot cut at the output of {source!r} of stage {source_stage}: layer "
                f"{call.layer.name!r} of stage {stage}, an earlier one, needs this tensor"
            )


def _check_variables(stages: Sequence[ModelStage]) -> None:
    owners: dict[int, tuple[int, str]] = {}
    for stage in stages:
        for layer in stage.layers:
            for variable in layer.variables:
                owner, name = owners.setdefault(id(variable), (stage.index, layer.name))
                if owner != stage.index:
                    raise ValueError(
                        f"`stages`: {name!r} of stage {owner} and {layer.name!r} of stage {stage.index} "
                        f"share the variable {variable.path}; put both into one stage"
                    )


def _quoted(names: Sequence[str]) -> str:
    return listed(list(map(repr, names)), MAX_LISTED)
