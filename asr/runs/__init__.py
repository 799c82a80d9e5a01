"""A run's directory: what is in it, its state, its checkpoints."""
