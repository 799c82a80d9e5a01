import dataclasses
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers import ROOT

from asr.audio.recording import write_wav
from asr.audio.speech_level import active_power, frame_powers
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from data_pipeline.augment import sounds
from data_pipeline.augment.augmenter import (
    Augmenter,
    change_speed,
    num_samples_at,
    pause_samples,
    speed_factors,
)
from data_pipeline.augment.noise import FADE_SAMPLES, add_noise, cut_noise
from data_pipeline.augment.sounds import SoundCache, SoundPiece, cut_into_pieces, find_sounds, read_piece
from data_pipeline.manifests.columns import utterance_keys

ALWAYS = {"noise_probability": 1.0, "reverb_probability": 1.0, "pauses": 0.0}
NOTHING = AugmentConfig(pauses=0.0)
NOISE = AugmentConfig(noise="coloured", **ALWAYS)
REVERB = AugmentConfig(reverb="rooms", **ALWAYS)
GAIN = AugmentConfig(gain_db_min=-6.0, gain_db_max=6.0, pauses=0.0)
EVERYTHING = dataclasses.replace(NOISE, reverb="rooms", gain_db_min=-6.0, gain_db_max=6.0)


def tone(frequency_hz, num_samples=20000, amplitude=8000):
    return (amplitude * np.sin(2 * np.pi * frequency_hz * np.arange(num_samples) / 16000)).astype(np.int16)


def speech(num_samples=20000):
    """Return bursts of noise with pauses between them."""
    loud = np.random.default_rng(3).normal(0, 2000, num_samples)
    return (loud * (np.arange(num_samples) % 8000 < 5000)).astype(np.int16)


def apply(config, waveform, epoch=0, key=7, seed=1, speed=1.0):
    return Augmenter.load(config, seed).apply(waveform, epoch, key, speed)


def applied_effects(config, waveform, num_epochs=10):
    """Return the effects applied to a clip in each of some epochs."""
    augmenter = Augmenter.load(config, 1)
    return [augmenter.apply_with_effects(waveform, epoch, 7, 1.0)[1] for epoch in range(num_epochs)]


def power_db(samples):
    return 10 * np.log10(np.mean(np.square(samples.astype(np.float64))))


@pytest.fixture
def noise_folder(tmp_path):
    """Return a folder of a quiet recording at 44.1 kHz in stereo, and a loud one at 16 kHz in a subfolder."""
    folder = tmp_path / "noises"
    (folder / "deep").mkdir(parents=True)
    rng = np.random.default_rng(0)
    soundfile.write(folder / "fan.FLAC", rng.normal(0, 0.01, (3 * 44100, 2)), 44100)
    write_wav(folder / "deep" / "street.wav", rng.normal(0, 4000, 40000).astype(np.int16))
    return folder


# speed


@pytest.mark.parametrize("factor", [0.8, 0.93, 1.0, 1.1, 1.22])
@pytest.mark.parametrize("num_samples", [400, 12345, 20011])
def test_faster_speed_shortens_a_clip_and_raises_its_pitch(factor, num_samples):
    faster = change_speed(tone(1000, num_samples), factor)
    assert len(faster) == num_samples_at(num_samples, factor)
    assert faster.dtype == np.int16
    if num_samples > 1000:
        peak = np.abs(np.fft.rfft(faster)).argmax() * 16000 / len(faster)
        assert peak == pytest.approx(1000 * factor, abs=16000 / len(faster))
        assert np.abs(faster[1000:-1000]).max() == pytest.approx(8000, rel=0.02)


