"""Serves a model to the clients that people have: ASRT's, OpenAI's, and those of other servers."""
