"""Translate errors of the library for users of the command line.

The library names its parameters in backticks: `devices`, `resume=True`, `name=NAME`. Users of a command know
them as its options: --gpus, --resume, --name NAME.
"""

from __future__ import annotations

import argparse
import re

PARAMETER = re.compile(r"`(\w+)(?:=([^`]*))?`")


def with_options(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a message with the parameters it names replaced by the options of a command.

    Args:
        message: of a `UserError`.
        parser: of the command; an option's `dest` is the parameter's name.
    """
    options = {
        action.dest: (action.option_strings[-1], action.nargs == 0)
        for action in parser._actions
        if action.option_strings
    }

    def typed(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in options:
            return match[0]
        option, is_switch = options[name]
        return option if is_switch or value is None else f"{option} {value}"

    return PARAMETER.sub(typed, message)
