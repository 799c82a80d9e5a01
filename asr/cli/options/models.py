"""Separate the run, which may be left out where the installation carries a general model, from what follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr.base.errors import UserError
from asr.base.models.named import default_run, has_general, is_named
from asr.transcription.files import STANDARD_INPUT

RUN_HELP = (
    "a run directory, such as runs/demo, a model file, or its address (default: the general model, if this "
    "installation carries one)"
)


def run_and_rest(given: Sequence[str], num_needed: int, needed: str) -> tuple[str, list[str]]:
    """Return the run that the first argument names, or else the general model, and the other arguments.

    Args:
        given: the arguments in their order.
        num_needed: smallest number of arguments besides the run.
        needed: what they are, for the error.

    Raises:
        UserError: there is no run, and no general model; or what follows is missing.
    """
    first, *rest = given
    if is_named(first) or (len(rest) > num_needed - 1 and not _may_be_left_out(first)):
        if len(rest) < num_needed:
            raise UserError(f"{needed}: expected after the run, {first}")
        return first, rest
    return default_run(), list(given)


def _may_be_left_out(first: str) -> bool:
    """Return whether the first argument is a recording, so that the general model is meant."""
    return has_general() and (first == STANDARD_INPUT or Path(first).exists())
