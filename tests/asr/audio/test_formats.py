import numpy as np
import pytest
import soundfile

from asr.audio.formats import AUDIO_SUFFIXES
from asr.audio.recording import read_audio

FORMATS = {
    **{suffix: suffix[1:].upper() for suffix in (".wav", ".flac", ".mp3", ".aiff", ".au", ".caf", ".w64")},
    **{suffix: suffix[1:].upper() for suffix in (".rf64", ".voc", ".paf", ".wve", ".htk", ".ogg", ".nist")},
    **{".oga": "OGG", ".opus": "OGG", ".aif": "AIFF", ".aifc": "AIFF", ".snd": "AU", ".sph": "NIST"},
    **{".mat": "MAT5", ".sf": "IRCAM"},
}


@pytest.mark.parametrize("suffix", AUDIO_SUFFIXES)
def test_every_listed_suffix_is_a_readable_format(suffix, tmp_path):
    rate_hz = 8000 if suffix == ".wve" else 16000
    path = tmp_path / f"a{suffix}"
    sound = np.sin(np.arange(rate_hz) / 10) / 4
    subtype = "OPUS" if suffix == ".opus" else None
    soundfile.write(path, sound, rate_hz, format=FORMATS[suffix], subtype=subtype)
    assert len(read_audio(str(path))) > 0
