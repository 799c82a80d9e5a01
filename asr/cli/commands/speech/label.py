"""`asr label` labels recordings without text by a model, as a manifest to train on."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.config import Range
from asr.base.errors import UserError
from asr.base.system.shards import has_manifest
from asr.base.system.storage.address import path_of
from asr.cli.options.decoder import add_hanzi_argument, add_search_arguments, decoder_choice
from asr.cli.options.devices import add_device_arguments, chosen_devices
from asr.cli.progress_bars import ProgressBars

if TYPE_CHECKING:
    from asr.evaluation.labels.calibrated_confidence import CalibratedConfidence
    from asr.evaluation.labels.machine_labels import Labelled
    from asr.runs.run import Run
    from asr.transcription.recognizer import Recognizer

SHARE = Range(0.0, 1.0)


def add_label_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "files", nargs="+", metavar="AUDIO", help="recordings of any length, or folders of them"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="MANIFEST",
        help="manifest to write (JSON Lines); the same command resumes an interrupted one",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        metavar="SHARE",
        help="keep a segment if at least this share of its tokens is probably right (default: 0.8)",
    )
    parser.add_argument(
        "--dev",
        type=Path,
        metavar="MANIFEST",
        help="labelled recordings on which the confidence is calibrated; the more they are like AUDIO, the "
        "better (default: the run's dev set)",
    )
    add_search_arguments(parser)
    add_hanzi_argument(parser)
    add_device_arguments(parser)


def label_command(arguments: argparse.Namespace) -> int:
    """Label recordings, print what is kept and what is not, and return the exit status."""
    from asr.runs.run import Run
    from asr.transcription.files import audio_files, refuse_bad_out

    limit = arguments.min_confidence
    if limit is not None and not SHARE.low <= limit <= SHARE.high:
        raise UserError(f"--min-confidence: expected 0 to 1, received {limit:g}")
    sources = audio_files(arguments.files)
    refuse_bad_out(arguments.out, sources)
    if missing := [source for source in sources if not source.exists()]:  # before minutes of calibration
        raise UserError(f"{missing[0]}: no such recording; expected audio files, or folders of them")
    run = Run.open(arguments.run)
    if run.is_model_file and not arguments.dev:
        raise UserError(
            f"{arguments.run}: a model file has no dev set, on which the confidence is calibrated; name "
            "labelled recordings with --dev"
        )
    dev = arguments.dev or path_of(run.config().data.dev)
    if arguments.out.suffix != ".jsonl" or arguments.out.resolve() == dev.resolve():
        raise UserError(f"--out {arguments.out}: expected the name of a new manifest, such as labelled.jsonl")
    _refuse_labels_of_people(arguments.out)
    if not has_manifest(dev):
        raise UserError(
            f"{dev}: no such manifest, which calibrates the confidence; name labelled recordings with --dev"
        )
    choice = decoder_choice(arguments, run)
    from asr.evaluation.labels.machine_labels import MIN_CONFIDENCE, MachineLabeller
    from asr.transcription.recognizer import Recognizer

    with ProgressBars() as bars:
        recognizer = Recognizer.of_choice(run, choice, chosen_devices(arguments), bars)
    calibrated = _calibrated(recognizer, dev)
    labeller = MachineLabeller(
        recognizer, calibrated, run.directory, MIN_CONFIDENCE if limit is None else limit
    )
    with ProgressBars(delay_s=0.0) as bars:
        labelled = labeller.label(sources, arguments.out, bars)
    _print(labelled)
    _print_next(labelled, run, arguments)
    return 0


def _refuse_labels_of_people(out: Path) -> None:
    """Raise a UserError where the file to write is another than what this command writes."""
    from data_pipeline.manifests.manifest import scan_manifest

    if not out.exists():
        return
    scan = scan_manifest(out)
    if scan.broken or not scan.utterances.columns.by_machine.all():
        raise UserError(
            f"--out {out}: expected a new manifest or one of `asr label`, received lines without "
            "`labelled_by`, such as labels of people; choose another name"
        )


def _calibrated(recognizer: Recognizer, dev: Path) -> CalibratedConfidence:
    """Calibrate the confidence on a labelled set, and print how good it is."""
    from asr.evaluation.labels.calibrated_confidence import calibrate, samples_of
    from data_pipeline.manifests.manifest import read_manifest

    with ProgressBars() as bars:
        calibrated = calibrate(samples_of(recognizer, read_manifest(dev), bars))
    print(
        f"confidence calibrated on {calibrated.num_samples:,} utterances of {dev}: expected calibration "
        f"error {calibrated.measured.error:.1%} (cross-validation)"
    )
    return calibrated


def _print(labelled: Labelled) -> None:
    from asr.base.text.terminal_table import align_columns

    print()
    for line in align_columns(labelled.rows(), right_from=1):
        print(f"  {line}")
    if labelled.left_out:
        print("\nleft out")
        for line in labelled.reasons():
            print(line)
    print("\nby their confidence")
    for line in align_columns(labelled.rows_by_limit(), right_from=0):
        print(f"  {line}")
    print(f"\n{labelled.manifest}: by the confidence, {labelled.confidence:.1%} of its tokens are right")


def _print_next(labelled: Labelled, run: Run, arguments: argparse.Namespace) -> None:
    """Print the commands that train on what is labelled, compare the runs, and label again."""
    old, out = run.directory, labelled.manifest
    is_round = re.search(r"-labelled(-\d+)?$", old.name)
    new = old.with_name(_next_round(old.name) if is_round else f"{old.name}-labelled")
    again = out.with_name(f"{_next_round(out.stem)}.jsonl")
    train = ["asr", "train", f"{old / 'config.toml'}", "--name", new.name]
    label = ["asr", "label", str(new), *arguments.files, "--out", str(again)]
    if arguments.dev:
        label += ["--dev", str(arguments.dev)]
    if arguments.min_confidence is not None:
        label += ["--min-confidence", f"{arguments.min_confidence:g}"]
    commands = {
        "train on it": [*train, "--set", f"data.machine_labelled={out}"],
        "compare the errors on dev": ["asr", "compare", str(old), str(new)],
        "label again with the new run": label,
    }
    for title, words in commands.items():
        print(f"{title}:\n    {shlex.join(words)}")


def _next_round(name: str) -> str:
    """Return the name after another: labelled-2 after labelled, labelled-3 after labelled-2."""
    numbered = re.fullmatch(r"(.+)-(\d{1,2})", name)
    return f"{numbered[1]}-{int(numbered[2]) + 1}" if numbered else f"{name}-2"
