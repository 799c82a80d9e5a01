"""Provide the models that are served: a run, and what `asr export` makes of it."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.runs.run import Run

MODELS = ("TensorFlow", "exported")


@dataclass(frozen=True)
class Models:
    """A run and where its exports are.

    Attributes:
        run: the trained model.
        folder: for temporary files.
        names: of those in `served`.
    """

    run: Path
    folder: Path
    names: Sequence[str] = MODELS

    @functools.cached_property
    def exported(self) -> Path:
        """Return the run as exported for ONNX Runtime."""
        return self._exported("onnx")

    @functools.cached_property
    def sherpa(self) -> Path:
        """Return the run as exported for sherpa-onnx."""
        return self._exported("sherpa")

    @property
    def served(self) -> dict[str, Path]:
        """Return what is served, by the name of what runs it."""
        return {name: self.run if name == "TensorFlow" else self.exported for name in self.names}

    @property
    def manifest(self) -> Path:
        """Return the list of the run's test clips."""
        return Path(Run.open(self.run).config().data.test)

    def _exported(self, form: str) -> Path:
        out = self.folder / form
        command = [sys.executable, "-m", "asr", "export", str(self.run), str(out), "--format", form]
        subprocess.run([*command, "--clips", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        return out