@pytest.mark.parametrize("num_samples", [16_000, 33_333, 80_001])
def test_speed_is_exact_and_no_end_is_lost(num_samples):
    for factor in np.linspace(0.85, 1.15, 13):
        pulses = np.zeros(num_samples)
        for place in (1000, num_samples - 1000):  # soft, so that their middle is found between samples
            pulses += 20_000 * np.exp(-(((np.arange(num_samples) - place) / 20) ** 2))
        changed = change_speed(pulses.astype(np.int16), factor).astype(float)
        halves = changed[: len(changed) // 2], changed[len(changed) // 2 :]
        first, last = (np.average(np.arange(len(half)), weights=half**2) for half in halves)
        apart = last + len(halves[0]) - first
        assert apart * factor / (num_samples - 2000) == pytest.approx(1, abs=1.5e-4)
        assert first == pytest.approx(1000 / factor, abs=0.5)
        assert len(changed) - 1 - (last + len(halves[0])) == pytest.approx(1000 / factor, abs=6)


def test_full_scale_speech_is_attenuated_and_not_clipped():
    rng = np.random.default_rng(0)
    square = np.where(np.repeat(rng.integers(0, 2, 200), 100) > 0, 32767, -32768).astype(np.int16)
    faster = change_speed(square, 1.03).astype(int)
    assert np.abs(faster).max() == 32767
    assert np.count_nonzero(np.abs(faster) == 32767) < 5


def test_change_speed_does_not_alias():
    assert np.abs(change_speed(tone(7500), 1.2)[500:-500]).max() < 80


def test_speed_factors_depend_on_seed_epoch_and_id_only():
    config = AugmentConfig(speed_min=0.8, speed_max=1.25)
    keys = utterance_keys([f"utt-{number}" for number in range(2000)])
    factors = speed_factors(config, 1, 2, keys)
    np.testing.assert_array_equal(factors[::-1], speed_factors(config, 1, 2, keys[::-1]))
    others = [speed_factors(config, 2, 2, keys), speed_factors(config, 1, 3, keys)]
    for other in [*others, speed_factors(config, 2, 1, keys), np.roll(factors, 1)]:
        assert abs(np.corrcoef(factors, other)[0, 1]) < 0.1
        assert not (factors == other).any()


def test_speed_factors_are_log_uniform_between_their_limits():
    keys = utterance_keys([str(number) for number in range(50_000)])
    logs = np.log(speed_factors(AugmentConfig(speed_min=0.8, speed_max=1.25), 1, 0, keys)) / np.log(1.25)
    shares, _ = np.histogram(logs, 10, (-1, 1))
    assert shares.sum() == len(keys)
    assert shares / len(keys) == pytest.approx(0.1, rel=0.06)


def test_equal_speed_limits_are_the_factor():
    keys = utterance_keys(["a", "b"])
    assert speed_factors(AugmentConfig(), 1, 0, keys).tolist() == [1.0, 1.0]
    assert speed_factors(AugmentConfig(speed_min=1.1, speed_max=1.1), 1, 0, keys).tolist() == [1.1, 1.1]


def test_speed_factors_of_100_000_clips_are_fast():
    keys = np.arange(100_000, dtype=np.uint64)
    started = time.thread_time()  # does not count what other processes take
    speed_factors(AugmentConfig(speed_min=0.9, speed_max=1.1), 1, 0, keys)
    assert time.thread_time() - started < 0.2  # 1 ms; a generator for each clip takes 1,000


def test_utterance_keys_are_stable_and_distinct():
    assert utterance_keys([]).shape == (0,)
    known = {"A11_0": 7448717275202871005, "你好": 15910808664728542293, "\ud800": 8818361444170349648}
    assert utterance_keys(list(known)).tolist() == list(known.values())
    assert len(set(utterance_keys([str(number) for number in range(10_000)]).tolist())) == 10_000


# everything together


def test_augmenter_without_effects_changes_nothing():
    clip = speech()
    assert apply(NOTHING, clip) is clip
    assert not Augmenter.load(NOTHING, 1).changes_anything


@pytest.mark.parametrize("config", [NOISE, REVERB, GAIN, AugmentConfig(speed_max=1.1)])
def test_each_effect_alone_changes_the_waveform(config):
    assert Augmenter.load(config, 1).changes_anything
    speed = config.speed_max
    changed = apply(config, speech(), speed=speed)
    assert changed.dtype == np.int16
    assert len(changed) == num_samples_at(20000, speed)
    assert speed != 1 or (changed != speech()).any()


PROGRAM = """
import sys, hashlib, numpy as np
from asr.audio.recording import read_audio
from asr.base.config import AugmentConfig
from data_pipeline.augment.augmenter import Augmenter, speed_factors
from data_pipeline.manifests.columns import utterance_keys
path, noises = sys.argv[1:3]
config = AugmentConfig(speed_min=0.9, speed_max=1.1, noise=noises, reverb="rooms", gain_db_max=6.0,
                       noise_probability=0.8, reverb_probability=0.8, channels=0.5)
augmenter, keys, clip = Augmenter.load(config, 5), utterance_keys(list("abcdef")), read_audio(path)
digest = {}
for place in map(int, sys.argv[3]):
    speed = speed_factors(config, 5, 3, keys)[place]
    changed = augmenter.apply(clip, 3, keys[place], speed)
    digest["abcdef"[place]] = hashlib.md5(changed.tobytes()).hexdigest()
print(sorted(digest.items()))
"""


@pytest.mark.slow
def test_augmentation_is_equal_in_another_process_and_order(noise_folder, tmp_path):
    write_wav(tmp_path / "clip.wav", speech(30000))
    printed = []
    for order, hash_seed in [("012345", "1"), ("531402", "2")]:
        command = [sys.executable, "-c", PROGRAM, tmp_path / "clip.wav", noise_folder, order]
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append(run.stdout)
    assert printed[0] == printed[1]
    assert len({digest for _, digest in eval(printed[0])}) == 6


def test_augmentation_differs_by_seed_epoch_and_id():
    clip = speech()
    changed = [
        apply(EVERYTHING, clip),
        apply(EVERYTHING, clip, epoch=1),
        apply(EVERYTHING, clip, key=8),
        apply(EVERYTHING, clip, seed=2),
    ]
    assert len({waveform.tobytes() for waveform in changed}) == 4
    assert (apply(EVERYTHING, clip) == changed[0]).all()


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"noise": ""}, ["response", "gain_db"]),
        ({"reverb": ""}, ["noise", "snr_db", "gain_db"]),
        ({"gain_db_min": 0.0, "gain_db_max": 0.0}, ["noise", "snr_db", "response"]),
        ({"noise_probability": 0.0}, ["response", "gain_db"]),
        ({"reverb_probability": 0.0}, ["noise", "snr_db", "gain_db"]),
        ({"noise_snr_db_min": 20.0}, ["noise", "response", "gain_db"]),
        ({"channels": 1.0}, ["noise", "snr_db", "response", "gain_db"]),
    ],
)
def test_switching_an_effect_off_does_not_change_the_others(changes, same):
    quiet = (speech() / 10).astype(np.int16)  # so that no gain is limited
    changed = dataclasses.replace(EVERYTHING, **changes)
    for before, after in zip(
        applied_effects(EVERYTHING, quiet), applied_effects(changed, quiet), strict=True
    ):
        assert before != after
        for name in same:
            assert getattr(before, name) == getattr(after, name), name


