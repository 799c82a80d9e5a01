"""A model in one file, which Polyphone uses wherever a run is."""
