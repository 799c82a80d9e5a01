"""Read recordings, and find speech in them."""
