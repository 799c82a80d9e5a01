"""Train, read, write and query n-gram language models, without TensorFlow."""
