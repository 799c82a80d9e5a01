"""Collects a corpus by recording: sentences to read, the judgement of each take, takes on disk."""
