"""Reads hanzi: a word's reading by the dictionary, by the context, and by the tones of speech."""
