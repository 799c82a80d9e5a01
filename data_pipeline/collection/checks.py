"""Check in the background whether takes were said as written, one after the other, the latest first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from data_pipeline.collection.take import Take
from data_pipeline.collection.takes import Takes

logger = logging.getLogger(__name__)

# A model that contradicts more takes of a speaker, once enough are checked, does not know the voice, or the
# speaker reads otherwise than the sentences are labelled, in a dialect for instance. `asr labels` draws the
# line at the same share (asr/evaluation/labels/label_review.py).
MAX_CONTRADICTED, MIN_CHECKED = 0.3, 20

Check = Callable[[Path, tuple[str, ...]], Sequence[Mapping[str, Any]]]
"""Returns how a recording differs from the tokens of a text; empty if it does not."""


def contradicts_many(takes: Sequence[Take]) -> bool:
    """Return whether a model contradicts too many takes of a speaker to doubt any of them."""
    checked = [bool(take.differences) for take in takes if take.checked]
    return len(checked) >= MIN_CHECKED and sum(checked) > MAX_CONTRADICTED * len(checked)


class BackgroundChecks:
    """A thread that checks takes that were never checked, the latest first.

    Args:
        takes: to which the results go.
        check: finds the differences.
        on_checked: called in the thread after each result.
    """

    def __init__(self, takes: Takes, check: Check, on_checked: Callable[[], None]) -> None:
        self._takes, self._check, self._on_checked = takes, check, on_checked
        self._waiting = [take for take in takes.all() if not take.checked]
        self._changed, self._is_closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="checks", daemon=True)
        self._thread.start()

    def add(self, take: Take) -> None:
        """Check a take soon."""
        with self._changed:
            self._waiting.append(take)
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the take that it checks; a later start checks the others."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (take := self._next()) is not None:
            try:
                self._check_one(take)
            except UserError as error:  # a full disk, or the take was replaced meanwhile
                logger.warning("%s: not checked (%s)", take.id, error)
            except Exception:
                logger.exception("%s: the check failed", take.id)

    def _check_one(self, take: Take) -> None:
        now = self._takes.find(take.speaker, take.prompt)
        if now is None or now.audio != take.audio:
            return  # the take that replaced it is in the queue as well
        found = self._check(self._takes.folder / take.audio, take.tokens)
        if self._takes.decide(take, found) is None:
            return
        of_speaker = self._takes.of(take.speaker)
        if contradicts_many(of_speaker):
            for doubted in of_speaker:
                if doubted.in_doubt:
                    self._takes.accept(doubted)
        self._on_checked()

    def _next(self) -> Take | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return None if self._is_closed else self._waiting.pop()
