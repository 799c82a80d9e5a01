"""Record the state of the process that trains a run: running, finished, interrupted, failed or killed.

runs/demo/state.json        written when a session begins and when it ends
runs/demo/.asr-train.lock   locked while the process runs; the system unlocks it when the process is killed
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.system.lock import exclusive_lock, is_locked
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
    """A run's last session.

    Attributes:
        state: "killed" if it ended without recording an end; "unknown" if that cannot be determined.
        reason: one line on why it failed, or why the state is unknown.
        command: shell command that resumes the run.
        folder: working directory for the command.
        directory: directory of the run at that time, which differs from that of a copy.
        host: name of the machine.
        pid: process id on that machine.
        begun_s: begin of the session, in seconds since 1970.
        ended_s: end of the session, in seconds since 1970; None if none was recorded.
        version: version of Polyphone.
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
def track_state(
    directory: Path,
    command: str,
    is_chief: bool = True,
    interrupted_by: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
    refuse: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Lock a run against a second process, and keep its state up to date.

    Args:
        directory: directory of the run.
        command: shell command that resumes it.
        is_chief: whether this process writes; of several processes, the others do nothing here.
        interrupted_by: exceptions by which a person or the system stops a run.
        refuse: called with the lock held, before anything is written; it may raise.

    Raises:
        UserError: another process trains the run, or its directory cannot be written.
    """
    if not is_chief:
        yield
        return
    with exclusive_lock(directory, LOCK) as locked:
        if refuse is not None:
            refuse()
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
            except UserError as unwritten:  # must not replace the error that ended the run
                logger.warning("%s", unwritten)
            raise
        _write(directory, _ended(begun, "finished"))


def read_state(directory: Path) -> RunState:
    """Return the state of a run that any version of Polyphone made, whether it is running or not.

    Never raises: with a damaged or missing file the state is unknown.
    """
    recorded = _read(directory)
    while not is_locked(directory, LOCK):
        if recorded.state != "running":
            return recorded
        again = _read(directory)
        if again == recorded:  # a recorded end is written before the lock is released
            return _without_recorded_end(recorded)
        recorded = again
    return dataclasses.replace(recorded, state="running", reason="", ended_s=None)


def _without_recorded_end(recorded: RunState) -> RunState:
    """Return the state of a run that recorded no end, and whose lock seems to be free."""
    if recorded.host != socket.gethostname():
        # the locks of many network disks are visible only on one machine
        reason = f"running on {recorded.host} when last recorded, which cannot be checked from here"
    elif not recorded.locked:
        reason = "running or killed: its disk has no locks that would show which"
    else:
        return dataclasses.replace(recorded, state="killed")
    return dataclasses.replace(recorded, state="unknown", reason=reason)


def _ended(begun: RunState, state: State, reason: str = "") -> RunState:
    return dataclasses.replace(begun, state=state, reason=reason, ended_s=time.time())


def _one_line(error: BaseException) -> str:
    if isinstance(error, UserError):
        stated = error.__cause__ if isinstance(error.__cause__, UserError) else error
        return " ".join(str(stated).split())
    text = " ".join(str(error).split("\n")[0].split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _write(directory: Path, state: RunState) -> None:
    if not directory.is_dir():  # it must not be created in the mount point of an unmounted disk
        raise UserError(f"{directory}: the run's directory no longer exists")
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
    """Return the state in a parsed file; ignore keys of later versions.

    Raises:
        ValueError, TypeError: the file was not written by `_write`.
    """
    if not isinstance(record, dict) or record.get("state") not in WRITTEN:
        raise ValueError(record)
    known = {field.name for field in dataclasses.fields(RunState)}
    values = {key: value for key, value in record.items() if key in known}
    for key, value in values.items():
        if not isinstance(value, NOT_TEXT.get(key, str)):
            raise ValueError(f"{key}: {value!r}")
    return RunState(**values)
