"""Text -> labels: units of the vocabulary, hanzi by their readings."""
