"""A tiny network with the inputs and outputs of Kokoro, and voices for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOICES = ("zf_one", "zf_two", "zm_three", "af_four", "jm_five")
SYMBOL_SAMPLES = 2400  # 0.1 s at speed 1


def write_model(
    path: Path, symbols: str = "input_ids", speed_type: int = TensorProto.FLOAT, style_size: int = 256
) -> Path:
    """Write a network that plays a tone for each symbol, as loud as the style's mean.

    Args:
        path: of the file.
        symbols: name of the input of symbols.
        speed_type: type of the speed.
        style_size: numbers of a style.
    """
    constants = {"zero": 0.0, "one": 1.0, "samples": float(SYMBOL_SAMPLES), "radians": 0.01}
    initializers = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
    initializers.append(numpy_helper.from_array(np.array([1, -1]), "row"))
    initializers.append(numpy_helper.from_array(np.array([-1, 1]), "column"))
    initializers.append(numpy_helper.from_array(np.array([-1]), "flat"))
    nodes = [
        helper.make_node("Cast", [symbols], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["numbers", "column"], ["frequencies"]),  # (N, 1)
        helper.make_node("Cast", ["speed"], ["speed_"], to=TensorProto.FLOAT),
        helper.make_node("Squeeze", ["speed_"], ["rate"]),
        helper.make_node("Div", ["samples", "rate"], ["last"]),
        helper.make_node("Range", ["zero", "last", "one"], ["times"]),
        helper.make_node("Mul", ["times", "radians"], ["angles"]),
        helper.make_node("Reshape", ["angles", "row"], ["angles_"]),  # (1, S)
        helper.make_node("MatMul", ["frequencies", "angles_"], ["phases"]),
        helper.make_node("Sin", ["phases"], ["tones"]),
        helper.make_node("ReduceMean", ["style"], ["loudness"], keepdims=0),
        helper.make_node("Mul", ["tones", "loudness"], ["loud"]),
        helper.make_node("Reshape", ["loud", "flat"], ["audio"]),
    ]
    inputs = [
        helper.make_tensor_value_info(symbols, TensorProto.INT64, [1, "N"]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, style_size]),
        helper.make_tensor_value_info("speed", speed_type, [1]),
    ]
    outputs = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["S"])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def write_voices(folder: Path, names: Sequence[str] = VOICES, loudness: float = 0.4) -> Path:
    """Write a folder of voices as kokoro-js has it, each a little louder than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        styles = np.full((510, 1, 256), loudness * (1 + number / 10), "<f4")
        (folder / f"{name}.bin").write_bytes(styles.tobytes())
    return folder
