"""The page on which people read sentences aloud."""
