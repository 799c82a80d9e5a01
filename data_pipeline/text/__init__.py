"""Running text, segmented into words for language models."""
