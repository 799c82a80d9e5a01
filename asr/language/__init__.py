"""Provide language models: n-grams over units, and the conversion of syllables to characters."""
