"""Measure how much 64 clients at once get from a server, and whether each receives the right answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from asr.transcription.recognizer import Recognizer
from benchmarks.common import show
from benchmarks.serving.clients import HttpClient, openai_request, sherpa_texts
from benchmarks.serving.models import Models
from benchmarks.serving.processes import asr_serve, sherpa_serve
from benchmarks.serving.recordings import Recording, clips_of, joined_clips, transcribed

NUM_CLIENTS = 64
WARM_UP_S, SECONDS = 3.0, 12.0
RUNS = 5
PAUSE_S = 0.3


@dataclass
class Load:
    """What clients received, counted.

    Attributes:
        num_answers: after the warm-up.
        num_wrong: answers that are not the expected ones, the warm-up included.
        seconds: that were measured.
    """

    num_answers: int = 0
    num_wrong: int = 0
    seconds: float = SECONDS

    @property
    def rate(self) -> float:
        """Return the answers per second."""
        return self.num_answers / self.seconds


def measure_throughput(models: Models) -> None:
    """Print requests per second of short clips, and speed with longer recordings."""
    waveforms = clips_of(models.manifest, NUM_CLIENTS, 2.0)
    clips = transcribed(models.run, waveforms, models.folder / "clips")
    waveforms = joined_clips(models.manifest, NUM_CLIENTS, 15.0, PAUSE_S)
    long = transcribed(models.run, waveforms, models.folder / "long")
    rows = {}
    for name, model in models.served.items():
        with asr_serve(model) as server:
            for about, recordings in (("clips of 2 s", clips), ("recordings of 15 s", long)):
                for count in (NUM_CLIENTS, 1):
                    load = asyncio.run(openai_load(server.address, recordings, count))
                    rows[f"asr serve, {name}, {about}, {count} clients"] = described(load, recordings)
    rows["asr transcribe, recordings of 15 s"] = f"{transcription_speed(models, long):.0f} times real time"
    with sherpa_serve(models.sherpa) as address:
        if address is None:
            rows["sherpa-onnx's server"] = "not installed: pip install sherpa-onnx-bin"
        else:
            for about, recordings in (("clips of 2 s", clips), ("recordings of 15 s", long)):
                load = asyncio.run(sherpa_load(address, recordings))
                rows[f"sherpa-onnx's server, {about}, {NUM_CLIENTS} clients"] = described(load, recordings)
    show(f"throughput, {SECONDS:g} s each", rows)


def described(load: Load, recordings: Sequence[Recording]) -> str:
    """Return a load in words."""
    mean_s = sum(one.seconds for one in recordings) / len(recordings)
    return (
        f"{load.rate:.0f} requests/s, {load.rate * mean_s:.0f} times real time, "
        f"{load.num_answers} answers, {load.num_wrong} differ from asr transcribe's"
    )


async def openai_load(address: str, recordings: Sequence[Recording], count: int) -> Load:
    """Let clients send one request after the other, and compare each answer."""
    requests = [openai_request(one.path.read_bytes(), model="m") for one in recordings]
    expected = [f'"text":{_json_text(one.text)}'.encode() for one in recordings]

    async def client(number: int, answered: Callable[[bool], bool]) -> None:
        connection = HttpClient(address)
        going = True
        while going:
            status, body = await connection.request(requests[number % len(requests)])
            going = answered(status == 200 and expected[number % len(requests)] in body)
            number += count + 1  # each recording is sent by each client
        connection.close()

    return await under_load(client, count)


async def sherpa_load(address: str, recordings: Sequence[Recording]) -> Load:
    """Let clients of sherpa-onnx's server send one recording after the other."""

    async def client(number: int, answered: Callable[[bool], bool]) -> None:
        going = True
        waveforms = [recordings[(number + k) % len(recordings)].waveform for k in range(len(recordings))]
        while going:
            for place, text in await sherpa_texts(address, waveforms, 4):
                expected = recordings[(number + place) % len(recordings)].text
                going = answered(text.replace(" ", "") == expected.replace(" ", ""))

    return await under_load(client, NUM_CLIENTS)


async def under_load(client: Callable[[int, Callable[[bool], bool]], Awaitable[None]], count: int) -> Load:
    """Run clients for the time of a measurement; `answered` counts, and returns whether to continue."""
    load, began_s = Load(), time.monotonic()

    def answered(is_right: bool) -> bool:
        elapsed_s = time.monotonic() - began_s
        load.num_answers += WARM_UP_S < elapsed_s <= WARM_UP_S + SECONDS
        load.num_wrong += not is_right
        return elapsed_s < WARM_UP_S + SECONDS

    await asyncio.gather(*(client(number, answered) for number in range(count)))
    return load


def transcription_speed(models: Models, recordings: Sequence[Recording]) -> float:
    """Return the speed of what `asr transcribe` runs, without its start, in times real time."""
    recognizer = Recognizer.load(models.run)
    paths = [one.path for one in recordings] * 4
    audio_s = 4 * sum(one.seconds for one in recordings)
    times = []
    for _ in range(RUNS + 1):
        began_s = time.perf_counter()
        list(recognizer.transcribe_files(paths))
        times.append(time.perf_counter() - began_s)
    return audio_s / sorted(times[1:])[RUNS // 2]


def _json_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
