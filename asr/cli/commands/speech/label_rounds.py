"""Rounds of `asr label`: a run labels recordings, the next run is trained on them as well, and labels better.

for this in rounds(Path("runs/mine"), Path("labelled.jsonl")):
    is_begun = this.is_begun()
    ...  # unless it is begun, label this.manifest by this.run
    this.train(["--gpus", "2"], is_begun=is_begun)
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.cli.commands.training.train import add_train_arguments, train_command

LATER_RUN, LATER_MANIFEST = re.compile(r"(.*-labelled)(?:-(\d+))?"), re.compile(r"(.*labelled)-(\d+)")


class Round(NamedTuple):
    """A round.

    Attributes:
        run: labels the recordings.
        manifest: that it writes.
        trained: the run that is trained on these labels, too.
    """

    run: Path
    manifest: Path
    trained: Path

    @property
    def training(self) -> list[str]:
        """Return the arguments of `asr train` that train on what is labelled."""
        from asr.runs.run import Run

        settings = ["--set", f"data.machine_labelled={self.manifest}"]
        if Path(Run(self.run).config().train.runs_dir).resolve() != self.run.parent.resolve():  # it was moved
            settings += ["--set", f"train.runs_dir={self.run.parent}"]
        return [str(self.run / "config.toml"), "--name", self.trained.name, *settings]

    def is_begun(self) -> bool:
        """Return whether the training has begun, so that the recordings are labelled.

        Raises:
            UserError: there is a run of this name that is trained on other labels.
        """
        from asr.runs.run import Run

        run = Run(self.trained)
        if not run.exists:
            return False
        labels = run.config().data.machine_labelled
        if not labels or Path(labels).resolve() != self.manifest.resolve():
            raise UserError(
                f"{self.trained}: expected a run that is trained on {self.manifest}, received one on "
                f"{labels or 'labels of people alone'}; rename it, or choose another --out"
            )
        return True

    def train(self, devices: Sequence[str], *, is_begun: bool) -> None:
        """Train on what is labelled, from where an earlier call has stopped.

        Args:
            devices: options of `asr train`.
            is_begun: what the method of this name has returned.
        """
        from asr.runs.state import read_state

        if not is_begun:
            run_command(add_train_arguments, train_command, [*self.training, *devices])
        elif read_state(self.trained).state == "finished":
            print(f"{self.trained}: trained already")
        else:
            run_command(add_train_arguments, train_command, [str(self.trained), "--resume", *devices])


def rounds(run: Path, manifest: Path) -> Iterator[Round]:
    """Yield the round in which a run writes a manifest, and those after it."""
    numbered = LATER_MANIFEST.fullmatch(manifest.stem)
    base, first = (numbered[1], int(numbered[2])) if numbered else (manifest.stem, 1)
    for number in itertools.count(first):
        name = f"{base}-{number}.jsonl" if number > 1 else manifest.name
        later = LATER_RUN.fullmatch(run.name)
        trained = f"{later[1]}-{int(later[2] or 1) + 1}" if later else f"{run.name}-labelled"
        yield Round(run, manifest.with_name(name), run.with_name(trained))
        run = run.with_name(trained)


def run_command(
    add_arguments: Callable[[argparse.ArgumentParser], None],
    command: Callable[[argparse.Namespace], int],
    words: Sequence[str],
) -> None:
    """Run another command of `asr` in this process; its errors are raised."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    command(parser.parse_args(words))
