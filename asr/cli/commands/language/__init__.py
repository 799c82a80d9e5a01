"""Commands about language models."""
