"""Makes the references from the code: configuration, commands from argparse, Python by autodoc.

Configuration and commands are made in the language of a `Translate`, which gets every text of theirs.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import asr
import multigpu
from asr.base.config import Config, Range, choices_of
from asr.base.decoder_settings import DecoderSettings
from asr.cli.main import make_parser as make_asr_parser
from multigpu.__main__ import make_parser as make_multigpu_parser

Translate: TypeAlias = Callable[[str], str]

UNBOUNDED = 1e9  # a bound as far from 0 as this is none


@dataclasses.dataclass(frozen=True)
class Key:
    """One setting: its name, type with range, default and meaning, as Markdown."""

    name: str
    type: str
    default: str
    meaning: str


def configuration(translate: Translate = str) -> str:
    """Return every section and key of a configuration as Markdown."""
    parts = []
    for section in dataclasses.fields(Config):
        settings = section.default_factory  # the section's class
        parts += [f"## [{section.name}]", translate(inspect.getdoc(settings) or "")]
        parts += [_key_section(key, f"{section.name}.", translate) for key in keys(settings, translate)]
    return "\n\n".join(parts)


def decoder_settings(translate: Translate = str) -> str:
    """Return every key of a run's `decoder.toml` as Markdown."""
    return "\n\n".join(_key_section(key, "", translate) for key in keys(DecoderSettings, translate))


def _key_section(key: Key, prefix: str, translate: Translate) -> str:
    return (
        f"### `{prefix}{key.name}`\n\n"
        + translate("{type}; default: {value}").format(type=key.type, value=f"`{key.default}`")
        + f"\n\n{_escaped(translate(key.meaning))}"
    )


def keys(settings: Any, translate: Translate = str) -> list[Key]:
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
            type_text(types[field.name], translate),
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


def type_text(annotation: Any, translate: Translate = str) -> str:
    """Return what values a field takes, such as "integer, 1 to 64"."""
    if choices := choices_of(annotation):
        listed = ", ".join(f"`{choice}`" if choice else '`""`' for choice in choices)
        return translate("one of {}").format(listed)
    bounds: Any = None
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, bounds = typing.get_args(annotation)
    name = {int: "integer", float: "number", bool: "`true` or `false`", str: "text"}[annotation]
    return translate(name) + (_range_text(bounds, translate) if isinstance(bounds, Range) else "")


def _range_text(bounds: Range, translate: Translate) -> str:
    if bounds.low <= -UNBOUNDED:
        return translate(", {} or less").format(f"{bounds.high:g}")
    if 0 < bounds.low <= 1 / UNBOUNDED:
        return translate(", more than 0")
    if bounds.high >= UNBOUNDED:
        return translate(", {} or more").format(f"{bounds.low:g}")
    return translate(", {} to {}").format(f"{bounds.low:g}", f"{bounds.high:.12g}")


def commands(translate: Translate = str) -> str:
    """Return every command of `asr` and `python -m multigpu` as Markdown."""
    parsers = [make_asr_parser(), make_multigpu_parser()]
    return "\n\n".join(part for parser in parsers for part in _command(parser, 2, "", translate))


def _command(
    parser: argparse.ArgumentParser, level: int, summary: str, translate: Translate
) -> Iterator[str]:
    yield f"{'#' * level} `{parser.prog}`"
    said = (parser.description or summary).rstrip(".") + "."
    yield _escaped(translate(said[:1].upper() + said[1:]))
    yield f"```text\n{parser.format_usage().removeprefix('usage: ')}```"
    subcommands: list[tuple[argparse.ArgumentParser, str]] = []
    for group in parser._action_groups:
        shown = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
                subcommands += [(child, helps[name]) for name, child in action.choices.items()]
            elif action.help != argparse.SUPPRESS and action.dest not in ("help", "verbose", "quiet"):
                shown.append(_argument(parser, action, translate))
        if shown and group.title not in ("positional arguments", "options"):
            title = translate(group.title or "")
            yield f"**{title}**" + (f" ({translate(group.description)})" if group.description else "")
        yield from shown
    for child, child_summary in subcommands:
        yield from _command(child, level + 1, child_summary, translate)


def _argument(parser: argparse.ArgumentParser, action: argparse.Action, translate: Translate) -> str:
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest)
    names = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.option_strings:
        value = (
            "" if action.nargs == 0 else f" {names if action.metavar or action.choices else names.upper()}"
        )
        names = action.option_strings[-1] + value
    meaning = parser._get_formatter()._expand_help(action) if action.help else ""  # %(default)s -> its value
    return f"`{names}`\n: {_escaped(translate(meaning))}"


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
