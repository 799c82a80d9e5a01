"""Provides a Keras model whose layers are on several devices, for models that do not fit on one.

from multigpu import StagedModel

model = StagedModel(inner, [["stem", "block0"], ["block1", "head"]], devices=2, num_micro_batches=4)
model.compile("adam", "mse")
model.fit(x, y, batch_size=64)              # 16 rows at a time pass from device to device
model.save("model.keras")                   # the plain inner model, without any devices

`python -m multigpu check --stages 2` proves on the machine's devices that each stage runs on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from multigpu.devices import DeviceSpec, parse_devices
from multigpu.keras_models.wrapped_model import WrappedModel
from multigpu.replication.keras_internals import LayerGraph, are_weights_made_later, compiled_loss
from multigpu.replication.model_towers import LossAndGradients
from multigpu.replication.state import check_stateless
from multigpu.replication.stateless import with_masks
from multigpu.replication.towers import Structure, Tensor, as_tensors, share_out
from multigpu.stages.balance import even_stages
from multigpu.stages.cut import check_all_variables, cut
from multigpu.stages.finish import LossOfOutputs, finish_with_loss, finish_without_loss
from multigpu.stages.layer_graph import layer_graph
from multigpu.stages.measure import LayerCost, measure_layers, sample_of
from multigpu.stages.pipeline import HOST, Pipeline, grouped
from multigpu.stages.placement import StagePlacement, stage_placements
from multigpu.stages.weights import place_weights, placed_optimizer


class StagedModel(WrappedModel):
    """A model that runs each stage of `inner`, some of its layers, on its own device, and saves `inner`.

    The weights of a stage are on its device, and so are the optimiser's variables for them. Both passes of a
    stage run there: each has a gradient tape for each micro-batch, in the scope of its device, and hands the
    gradient of what it took back to the stage that made it.

    With several times as many devices as stages, the stages are replicated: each replica runs on a group of
    devices that follow each other, with its share of every batch. Weights and the optimiser's state are on
    the devices of the first replica, where gradients are summed; the others copy the weights in each step.

    A share is cut into micro-batches, which differ by one row at most and follow each other through the
    stages, so that all devices work at the same time; with S stages and M micro-batches, a device waits for
    others (S - 1) / (M + S - 1) of the time. Stage k, counted from 0, holds the activations of at most S - k
    micro-batches. Gradients are summed, each weighted by its rows, and applied once: the step equals that
    of one device with the whole batch. So batch size and learning rate mean the same as there.

    `inner` may be a functional or a Sequential model, whose tensors may skip stages, or a subclassed one with
    a method `stages()` that returns layers, each of which is called with what the one before returned.

    Losses are as for `ParallelModel`: any reduction except "none", masks and weights; values that layers pass
    to `add_loss` must be means over rows. A loss that is a mean over unmasked frames or over sample weights
    makes the micro-batches run stage by stage, so that all of them hold activations.

    Batch normalisation uses the statistics of each micro-batch's rows, and its moving statistics take their
    mean, weighted by their rows: one update a step. Layers made with `synchronized=True` use the statistics
    of the whole batch, so that the step equals that of one device here, too; micro-batches then run stage by
    stage.

    Each micro-batch draws dropout masks of its own, the same whatever the devices; the first one draws those
    that one device would.

    Batches may have any size: where one has fewer rows than micro-batches, the remaining ones repeat a row
    with a weight of 0. A call of the model has no gradient: it would be computed outside of the stages. Use
    `loss_and_gradients`.
    With `run_eagerly=True`, for debugging, stages and updates of weights run where they should, one after the
    other, but what an optimiser does with all gradients, such as clipping by their norm, on one device.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time. If it does not fit on
            one device, make it within `tf.device("/CPU:0")`, from whose memory its weights are moved.
        stages: names of the layers of each stage; inputs, and operations that are not layers, need not be
            named. Or the number of stages: then each layer is measured, forward and backward, and the model
            cut where time and memory are most even.
        devices: one for each stage, or several times as many, as `multigpu.devices.parse_devices` takes them.
        num_micro_batches: number of parts of each replica's share of a batch, best several times the number
            of stages.
        recompute: whether all stages but the last keep only what they took, and repeat the forward pass
            before the backward pass, which takes less memory and more time. `placement` does not count what
            they took.
        sample: what `inner` is called with, a few rows, to measure layers by; needed for a number of stages
            where the shapes of its inputs are not known. Named layers are measured, for `placement`, only
            with a sample.
        name: name of the staged model.

    Raises:
        DeviceError: a device does not exist.
        ValueError: the model cannot be cut in this way, a layer is stateful, or the number of devices is no
            multiple of that of the stages.
        TypeError: `inner` has a `train_step`, `test_step` or `predict_step` of its own, is in stages already,
            or is subclassed without a method `stages`.
    """

    instead_of_own_step = "give compile a loss"

    def __init__(
        self,
        inner: keras.Model,
        stages: int | Sequence[Sequence[str]],
        devices: DeviceSpec,
        *,
        num_micro_batches: int,
        recompute: bool = False,
        sample: Structure | None = None,
        name: str | None = None,
    ) -> None:
        if num_micro_batches < 1:
            raise ValueError(f"`num_micro_batches`: expected at least 1, received {num_micro_batches}")
        super().__init__(inner, name or f"staged_{inner.name}")
        self.devices = parse_devices(devices)
        self.num_micro_batches, self.recompute = num_micro_batches, recompute
        self._requested, self._sample = stages, sample
        num_stages = stages if isinstance(stages, int) else len(stages)
        self._replicas = list(grouped(self.devices, num_stages))
        check_stateless(inner, len(self._replicas) * num_micro_batches)
        self._pipeline: Pipeline | None = None
        self._costs: list[LayerCost] = []  # of a sample, where the layers were measured
        self._sample_rows = 1
        if inner.built:
            self.build_inner()
        if inner.compiled:  # a loaded model continues with its optimiser's state
            self.compile_as_inner()

    @tf.autograph.experimental.do_not_convert
    def loss_and_gradients(
        self, loss_of: LossOfOutputs, x: Structure, *rows: Structure, scale: Tensor | float = 1.0
    ) -> LossAndGradients:
        """Return the loss, outputs and gradients of a batch, each stage's computed on its own device.

        A training loop of your own calls it::

            def loss_of(predicted, y):
                return tf.reduce_mean(keras.losses.mean_squared_error(y, predicted))

            @tf.function
            def step(x, y):
                loss, predicted, gradients = staged.loss_and_gradients(loss_of, x, y)
                optimizer.apply(gradients, staged.trainable_variables)

        The optimiser should be that of `staged.place_optimizer(optimizer)`. The loss includes regularisers
        and values that layers passed to `add_loss`.

        Args:
            loss_of: `loss_of(outputs, *rows)` returns the mean loss over these rows; AutoGraph does not
                convert it.
            x: what the model is called with.
            *rows: further tensors of the batch or structures of them, with rows.
            scale: factor of the gradients, for loss scaling in mixed precision.
        """
        self.build_inner(x)
        loss, (outputs, masks), gradients = self._step(loss_of, scale, x, *rows)
        return LossAndGradients(loss, with_masks(outputs, masks), gradients)

    def place_optimizer(self, optimizer: Any) -> Any:
        """Return an optimiser that keeps its state and updates weights on the devices of the stages.

        It is the same object, unless it has state already, which is copied.
        """
        return placed_optimizer(optimizer, self.inner.trainable_variables)

    def placement(self, optimizer: Any = None, num_rows: int | None = None) -> list[StagePlacement]:
        """Return what each stage's devices hold of the model, stage by stage.

        Args:
            optimizer: one that is built for the model.
            num_rows: number of rows of a batch, each like those of `sample`, by which activations are
                estimated; by default those of `sample`.
        """
        pipeline = self.pipeline
        num_samples = (1.0 if num_rows is None else num_rows / self._sample_rows) / len(pipeline.replicas)
        return stage_placements(
            pipeline.stages,
            list(zip(*pipeline.replicas, strict=True)),
            optimizer,
            self._costs,
            [num_samples / pipeline.num_micro_batches * pipeline.num_held(s) for s in pipeline.stages],
        )

    @property
    def pipeline(self) -> Pipeline:
        """Return what runs the stages.

        Raises:
            ValueError: the model has no weights yet.
        """
        if self._pipeline is None:
            raise ValueError(f"{self.inner.name}: not built yet, so it is not cut; call it on a batch first")
        return self._pipeline

    # what Keras calls

    @override
    def compile(self, *args: Any, jit_compile: bool | str = "auto", **kwargs: Any) -> None:
        """Compile the model as in Keras, and `inner` as well, so that it is saved with its optimiser's state.

        Args:
            *args: arguments of `keras.Model.compile`, or of the model's own.
            jit_compile: not True, since XLA would put the whole step on one device.
            **kwargs: further arguments of the same.

        Raises:
            TypeError: `inner` has a `compute_loss` of its own.
            ValueError: `jit_compile` is True.
        """
        if jit_compile is True:
            raise ValueError(
                "jit_compile=True: XLA would put all stages on one device; leave jit_compile out"
            )
        self.compile_inner(False, *args, **kwargs)

    @override
    def compile_as_inner(self) -> None:
        if type(self.inner).compute_loss is not keras.Model.compute_loss:
            raise TypeError(
                f"{type(self.inner).__name__} has a compute_loss of its own, which needs the weights of all "
                "stages on one device; give compile a loss, or write a loop with "
                "StagedModel.loss_and_gradients without compile"
            )
        self.inner.optimizer = self.place_optimizer(self.inner.optimizer)
        super().compile_as_inner()

    @override
    def build_inner(self, *args: Structure, **kwargs: Structure) -> None:
        """Create the inner model's variables if it has none, cut it, and move weights to their devices."""
        # in init_scope, weights have values, which can be moved, while a step is traced; no device may have
        # memory for all of them
        with tf.init_scope(), tf.device(HOST):
            super().build_inner(*args, **kwargs)
        if are_weights_made_later():
            return
        with tf.init_scope():
            if self._pipeline is None:
                self._pipeline = self._cut()
            # weights may be made after the cut: those of LoRA, or of a quantized layer
            moved = place_weights(self.inner, self._pipeline.stages, self._replicas[0])
            optimizer = self.inner.optimizer if self.compiled else None
            if moved and optimizer is not None and optimizer.built:  # for the weights before they moved
                self.inner.optimizer = self.optimizer = self.place_optimizer(optimizer)

    def _cut(self) -> Pipeline:
        graph = layer_graph(self.inner)
        stages = cut(graph, self._layer_names(graph))
        check_all_variables(self.inner, [v for stage in stages for v in stage.variables])
        return Pipeline(
            self.inner, graph, stages, self._replicas, self.num_micro_batches, recompute=self.recompute
        )

    def _layer_names(self, graph: LayerGraph) -> Sequence[Sequence[str]]:
        """Return the names of each stage's layers, measured where only the number of stages is given."""
        requested = self._requested
        if self._sample is None and not isinstance(requested, int):
            return requested
        sample = as_tensors(sample_of(graph) if self._sample is None else self._sample)
        self._sample_rows = share_out(sample, 1)[0].num_rows
        self._costs = measure_layers(graph, sample, self.devices[0])
        return even_stages(self._costs, requested) if isinstance(requested, int) else requested

    @override
    def call(self, inputs: Structure, *more: Structure, training: bool | None = None) -> Structure:
        """Return the outputs of the whole batch, without gradients.

        Args:
            inputs: what `inner` is called with.
            *more: further arguments of `inner`; its first stage is called with a tuple of all.
            training: whether layers train.
        """
        self.build_inner(inputs, *more)
        if self._pipeline is None:
            return self.inner(inputs, *more, training=training)  # for the shapes of the outputs
        x = (inputs, *more) if more else inputs
        _, (outputs, masks) = self.pipeline.forward(finish_without_loss, x, training=bool(training))
        return with_masks(tf.nest.map_structure(_without_gradient, outputs), masks)

    @override
    def compute_step(
        self, x: Structure, y: Structure, sample_weight: Structure, scale: Tensor | float
    ) -> LossAndGradients:
        return self._step(self._compiled_loss(), scale, x, y, sample_weight)

    @override
    def compute_losses(
        self, x: Structure, y: Structure, sample_weight: Structure
    ) -> tuple[Tensor, Structure]:
        finish = finish_with_loss(self._compiled_loss())
        return self.pipeline.forward(finish, x, y, sample_weight, training=False)

    def _step(
        self, loss_of: LossOfOutputs, scale: Tensor | float, x: Structure, *rows: Structure
    ) -> LossAndGradients:
        return self.pipeline.loss_and_gradients(finish_with_loss(loss_of), scale, x, *rows)

    def _compiled_loss(self) -> Callable[..., Tensor]:
        """Return the loss given to `compile`, as a function of outputs, labels and sample weights."""
        losses = compiled_loss(self.inner)
        return lambda outputs, y, sample_weight: losses(y, outputs, sample_weight) if losses else None


@tf.custom_gradient
def _without_gradient(output: Tensor) -> Any:
    def backward(_: Tensor) -> Tensor:
        raise TypeError(
            "gradients through a call of a StagedModel would be computed outside of its stages; use "
            "StagedModel.loss_and_gradients"
        )

    return tf.identity(output), backward