def test_effects_occur_with_their_probabilities():
    config = dataclasses.replace(EVERYTHING, noise_probability=0.3, reverb_probability=0.7, channels=0.2)
    augmenter = Augmenter.load(config, 1)
    applied = [augmenter.apply_with_effects(speech(800), 0, key, 1.0)[1] for key in range(600)]
    assert np.mean([bool(a.noise) for a in applied]) == pytest.approx(0.3, abs=0.06)
    assert np.mean([bool(a.response) for a in applied]) == pytest.approx(0.7, abs=0.06)
    assert np.mean([bool(a.channel) for a in applied]) == pytest.approx(0.2, abs=0.06)
    both = np.mean([bool(a.noise and a.response) for a in applied])
    assert both == pytest.approx(0.21, abs=0.06)  # independent streams: neither implies the other


@pytest.mark.parametrize("speed", [0.25, 0.9, 4.0])
@pytest.mark.parametrize("num_samples", [400, 401, 20000])
def test_augmentation_keeps_lengths_and_silence_at_any_length(speed, num_samples):
    with np.errstate(all="raise", under="ignore"):
        for clip in (speech(num_samples), np.zeros(num_samples, np.int16)):
            changed = apply(EVERYTHING, clip, speed=speed)
            assert len(changed) == num_samples_at(num_samples, speed)
            assert changed.any() == clip.any()


