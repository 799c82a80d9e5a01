"""MP3s are read to their last frame, whatever they state about their length, and whatever tags they have."""

import io

import numpy as np
import pytest
import soundfile

from asr.audio.mpeg import mpeg_frames, whole_mpeg
from asr.audio.recording import audio_blocks, audio_header, read_audio
from asr.base.errors import UserError

pytestmark = pytest.mark.skipif("MP3" not in soundfile.available_formats(), reason="libsndfile without MP3")

TAG = b"\xff\xfb" + bytes(range(1, 250)) * 240  # 60 kB, with what looks like a frame header
TAGS_BEHIND = {
    "ID3v1": b"TAG" + b"a" * 125,
    "enhanced ID3v1": b"TAG+" + b"a" * 223 + b"TAG" + b"a" * 125,
    "APEv2": b"APETAGEX"
    + b"\xd0\x07\0\0"
    + (len(TAG) + 32).to_bytes(4, "little")
    + b"\x01\0\0\0\0\0\0\xa0"
    + bytes(8)
    + TAG
    + b"APETAGEX\xd0\x07\0\0"
    + (len(TAG) + 32).to_bytes(4, "little")
    + b"\x01\0\0\0\0\0\0\x80"
    + bytes(8),
    "APEv1": TAG
    + b"APETAGEX\xe8\x03\0\0"
    + (len(TAG) + 32).to_bytes(4, "little")
    + b"\x01\0\0\0"
    + bytes(12),
    "ID3v2.4": b"ID3\4\0\x10\0\0\x40\0" + b"\xff\xfb" * 4096 + b"3DI\4\0\x10\0\0\x40\0",
    "Lyrics3": b"LYRICSBEGIN" + TAG + b"%06d" % (len(TAG) + 11) + b"LYRICS200",
    "zeros": bytes(60_000),
}
SMALL = (2032).to_bytes(4, "little") + b"\x01\0\0\0"  # a tag smaller than the audio
TAGS_BEHIND["APEv2 with a header that is not declared"] = (
    b"APETAGEX\xd0\x07\0\0"
    + SMALL
    + b"\0\0\0\xa0"
    + bytes(8)
    + TAG[:2000]
    + b"APETAGEX\xd0\x07\0\0"
    + SMALL
    + bytes(12)
)
TAGS_BEHIND["APEv2 and ID3v1"] = TAGS_BEHIND["APEv2"] + TAGS_BEHIND["ID3v1"]


