"""Turn lists of recordings into corpora: shared by the formats that name their audio files in a list."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import NamedTuple, TypeAlias

from asr.audio.recording import PIECE
from asr.base.errors import UserError
from asr.base.system.files import is_utf8
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import is_address
from asr.base.text.wording import counted, listed
from asr.base.types import MachineLabel
from data_pipeline.corpora.layout import FilesByName, comparable, plain_spaces, text_lines
from data_pipeline.corpora.matching import DUPLICATE_ID, EMPTY, NO_AUDIO
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import SPLITS, CorpusReading, LeftOut, Recording

NOT_A_TIME = "time is not a number"
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "训练", "训练集"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "valid", "validation", "val", "开发集"), "dev"),
    **dict.fromkeys(("验证", "验证集"), "dev"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation", "测试集"), "test"),
}
TRIAL = "测试"  # test beside a split; alone it may be any trial
FOR_MISSING = "write the path of its folder before its name, or copy the recordings there"
NUM_PROBED = 32  # paths of a list that are tried to find the folder they are relative to
NUM_SHOWN = 6  # file names quoted in an error

KeyedLines: TypeAlias = dict[str, tuple[str, str]]  # id -> (`path:number`, the rest of its line)


@dataclass(frozen=True, slots=True)
class ListedClip:
    """One utterance of a list, with its audio path as written.

    Attributes:
        where: `path:number` of its line.
        id: empty if the list gives none; then it is made from the path.
        labelled_by: the model that made text and tokens; None where people did.
    """

    where: str
    audio: str
    text: str
    id: str = ""
    speaker: str = ""
    tokens: tuple[str, ...] = ()
    begin_s: float = 0.0
    end_s: float | None = None
    labelled_by: MachineLabel | None = None


@dataclass(frozen=True)
class Listing:
    """What was read of a list for one split.

    Attributes:
        path: of the list.
        split: that its recordings belong to.
        expected: what its lines should hold, for the error if none is usable.
        entries: its usable lines.
        left_out: its other lines, with reasons.
        bases: folders that audio paths may be relative to, tried before the list's own.
    """

    path: Path
    split: str
    expected: str
    entries: Sequence[ListedClip] = ()
    left_out: Sequence[LeftOut] = ()
    bases: tuple[Path, ...] = ()


class Row(NamedTuple):
    """A recording, and its path as its list writes it, with forward slashes."""

    listed_path: str
    recording: Recording


@dataclass(frozen=True)
class FileSearch:
    """Where the files of a list are.

    Attributes:
        listing: the list.
        rows: its recordings.
        found: for a path where no file is, the path as listed and the file of its name.
        missing: for the other paths where no file is, what was found instead.
        there: the paths where a file is.
    """

    listing: Listing
    rows: Sequence[Row]
    found: dict[str, tuple[str, Path]]
    missing: dict[str, str]
    there: set[str]

    @property
    def below(self) -> Path:
        """Return the folder in which files were looked for by name."""
        return Path(os.path.abspath(self.listing.path)).parent  # noqa: PTH100 (resolve would follow links)

    def recordings(self) -> list[Recording]:
        """Return the recordings with the files that were found; `missing` of the others says why not."""
        tried = [*map(str, self.listing.bases), str(self.below), "the folders above it", str(Path.cwd())]
        where = f"{self.listing.path}: tried {', '.join(dict.fromkeys(tried))}"

        def located(recording: Recording) -> Recording:
            path = recording.audio_path
            if path in self.found:
                return dataclasses.replace(recording, audio_path=str(self.found[path][1]))
            if path in self.missing:
                return dataclasses.replace(recording, missing=f"{where}; {self.missing[path]}; {FOR_MISSING}")
            return recording

        return [located(row.recording) for row in self.rows]

    def notes(self) -> list[str]:
        """Return how many files were found by name, for display."""
        if not self.found:
            return []
        example = os.path.relpath(next(iter(self.found.values()))[1], self.below)
        files = counted(len(self.found), "file")
        return [f"{self.listing.path.name}: {files} found by name below {self.below}, such as {example}"]


def reading_of(listings: Iterable[Listing], left_out: Iterable[LeftOut] = ()) -> CorpusReading:
    """Return the recordings of lists, with audio paths resolved and missing ids made from the paths.

    Relative audio paths are relative to a listing's `bases`, its folder, the folders above, or the current
    folder: the one with the most of 32 probed files, the first of equals. If a file is not there, the one
    file below the list's folder that has its name, or its name without suffix if the list gives none, is
    used, unless its folder has another name than listed or another row names it. `missing` of other
    recordings says where their files were looked for.

    Raises:
        UserError: a list has no usable line.
    """
    listings = list(listings)
    checked = [partition(map(usable_entry, listing.entries)) for listing in listings]
    unusable = [*left_out]
    for listing, found in zip(listings, checked, strict=True):
        unusable += [*listing.left_out, *found.left_out]
    # by path: a table has a listing for each split
    with_usable = {listing.path for listing, found in zip(listings, checked, strict=True) if found.kept}
    for listing in listings:
        if listing.path not in with_usable:
            raise _no_usable_line(listing, unusable)
    named = partition(_with_ids(listings, [found.kept for found in checked]))
    searches = []
    for listing, of_listing in itertools.groupby(named.kept, key=lambda kept: kept[0]):
        base = _audio_base(listing)
        rows = [Row(_as_posix(entry.audio), _recording(entry, name, base)) for _, name, entry in of_listing]
        searches.append(_search(rows, listing))
    _refuse_files_of_other_rows(searches)
    splits: dict[str, list[Recording]] = {}
    notes: list[str] = []
    for search in searches:
        splits.setdefault(search.listing.split, []).extend(search.recordings())
        notes += search.notes()
    return CorpusReading(splits, unusable + named.left_out, notes=notes)


def _with_ids(
    listings: Sequence[Listing], usable: Sequence[Sequence[ListedClip]]
) -> Iterator[tuple[Listing, str, ListedClip] | LeftOut]:
    """Yield each usable entry with its listing and id; a duplicate id within a split is left out."""
    entries = [entry for found in usable for entry in found]
    made = iter(_ids_from_paths([entry for entry in entries if not entry.id]))
    taken = {entry.id for entry in entries}
    seen: set[tuple[str, str]] = set()
    for listing, found in zip(listings, usable, strict=True):
        for entry in found:
            name = entry.id or unique_name(next(made), taken)
            taken.add(name)
            if (listing.split, name) in seen:  # preparation resolves duplicates between splits
                yield LeftOut(entry.where, DUPLICATE_ID, name)
            else:
                seen.add((listing.split, name))
                yield listing, name, entry


def _recording(entry: ListedClip, name: str, base: str) -> Recording:
    audio = entry.audio.strip()
    if not is_address(audio):
        audio = path_on_disk(os.path.join(base, _as_posix(audio)))  # noqa: PTH118 (as fast as possible)
    text = plain_spaces(entry.text)
    return Recording(
        name,
        audio,
        text,
        entry.speaker,
        entry.tokens,
        entry.begin_s,
        entry.end_s,
        labelled_by=entry.labelled_by,
    )


def _search(rows: Sequence[Row], listing: Listing) -> FileSearch:
    """Look for the files that are not where their list says by their names, below the list's folder.

    A file is accepted only from a folder of the name that the list gives. Of several, the one in the folder
    of most of the others is meant.
    """
    folders = {os.path.dirname(row.recording.audio_path) for row in rows}  # noqa: PTH120
    names_in = {folder: _names_in(folder) for folder in folders}  # an access for each folder, not each file
    search = FileSearch(listing, rows, {}, {}, set())
    absent: dict[str, str] = {}  # audio path -> as the list writes it
    for listed_path, recording in rows:
        # an object is asked for when it is read
        if is_address(recording.audio_path) or _is_there(recording.audio_path, names_in):
            search.there.add(os.path.normpath(recording.audio_path))
        else:
            absent[recording.audio_path] = listed_path
    if not absent:
        return search
    by_name = FilesByName(search.below)
    several: dict[str, list[Path]] = {}
    for path, listed_path in absent.items():
        folder, name = os.path.split(path)
        files = same_name = by_name.named(name)
        in_folder = PureWindowsPath(listed_path).parent.name  # empty for a drive
        if in_folder not in ("", ".."):
            files = [file for file in files if comparable(file.parent.name) == comparable(in_folder)]
        files = [file for file in files if str(file.parent) == folder] or files
        if len(files) == 1:
            search.found[path] = (listed_path, files[0])
        elif files:
            several[path] = files
        elif same_name:
            search.missing[path] = f"none in a folder {in_folder}; {_files_of_name(same_name)}"
        else:
            search.missing[path] = f"no file of this name below {search.below}"
    in_folders = Counter(file.parent for _, file in search.found.values())
    usual, num_usual = (in_folders.most_common(1) or [(search.below, 0)])[0]
    is_usual = 2 * num_usual > in_folders.total()
    for path, files in several.items():
        there = [file for file in files if is_usual and file.parent == usual]
        if there:
            search.found[path] = (absent[path], there[0])
        else:
            search.missing[path] = _files_of_name(files)
    return search


def _files_of_name(files: Sequence[Path]) -> str:
    return f"{counted(len(files), 'file')} of this name: {listed(list(map(str, files)), 3)}"


def _refuse_files_of_other_rows(searches: Sequence[FileSearch]) -> None:
    """Give up each file found by name that another row names, too: it was recorded for one of them only."""
    named = {path for search in searches for path in search.there}
    rows_of: dict[str, set[tuple[Path, str]]] = {}
    for search in searches:
        for listed_path, file in search.found.values():
            rows_of.setdefault(str(file), set()).add((search.below, os.path.normpath(listed_path)))
    for search in searches:
        for path, (_, file) in list(search.found.items()):
            if str(file) in named or len(rows_of[str(file)]) > 1:
                del search.found[path]
                search.missing[path] = f"the file of this name is another row's, too: {file}"


def _is_there(path: str, names_in: Mapping[str, set[str] | None]) -> bool:
    if piece := PIECE.fullmatch(path):
        return os.path.exists(piece["path"])  # noqa: PTH110
    folder, name = os.path.split(path)
    names = names_in[folder]
    return os.path.exists(path) if names is None else name in names  # noqa: PTH110


def _names_in(folder: str) -> set[str] | None:
    """Return the names in a folder, none if there is no such folder; None if it may not be listed."""
    try:
        return set(os.listdir(folder or "."))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return set()
    except OSError:
        return None


def usable_entry(entry: ListedClip) -> ListedClip | LeftOut:
    """Return an entry, or why it cannot be used."""
    words = (entry.id, entry.audio, entry.text, entry.speaker, *entry.tokens)
    if any("\0" in word or not is_utf8(word) for word in words):
        return LeftOut(entry.where, "characters that UTF-8 cannot encode")
    if not entry.audio.strip():
        return LeftOut(entry.where, NO_AUDIO)
    if not entry.text.strip() and not entry.tokens:
        return LeftOut(entry.where, EMPTY)
    end_s = math.inf if entry.end_s is None else entry.end_s
    if not 0 <= entry.begin_s < end_s:
        return LeftOut(entry.where, "invalid time span", f"{entry.begin_s} s to {entry.end_s} s")
    return entry


def _no_usable_line(listing: Listing, left_out: Iterable[LeftOut]) -> UserError:
    of_list = [out for out in left_out if out.what.startswith(f"{listing.path}:")]
    found = f"found {len(of_list)} that cannot be used" if of_list else "found no lines"
    first = f"; the first is {of_list[0].what}: {of_list[0].reason}" if of_list else ""
    detail = f" ({of_list[0].detail})" if of_list and of_list[0].detail else ""
    return UserError(f"{listing.path}: no usable line; expected {listing.expected}; {found}{first}{detail}")


def _ids_from_paths(entries: Sequence[ListedClip]) -> list[str]:
    """Return ids made of paths without their common folders and suffix: "anna/01.wav" -> "anna-01"."""
    stems = [os.path.splitext(_as_posix(entry.audio))[0].split("/") for entry in entries]  # noqa: PTH122
    folders = [stem[:-1] for stem in stems]
    common = num_common_parts(folders)
    ids = ["-".join(part for part in stem[common:] if part not in ("", ".", "..")) for stem in stems]
    return [
        f"{name}-{entry.begin_s:.2f}" if entry.begin_s or entry.end_s is not None else name
        for name, entry in zip(ids, entries, strict=True)
    ]


def num_common_parts(folders: Sequence[list[str]]) -> int:
    """Return how many leading path parts all of these folders have in common."""
    first, last = min(folders, default=[]), max(folders, default=[])
    pairs = zip(first, last, strict=False)  # parts common to the first and the last are common to all
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def unique_name(name: str, taken: set[str]) -> str:
    """Return the name, or the first of `name-2`, `name-3`, ... that is not taken."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _audio_base(listing: Listing) -> str:
    """Return the folder that a list's relative paths are relative to."""
    folder = Path(os.path.abspath(listing.path)).parent  # noqa: PTH100 (resolve would follow links)
    bases = [str(base) for base in (*listing.bases, folder, *folder.parents, Path.cwd())]
    step = max(1, len(listing.entries) // NUM_PROBED)
    probed = [_as_posix(entry.audio) for entry in listing.entries[::step] if not is_address(entry.audio)]
    relative = [audio for audio in probed if audio and not os.path.isabs(audio)]  # noqa: PTH117

    def num_found(base: str) -> int:
        return sum(
            os.path.exists(path_on_disk(f"{base}/{piece['path'] if piece else audio}"))  # noqa: PTH110
            for audio in relative
            for piece in [PIECE.fullmatch(audio)]
        )

    return max(bases, key=num_found)  # the first of equals


def _as_posix(audio: str) -> str:
    """Return a path with forward slashes, since lists may be written on Windows."""
    return audio.strip().replace("\\", "/")


def split_of(name: str) -> str | None:
    """Return the split that a file or folder name indicates: "valid_manifest" -> "dev"; None if none."""
    if name.lower() == "cv":  # for cross-validation; within a longer name it means other things
        return "dev"
    words = {SPLIT_WORDS.get(word) for word in _words(name)}
    # "train_dev" is a dev set taken from train
    return next((split for split in ("dev", "test", "train") if split in words), None)


def splits_beside(names: Iterable[str]) -> dict[str, str | None]:
    """Return the split that each name of folders or lists in one place indicates; None if none."""
    found = {name: split_of(name) for name in names}
    if any(found.values()):
        found |= {name: "test" for name, split in found.items() if not split and TRIAL in _words(name)}
    return found


def _words(name: str) -> list[str]:
    """Return a name's words in lower case; Latin letters and hanzi are words of their own: "train集"."""
    return re.findall(r"[a-z]+|[^\W\d_a-z]+", name.lower())


def assign_splits(lists: Mapping[Path, str]) -> tuple[list[tuple[Path, str]], list[LeftOut]]:
    """Return lists with the splits that their names indicate, or all with "all" if no name does.

    If a list is named exactly for a split ("train"), others of that split ("train_sp") are left out. Lists
    whose name indicates no split are left out, too.

    Args:
        lists: path -> name.
    """
    split_by_name = splits_beside(lists.values())
    splits = {path: split_by_name[name] for path, name in lists.items()}
    if not any(splits.values()):
        return [(path, "all") for path in lists], []
    chosen: list[tuple[Path, str]] = []
    for split in SPLITS:
        group = [path for path, named in splits.items() if named == split]
        exact = [path for path in group if lists[path].lower() in {*SPLIT_WORDS, TRIAL, "cv"}]
        chosen += [(path, split) for path in exact or group]
    taken = {path for path, _ in chosen}
    left_out = [
        LeftOut(str(path), "another list for the same split" if split else "list name without a split", name)
        for (path, name), split in zip(lists.items(), splits.values(), strict=True)
        if path not in taken
    ]
    return chosen, left_out


def list_name(path: Path, source: Path) -> str:
    """Return the name to derive a list's split from: its own, else that of its folder below `source`."""
    name = path.name.split(".")[0]
    return name if split_of(name) or path.parent == source else path.parent.name


def nearest_below(source: Path, is_wanted: Callable[[Path], bool], depth: int) -> list[Path]:
    """Return the wanted folders of the highest level that has any: `source`, its subfolders, and so on.

    They are sorted; the search ends `depth` levels below `source`.
    """
    level = [source]
    for _ in range(depth + 1):
        if found := [folder for folder in level if is_wanted(folder)]:
            return found
        level = [below for folder in level for below in folders_in(folder)]
    return []


def folders_in(folder: Path) -> list[Path]:
    """Return the visible folders in a folder, sorted; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def keyed_lines(path: Path) -> tuple[KeyedLines, list[LeftOut]]:
    """Return lines that begin with an id by this id; further lines with the same id are left out.

    Raises:
        UserError: the file cannot be read.
    """
    lines: KeyedLines = {}
    left_out: list[LeftOut] = []
    for number, line in text_lines(path):
        key, *rest = line.split(maxsplit=1)
        where = f"{path}:{number}"
        if key in lines:
            left_out.append(LeftOut(where, DUPLICATE_ID, key))
        else:
            lines[key] = (where, rest[0] if rest else "")
    return lines, left_out


def refuse_missing(source: Path) -> None:
    """Raise a UserError if there is no such file or folder."""
    if not source.exists():
        raise UserError(f"{source}: no such file or folder; expected the path of the recordings")


def contents(folder: Path) -> str:
    """Return the first names in a folder, for an error: "found clips/, a.txt and 3 more"."""
    try:
        names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    except OSError as error:
        return f"cannot read this folder ({error.strerror})"
    return f"found {listed(names, NUM_SHOWN)}" if names else "found an empty folder"
