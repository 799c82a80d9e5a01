"""Tests which layers and tensors each stage has, and that an impossible cut is an error with its reason."""

import keras
import pytest

from multigpu.stages.cut import cut
from multigpu.stages.layer_graph import layer_graph


def skipping():
    """Return a model in which the output of `a` is used by `b` and again by `c`."""
    inputs = keras.Input((4,), name="x")
    a = keras.layers.Dense(4, name="a")(inputs * 2.0)
    b = keras.layers.Dense(4, name="b")(a)
    return keras.Model(inputs, keras.layers.Dense(2, name="c")(keras.layers.Add(name="sum")([a, b])))


def names(model, *stages):
    return [[layer.name for layer in stage.layers] for stage in cut(layer_graph(model), stages)]


def refuse(model, stages, words):
    with pytest.raises(ValueError, match=words):
        cut(layer_graph(model), stages)


def test_tensors_that_skip_a_stage_are_taken_from_where_they_are_made():
    first, second, third = cut(layer_graph(skipping()), [["a"], ["b"], ["sum", "c"]])
    assert first.batch_inputs
    assert not first.inputs
    assert second.inputs == first.outputs
    assert set(third.inputs) == set(first.outputs) | set(second.outputs)
    assert not third.batch_inputs


def test_operations_and_inputs_need_no_name():
    model = skipping()
    assert names(model, ["a"], ["b", "sum", "c"]) == [["a"], ["b", "sum", "c"]]
    assert names(model, ["x", "a"], ["c", "b", "sum"]) == [["a"], ["b", "sum", "c"]]
    # `inputs * 2.0` is in the stage that first uses it
    first, _ = cut(layer_graph(model), [["a"], ["b", "sum", "c"]])
    assert len(first.calls) == 2


def test_an_input_belongs_to_the_stage_that_uses_it():
    x, y = keras.Input((4,)), keras.Input((4,))
    hidden = keras.layers.Dense(4, name="a")(x)
    model = keras.Model([x, y], keras.layers.Dense(2, name="b")(keras.layers.Add(name="sum")([hidden, y])))
    first, second = cut(layer_graph(model), [["a"], ["sum", "b"]])
    assert len(first.batch_inputs) == len(second.batch_inputs) == 1


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([["a"], ["b"], ["c"], ["sum"], ["d"]], "expected at most 4, one a layer, received 5"),
        ([["a"], ["b", "a"], ["c", "sum"]], "'a' is in stages 0 and 1"),
        ([["a"], ["sum", "c"]], "'b' are in no stage"),
        ([["a"], [], ["b", "sum", "c"]], "stage 1 has no layers"),
        ([["a"], ["b", "c", "z"]], "no layer 'z'; it has 'a', 'b', 'sum', 'c'"),
        ([["b"], ["a"], ["sum", "c"]], "cannot cut at the output of 'a'.* 'b' of stage 0"),
        (["a", "b"], "list of layer names for each stage"),
    ],
)
def test_impossible_cut_is_an_error_with_the_name(stages, words):
    refuse(skipping(), stages, words)


def test_layer_called_in_two_stages_is_an_error():
    x, shared = keras.Input((4,)), keras.layers.Dense(4, name="shared")
    model = keras.Model(x, shared(keras.layers.Dense(4, name="between")(shared(x))))
    refuse(model, [["shared"], ["between"]], "'shared' of stage 0 is shared.*'between' of stage 1")
    assert names(model, ["shared", "between"]) == [["shared", "between"]]


class SameWeight(keras.layers.Layer):
    """Uses the weight of another layer."""

    def __init__(self, other, **kwargs):
        super().__init__(**kwargs)
        self.kernel = other.kernel

    def call(self, x):
        return x @ keras.ops.transpose(self.kernel)


def test_weight_used_in_two_stages_is_an_error():
    x, layer = keras.Input((4,)), keras.layers.Dense(3, name="embed")
    hidden = layer(x)
    model = keras.Model(x, SameWeight(layer, name="tied")(hidden))
    refuse(model, [["embed"], ["tied"]], "'embed' of stage 0 and 'tied' of stage 1 share the variable")


def test_subclassed_model_without_the_protocol_is_an_error_with_the_remedy():
    class Own(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(TypeError, match=r"Own has a call of its own.*method stages\(\)"):
        layer_graph(Own())

    class Wrong(Own):
        def stages(self):
            return [keras.ops.tanh]

    with pytest.raises(TypeError, match=r"Wrong.stages: expected a list of layers, received function"):
        layer_graph(Wrong())
