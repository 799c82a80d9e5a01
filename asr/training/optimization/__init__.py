"""A training step: objective, optimizer, schedule and what a batch may cost."""
