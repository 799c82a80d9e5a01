"""`asr inspect` shows statistics of manifests, as text and as a page of charts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.cli.commands import default_page, refuse_overwriting

if TYPE_CHECKING:
    from data_pipeline.inspection.statistics import Inspection, Unseen
    from data_pipeline.labels.syllable_use import Coverage

NUM_SHOWN = 12
DEFAULT_PAGE = "inspect.html"


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "manifests",
        nargs="+",
        type=Path,
        metavar="MANIFEST",
        help="JSON Lines files, named train, dev and test, or in this order; 'train-*.jsonl', in quotes, for "
        "one in several files",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="the page with charts (default: pages/inspect.html, which is replaced)",
    )


def inspect_command(arguments: argparse.Namespace) -> int:
    """Print and draw statistics of manifests, and return the exit status."""
    from data_pipeline.inspection.page import write_inspect_page
    from data_pipeline.inspection.statistics import inspect_manifests

    if arguments.html:
        refuse_overwriting("--html", arguments.html, arguments.manifests)
    inspections = inspect_manifests(arguments.manifests)
    for inspection in inspections:
        _print_inspection(inspection)
    for inspection in inspections:
        for unseen in inspection.unseen:
            _print_unseen(inspection, unseen, inspections[0].name)
    page = arguments.html or default_page(DEFAULT_PAGE)
    write_inspect_page(page, inspections)
    print(f"\nPage: {page}")
    return 0


def _print_unseen(inspection: Inspection, unseen: Unseen, train: str) -> None:
    from asr.base.text.wording import counted, duration, listed

    if unseen.counts:
        some = listed([f"{name} {count}" for name, count in unseen.counts.items()], NUM_SHOWN)
        where = f"{counted(unseen.num_utterances, 'utterance')}, {duration(unseen.duration_s)}"
        print(f"\n{inspection.name}: {unseen.what} that do not occur in {train}: {some}")
        print(f"  {len(unseen.counts):,} in {where}")


def _print_inspection(inspection: Inspection) -> None:
    from asr.base.text.wording import counted, duration, listed
    from data_pipeline.inspection.statistics import RARE, spread

    shortest, middle, longest = spread(inspection.durations_s)
    slowest, usual, fastest = spread(inspection.tokens_per_s)
    frequent = [f"{label} {count:,}" for label, count in inspection.label_counts.items()]
    rare = [f"{label} {count}" for label, count in inspection.rare_labels.items()]
    num_utterances = counted(len(inspection.durations_s), "utterance")
    print(f"\n{inspection.name}: {duration(inspection.duration_s)}, {num_utterances}")
    rows = {
        "different sentences": f"{inspection.num_sentences:,}",
        "speakers": _speakers(inspection),
        "utterance length": f"{shortest:.2f} s to {longest:.2f} s, median {middle:.2f} s",
        "tokens per second": f"{slowest:.1f} to {fastest:.1f}, median {usual:.1f}",
        "tokens": f"{sum(inspection.num_tokens):,}",
        "labels": f"{len(inspection.label_counts):,}: {listed(frequent, NUM_SHOWN)}",
        f"under {RARE} times": f"{counted(len(rare), 'label')}{': ' * bool(rare)}{listed(rare, NUM_SHOWN)}",
    }
    for part, counts in inspection.part_counts.items():
        total = sum(counts.values())
        rows[f"{part}s"] = listed(
            [f"{name} {count / total:.0%}" for name, count in counts.items()], NUM_SHOWN
        )
    if inspection.coverage:
        rows |= _coverage(inspection.coverage)
    for name, value in rows.items():
        print(f"  {name:<22} {value}")


def _coverage(coverage: Coverage) -> dict[str, str]:
    from asr.base.text.wording import listed, percent

    covered = f"{coverage.num_covered:,} of {coverage.num_used:,}, {percent(coverage.share)} of what is said"
    return {
        "Mandarin's syllables": covered,
        "missing, by use": listed(list(coverage.missing), NUM_SHOWN) or "none",
    }


def _speakers(inspection: Inspection) -> str:
    from asr.base.text.wording import duration

    if not inspection.num_speakers:
        return "not given"
    seconds = [length_s for name, length_s in inspection.speaker_s.items() if name]
    share = f", from {duration(min(seconds))} to {duration(max(seconds))} each" if len(seconds) > 1 else ""
    return f"{inspection.num_speakers:,}{share}"
