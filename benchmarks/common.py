"""Helps the benchmarks: measures times in pairs, and prints a table that names the machine and the date."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path


def compare(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Time two functions in turn, after a warm-up of each.

    Returns:
        Median seconds of each, and the median over the pairs of the ratio `other / one`.
    """
    one()
    other()
    pairs = [(seconds(one), seconds(other)) for _ in range(runs)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
    )


def seconds(run: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def show(title: str, rows: dict[str, str]) -> None:
    """Print a result, with the machine and the date."""
    width = max(map(len, rows))
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<{width}}  {value}")
    today = datetime.date.today()
    print(f"  {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {today}")


def processor() -> str:
    """Return the processor's name as the kernel reports it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())
