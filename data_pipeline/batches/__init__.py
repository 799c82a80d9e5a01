"""Utterances read as batches."""
