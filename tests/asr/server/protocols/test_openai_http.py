"""Test OpenAI's protocol by its own client: every answer is that of `asr transcribe`."""

import io
import itertools
import json
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai
import pytest
from helpers.forms import form
from helpers.servers import LIMIT_S, server_in_thread
from helpers.speech_sockets import funasr

from asr.base.types import Logits
from asr.base.vocabulary import BLANK_ID
from asr.model.runner import WrappedRunner
from asr.transcription.recognizer import Recognizer


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


class LateRunner(WrappedRunner):
    """A model whose frames 0 to 3 and from 6 on are blank, as where nobody speaks."""

    def compiled(self, reduce):
        def late(logits):
            values = np.array(logits.values)
            values[:, :4, BLANK_ID] = values[:, 6:, BLANK_ID] = 1e3
            return reduce(Logits(values, logits.num_frames))

        return self.runner.compiled(late)


@pytest.mark.parametrize("is_long", [False, True])
def test_segments_have_the_times_of_what_is_said_in_every_format(recognizer, clips, long_file, is_long):
    path = Path(long_file if is_long else clips[-1].audio_path)
    late = Recognizer(LateRunner(recognizer.runner), recognizer.vocabulary, recognizer.decoder)
    stretches = [(one.start_s, one.end_s) for one in late.transcribe(path).segments]
    with (
        server_in_thread(late) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
    ):
        segments = transcribed(client, path, response_format="verbose_json").segments
        subtitles = {name: transcribed(client, path, response_format=name) for name in ("srt", "vtt")}
        kind, body = form(path.read_bytes())
        request = urllib.request.Request(f"{address}/page/transcribe", body, {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            of_page = [json.loads(line).get("segment") for line in answer][:-1]
        (of_funasr,) = funasr(address, path.read_bytes(), "offline", wav_format="wav")
    spans = [(round(one.start, 3), round(one.end, 3)) for one in segments]
    for (begin, end), (start_s, end_s) in zip(spans, stretches, strict=True):
        assert start_s + 0.05 < begin < end < end_s
    assert [one.seek for one in segments] == [round(100 * begin) for begin, _ in spans]
    for name, text in subtitles.items():
        times = re.findall(rf"\d\d:(\d\d):(\d\d)\{'.' if name == 'vtt' else ','}(\d+)", text)
        seconds = {60 * int(minute) + float(f"{second}.{part}") for minute, second, part in times}
        assert set(itertools.chain(*spans)) <= seconds
    assert [(one["start_s"], one["end_s"]) for one in of_page] == spans
    sentences = of_funasr["stamp_sents"]
    assert [(one["start"] / 1000, one["end"] / 1000) for one in sentences] == spans
