"""Commands that make and check corpora."""
