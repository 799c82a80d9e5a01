"""Models in one file, and what a user may name in place of a run's directory."""
