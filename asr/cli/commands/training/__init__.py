"""Commands that train, evaluate and export models."""
