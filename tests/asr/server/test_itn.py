"""Test that a number in digits has the times of what is said, in the answers of every protocol.

The model is one that recognizes the same sentence in whatever it receives, a syllable every 0.08 s.
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import openai
import pytest
from helpers.servers import server_in_thread
from helpers.speech_sockets import funasr, vosk

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.model.runner import AudioModel, ModelRunner
from asr.server.page.transcript import segment_fields
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.recognizer import Recognizer

SENTENCE = ["ta1", "hua1", "le5", "yi4", "bai3", "er4", "shi2", "san1", "tian1"]
VOCABULARY = Vocabulary(["bai3", "er4", "hua1", "le5", "san1", "shi2", "ta1", "tian1", "yi4"])
FRAME_SAMPLES = 1280
BEGINS_S = 0.24  # of 一百二十三天


class OneSentence(AudioModel, ModelRunner):
    num_devices = 1
    frame_samples, frame_s = FRAME_SAMPLES, FRAME_SAMPLES / SAMPLE_RATE_HZ

    @property
    def model(self):
        return self

    def receptive_field(self):
        return None

    def compiled(self, reduce):
        return lambda audio, num_samples: reduce(self.logits(num_samples))

    def clip_runner(self):
        return lambda padded, num_samples: self.logits(np.array([num_samples])).values[0]

    def logits(self, num_samples):
        num_frames = -(-num_samples // FRAME_SAMPLES)
        values = np.zeros((len(num_samples), max(num_frames), len(VOCABULARY)), np.float32)
        values[:, :, 0] = 10
        for place, token in enumerate(VOCABULARY.encode(SENTENCE)):
            values[:, place : place + 1, token] = 20
        return Logits(values, num_frames.astype(np.int32))


@pytest.fixture(scope="module")
def recognizer():
    runner = OneSentence()
    choice = DecoderChoice(DecoderSettings(), itn=True)
    return Recognizer(runner, VOCABULARY, choice.decoder(VOCABULARY, runner.frame_s))


@pytest.fixture(scope="module")
def address(recognizer):
    with server_in_thread(recognizer) as (_, address):
        yield address


@pytest.fixture(scope="module")
def clip(clips):
    return max(clips, key=lambda one: one.duration_s)


def test_openai_words_and_subtitles(address, clip):
    data = Path(clip.audio_path).read_bytes()
    with openai.OpenAI(base_url=f"{address}/v1", api_key="-", max_retries=0) as client:
        fields = client.audio.transcriptions.create(
            model="m", file=data, response_format="verbose_json", timestamp_granularities=["word"]
        )
    assert fields.text == "他花了123天"
    (number,) = (word for word in fields.words if "123" in word.word)
    assert (number.start, number.end > 0.64) == (pytest.approx(BEGINS_S), True)
    assert all(one.end <= other.start for one, other in pairwise(fields.words))


def test_funasr_and_vosk_write_digits_at_the_end_and_speech_until_then(address, clip):
    speech = read_audio(clip.audio_path)
    (offline,) = funasr(address, speech, "offline")
    assert offline["text"] == "他花了123天"
    assert len(json.loads(offline["timestamp"])) == len(SENTENCE)
    *_, last = funasr(address, speech, "2pass")
    assert last["text"] == "他花了123天"
    assert "".join(one["text"] for one in funasr(address, speech, "online")) == "他花了一百二十三天"
    assert funasr(address, speech, "offline", itn=False)[0]["text"] == "他花了一百二十三天"
    found, final = vosk(address, speech)
    assert final["text"] == "他花了123天"
    assert any("一百" in one["partial"] for one in found)
    assert [word["word"] for word in final["result"] if "1" in word["word"]] == ["123天"]


def test_page_shows_how_a_number_is_read(recognizer, clip):
    (segment,) = recognizer.transcribe(clip.audio_path).segments
    (number,) = (unit for unit in segment_fields(segment)["units"] if "123" in unit["text"])
    assert number["reading"] == "yì bǎi èr shí sān tiān"
    assert (number["start_s"], number["end_s"] > 0.64) == (pytest.approx(BEGINS_S), True)


@pytest.mark.parametrize(
    ("choice", "vocabulary"),
    [({"write_hanzi": False}, VOCABULARY), ({}, Vocabulary(["one", "two"]))],
)
def test_digits_need_hanzi(choice, vocabulary):
    with pytest.raises(UserError, match="`itn`"):
        DecoderChoice(DecoderSettings(), itn=True, **choice).decoder(vocabulary, 0.08)
