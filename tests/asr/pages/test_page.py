from __future__ import annotations

import fnmatch
import math
import re
import subprocess
import sys
import tomllib
from datetime import datetime
from html.parser import HTMLParser

import pytest
from helpers import ROOT
from jinja2 import UndefinedError

from asr.base.errors import UserError
from asr.pages.charts import ChartLine, Quantity, line_chart
from asr.pages.page import Table, render, write_page

NASTY = "</style><script>alert('&')</script>\"<!--"
PACKAGE = "package_of_a_test"


class Page(HTMLParser):
    """Collects the tags of a page, and its text outside the stylesheet."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def template(tmp_path, monkeypatch):
    """Return a function that makes a template of a package of its own, whose name it returns."""
    folder = tmp_path / PACKAGE
    (folder / "templates").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(range(10))

    def make(body: str) -> str:
        name = f"{next(names)}{tmp_path.name}.html"  # environments are kept from test to test
        (folder / "templates" / name).write_text(body, encoding="utf-8")
        return name

    yield make
    sys.modules.pop(PACKAGE)
    render.__globals__["_environment"].cache_clear()


def whole(title: str, sections: str) -> str:
    return (
        '{% extends "page.html" %}{% import "parts.html" as parts %}'
        f"{{% block title %}}{title}{{% endblock %}}{{% block header %}}{{% endblock %}}"
        f"{{% block sections %}}{sections}{{% endblock %}}"
    )


def test_every_value_of_a_page_is_escaped(template):
    chart = line_chart(
        NASTY, Quantity(NASTY, str), [1, 2], [ChartLine(NASTY, "dev", [1.0, 2.0])] * 2, x_label=NASTY
    )
    table = Table([NASTY], [[NASTY, NASTY]])
    body = whole(
        "{{ nasty }}",
        "{% set note %}{{ nasty }}{% endset %}"
        "{% call parts.section(nasty, note) %}{{ parts.table(table) }}{{ parts.charts([chart]) }}"
        "{% call parts.folded(nasty ~ 1) %}"
        '<p class="{{ nasty }}">{{ [nasty, nasty] | join(nasty) }}</p>{% endcall %}'
        "{% endcall %}{{ parts.key_figures([(nasty, nasty)], {nasty: nasty}) }}",
    )
    values = {"nasty": NASTY, "chart": chart, "table": table, "written": datetime(2026, 1, 2)}
    html = render(PACKAGE, template(body), **values)
    page = Page(html)
    assert page.tags.count("style") == 1
    assert page.tags.count("script") == 2  # the table of words and what shows it
    assert page.text.count(NASTY) > 12
    assert "&lt;" not in page.text  # nothing is escaped twice


def test_the_stylesheet_is_inlined_unchanged(template):
    css = (ROOT / "asr/pages/templates/style.css").read_text(encoding="utf-8")
    html = render(PACKAGE, template(whole("t", "")), written=datetime(2026, 1, 2))
    assert css in html


def test_a_missing_value_of_a_template_is_an_error(template):
    with pytest.raises(UndefinedError, match="missing"):
        render(PACKAGE, template("{{ missing }}"))


def test_a_lone_surrogate_is_written_as_a_character_reference(template, tmp_path):
    write_page(tmp_path / "new" / "page.html", PACKAGE, template("<p>{{ text }}</p>"), text="a\ud800<")
    assert (tmp_path / "new" / "page.html").read_bytes() == b"<p>a&#55296;&lt;</p>"


def test_a_page_that_fails_keeps_the_previous_one(template, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before", encoding="utf-8")
    with pytest.raises(UndefinedError):
        write_page(path, PACKAGE, template("{{ missing }}"))
    assert path.read_text(encoding="utf-8") == "before"
    with pytest.raises(UserError, match="page"):
        write_page(path / "below.html", PACKAGE, template(""))


def test_bar_widths_are_proportional_to_rates(template):
    table = Table(["name", "rate"], [["a", 0.4], ["b", 0.2], ["c", math.inf], ["none", 0.0]])
    a, b, infinite, none = (table.bar_em(rate) for _, rate in table.rows if isinstance(rate, float))
    assert infinite > a == pytest.approx(2 * b)
    assert none == 0
    assert Table(["name", "rate"], [["none", 0.0]]).bar_em(0.0) == 0
    html = render(
        PACKAGE, template('{% import "parts.html" as parts %}{{ parts.table(table) }}'), table=table
    )
    assert f'style="width:{a:.2f}em"></i>40.0%</td>' in html


def templates():
    found = [path for package in ("asr", "data_pipeline") for path in (ROOT / package).rglob("templates/*")]
    return [path for path in found if path.is_file()]  # some are modules, which may have been compiled


def test_no_template_switches_escaping_off():
    for path in templates():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), path


def test_every_template_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    package_data = settings["tool"]["setuptools"]["package-data"]
    files = templates()
    assert len(files) > 10
    for path in files:
        package = ".".join(path.parents[1].relative_to(ROOT).parts)
        globs = [*package_data.get(package, []), *package_data.get("*", [])]
        assert any(fnmatch.fnmatch(f"templates/{path.name}", glob) for glob in globs), path


def test_commands_that_write_no_page_load_no_template_engine():
    program = (
        "import sys\n"
        "import asr.cli.main, asr.pages.charts, asr.pages.histogram\n"
        "assert not {'jinja2', 'markupsafe'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
