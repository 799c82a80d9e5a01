"""Language models: n-grams over units, and syllables to characters."""
