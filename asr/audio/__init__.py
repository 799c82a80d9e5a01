"""Sound: reading recordings, finding speech in them."""
