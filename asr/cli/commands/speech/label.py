"""`asr label` labels recordings without text by a model, as a manifest to train on."""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.config import DataConfig, Range
from asr.base.errors import UserError
from asr.base.system.shards import has_manifest
from asr.base.system.storage.address import path_of
from asr.cli.commands.speech.label_rounds import Round, rounds, run_command
from asr.cli.commands.training.compare import add_compare_arguments, compare_command
from asr.cli.options.decoder import (
    add_hanzi_argument,
    add_search_arguments,
    ask_for_stored_decoder,
    decoder_choice,
    given_search_options,
)
from asr.cli.options.devices import add_device_arguments, chosen_devices
from asr.cli.progress_bars import ProgressBars

if TYPE_CHECKING:
    from asr.evaluation.labels.calibrated_confidence import CalibratedConfidence
    from asr.evaluation.labels.machine_labels import Labelled
    from asr.runs.run import Run
    from asr.transcription.decoder_choice import DecoderChoice
    from asr.transcription.recognizer import Recognizer

SHARE = Range(0.0, 1.0)
MAX_LISTED = 8  # recordings in a printed command


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
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="N times: label, then train the next run on these labels as well, which labels next; the same "
        "command resumes an interrupted one (default: label once, and print the commands of a round)",
    )
    add_search_arguments(parser)
    add_hanzi_argument(parser)
    add_device_arguments(parser)


def label_command(arguments: argparse.Namespace) -> int:
    """Label recordings, print what is kept and what is not, and return the exit status."""
    limit = arguments.min_confidence
    if limit is not None and not SHARE.low <= limit <= SHARE.high:
        raise UserError(f"--min-confidence: expected 0 to 1, received {limit:g}")
    if arguments.rounds is not None:
        _label_in_rounds(arguments)
        return 0
    task = _checked(arguments, arguments.run, arguments.out)
    ask_for_stored_decoder(arguments, task.run)
    labelled = _label(arguments, task)
    _print(labelled)
    _print_next(task.run.directory, labelled.manifest, arguments)
    return 0


def _label_in_rounds(arguments: argparse.Namespace) -> None:
    """Label, train on both, and repeat it with the new run; what is done already is not repeated."""
    if arguments.rounds < 1:
        raise UserError(f"--rounds: expected 1 or more, received {arguments.rounds}")
    first = _opened(arguments.run)
    if first.is_model_file:
        raise UserError(f"{arguments.run}: a model file cannot be trained further in rounds; name a run")
    ask_for_stored_decoder(arguments, first)
    devices = ["--gpus", arguments.devices] if arguments.devices else []
    devices += ["--simulate"] if arguments.simulate else []
    runs = [first.directory]
    some = itertools.islice(rounds(first.directory, arguments.out), arguments.rounds)
    for number, this in enumerate(some, start=1):
        print(f"\nround {number} of {arguments.rounds}: {this.run} labels {this.manifest}")
        is_begun = this.is_begun()
        if is_begun or not _label_once(arguments, this):
            print(f"{this.manifest}: labelled already")
        print(f"\nround {number} of {arguments.rounds}: {this.trained} is trained\n", flush=True)
        this.train(devices, is_begun=is_begun)
        runs.append(this.trained)
    print("\nrounds\n")
    run_command(add_compare_arguments, compare_command, [*map(str, runs)])


def _label_once(arguments: argparse.Namespace, this: Round) -> bool:
    """Label the recordings of a round, unless its manifest is of the same run, settings and recordings."""
    from asr.evaluation.labels.label_origin import is_made_of, origin_digest, record_origin

    task = _checked(arguments, this.run, this.manifest)
    origin = origin_digest(task.run, task.choice, task.dev, task.min_confidence, task.sources)
    if is_made_of(this.manifest, origin):
        return False
    _print(_label(arguments, task))
    record_origin(this.manifest, origin)
    return True


def _opened(named: Path) -> Run:
    from asr.runs.run import Run

    return Run.open(named)


class _Task(NamedTuple):
    """The recordings to label, the run and its decoder, and the manifest to write."""

    run: Run
    choice: DecoderChoice
    dev: Path
    min_confidence: float
    sources: Sequence[Path]
    out: Path


