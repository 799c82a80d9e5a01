"""Test OpenAI's protocol by its own client: every answer is that of `asr transcribe`."""

import io
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from asr.base.types import Hypothesis
from asr.server.funasr_socket import _spans_ms
from asr.server.openai_http import _segment
from asr.server.page.transcript import segment_fields
from asr.transcription.long_audio import Segment
from asr.transcription.recognized import Recognized
from asr.transcription.timed_text import format_recognized


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


def transcribed(client, path, **options):
    with Path(path).open("rb") as file:
        return client.audio.transcriptions.create(model="whisper-1", file=file, **options)


def test_concurrent_clips_get_the_transcripts_of_asr_transcribe(client, recognizer, clips):
    paths = [clip.audio_path for clip in clips] * 3
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda path: transcribed(client, path).text, paths))
    expected = [recognizer.transcribe(path).text for path in paths]
    assert found == expected
    assert len(set(found)) > 3


def test_long_recording_gets_the_transcript_and_the_segments_of_asr_transcribe(client, recognizer, long_file):
    found = transcribed(
        client,
        long_file,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    expected = recognizer.transcribe(long_file)
    assert found.text == expected.text == " ".join(segment.text for segment in found.segments)
    assert found.language == "chinese"
    assert len(found.segments) > 6
    for before, after in itertools.pairwise(found.segments):
        assert before.start < before.end <= after.start < after.end <= found.duration
    assert "".join(word.word for word in found.words) == expected.text.replace(" ", "")
    assert {word.start for word in found.words} <= set(expected.times_s)
    assert all(word.start < word.end for word in found.words)


def test_stream_sends_segments_that_add_up_to_the_whole(client, recognizer, long_file):
    events = list(transcribed(client, long_file, stream=True))
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert len(deltas) > 6
    assert events[-1].type == "transcript.text.done"
    assert "".join(deltas) == events[-1].text == recognizer.transcribe(long_file).text


def test_text_and_subtitles(client, recognizer, long_file):
    expected = recognizer.transcribe(long_file).text
    assert transcribed(client, long_file, response_format="text") == expected + "\n"
    srt = transcribed(client, long_file, response_format="srt")
    vtt = transcribed(client, long_file, response_format="vtt")
    times = r"\d\d:\d\d:\d\d{0}\d{{3}} --> \d\d:\d\d:\d\d{0}\d{{3}}"
    cues = re.findall(rf"(\d+)\n{times.format(',')}\n(.+)\n", srt)
    assert [number for number, _ in cues] == [str(n + 1) for n in range(len(cues))]
    assert "".join(text for _, text in cues) == expected.replace(" ", "")
    assert vtt.startswith("WEBVTT\n\n00:")
    assert len(re.findall(times.format(r"\."), vtt)) == len(cues)


def test_model_is_listed(client):
    (model,) = client.models.list().data
    assert model.id == client.models.retrieve("model").id == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"response_format": "xml"}, "response_format"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities[]"),
        (
            {"response_format": "verbose_json", "timestamp_granularities": ["tone"]},
            "timestamp_granularities[]",
        ),
    ],
)
def test_wrong_fields_are_named_in_openais_form(client, clips, options, param):
    with pytest.raises(openai.BadRequestError) as caught:
        transcribed(client, clips[0].audio_path, **options)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("data", [b"", b"hello" * 50, b"RIFF\x10\0\0\0WAVEfmt ", b"OggS" + bytes(99)])
def test_what_is_no_audio_is_refused_and_says_so(client, data):
    for stream in (False, True):
        with pytest.raises(openai.APIError) as caught:
            list(client.audio.transcriptions.create(model="m", file=io.BytesIO(data), stream=stream))
        assert caught.value.code == "invalid_audio"


def test_segments_have_the_times_of_their_subtitles(client, clips, long_file):
    for path in (clips[0].audio_path, long_file):
        segments = transcribed(client, path, response_format="verbose_json").segments
        srt = transcribed(client, path, response_format="srt")
        begins, ends = (
            [float(part.replace(",", ".")) for part in re.findall(rf"00:00:(\d\d,\d+){after}", srt)]
            for after in (" -->", "\n")
        )
        assert begins[0] == pytest.approx(segments[0].start, abs=1e-3)
        assert ends[-1] == pytest.approx(segments[-1].end, abs=1e-3)
        assert {round(segment.start, 3) for segment in segments} <= {round(begin, 3) for begin in begins}


def test_segment_has_the_times_of_what_is_said_in_it_in_every_format(recognizer):
    tokens = recognizer.vocabulary.tokens[1:3]
    hypothesis = Hypothesis("-", tokens, "text", -1.0, (0.5, 1.0), 0.0, (1.0, 1.0))
    segment = Segment(0.0, 9.0, hypothesis)  # silence on both sides
    converter = recognizer.decoder.converter
    recognized = Recognized.of_segments([segment], "-", 9.0)
    srt = format_recognized(recognized, recognizer.vocabulary, converter, "srt")
    begin, end = (float(time.replace(",", ".")) for time in re.findall(r"00:00:(\d\d,\d+)", srt))
    assert 0.5 == begin < 1.0 < end < 9.0
    of_openai = _segment(0, segment, [1, 2])
    of_page = segment_fields(segment, recognizer)
    spans_ms = _spans_ms(segment)
    assert (of_openai["start"], of_openai["end"], of_openai["seek"]) == (begin, end, 50)
    assert (of_page["start_s"], of_page["end_s"]) == (begin, end)
    assert (spans_ms[0][0] / 1000, spans_ms[-1][1] / 1000) == (begin, end)
