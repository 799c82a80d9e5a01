"""The layers of each family of networks, in ONNX."""