def test_clip_too_loud_for_16_bits_is_attenuated_not_clipped():
    loud = tone(300, amplitude=32767)
    changed, applied = Augmenter.load(
        AugmentConfig(gain_db_min=12.0, gain_db_max=12.0), 1
    ).apply_with_effects(loud, 0, 7, 1.0)
    assert applied.gain_db == pytest.approx(0, abs=0.01)
    assert np.abs(changed.astype(int) - loud).max() <= 1
    augmenter = Augmenter.load(EVERYTHING, 1)
    for epoch in range(10):
        changed, applied = augmenter.apply_with_effects(speech() * 8, epoch, 7, 1.0)
        assert applied.gain_db < 6
        # neither a flat top, nor a sample that wrapped around
        assert (np.abs(changed.astype(int)) >= 32766).sum() <= 2
        assert np.abs(changed.astype(int)).max() <= 32767


def test_applied_gain_equals_the_drawn_gain():
    gains = []
    for epoch in range(40):
        changed, applied = Augmenter.load(GAIN, 1).apply_with_effects(speech(), epoch, 7, 1.0)
        assert power_db(changed) - power_db(speech()) == pytest.approx(applied.gain_db, abs=0.01)
        gains.append(applied.gain_db)
    assert -6 <= min(gains) < -4
    assert 4 < max(gains) <= 6


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"speed_min": 1.2}, r"augment\.speed_min: expected at most augment\.speed_max \(1\), received 1\.2"),
        (
            {"noise_snr_db_min": 30.0},
            r"noise_snr_db_min: expected at most augment\.noise_snr_db_max \(25\), received 30",
        ),
        (
            {"reverb_time_min_s": 1.0},
            r"reverb_time_min_s: expected at most augment\.reverb_time_max_s \(0\.6\), received 1",
        ),
        ({"gain_db_min": 3.0}, r"gain_db_min: expected at most augment\.gain_db_max \(0\), received 3; swap"),
    ],
)
def test_inverted_range_is_an_error(changes, keys):
    with pytest.raises(UserError, match=keys):
        Augmenter.load(dataclasses.replace(AugmentConfig(), **changes), 1)


# pauses

PAUSES = AugmentConfig(pauses=1.0)


def with_pauses(key):
    """Return a clip with pauses as a pause before it, the speech, and a pause after it."""
    changed, applied = Augmenter.load(PAUSES, 1).apply_with_effects(speech(), 0, key, 1.0)
    before, after = np.rint(np.multiply(applied.pauses_s, 16000)).astype(int)
    assert len(changed) == before + len(speech()) + after
    return changed[:before], changed[before : before + len(speech())], changed[before + len(speech()) :]


def test_pauses_are_drawn_for_their_share_of_the_clips_at_both_ends():
    keys = utterance_keys([f"clip-{number}" for number in range(4000)])
    pauses = pause_samples(AugmentConfig(pauses=0.4), 1, 0, keys)
    assert np.mean(pauses.any(axis=1)) == pytest.approx(0.4 * 8 / 9, abs=0.03)  # 1 in 9 draws none twice
    for end in pauses.T:
        lengths = end[end > 0]
        assert len(lengths) / len(end) == pytest.approx(0.4 * 2 / 3, abs=0.03)
        assert 0.05 * 16000 - 1 <= lengths.min() < 0.06 * 16000
        assert 1.8 * 16000 < lengths.max() <= 2 * 16000
    assert np.corrcoef(pauses[pauses.all(axis=1)].T)[0, 1] == pytest.approx(0, abs=0.1)
    np.testing.assert_array_equal(pause_samples(AugmentConfig(pauses=0.4), 1, 0, keys[:9]), pauses[:9])
    assert np.any(pause_samples(AugmentConfig(pauses=0.4), 1, 1, keys) != pauses)


