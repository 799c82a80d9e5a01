import keras
import numpy as np
import pytest

from asr.training.optimization.moving_average import MovingAverage


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1), keras.layers.BatchNormalization()])
    for weight in model.weights:
        weight.assign(np.zeros(weight.shape))
    return model


def fill(model, value):
    for weight in model.weights:
        weight.assign(np.full(weight.shape, value))


def values(variables):
    return {float(value) for variable in variables for value in np.asarray(variable).ravel()}


def test_moving_average_decays_faster_at_first(model):
    average = MovingAverage(model, 0.5)
    expected = 0.0
    for step in range(1, 40):
        fill(model, step)
        average.update(step)
        kept = min(0.5, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * step
        assert [*values(average.variables)] == [pytest.approx(expected, rel=1e-5)]
    assert expected == pytest.approx(38.0, rel=1e-3)  # of 39, 38, 37 ... the half, a quarter, an eighth ...


def test_model_has_the_average_within_the_context_and_its_own_weights_after(model):
    average = MovingAverage(model, 0.9)
    fill(model, 7.0)
    with average.in_model():
        assert values(model.weights) == {0.0}
    assert values(model.weights) == {7.0}
    with pytest.raises(KeyboardInterrupt), average.in_model():
        raise KeyboardInterrupt
    assert values(model.weights) == {7.0}
    assert values(average.variables) == {0.0}


def test_moving_average_includes_batch_statistics(model):
    assert len(MovingAverage(model, 0.9).variables) == len(model.weights) == 6
