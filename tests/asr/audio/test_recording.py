import io
import struct

import numpy as np
import pytest
import soundfile

from asr.audio.recording import (
    AudioHeader,
    audio_blocks,
    audio_duration_s,
    audio_header,
    read_audio,
    resample,
    write_wav,
)
from asr.base.errors import UserError


def tone(rate_hz, frequency_hz=440, duration_s=0.5, channels=1):
    wave = 0.5 * np.sin(2 * np.pi * frequency_hz * np.arange(int(rate_hz * duration_s)) / rate_hz)
    return np.stack([wave] * channels, axis=1)


def loudest_hz(waveform):
    spectrum = np.abs(np.fft.rfft(waveform))
    return spectrum.argmax() * 16000 / len(waveform)


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_any_rate_and_channel_count_preserves_pitch_length_and_level(tmp_path, rate_hz, channels):
    soundfile.write(tmp_path / "a.wav", tone(rate_hz, channels=channels), rate_hz)
    waveform = read_audio(tmp_path / "a.wav")
    assert waveform.dtype == np.int16
    assert len(waveform) == pytest.approx(8000, abs=2)
    assert loudest_hz(waveform) == pytest.approx(440, abs=4)
    assert np.abs(waveform[500:-500]).max() == pytest.approx(16384, rel=0.02)


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("a.wav", "PCM_24"),
        ("a.wav", "FLOAT"),
        ("a.wav", "ULAW"),
        ("a.flac", "PCM_16"),
        ("a.ogg", "VORBIS"),
        ("a.ogg", "OPUS"),
        ("a.mp3", "MPEG_LAYER_III"),
        ("a.aiff", "PCM_16"),
    ],
)
def test_any_container_is_read(tmp_path, name, subtype):
    soundfile.write(tmp_path / name, tone(16000), 16000, subtype=subtype)
    waveform = read_audio(tmp_path / name)
    assert loudest_hz(waveform) == pytest.approx(440, abs=15)
    assert np.abs(waveform[1000:6000]).max() == pytest.approx(16384, rel=0.1)


def test_frequencies_above_8_khz_are_filtered_out_before_resampling(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(44100, frequency_hz=11000), 44100)
    assert np.abs(read_audio(tmp_path / "a.wav")[500:-500]).max() < 164  # 40 dB below the input


def test_a_recording_is_read_from_a_pipe(tmp_path):
    soundfile.write(tmp_path / "a.flac", tone(16000), 16000)

    class Pipe(io.RawIOBase):
        data = io.BytesIO((tmp_path / "a.flac").read_bytes())

        def read(self, size=-1):
            return self.data.read(size)

    assert len(read_audio(Pipe())) == 8000


def test_16_bit_mono_is_read_bit_for_bit(tmp_path):
    waveform = np.random.default_rng(0).integers(-32768, 32767, 5000).astype(np.int16)
    write_wav(tmp_path / "a.wav", waveform)
    np.testing.assert_array_equal(read_audio(tmp_path / "a.wav"), waveform)
    assert audio_duration_s(tmp_path / "a.wav") == 5000 / 16000


def bad_file(path, kind):
    wav = io.BytesIO()
    soundfile.write(wav, tone(16000), 16000, format="WAV")
    flac = io.BytesIO()
    soundfile.write(flac, tone(16000), 16000, format="FLAC")
    content = {
        "empty": b"",
        "text": b"this is no sound at all, only text\n" * 20,
        "cut off": wav.getvalue()[:5000],
        "cut flac": flac.getvalue()[: len(flac.getvalue()) // 2],
        "header only": wav.getvalue()[:44],
        "half a header": wav.getvalue()[:20],
        "no samples": wav.getvalue()[:4]
        + struct.pack("<I", 36)
        + wav.getvalue()[8:40]
        + struct.pack("<I", 0),
        "half declared": wav.getvalue()[:40] + (8000).to_bytes(4, "little") + wav.getvalue()[44:],
        "unfinished": wav.getvalue()[:40] + bytes(4) + wav.getvalue()[44:],
        "wild rate": wav.getvalue()[:24] + struct.pack("<I", 100_000_007) + wav.getvalue()[28:],
        "short": wav.getvalue()[:40] + struct.pack("<I", 600) + wav.getvalue()[44:644],
    }[kind]
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("empty", "empty file"),
        ("text", "not audio that can be read"),
        ("cut off", r"cut off: .*declares 0\.50 s.* 0\.15 s"),
        ("cut flac", "cut off|broken"),
        ("header only", "cut off"),
        ("half a header", "not audio"),
        ("no samples", r"samples at 16 kHz.*received 0"),
        ("half declared", r"declares 0\.25 s.* 0\.50 s"),
        ("unfinished", "declares no samples, but 16000 bytes"),
        ("wild rate", "received 100000007"),
        ("short", r"at least 400 samples .*received 300"),
    ],
)
def test_a_broken_file_is_reported_with_the_reason(tmp_path, kind, message):
    path = bad_file(tmp_path / "bad.wav", kind)
    with pytest.raises(UserError, match=message) as error:
        read_audio(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_audio_files_and_folders_are_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.wav: cannot read this file \(No such file"):
        read_audio(tmp_path / "none.wav")
    with pytest.raises(UserError, match="expected an audio file, received a folder"):
        read_audio(tmp_path)


@pytest.mark.parametrize("declared", [0xFFFFFFFF, 0x7FFFF000], ids=["ffmpeg", "sox"])
def test_a_wav_that_declares_an_unknown_length_is_read(tmp_path, declared):
    wav = io.BytesIO()
    soundfile.write(wav, tone(16000), 16000, format="WAV")
    content = bytearray(wav.getvalue())
    content[4:8] = content[40:44] = struct.pack("<I", declared)
    (tmp_path / "piped.wav").write_bytes(content)
    assert len(read_audio(tmp_path / "piped.wav")) == 8000


def test_a_header_that_declares_hours_allocates_nothing(tmp_path):
    flac = io.BytesIO()
    soundfile.write(flac, tone(16000), 16000, format="FLAC")
    content = bytearray(flac.getvalue())
    content[21] |= 0x0F  # the highest bits of the number of samples: 2 ** 36, 128 GB
    (tmp_path / "lies.flac").write_bytes(content)
    with pytest.raises(UserError, match=r"cut off|broken"):
        read_audio(tmp_path / "lies.flac")


@pytest.mark.parametrize(
    "behind", [b"LIST\xfa\x01\x00\x00INFOISFT" + bytes(494), bytes(4000), b"TAG" + bytes(125)]
)
def test_chunks_tags_and_padding_after_the_samples_are_accepted(behind):
    wav = io.BytesIO()
    soundfile.write(wav, np.full(800, 1000, np.int16), 16000, format="WAV")
    np.testing.assert_array_equal(read_audio(io.BytesIO(wav.getvalue() + behind)), 1000)


@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100])
def test_a_wav_read_directly_equals_what_libsndfile_reads(num_channels, rate_hz, tmp_path):
    samples = np.random.default_rng(0).integers(-3000, 3000, (rate_hz, num_channels), np.int16)
    soundfile.write(tmp_path / "x.wav", samples, rate_hz)
    soundfile.write(tmp_path / "x.flac", samples, rate_hz)
    np.testing.assert_array_equal(read_audio(tmp_path / "x.wav"), read_audio(tmp_path / "x.flac"))
    assert audio_header(tmp_path / "x.wav") == AudioHeader(rate_hz, num_channels, 1.0, "WAV")
    assert audio_header(tmp_path / "x.flac") == AudioHeader(
        rate_hz, num_channels, 1.0, "FLAC", needs_decoding=True
    )


