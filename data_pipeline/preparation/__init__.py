"""Corpora as downloaded -> manifests."""
