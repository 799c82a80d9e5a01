"""Which files are recordings, by their suffixes, and how one that cannot be read is converted.

Exported folders contain a copy of this module.
"""

from __future__ import annotations

import shlex
from pathlib import Path

# of libsndfile's formats, without Sound Designer's .sd2, which libsndfile cannot read from a plain file
_OF_LIBSNDFILE = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf"),
    *(".w64", ".rf64", ".voc", ".sph", ".nist", ".mat", ".paf", ".sf", ".wve", ".htk"),
)
_OF_PYAV = (
    *(".m4a", ".m4b", ".m4r", ".mp4", ".m4v", ".mov", ".qt", ".3gp", ".3gpp", ".3g2", ".3ga", ".f4v"),
    *(".aac", ".adts", ".amr", ".awb", ".wma", ".wmv", ".asf", ".webm", ".weba", ".mkv", ".mka"),
    *(".avi", ".flv", ".ogv", ".ogx", ".spx", ".mpg", ".mpeg", ".mpga", ".mp2", ".vob", ".mts"),
    *(".m2ts", ".m2t", ".ts", ".mod"),
)
# recordings all the same: they are named as unreadable, not passed over
_OF_OTHERS = (
    *(".ape", ".wv", ".tta", ".tak", ".ra", ".rm", ".rmvb", ".ac3", ".eac3", ".dts", ".dsf", ".dff", ".gsm"),
    *(".vox", ".qcp", ".silk", ".slk", ".aud", ".dss", ".ds2", ".dvf", ".m4p", ".aax", ".aa"),
    *(".evrc", ".mpc", ".shn"),
)
READABLE_SUFFIXES = (*_OF_LIBSNDFILE, *_OF_PYAV)
AUDIO_SUFFIXES = (*READABLE_SUFFIXES, *_OF_OTHERS)


def conversion(name: str) -> str:
    """Return the command that converts a recording to a WAV file."""
    wav = Path(name).with_suffix(".wav")
    wav = wav.with_name(f"{wav.stem}-16k.wav") if str(wav) == name else wav
    return f"ffmpeg -i {shlex.quote(name)} -ac 1 -ar 16000 {shlex.quote(str(wav))}"