def _checked(arguments: argparse.Namespace, named: Path, out: Path) -> _Task:
    """Return what is asked for.

    Raises:
        UserError: it contradicts itself, or a file is missing.
    """
    from asr.evaluation.labels.machine_labels import MIN_CONFIDENCE
    from asr.transcription.files import STANDARD_INPUT, audio_files, refuse_bad_out

    sources = audio_files(arguments.files)
    refuse_bad_out(out, sources)
    named_files = [path_of(name) for name in arguments.files if name != STANDARD_INPUT]
    if missing := [path for path in named_files if not path.exists()]:  # before minutes of calibration
        raise UserError(f"{missing[0]}: no such recording; expected audio files, or folders of them")
    run = _opened(named)
    if run.is_model_file and not arguments.dev:
        raise UserError(
            f"{named}: a model file has no dev set, on which the confidence is calibrated; name "
            "labelled recordings with --dev"
        )
    dev = arguments.dev or path_of(run.config().data.dev)
    if out.suffix != ".jsonl" or out.resolve() == dev.resolve():
        raise UserError(f"--out {out}: expected the name of a new manifest, such as labelled.jsonl")
    if DataConfig(machine_labelled=str(out)).machine_labelled_manifests != [path_of(out)]:
        raise UserError(
            f"--out {str(out)!r}: `data.machine_labelled` could not name it, which separates manifests by "
            "commas; choose a path without commas and without spaces at its ends"
        )
    _refuse_labels_of_people(out)
    if not (arguments.dev or run.config().data.dev):
        raise UserError(
            f"{named}: this run has no dev set, on which the confidence is calibrated; name labelled "
            "recordings with --dev"
        )
    if not has_manifest(dev):
        raise UserError(
            f"{dev}: no such manifest, which calibrates the confidence; name labelled recordings with --dev"
        )
    limit = MIN_CONFIDENCE if arguments.min_confidence is None else arguments.min_confidence
    return _Task(run, decoder_choice(arguments, run), dev, limit, sources, out)


def _label(arguments: argparse.Namespace, task: _Task) -> Labelled:
    from asr.evaluation.labels.machine_labels import MachineLabeller
    from asr.transcription.recognizer import Recognizer

    with ProgressBars() as bars:
        recognizer = Recognizer.of_run(task.run, task.choice, chosen_devices(arguments), bars)
    calibrated = _calibrated(recognizer, task.dev)
    if num_learned := _num_learned(task):
        print(
            f"{task.run.directory}: learned from a model's labels of {num_learned:,} of these recordings, so "
            "its confidence in them is some points too high"
        )
    labeller = MachineLabeller(recognizer, calibrated, task.run.directory, task.min_confidence)
    with ProgressBars(delay_s=0.0) as bars:
        return labeller.label(task.sources, task.out, bars)


def _num_learned(task: _Task) -> int:
    """Return how many of the recordings the run was trained on, by the labels of a model."""
    from data_pipeline.manifests.manifest import read_manifest

    if task.run.is_model_file:
        return 0
    learned = {
        utterance.labelled_by.source
        for manifest in task.run.config().data.machine_labelled_manifests
        if has_manifest(manifest)
        for utterance in read_manifest(manifest)
        if utterance.labelled_by
    }
    return sum(str(source.resolve()) in learned for source in task.sources)


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
        calibrated = calibrate(samples_of(recognizer, read_manifest(dev), bars, str(dev)))
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


def _print_next(run: Path, manifest: Path, arguments: argparse.Namespace) -> None:
    """Print the commands that train on what is labelled, compare the runs, and label again."""
    this, after = itertools.islice(rounds(run, manifest), 2)
    # a shell may have made thousands of a pattern
    audio = arguments.files if len(arguments.files) <= MAX_LISTED else ["AUDIO..."]
    label = ["label", str(after.run), *audio, "--out", str(after.manifest)]
    if arguments.dev:
        label += ["--dev", str(arguments.dev)]
    if arguments.min_confidence is not None:
        label += ["--min-confidence", f"{arguments.min_confidence:g}"]
    label += given_search_options(arguments)
    commands = {
        "train on it": ["train", *this.training],
        "compare the errors on dev": ["compare", str(this.run), str(this.trained)],
        "label the same recordings again with the new run (--rounds does all of this)": label,
    }
    for title, words in commands.items():
        print(f"{title}:\n    asr {shlex.join(words)}")
