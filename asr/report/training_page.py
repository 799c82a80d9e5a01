"""Writes the page of a run while it is trained; at the end the report takes its place, at the same address.

    with TrainingPage(run, config, "syllable", command) as page:
        page.show(history)  # after every epoch

Browsers load the page again every few seconds until training ends.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, TypeAlias

from asr.base.config import Config, dump_config
from asr.base.errors import UserError
from asr.base.text.wording import duration, percent
from asr.pages.page import is_page, write_page
from asr.report.curves import curves, time_parts
from asr.runs.progress import EpochMetrics, best_first, throughput
from asr.runs.run import Run

logger = logging.getLogger(__name__)

Stage: TypeAlias = Literal["training", "evaluating", "stopped", "failed"]
REFRESH_S = 10
RECENT_EPOCHS = 5  # whose mean time predicts the others'
PATIENCE_EPOCHS, PATIENCE_S = 3, 600  # without a new page for longer, the process has probably been killed


class TrainingPage:
    """The page of a run that is being trained.

    A context manager: the page exists from the start, and states at the end why training ended. A page that
    cannot be written is reported once, and never ends training.

    Args:
        run: whose report has the same path.
        config: of the run.
        unit: of the labels, such as "syllable".
        command: shell command that resumes the run.
    """

    def __init__(self, run: Run, config: Config, unit: str, command: str) -> None:
        self._run, self._config, self._unit, self._command = run, config, unit, command
        self._history: Sequence[EpochMetrics] = run.metrics()
        self._has_failed = False
        self._keeps_report = is_page(run.report_path, "evaluation.html")  # until a further epoch is trained

    def __enter__(self) -> TrainingPage:
        self._write("training")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            is_stopped = isinstance(error, KeyboardInterrupt)
            self._write("stopped" if is_stopped else "failed", "" if is_stopped else str(error))

    def show(self, history: Sequence[EpochMetrics]) -> None:
        """Write the page after an epoch."""
        self._history, self._keeps_report = history, False
        self._write("training")

    def evaluating(self) -> None:
        """Write that training is done, and the report about to be made."""
        self._write("evaluating")

    def _write(self, stage: Stage, reason: str = "") -> None:
        if self._keeps_report:
            return
        history, num_epochs = self._history, self._config.train.epochs
        try:
            write_page(
                self._run.report_path,
                "asr.report",
                "training.html",
                run_name=self._run.directory.name,
                unit=self._unit,
                stage=stage,
                reason=reason,
                command=self._command,
                num_done=len(history),
                num_epochs=num_epochs,
                left=duration(_epoch_s(history) * (num_epochs - len(history))) if history else "",
                lowest=best_first(history)[0] if history else None,
                facts=_facts(self._unit, history),
                curves=curves(history, self._unit),
                refresh_s=REFRESH_S if stage in ("training", "evaluating") else 0,
                patience_s=PATIENCE_S + PATIENCE_EPOCHS * _epoch_s(history) if history else 0,
                config_toml=dump_config(self._config),
            )
        except Exception as error:  # hours of training are worth more than a page, whatever is wrong with it
            if not self._has_failed:
                what = str(error) if isinstance(error, UserError) else f"{self._run.report_path}: {error!r}"
                logger.warning("%s; training continues without this page", what)
            self._has_failed = True


def _epoch_s(history: Sequence[EpochMetrics]) -> float:
    """Return the mean seconds of the last epochs, evaluation on dev included; 0 before the first."""
    befores_s = [0.0, *(metrics.train_s for metrics in history)][: len(history)]
    all_s = [sum(time_parts(*pair)) for pair in zip(befores_s, history, strict=True)][-RECENT_EPOCHS:]
    return sum(all_s) / max(1, len(all_s))


def _facts(unit: str, history: Sequence[EpochMetrics]) -> dict[str, str]:
    """Return the figures of the last epoch, by name."""
    if not history:
        return {}
    last = history[-1]
    return {
        f"dev {unit} errors": percent(last.dev_error),
        f"training {unit} errors": percent(last.train_error),
        "dev loss": f"{last.dev_loss:.2f}",
        "training loss": f"{last.loss:.2f}",
        "training": duration(last.train_s),
        "throughput": f"{throughput(history):,.0f}× real time",
    }
