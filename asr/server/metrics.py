"""Count what a server does, in Prometheus's format: requests, seconds of audio, queue, batches, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.server.batching import BatchReport

LATENCIES_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        self._requests = self._counter("asr_requests", "Requests by route and status", "route", "status")
        self._request_s = self._histogram("asr_request_seconds", "Time to answer", "route", LATENCIES_S)
        self._audio_s = self._counter("asr_audio_seconds", "Seconds of audio recognized")
        self._batch_jobs = self._histogram("asr_batch_size", "Clips in a batch", "kind", BATCH_SIZES)
        self._batch_s = self._histogram("asr_batch_seconds", "Time of a batch", "kind", LATENCIES_S)
        self._batch_audio_s = self._counter(
            "asr_batch_audio_seconds", "Seconds of audio in batches, with padding", "kind"
        )
        self._waited_s = self._histogram(
            "asr_queue_seconds", "Time that the oldest clip of a batch waited", "kind", LATENCIES_S
        )

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, label: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, about, [label], buckets=buckets, registry=self.registry)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a number that is read when the counters are.

        Args:
            name: of the number.
            about: what it is.
            value: returns it.
        """
        Gauge(name, about, registry=self.registry).set_function(value)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def recognized(self, seconds: float) -> None:
        """Count seconds of audio that were recognized."""
        self._audio_s.inc(seconds)

    def ran(self, batch: BatchReport) -> None:
        """Count a batch that was run."""
        self._batch_jobs.labels(batch.kind).observe(batch.num_jobs)
        self._batch_s.labels(batch.kind).observe(batch.run_s)
        self._batch_audio_s.labels(batch.kind).inc(batch.num_samples / SAMPLE_RATE_HZ)
        self._waited_s.labels(batch.kind).observe(batch.waited_s)

    def text(self) -> bytes:
        """Return all counters in Prometheus's text format."""
        return generate_latest(self.registry)
