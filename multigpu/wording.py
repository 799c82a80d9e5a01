"""Words the lists in messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names separated by commas, with the number of those beyond `most`: `a, b, c and 2 more`."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
