"""Lists of recordings: what the forms that name their audio in a list have in common."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from asr.base.files import is_utf8
from asr.base.types import UserError
from asr.base.wording import listed
from data_pipeline.corpora.layout import plain_spaces, text_lines
from data_pipeline.corpora.matching import EMPTY, NO_AUDIO
from data_pipeline.left_out import partition
from data_pipeline.types import SPLITS, LeftOut, Reading, Recording

ID_TWICE = "an id that stands twice"
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "valid", "validation", "val"), "dev"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
NUM_PROBED = 32  # paths of a list, to find the folder that they are relative to
NUM_SHOWN = 6  # names in an error

KeyedLines: TypeAlias = dict[str, tuple[str, str]]  # id -> (`path:number`, the rest of its line)


@dataclass(frozen=True, slots=True)
class Entry:
    """A usable line of a list, its audio path as written.

    Attributes:
        where: `path:number`.
        id: empty where the list gives none: it is made from the path.
    """

    where: str
    audio: str
    text: str
    id: str = ""
    speaker: str = ""
    tokens: tuple[str, ...] = ()
    begin_s: float = 0.0
    end_s: float | None = None


@dataclass(frozen=True)
class Listing:
    """A list of one split.

    Attributes:
        path: of the list.
        split: that it makes, or takes part in.
        expected: what its lines hold, for the error where none is usable.
        entries: its usable lines.
        left_out: its other lines, and why.
        bases: folders that its audio may be relative to, before the list's own.
    """

    path: Path
    split: str
    expected: str
    entries: Sequence[Entry] = ()
    left_out: Sequence[LeftOut] = ()
    bases: tuple[Path, ...] = ()


def reading_of(listings: Iterable[Listing], left_out: Iterable[LeftOut] = ()) -> Reading:
    """Recordings of lists: audio found, ids made where there are none, unusable lines left out.

    Relative audio paths are relative to a listing's `bases`, else to its folder, the folders above that
    one, or the current folder: the first of those that holds most of 32 paths tried. Where none holds any
    it is the first, and preparing finds the files missing.

    Raises:
        UserError: a list has no usable line.
    """
    listings = list(listings)
    usable = [partition(_fault(entry) or entry for entry in listing.entries) for listing in listings]
    faulty = [*left_out]
    for listing, found in zip(listings, usable, strict=True):
        faulty += [*listing.left_out, *found.left_out]
    # by path: a table has a listing for each split
    with_usable = {listing.path for listing, found in zip(listings, usable, strict=True) if found.kept}
    for listing in listings:
        if listing.path not in with_usable:
            raise _nothing_usable(listing, faulty)
    named = partition(_with_ids(listings, [found.kept for found in usable]))
    splits: dict[str, list[Recording]] = {}
    for split, recording in named.kept:
        splits.setdefault(split, []).append(recording)
    return Reading(splits, faulty + named.left_out)


def _with_ids(
    listings: Sequence[Listing], usable: Sequence[Sequence[Entry]]
) -> Iterator[tuple[str, Recording] | LeftOut]:
    """Yield each usable entry of each listing as a recording and its split; an id counts once in a split."""
    entries = [entry for found in usable for entry in found]
    made = iter(_made_ids([entry for entry in entries if not entry.id]))
    taken = {entry.id for entry in entries}
    seen: set[tuple[str, str]] = set()
    for listing, found in zip(listings, usable, strict=True):
        base = _audio_base(listing)
        for entry in found:
            name = entry.id or free_name(next(made), taken)
            taken.add(name)
            if (listing.split, name) in seen:  # preparing decides between splits
                yield LeftOut(entry.where, ID_TWICE, name)
            else:
                seen.add((listing.split, name))
                yield listing.split, _recording(entry, name, base)


def _recording(entry: Entry, name: str, base: str) -> Recording:
    audio = os.path.join(base, _as_posix(entry.audio))  # noqa: PTH118 (three times as fast as Path)
    text = plain_spaces(entry.text)
    return Recording(name, audio, text, entry.speaker, entry.tokens, entry.begin_s, entry.end_s)


def _fault(entry: Entry) -> LeftOut | None:
    words = (entry.id, entry.audio, entry.text, entry.speaker, *entry.tokens)
    if any("\0" in word or not is_utf8(word) for word in words):
        return LeftOut(entry.where, "characters that cannot be written as UTF-8")
    if not entry.audio.strip():
        return LeftOut(entry.where, NO_AUDIO)
    if not entry.text.strip() and not entry.tokens:
        return LeftOut(entry.where, EMPTY)
    end_s = math.inf if entry.end_s is None else entry.end_s
    if not 0 <= entry.begin_s < end_s:
        return LeftOut(entry.where, "no span of time", f"{entry.begin_s} s to {entry.end_s} s")
    return None


def _nothing_usable(listing: Listing, left_out: Iterable[LeftOut]) -> UserError:
    of_list = [out for out in left_out if out.what.startswith(f"{listing.path}:")]
    found = f"found {len(of_list)} that cannot be used" if of_list else "found none at all"
    first = f"; the first: {of_list[0].what}: {of_list[0].reason}" if of_list else ""
    detail = f" ({of_list[0].detail})" if of_list and of_list[0].detail else ""
    return UserError(f"{listing.path}: no usable line; expected {listing.expected}; {found}{first}{detail}")


def _made_ids(entries: Sequence[Entry]) -> list[str]:
    """Ids from paths, without the folders that all share and the suffix: "anna/01.wav" -> "anna-01"."""
    stems = [os.path.splitext(_as_posix(entry.audio))[0].split("/") for entry in entries]  # noqa: PTH122
    folders = [stem[:-1] for stem in stems]
    shared = num_shared(folders)
    ids = ["-".join(part for part in stem[shared:] if part not in ("", ".", "..")) for stem in stems]
    return [
        f"{name}-{entry.begin_s:.2f}" if entry.begin_s or entry.end_s is not None else name
        for name, entry in zip(ids, entries, strict=True)
    ]


def num_shared(folders: Sequence[list[str]]) -> int:
    """How many parts all of these folders begin with."""
    first, last = min(folders, default=[]), max(folders, default=[])
    pairs = zip(first, last, strict=False)  # what the first and the last share, all between them share
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def free_name(name: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3`, ... that is not taken."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _audio_base(listing: Listing) -> str:
    """The folder that a list's relative paths are relative to."""
    folder = Path(os.path.abspath(listing.path)).parent  # noqa: PTH100 (resolve would follow links)
    bases = [str(base) for base in (*listing.bases, folder, *folder.parents, Path.cwd())]
    step = max(1, len(listing.entries) // NUM_PROBED)
    probed = [_as_posix(entry.audio) for entry in listing.entries[::step]]
    relative = [audio for audio in probed if audio and not os.path.isabs(audio)]  # noqa: PTH117

    def num_found(base: str) -> int:
        return sum(os.path.exists(f"{base}/{audio}") for audio in relative)  # noqa: PTH110

    return max(bases, key=num_found)  # the first of equals


def _as_posix(audio: str) -> str:
    """A path as written on Windows too."""
    return audio.strip().replace("\\", "/")


def split_of(name: str) -> str | None:
    """The split that a file's or folder's name tells: "valid_manifest" -> "dev"; None where it tells none."""
    if name.lower() == "cv":  # for cross-validation; inside a longer name it means other things
        return "dev"
    words = {SPLIT_WORDS.get(word) for word in re.split(r"[^a-z]+", name.lower())}
    # "train_dev" is a dev set taken from train
    return next((split for split in ("dev", "test", "train") if split in words), None)


def by_split(lists: Mapping[Path, str]) -> tuple[list[tuple[Path, str]], list[LeftOut]]:
    """Lists with the splits that their names tell; all under "all" where none tells any.

    Where lists are named exactly for a split ("train"), others of that split ("train_sp") are left out, as
    are those whose name tells none.

    Args:
        lists: path -> name.
    """
    splits = {path: split_of(name) for path, name in lists.items()}
    if not any(splits.values()):
        return [(path, "all") for path in lists], []
    chosen: list[tuple[Path, str]] = []
    for split in SPLITS:
        group = [path for path, told in splits.items() if told == split]
        exact = [path for path in group if lists[path].lower() in {*SPLIT_WORDS, "cv"}]
        chosen += [(path, split) for path in exact or group]
    taken = {path for path, _ in chosen}
    left_out = [
        LeftOut(
            str(path), "another list of the same split" if told else "a list whose name tells no split", name
        )
        for (path, name), told in zip(lists.items(), splits.values(), strict=True)
        if path not in taken
    ]
    return chosen, left_out


def list_name(path: Path, source: Path) -> str:
    """The name that may tell a list's split: its own, else its folder's below `source`."""
    name = path.name.split(".")[0]
    return name if split_of(name) or path.parent == source else path.parent.name


def nearest_below(source: Path, is_wanted: Callable[[Path], bool], depth: int) -> list[Path]:
    """Folders of a kind: `source` itself, else those right below it, and so on; sorted.

    The walk ends at the first level that has any, and after `depth` levels below `source`.
    """
    level = [source]
    for _ in range(depth + 1):
        if found := [folder for folder in level if is_wanted(folder)]:
            return found
        level = [Path(entry.path) for folder in level for entry in _folders(folder)]
    return []


def _folders(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            folders = [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []
    return sorted(folders, key=lambda entry: entry.name)


def keyed_lines(path: Path) -> tuple[KeyedLines, list[LeftOut]]:
    """Return lines of an id and something by their ids; the second line of an id is left out.

    Raises:
        UserError: the file cannot be read.
    """
    lines: KeyedLines = {}
    left_out: list[LeftOut] = []
    for number, line in text_lines(path):
        key, *rest = line.split(maxsplit=1)
        where = f"{path}:{number}"
        if key in lines:
            left_out.append(LeftOut(where, ID_TWICE, key))
        else:
            lines[key] = (where, rest[0] if rest else "")
    return lines, left_out


def refuse_missing(source: Path) -> None:
    """Raise a UserError where there is nothing under this name."""
    if not source.exists():
        raise UserError(f"{source}: no such file or folder; say where the recordings are")


def contents(folder: Path) -> str:
    """The first names in a folder, for an error: "found clips/, a.txt and 3 more"."""
    try:
        names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    except OSError as error:
        return f"found nothing that can be read ({error.strerror})"
    return f"found {listed(names, NUM_SHOWN)}" if names else "found an empty folder"
