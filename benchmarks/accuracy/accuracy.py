"""Measures the error rates of a configuration: the mean of several seeds, their spread, and each.

    python -m benchmarks.accuracy.accuracy                                        # the demo
    python -m benchmarks.accuracy.accuracy hsk_words FOLDER
    python -m benchmarks.accuracy.accuracy digits FOLDER --seeds 5
    python -m benchmarks.accuracy.accuracy --lm lm                                # with beam search as well

Two networks at equal training time, the Conformer and the separable network of size xs:

    python -m benchmarks.accuracy.accuracy hsk_words FOLDER --minutes 15 --out runs/separable \
        --set model.size=xs
    python -m benchmarks.accuracy.accuracy hsk_words FOLDER --minutes 15 --out runs/conformer \
        --set model.size=xs --set model.family=conformer --set model.stem=1d

Runs `python train.py CONFIG` once for each seed, one after the other. Each leaves its run directory in the
folder of `--out` (`runs/accuracy`): a seed that is there is not trained again, one that was stopped resumes,
and a larger `--seeds` adds to those that are there. `--lm` is a folder of `asr lm train`: the runs are also
decoded by beam search of width 16, in which the general model chooses, and with this model, tuned on dev.
`--minutes` sets the number of epochs by the time of the second one of a run that is made for it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from asr.base.config import Config, load_config
from asr.runs.run import Run
from asr.runs.state import read_state
from benchmarks.common import show

TRAIN = Path(__file__).resolve().parents[2] / "train.py"


@dataclass(frozen=True)
class Measured:
    """What one seed's run measured on the test set: error rates by name, and minutes of training."""

    rates: dict[str, float]
    train_min: float


def main() -> None:
    arguments = parse_arguments()
    out = arguments.out.resolve()
    overrides = [f"train.runs_dir={out}", f"data.prepared_dir={out / 'data'}", *arguments.set]
    if arguments.source:
        overrides.append(f"data.source={arguments.source.resolve()}")
    name = Path(arguments.config).stem
    if arguments.minutes:
        epochs = epochs_in(arguments.minutes, out / f"{name}-pace", arguments, overrides)
        overrides.append(f"train.epochs={epochs}")
    measured = [
        measure(out / f"{name}-seed-{seed}", arguments, [*overrides, f"train.seed={seed}"])
        for seed in range(1, arguments.seeds + 1)
    ]
    minutes = [f"{one.train_min:.1f}" for one in measured]
    rows = {"minutes of training": ", ".join(minutes)}
    rows |= {rate: spread_text([one.rates[rate] for one in measured]) for rate in measured[0].rates}
    show(f"python train.py {arguments.config}, seeds: {len(measured)}", rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Error rates of a configuration over several seeds.")
    parser.add_argument("config", nargs="?", default="demo")
    parser.add_argument("source", nargs="?", type=Path, help="folder of the recordings")
    parser.add_argument("--seeds", type=int, default=3, help="number of runs; their seeds are 1, 2, ...")
    parser.add_argument("--out", type=Path, default=Path("runs/accuracy"), help="folder of the runs")
    parser.add_argument("--lm", type=Path, help="folder of `asr lm train`, to decode with as well")
    parser.add_argument("--minutes", type=float, help="train for about this long, whatever the epochs")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error(f"--seeds: expected at least 1, received {arguments.seeds}")
    return arguments


def epochs_in(minutes: float, directory: Path, arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Return the number of epochs that take this long, by the second one of a run of two."""
    run = Run(directory)
    settings = [*overrides, "train.epochs=2"]
    if not run.exists:
        words = [word for override in settings for word in ("--set", override)]
        run_command([str(TRAIN), arguments.config, "--name", directory.name, *words])
    require_same(run, load_config(arguments.config, settings))
    first, second = (metrics.train_s for metrics in run.metrics())
    return max(1, round(60 * minutes / (second - first)))


def measure(directory: Path, arguments: argparse.Namespace, overrides: list[str]) -> Measured:
    """Train and evaluate one seed, or what is left of it, and return its results."""
    run = Run(directory)
    if run.exists:
        require_same(run, load_config(arguments.config, overrides))
    if not run.exists or read_state(directory).state != "finished":
        settings = [word for override in overrides for word in ("--set", override)]
        new = [arguments.config, "--name", directory.name, *settings]
        run_command([str(TRAIN), *([str(directory), "--resume"] if run.exists else new)])
    rates = error_rates(directory / "report.json", "")
    if arguments.lm:
        rates |= error_rates(decoded(run, "beam", None), ", beam 16")
        rates |= error_rates(decoded(run, "lm", arguments.lm.resolve()), ", language model")
    return Measured(rates, run.metrics()[-1].train_s / 60)


def decoded(run: Run, name: str, language_model: Path | None) -> Path:
    """Evaluate beam search, unless that was done; a language model is tuned on dev. Return the results."""
    data = run.config().data
    test = Path(data.test)
    report = run.directory / f"report-{test.parent.name}-{test.stem}-accuracy-{name}.json"
    if not report.exists():
        run.decoder_path.unlink(missing_ok=True)
        if language_model:
            tuning = ["tune-decoder", str(run.directory), data.dev, "--lm", str(language_model)]
            run_command(["-m", "asr", *tuning])
        beam = [] if language_model else ["--beam", "16"]
        run_command(
            ["-m", "asr", "evaluate", str(run.directory), data.test, "--name", f"accuracy-{name}", *beam]
        )
    return report


def run_command(arguments: list[str]) -> None:
    """Run a Python program and leave this one if it fails."""
    subprocess.run([sys.executable, *arguments], check=True)


def require_same(run: Run, wanted: Config) -> None:
    """Leave the program if a run was trained with another configuration than is measured now."""
    kept = run.config()
    kept = replace(kept, data=wanted.data, train=replace(kept.train, runs_dir=wanted.train.runs_dir))
    if not wanted.train.learning_rate:  # chosen when the run to start from was evaluated
        wanted = replace(wanted, train=replace(wanted.train, learning_rate=kept.train.learning_rate))
    if kept != wanted:
        raise SystemExit(f"{run.directory}: trained with other settings; give another folder with --out")


def error_rates(report: Path, suffix: str) -> dict[str, float]:
    """Return the error rates of an evaluation, their names with a suffix."""
    evaluation = json.loads(report.read_text(encoding="utf-8"))
    return {rate["name"] + suffix: rate["rate"] for rate in evaluation["rates"]}


def spread_text(rates: list[float]) -> str:
    """Return the mean, the standard deviation and each of the rates, in percent."""
    each = ", ".join(f"{rate:.2%}" for rate in rates)
    if len(rates) == 1:
        return f"{each} (one seed)"
    return f"{statistics.mean(rates):.2%} (standard deviation {statistics.stdev(rates):.2%}; {each})"


if __name__ == "__main__":
    main()
