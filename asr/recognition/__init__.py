"""Audio to text: decoding, long recordings, streams, alignment."""
