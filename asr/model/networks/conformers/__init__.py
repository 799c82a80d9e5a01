"""Conformers: their blocks, their attention, and attention in chunks."""