def test_pauses_are_silent_or_have_room_tone_far_below_the_speech():
    kinds = {"silent": 0, "tone": 0, "tone in the pauses alone": 0}
    level_db = power_db(speech()[:4000])
    for key in range(200):
        before, middle, after = with_pauses(key)
        both = np.concatenate([before, after])
        if not len(both):
            continue
        changed = bool(np.any(middle != speech()))
        if not both.any() and not changed:
            kinds["silent"] += 1  # or its tone is below the lowest bit
            continue
        kinds["tone" if changed else "tone in the pauses alone"] += 1
        assert level_db - 80 < power_db(both) < level_db - 19
        assert np.abs(middle.astype(int) - speech()).max() < 10 ** ((level_db - 3) / 20)
    assert min(kinds.values()) > 30


# noise


def measured_snr_db(clip, changed, gain_db=0.0):
    """Measure by the definition, independently of the code: speech within 30 dB of the loudest frame."""
    added = changed / 10 ** (gain_db / 20) - clip
    frames = clip[: len(clip) // 400 * 400].astype(np.float64).reshape(-1, 400)
    powers = (frames**2).mean(axis=1)
    return 10 * np.log10(powers[powers > powers.max() / 1000].mean() / (added**2).mean())


@pytest.mark.parametrize("where", ["coloured", "folder"])
def test_measured_snr_equals_the_drawn_snr(where, noise_folder):
    config = dataclasses.replace(
        NOISE, noise=where if where == "coloured" else str(noise_folder), noise_snr_db_min=0.0
    )
    augmenter, ratios = Augmenter.load(config, 1), []
    for key in range(20):
        changed, applied = augmenter.apply_with_effects(speech(), 0, key, 1.0)
        measured = measured_snr_db(speech().astype(np.float64), changed, applied.gain_db)
        assert measured == pytest.approx(applied.snr_db, abs=0.1)
        ratios.append(applied.snr_db)
    assert 0 <= min(ratios) < 5
    assert 20 < max(ratios) <= 25


def test_active_power_ignores_pauses():
    talking = speech(4000).astype(np.float32)
    padded = np.concatenate([np.zeros(40000, np.float32), talking])
    assert active_power(frame_powers(padded)) == pytest.approx(active_power(frame_powers(talking)), rel=0.01)


def test_coloured_noise_has_slopes_between_white_and_brown():
    augmenter = Augmenter.load(dataclasses.replace(NOISE, noise_snr_db_max=5.0), 1)
    slopes = []
    for key in range(30):
        changed, applied = augmenter.apply_with_effects(speech(), 0, key, 1.0)
        added = changed / 10 ** (applied.gain_db / 20) - speech()
        powers = np.abs(np.fft.rfft(added)) ** 2  # 0.8 Hz a bin
        low, high = powers[250:1000].mean(), powers[1000:4000].mean()  # two octaves higher
        slope = 10 * np.log10(high / low) / 2
        assert slope == pytest.approx(float(applied.noise.split()[0]), abs=0.6)
        slopes.append(slope)
    assert min(slopes) < -5
    assert max(slopes) > -1


def test_silent_noise_does_not_change_speech(tmp_path):
    write_wav(tmp_path / "silence.wav", np.zeros(1600, np.int16))
    clip = speech()
    assert (apply(dataclasses.replace(NOISE, noise=str(tmp_path)), clip) == clip).all()
    assert add_noise(clip.astype(np.float32), np.zeros(20000, np.float32), 0).any()


def test_long_noise_is_cut_at_any_position():
    noise = np.arange(1000, dtype=np.int16)
    assert cut_noise(noise, 300, 0.0).tolist() == list(range(300))
    assert cut_noise(noise, 300, 1 - 1e-12).tolist() == list(range(700, 1000))
    assert cut_noise(noise, 1000, 0.7).tolist() == list(range(1000))


@pytest.mark.parametrize("position", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("num_samples", [8001, 30000])
def test_short_noise_repeats_without_a_click(num_samples, position):
    # a cosine of 75.5 periods, so that its end is as far from its beginning as possible; 1.5 in the fade
    noise = (8000 * np.cos(2 * np.pi * 151 * np.arange(8000) / 16000)).astype(np.int16)
    repeated = cut_noise(noise, num_samples, position)
    assert len(repeated) == num_samples
    steepest = np.abs(np.diff(noise.astype(int))).max()
    assert np.abs(np.diff(repeated.astype(int))).max() <= 2 * steepest + 8000 * np.pi / FADE_SAMPLES
    rng = np.random.default_rng(0)
    hiss = rng.normal(0, 2000, 8000).astype(np.int16)
    levels = cut_noise(hiss, num_samples, position)[: num_samples // 100 * 100].reshape(-1, 100)
    assert levels.std(axis=1).min() > 1200  # the faded part is as loud as the rest


def test_noise_one_sample_short_covers_the_whole_clip(tmp_path):
    rng = np.random.default_rng(0)
    write_wav(tmp_path / "short.wav", rng.normal(0, 2000, 19999).astype(np.int16))
    changed = apply(dataclasses.replace(NOISE, noise=str(tmp_path)), speech())
    added = changed.astype(int) - speech()
    assert len(changed) == 20000
    assert added[-100:].std() == pytest.approx(added.std(), rel=0.3)


# recordings


def test_find_sounds_reads_folders_and_manifests(noise_folder, tmp_path):
    (noise_folder / "notes.txt").write_text("no audio")
    names = ["fan.FLAC", "deep/street.wav"]
    manifest = tmp_path / "noise.jsonl"
    lines = [json.dumps({"audio": f"noises/{name}", "duration_s": 1.0}) for name in names]
    manifest.write_text("\n".join([*lines, ""]), encoding="utf-8")
    by_manifest = find_sounds(manifest, "augment.noise", "coloured")
    assert [path.name for path in by_manifest] == ["fan.FLAC", "street.wav"]
    assert {*map(str, by_manifest)} == {*map(str, find_sounds(noise_folder, "augment.noise", "coloured"))}
    assert find_sounds(noise_folder / "fan.FLAC", "augment.noise", "coloured") == by_manifest[:1]
    from_manifest = dataclasses.replace(NOISE, noise=str(manifest))
    names = {applied.noise for applied in applied_effects(from_manifest, speech())}
    assert names == {"fan.FLAC", "street.wav"}


def cut_wav(path):
    path.write_bytes(path.read_bytes()[:-2000])


def empty(path):
    path.write_bytes(b"")


def no_audio(path):
    path.write_text("no audio")


def too_short(path):
    write_wav(path, tone(500, 399))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_wav, "cut off"),
        (empty, "empty file"),
        (no_audio, "not audio"),
        (Path.unlink, r"cannot read this file|no audio found"),
        (too_short, "expected at least 25 ms"),
    ],
)
@pytest.mark.parametrize("key", ["noise", "reverb"])
def test_broken_augmentation_recording_is_an_error_on_load(damage, reason, key, noise_folder, tmp_path):
    street = noise_folder / "deep" / "street.wav"
    manifest = tmp_path / "noise.jsonl"
    manifest.write_text(json.dumps({"audio": str(street)}), encoding="utf-8")
    damage(street)
    with pytest.raises(UserError, match=rf"augment\.{key}: .*street\.wav: .*({reason})"):
        Augmenter.load(dataclasses.replace(AugmentConfig(), **{key: str(manifest)}), 1)


