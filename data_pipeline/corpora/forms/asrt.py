"""Read the lists of ASRT (github.com/nl8590687/ASRT_SpeechRecognition): `*.wav.lst` and `*.syllable.txt`.

    A11_101 data_thchs30/dev/A11_101.wav          datalist/thchs30/cv.wav.lst
    A11_101 qi1 shi2 nian2 dai4                   datalist/thchs30/cv.syllable.txt

Some lists are named `*.wav.txt`. Syllables are spelled as in this project: neutral tone 5, ü as v. Audio
paths are relative to the `data_path` in asrt_config.json, else to the list's folder, one above it, or the
current one. These lists have no text, so the only possible units are syllables.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.clip_lists import (
    ListedClip,
    Listing,
    assign_splits,
    contents,
    keyed_lines,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.layout import files_below, text_lines
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import SPLITS, Corpus, CorpusReading, LeftOut

CONFIG = "asrt_config.json"
WAV_LIST = re.compile(r"(?P<name>.*?)\.?wav\.(?P<suffix>lst|txt)", re.IGNORECASE)
EXPECTED = "lines with an id and the path of a WAV file, whose syllables are in the list beside it"
LAYOUT = "{train,dev,test}.wav.lst with {train,dev,test}.syllable.txt, or an asrt_config.json that names them"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of ASRT's lists; the other parameters are not used.

    Args:
        source: ASRT's folder or its asrt_config.json, a folder with lists below it, or one *.wav.lst.
        target: not used.
        on_progress: not used.

    Raises:
        UserError: no list was found, or a list has no usable line.
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
    chosen, others = assign_splits({wav: _name(wav, source) for wav in pairs})
    return reading_of((_read_lists(wav, pairs[wav], split) for wav, split in chosen), left_out + others)


def _no_lists(source: Path, left_out: list[LeftOut]) -> UserError:
    if source.is_file():
        found = f"found {source.name} without a matching list beside it"
    elif left_out:
        found = f"found only {left_out[0].what}"
    else:
        found = contents(source)
    return UserError(f"{source}: no ASRT lists below this folder; expected {LAYOUT}; {found}")


def _read_config(config: Path) -> tuple[list[Listing], list[LeftOut]]:
    """Return the lists named in ASRT's own configuration, as far as they exist."""
    try:
        settings = json.loads("\n".join(line for _, line in text_lines(config)))
        lists = [(split, entry) for split in SPLITS for entry in settings["dataset"].get(split, [])]
        paths = [
            [config.parent / str(entry[key]) for key in ("data_list", "label_list", "data_path")]
            for _, entry in lists
        ]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{config}: not an ASRT configuration ({error!r}); expected `dataset` with train, dev and test, "
            "each a list of objects with data_list, label_list and data_path"
        ) from None
    listings: list[Listing] = []
    left_out: list[LeftOut] = []
    for (split, _), (wav, labels, base) in zip(lists, paths, strict=True):
        missing = [path for path in (wav, labels) if not path.is_file()]
        left_out += [LeftOut(str(path), f"list named in {CONFIG} not found") for path in missing]
        if not missing:
            listings.append(_read_lists(wav, labels, split, (base,)))
    return listings, left_out


def _pair(wav: Path) -> dict[Path, Path]:
    """Return a wav list with its syllable list; empty if its name does not fit or it has no syllable list."""
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
            left_out.append(LeftOut(str(wav), "list without a syllable list beside it"))
    return pairs, left_out


def _name(wav: Path, source: Path) -> str:
    """Return the name that a list's split is derived from: "cv" for cv.wav.lst, the folder's for wav.lst."""
    match = WAV_LIST.fullmatch(wav.name)
    assert match
    return match["name"] or ("" if wav.parent == source else wav.parent.name)


def _read_lists(wav: Path, labels: Path, split: str, bases: tuple[Path, ...] = ()) -> Listing:
    audio, same_audio = keyed_lines(wav)
    syllables, same_syllables = keyed_lines(labels)
    tokens = {name: tuple(line.split()) for name, (_, line) in syllables.items()}
    entries, without_syllables = partition(
        ListedClip(where, path, "", name, tokens=tokens[name])
        if tokens.get(name)
        else LeftOut(where, NO_TRANSCRIPT, name)
        for name, (where, path) in audio.items()
    )
    without_audio = [
        LeftOut(where, NO_AUDIO, name) for name, (where, _) in syllables.items() if name not in audio
    ]
    left_out = [*same_audio, *same_syllables, *without_syllables, *without_audio]
    return Listing(wav, split, EXPECTED, entries, left_out, bases)


CORPUS = Corpus(
    read=read,
    about="your own recordings in ASRT lists: *.wav.lst and *.syllable.txt, or an asrt_config.json",
    language="zh",
    units="syllables",
    layout=LAYOUT,
)
