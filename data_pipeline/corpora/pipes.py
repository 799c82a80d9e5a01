"""Commands in Kaldi's wav.scp: the one file that a command decodes, found without running anything."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

# What of each program changes neither the words nor their times: options with a value, and without.
# Left away on purpose: one channel of several (sph2pipe -c 1), cuts, speed, volume, raw samples.
WITH_VALUE: dict[str, set[str]] = {
    "sph2pipe": {"-f"},
    "flac": set(),
    "cat": set(),
    "sox": {"-t", "-r", "-b", "-e", "-c"},
    "ffmpeg": {"-f", "-ar", "-ac", "-acodec", "-c:a", "-codec:a", "-loglevel", "-v"},
}
WITHOUT_VALUE: dict[str, set[str]] = {
    "sph2pipe": {"-p"},
    "flac": {"-c", "-d", "-s", "-cd", "-dc", "-cds", "-csd", "-dcs", "-dsc", "-scd", "-sdc"}
    | {"--stdout", "--decode", "--silent"},
    "cat": set(),
    "sox": {"-q", "-D", "-G", "-R", "-V0", "-V1"},
    "ffmpeg": {"-i", "-y", "-nostdin", "-hide_banner", "-vn"},  # -i: so that its file counts as one
}
HEADERLESS = {"raw", "s16le", "s16", "sw", "ul", "al"}
STREAMS = {"-", "pipe:", "pipe:0", "pipe:1", "/dev/stdin", "/dev/stdout"}
DISCARDED_MESSAGES = re.compile(r"\s2>\s*/dev/null")
QUOTES = re.compile(r"['\"\\]")
SHELL = re.compile(r"[$`;&<>*?\[\](){}~#!]")  # what means more than itself to a shell
EXPANDED = re.compile(r"[$`;&<>]")  # even between double quotes, or beside them


def file_of_pipe(command: str) -> str | None:
    """The file that a command decodes to its standard output.

    Args:
        command: ends with "|".

    Returns:
        The path; None where the command cannot be understood, or changes what is heard.
    """
    files: list[str] = []
    for stage in DISCARDED_MESSAGES.sub("", command).strip().removesuffix("|").split("|"):
        words = _words(stage)
        operands = _operands(words) if words else None
        if operands is None:
            return None
        files += operands
        if not files:  # nothing goes into the pipe
            return None
    return files[0] if len(files) == 1 else None


def _words(stage: str) -> list[str] | None:
    """The program and its arguments; None where a shell would make something else of them."""
    if not QUOTES.search(stage):  # shlex looks at each character: only where it has to
        program, *rest = stage.split() or [""]
        return None if SHELL.search(" ".join(rest)) else [program, *rest]
    try:
        program, *rest = shlex.split(stage) or [""]
    except ValueError:
        return None
    return None if EXPANDED.search(" ".join(rest)) else [program, *rest]


def _operands(words: list[str]) -> list[str] | None:
    """The files that a program reads or writes; None where it may change what is heard."""
    name = PurePosixPath(words[0]).name
    if name not in WITH_VALUE:
        return None
    if name == "sox" and words[-2:-1] == ["rate"]:
        words = words[:-2]  # we resample too
    operands = []
    has_input = False
    rest = iter(words[1:])
    for word in rest:
        if word in WITH_VALUE[name]:
            # before the input of sox these are no conversion: they deny what the file's header says
            denies_header = name == "sox" and word != "-t" and not has_input
            if denies_header or next(rest, "raw") in HEADERLESS:
                return None
        elif word in STREAMS:
            has_input = True
        elif word not in WITHOUT_VALUE[name]:
            if word.startswith("-"):
                return None
            has_input = True
            operands.append(word)
    return operands