@pytest.mark.parametrize("coding", [2, 0x55])
def test_a_wav_with_coded_samples_is_not_read_as_plain_ones(coding):
    wav = io.BytesIO()
    soundfile.write(wav, np.arange(800, dtype=np.int16), 16000, format="WAV")
    coded = wav.getvalue()[:20] + struct.pack("<H", coding) + wav.getvalue()[22:]
    with pytest.raises(UserError, match="not audio that can be read"):
        read_audio(io.BytesIO(coded))


def test_zeros_after_a_wav_header_are_refused_quickly():
    data = io.BytesIO(b"RIFF\xff\xff\xff\x7fWAVE" + bytes(50_000_000))
    with pytest.raises(UserError, match="not audio"):
        read_audio(data)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((1, -1), 1),
        ((1, -1.01), 1.005),
        ((1, -0.7), 0.85),
        ((0, 0, 0, 1, 0, 0, 0, 0), 1),
        ((1, 0), 0.5),
        ((1, 0.5), 0.75),
        ((1, 1), 1),
    ],
)
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_channels_that_cancel_are_not_averaged(tmp_path, gains, expected, subtype):
    voice = np.random.default_rng(0).normal(0, 0.1, 16000)
    soundfile.write(tmp_path / "a.wav", voice[:, None] * gains, 16000, subtype=subtype)
    found = read_audio(tmp_path / "a.wav")
    np.testing.assert_allclose(found, voice * expected * 32768, atol=1.5)
    np.testing.assert_array_equal(np.concatenate(list(audio_blocks(tmp_path / "a.wav", 0.3))), found)


@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_no_speaker_is_lost_where_each_of_two_has_one_of_eight_channels(tmp_path, subtype):
    voices = np.zeros((32_000, 8))
    voices[:16_000, 2] = np.random.default_rng(0).normal(0, 0.1, 16_000)
    voices[16_000:, 5] = np.random.default_rng(1).normal(0, 0.05, 16_000)
    soundfile.write(tmp_path / "a.wav", voices, 16000, subtype=subtype)
    expected = (voices[:, 2] + voices[:, 5]) / 2 * 32768
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav"), expected, atol=1.5)


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 44_100])
@pytest.mark.parametrize("hum", [0.1, 0.9])
def test_voice_in_opposite_phase_is_not_lost_under_a_hum_of_both_channels(tmp_path, rate_hz, hum):
    voice = 0.05 * np.random.default_rng(0).normal(0, 1, rate_hz).clip(-2, 2)
    hums = hum * np.sin(2 * np.pi * 50 * np.arange(rate_hz) / rate_hz)
    soundfile.write(
        tmp_path / "a.wav", np.stack([hums + voice, hums - voice], axis=1), rate_hz, subtype="FLOAT"
    )
    expected = resample(voice * 32768, rate_hz)
    np.testing.assert_allclose(np.abs(read_audio(tmp_path / "a.wav")), np.abs(expected), atol=1.5)


def test_float_samples_on_another_scale_are_refused(tmp_path):
    voice = np.random.default_rng(0).normal(0, 3000, 16000)
    soundfile.write(tmp_path / "a.wav", voice, 16000, subtype="FLOAT")
    for read in (read_audio, lambda path: list(audio_blocks(path, 0.3))):
        with pytest.raises(UserError, match=r"a\.wav: expected float samples from -1 to 1.*32768"):
            read(tmp_path / "a.wav")
