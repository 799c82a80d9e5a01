"""Define the error of a text that cannot be labelled."""

from __future__ import annotations

from asr.base.errors import UserError

SIGN_IN_NUMBER = "number with a sign in it; write it out"  # a reason


class UnlabelledError(UserError):
    """The reason why a text cannot be labelled.

    Args:
        reason: the same for all such texts, so that they can be counted.
        detail: what was found in this text.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{detail}: {reason}")
        self.reason, self.detail = reason, detail
