"""Make clips in processes, each with Kokoro's network on one core."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeAlias

from asr.audio.recording import SAMPLE_RATE_HZ, audio_header, encoded
from asr.base.errors import UserError
from asr.base.system.child_process import ChildEndedError, ChildProcess, Inbox
from asr.base.system.files import whole_file
from data_pipeline.recordings.kokoro.model import KokoroModel, UnusableSpeechError, as_recording
from data_pipeline.recordings.kokoro.voices import Styles

Container = Literal["opus", "wav"]
ENCODINGS = {"opus": ("OGG", "OPUS"), "wav": ("WAV", "PCM_16")}  # as libsndfile calls them


@dataclass(frozen=True)
class Clip:
    """A clip to make.

    Attributes:
        path: of the file.
        text: that it says.
        tokens: the labels of the text.
        speaker: name of the speaker.
        symbols: ids of what is said.
        style: of the speaker, (1, 256).
        speed: 1 is the voice's own.
    """

    path: Path
    text: str
    tokens: tuple[str, ...]
    speaker: str
    symbols: list[int]
    style: Styles
    speed: float


Made: TypeAlias = tuple[Clip, float | str]
"""A clip with its duration in seconds, or why it is not speech."""


class ClipMakers:
    """Processes that make clips; they end with the `with` block.

    Args:
        num: number of processes.
        model: path of the ONNX file.
        container: of the clips.

    Raises:
        UserError: the model cannot be used.
    """

    def __init__(self, num: int, model: Path, container: Container) -> None:
        self._inbox: Inbox = SimpleQueue()
        with contextlib.ExitStack() as stack:
            self._children: Sequence[ChildProcess] = [
                stack.enter_context(ChildProcess(_serve, model, container, inbox=self._inbox))
                for _ in range(num)
            ]
            for _ in self._children:
                self._received()
            self._stack = stack.pop_all()

    def __enter__(self) -> ClipMakers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def make(self, clips: Iterator[Clip]) -> Iterator[Made]:
        """Yield each clip in order, while the processes make others; a file that exists is kept.

        Raises:
            UserError: a file cannot be written, the network fails, or a process was killed.
        """
        numbered = enumerate(clips)
        idle = list(self._children)
        busy: dict[ChildProcess, tuple[int, Clip]] = {}
        done: dict[int, Made] = {}
        for number in itertools.count():
            while number not in done:
                if idle and (taken := next(numbered, None)):
                    index, clip = taken
                    if clip.path.exists():
                        done[index] = clip, audio_header(clip.path).duration_s
                    else:
                        child = idle.pop()
                        child.send(clip)
                        busy[child] = taken
                elif busy:
                    child, outcome = self._received()
                    index, clip = busy.pop(child)
                    done[index] = clip, outcome
                    idle.append(child)
                else:
                    return
            yield done.pop(number)

    def _received(self) -> tuple[ChildProcess, float | str]:
        child, answer = self._inbox.get()
        if isinstance(answer, ChildEndedError):
            raise UserError(
                f"a process that synthesizes ended ({answer}), most likely because memory ran out; free "
                "memory and run the same command again, which resumes"
            )
        if isinstance(answer, UserError):
            raise answer
        return child, answer


def _serve(requests: Iterator[Clip], model: Path, container: Container) -> Iterator[float | str]:
    """Yield "" once the model is loaded, then for each clip its duration, or why it is not speech."""
    parent = os.getppid()
    kokoro = KokoroModel(model)
    yield ""
    for clip in requests:
        try:
            samples = kokoro.say(clip.symbols, clip.style, clip.speed)
            waveform = as_recording(samples, len(clip.tokens))
        except UnusableSpeechError as error:
            yield str(error)
            continue
        if os.getppid() != parent:
            return  # it was killed, and another command may be making this clip by now
        with whole_file(clip.path, "recording") as file:
            file.write(encoded(waveform, SAMPLE_RATE_HZ, *ENCODINGS[container]))
        yield len(waveform) / SAMPLE_RATE_HZ
