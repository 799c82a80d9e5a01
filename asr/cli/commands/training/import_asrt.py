"""`asr import-asrt` turns weights that ASRT trained into a run directory."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asr.export.asrt import ImportedAsrt

DESCRIPTION = (
    "Turn weights that ASRT (github.com/nl8590687/ASRT_SpeechRecognition, v0.5 to v1.3) trained into a run "
    "directory, which transcribes, evaluates and fine-tunes like any other. Its networks 251bn, 251, 25 and "
    "24 are distinguished by their weights."
)
MAX_LISTED = 6


def add_import_asrt_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "weights",
        type=Path,
        metavar="MODEL.h5",
        help="such as SpeechModel251bn.model.h5 or ....model.base.h5",
    )
    parser.add_argument(
        "dictionary",
        type=Path,
        nargs="?",
        metavar="dict.txt",
        help="ASRT's list of the syllables of the outputs (default: the dict.txt in the folder of MODEL.h5 "
        "or in one of the two folders above it)",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the new run directory, such as runs/asrt")


def import_asrt_command(arguments: argparse.Namespace) -> int:
    """Import weights, print what became of the outputs, and return the exit status."""
    from asr.export.asrt import import_asrt
    from asr.runs.resume_command import asr_command

    imported = import_asrt(arguments.weights, arguments.run, arguments.dictionary)
    for line in _summary(imported):
        print(line)
    print("\nTranscribe with it as with any run:\n")
    print(f"    {asr_command()} transcribe {shlex.quote(str(imported.run.directory))} RECORDING")
    return 0


def _summary(imported: ImportedAsrt) -> list[str]:
    from asr.base.text.wording import listed

    lines = [
        f"{imported.run.directory}: ASRT's network {imported.network}, {len(imported.vocabulary):,} of its "
        f"{imported.num_outputs:,} outputs, named by {imported.dictionary}",
        f"  blank: was output {imported.num_outputs - 1:,}, is output 0",
    ]
    if imported.dropped:
        lines.append(
            f"  dropped: {listed(imported.dropped, MAX_LISTED)}, in the list more than once; only the "
            "last output of each was trained"
        )
    if imported.respelled:
        pairs = [f"{theirs} is {ours}" for theirs, ours in imported.respelled.items()]
        lines.append(f"  spelled otherwise: {listed(pairs, MAX_LISTED)}")
    return lines
