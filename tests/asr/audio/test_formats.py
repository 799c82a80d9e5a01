import numpy as np
import pytest
import soundfile
from helpers import media

from asr.audio.formats import AUDIO_SUFFIXES, READABLE_SUFFIXES, conversion
from asr.audio.recording import read_audio

FORMATS = {
    **{suffix: suffix[1:].upper() for suffix in (".wav", ".flac", ".mp3", ".aiff", ".au", ".caf", ".w64")},
    **{suffix: suffix[1:].upper() for suffix in (".rf64", ".voc", ".paf", ".wve", ".htk", ".ogg", ".nist")},
    **{".oga": "OGG", ".opus": "OGG", ".aif": "AIFF", ".aifc": "AIFF", ".snd": "AU", ".sph": "NIST"},
    **{".mat": "MAT5", ".sf": "IRCAM"},
}


# names of `helpers.media.FORMS`
MEDIA = {
    **{suffix: suffix[1:] for suffix in (".m4a", ".mp4", ".mov", ".mkv", ".webm", ".aac", ".wma", ".amr")},
    **{suffix: suffix[1:] for suffix in (".3gp", ".avi", ".flv", ".mpg")},
    **{".m4b": "m4a", ".m4r": "m4a", ".m4v": "mp4", ".qt": "mov", ".3gpp": "3gp", ".3g2": "3gp"},
    **{".f4v": "mp4", ".adts": "aac", ".wmv": "wma", ".asf": "wma", ".weba": "webm", ".mka": "mkv"},
    **{".mpeg": "mpg", ".vob": "mpg", ".mod": "mpg", ".3ga": "3gp"},
    **dict.fromkeys((".mts", ".m2ts", ".m2t", ".ts"), "ts"),
}
WITHOUT_ENCODER = {".awb", ".ogv", ".ogx", ".spx"}  # in PyAV's wheels
LIKE_MP3 = {".mpga", ".mp2"}  # libsndfile reads their frames


@pytest.mark.parametrize("suffix", sorted(set(READABLE_SUFFIXES) - WITHOUT_ENCODER))
def test_every_listed_suffix_is_a_readable_format(suffix, tmp_path):
    rate_hz = 8000 if suffix == ".wve" else 16000
    path = tmp_path / f"a{suffix}"
    sound = np.sin(np.arange(rate_hz) / 10) / 4
    if suffix in MEDIA:
        form = MEDIA[suffix]
        path.write_bytes(media.written((sound * 32767).astype(np.int16), form))
    else:
        kind = "MP3" if suffix in LIKE_MP3 else FORMATS[suffix]
        soundfile.write(path, sound, rate_hz, format=kind, subtype="OPUS" if suffix == ".opus" else None)
    assert len(read_audio(str(path))) == pytest.approx(16000, abs=1200)


def test_other_recordings_are_known_by_their_suffix():
    assert {".ape", ".rm", ".silk", ".m4p"} < set(AUDIO_SUFFIXES) - set(READABLE_SUFFIXES)


def test_conversion_does_not_write_to_the_recording_itself():
    assert conversion("a.wav").endswith("a-16k.wav")
    assert conversion("my memo.m4a") == "ffmpeg -i 'my memo.m4a' -ac 1 -ar 16000 'my memo.wav'"
