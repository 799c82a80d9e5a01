"""Write HTML pages: Jinja2 templates filled with values, with the stylesheet inlined.

    write_page(path, "asr.report", "run_comparison.html", runs=runs)

Templates are in the folder `templates` of the package whose values they show; they extend `page.html` and
call the macros of `parts.html`, both in `asr/pages/templates`. A page loads no other files. It is
complete, in English, without JavaScript, which shows it in Chinese (`languages.py`). Every value is escaped.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from asr.base.system.files import whole_file
from asr.base.text.wording import counted, duration, percent, visible
from asr.base.version import __version__
from asr.pages.languages import first_language, words_of

HEAD_BYTES = 1000  # of a page, with its generator
BAR_EM = 5.0  # width of the longest bar of a table


@dataclass(frozen=True)
class Table:
    """The headings and rows of a table.

    Attributes:
        headings: one for each column.
        rows: one cell for each column; the first one names the row. A float is a rate, shown in percent
            beside a bar, whose full width is the table's highest rate.
        kind: "words" to align cells on the left, for text; numbers are aligned on the right.
        names: the columns whose cells are names, the same in every language, such as tokens.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | float]]
    kind: str = ""
    names: Sequence[int] = ()

    @functools.cached_property
    def highest(self) -> float:
        """Return the highest rate, at most 1."""
        rates = [cell for row in self.rows for cell in row if isinstance(cell, float)]
        return max((min(rate, 1.0) for rate in rates), default=0.0)

    def bar_em(self, rate: float) -> float:
        """Return the width of a rate's bar in em."""
        return BAR_EM * min(rate, 1.0) / self.highest if self.highest else 0.0


def write_page(
    path: Path, package: str, template: str, *, written: datetime | None = None, **values: object
) -> None:
    """Write a page, completely or not at all.

    Args:
        path: of the HTML file, whose folder is created.
        package: package of the template, such as "asr.report".
        template: file name in the package's folder `templates`.
        written: date shown on the page; the present by default.
        values: variables of the template.

    Raises:
        UserError: the file cannot be written.
    """
    text = _with_words(_with_contents(render(package, template, written=written or datetime.now(), **values)))
    with whole_file(path, "page") as file:
        # JSON can contain lone surrogates, which UTF-8 cannot encode
        file.write(text.encode(errors="xmlcharrefreplace"))


def _with_contents(html: str) -> str:
    """Give each section an address, and let the page begin with links to them."""
    headings, addresses = re.compile("<h2( translate=no)?>(.*?)</h2>"), Counter[str]()
    links = []

    def with_address(heading: re.Match[str]) -> str:
        attribute, title = heading[1] or "", heading[2]
        address = re.sub(r"\W+", "-", unescape(title).lower()).strip("-")
        addresses[address] += 1
        if addresses[address] > 1:
            address += f"-{addresses[address]}"
        links.append(f'<a href="#{address}"{attribute}>{title}</a>')
        return f'<h2 id="{address}"{attribute}>{title}</h2>'

    html = headings.sub(with_address, html)
    # values are escaped, so that the mark is the template's
    return html.replace('<div id="contents"></div>', f'<div id="contents">{"".join(links)}</div>', 1)


def _with_words(html: str) -> str:
    """Add the Chinese of the page's texts, for `templates/language.js`."""
    words = json.dumps(words_of(html), ensure_ascii=False).replace("<", "\\u003c")
    empty = '<script type="application/json" id="words"></script>'
    return html.replace(empty, empty.replace("><", f">{words}<"), 1)


def is_page(path: Path, template: str) -> bool:
    """Return whether a file is a page that `write_page` wrote from a template."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return f'<meta name="generator" content="{_generator(template)}">'.encode() in head


def _generator(template: str) -> str:
    """Return what a page says of the program that wrote it."""
    return f"Polyphone, {template}"


def render(package: str, template: str, **values: object) -> str:
    """Return a template of a package rendered with values."""
    own = {"generator": _generator(template), "language": first_language()}
    return _environment(package).get_template(template).render(values, **own)


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
        "language_script": Markup(shared.get_source(environment, "language.js")[0]),
        "stylesheet": Markup(shared.get_source(environment, "style.css")[0]),
    }
    return environment


def _svg(drawn: Element) -> Markup:
    """Return a chart's SVG as markup; the serializer has escaped its text."""
    return Markup(tostring(drawn, encoding="unicode", method="html"))
