"""Makes the references from the code: configuration, commands from argparse, Python by autodoc."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import re
import textwrap
import typing
from collections.abc import Iterator
from typing import Any

import asr
import multigpu
from asr.base.config import Config, Range, choices_of
from asr.base.decoder_settings import DecoderSettings
from asr.cli.main import make_parser as make_asr_parser
from multigpu.__main__ import make_parser as make_multigpu_parser

UNBOUNDED = 1e9  # a bound as far from 0 as this is none


@dataclasses.dataclass(frozen=True)
class Key:
    """One setting: its name, type with range, default and meaning, as Markdown."""

    name: str
    type: str
    default: str
    meaning: str


def configuration() -> str:
    """Return every section and key of a configuration as Markdown."""
    parts = []
    for section in dataclasses.fields(Config):
        settings = section.default_factory  # the section's class
        parts += [f"## [{section.name}]", inspect.getdoc(settings) or ""]
        parts += [_key_section(key, f"{section.name}.") for key in keys(settings)]
    return "\n\n".join(parts)


def decoder_settings() -> str:
    """Return every key of a run's `decoder.toml` as Markdown."""
    return "\n\n".join(_key_section(key, "") for key in keys(DecoderSettings))


def _key_section(key: Key, prefix: str) -> str:
    return f"### `{prefix}{key.name}`\n\n{key.type}; default: `{key.default}`\n\n{_escaped(key.meaning)}"


def keys(settings: Any) -> list[Key]:
    """Return the keys of a dataclass, each with the comment above it as its meaning."""
    types = typing.get_type_hints(settings, include_extras=True)
    meanings = dict(_comments(settings))
    for field in dataclasses.fields(settings):
        if field.name not in meanings:
            raise ValueError(
                f"{settings.__name__}.{field.name}: expected a comment above this field; it is the setting's "
                "meaning in the reference of the site"
            )
    return [
        Key(
            field.name,
            type_text(types[field.name]),
            json.dumps(field.default, ensure_ascii=False),
            meanings[field.name],
        )
        for field in dataclasses.fields(settings)
    ]


def _comments(settings: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass that have a comment above them, with the comment."""
    source = textwrap.dedent(inspect.getsource(settings))
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno - 1
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            comment = " ".join(line.strip().lstrip("# ") for line in lines[first : node.lineno - 1])
            if comment:
                yield node.target.id, comment


def type_text(annotation: Any) -> str:
    """Return what values a field takes, such as "integer, 1 to 64"."""
    if choices := choices_of(annotation):
        return "one of " + ", ".join(f"`{choice}`" if choice else '`""`' for choice in choices)
    bounds: Range | None = None
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, bounds = typing.get_args(annotation)
    name = {int: "integer", float: "number", bool: "`true` or `false`", str: "text"}[annotation]
    return f"{name}{_range_text(bounds)}" if bounds else name


def _range_text(bounds: Range) -> str:
    low = "more than 0" if 0 < bounds.low <= 1 / UNBOUNDED else f"{bounds.low:g}"
    if bounds.low <= -UNBOUNDED:
        return f", {bounds.high:g} or less"
    if bounds.high >= UNBOUNDED:
        return f", {low}" if low.startswith("more") else f", {low} or more"
    return f", {low} to {bounds.high:.12g}"


def commands() -> str:
    """Return every command of `asr` and `python -m multigpu` as Markdown."""
    parsers = [make_asr_parser(), make_multigpu_parser()]
    return "\n\n".join(part for parser in parsers for part in _command(parser, 2, ""))


def _command(parser: argparse.ArgumentParser, level: int, summary: str) -> Iterator[str]:
    yield f"{'#' * level} `{parser.prog}`"
    said = _escaped(parser.description or summary)
    yield said[:1].upper() + said[1:].rstrip(".") + "."
    yield f"```text\n{parser.format_usage().removeprefix('usage: ')}```"
    subcommands: list[tuple[argparse.ArgumentParser, str]] = []
    for group in parser._action_groups:
        shown = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
                subcommands += [(child, helps[name]) for name, child in action.choices.items()]
            elif action.help != argparse.SUPPRESS and action.dest not in ("help", "verbose", "quiet"):
                shown.append(_argument(action))
        if shown and group.title not in ("positional arguments", "options"):
            yield f"**{group.title}**" + (f" ({group.description})" if group.description else "")
        yield from shown
    for child, child_summary in subcommands:
        yield from _command(child, level + 1, child_summary)


def _argument(action: argparse.Action) -> str:
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest)
    names = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.option_strings:
        value = (
            "" if action.nargs == 0 else f" {names if action.metavar or action.choices else names.upper()}"
        )
        names = action.option_strings[-1] + value
    return f"`{names}`\n: {_escaped(action.help or '')}"


def python() -> str:
    """Return autodoc directives for the public names of `asr` and `multigpu`."""
    parts = []
    for module in (asr, multigpu):
        parts.append(f"## `{module.__name__}`\n\n{_escaped((inspect.getdoc(module) or '').splitlines()[0])}")
        parts += [
            _autodoc(f"{module.__name__}.{name}", getattr(module, name))
            for name in sorted(module.__all__, key=str.lower)
            if not isinstance(getattr(module, name), str)
        ]
    return "\n\n".join(parts)


def _autodoc(name: str, value: object) -> str:
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    members = "   :members:\n" if kind == "class" and not issubclass(value, Exception) else ""  # type: ignore[arg-type]
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{members}```"


def _escaped(text: str) -> str:
    """Return text with the characters escaped that Markdown takes for markup, except within backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<\[\]_|])", r"\\\1", part) for part in parts)
