"""Lists of ASRT (github.com/nl8590687/ASRT_SpeechRecognition): `*.wav.lst` and `*.syllable.txt`.

    A11_101 data_thchs30/dev/A11_101.wav          datalist/thchs30/cv.wav.lst
    A11_101 qi1 shi2 nian2 dai4                   datalist/thchs30/cv.syllable.txt

Some are called `*.wav.txt`. Syllables are toned as ours: neutral 5, ü as v. Audio paths are relative to
the `data_path` that asrt_config.json gives, else to the list's folder, one above it, or the current one.
There is no text, so units other than syllables have nothing to work on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from asr.base.types import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import files_below, text_lines
from data_pipeline.corpora.listed import (
    Entry,
    Listing,
    by_split,
    contents,
    keyed_lines,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.left_out import partition
from data_pipeline.types import SPLITS, Corpus, LeftOut, Reading

CONFIG = "asrt_config.json"
WAV_LIST = re.compile(r"(?P<name>.*?)\.?wav\.(?P<suffix>lst|txt)", re.IGNORECASE)
EXPECTED = "lines of an id and the path of a WAV file, whose syllables are in the list beside it"
LAYOUT = "{train,dev,test}.wav.lst with {train,dev,test}.syllable.txt, or asrt_config.json that names them"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> Reading:
    """Recordings of ASRT's lists; the other parameters are not used.

    Args:
        source: ASRT's folder or its asrt_config.json, a folder with lists below it, or one *.wav.lst.
        target: not used.
        on_progress: not used.

    Raises:
        UserError: there are no such lists, or one without a usable line.
    """
    refuse_missing(source)
    config = source if source.name == CONFIG else source / CONFIG
    if config.is_file():
        listings, left_out = _read_config(config)
        if listings:
            return reading_of(listings, left_out)
    pairs, left_out = _pairs_below(source) if source.is_dir() else (_pair(source), [])
    if not pairs:
        raise _no_lists(source, left_out)
    if source.is_file():
        return reading_of([_read_lists(wav, labels, "all") for wav, labels in pairs.items()])
    chosen, others = by_split({wav: _name(wav, source) for wav in pairs})
    return reading_of((_read_lists(wav, pairs[wav], split) for wav, split in chosen), left_out + others)


def _no_lists(source: Path, left_out: list[LeftOut]) -> UserError:
    if source.is_file():
        found = f"found {source.name}, and no list beside it that goes with it"
    elif left_out:
        found = f"found {left_out[0].what} alone"
    else:
        found = contents(source)
    return UserError(f"{source}: no lists of ASRT below this folder; expected {LAYOUT}; {found}")


def _read_config(config: Path) -> tuple[list[Listing], list[LeftOut]]:
    """The lists that ASRT's own configuration names, of those that are there."""
    try:
        settings = json.loads("\n".join(line for _, line in text_lines(config)))
        lists = [(split, entry) for split in SPLITS for entry in settings["dataset"].get(split, [])]
        paths = [
            [config.parent / str(entry[key]) for key in ("data_list", "label_list", "data_path")]
            for _, entry in lists
        ]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{config}: not a configuration of ASRT ({error!r}); expected dataset with train, dev and test, "
            "each a list of data_list, label_list and data_path"
        ) from None
    listings: list[Listing] = []
    left_out: list[LeftOut] = []
    for (split, _), (wav, labels, base) in zip(lists, paths, strict=True):
        missing = [path for path in (wav, labels) if not path.is_file()]
        left_out += [LeftOut(str(path), f"a list that {CONFIG} names is not there") for path in missing]
        if not missing:
            listings.append(_read_lists(wav, labels, split, (base,)))
    return listings, left_out


def _pair(wav: Path) -> dict[Path, Path]:
    """A wav list and its list of syllables, if these are such."""
    match = WAV_LIST.fullmatch(wav.name)
    if not match:
        return {}
    labels = wav.with_name(".".join(filter(None, (match["name"], "syllable.txt"))))
    return {wav: labels} if labels.is_file() else {}


def _pairs_below(source: Path) -> tuple[dict[Path, Path], list[LeftOut]]:
    pairs: dict[Path, Path] = {}
    left_out = []
    for wav in files_below(source, ("wav.lst", "wav.txt")):
        pair = _pair(wav)
        pairs |= pair
        if not pair and wav.suffix.lower() == ".lst":  # a.wav.txt may be any clip's transcript
            left_out.append(LeftOut(str(wav), "a list without its syllables beside it"))
    return pairs, left_out


def _name(wav: Path, source: Path) -> str:
    """The name that tells a list's split: "cv" of cv.wav.lst, the folder's of wav.lst."""
    match = WAV_LIST.fullmatch(wav.name)
    assert match
    return match["name"] or ("" if wav.parent == source else wav.parent.name)


def _read_lists(wav: Path, labels: Path, split: str, bases: tuple[Path, ...] = ()) -> Listing:
    audio, same_audio = keyed_lines(wav)
    syllables, same_syllables = keyed_lines(labels)
    tokens = {name: tuple(line.split()) for name, (_, line) in syllables.items()}
    entries, unlabelled = partition(
        Entry(where, path, "", name, tokens=tokens[name])
        if tokens.get(name)
        else LeftOut(where, NO_TRANSCRIPT, name)
        for name, (where, path) in audio.items()
    )
    silent = [LeftOut(where, NO_AUDIO, name) for name, (where, _) in syllables.items() if name not in audio]
    left_out = [*same_audio, *same_syllables, *unlabelled, *silent]
    return Listing(wav, split, EXPECTED, entries, left_out, bases)


CORPUS = Corpus(
    read=read,
    about="your lists of ASRT: *.wav.lst and *.syllable.txt, or its asrt_config.json",
    language="zh",
    units="syllables",
    layout=LAYOUT,
)
