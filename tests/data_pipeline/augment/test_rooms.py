import numpy as np
import pytest
import soundfile

from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.augment.rooms import (
    NEAREST_M,
    Room,
    SimulatedRooms,
    draw_room,
    impulse_response,
    reverberate,
)
from data_pipeline.augment.sounds import LONGEST_RESPONSE_S, SoundPiece, read_response

RATE = 16000


def some_rooms(shortest_s=0.15, longest_s=1.0, num=60):
    rng = np.random.default_rng(4)
    rooms = [draw_room(rng, (shortest_s, longest_s)) for _ in range(num)]
    return [(room, impulse_response(room, rng)) for room in rooms]


def decay_db(response):
    """Return the remaining energy relative to all of it, in dB (Schroeder, 1965)."""
    energy = np.cumsum(response[::-1].astype(np.float64) ** 2)[::-1]
    return 10 * np.log10(energy / energy[0])


def measured_rt60_s(response):
    """Measure the RT60 from the decay between -5 and -25 dB, as in ISO 3382."""
    levels_db = decay_db(response)
    begin, end = np.argmax(levels_db < -5), np.argmax(levels_db < -25)
    slope = np.polyfit(np.arange(begin, end) / RATE, levels_db[begin:end], 1)[0]
    return -60 / slope


def bursts(num_samples=24000):
    samples = np.random.default_rng(3).normal(0, 3000, num_samples)
    return (samples * (np.arange(num_samples) % 8000 < 4000)).astype(np.float32)


def test_simulated_room_has_the_requested_reverberation_time():
    ratios = [measured_rt60_s(response) / room.reverberation_s for room, response in some_rooms()]
    assert np.median(ratios) == pytest.approx(1, abs=0.03)
    assert min(ratios) > 0.8
    assert max(ratios) < 1.2


def test_diffuse_tail_continues_the_level_of_the_echoes():
    def level_db(response, begin_ms, end_ms):
        return 10 * np.log10(np.mean(response[begin_ms * 16 : end_ms * 16].astype(np.float64) ** 2))

    steps = [
        level_db(response, 40, 50) - level_db(response, 50, 60) - 60 * 0.01 / room.reverberation_s
        for room, response in some_rooms()
    ]
    assert abs(np.mean(steps)) < 1.5


def test_simulated_response_begins_with_direct_sound_and_ends_after_60_db():
    for room, response in some_rooms(num=20):
        assert response.dtype == np.float32
        assert response[0] == pytest.approx(1, abs=0.5)  # except for an echo within the same sample
        assert len(response) == round(room.reverberation_s * RATE)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("to_wall_m", [1.0, 59.0])
def test_echo_time_and_amplitude_follow_geometry(axis, to_wall_m):
    # 1 m from a wall, 2 m apart: that wall's echo goes 2 * sqrt(2) m, all others are far
    source_m, microphone_m = np.full(3, 30.0), np.full(3, 30.0)
    source_m[axis] = microphone_m[axis] = to_wall_m
    microphone_m[axis - 1] += 2
    response = impulse_response(Room(np.full(3, 60.0), source_m, microphone_m, 2.0), np.random.default_rng(0))
    reflection = np.exp(-0.5 * 0.161 * 60**3 / (6 * 60**2 * 2.0))  # by Eyring
    echo = round((8**0.5 - 2) / 343 * RATE)
    assert response[0] == pytest.approx(1)
    assert response[echo] == pytest.approx(-reflection * 2 / 8**0.5, rel=1e-3)
    assert np.flatnonzero(response[:800]).tolist() == [0, echo]


def test_drawn_rooms_contain_speaker_and_microphone():
    for room, _ in some_rooms(0.2, 0.5):
        assert 0.2 <= room.reverberation_s <= 0.5
        assert room.distance_m >= NEAREST_M
        for position in (room.source_m, room.microphone_m):
            assert (position > 0).all()
            assert (position < room.size_m).all()


def test_reverberated_speech_keeps_length_energy_and_delay():
    speech = bursts()
    for _, response in some_rooms(num=20):
        wet = reverberate(speech, response)
        assert len(wet) == len(speech)
        assert wet.dtype == np.float32
        assert np.mean(wet**2) == pytest.approx(np.mean(speech**2), rel=1e-4)
        lags = np.correlate(np.pad(wet, 400), speech[:23000], "valid")[:801]
        assert np.abs(lags[:400]).max() < lags[400]  # nothing comes before the direct sound
        assert lags[400] > 0


