"""Tar archives of made recordings."""

import io
import tarfile

import numpy as np

from asr.audio.recording import encoded


def sound(seed, duration_s=0.5):
    return np.random.default_rng(seed).integers(-3000, 3000, int(16000 * duration_s)).astype(np.int16)


def flac(seed, duration_s=0.5):
    return encoded(sound(seed, duration_s), 16000, "FLAC", "PCM_16")


def write_tar(path, files, mode="w"):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            content = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
