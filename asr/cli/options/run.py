"""Separate the run from what follows; it may be left out where the installation carries `general`."""

from __future__ import annotations

from collections.abc import Sequence

from asr.base.errors import UserError
from asr.base.model_files.named import default_run, has_general, is_named
from asr.base.system.storage.address import path_of

RUN = "a run directory, such as runs/demo, a model file, or its address"
RUN_HELP = f"{RUN} (default: the model `general`, if this installation carries one that recognizes)"


def run_and_rest(
    given: Sequence[str | None], num_needed: int, needed: str, recognizes: bool = True
) -> tuple[str, list[str]]:
    """Return the run that the first argument names, or else `general`, and the other arguments.

    Args:
        given: the arguments in their order; None for those that are missing.
        num_needed: smallest number of arguments besides the run.
        needed: what they are, for the error.
        recognizes: whether `general` must recognize speech well enough as it is.

    Raises:
        UserError: there is no run, and no model `general`; or what follows is missing.
    """
    words = [word for word in given if word is not None]
    if len(words) < num_needed:
        raise UserError(f"{needed}: missing; --help shows how to use this command")
    first, *rest = words
    if is_named(first) and len(rest) < num_needed:
        raise UserError(f"{needed}: expected after the run, {first}")
    if is_named(first) or (len(rest) >= num_needed and not _may_be_left_out(first, recognizes)):
        return first, rest
    return default_run(recognizes), words


def _may_be_left_out(first: str, recognizes: bool) -> bool:
    """Return whether the first argument is a recording, so that `general` is meant."""
    from asr.transcription.files import STANDARD_INPUT  # which imports NumPy

    try:
        return has_general(recognizes) and (first == STANDARD_INPUT or path_of(first).exists())
    except OSError:  # a long text is no path
        return False