def test_reverberate_equals_the_scaled_convolution():
    speech, (_, response) = bursts(3000), some_rooms(num=1)[0]
    wet, plain = reverberate(speech, response), np.convolve(speech.astype(np.float64), response)[:3000]
    np.testing.assert_allclose(wet, plain * np.sqrt(np.mean(speech**2) / np.mean(plain**2)), atol=0.5)


def test_reverberated_silence_is_silent():
    assert not reverberate(np.zeros(400, np.float32), np.ones(10, np.float32)).any()


def test_simulated_rooms_depend_on_the_seed_only():
    def rooms(seed):
        return SimulatedRooms.make((0.2, 0.3), np.random.default_rng(seed)).responses

    one, again, other = rooms(1), rooms(1), rooms(2)
    assert all((a[0] == b[0]).all() for a, b in zip(one, again, strict=True))
    assert (
        len({response.tobytes() for response, _ in one} & {response.tobytes() for response, _ in other}) == 0
    )


# measured ones


def test_measured_response_begins_at_its_direct_sound_in_the_first_channel(tmp_path):
    samples = np.zeros((48000, 2))
    samples[4800, 0], samples[9600, 0] = 0.5, 0.25  # at 48 kHz
    samples[:, 1] = 0.9
    soundfile.write(tmp_path / "hall.wav", samples, 48000, subtype="FLOAT")
    response = read_response(SoundPiece(tmp_path / "hall.wav"))
    assert np.abs(response[:2]).max() == pytest.approx(1)
    assert np.abs(response[:3]).argmax() + 1600 == pytest.approx(np.abs(response[100:]).argmax() + 100, abs=1)
    assert np.abs(response[100:]).max() == pytest.approx(0.5, rel=0.01)


def test_loud_echo_is_not_taken_as_direct_sound(tmp_path):
    samples = np.zeros(8000)
    samples[1000], samples[1400] = 0.5, -0.9
    soundfile.write(tmp_path / "far.wav", samples, RATE, subtype="FLOAT")
    response = read_response(SoundPiece(tmp_path / "far.wav"))
    assert response[0] == pytest.approx(0.5 / 0.9)
    assert response[400] == pytest.approx(-1)


def test_quiet_measured_response_keeps_its_tail(tmp_path):
    samples = np.zeros(8000)
    samples[0], samples[4000] = 1e-3, 1e-6
    soundfile.write(tmp_path / "quiet.wav", samples, RATE, subtype="FLOAT")
    response = read_response(SoundPiece(tmp_path / "quiet.wav"))
    assert response[4000] == pytest.approx(1e-3, rel=1e-3)


def test_long_measured_response_is_cut(tmp_path):
    soundfile.write(tmp_path / "long.wav", np.full(5 * RATE, 0.5), RATE)
    assert len(read_response(SoundPiece(tmp_path / "long.wav"))) == LONGEST_RESPONSE_S * RATE


def test_measured_responses_of_a_folder_are_applied(tmp_path):
    click = np.zeros(800)
    click[[100, 500]] = 0.9, 0.9
    soundfile.write(tmp_path / "two_clicks.wav", click, RATE)
    config = AugmentConfig(reverb=str(tmp_path), reverb_probability=1.0)
    clip = np.zeros(2000, np.int16)
    clip[600] = 10000
    wet, applied = Augmenter.load(config, 1).apply_with_effects(clip, 0, 1, 1.0)
    assert applied.response == "two_clicks.wav"
    assert np.flatnonzero(wet).tolist() == [600, 1000]
    assert wet[[600, 1000]] == pytest.approx(10000 / 2**0.5, abs=2)


def test_silent_measured_response_is_an_error_on_load(tmp_path):
    soundfile.write(tmp_path / "mute.wav", np.zeros(800), RATE)
    with pytest.raises(
        UserError, match=r"augment\.reverb: .*mute\.wav: expected an impulse response, received silence"
    ):
        Augmenter.load(AugmentConfig(reverb=str(tmp_path)), 1)
