"""Turns audio into text: decoding, long recordings, streams and alignment."""
