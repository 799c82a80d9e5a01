"""Transcribes sound while it is still coming in."""
