"""Toned syllables -> Chinese characters."""
