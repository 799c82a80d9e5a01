"""Writes acoustic models as ONNX graphs, one function a kind of layer."""
