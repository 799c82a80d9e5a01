"""Train acoustic models: the training loop, its step, and the checks that watch it."""
