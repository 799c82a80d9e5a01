"""Edits, error rates and their significance."""
