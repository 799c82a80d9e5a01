"""Polyphone's recogniser: signal, model, training loop, decoding. Importing it imports no TensorFlow."""

__version__ = "0.1.0"
