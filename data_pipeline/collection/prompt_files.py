"""Read the texts of a file: plain text, a table, or a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.shards import has_manifest, is_manifest_name
from data_pipeline.corpora.forms import table
from data_pipeline.corpora.layout import plain_spaces, text_lines
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.text.reading_text import readable_parts
from data_pipeline.types import Recording


def written_texts(path: Path) -> list[Recording]:
    """Return the texts of a file in its order, long ones cut at punctuation, with labels where it has them.

    Args:
        path: of a text with a sentence in each line, a table with a column of texts, or a manifest.

    Raises:
        UserError: the file cannot be read, or has no text.
    """
    if not path.is_file() and not has_manifest(path):
        raise UserError(
            f"{path}: no such file; expected a text with one sentence a line, a table, or a manifest"
        )
    found = [part for one in _texts(path) for part in _readable(one)]
    if not found:
        raise UserError(f"{path}: no sentences in this file; write one in each line")
    return found


def is_plain_text(path: Path) -> bool:
    """Return whether a file is neither a table nor a manifest, by its suffix."""
    return not is_manifest_name(path.name) and path.suffix.lower() not in table.SUFFIXES


def _texts(path: Path) -> Iterator[Recording]:
    if is_manifest_name(path.name):
        for utterance in read_manifest(path):
            yield _unspoken(f"{path}: {utterance.id}", utterance.text, utterance.tokens)
    elif is_plain_text(path):
        for number, line in text_lines(path):
            yield _unspoken(f"{path}:{number}", line)
    else:
        for where, text, tokens in table.texts_of(path):
            yield _unspoken(where, text, tokens)


def _unspoken(where: str, text: str, tokens: tuple[str, ...] = ()) -> Recording:
    """Return a recording that is to be made: errors name the line of its text."""
    return Recording("", where, plain_spaces(text) or " ".join(tokens), tokens=tokens)


def _readable(one: Recording) -> Iterator[Recording]:
    """Yield a text in parts that can be read at once; labels stay with a text that is not cut."""
    parts = list(readable_parts(one.text))
    if len(parts) == 1:
        yield one
    else:
        yield from (Recording("", one.audio_path, part) for part in parts)
