"""Run an exported model in a process of its own, which has only what the runtime needs in its memory.

with RuntimeProcess("asr.export.runtimes.onnx.runtime:OnnxRuntime", folder) as process:
    (outputs,), seconds = process.run([waveform])
    print(process.load_s, process.peak_memory_bytes())
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.registry import load
from asr.base.system.child_process import ChildEndedError, ChildProcess, peak_memory_bytes
from asr.export.format import Outputs, Waveform


class RuntimeProcess:
    """A process that runs an exported model.

    Args:
        runtime: "module:class" of a `Runtime`.
        folder: what it is called with.

    Raises:
        UserError: it cannot load the model.
    """

    def __init__(self, runtime: str, folder: Path) -> None:
        self._child = ChildProcess(serve, runtime, folder)
        try:
            self.load_s, self.takes_batches = self._receive()
        except BaseException:
            self._child.kill()
            raise

    def __enter__(self) -> RuntimeProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self._child.kill()

    def run(self, waveforms: Sequence[Waveform]) -> tuple[list[Outputs], float]:
        """Return the outputs of clips, and the seconds that computing them took."""
        self._child.send(list(waveforms))
        outputs, seconds = self._receive()
        return outputs, seconds

    def peak_memory_bytes(self) -> int:
        """Return the largest size that the process has had in memory."""
        self._child.send([])
        size: int = self._receive()
        return size

    def _receive(self) -> Any:
        try:
            return self._child.receive()
        except ChildEndedError as end:
            raise UserError(
                f"the process that runs the exported model ended ({end}); its messages are above"
            ) from None


def serve(requests: Iterator[list[Waveform]], runtime: str, folder: Path) -> Iterator[Any]:
    """Yield the time of loading, then the outputs of each list of waveforms; the memory for an empty one."""
    began = time.perf_counter()
    running = load(runtime)(folder)
    yield time.perf_counter() - began, bool(running.takes_batches)
    for waveforms in requests:
        began = time.perf_counter()
        yield (running.run(waveforms), time.perf_counter() - began) if waveforms else peak_memory_bytes()
