"""`asr pack`: recordings into a few large files."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.cli.commands import EXIT_MISTAKE


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("manifests", nargs="+", type=Path, metavar="MANIFEST", help="JSON Lines")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the files and their manifests")


def pack_command(arguments: argparse.Namespace) -> int:
    """Pack each manifest; returns the exit status."""
    from multigpu.quiet import import_tensorflow

    import_tensorflow()
    from data_pipeline.left_out import reason_lines
    from data_pipeline.pack import pack_manifest

    num_left_out = 0
    for manifest in arguments.manifests:
        packed = pack_manifest(manifest, arguments.out)
        hours = sum(utterance.duration_s for utterance in packed.utterances) / 3600
        files = "1 file" if packed.num_files == 1 else f"{packed.num_files:,} files"
        print(f"{packed.manifest}: {len(packed.utterances):,} utterances, {hours:,.2f} h, in {files}")
        list_path = arguments.out / f"{manifest.stem}.left_out.tsv"
        print("\n".join(reason_lines(packed.left_out, list_path)), end="\n" if packed.left_out else "")
        num_left_out += len(packed.left_out)
    return EXIT_MISTAKE if num_left_out else 0
