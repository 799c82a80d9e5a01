"""Adds reverberation to speech, by impulse responses of simulated rooms or measured ones.

A simulated response consists of single echoes and a diffuse tail. The echoes are images of the source behind
the six walls (Allen and Berkley, 1979), each reflection with a change of sign, so that echoes do not add up
to a hum (Lehmann and Johansson, 2008). The number of images grows with time: from 50 ms on they are
replaced by Gaussian noise with the power of all images (as in Lehmann and Johansson, 2010).

To be fast, walls absorb all frequencies alike, air absorbs none, and echoes arrive at whole samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.fft

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.system.storage.address import path_of
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.augment.sounds import (
    CACHE_BYTES,
    SoundCache,
    SoundPiece,
    check_sounds,
    find_sounds,
    read_response,
)

SPEED_OF_SOUND_M_PER_S = 343.0
EARLY_S = 0.05  # after the direct sound, in which echoes are simulated one by one
SMALLEST_M = np.array([2.5, 2.5, 2.3])  # length, width and height of a room
LARGEST_M = np.array([10.0, 8.0, 4.0])
WALL_DISTANCE_M = 0.4  # of the speaker and the microphone, at least
NEAREST_M = 0.3  # smallest distance between speaker and microphone
NUM_ROOMS = 256

Samples = npt.NDArray[np.float32]


def reverberate(speech: Samples, response: Samples) -> Samples:
    """Return speech in a room, of the same length, energy and delay; reverberation after its end is cut.

    Args:
        speech: (S,).
        response: (N,), which begins with the direct sound.
    """
    response = response[: len(speech)]
    length = scipy.fft.next_fast_len(len(speech) + len(response) - 1, real=True)
    spectrum = scipy.fft.rfft(speech, length) * scipy.fft.rfft(response, length)
    wet: Samples = scipy.fft.irfft(spectrum, length)[: len(speech)]
    power = np.square(wet).mean(dtype=np.float64)
    if power == 0:
        return speech
    return wet * np.float32(math.sqrt(np.square(speech).mean(dtype=np.float64) / power))


@dataclass(frozen=True)
class Room:
    """A box-shaped room with a speaker and a microphone.

    Attributes:
        size_m: (3,) length, width and height.
        source_m: (3,) position of the speaker's mouth, from a corner.
        microphone_m: (3,) position of the microphone.
        reverberation_s: time in which sound decays by 60 dB (RT60).
    """

    size_m: npt.NDArray[np.float64]
    source_m: npt.NDArray[np.float64]
    microphone_m: npt.NDArray[np.float64]
    reverberation_s: float

    @property
    def distance_m(self) -> float:
        """Return the distance between the speaker and the microphone."""
        return float(np.linalg.norm(self.source_m - self.microphone_m))

    @property
    def volume_m3(self) -> float:
        """Return the volume of the room."""
        return float(self.size_m.prod())

    @property
    def wall_reflection(self) -> float:
        """Return the share of amplitude that a wall reflects, by the reverberation time (Eyring, 1930)."""
        length, width, height = self.size_m
        surface_m2 = 2 * (length * width + length * height + width * height)
        # half of Eyring's 55.3 / 343 = 0.161, since energy is the square of the amplitude
        decay = 12 * math.log(10) / SPEED_OF_SOUND_M_PER_S * self.volume_m3
        return math.exp(-decay / (surface_m2 * self.reverberation_s))


def draw_room(rng: np.random.Generator, reverberation_s: tuple[float, float]) -> Room:
    """Draw a room of random size, positions, and reverberation time between the two given."""
    size_m = rng.uniform(SMALLEST_M, LARGEST_M)
    time_s = rng.uniform(*reverberation_s)
    while True:
        source_m, microphone_m = rng.uniform(WALL_DISTANCE_M, size_m - WALL_DISTANCE_M, (2, 3))
        room = Room(size_m, source_m, microphone_m, time_s)
        if room.distance_m >= NEAREST_M:
            return room


def impulse_response(room: Room, rng: np.random.Generator) -> Samples:
    """Return a room's impulse response between the speaker and the microphone.

    Args:
        room: the room.
        rng: draws the tail.

    Returns:
        (N,) at 16 kHz, from the direct sound, which is 1, until the response has decayed by 60 dB.
    """
    num_samples = max(round(room.reverberation_s * SAMPLE_RATE_HZ), 1)
    num_early = min(round(EARLY_S * SAMPLE_RATE_HZ), num_samples)
    response = np.empty(num_samples, np.float32)
    response[:num_early] = _echoes(room, num_early)
    response[num_early:] = _tail(room, num_early, num_samples, rng)
    return response


def _echoes(room: Room, num_samples: int) -> npt.NDArray[np.float64]:
    """Return the echoes, (num_samples,): each image of the source by its distance and reflections."""
    reach_m = room.distance_m + num_samples / SAMPLE_RATE_HZ * SPEED_OF_SOUND_M_PER_S
    squares, walls = zip(*(_images(room, axis, reach_m) for axis in range(3)), strict=True)
    distances_m = np.sqrt(_outer_sum(squares)).ravel()
    num_walls = _outer_sum(walls).ravel()
    near = distances_m < reach_m
    distances_m, num_walls = distances_m[near], num_walls[near]
    delays = np.rint((distances_m - room.distance_m) / SPEED_OF_SOUND_M_PER_S * SAMPLE_RATE_HZ)
    amplitudes = room.distance_m / distances_m * (-room.wall_reflection) ** num_walls
    response = np.bincount(delays.astype(np.int64), amplitudes, num_samples)
    return response[:num_samples].astype(np.float64)


def _images(room: Room, axis: int, reach_m: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the images' squared distances from the microphone along one axis, and their reflections."""
    size_m, source_m = room.size_m[axis], room.source_m[axis]
    farthest = math.ceil(reach_m / (2 * size_m))
    periods = np.arange(-farthest, farthest + 1)
    positions_m = np.concatenate([2 * periods * size_m + source_m, 2 * periods * size_m - source_m])
    walls = np.concatenate([np.abs(2 * periods), np.abs(2 * periods - 1)]).astype(np.float64)
    return (positions_m - room.microphone_m[axis]) ** 2, walls


