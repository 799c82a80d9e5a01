"""Test that streams share batches without a difference, and that the first of them does not wait."""

import re

import numpy as np
import pytest
from helpers.servers import server_in_thread, wait_until
from helpers.speech_sockets import funasr, vosk

from asr.audio.recording import read_audio
from asr.language.hanzi.rare import rare_characters
from asr.server.metrics import Metrics
from asr.server.requests.limits import Limits
from asr.server.streams import Streams


def test_clips_of_a_batch_have_the_results_that_they_have_alone_in_their_order(recognizer, clips):
    waveforms = [read_audio(clip.audio_path)[: 9000 - 700 * place] for place, clip in enumerate(clips[:5])]
    waveforms.insert(2, waveforms.pop())
    run = Streams(recognizer, Limits(), Metrics()).kind(10**9).run
    items = [(np.pad(one, (0, 3000)), len(one)) for one in waveforms]
    for item, found in zip(items, run(items), strict=True):
        (alone,) = run([item])
        np.testing.assert_allclose(found, alone, atol=1e-3)


def test_what_the_first_text_needs_is_loaded_before_a_client_comes(recognizer):
    rare_characters.cache_clear()
    with server_in_thread(recognizer):
        wait_until(lambda: rare_characters.cache_info().currsize)


def test_seconds_of_streams_are_counted(recognizer, clips):
    waveform = read_audio(clips[2].audio_path)
    with server_in_thread(recognizer) as (service, address):
        vosk(address, waveform)
        funasr(address, waveform, "2pass")
        counters = service.metrics.text().decode()
    (seconds,) = re.findall(r"^asr_audio_seconds_total (.*)", counters, re.MULTILINE)
    assert float(seconds) == pytest.approx(2 * clips[2].duration_s)
