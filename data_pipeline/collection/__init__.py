"""Speech collection: prompts to read, and the takes of them."""
