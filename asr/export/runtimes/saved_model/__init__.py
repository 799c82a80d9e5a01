"""Export to TensorFlow's SavedModel, for TensorFlow Serving."""
