"""`asr doctor` runs every check of manifests, recordings and labels that is possible before training."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from asr.cli.commands import add_override_argument, default_page, refuse_overwriting
from asr.cli.options.cluster import add_cluster_argument, chosen_cluster
from asr.cli.progress_bars import ProgressBars

if TYPE_CHECKING:
    from data_pipeline.doctor.diagnosis import Diagnosis

EXIT_PROBLEMS = 1  # the data has at least one error
DEFAULT_CONFIG = "demo"
DEFAULT_PAGE = "doctor.html"


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "manifests",
        nargs="*",
        type=Path,
        metavar="MANIFEST",
        help="JSON Lines files, named train, dev and test, or in this order; 'train-*.jsonl', in quotes, for "
        "one in several files (default: those of --config)",
    )
    parser.add_argument(
        "--config",
        help="check labels against the vocabulary, the model and the batch size of this configuration: "
        f"a TOML file, or the name of one in configs/ (default: the model of {DEFAULT_CONFIG})",
    )
    add_override_argument(parser, "data.vocabulary=mandarin")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="the page with examples to listen to (default: pages/doctor.html, which is replaced)",
    )
    parser.add_argument("--json", metavar="FILE", help="write every finding as JSON; - for standard output")
    parser.add_argument(
        "--write-clean",
        type=Path,
        metavar="DIR",
        help="folder for manifests of the usable utterances, and for left_out.txt, which gives reasons",
    )
    add_cluster_argument(parser, "decode the recordings")


def doctor_command(arguments: argparse.Namespace) -> int:
    """Examine manifests, print what is wrong with them, and return the exit status.

    0 without errors (there may be warnings and notes), EXIT_PROBLEMS with errors, EXIT_MISTAKE for a mistake
    in the command itself.
    """
    from asr.base.config import find_config, load_config
    from asr.base.system.storage.address import path_of
    from asr.base.text.wording import counted
    from data_pipeline.doctor.clean_manifests import clean_paths, write_clean
    from data_pipeline.doctor.diagnosis import as_json
    from data_pipeline.doctor.findings import sources_to_examine
    from data_pipeline.doctor.page import write_doctor_page
    from multigpu.start import import_tensorflow

    config_path = find_config(arguments.config or DEFAULT_CONFIG)
    config = load_config(config_path, arguments.overrides)
    sources = sources_to_examine(arguments.manifests, config.data)
    manifests = [source.path for source in sources]
    if arguments.html:
        refuse_overwriting("--html", arguments.html, manifests)
    page = arguments.html or default_page(DEFAULT_PAGE)  # fails before minutes of decoding, not after
    if arguments.json and arguments.json != "-":
        refuse_overwriting("--json", path_of(arguments.json), manifests)
    if arguments.write_clean:
        clean_paths(sources, arguments.write_clean)  # the same
    import_tensorflow(_leave_gpus_alone)
    from asr.training.check_before_training import examine

    with chosen_cluster(arguments) as cluster, ProgressBars() as bars:
        diagnosis = examine(
            config,
            arguments.manifests,
            config_name=config_path.stem,
            check_batches=bool(arguments.config),
            on_progress=bars,
            cluster=cluster,
        )

    write_doctor_page(page, diagnosis)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    _print_diagnosis(diagnosis, out, "" if arguments.config else "; choose yours with --config")
    if arguments.json:
        _write_json(arguments.json, as_json(diagnosis))
    if arguments.write_clean:
        for path, count in write_clean(diagnosis, arguments.write_clean).items():
            print(f"{path}: {counted(count, 'utterance')}", file=out)
        print(f"{arguments.write_clean / 'left_out.txt'}: what was left out, and why", file=out)
    print(f"Page: {page}", file=out)
    return EXIT_PROBLEMS if diagnosis.counts()["error"] else 0


def _print_diagnosis(diagnosis: Diagnosis, out: TextIO, hint: str) -> None:
    """Print a summary: the manifests, and the problems by kind."""
    from asr.base.text.wording import counted, duration, visible
    from data_pipeline.doctor.findings import KINDS, SEVERITIES

    for summary in diagnosis.summaries():
        speakers = counted(summary.num_speakers, "speaker") if summary.num_speakers else "speakers not given"
        left_out = f", {counted(summary.num_left_out, 'line')} to leave out" if summary.num_left_out else ""
        name = f"{visible(str(summary.source.path))} ({summary.source.role})"
        utterances = f"{counted(summary.num_utterances, 'utterance')}, {duration(summary.duration_s)}"
        print(f"{name}: {utterances}, {speakers}{left_out}", file=out)
    print(f"Whether labels fit their audio is checked for {diagnosis.model}{hint}.", file=out)
    for severity in SEVERITIES:
        found = {c: f for c, f in diagnosis.by_kind().items() if KINDS[c].severity == severity}
        if found:
            print(f"\n{severity}s", file=out)
        for code, findings in found.items():
            first = findings[0]
            print(f"{len(findings):>8,}  {KINDS[code].title}: {KINDS[code].remedy}", file=out)
            example = f"{first.where}: {first.detail}" if first.where else first.detail
            print(f"          e.g. {visible(example)}", file=out)
    counts = diagnosis.counts()
    verdict = "problems found" if counts["error"] else "sound"
    print(f"\n{verdict}: {', '.join(counted(counts[s], s) for s in SEVERITIES)}", file=out)


def _leave_gpus_alone() -> None:
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # they are in use already
        tf.config.set_visible_devices([], "GPU")


def _write_json(target: str, report: dict[str, object]) -> None:
    from asr.base.system.files import whole_file
    from asr.base.system.storage.address import path_of

    # a file's name may contain bytes that are not UTF-8: as escapes they are valid JSON
    text = json.dumps(report, ensure_ascii=False, indent=1).encode(errors="backslashreplace") + b"\n"
    if target == "-":
        sys.stdout.write(text.decode())
    else:
        with whole_file(path_of(target), "report") as file:
            file.write(text)
