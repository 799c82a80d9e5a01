"""What a run's directory says of the process that trains it: at work, finished, interrupted, failed, killed.

runs/demo/state.json        written when a session begins and when it ends
runs/demo/.asr-train.lock   held while it is at work: one that was killed holds it no longer
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from asr.base.files import whole_file
from asr.base.lock import alone_in, is_anyone_in
from asr.base.types import UserError
from asr.base.version import __version__

logger = logging.getLogger(__name__)

State = Literal["running", "finished", "interrupted", "failed", "killed", "unknown"]
FILE, LOCK = "state.json", "asr train"
WRITTEN = ("running", "finished", "interrupted", "failed")
NOT_TEXT: dict[str, type | UnionType] = {
    "pid": int,
    "begun_s": int | float,
    "ended_s": int | float | None,
    "locked": bool,
}


@dataclass(frozen=True)
class RunState:
    """What became of a run's last session.

    Attributes:
        state: killed where it ended without a word; unknown where nothing that can be read tells.
        reason: why it failed, or why the state is unknown, in a line.
        command: goes on with the run.
        folder: where to give it.
        directory: of the run at that time: a copy of it has another one.
        host: the machine.
        pid: of its process there.
        begun_s: since 1970.
        ended_s: since 1970; None where it has not, or without a word.
        version: of Polyphone.
        locked: whether the folder's disk keeps a second process out.
    """

    state: State
    reason: str = ""
    command: str = ""
    folder: str = ""
    directory: str = ""
    host: str = ""
    pid: int = 0
    begun_s: float = 0.0
    ended_s: float | None = None
    version: str = ""
    locked: bool = False


@contextlib.contextmanager
def tracked(
    directory: Path,
    command: str,
    is_chief: bool = True,
    interrupted_by: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
) -> Iterator[None]:
    """Keep a second process off a run, and keep its state up to date.

    Args:
        directory: of the run.
        command: goes on with it.
        is_chief: of several processes, the one that writes; the others do nothing here.
        interrupted_by: exceptions by which a person, or the machine, stops a run.

    Raises:
        UserError: another process works on the run, or its directory cannot be written.
    """
    if not is_chief:
        yield
        return
    with alone_in(directory, LOCK) as locked:
        begun = RunState(
            state="running",
            command=command,
            folder=str(Path.cwd()),
            directory=str(directory.resolve()),
            host=socket.gethostname(),
            pid=os.getpid(),
            begun_s=time.time(),
            version=__version__,
            locked=locked,
        )
        _write(directory, begun)
        try:
            yield
        except BaseException as error:
            is_stopped = isinstance(error, interrupted_by)
            state: State = "interrupted" if is_stopped else "failed"
            reason = "" if is_stopped else _one_line(error)
            try:
                _write(directory, _ended(begun, state, reason))
            except UserError as unwritten:  # it must not take the place of what ended the run
                logger.warning("%s", unwritten)
            raise
        _write(directory, _ended(begun, "finished"))


def read_state(directory: Path) -> RunState:
    """The state of a run, made by whatever version, at work or not.

    Never raises: a file that is damaged or not there makes the state unknown.
    """
    said = _read(directory)
    while not is_anyone_in(directory, LOCK):
        if said.state != "running":
            return said
        again = _read(directory)
        if again == said:  # had it ended with a word, the word would have been there before the lock went
            return _ended_in_silence(said)
        said = again
    return dataclasses.replace(said, state="running", reason="", ended_s=None)


def _ended_in_silence(said: RunState) -> RunState:
    """The state of a run whose file says "running", and whose lock nobody holds as far as can be seen."""
    if said.host != socket.gethostname():
        # many a network disk keeps locks within one machine
        reason = f"at work on {said.host} when last heard of, which cannot be asked from here"
    elif not said.locked:
        reason = "at work, or killed: its disk has no locks that would tell"
    else:
        return dataclasses.replace(said, state="killed")
    return dataclasses.replace(said, state="unknown", reason=reason)


def _ended(begun: RunState, state: State, reason: str = "") -> RunState:
    return dataclasses.replace(begun, state=state, reason=reason, ended_s=time.time())


def _one_line(error: BaseException) -> str:
    if isinstance(error, UserError):
        return " ".join(str(error).split())
    text = " ".join(str(error).split("\n")[0].split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _write(directory: Path, state: RunState) -> None:
    if not directory.is_dir():  # it must not be made anew in a mount point
        raise UserError(f"{directory}: the run's directory is gone")
    with whole_file(directory / FILE, "state of the run") as file:
        file.write(json.dumps(dataclasses.asdict(state), indent=2).encode() + b"\n")


def _read(directory: Path) -> RunState:
    path = directory / FILE
    try:
        return _parsed(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return RunState("unknown")
    except OSError as error:
        return RunState("unknown", f"{path}: cannot be read ({error.strerror})")
    except (ValueError, TypeError, RecursionError):
        return RunState("unknown", f"{path}: damaged")


def _parsed(record: Any) -> RunState:
    """What a file holds; keys of later versions are left aside.

    Raises:
        ValueError, TypeError: it is not what `_write` wrote.
    """
    if not isinstance(record, dict) or record.get("state") not in WRITTEN:
        raise ValueError(record)
    known = {field.name for field in dataclasses.fields(RunState)}
    values = {key: value for key, value in record.items() if key in known}
    for key, value in values.items():
        if not isinstance(value, NOT_TEXT.get(key, str)):
            raise ValueError(f"{key}: {value!r}")
    return RunState(**values)
