"""Corpora -> manifests -> batches."""
