"""Run an exported model in a process of its own, which has only what the runtime needs in its memory.

with RuntimeProcess("asr.export.onnx.runtime:OnnxRuntime", folder) as process:
    (outputs,), seconds = process.run([waveform])
    print(process.load_s, process.peak_memory_bytes())

The process gets a list of waveforms at a time, and answers with their outputs; an empty list asks for the
memory. Both are pickled.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from asr.base.errors import UserError
from asr.export.format import Outputs, Waveform

PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds `asr`


class RuntimeProcess:
    """Manages a process that runs an exported model.

    Args:
        runtime: "module:class" of a `Runtime`.
        folder: what it is called with.

    Raises:
        UserError: it cannot load the model.
    """

    def __init__(self, runtime: str, folder: Path) -> None:
        paths = os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "asr.export.worker", runtime, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
        )
        try:
            self.load_s, self.takes_batches = self._receive()
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> RuntimeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, waveforms: Sequence[Waveform]) -> tuple[list[Outputs], float]:
        """Return the outputs of clips, and the seconds that computing them took."""
        self._send(list(waveforms))
        outputs, seconds = self._receive()
        return outputs, seconds

    def peak_memory_bytes(self) -> int:
        """Return the largest size that the process has had in memory."""
        self._send([])
        size: int = self._receive()
        return size

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, waveforms: list[Waveform]) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(waveforms, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(answer, UserError):
            raise answer
        return answer

    def _ended(self) -> UserError:
        status = self._process.wait()
        return UserError(
            f"the process that runs the exported model ended (status {status}); its messages are above"
        )


def serve(runtime: str, folder: Path, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more, or one fails."""

    def answer(content: Any) -> None:
        pickle.dump(content, answers)
        answers.flush()

    began = time.perf_counter()
    module, _, attribute = runtime.partition(":")
    try:
        running = getattr(importlib.import_module(module), attribute)(folder)
        answer((time.perf_counter() - began, bool(running.takes_batches)))
        while waveforms := _next_request(requests):
            began = time.perf_counter()
            outputs = running.run(waveforms)
            answer((outputs, time.perf_counter() - began))
        answer(_peak_memory_bytes())
    except UserError as error:
        answer(error)


def _next_request(requests: BinaryIO) -> list[Waveform]:
    waveforms: list[Waveform] = pickle.load(requests)
    return waveforms


def _peak_memory_bytes() -> int:
    """Return the largest resident size of this process since it began to run this program."""
    try:
        # not getrusage's, which counts the process that this one was forked from
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> int:
    """Serve the process that started this one through standard input and output."""
    runtime, folder = sys.argv[1:]
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints
        try:
            serve(runtime, Path(folder), sys.stdin.buffer, answers)
        except (EOFError, KeyboardInterrupt):
            return 0
        except Exception:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
