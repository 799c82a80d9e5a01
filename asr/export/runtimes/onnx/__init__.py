"""Exports a model as an ONNX graph, and runs the folder by ONNX Runtime."""
