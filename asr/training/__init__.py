"""Training: the loop, its step, and what watches it."""
