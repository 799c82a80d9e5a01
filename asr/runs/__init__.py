"""Read and write a run's directory: its settings, state, metrics and checkpoints."""
