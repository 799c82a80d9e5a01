"""Measure how long 100 streams in real time wait for partial and for final results."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import numpy as np

from benchmarks.common import show
from benchmarks.serving.clients import StreamTimes, vosk_stream
from benchmarks.serving.models import Models
from benchmarks.serving.processes import asr_serve
from benchmarks.serving.recordings import joined_clips

NUM_STREAMS = 100
SECONDS, PAUSE_S = 20.0, 0.9


def measure_streams(models: Models) -> None:
    """Print the latencies of streams."""
    waveforms = joined_clips(models.manifest, NUM_STREAMS, SECONDS, PAUSE_S)
    for name, model in models.served.items():
        with asr_serve(model) as server:
            alone = [asyncio.run(vosk_stream(server.address, one, speed=50)).text for one in waveforms]
            times = asyncio.run(many_streams(server.address, waveforms))
        wrong = sum(one.text != text for one, text in zip(times, alone, strict=True))
        rows = {
            "0.32 s of sound to partial text": percentiles(np.concatenate([one.partials_s for one in times])),
            "end to final text": percentiles([one.final_s for one in times]),
            "clients late by": percentiles([one.late_s for one in times]),
            "final texts that differ from those of the stream alone": str(wrong),
        }
        show(f"{NUM_STREAMS} streams of {SECONDS:g} s in real time, {name}", rows)


async def many_streams(address: str, waveforms: Sequence[object]) -> list[StreamTimes]:
    """Run all streams at once, each of which begins within two seconds."""
    chance = random.Random(0)

    async def one(waveform: object) -> StreamTimes:
        await asyncio.sleep(2 * chance.random())
        return await vosk_stream(address, waveform)

    return await asyncio.gather(*map(one, waveforms))


def percentiles(seconds: Sequence[float]) -> str:
    """Return the median, the 95th percentile and the maximum, in ms."""
    median, high, most = 1000 * np.percentile(seconds, [50, 95, 100])
    return f"median {median:.0f} ms, p95 {high:.0f} ms, at most {most:.0f} ms"
