"""The private names of Keras exist, have the meaning we rely on, and are used in one module only."""

import keras
import numpy as np
import pytest
from helpers import ROOT, private_names

from asr.model import keras_internals


def test_no_other_module_uses_a_private_name_of_keras():
    assert private_names.uses(ROOT, "asr", "asr.model.keras_internals") == []
    assert private_names.overridden(ROOT, "asr", "asr.model.keras_internals") == []


def test_layers_of_a_model_are_found_directly_and_at_any_depth():
    inner = keras.Sequential([keras.layers.Dense(1)])
    outer = keras.Sequential([keras.Input((3,)), inner])
    assert {outer, inner, inner.layers[0]} <= set(keras_internals.layers_of(outer))
    assert inner in keras_internals.layers_directly_in(outer)
    assert not {outer, inner.layers[0]} & set(keras_internals.layers_directly_in(outer))


def test_the_learning_rate_of_an_optimizer_is_the_given_schedule():
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    assert keras_internals.learning_rate_given_to(keras.optimizers.SGD(schedule)) is schedule
    constant = keras_internals.learning_rate_given_to(keras.optimizers.SGD(0.5))
    assert float(constant) == pytest.approx(0.5)


@pytest.mark.parametrize(("gradient", "weight"), [(2.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)])
def test_an_unscaled_optimizer_skips_gradients_that_are_not_finite(gradient, weight):
    variable = keras.Variable(1.0)
    optimizer = keras_internals.UnscaledOptimizer(keras.optimizers.SGD(0.5), initial_scale=1.0)
    for _ in range(2):
        variable.assign(1.0)
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        assert float(variable) == weight
        assert float(optimizer.scale_loss(1.0)) == 1.0
