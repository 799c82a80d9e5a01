"""`asr pack` packs the recordings of manifests into a few large files."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.base.text.wording import counted
from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.cluster import add_cluster_argument, chosen_cluster
from asr.cli.progress_bars import ProgressBars


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "manifests",
        nargs="+",
        type=Path,
        metavar="MANIFEST",
        help="JSON Lines files; 'train-*.jsonl', in quotes, for one in several files",
    )
    parser.add_argument(
        "--format",
        choices=["tfrecord", "tar"],
        default="tfrecord",
        help="of the files: TFRecord, or tar as WebDataset reads it (default: %(default)s)",
    )
    add_cluster_argument(parser, "read the recordings")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the files and their manifests")


def pack_command(arguments: argparse.Namespace) -> int:
    """Pack each manifest and return the exit status."""
    from multigpu.start import import_tensorflow

    import_tensorflow()
    from data_pipeline.batches.pack import pack_manifest
    from data_pipeline.manifests.left_out import reason_lines

    num_left_out = 0
    with chosen_cluster(arguments) as cluster:
        for manifest in arguments.manifests:
            with ProgressBars() as bars:
                packed = pack_manifest(
                    manifest, arguments.out, on_progress=bars, kind=arguments.format, cluster=cluster
                )
            hours = sum(utterance.duration_s for utterance in packed.utterances) / 3600
            utterances = counted(len(packed.utterances), "utterance")
            files = counted(packed.num_files, "file")
            print(f"{packed.manifest}: {utterances}, {hours:,.2f} h, in {files}")
            for line in reason_lines(packed.left_out, packed.list_path):
                print(line)
            num_left_out += len(packed.left_out)
    return EXIT_MISTAKE if num_left_out else 0
