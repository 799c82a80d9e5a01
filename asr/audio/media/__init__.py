"""Recordings of phones, browsers and cameras, which libsndfile does not read; FFmpeg does, through PyAV."""
