"""List the suffixes of audio files; a test shows that every format is read."""

from __future__ import annotations

# of libsndfile's formats, without Sound Designer's .sd2, which libsndfile cannot read from a plain file
AUDIO_SUFFIXES = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf"),
    *(".w64", ".rf64", ".voc", ".sph", ".nist", ".mat", ".paf", ".sf", ".wve", ".htk"),
)
