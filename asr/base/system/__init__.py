"""Files, locks, signals and child processes."""
