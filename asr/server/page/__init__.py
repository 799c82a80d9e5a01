"""Shows people a page on which they record or choose audio, and read, play and keep its transcript."""
