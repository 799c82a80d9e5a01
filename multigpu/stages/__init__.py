"""Trains a model whose layers are on several devices: each stage of it on its own, forward and backward."""
