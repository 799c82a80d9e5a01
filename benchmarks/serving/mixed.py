"""Measure what minutes of mixed load leave behind: honest clients of all protocols, and 5 % abusive ones."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.common import show
from benchmarks.serving.abusive import QUICK, SLOW, Abuse, keep_abusing, silent_hours
from benchmarks.serving.clients import vosk_stream
from benchmarks.serving.honest import HONEST, keep_asking
from benchmarks.serving.models import Models
from benchmarks.serving.processes import Started, asr_serve, memory_mb
from benchmarks.serving.recordings import Recording, clips_of, joined_clips, transcribed

ABUSIVE_CLIENTS = 2  # of the quick and of the slow kind each: 4 beside 76 honest ones
SETTLED_S = 120.0  # after which memory is to stay as it is
SAMPLE_S = 5.0
MAX_SHOWN = 5


@dataclass
class Tally:
    """What happened to clients and to the server.

    Attributes:
        until_s: by the monotonic clock, the end of the load.
        answers: right ones, by the kind of client.
        mistakes: wrong answers and errors of honest clients, with the kind.
        abuses: by their kind.
        memory_mb: of the server, by the seconds since the beginning.
    """

    until_s: float
    answers: Counter[str] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    abuses: Counter[str] = field(default_factory=Counter)
    memory_mb: dict[float, float] = field(default_factory=dict)

    @property
    def going(self) -> bool:
        """Return whether the load continues."""
        return time.monotonic() < self.until_s

    def answer_of(self, kind: str) -> Callable[[Recording, Any], bool]:
        """Return a function that counts an answer to a kind of client."""

        def count(recording: Recording, answer: Any) -> bool:
            if answer == recording.text:
                self.answers[kind] += 1
            else:
                self.mistakes.append(f"{kind}: {answer!r} in place of {recording.text!r}"[:300])
            return self.going

        return count

    def abused(self, name: str) -> bool:
        """Count an abuse, and return whether the load continues."""
        self.abuses[name] += 1
        return self.going


def measure_mixed(models: Models, minutes: float) -> None:
    """Print what honest clients received, and the memory of the server."""
    recordings = {
        "clips": transcribed(models.run, clips_of(models.manifest, 64, 2.0), models.folder / "mixed-clips"),
        "long": transcribed(
            models.run, joined_clips(models.manifest, 4, 60.0, 0.5), models.folder / "mixed-long"
        ),
        "live": transcribed(
            models.run, joined_clips(models.manifest, 12, 10.0, 0.9), models.folder / "mixed-live"
        ),
    }
    for name, model in models.served.items():
        with asr_serve(model, "--grpc-port", "0") as server:
            known = recordings | {"live": asyncio.run(_alone(server, recordings["live"]))}
            tally = asyncio.run(_mixed_load(server, known, 60 * minutes))
            log = server.log.read_text()
        show(f"{minutes:g} minutes of mixed load, {name}", _rows(tally, log))


async def _alone(server: Started, recordings: list[Recording]) -> list[Recording]:
    """Return recordings with the texts of their streams, one after the other."""
    streams = [await vosk_stream(server.address, one.waveform, speed=20) for one in recordings]
    return [
        dataclasses.replace(one, text=stream.text) for one, stream in zip(recordings, streams, strict=True)
    ]


async def _mixed_load(server: Started, recordings: Mapping[str, list[Recording]], seconds: float) -> Tally:
    tally, bomb = Tally(time.monotonic() + seconds), silent_hours()
    wav = recordings["clips"][0].path.read_bytes()
    tasks = [_watch_memory(server, tally)]
    for name, kind in HONEST.items():
        for _ in range(kind.count):
            chance = random.Random(len(tasks))
            tasks.append(keep_asking(kind, server, recordings, chance, tally.answer_of(name)))
    for kinds in ABUSIVE_CLIENTS * [QUICK, SLOW]:
        abuse = Abuse(server, wav, bomb, random.Random(len(tasks)))
        tasks.append(keep_abusing(abuse, kinds, tally.abused))
    await asyncio.gather(*tasks)
    return tally


async def _watch_memory(server: Started, tally: Tally) -> None:
    began_s = time.monotonic()
    while tally.going:
        await asyncio.sleep(SAMPLE_S)
        tally.memory_mb[time.monotonic() - began_s] = memory_mb(server.process)


def _rows(tally: Tally, log: str) -> dict[str, str]:
    settled = [mb for second, mb in tally.memory_mb.items() if second >= SETTLED_S]
    rows = {
        "right answers": f"{tally.answers.total()} ({_listed(tally.answers)})",
        "wrong, lost or refused answers": f"{len(tally.mistakes)} {tally.mistakes[:MAX_SHOWN] or ''}",
        "abuses": f"{tally.abuses.total()} ({_listed(tally.abuses)})",
        "failures in the server's log": str(log.count("Traceback")),
    }
    if settled:
        size = max(1, len(settled) // 8)
        growth_mb = float(np.median(settled[-size:]) - np.median(settled[:size]))
        rows["memory after minute 2"] = (
            f"{min(settled):.0f} to {max(settled):.0f} MB, grew by {growth_mb:.0f} MB"
        )
    every = list(tally.memory_mb.values())[:: max(1, len(tally.memory_mb) // 20)]
    rows["memory over time"] = " ".join(f"{mb:.0f}" for mb in every) + " MB"
    return rows


def _listed(counts: Counter[str]) -> str:
    return "; ".join(f"{name} {count}" for name, count in sorted(counts.items()))
