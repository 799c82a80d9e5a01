"""Export to LiteRT (TensorFlow Lite): `model.tflite`."""
