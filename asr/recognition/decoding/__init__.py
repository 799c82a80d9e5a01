"""Logits -> hypotheses."""
