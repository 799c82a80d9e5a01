"""List the suffixes of audio files; a test shows that every format is read."""

from __future__ import annotations

# of libsndfile's formats, without Sound Designer's .sd2, which libsndfile cannot read from a plain file
AUDIO_SUFFIXES = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf"),
    *(".w64", ".rf64", ".voc", ".sph", ".nist", ".mat", ".paf", ".sf", ".wve", ".htk"),
)
# what people have as a recording, readable here or not: phones' files, videos, other audio
RECORDING_SUFFIXES = (
    *AUDIO_SUFFIXES,
    *(".m4a", ".m4b", ".mp4", ".m4v", ".mov", ".qt", ".3gp", ".3g2", ".mkv", ".mka", ".webm", ".weba"),
    *(".aac", ".adts", ".amr", ".awb", ".wma", ".wmv", ".asf", ".avi", ".flv", ".mpg", ".mpeg", ".mpga"),
    *(".mp2", ".ts", ".mts", ".m2ts", ".vob", ".ogv", ".ogx", ".spx", ".ac3", ".eac3", ".dts", ".ape"),
    *(".wv", ".tta", ".mpc", ".ra", ".rm", ".rmvb", ".silk"),
)
