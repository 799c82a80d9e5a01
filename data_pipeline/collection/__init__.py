"""Collect recordings of sentences that people read: what they read, what they recorded, and its corpus."""
