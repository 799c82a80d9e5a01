"""Find the file that a command in Kaldi's wav.scp decodes, without running anything."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

# Options of each program, with and without a value, that change neither the words nor their times.
# Omitted on purpose: one channel of several (sph2pipe -c 1), trimming, speed, volume, raw samples.
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
SHELL = re.compile(r"[$`;&<>*?\[\](){}~#!]")  # characters that a shell interprets
EXPANDED = re.compile(r"[$`;&<>]")  # even between double quotes, or beside them


def file_of_pipe(command: str) -> str | None:
    """Return the file that a command decodes to its standard output.

    Args:
        command: ends with "|".

    Returns:
        The path; None if the command is not understood, or changes the sound.
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
    """Return the program and its arguments; None if a shell would interpret them differently."""
    if not QUOTES.search(stage):  # shlex is slow, so it is used only for quotes
        program, *rest = stage.split() or [""]
        return None if SHELL.search(" ".join(rest)) else [program, *rest]
    try:
        program, *rest = shlex.split(stage) or [""]
    except ValueError:
        return None
    return None if EXPANDED.search(" ".join(rest)) else [program, *rest]


def _operands(words: list[str]) -> list[str] | None:
    """Return the files that a program reads or writes; None if it may change the sound."""
    name = PurePosixPath(words[0]).name
    if name not in WITH_VALUE:
        return None
    if name == "sox" and words[-2:-1] == ["rate"]:
        words = words[:-2]  # every recording is resampled later
    operands = []
    has_input = False
    rest = iter(words[1:])
    for word in rest:
        if word in WITH_VALUE[name]:
            # before sox's input, these options convert nothing: they override the file's header
            overrides_header = name == "sox" and word != "-t" and not has_input
            if overrides_header or next(rest, "raw") in HEADERLESS:
                return None
        elif word in STREAMS:
            has_input = True
        elif word not in WITHOUT_VALUE[name]:
            if word.startswith("-"):
                return None
            has_input = True
            operands.append(word)
    return operands
