"""Audio files by their names: every format below is read here, as a test shows."""

from __future__ import annotations

# what libsndfile names so; Sound Designer's .sd2 is missing, because libsndfile reads it from no plain file
AUDIO_SUFFIXES = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf"),
    *(".w64", ".rf64", ".voc", ".sph", ".nist", ".mat", ".paf", ".sf", ".wve", ".htk"),
)