def _outer_sum(axes: tuple[npt.NDArray[np.float64], ...]) -> npt.NDArray[np.float64]:
    x, y, z = axes
    return x[:, None, None] + y[None, :, None] + z[None, None, :]


def _tail(room: Room, begin: int, end: int, rng: np.random.Generator) -> Samples:
    """Return noise with the power of the images that arrive between two samples, (end - begin,).

    After t seconds they lie on a sphere of radius c*t: 4 pi (c t)^2 c / V of them per second, each with
    (distance / (c t))^2 of the direct sound's power before absorption by the walls.
    """
    power_per_s = 4 * math.pi * SPEED_OF_SOUND_M_PER_S * room.distance_m**2 / room.volume_m3
    times_s = np.arange(begin, end) / SAMPLE_RATE_HZ + room.distance_m / SPEED_OF_SOUND_M_PER_S
    envelope = math.sqrt(power_per_s / SAMPLE_RATE_HZ) * 10 ** (-3 * times_s / room.reverberation_s)
    return rng.standard_normal(end - begin, np.float32) * envelope.astype(np.float32)


@dataclass(frozen=True)
class SimulatedRooms:
    """The responses of `NUM_ROOMS` simulated rooms, shared by all clips to simulate each room once."""

    responses: list[tuple[Samples, str]]

    @classmethod
    def make(cls, reverberation_s: tuple[float, float], rng: np.random.Generator) -> SimulatedRooms:
        """Simulate `NUM_ROOMS` rooms, which takes a fifth of a second."""
        rooms = [draw_room(rng, reverberation_s) for _ in range(NUM_ROOMS)]
        return cls([(impulse_response(room, rng), f"{room.reverberation_s:.2f} s") for room in rooms])

    def draw(self, rng: np.random.Generator) -> tuple[Samples, str]:
        """Draw a response; return it and its reverberation time as text."""
        return self.responses[int(rng.integers(len(self.responses)))]


@dataclass(frozen=True)
class MeasuredResponses:
    """Impulse responses of real rooms, in files."""

    pieces: list[SoundPiece]
    cache: SoundCache

    def draw(self, rng: np.random.Generator) -> tuple[Samples, str]:
        """Draw a response; return it and its file's name."""
        piece = self.pieces[int(rng.integers(len(self.pieces)))]
        return self.cache.get(piece), piece.path.name


Responses: TypeAlias = SimulatedRooms | MeasuredResponses


def find_responses(
    where: str,
    reverberation_s: tuple[float, float],
    rng: np.random.Generator,
    on_progress: OnProgress = ignore_progress,
) -> Responses | None:
    """Return the impulse responses that `augment.reverb` names; None for "".

    Args:
        where: "rooms", a folder or a manifest.
        reverberation_s: the shortest and the longest reverberation time of simulated rooms.
        rng: draws simulated rooms.
        on_progress: receives the number of recordings checked.

    Raises:
        UserError: there is no such folder or manifest, or a recording cannot be read.
    """
    if not where:
        return None
    if where == "rooms":
        return SimulatedRooms.make(reverberation_s, rng)
    paths = find_sounds(path_of(where), "augment.reverb", built_in="rooms")
    cache = SoundCache(read_response, CACHE_BYTES)
    check_sounds(paths, "augment.reverb", cache.get, on_progress)
    return MeasuredResponses([SoundPiece(path) for path in paths], cache)
