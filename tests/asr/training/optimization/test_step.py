"""The training step, from audio to weights, can run on a GPU as a whole."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from asr.base.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.base.registry import SIZED_NETWORKS
from asr.base.types import Batch
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.tensorflow_runner import BATCH_SIGNATURE
from asr.training.optimization.objective import make_objective
from asr.training.optimization.optimizer import make_optimizer
from asr.training.optimization.step import clip, make_step
from multigpu.engines import make_engine

VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])
ANY_DEVICE = "DEFAULT"  # what TensorFlow calls the kernels of control flow and bookkeeping


def kinds_of_operations(graph: tf.Graph) -> Iterator[str]:
    """Yield the kind of each operation of a graph and of the functions that it calls."""
    definition = graph.as_graph_def()
    yield from (node.op for node in definition.node)
    for function in definition.library.function:
        yield from (node.op for node in function.node_def)


def without_gpu_kernel(kinds: set[str]) -> set[str]:
    """Return the kinds of operations that TensorFlow can run on the host alone."""
    return {
        kind
        for kind in kinds
        if not {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(kind).kernel}
        & {"GPU", ANY_DEVICE}
    }


@pytest.mark.skipif(bool(without_gpu_kernel({"MatMul"})), reason="this TensorFlow is built without GPUs")
@pytest.mark.parametrize(
    "family",
    ["separable", *(pytest.param(f, marks=pytest.mark.slow) for f in ("conformer", "dcnn251bn", "dcnn24"))],
)
def test_every_operation_of_the_step_has_a_gpu_kernel(family):
    """Every term of the loss is on, and the warm-up has an end."""
    config = Config(
        augment=AugmentConfig(frequency_warp=0.1, time_masks=1),
        model=ModelConfig(
            family=family,
            stem="2d_fast" if family == "separable" else "1d",
            intermediate_ctc="0.7" if family in SIZED_NETWORKS else "",
            intermediate_units="phones" if family in SIZED_NETWORKS else "tokens",
            self_conditioned=family in SIZED_NETWORKS,
            chunk_s=0.32 if family == "conformer" else 0.0,
        ),
        train=TrainConfig(consistency=0.2),
    )
    engine = make_engine("", ["/CPU:0"])
    with engine.scope():
        model = make_acoustic_model(config, VOCABULARY, for_training=True)
        optimizer = make_optimizer(config.train, 10)
        optimizer.build(model.trainable_variables)
    phone_ids = VOCABULARY.phone_ids() if family in SIZED_NETWORKS else ()
    objective = make_objective(config.train, optimizer, warmup_steps=1, phone_ids=phone_ids)
    step = make_step(engine, model, optimizer, config.train, objective)
    traced = tf.function(lambda *batch: step(Batch(*batch), 2), autograph=False)
    kinds = set(kinds_of_operations(traced.get_concrete_function(*BATCH_SIGNATURE).graph))
    assert {"MatMul", "DepthwiseConv2dNative" if family in SIZED_NETWORKS else "Conv2D"} <= kinds
    assert without_gpu_kernel(kinds) == set()
    assert without_gpu_kernel({"CTCLoss"}) == {"CTCLoss"}  # the list is not empty by mistake


def test_rows_that_are_used_several_times_count_once_in_the_norm():
    rows = tf.IndexedSlices(tf.constant([[3.0], [1.0], [-3.0]]), tf.constant([0, 1, 0]), tf.constant([2, 1]))
    (clipped, frozen), norm = clip([rows, None], 0.5)
    assert frozen is None
    assert float(norm) == 1.0
    np.testing.assert_allclose(clipped, [[0.0], [0.5]])