def test_further_broken_augmentation_recordings_are_counted(noise_folder):
    for name in "abc":
        (noise_folder / f"{name}.wav").write_bytes(b"RIFF")
    with pytest.raises(UserError, match=r"a\.wav: .*\(2 more of 5 files"):
        Augmenter.load(dataclasses.replace(NOISE, noise=str(noise_folder)), 1)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("colored", "no such folder or manifest"),
        ("empty", "no audio found"),
        ("bad.jsonl", r"bad\.jsonl:2: expected a JSON object"),
    ],
)
def test_invalid_noise_source_is_an_error(where, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("bad.jsonl").write_text('{"audio": "a.wav"}\n{"id": "b"}\n')
    with pytest.raises(UserError, match=message):
        Augmenter.load(dataclasses.replace(NOISE, noise=where), 1)


def test_resampled_noise_keeps_pitch_and_level(tmp_path):
    both = np.stack([np.sin(2 * np.pi * 1000 * np.arange(22050) / 44100), np.zeros(22050)], axis=1) / 2
    soundfile.write(tmp_path / "whistle.wav", both, 44100, subtype="FLOAT")
    whistle = read_piece(SoundPiece(tmp_path / "whistle.wav"))
    assert len(whistle) == 8000
    assert np.abs(np.fft.rfft(whistle)).argmax() * 16000 / 8000 == 1000
    assert np.abs(whistle[100:-100]).max() == pytest.approx(8192, rel=0.01)  # the mean of the two channels


def test_threads_sharing_a_sound_cache_get_equal_results(noise_folder, monkeypatch):
    config = dataclasses.replace(NOISE, noise=str(noise_folder))
    alone, shared = Augmenter.load(config, 1), Augmenter.load(config, 1)
    monkeypatch.setattr(shared._noises.cache, "_max_bytes", 90_000)  # one of the two at a time
    with ThreadPoolExecutor(8) as pool:
        changed = list(pool.map(lambda key: shared.apply(speech(), 0, key, 1.0), range(60)))
    for key, waveform in enumerate(changed):
        np.testing.assert_array_equal(waveform, alone.apply(speech(), 0, key, 1.0))


def test_long_noise_recording_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(sounds, "PIECE_S", 1.0)
    samples = np.repeat(np.array([1000, 2000, 3000], np.int16), 16000)[:-15000]
    write_wav(tmp_path / "long.wav", samples)
    pieces = cut_into_pieces([tmp_path / "long.wav"], [len(samples) / 16000])
    assert [piece.begin_s for piece in pieces] == [0.0, 1.0, 2.0]
    read = [read_piece(piece) for piece in pieces]
    assert [len(piece) for piece in read] == [16000, 16000, 1000]
    assert [set(piece.tolist()) for piece in read] == [{1000}, {2000}, {3000}]


def test_noise_that_is_damaged_in_its_middle_is_reported_once_and_replaced(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sounds, "PIECE_S", 1.0)
    path = tmp_path / "street.flac"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 4 * 16000), 16000)
    content = bytearray(path.read_bytes())
    begin, end = len(content) // 2, len(content) * 5 // 8
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    one, other = (Augmenter.load(dataclasses.replace(NOISE, noise=str(path)), 1) for _ in range(2))
    for epoch in range(20):
        noisy = one.apply(speech(), epoch, 7, 1.0)
        assert (noisy != speech()).any()
        np.testing.assert_array_equal(noisy, other.apply(speech(), epoch, 7, 1.0))
    assert ["street.flac: cannot be read at" in line for line in caplog.messages] == [
        True,
        True,
    ]  # one of each


def test_noise_of_which_nothing_can_be_read_any_more_raises(tmp_path):
    write_wav(tmp_path / "street.wav", tone(500))
    augmenter = Augmenter.load(dataclasses.replace(NOISE, noise=str(tmp_path)), 1)
    (tmp_path / "street.wav").unlink()
    with pytest.raises(UserError, match=r"street\.wav: cannot read this file"):
        augmenter.apply(speech(), 0, 7, 1.0)


def test_sound_cache_is_bounded_and_keeps_recently_used_sounds():
    reads = []

    def read(piece):
        reads.append(piece.path.name)
        return np.zeros(100, np.int16)

    cache = SoundCache(read, max_bytes=650)  # space for three sounds of 200 bytes
    for name in "abcadb":
        cache.get(SoundPiece(Path(name)))
    assert "".join(reads) == "abcdb"  # d replaced b, since a had been used again
    assert SoundCache(read, max_bytes=10).get(SoundPiece(Path("e"))).nbytes == 200
