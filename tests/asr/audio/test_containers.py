import logging
import re
import struct

import numpy as np
import pytest
import soundfile

from asr.audio.recording import audio_blocks, audio_header, read_audio
from asr.base.errors import UserError
from asr.base.types import Utterance
from data_pipeline.doctor.checkup import audio_findings, check_recording
from data_pipeline.doctor.findings import ManifestLine
from data_pipeline.doctor.quick import check_audio

NOISE = np.random.default_rng(0).normal(0, 0.1, 30_000)
CONTAINERS = [
    *((name, "PCM_16") for name in ("AIFF", "AU", "W64", "RF64", "NIST", "VOC", "SVX", "CAF", "FLAC")),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
    ("MP3", "MPEG_LAYER_III"),
]


def written(path, container="WAV", subtype="PCM_16", samples=NOISE, **kwargs):
    soundfile.write(str(path), samples, 16000, format=container, subtype=subtype, **kwargs)
    return path.read_bytes()


def errors(path):
    """Return the messages of all ways to open a recording; "" for those that read it."""
    found = []
    for read in (read_audio, audio_header, lambda source: list(audio_blocks(source, 0.3))):
        try:
            read(path)
            found.append("")
        except UserError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(("container", "subtype"), CONTAINERS)
def test_file_cut_anywhere_is_refused_however_it_is_opened(tmp_path, container, subtype):
    path = tmp_path / f"a.{container.lower()}"
    data = written(path, container, subtype)
    assert errors(path) == [""] * 3
    assert audio_header(path).length_is_stated
    for share in np.linspace(0.2, 0.97, 20):
        path.write_bytes(data[: int(share * len(data))])
        assert all(str(path) in message for message in errors(path))


@pytest.mark.parametrize("order", ["big", "little"])
def test_both_byte_orders_of_au_are_read(tmp_path, order):
    path = tmp_path / "a.au"
    data = written(path, "AU", endian=order.upper())
    assert errors(path) == [""] * 3
    path.write_bytes(data[:-2000])
    assert all("the header declares audio up to byte 60,024" in message for message in errors(path))


def test_tags_behind_the_last_page_of_an_ogg_file_are_no_cut(tmp_path):
    path = tmp_path / "a.ogg"
    path.write_bytes(written(path, "OGG", "VORBIS") + b"TAG" + bytes(125))
    assert errors(path) == [""] * 3


