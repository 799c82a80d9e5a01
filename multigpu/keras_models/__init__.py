"""The faces that Keras's users see, and Keras's private names."""
