"""The published corpora, one module each."""
