"""Check in the background whether takes were said as written, one after the other, the latest first.

A run checks again what only the model `general` has checked, which does not know the voice, unless the
speaker has said that the take is right.
"""

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
    """Return whether the model that checked last contradicts too many takes of a speaker to doubt any."""
    judge = max(takes, key=lambda take: take.checked).judge if takes else ""
    checked = [bool(take.differences) for take in takes if take.checked and take.judge == judge]
    return len(checked) >= MIN_CHECKED and sum(checked) > MAX_CONTRADICTED * len(checked)


class BackgroundChecks:
    """A thread that checks takes, the latest first, that no model has checked, or no run.

    Args:
        takes: to which the results go.
        check: finds the differences.
        on_checked: called in the thread after each result.
        judge: the run whose model checks; empty for `general`.
    """

    def __init__(self, takes: Takes, check: Check, on_checked: Callable[[], None], judge: str = "") -> None:
        self._takes, self._check, self._on_checked, self._judge = takes, check, on_checked, judge
        self._waiting = [take for take in takes.all() if self._is_to_check(take)]
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

    def _is_to_check(self, take: Take) -> bool:
        return not take.checked or bool(self._judge and not (take.judge or take.accepted))

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
        if now is None or now.audio != take.audio or now.accepted:
            return  # the take that replaced it is in the queue as well
        found = self._check(self._takes.folder / take.audio, take.tokens)
        if self._takes.decide(take, found, self._judge) is None:
            return
        of_speaker = self._takes.of(take.speaker)
        if contradicts_many(of_speaker):
            for doubted in of_speaker:
                if doubted.in_doubt:
                    self._takes.accept(doubted, by_speaker=False)
        self._on_checked()

    def _next(self) -> Take | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return None if self._is_closed else self._waiting.pop()
