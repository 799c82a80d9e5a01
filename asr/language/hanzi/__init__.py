"""Convert toned syllables to Chinese characters."""
