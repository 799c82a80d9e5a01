"""Writes HTML pages: Jinja2 templates filled with values, the stylesheet within.

    write_page(path, "asr.report", "run_comparison.html", runs=runs)

Templates are in the folder `templates` of the package that shows the values; they extend `page.html` and call
the macros of `parts.html`, both in `asr/pages/templates`. A page loads nothing from elsewhere and runs no
script. Every value is escaped.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from asr.base.files import whole_file
from asr.base.version import __version__
from asr.base.wording import counted, duration, percent, visible

BAR_EM = 5.0  # width of a table's longest bar


@dataclass(frozen=True)
class Table:
    """Headings and rows of a table.

    Attributes:
        headings: of the columns.
        rows: as many cells each; the first one names the row. A float is a rate, shown in percent beside a
            bar that the table's highest rate fills.
        kind: "words" to align text on the left, where numbers would align on the right.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | float]]
    kind: str = ""

    @functools.cached_property
    def highest(self) -> float:
        """The highest rate, 1 at most."""
        rates = [cell for row in self.rows for cell in row if isinstance(cell, float)]
        return max((min(rate, 1.0) for rate in rates), default=0.0)

    def bar_em(self, rate: float) -> float:
        """Return the width of a rate's bar."""
        return BAR_EM * min(rate, 1.0) / self.highest if self.highest else 0.0


def write_page(
    path: Path, package: str, template: str, *, written: datetime | None = None, **values: object
) -> None:
    """Write a page, whole or not at all.

    Args:
        path: of the HTML file; its folder is made.
        package: that holds the template, such as "asr.report".
        template: its file name in the package's folder `templates`.
        written: the date on the page; now by default.
        values: that the template shows.

    Raises:
        UserError: the file cannot be written.
    """
    text = render(package, template, written=written or datetime.now(), **values)
    with whole_file(path, "page") as file:
        # a manifest's JSON can hold half of a surrogate pair, which has no UTF-8
        file.write(text.encode(errors="xmlcharrefreplace"))


def render(package: str, template: str, **values: object) -> str:
    """Return a template of a package, filled with values."""
    return _environment(package).get_template(template).render(values)


@functools.cache
def _environment(package: str) -> Environment:
    shared = PackageLoader("asr.pages")
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), shared]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "counted": counted,
        "duration": duration,
        "percent": percent,
        "svg": _svg,
        "thousands": "{:,}".format,
        "visible": visible,
    }
    environment.globals |= {
        "version": __version__,
        "stylesheet": Markup(shared.get_source(environment, "style.css")[0]),
    }
    return environment


def _svg(drawn: Element) -> Markup:
    """Return a chart's SVG as markup; the serializer has escaped its text."""
    return Markup(tostring(drawn, encoding="unicode", method="html"))
