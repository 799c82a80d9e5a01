"""Changes to waveforms in training, each a pure function of (seed, epoch, utterance id).

In the order in which sound comes to be a recording: the speaker talks faster or slower, the room answers,
noise arrives at the microphone, the recorder's gain applies to it all. Each effect draws from a stream of
its own: switching one off leaves what the others do as it was.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft

from asr.audio.recording import Waveform, to_int16
from asr.base.config import AugmentConfig
from asr.base.types import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.augment.noise import Noises, add_noise, find_noises
from data_pipeline.augment.rooms import Responses, find_responses, reverberate

EDGE_SAMPLES = 160  # of silence between the clip's end and its beginning, which touch in an FFT
NUM_CANDIDATES = 12
FULL_SCALE = 32767
REVERB, NOISE, GAIN = 1, 2, 3  # streams of random numbers
RANGES = (
    ("speed_min", "speed_max"),
    ("reverb_time_min_s", "reverb_time_max_s"),
    ("noise_snr_db_min", "noise_snr_db_max"),
    ("gain_db_min", "gain_db_max"),
)

Samples = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Applied:
    """What was done to a clip.

    Attributes:
        speed: 1 where it was left.
        response: the room, "" for none.
        noise: what it is, "" for none.
        snr_db: speech above noise.
        gain_db: with what a clip too loud for 16 bits was turned down by.
    """

    speed: float
    response: str = ""
    noise: str = ""
    snr_db: float = math.inf
    gain_db: float = 0.0


class Augmenter:
    """What `config` does to clips; the same object serves any number of threads.

    Args:
        config: what is switched on.
        seed: of the run.
        responses: of rooms; None for no reverberation.
        noises: None for none.
    """

    def __init__(
        self, config: AugmentConfig, seed: int, responses: Responses | None, noises: Noises | None
    ) -> None:
        self.config, self.seed = config, seed
        self._responses, self._noises = responses, noises

    @classmethod
    def load(cls, config: AugmentConfig, seed: int, on_progress: OnProgress = ignore_progress) -> Augmenter:
        """Find and check what the configuration names.

        Args:
            config: what is switched on.
            seed: of the run.
            on_progress: receives how many recordings of noise and rooms are checked.

        Raises:
            UserError: a recording cannot be read, or a range ends below its beginning.
        """
        for low, high in RANGES:
            _check_range(config, low, high)
        rng = np.random.default_rng((seed, REVERB))
        reverberation_s = config.reverb_time_min_s, config.reverb_time_max_s
        responses = find_responses(config.reverb, reverberation_s, rng, on_progress)
        return cls(config, seed, responses, find_noises(config.noise, on_progress))

    @property
    def changes_anything(self) -> bool:
        """Whether any effect is switched on."""
        config = self.config
        speed, gain = (config.speed_min, config.speed_max), (config.gain_db_min, config.gain_db_max)
        return bool(self._responses or self._noises or speed != (1, 1) or gain != (0, 0))

    def apply(self, waveform: Waveform, epoch: int, key: int, speed: float) -> Waveform:
        """A clip as it is heard in an epoch.

        Args:
            waveform: (S,) int16.
            epoch: from 0.
            key: of the utterance, see `utterance_keys`.
            speed: see `speed_factors`.

        Returns:
            (`num_samples_at(S, speed)`,) int16. A clip that reverberation, noise or gain would lift above
            full scale is turned down as a whole, speech and noise alike: nothing is clipped.

        Raises:
            UserError: a noise or a response cannot be read any more.
        """
        return self.apply_and_tell(waveform, epoch, key, speed)[0]

    def apply_and_tell(
        self, waveform: Waveform, epoch: int, key: int, speed: float
    ) -> tuple[Waveform, Applied]:
        """`apply`, and what it did."""
        config, stream = self.config, (self.seed, epoch, int(key))
        waveform = change_speed(waveform, speed)
        samples: Samples = waveform.astype(np.float32)
        response_name, noise_name, snr_db, gain_db = "", "", math.inf, 0.0
        if self._responses is not None:
            rng = np.random.default_rng((*stream, REVERB))
            if rng.random() < config.reverb_probability:
                response, response_name = self._responses.draw(rng)
                samples = reverberate(samples, response)
        if self._noises is not None:
            rng = np.random.default_rng((*stream, NOISE))
            if rng.random() < config.noise_probability:
                snr_db = rng.uniform(config.noise_snr_db_min, config.noise_snr_db_max)
                noise, noise_name = self._noises.draw(rng, len(samples))
                samples = add_noise(samples, noise, snr_db)
        if config.gain_db_min or config.gain_db_max:
            rng = np.random.default_rng((*stream, GAIN))
            gain_db = rng.uniform(config.gain_db_min, config.gain_db_max)
        if response_name or noise_name or gain_db:
            gain_db = min(gain_db, _headroom_db(samples))
            waveform = to_int16(samples * np.float32(10 ** (gain_db / 20)))
        return waveform, Applied(speed, response_name, noise_name, snr_db, gain_db)


def _headroom_db(samples: Samples) -> float:
    """How much louder the samples may get before the highest leaves 16 bits; infinite for silence."""
    peak = float(np.abs(samples).max())
    return 20 * math.log10(FULL_SCALE / peak) if peak else math.inf


def _check_range(config: AugmentConfig, low: str, high: str) -> None:
    lowest, highest = getattr(config, low), getattr(config, high)
    if lowest > highest:
        raise UserError(f"augment.{low}: {lowest:g} is above augment.{high}, {highest:g}; swap them")


def utterance_keys(ids: Sequence[str]) -> Keys:
    """(N,) a number for each id, the same in any process."""
    digests = (hashlib.blake2b(i.encode(errors="backslashreplace"), digest_size=8).digest() for i in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def speed_factors(config: AugmentConfig, seed: int, epoch: int, keys: Keys) -> npt.NDArray[np.float64]:
    """(N,) how much faster each clip is played in this epoch: log-uniform between the two factors."""
    slowest, fastest = config.speed_min, config.speed_max
    if slowest == fastest:
        return np.full(len(keys), slowest)
    state = _mix(_mix(np.array([seed], np.uint64)) ^ np.uint64(epoch))
    share = (_mix(state ^ keys) >> np.uint64(11)) * 2.0**-53
    return np.asarray(slowest * (fastest / slowest) ** share, np.float64)


def _mix(numbers: Keys) -> Keys:
    """Splitmix64 (Steele, Lea and Flood, 2014): every bit of a result depends on every bit of its number."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def num_samples_at(num_samples: int, factor: float) -> int:
    """Samples of a clip played `factor` times as fast."""
    return max(1, round(num_samples / factor))


