"""Shows how much of Mandarin the project's own sentences cover after some minutes of reading.

    python -m benchmarks.accuracy.coverage

`--order random` reads them in a random order instead of the one that teaches most. `--prompts FILE` measures
other sentences.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from asr.base.text.wording import percent
from benchmarks.common import show
from data_pipeline.collection.prompts import Prompt, expected_duration_s, own_prompts, read_prompts
from data_pipeline.labels.syllable_use import coverage_of


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of Mandarin by the sentences to read.")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="sentences other than the project's own")
    parser.add_argument("--order", choices=("teaching", "random"), default="teaching")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 10, 20, 30], metavar="N")
    arguments = parser.parse_args()
    if arguments.prompts:
        prompts = read_prompts(arguments.prompts, "syllables", goal_s=0).kept
    else:
        prompts = own_prompts("syllables")
    if arguments.order == "random":
        prompts = random.Random(1).sample(prompts, len(prompts))
    total_s = sum(map(expected_duration_s, prompts))
    num_syllables = sum(len(prompt.tokens) for prompt in prompts)
    rows = {f"{minutes:g} minutes": covered(prompts, 60 * minutes) for minutes in arguments.minutes}
    rows[f"all, {total_s / 60:.0f} minutes"] = covered(prompts, total_s + 1)
    rows["rate"] = f"{num_syllables / total_s:.2f} syllables a second, pauses included"
    show("toned syllables of Mandarin, weighted by use", rows)


def covered(prompts: Sequence[Prompt], duration_s: float) -> str:
    """Return the coverage of the first prompts, as many as can be read in this time."""
    labels: set[str] = set()
    num_read = 0
    for prompt in prompts:
        duration_s -= expected_duration_s(prompt)
        if duration_s < 0:
            break
        num_read += 1
        labels.update(prompt.tokens)
    found = coverage_of(labels)
    return f"{percent(found.share)}, {found.num_covered:,} of {found.num_used:,}; {num_read} sentences"


if __name__ == "__main__":
    main()
