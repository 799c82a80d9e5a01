"""Manifests, and lists of what is left out of them."""