def change_speed(waveform: Waveform, factor: float) -> Waveform:
    """Play a clip faster (`factor` > 1) or slower: its pitch and its formants move along.

    Band-limited, by cutting or extending the clip's spectrum. The lengths are rounded to ones that an FFT
    is fast at, which moves the pitch by a thousandth or so of what the factor says.

    Args:
        waveform: (S,) int16.
        factor: above 0.

    Returns:
        (`num_samples_at(S, factor)`,) int16.
    """
    num_out = num_samples_at(len(waveform), factor)
    if num_out == len(waveform):
        return waveform
    padded_in, padded_out = _fast_lengths(len(waveform), num_out)
    spectrum = scipy.fft.rfft(waveform.astype(np.float32), padded_in)
    kept = min(padded_in, padded_out) // 2 + 1
    resized = np.zeros(padded_out // 2 + 1, np.complex64)
    resized[:kept] = spectrum[:kept]
    resampled = scipy.fft.irfft(resized, padded_out)[:num_out] * np.float32(padded_out / padded_in)
    return to_int16(resampled)


def _fast_lengths(num_in: int, num_out: int) -> tuple[int, int]:
    """Two lengths that an FFT is fast at, not below these and in about their ratio."""
    ratio = num_out / num_in
    pairs = []
    padded_in = num_in + EDGE_SAMPLES
    for _ in range(NUM_CANDIDATES):
        padded_in = scipy.fft.next_fast_len(padded_in, real=True)
        exact = math.ceil(padded_in * ratio)
        for padded_out in (scipy.fft.next_fast_len(exact, True), scipy.fft.prev_fast_len(exact, True)):
            if padded_out >= num_out:
                pairs.append((abs(padded_out / padded_in / ratio - 1), padded_in, padded_out))
        padded_in += 1
    _, padded_in, padded_out = min(pairs)
    return padded_in, padded_out