def test_container_without_a_stated_length_is_read_and_said(tmp_path, caplog):
    path = tmp_path / "a.au"
    data = bytearray(written(path, "AU"))
    data[8:12] = struct.pack(">I", 0xFFFFFFFF)  # as programs write it to a pipe
    path.write_bytes(data)
    assert errors(path) == [""] * 3
    assert not audio_header(path).length_is_stated
    utterances = [Utterance(f"{n}", str(path), 30_000 / 16_000, "", ("a1",)) for n in range(3)]
    with caplog.at_level(logging.WARNING):
        assert check_audio(utterances) == [""] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "3 AU recordings without a stated length, so that a missing end is not noticed"
    ]
    found = audio_findings(ManifestLine("train", 0, utterances[0]), check_recording(str(path)))
    assert [finding.code for finding in found] == ["unstated-length"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize(("container", "channels"), [("WAV", 1), ("WAV", 2), ("AIFF", 1)])
def test_samples_that_are_not_finite_are_refused_before_training(tmp_path, container, channels, value):
    path = tmp_path / "a"
    samples = np.tile(NOISE[:, None], channels)
    samples[20_000, -1] = value
    written(path, container, "FLOAT", samples)
    for message in errors(path):
        assert message.startswith(f"{path}: has samples that are not finite numbers")
    problem = check_audio([Utterance("a", str(path), 30_000 / 16_000, "", ("a1",))])[0]
    assert "not finite" in problem
    assert check_recording(str(path)).problem == "corrupt-audio"


def test_loud_samples_are_clipped_and_not_refused(tmp_path):
    written(tmp_path / "a.wav", subtype="FLOAT", samples=5 * NOISE)
    assert np.abs(read_audio(tmp_path / "a.wav").astype(int)).max() == 32768


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
@pytest.mark.parametrize(
    "samples",
    [3000 * NOISE, 100 * NOISE, 12 * NOISE, np.rint(30 * NOISE), np.stack([NOISE, 100 * NOISE], axis=1)],
)
def test_float_samples_on_another_scale_are_refused_by_all(tmp_path, container, samples):
    path = tmp_path / "a"
    written(path, container, "FLOAT", samples)
    assert all("expected float samples from -1 to 1" in message for message in errors(path))
    assert check_recording(str(path)).problem == "corrupt-audio"
    assert check_audio([Utterance("a", str(path), 30_000 / 16_000, "", ("a1",))]) != [""]


@pytest.mark.parametrize("container", ["AIFF", "AU", "W64", "RF64", "NIST", "VOC", "SVX", "OGG"])
@pytest.mark.filterwarnings("error")
def test_damaged_headers_are_read_or_refused_without_tracebacks(tmp_path, container):
    path = tmp_path / "a"
    rng = np.random.default_rng(1)
    data = written(path, container, "VORBIS" if container == "OGG" else "PCM_16")
    for _ in range(60):
        damaged = bytearray(data)
        for place in rng.integers(0, 120, 4):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        assert all(not message or message.startswith(str(path)) for message in errors(path))


def with_declared(data, change):
    """Return a plain WAV whose header declares `change` bytes more than there are samples."""
    return data[:40] + struct.pack("<I", len(data) - 44 + change) + data[44:]


@pytest.mark.parametrize("change", [2, 16, 28, 36, 44, 100, -2, -44])
def test_wav_header_that_is_wrong_by_its_own_size_is_read(tmp_path, change):
    path = tmp_path / "a.wav"
    path.write_bytes(with_declared(written(path), change))
    assert errors(path) == [""] * 3
    assert 0 <= len(NOISE) - len(read_audio(path)) <= 22


@pytest.mark.parametrize("container", ["AU", "RF64"])
def test_other_header_that_is_wrong_by_its_own_size_is_read(tmp_path, container):
    path = tmp_path / "a"
    path.write_bytes(written(path, container)[:-44])
    assert errors(path) == [""] * 3
    assert len(read_audio(path)) == len(NOISE) - 22


@pytest.mark.parametrize("lost", [1000, 3000])
def test_two_lengths_that_differ_are_written_differently(tmp_path, lost):
    path = tmp_path / "a.wav"
    path.write_bytes(written(path)[:-lost])
    for message in errors(path):
        declared, present = re.search(r"declares (\S+) s, but the file has (\S+) s", message).groups()
        assert declared != present


@pytest.mark.parametrize("share", [0.02, 0.05, 0.09, 0.15, 0.5])
def test_wav_header_that_is_too_short_loses_no_end_in_silence(tmp_path, share):
    path = tmp_path / "a.wav"
    path.write_bytes(with_declared(written(path), -2 * int(share * len(NOISE))))
    assert all("did not finish" in message for message in errors(path))


@pytest.mark.parametrize(
    "behind",
    [
        bytes(9000),
        b"LIST" + struct.pack("<I", 9000) + b"a" * 9000,
        b"odd " + struct.pack("<I", 9000) + b"a" * 9000,
        b"LIST" + struct.pack("<I", 9000) + b"a" * 700,
        b"ID3\4" + b"\x99" * 9000,
        bytes(5) + b"id3 " + struct.pack("<I", 9000) + b"\x99" * 9000 + bytes(3),
    ],
)
def test_chunks_tags_and_zeros_behind_the_samples_are_no_samples(tmp_path, behind):
    path = tmp_path / "a.wav"
    path.write_bytes(written(path) + behind)
    assert errors(path) == [""] * 3
    assert len(read_audio(path)) == len(NOISE)


def test_second_chunk_of_samples_is_refused(tmp_path):
    path = tmp_path / "a.wav"
    data = written(path)
    path.write_bytes(data + b"LIST" + struct.pack("<I", 4) + b"abcd" + data[36:])
    assert all("a second one" in message for message in errors(path))


def patched(data, field, form, change):
    """Return a file with another value of the size that comes after `field`, by its name or its place."""
    place = field if isinstance(field, int) else data.index(field) + len(field)
    value = struct.unpack_from(form, data, place)[0]
    return data[:place] + struct.pack(form, change(value)) + data[place + struct.calcsize(form) :]


SIZES = [
    ("AIFF", b"SSND", ">I"),
    ("AU", 8, ">I"),
    ("RF64", 28, "<Q"),
    ("CAF", b"data", ">q"),
    ("AVR", 26, ">I"),
    ("MAT4", 47, "<I"),
]


@pytest.mark.parametrize("share", [0.3, 0.9, 0.98])
@pytest.mark.parametrize(("container", "field", "form"), SIZES)
def test_header_that_declares_too_little_loses_no_end_in_silence(tmp_path, container, field, form, share):
    path = tmp_path / "a"
    data = written(path, container)
    path.write_bytes(patched(data, field, form, lambda size: int(size * share) // 4 * 4))
    assert all(message.startswith(f"{path}: the header declares") for message in errors(path))
    assert check_recording(str(path)).problem == "corrupt-audio"


@pytest.mark.parametrize(
    ("container", "field", "form", "value"),
    [
        ("AIFF", b"SSND", ">I", 0x7F000008),
        ("AU", 8, ">I", 0),
        ("AU", 8, ">I", 0xFFFFFFFF),
        ("RF64", 28, "<q", -1),
        ("W64", b"data\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a", "<q", -1),
        ("CAF", b"data", ">q", -1),
        ("FLAC", 22, ">I", 0),
    ],
)
def test_recording_of_unknown_length_is_read_to_its_end(tmp_path, container, field, form, value):
    path = tmp_path / "a"
    data = written(path, container)
    whole = read_audio(path)
    path.write_bytes(patched(data, field, form, lambda _: value))
    assert errors(path) == [""] * 3
    np.testing.assert_array_equal(read_audio(path), whole)
    header = audio_header(path)
    assert header.duration_s == pytest.approx(len(NOISE) / 16000)
    assert not header.length_is_stated


@pytest.mark.parametrize("behind", [b"", b"TAG" + bytes(125), bytes(5000)])
@pytest.mark.parametrize("num_stated", [1, 4096, 15_000, 29_999])
def test_flac_whose_header_states_too_few_samples_is_read_to_its_last_frame(tmp_path, num_stated, behind):
    path = tmp_path / "a.flac"
    data = written(path, "FLAC")
    whole = read_audio(path)
    path.write_bytes(patched(data, 22, ">I", lambda _: num_stated) + behind)
    assert errors(path) == [""] * 3
    np.testing.assert_array_equal(read_audio(path), whole)
    assert audio_header(path).duration_s == len(NOISE) / 16000


@pytest.mark.parametrize("share", [0.3, 0.99])
def test_flac_of_unknown_length_whose_last_frame_is_cut_is_refused(tmp_path, share):
    path = tmp_path / "a.flac"
    data = patched(written(path, "FLAC"), 22, ">I", lambda _: 0)
    path.write_bytes(data[: int(share * len(data))])
    assert all(message.startswith(str(path)) for message in errors(path))


@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("FLAC", "PCM_16"),
        ("WAV", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
    ],
)
def test_second_recording_in_a_file_is_read_or_refused(tmp_path, container, subtype):
    path = tmp_path / "a"
    path.write_bytes(2 * written(path, container, subtype))
    assert all(message.startswith(f"{path}: ") for message in errors(path))


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_whose_last_page_declares_too_little_is_refused(tmp_path, subtype):
    path = tmp_path / "a.ogg"
    data = bytearray(written(path, "OGG", subtype, np.tile(NOISE, 4)))
    page = data.rindex(b"OggS")
    data[page + 6 : page + 14] = struct.pack("<q", struct.unpack_from("<q", data, page + 6)[0] // 2)
    data[page + 22 : page + 26] = bytes(4)
    data[page + 22 : page + 26] = struct.pack("<I", ogg_checksum(data[page:]))
    path.write_bytes(data)
    assert all(message.startswith(f"{path}: its last page declares") for message in errors(path))


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_with_a_page_missing_in_the_middle_is_refused(tmp_path, subtype):
    path = tmp_path / "a.ogg"
    pages = written(path, "OGG", subtype, np.tile(NOISE, 30)).split(b"OggS")[1:]
    assert errors(path) == [""] * 3
    assert len(pages) > 6
    path.write_bytes(b"".join(b"OggS" + page for page in pages[:4] + pages[5:]))
    assert all("expected page 4, found page 5" in message for message in errors(path))


def ogg_checksum(page):
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value >> 31 else value << 1) & 0xFFFFFFFF
    return value


@pytest.mark.parametrize("container", ["WAV", "FLAC", "AIFF", "AU", "OGG"])
def test_tag_in_front_of_a_container_is_skipped(tmp_path, container):
    path = tmp_path / "a"
    data = written(path, container, None)
    whole = read_audio(path)
    path.write_bytes(b"ID3\4\0\0\0\0\0\x64" + b"\xff\xfb" * 50 + data)
    assert errors(path) == [""] * 3
    np.testing.assert_array_equal(read_audio(path), whole)


@pytest.mark.parametrize("container", ["AIFF", "W64"])
def test_coded_samples_are_read_by_all_or_by_none(tmp_path, container):
    path = tmp_path / "a"
    written(path, container, "GSM610")
    assert errors(path) == [""] * 3
