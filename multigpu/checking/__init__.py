"""Proofs that every device computes, forward and backward."""
