"""The error that a user can correct."""

from __future__ import annotations


class UserError(Exception):
    """A mistake that the user can correct; the message names record, problem and remedy.

    Commands print it as one line and exit with status 2; any other exception is a bug.
    """
