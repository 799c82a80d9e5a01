"""The takes of a corpus that is being recorded, on disk: nothing that was confirmed is lost.

mine/record.json              units of the labels; marks the folder as one of `asr record`
mine/takes.journal            a line for each take and for each later decision about it, in order
mine/audio/anna/4fb2-1.flac   the first take of a sentence by a speaker

A take is written under a temporary name, flushed to the disk and renamed; then its line is appended to
`takes.journal` and flushed; then the page is answered. A process that is killed in between leaves at most a
recording without a line, which the next take of that sentence replaces, or half a line, which is cut off when
the folder is opened again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.audio.recording import encoded
from asr.base.errors import UserError
from asr.base.system.files import cannot_write, flush, whole_file
from asr.base.system.lock import exclusive_lock, lock_path
from asr.base.text.units import Unit
from data_pipeline.collection.journal import Fields, TakeJournal
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.take import AUDIO, Take
from data_pipeline.corpora.layout import PREPARED
from data_pipeline.labels.from_text import LABELS_VERSION

logger = logging.getLogger(__name__)

SETTINGS = "record.json"
JOURNAL = "takes.journal"  # not *.jsonl, which are the manifests: people name them by that pattern
PROMPTS_LEFT_OUT = "prompts_left_out.tsv"
COMMAND = "asr record"

Key = tuple[str, str]  # speaker and id of the prompt


@dataclass(frozen=True)
class TakeSettings:
    """What all takes of a corpus have in common.

    Attributes:
        units: of the labels.
        labels_version: of the labels made from text.
    """

    units: Unit
    labels_version: int = LABELS_VERSION


@contextlib.contextmanager
def open_takes(folder: Path, units: Unit | None) -> Iterator[Takes]:
    """Open the folder of a corpus, or make it; no other process can open it until the block ends.

    A new folder without anything else is removed at an error: a mistyped option leaves nothing behind.

    Args:
        folder: new, empty, or one that was opened before.
        units: of the labels; None for those that the folder has, or else syllables.

    Raises:
        UserError: the folder is something else, has labels in other units or a broken line, is open in
            another process, or cannot be written.
    """
    _refuse_other_folder(folder)
    is_new = not folder.exists()
    with exclusive_lock(folder, COMMAND):
        try:
            settings = _settings(folder, units)
            with contextlib.closing(TakeJournal(folder / JOURNAL)) as journal:
                yield Takes(folder, settings, journal)
        except UserError:
            ours = {SETTINGS, JOURNAL, PROMPTS_LEFT_OUT, lock_path(folder, COMMAND).name}
            if is_new and _is_empty(folder) and {path.name for path in folder.iterdir()} <= ours:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _is_empty(folder: Path) -> bool:
    """Return whether a folder has no take yet."""
    journal = folder / JOURNAL
    return not (journal.exists() and journal.stat().st_size)


def _refuse_other_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, received a file; choose another name")
    if (folder / SETTINGS).exists() or not folder.exists():
        return
    try:
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", SETTINGS)))
    except OSError as error:
        raise UserError(f"{folder}: cannot read this folder ({error.strerror}); choose another") from None
    if names:
        what = "a corpus of `asr prepare`" if PREPARED in names else f"one with other files ({names[0]})"
        raise UserError(
            f"{folder}: expected a new folder, or one of `asr record`, received {what}; choose another folder"
        )


def _settings(folder: Path, units: Unit | None) -> TakeSettings:
    path = folder / SETTINGS
    if not path.exists() or (units and _is_empty(folder)):  # a first try may have ended by the wrong units
        settings = TakeSettings(units or "syllables")
        with whole_file(path, "description") as file:
            file.write(json.dumps(dataclasses.asdict(settings), indent=2).encode() + b"\n")
        return settings
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        found = TakeSettings(read["units"], int(read["labels_version"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not what `asr record` wrote ({error}); copy the folder again") from None
    if units not in (None, found.units):
        raise UserError(
            f"{folder}: its labels are {found.units}, expected `units={units}`; leave `units` out, or choose "
            "another folder"
        )
    return found


class Takes:
    """The takes of a corpus; use `open_takes`. All methods may be called from any thread.

    Args:
        folder: of the corpus.
        settings: of the corpus.
        journal: of the folder.

    Attributes:
        folder: of the corpus.
        settings: of the corpus.
        missing: takes that the journal lists, and whose recordings are no longer there.
    """

    def __init__(self, folder: Path, settings: TakeSettings, journal: TakeJournal) -> None:
        self.folder, self.settings, self._journal = folder, settings, journal
        self._lock = threading.Lock()
        self._takes: dict[Key, Take] = {}
        self._counts: dict[Key, int] = {}  # takes ever made, by which files are named
        for number, row in enumerate(journal.rows, 1):
            try:
                self._apply(row, number)
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(f"{folder / JOURNAL}:{number}: not a take ({error!r}); remove it") from None
        now = {take.audio for take in self._takes.values()}
        for audio in {Take.of_row(row).audio for row in journal.rows if "audio" in row} - now:
            (folder / audio).unlink(missing_ok=True)  # a process was killed before it removed this
        self.missing = [take for take in self._takes.values() if not (folder / take.audio).is_file()]
        for take in self.missing:
            del self._takes[take.speaker, take.prompt]
            logger.warning("%s: the recording is gone; record the sentence again", folder / take.audio)

    def _apply(self, row: Fields, number: int) -> None:
        key = (str(row["speaker"]), str(row["prompt"]))
        if "audio" in row:
            self._takes[key] = take = Take.of_row(row)
            # not the number of lines, since a person may have removed one: files keep their names
            self._counts[key] = max(self._counts.get(key, 0), take.number)
        elif row["state"] == "todo":
            del self._takes[key]
        elif key in self._takes:
            self._takes[key] = dataclasses.replace(
                self._takes[key],
                checked=number,
                in_doubt=row["state"] == "again",
                differences=tuple(row["differences"]),
                judge=str(row.get("judge", "")),
                accepted=bool(row.get("accepted", False)),
            )

    def all(self) -> list[Take]:
        """Return all takes, in the order in which their sentences were first recorded."""
        with self._lock:
            return list(self._takes.values())

    def of(self, speaker: str) -> list[Take]:
        """Return all takes of a speaker."""
        return [take for take in self.all() if take.speaker == speaker]

    def find(self, speaker: str, prompt: str) -> Take | None:
        """Return the take of a sentence by a speaker; None if there is none."""
        with self._lock:
            return self._takes.get((speaker, prompt))

    def keep(
        self,
        speaker: str,
        prompt: Prompt,
        samples: npt.NDArray[np.int16],
        rate_hz: int,
        problems: Sequence[Fields] = (),
    ) -> Take:
        """Store a take on the disk, in place of an earlier one of the same sentence, and return it.

        Args:
            speaker: name.
            prompt: the sentence.
            samples: (S,) of the recording.
            rate_hz: their rate.
            problems: see `Take`.

        Raises:
            UserError: it cannot be written; an earlier take remains.
        """
        key = (speaker, prompt.id)
        content = encoded(samples, rate_hz, "FLAC", "PCM_16")
        with self._lock:
            number = self._counts.get(key, 0) + 1
            audio = Path(AUDIO, speaker, f"{prompt.id}-{number}.flac")
            self._make_folder(speaker)
            with whole_file(self.folder / audio, "recording") as file:
                file.write(content)
            duration_s = len(samples) / rate_hz
            sentence = prompt.text, prompt.tokens
            take = Take(speaker, prompt.id, audio.as_posix(), duration_s, *sentence, tuple(problems))
            try:
                self._journal.append(take.as_row())
            except UserError:
                (self.folder / audio).unlink(missing_ok=True)
                raise
            self._counts[key] = number
            before, self._takes[key] = self._takes.get(key), take
        self._remove_recording(before)
        return take

    def drop(self, speaker: str, prompt: str) -> bool:
        """Remove a take, and return whether there was one.

        Raises:
            UserError: this cannot be written; the take remains.
        """
        with self._lock:
            if (speaker, prompt) not in self._takes:
                return False
            self._journal.append({"speaker": speaker, "prompt": prompt, "state": "todo"})
            before = self._takes.pop((speaker, prompt))
        self._remove_recording(before)
        return True

    def decide(self, take: Take, differences: Sequence[Fields], judge: str = "") -> Take | None:
        """Store the differences that a model found, or that there are none, and return the take.

        Args:
            take: as it was when it was compared.
            differences: see `Take`.
            judge: see `Take`.

        Returns:
            None if the take was replaced, removed or accepted by its speaker meanwhile.

        Raises:
            UserError: this cannot be written.
        """
        decision = {"state": "again" if differences else "kept", "differences": list(differences)}
        return self._decide(take, decision | {"judge": judge})

    def accept(self, take: Take, *, by_speaker: bool = True) -> Take | None:
        """Store that a take is no longer in doubt, whatever a model found; see `decide`."""
        decision = {"state": "kept", "differences": list(take.differences), "judge": take.judge}
        return self._decide(take, decision | {"accepted": by_speaker})

    def _decide(self, take: Take, decision: Fields) -> Take | None:
        key = (take.speaker, take.prompt)
        with self._lock:
            now = self._takes.get(key)
            if now is None or now.audio != take.audio or (now.accepted and not decision.get("accepted")):
                return None
            row = {"speaker": take.speaker, "prompt": take.prompt, **decision}
            self._apply(row, self._journal.append(row))
            return self._takes[key]

    def _make_folder(self, speaker: str) -> None:
        folder = self.folder / AUDIO / speaker
        if not folder.is_dir():
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise cannot_write(folder, "folder", error) from None
            flush(folder.parent)
            flush(self.folder)

    def _remove_recording(self, take: Take | None) -> None:
        if take is not None:
            with contextlib.suppress(OSError):
                (self.folder / take.audio).unlink(missing_ok=True)
