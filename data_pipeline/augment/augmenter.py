"""Changes waveforms in training, each as a pure function of (seed, epoch, utterance id).

Effects are applied in the order of a real recording: the speaker talks faster or slower, the room adds
reverberation, noise reaches the microphone, the recorder's gain applies to all of it, and a telephone or a
codec transmits it. Each effect draws from a random stream of its own: switching one off does not change what
the others draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, to_int16
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.augment.channels import through_channel
from data_pipeline.augment.noise import ColouredNoises, Noises, add_noise, find_noises
from data_pipeline.augment.rooms import Responses, find_responses, reverberate

FULL_SCALE = 32767
SOXR_QUALITY = "MQ"  # precise to the 16 bits of the result; "HQ", to 20 bits, takes 2.5 times as long
REVERB, NOISE, GAIN, ROOM_TONE, CHANNEL, PIECES = range(1, 7)  # streams of random numbers
PAUSE_STREAMS = 0x5041555345 + np.arange(3, dtype=np.uint64)  # by which keys of utterances are changed
PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 2.0  # a network sees about two seconds at a time
NO_PAUSE_SHARE = 1 / 3  # at one of the two ends of a clip with pauses
SILENT_SHARE = 0.25  # of the clips with pauses: digital silence, the others have room tone
ROOM_TONE_SNR_DB = (20.0, 75.0)
RANGES = (
    ("speed_min", "speed_max"),
    ("reverb_time_min_s", "reverb_time_max_s"),
    ("noise_snr_db_min", "noise_snr_db_max"),
    ("gain_db_min", "gain_db_max"),
)

Samples = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class AppliedEffects:
    """The effects that were applied to a clip.

    Attributes:
        speed: speed factor, 1 if unchanged.
        response: name of the impulse response, "" for none.
        pauses_s: seconds of the pauses before and after the speech.
        noise: name of the noise, "" for none.
        snr_db: signal-to-noise ratio.
        gain_db: gain, including the attenuation of a clip too loud for 16 bits.
        channel: name of the telephone or codec, "" for none.
    """

    speed: float
    response: str = ""
    pauses_s: tuple[float, float] = (0.0, 0.0)
    noise: str = ""
    snr_db: float = math.inf
    gain_db: float = 0.0
    channel: str = ""


class Augmenter:
    """The effects of a configuration on clips; safe to use from several threads.

    Args:
        config: the effects and their ranges.
        seed: the run's seed.
        responses: impulse responses; None for no reverberation.
        noises: sources of noise; None for no noise.
    """

    def __init__(
        self, config: AugmentConfig, seed: int, responses: Responses | None, noises: Noises | None
    ) -> None:
        self.config, self.seed = config, seed
        self._responses, self._noises = responses, noises

    @classmethod
    def load(cls, config: AugmentConfig, seed: int, on_progress: OnProgress = ignore_progress) -> Augmenter:
        """Make an augmenter; find and check the recordings that the configuration names.

        Args:
            config: the effects and their ranges.
            seed: the run's seed.
            on_progress: receives the number of noise recordings and impulse responses checked.

        Raises:
            UserError: a recording cannot be read, or the minimum of a range is above its maximum.
        """
        for low, high in RANGES:
            _check_range(config, low, high)
        rng = np.random.default_rng((seed, REVERB))
        reverberation_s = config.reverb_time_min_s, config.reverb_time_max_s
        responses = find_responses(config.reverb, reverberation_s, rng, on_progress)
        return cls(config, seed, responses, find_noises(config.noise, on_progress))

    @property
    def changes_anything(self) -> bool:
        """Return whether any effect is switched on."""
        config = self.config
        speed, gain = (config.speed_min, config.speed_max), (config.gain_db_min, config.gain_db_max)
        drawn = (config.pauses, config.channels, speed != (1, 1), gain != (0, 0))
        is_used = (self._responses, self._noises, *drawn)
        return any(map(bool, is_used))

    def apply(self, waveform: Waveform, epoch: int, key: int, speed: float) -> Waveform:
        """Return a clip as an epoch uses it.

        Args:
            waveform: (S,) int16.
            epoch: number of the epoch, from 0.
            key: key of the utterance, see `data_pipeline.manifests.columns.utterance_keys`.
            speed: speed factor of the clip, see `speed_factors`.

        Returns:
            (S',) int16: `num_samples_at(S, speed)` samples, and those of `pause_samples`. A clip that
            reverberation, noise or gain would raise above full scale is attenuated as a whole, speech and
            noise alike: nothing is clipped.

        Raises:
            UserError: a noise or an impulse response can no longer be read.
        """
        return self.apply_with_effects(waveform, epoch, key, speed)[0]

    def apply_with_effects(
        self, waveform: Waveform, epoch: int, key: int, speed: float
    ) -> tuple[Waveform, AppliedEffects]:
        """Return a clip as `apply` does, and the effects that were applied."""
        config, stream = self.config, (self.seed, epoch, int(key))
        pauses = pause_samples(config, self.seed, epoch, np.array([key], np.uint64))[0]
        waveform = change_speed(waveform, speed)
        if pauses.any():
            waveform = np.pad(waveform, pauses)
        samples: Samples = waveform.astype(np.float32)
        response_name, noise_name, snr_db, gain_db = "", "", math.inf, 0.0
        if self._responses is not None:
            rng = np.random.default_rng((*stream, REVERB))
            if rng.random() < config.reverb_probability:
                response, response_name = self._responses.draw(rng)
                samples = reverberate(samples, response)
        if pauses.any():
            rng = np.random.default_rng((*stream, ROOM_TONE))
            samples = with_room_tone(samples, pauses, rng)
        if self._noises is not None:
            rng = np.random.default_rng((*stream, NOISE))
            if rng.random() < config.noise_probability:
                snr_db = rng.uniform(config.noise_snr_db_min, config.noise_snr_db_max)
                noise, noise_name = self._noises.draw(rng, len(samples))
                samples = add_noise(samples, noise, snr_db)
        if config.gain_db_min or config.gain_db_max:
            rng = np.random.default_rng((*stream, GAIN))
            gain_db = rng.uniform(config.gain_db_min, config.gain_db_max)
        if response_name or noise_name or gain_db or pauses.any():
            if peak := float(np.abs(samples).max()):  # no sample is to go beyond full scale
                gain_db = min(gain_db, 20 * math.log10(FULL_SCALE / peak))
            waveform = to_int16(samples * np.float32(10 ** (gain_db / 20)))
        channel_name = ""
        if config.channels:
            rng = np.random.default_rng((*stream, CHANNEL))
            if rng.random() < config.channels:
                waveform, channel_name = through_channel(waveform, rng)
        before_s, after_s = (pauses / SAMPLE_RATE_HZ).tolist()
        pauses_s = before_s, after_s
        return waveform, AppliedEffects(
            speed, response_name, pauses_s, noise_name, snr_db, gain_db, channel_name
        )


def _check_range(config: AugmentConfig, low: str, high: str) -> None:
    lowest, highest = getattr(config, low), getattr(config, high)
    if lowest > highest:
        raise UserError(
            f"augment.{low}: expected at most augment.{high} ({highest:g}), received {lowest:g}; swap them"
        )


def speed_factors(config: AugmentConfig, seed: int, epoch: int, keys: Keys) -> npt.NDArray[np.float64]:
    """Return each clip's speed factor in this epoch, (N,), log-uniform between the configured limits."""
    slowest, fastest = config.speed_min, config.speed_max
    if slowest == fastest:
        return np.full(len(keys), slowest)
    return np.asarray(slowest * (fastest / slowest) ** uniform_numbers(seed, epoch, keys), np.float64)


def pause_samples(config: AugmentConfig, seed: int, epoch: int, keys: Keys) -> npt.NDArray[np.int64]:
    """Return the samples of the pauses before and after each clip in this epoch, (N, 2), 0 for none."""
    if not config.pauses:
        return np.zeros((len(keys), 2), np.int64)
    has_pauses, *ends = (uniform_numbers(seed, epoch, keys ^ stream) for stream in PAUSE_STREAMS)
    drawn = (np.stack(ends, axis=1) - NO_PAUSE_SHARE) / (1 - NO_PAUSE_SHARE)  # below 0: no pause
    lengths_s = PAUSE_MIN_S * (PAUSE_MAX_S / PAUSE_MIN_S) ** drawn
    lengths_s *= (drawn >= 0) & (has_pauses < config.pauses)[:, None]
    return np.rint(lengths_s * SAMPLE_RATE_HZ).astype(np.int64)


def with_room_tone(samples: Samples, pauses: npt.NDArray[np.int64], rng: np.random.Generator) -> Samples:
    """Add the noise of a quiet room to a clip or only to its pauses; some clips stay as they are.

    Args:
        samples: (S,) speech between digital silence.
        pauses: samples of the silence before and after, (2,).
        rng: of what is drawn.
    """
    if rng.random() < SILENT_SHARE:
        return samples
    noise, _ = ColouredNoises().draw(rng, len(samples))
    noisy = add_noise(samples, noise, rng.uniform(*ROOM_TONE_SNR_DB))
    if rng.random() < 0.5:
        speech = slice(pauses[0], len(samples) - pauses[1])
        noisy[speech] = samples[speech]
    return noisy


def uniform_numbers(seed: int, epoch: int, keys: Keys) -> npt.NDArray[np.float64]:
    """Return a number from 0 to below 1 for each key, (N,), which depends on nothing else."""
    state = _mix(_mix(np.array([seed], np.uint64)) ^ np.uint64(epoch))
    return np.asarray((_mix(state ^ keys) >> np.uint64(11)) * 2.0**-53, np.float64)


def _mix(numbers: Keys) -> Keys:
    """Mix the bits of each number by Splitmix64 (Steele, Lea and Flood, 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def num_samples_at(num_samples: int, factor: float) -> int:
    """Return the number of samples of a clip played `factor` times as fast."""
    return max(1, round(num_samples / factor))


def nums_samples_at(
    num_samples: npt.NDArray[np.int64], factors: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return the result of `num_samples_at` for many clips, (N,)."""
    return np.maximum(1, np.rint(num_samples / factors).astype(np.int64))


def change_speed(waveform: Waveform, factor: float) -> Waveform:
    """Play a clip faster (`factor` > 1) or slower, which changes its pitch and its formants as well.

    Where the new waveform exceeds full scale between the old samples, all of it is attenuated, not clipped.

    Args:
        waveform: (S,) int16.
        factor: speed factor, above 0.

    Returns:
        (`num_samples_at(S, factor)`,) int16.
    """
    num_out = num_samples_at(len(waveform), factor)
    if num_out == len(waveform):
        return waveform
    resampled = soxr.resample(waveform.astype(np.float32), factor, 1.0, SOXR_QUALITY)[:num_out]
    resampled = np.pad(resampled, (0, num_out - len(resampled)))
    peak = float(np.abs(resampled).max())
    return to_int16(resampled * np.float32(FULL_SCALE / peak) if peak > FULL_SCALE else resampled)
