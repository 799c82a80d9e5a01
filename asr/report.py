"""What a model made of a set, and how it came to that, as one HTML page that needs nothing else.

    write_report(run.report_path, run_name="demo", set_name="test", evaluation=evaluation,
                 metrics=run.metrics(), config_toml=dump_config(config))

The page's elements and style are in `asr/page.py`, its curves in `asr/charts.py`, the sections
that show single tokens and utterances in `asr/report_utterances.py`.
"""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from asr import __version__
from asr.charts import Line, line_chart
from asr.files import whole_file
from asr.metrics import align, count_edits, part_errors, total_edits, unit_of, without_tones
from asr.page import duration, element, folded, page, percent, section, short_number, short_percent, table
from asr.report_utterances import EDITS, Scored, confusions, edit_key, right_utterances, worst_utterances
from asr.run import EpochMetrics
from asr.types import EditCounts

NUM_SPEAKERS = 30
LENGTH_EDGES_S = (1, 2, 3, 5, 10, 20)

if TYPE_CHECKING:
    from asr.evaluate import Evaluation  # loads TensorFlow


def write_report(
    path: Path,
    *,
    run_name: str,
    set_name: str,
    evaluation: Evaluation,
    metrics: Sequence[EpochMetrics] = (),
    config_toml: str = "",
    written: datetime | None = None,
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; its folder is made.
        run_name: the page's heading.
        set_name: what was evaluated, such as "test".
        evaluation: of the run's best checkpoint.
        metrics: of every epoch; none for a bare evaluation.
        config_toml: the resolved configuration.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    scored = [
        Scored(utterance, hypothesis, align(*tokens), count_edits(*tokens))
        for utterance, hypothesis in zip(evaluation.utterances, evaluation.hypotheses, strict=True)
        for tokens in [(utterance.tokens, hypothesis.tokens)]
    ]
    unit = unit_of(evaluation.utterances)
    sections = [
        header(run_name, set_name, unit, evaluation, scored, metrics),
        *learning_curves(metrics),
        error_rates(unit, evaluation.edits, scored),
        *confusions(scored),
        *worst_utterances(unit, scored),
        *right_utterances(scored),
        *configuration(config_toml),
        footer(written or datetime.now()),
    ]
    title = f"{percent(evaluation.edits.rate)} on {set_name} · {run_name}"
    with whole_file(path, "report") as file:
        # a manifest's JSON can hold half of a surrogate pair, which has no UTF-8
        file.write(page(title, sections).encode(errors="xmlcharrefreplace"))


def header(
    run_name: str,
    set_name: str,
    unit: str,
    evaluation: Evaluation,
    scored: Sequence[Scored],
    metrics: Sequence[EpochMetrics],
) -> Element:
    """The run's name, its one figure, and what stands behind it."""
    edits, right = evaluation.edits, sum(s.edits.errors == 0 for s in scored)
    speakers = {s.utterance.speaker for s in scored if s.utterance.speaker}
    facts = {
        "entirely right": f"{right:,} of {len(scored):,} ({percent(right / max(1, len(scored)))})",
        "utterances": f"{len(scored):,}",
        f"{unit}s": f"{edits.reference_length:,}",
        "speakers": f"{len(speakers):,}" if speakers else "unknown",
        "audio": duration(sum(s.utterance.duration_s for s in scored)),
        "CTC loss": f"{evaluation.loss:.2f} per utterance",
    }
    if metrics:
        speed = statistics.harmonic_mean([epoch.audio_s_per_s for epoch in metrics])
        facts |= {
            "best epoch": f"{best_of(metrics).epoch} of {metrics[-1].epoch}",
            "training": duration(metrics[-1].train_s),
            "throughput": f"{speed:,.0f}× real time",
        }
    figure = element(
        "p",
        element("strong", percent(edits.rate), class_="headline"),
        element("span", f"{unit} error rate on ", element("b", set_name)),
    )
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    hero = element("div", figure, element("dl", *pairs), class_="hero")
    return element("header", element("h1", run_name), hero, composition(edits))


def composition(edits: EditCounts) -> Element:
    """A strip of all tokens that were said, by what became of them, and of those heard beside."""
    counts = {
        "equal": edits.reference_length - edits.substitutions - edits.deletions,
        "substitution": edits.substitutions,
        "deletion": edits.deletions,
        "insertion": edits.insertions,
    }
    parts = [
        element("span", EDITS[kind][0], class_=kind, style=f"flex-grow:{count}")
        for kind, count in counts.items()
        if count
    ]
    key = edit_key({kind: f"{count:,} {EDITS[kind][1]}" for kind, count in counts.items()})
    return element("div", element("div", *parts, class_="strip"), key)


def learning_curves(metrics: Sequence[EpochMetrics]) -> list[Element]:
    """Errors, loss and learning rate over epochs, and the same as a table."""
    if not metrics:
        return []
    epochs, best = [m.epoch for m in metrics], best_of(metrics).epoch
    errors = [
        Line("training", "train", [m.train_error for m in metrics]),
        Line("dev", "dev", [m.dev_error for m in metrics]),
    ]
    losses = [
        Line("training", "train", [m.loss for m in metrics]),
        Line("dev", "dev", [m.dev_loss for m in metrics]),
    ]
    rates = [Line("learning rate", "rate", [m.learning_rate for m in metrics])]
    charts = [
        line_chart("Error rate", "errors per token", epochs, errors, show=short_percent, best_epoch=best),
        line_chart("Loss", "CTC loss per utterance", epochs, losses, show=short_number, best_epoch=best),
        line_chart(
            "Learning rate",
            "at the end of an epoch",
            epochs,
            rates,
            show=short_number,
            width=240,
            may_be_logarithmic=False,
        ),
    ]
    note = "Training figures are met in training, augmentation and dropout on; point at an epoch to read it."
    drawn = element("div", *charts, class_="charts")
    return [section("Learning curves", note, drawn, folded("Every epoch", epoch_table(metrics)))]


def epoch_table(metrics: Sequence[EpochMetrics]) -> Element:
    """What the curves draw, in figures."""
    best = best_of(metrics).epoch
    headings = ("epoch", "training errors", "dev errors", "training loss", "dev loss", "learning rate")
    rows = [
        [
            f"{m.epoch} (best)" if m.epoch == best else str(m.epoch),
            *map(percent, (m.train_error, m.dev_error)),
            *(f"{loss:.3f}" for loss in (m.loss, m.dev_loss)),
            f"{m.learning_rate:.2e}",
            f"{m.audio_s_per_s:,.0f}",
            duration(m.train_s),
        ]
        for m in metrics
    ]
    return table([*headings, "audio s/s", "trained for"], rows)


def error_rates(unit: str, edits: EditCounts, scored: Sequence[Scored]) -> Element:
    """Of all tokens, of their parts and of sentences; by speaker and by length of clip."""
    rows: list[list[str | float]] = [[f"{unit}s", *edit_cells(edits)]]
    note = ""
    if unit == "syllable":
        toneless = total_edits(
            (without_tones(s.utterance.tokens), without_tones(s.hypothesis.tokens)) for s in scored
        )
        rows.append(["syllables without their tones", *edit_cells(toneless)])
        parts = part_errors(pair for s in scored for pair in s.pairs)
        for name, count in zip(("initials", "finals", "tones"), parts, strict=True):
            cells = edit_cells(EditCounts(count, reference_length=edits.reference_length))
            rows.append([f"{name} of substituted syllables", *cells[:3], "", "", cells[-1]])
        note = "A substituted syllable can differ in its initial, its final and its tone, and counts in each."
    num_wrong = sum(s.edits.errors > 0 for s in scored)
    rate = num_wrong / len(scored) if scored else 0.0
    rows.append(["sentences with an error", rate, f"{num_wrong:,}", "", "", "", f"{len(scored):,}"])
    headings = ("", "error rate", "errors", "substitutions", "insertions", "deletions", "out of")
    speakers = grouped(scored, lambda s: s.utterance.speaker or "unknown")
    lengths = grouped(
        sorted(scored, key=lambda s: s.utterance.duration_s), lambda s: length_bin(s.utterance.duration_s)
    )
    columns = element("div", class_="columns")
    if set(speakers) != {"unknown"}:
        worst_first = sorted(speakers.items(), key=lambda item: summed(item[1]).rate, reverse=True)
        columns.append(group_table("speaker", unit, dict(worst_first)))
    columns.append(group_table("length of clip", unit, lengths))
    return section("Error rates", note, table(headings, rows), columns)


def edit_cells(edits: EditCounts) -> list[str | float]:
    """Rate and counts."""
    counts = (edits.errors, edits.substitutions, edits.insertions, edits.deletions, edits.reference_length)
    return [edits.rate, *(f"{count:,}" for count in counts)]


def group_table(title: str, unit: str, groups: Mapping[str, Sequence[Scored]]) -> Element:
    """Error rates of groups of utterances, in the order given; the tail of a long table is folded."""
    headings = (title, "error rate", f"{unit}s", "entirely right")
    rows: list[list[str | float]] = []
    for name, members in groups.items():
        edits, num_right = summed(members), sum(not s.edits.errors for s in members)
        rows.append([name, edits.rate, f"{edits.reference_length:,}", f"{num_right:,} of {len(members):,}"])
    shown, rest = rows[:NUM_SPEAKERS], rows[NUM_SPEAKERS:]
    more = [folded(f"{len(rest):,} more", table(headings, rest))] if rest else []
    return element("div", table(headings, shown), *more)


def grouped(scored: Iterable[Scored], key: Callable[[Scored], str]) -> dict[str, list[Scored]]:
    """Utterances by a key, keys in the order they come up."""
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(key(one), []).append(one)
    return groups


def summed(scored: Iterable[Scored]) -> EditCounts:
    """Edits of them all."""
    return sum((s.edits for s in scored), EditCounts())


def length_bin(duration_s: float) -> str:
    """Which of a few ranges of seconds a clip falls in; an upper edge belongs to its range."""
    place = bisect.bisect_left(LENGTH_EDGES_S, duration_s)
    if place == 0:
        return f"up to {LENGTH_EDGES_S[0]} s"
    if place == len(LENGTH_EDGES_S):
        return f"over {LENGTH_EDGES_S[-1]} s"
    return f"{LENGTH_EDGES_S[place - 1]} to {LENGTH_EDGES_S[place]} s"


def configuration(config_toml: str) -> list[Element]:
    """The run's settings, folded."""
    if not config_toml:
        return []
    return [section("Configuration", "", folded("Every setting of this run", element("pre", config_toml)))]


def footer(written: datetime) -> Element:
    """When this was written, and by what."""
    return element("footer", f"Written by Polyphone {__version__} on {written:%Y-%m-%d at %H:%M}.")


def best_of(metrics: Sequence[EpochMetrics]) -> EpochMetrics:
    """The epoch whose weights were kept as the best."""
    return [epoch for epoch in metrics if epoch.best][-1]
