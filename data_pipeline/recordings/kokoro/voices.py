"""Read Kokoro's voices, and mix them to more speakers than there are voices.

A voice is a table of styles, one for each number of symbols to say. Voices are mixed by averaging their
styles. Names of Mandarin voices begin with z.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.base.text.wording import listed

STYLE_SIZE = 256
MANDARIN = "z"
# percent of the second voice; a speaker stays nearer to a voice that knows Mandarin
SHARES = (0, 20, 35, 50)
# the tones of Xi'an, whatever the labels say: the first low, the third falling, the fourth high
OTHER_TONES = frozenset({"zf_xiaoni"})
MOST_LISTED = 60
SOURCE = "expected a folder of .bin files as in the npm package kokoro-js, or voices-v1.0.bin of kokoro-onnx"

Styles: TypeAlias = npt.NDArray[np.float32]  # (N, 256), for 1, ..., N symbols
Voices: TypeAlias = Mapping[str, Styles]


@dataclass(frozen=True)
class Speaker:
    """A voice, or a mixture of two.

    Attributes:
        voice: speaks Mandarin.
        other: mixed with it.
        share: percent of the other one.
    """

    voice: str
    other: str
    share: int

    @property
    def name(self) -> str:
        """Return the name in manifests, such as zf_xiaobei+af_heart-35."""
        is_mixed = self.share and self.other != self.voice
        return f"{self.voice}+{self.other}-{self.share}" if is_mixed else self.voice


def read_voices(path: Path) -> Voices:
    """Return the voices of a folder with a file for each, or of a file with all of them, by name.

    Raises:
        UserError: there are none, or a file does not hold styles.
    """
    try:
        if path.is_dir():
            found = {file.stem: _of_file(file) for file in sorted(path.glob("*.bin"))}
        elif zipfile.is_zipfile(path):
            with np.load(path, allow_pickle=False) as arrays:
                found = {name: _checked(f"{path}: {name}", arrays[name]) for name in sorted(arrays)}
        else:
            found = {path.stem: _of_file(path)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot read these voices ({reason}); {SOURCE}") from None
    if not found:
        raise UserError(f"{path}: no voices in this folder; {SOURCE}")
    return found


def _of_file(path: Path) -> Styles:
    data = path.read_bytes()
    if len(data) % (4 * STYLE_SIZE):
        raise UserError(
            f"{path}: expected styles of {STYLE_SIZE} float32 numbers, received {len(data):,} bytes; "
            "download it again"
        )
    return _checked(str(path), np.frombuffer(data, "<f4"))


def _checked(name: str, numbers: npt.NDArray[np.generic]) -> Styles:
    """Return an array of a file as styles; raise a UserError if it cannot be a voice."""
    if not isinstance(numbers, np.ndarray):  # of an archive of other files
        raise UserError(f"{name}: expected an array of NumPy; {SOURCE}")
    if numbers.dtype.kind != "f" or not numbers.size or numbers.size % STYLE_SIZE:
        raise UserError(
            f"{name}: expected styles of {STYLE_SIZE} float32 numbers, received {numbers.dtype} of shape "
            f"{numbers.shape}; {SOURCE}"
        )
    styles: Styles = np.asarray(numbers, np.float32).reshape(-1, STYLE_SIZE)
    if not np.isfinite(styles).all():
        raise UserError(f"{name}: expected finite numbers, received others; download it again")
    return styles


def without(voices: Voices, excluded: Collection[str]) -> Voices:
    """Return the voices that are not excluded, nor say other tones than those of their labels.

    Raises:
        UserError: there is no voice of such a name, or no Mandarin voice remains.
    """
    if unknown := sorted(set(excluded) - set(voices)):
        raise UserError(
            f"no voice {unknown[0]!r} to exclude; expected one of {listed(sorted(voices), MOST_LISTED)}"
        )
    unused = OTHER_TONES.union(excluded)
    kept = {name: styles for name, styles in voices.items() if name not in unused}
    if not any(name.startswith(MANDARIN) for name in kept):
        raise UserError(
            "expected at least one voice of standard Mandarin, whose name begins with z (zf_xiaoni has other "
            "tones); received " + (listed(sorted(kept), MOST_LISTED) or "none")
        )
    return kept


def draw_speaker(names: Sequence[str], rng: np.random.Generator) -> Speaker:
    """Draw a Mandarin voice, another voice, and the share of that."""
    mandarin = [name for name in names if name.startswith(MANDARIN)]
    voice, other = mandarin[int(rng.integers(len(mandarin)))], names[int(rng.integers(len(names)))]
    return Speaker(voice, other, SHARES[rng.integers(len(SHARES))])


def style_of(speaker: Speaker, voices: Voices, num_symbols: int) -> Styles:
    """Return the style, (1, 256), in which a speaker says a number of symbols."""
    share = np.float32(speaker.share / 100)
    first, second = (
        styles[min(num_symbols, len(styles)) - 1] for styles in (voices[speaker.voice], voices[speaker.other])
    )
    mixed: Styles = ((1 - share) * first + share * second)[None]
    return mixed
