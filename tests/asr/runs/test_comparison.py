from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT

from asr.base.config import Config, dump_config
from asr.cli.main import main
from asr.runs.progress import EpochMetrics
from asr.runs.run import Run

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Return a function that makes a run directory with settings of `[train]` and dev errors."""

    def make(name: str, dev_errors: tuple[float, ...] = (0.9, 0.5), **train: object) -> Path:
        config = dataclasses.replace(Config(), train=dataclasses.replace(Config().train, **train))
        run = Run(tmp_path / name)
        run.directory.mkdir(parents=True)
        (run.directory / "config.toml").write_text(dump_config(config), encoding="utf-8")
        history = [
            EpochMetrics(
                epoch=epoch,
                loss=30 / epoch,
                train_error=error + 0.1,
                dev_loss=20 / epoch,
                dev_error=error,
                learning_rate=1e-3,
                audio_s_per_s=500.0,
                train_s=60.0 * epoch,
                best=error == min(dev_errors[:epoch]),
                chosen=error <= min(dev_errors[:epoch]) + 0.05,
                skipped=1,
            )
            for epoch, error in enumerate(dev_errors, start=1)
        ]
        if history:
            run.write_metrics(history)
        return run.directory

    return make


def table_of(output: str, title: str) -> dict[str, list[str]]:
    """Parse a printed table as row name -> cells, which are below their headings."""
    lines = output.split(f"\n{title}\n")[1].split("\n\n")[0].splitlines()
    begins = [place for place, char in enumerate(lines[0]) if char != " "]
    edges = [*zip(begins, [*begins[1:], 10_000], strict=True)]
    return {
        line[: begins[0]].strip(): [line[begin:end].strip() for begin, end in edges] for line in lines[1:]
    }


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["compare", *map(str, arguments)]) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    return error


def test_compare_prints_only_differing_settings(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run("a", epochs=40, optimizer="adamw"), make_run("b", epochs=60, optimizer="sgd")]
    assert main(["compare", *map(str, runs)]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"A  {runs[0]}\nB  {runs[1]}\n")
    assert table_of(output, "settings that differ") == {
        "train.epochs": ["40", "60"],
        "train.optimizer": ["adamw", "sgd"],
    }


def test_compare_prints_a_column_of_results_for_each_run(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run("a", (0.9, 0.5, 0.6)), make_run("b", ()), make_run("c", (0.8,))]
    assert main(["compare", *map(str, runs)]) == 0
    output = capsys.readouterr().out
    assert output.split("\nsettings that differ\n")[1].startswith("  none\n")
    results = table_of(output, "results")
    assert results["epochs"] == ["3 of 40", "0 of 40", "1 of 40"]
    assert results["best dev error"] == ["50.0%", "", "80.0%"]
    assert results["at epoch"] == ["2", "", "1"]
    assert results["last training error"] == ["70.0%", "", "90.0%"]
    assert results["last training loss"] == ["10.000", "", "30.000"]
    assert results["training time"] == ["3 min 00 s", "", "1 min 00 s"]
    assert results["throughput"] == ["500 s/s", "", "500 s/s"]
    assert results["skipped batches"] == ["3", "", "1"]


def test_compare_page_is_in_the_first_run_and_draws_every_started_run(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = [make_run("a", (0.9, 0.5, 0.6)), make_run("<b>", ()), make_run("c", (0.8, 0.7), epochs=60)]
    assert main(["compare", *map(str, runs)]) == 0
    page = (tmp_path / "compare-a-<b>-c.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 4
    assert page.count('<polyline class="run r1"') == page.count('<polyline class="run r3"') == 4
    assert page.count('class="ring run r') == 2  # on the chart of the dev error
    assert '<polyline class="run r2"' not in page
    assert "epoch 3\nA a: 60%</title>" in page  # c has no third epoch
    assert "epoch 2\nA a: 50%\nC c: 70%" in page
    assert "&lt;b&gt;" in page
    assert "<b>:" not in page
    assert ["the lowest" in card for card in page.split("<article")[1:]] == [True, False, False]
    assert page.count('<tr class="differs">') == 1


def test_page_of_many_runs_has_a_name_that_a_disk_takes(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"{number}-{'学' * 8}", ()) for number in range(12)]
    assert main(["compare", *map(str, runs)]) == 0
    assert (tmp_path / f"compare-{runs[0].name}-and-11-more.html").exists()


def test_runs_without_epochs_are_compared_by_their_settings(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("a", (), epochs=3), make_run("b", ())]
    html = tmp_path / "pages" / "ab.html"
    assert main(["compare", *map(str, runs), "--html", str(html)]) == 0
    page = html.read_text(encoding="utf-8")
    assert "<figure" not in page
    assert "the lowest" not in page


def test_settings_missing_in_an_old_run_have_their_defaults(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = make_run("old"), make_run("new", keep_best=2)
    kept = [
        line for line in (old / "config.toml").read_text().splitlines() if not line.startswith("keep_best")
    ]
    (old / "config.toml").write_text("\n".join(kept), encoding="utf-8")
    assert main(["compare", str(old), str(new)]) == 0
    assert table_of(capsys.readouterr().out, "settings that differ") == {"train.keep_best": ["5", "2"]}


def test_compare_shows_an_average_with_its_dev_error(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    average = make_run("average", ())
    origin = {"run": str(tmp_path / "a"), "epochs": [1, 2], "dev_error": 0.25}
    (average / "average.json").write_text(json.dumps(origin), encoding="utf-8")
    assert main(["compare", str(make_run("a")), str(average)]) == 0
    results = table_of(capsys.readouterr().out, "results")
    assert results["epochs"] == ["2 of 40", "average of 2"]
    assert results["best dev error"] == ["50.0%", "25.0%"]
    page = (tmp_path / "compare-a-average.html").read_text(encoding="utf-8")
    assert "best dev token error rate, the lowest of these runs; average of 2 epochs" in page


def test_compared_runs_of_one_name_are_distinguished_by_folder(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("x/demo"), make_run("y/demo")]
    html = tmp_path / "page.html"
    assert main(["compare", *map(str, runs), "--html", str(html)]) == 0
    page = html.read_text(encoding="utf-8")
    assert "x/demo and y/demo" in page


@pytest.mark.parametrize("other", ["a", "a/", "../{parent}/a", "link"])
def test_comparing_a_run_with_itself_is_refused(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    run = make_run("a")
    (tmp_path / "link").symlink_to(run)
    again = tmp_path / other.format(parent=tmp_path.name)
    assert "name each run once" in error_of(capsys, run, again)
    assert not list(tmp_path.glob("*.html"))


def test_comparing_something_that_is_not_a_run_is_refused(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("a")
    assert f"{tmp_path / 'nothing'}: no run here" in error_of(capsys, run, tmp_path / "nothing")
    assert "expected 2 to 26 runs" in error_of(capsys, run)
    (run / "metrics.jsonl").write_text("{", encoding="utf-8")
    assert "metrics.jsonl: damaged" in error_of(capsys, run, make_run("b"))


@pytest.mark.parametrize("name", ["metrics.jsonl", "report.html"])
def test_compare_never_overwrites_a_runs_own_files(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    runs = [make_run("a"), make_run("b")]
    (runs[1] / name).touch()
    before = (runs[1] / name).read_bytes()
    assert "expected an .html file outside the run" in error_of(capsys, *runs, "--html", runs[1] / name)
    assert (runs[1] / name).read_bytes() == before


def test_compare_does_not_import_tensorflow(make_run: MakeRun) -> None:
    arguments = ["compare", str(make_run("a")), str(make_run("b"))]
    program = (
        "import sys; from asr.cli.main import main\n"
        f"assert main({arguments!r}) == 0\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
