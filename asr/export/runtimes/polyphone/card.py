"""Write what a person wants to know of a model file: where it is from, its licence, its errors, its use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asr.base.text.wording import percent

NOT_STATED = "not stated"
RECOGNIZE = """\
asr transcribe {name}.polyphone question.mp3
"""
USE = """\
## Use

```sh
{recognize}python train.py mine.toml --name mine --set train.init_from={name}.polyphone
```
"""
TUNE_ALONE = """\
These weights are a start for fine-tuning; they do not recognize speech well enough as they are.
"""


def card_of(name: str, about: Mapping[str, Any], text: str) -> str:
    """Return the card of a model file in Markdown.

    Args:
        name: of the file, without its suffix.
        about: what `model.json` says.
        text: what the publisher says.
    """
    lines = [f"# {name}", ""]
    if not about["recognizes"]:
        lines += [TUNE_ALONE]
    lines += [f"- {key}: {value}" for key, value in _facts(about)]
    if rates := about["error_rates"]:
        lines += ["", "## Errors", "", "With 95 % intervals.", "", *_table(rates)]
    recognize = RECOGNIZE.format(name=name) if about["recognizes"] else ""
    lines += ["", USE.format(name=name, recognize=recognize)]
    return "\n".join(lines) + (f"\n{text.strip()}\n" if text.strip() else "")


def text_of(path: Path) -> str:
    """Return what the publisher says in a card; "" if there is none."""
    card = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    _, _, use = card.partition("\n## Use\n")
    return use.partition("\n```\n")[2].strip()


def _facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    parity = about["parity"]
    facts = [
        ("licence of the weights", about["licence"] or NOT_STATED),
        ("trained on", ", ".join(about["corpora"]) or NOT_STATED),
        *([("from the weights", about["init_from"])] if about["init_from"] else []),
        ("network", f"{about['model']['family']}, {about['num_parameters']:,} parameters"),
        ("outputs", f"{about['num_tokens'] - 1:,} {about['unit']}"),
        ("made by", f"Polyphone {about['polyphone']}, run {about['run']}, {about['checkpoint']}"),
        ("SHA-256 of the weights", about["weights_sha256"]),
    ]
    if about["quantize"]:
        cost = parity["error_rate_exported"] - parity["error_rate_trained"]
        facts.append(
            (
                f"cost of {about['quantize']}",
                f"{100 * cost:+.2f} points of the {parity['token']} error rate on {parity['manifest']}, "
                f"{parity['clips_with_same_tokens']} of {parity['clips']} clips the same",
            )
        )
    return facts


def _table(rates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of error rates with their intervals: a set has a row, a unit a column."""
    units = list(dict.fromkeys(rate["unit"] for rate in rates))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for rate in rates:
        low, high = (percent(bound) for bound in rate["interval"])
        row = rows.setdefault((rate["set"], rate["decoder"], format(rate["utterances"], ",")), {})
        row[rate["unit"]] = f"{percent(rate['rate'])} ({low} to {high})"
    lines = [["set", "decoder", "utterances", *units], ["---"] * (3 + len(units))]
    lines += [[*key, *(row.get(unit, "") for unit in units)] for key, row in rows.items()]
    return [f"| {' | '.join(line)} |" for line in lines]
