"""Checks manifests, recordings and labels before training."""
