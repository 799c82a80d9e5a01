"""Alignments as times: intervals of tokens, where a text does not fit, files for other programs."""
