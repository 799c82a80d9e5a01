"""Recordings of phones, browsers and cameras equal their source, whole and in parts."""

import io
import logging

import numpy as np
import pytest
from helpers.media import FORMS, encoded, lag_of, written

from asr.audio.recording import (
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    audio_blocks,
    audio_header,
    read_audio,
    read_part,
    read_short_audio,
    resample,
)
from asr.base.errors import UserError


@pytest.fixture(scope="module")
def speech(clips):
    return np.concatenate([read_audio(clip.audio_path) for clip in clips[:4]])


@pytest.fixture(scope="module")
def files(speech, tmp_path_factory):
    """Return the paths of one recording in every form."""
    folder = tmp_path_factory.mktemp("media")
    paths = {name: folder / f"clip.{name}" for name in FORMS}
    for name, path in paths.items():
        path.write_bytes(written(speech, name))
    return paths


@pytest.mark.parametrize("name", FORMS)
def test_recording_equals_its_source_within_a_window(name, files, speech):
    waveform = read_audio(files[name])
    assert abs(len(waveform) - len(speech)) <= WINDOW_SAMPLES
    assert abs(lag_of(waveform, speech)) <= WINDOW_SAMPLES
    header = audio_header(files[name])
    assert header.duration_s == pytest.approx(len(waveform) / SAMPLE_RATE_HZ, abs=0.003)
    assert header.needs_decoding


@pytest.mark.parametrize("name", ["m4a", "mkv", "browser.webm", "3gp"])
def test_blocks_and_streams_equal_the_file(name, files):
    whole = read_audio(files[name])
    np.testing.assert_array_equal(np.concatenate(list(audio_blocks(files[name], 0.7))), whole)
    np.testing.assert_array_equal(read_audio(io.BytesIO(files[name].read_bytes())), whole)
    assert read_short_audio(files[name], 1.0) is None
    np.testing.assert_array_equal(read_short_audio(files[name], 60.0), whole)


def test_recording_of_a_browser_that_states_no_length_is_read(files, speech):
    header = audio_header(files["browser.webm"])
    assert not header.length_is_stated
    assert header.duration_s == pytest.approx(len(speech) / SAMPLE_RATE_HZ, abs=0.003)


@pytest.mark.parametrize("name", ["m4a", "mkv", "webm", "amr", "wma"])
def test_part_of_a_long_recording_equals_that_of_the_whole(name, speech, tmp_path):
    path = tmp_path / f"long.{name}"
    path.write_bytes(written(np.tile(speech, 110 * SAMPLE_RATE_HZ // len(speech)), name))
    whole, rate_hz = read_part(path, 0.0, 1000.0)
    for begin_s in (17.3, 61.7, 90.001, 105.0):
        part, _ = read_part(path, begin_s, 4.0)
        begin = round(begin_s * rate_hz)
        np.testing.assert_array_equal(part, whole[begin : begin + round(4 * rate_hz)])


def test_only_the_part_of_a_long_recording_is_decoded(speech, tmp_path, monkeypatch):
    from asr.audio.media import reader
    from asr.audio.media.kinds import media_kind

    file = io.BytesIO(written(np.tile(speech, 150 * SAMPLE_RATE_HZ // len(speech)), "m4a"))
    media = reader.Media(file, media_kind(file), "long.m4a")
    decoded, decode = [], media._decoded
    monkeypatch.setattr(
        media, "_decoded", lambda decoder, timed: decoded.append(timed) or decode(decoder, timed)
    )
    num_samples = sum(len(block) for block in media.blocks(125.0))
    assert num_samples / 44100 == pytest.approx(
        len(decoded) * 1024 / 44100 - 65, abs=6
    )  # 30 s, and from 90 s


def test_silence_takes_the_place_of_a_gap(speech, tmp_path):
    """Times of words in a video are those of its picture."""
    import av

    source, late = io.BytesIO(written(speech, "mkv")), io.BytesIO()
    with av.open(source) as given, av.open(late, "w", format="matroska") as container:
        streams = {
            one.index: container.add_stream_from_template(one)
            for one in (given.streams.video[0], given.streams.audio[0])
        }
        for packet in given.demux():
            if packet.dts is not None:
                if packet.stream.type == "audio":
                    packet.pts, packet.dts = packet.pts + 1500, packet.dts + 1500
                packet.stream = streams[packet.stream.index]
                container.mux(packet)
    waveform = read_audio(io.BytesIO(late.getvalue()))
    assert not waveform[:23000].any()
    assert lag_of(waveform, speech) == pytest.approx(1.5 * SAMPLE_RATE_HZ, abs=WINDOW_SAMPLES)


def test_default_track_is_read_and_others_are_reported(speech, tmp_path, caplog):
    path = tmp_path / "two.mkv"
    form = FORMS["mkv"]._replace(has_video=False)
    with caplog.at_level(logging.INFO):
        for default, sign in ((0, speech), (1, speech[::-1])):
            path.with_stem(f"two{default}").write_bytes(encoded([speech, speech[::-1]], form, default))
            found = read_audio(path.with_stem(f"two{default}"))
            assert abs(lag_of(found, sign)) <= WINDOW_SAMPLES
    assert f"{path.with_stem('two1')}: has 2 audio tracks" in caplog.text


def test_video_without_sound_is_named(tmp_path):
    form = FORMS["mp4"]
    path = tmp_path / "silent.mp4"
    import av

    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
        container.mux(video.encode(frame))
        container.mux(video.encode(None))
    assert form.has_video
    with pytest.raises(UserError, match=r"silent\.mp4: has no audio track; leave it out"):
        read_audio(path)


@pytest.mark.parametrize("name", ["m4a", "mp4", "mov", "mkv", "webm", "wma", "3gp", "avi"])
@pytest.mark.parametrize("share", [0.4, 0.8, 0.97])
def test_recording_that_is_cut_off_is_named(name, share, files, tmp_path):
    path = tmp_path / f"cut.{name}"
    data = files[name].read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    for read in (read_audio, audio_header):
        with pytest.raises(UserError, match=f"cut.{name}: cut off"):
            read(path)


def test_what_cannot_be_read_is_named_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "my memo.ape"
    path.write_bytes(b"MAC \x96\x0f" + bytes(2000))
    with pytest.raises(UserError) as refused:
        read_audio(path)
    assert f"ffmpeg -i '{path}' -ac 1 -ar 16000 '{path.with_suffix('.wav')}'" in str(refused.value)
    path.write_bytes(b"\x02#!SILK_V3" + bytes(2000))
    with pytest.raises(UserError, match="WeChat"):
        read_audio(path)


def test_nothing_is_printed_by_the_decoder(files, tmp_path, capfd):
    data = bytearray(files["aac"].read_bytes())
    data[2000:2600] = bytes(600)
    (tmp_path / "a.aac").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.aac"):
        read_audio(tmp_path / "a.aac")
    assert capfd.readouterr() == ("", "")


def test_text_is_not_taken_for_a_container(tmp_path):
    (tmp_path / "a.txt").write_text("The wide road is free.")
    with pytest.raises(UserError, match="not audio that can be read"):
        read_audio(tmp_path / "a.txt")


def test_waveform_of_another_rate_is_resampled_as_a_wav_is(files, speech):
    """What PyAV decodes goes the way of all recordings."""
    samples, rate_hz = read_part(files["alac.m4a"], 0.0, 60.0)
    np.testing.assert_array_equal(read_audio(files["alac.m4a"]), resample(samples[:, 0] * 32768, rate_hz))