def mp3(rate_hz=16_000, mode="VARIABLE", loud_first=True, seconds=4, channels=1):
    """Return an MP3 of noise, of which one half is almost silent, and its number of samples."""
    noise = np.random.default_rng(0).normal(0, 0.3, (rate_hz * seconds, channels))
    quiet = slice(len(noise) // 2, None) if loud_first else slice(0, len(noise) // 2)
    noise[quiet] /= 2000
    file = io.BytesIO()
    soundfile.write(file, noise, rate_hz, format="MP3", bitrate_mode=mode, compression_level=0.5)
    return file.getvalue()


def without_xing(data):
    return data[mpeg_frames(io.BytesIO(data)).runs[0][0] :]


def all_lengths_s(path, data):
    """Return the seconds that the header, the whole reader and the reader of blocks find."""
    path.write_bytes(data)
    blocks = np.concatenate(list(audio_blocks(path, 0.3)))
    whole = read_audio(path)
    np.testing.assert_array_equal(blocks, whole)
    return audio_header(path).duration_s, len(whole) / 16_000


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("loud_first", [True, False])
@pytest.mark.parametrize("mode", ["VARIABLE", "AVERAGE", "CONSTANT"])
def test_an_mp3_without_a_xing_frame_is_read_to_its_last_frame(tmp_path, rate_hz, loud_first, mode):
    data = mp3(rate_hz, mode, loud_first, channels=2 if loud_first else 1)
    assert all_lengths_s(tmp_path / "a.mp3", data) == pytest.approx((4, 4), abs=1e-3)
    assert audio_header(tmp_path / "a.mp3").length_is_stated
    expected = read_audio(tmp_path / "a.mp3").astype(float)
    cut = without_xing(data)
    assert all_lengths_s(tmp_path / "a.mp3", cut) == pytest.approx((4, 4), abs=0.1)
    assert not audio_header(tmp_path / "a.mp3").length_is_stated
    found = read_audio(tmp_path / "a.mp3").astype(float)
    delay = round(576 * 16_000 / rate_hz)
    end = delay + len(expected)
    errors = [np.abs(found[begin:][: len(expected)] - expected[: end - begin]).mean() for begin in (delay, 0)]
    assert errors[0] < 0.1 * errors[1]  # the same speech, behind the encoder's delay


@pytest.mark.parametrize("xing", [True, False])
@pytest.mark.parametrize("kind", TAGS_BEHIND)
def test_a_tag_behind_the_audio_is_no_audio(tmp_path, kind, xing):
    data = mp3() if xing else without_xing(mp3())
    expected = all_lengths_s(tmp_path / "a.mp3", data)
    samples = read_audio(tmp_path / "a.mp3")
    assert all_lengths_s(tmp_path / "a.mp3", data + TAGS_BEHIND[kind]) == expected
    np.testing.assert_array_equal(read_audio(tmp_path / "a.mp3"), samples)


def test_tags_in_front_and_between_joined_files_are_skipped(tmp_path):
    tag = b"ID3\4\0\0\0\0\x40\0" + b"\xff\xfb" * 4096
    one = tag + tag + mp3()
    assert all_lengths_s(tmp_path / "a.mp3", one) == pytest.approx((4, 4), abs=1e-3)
    joined = one + TAGS_BEHIND["ID3v1"] + one + TAGS_BEHIND["APEv2"] + one
    assert all_lengths_s(tmp_path / "a.mp3", joined) == pytest.approx((12, 12), abs=0.5)


def test_decoder_writes_nothing_about_a_sound_mp3_with_tags(tmp_path, capfd):
    front = b"ID3\4\0\0\0\0\x40\0" + b"\xff\xfb" * 4096
    path = tmp_path / "a.mp3"
    path.write_bytes(front + mp3() + TAGS_BEHIND["ID3v1"])
    assert audio_header(path).duration_s == pytest.approx(4, abs=1e-3)
    assert len(read_audio(path)) == pytest.approx(64_000, abs=16)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("channels", [(1, 2), (2, 1)])
def test_header_of_a_mono_and_a_stereo_recording_in_one_file_is_refused_as_its_audio_is(tmp_path, channels):
    path = tmp_path / "a.mp3"
    path.write_bytes(b"".join(without_xing(mp3(channels=number)) for number in channels))
    for read in (read_audio, audio_header):
        with pytest.raises(UserError, match=r"a\.mp3"):
            read(path)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_an_mp3_with_fewer_frames_than_stated_is_cut_off(tmp_path, share):
    data = mp3()
    path = tmp_path / "a.mp3"
    path.write_bytes(data[: int(share * len(data))] + TAGS_BEHIND["APEv2"])
    for read in (read_audio, audio_header, lambda source: list(audio_blocks(source, 1))):
        with pytest.raises(UserError, match=r"cut off.*MPEG frames.*copy it again"):
            read(path)


def test_a_broken_last_frame_without_a_stated_length_does_not_refuse_the_others(tmp_path):
    whole = without_xing(mp3())
    assert all_lengths_s(tmp_path / "a.mp3", whole[:-50]) == pytest.approx((4, 4), abs=0.1)


def test_many_bytes_that_are_neither_frames_nor_a_tag_are_refused_by_all(tmp_path):
    path = tmp_path / "a.mp3"
    path.write_bytes(mp3() + b"\xff\x01 damaged" * 4000)
    for read in (read_audio, audio_header):
        with pytest.raises(UserError, match="neither MPEG frames nor a tag"):
            read(path)


class Counted(io.BytesIO):
    """A stream that counts how often it is read, and how much."""

    num_reads = num_bytes = 0

    def read(self, size=-1, /):
        data = super().read(size)
        self.num_reads, self.num_bytes = self.num_reads + 1, self.num_bytes + len(data)
        return data


FRAME = bytes([0xFF, 0xF3, 0x14, 0xC0]) + bytes(20)


@pytest.mark.parametrize(
    "made",
    [
        b"\xff\xfb\x90\x00" * 250_000,
        FRAME * 5 + b"\xff\xfb\x90\x00" * 250_000,
        FRAME * 5 + b"\xff" * 1_000_000,
        FRAME * 40_000,
        (FRAME * 3 + b"\x01") * 14_000,
        (FRAME * 3 + FRAME[:4]) * 14_000,
        b"ID3\4\0\0\0\0\0\0" * 100_000,
    ],
)
def test_file_made_to_take_long_is_read_a_few_times_at_most(made):
    stream = Counted(made)
    mpeg_frames(stream)
    assert stream.num_reads < 5000
    assert stream.num_bytes < 25 * len(made)


def test_frames_in_thousands_of_pieces_are_refused():
    whole = whole_mpeg(io.BytesIO((FRAME * 3 + b"\x01") * 1100))
    assert "pieces" in whole.reason
