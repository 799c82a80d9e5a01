"""Measure how long servers take from the command until they answer."""

from __future__ import annotations

import statistics

from benchmarks.common import show
from benchmarks.serving.models import Models
from benchmarks.serving.processes import asr_serve

RUNS = 5


def measure_start(models: Models) -> None:
    """Print the seconds until `/health/ready` answers."""
    rows = {}
    for name, model in models.served.items():
        seconds = []
        for _ in range(RUNS):
            with asr_serve(model) as server:
                seconds.append(server.seconds)
        rows[name] = f"median {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
    show("from the command until the server answers", rows)
