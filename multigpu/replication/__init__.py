"""Towers: copies of a model that share a batch, in lockstep or one after the other."""
