"""This package holds what all others use: types, vocabulary, configuration, files, locks, wording."""
