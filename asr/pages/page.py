"""The HTML of a page: elements, sections, tables and the style sheet.

No script, no library, nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from asr.base.wording import percent


def element(name: str, /, *children: Element | str, **attributes: object) -> Element:
    """An element of HTML or SVG; strings are text, which the serializer escapes.

    Args:
        name: of the tag.
        children: what it holds, in order.
        attributes: `class_` stands for class, `text_anchor` for text-anchor.
    """
    node = Element(name, {key.rstrip("_").replace("_", "-"): str(v) for key, v in attributes.items()})
    for child in children:
        if not isinstance(child, str):
            node.append(child)
        elif len(node):
            node[-1].tail = (node[-1].tail or "") + child
        else:
            node.text = (node.text or "") + child
    return node


def page(title: str, sections: Iterable[Element]) -> str:
    """A whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", CSS),
    )
    html = element("html", head, element("body", element("main", *sections)), lang="en")
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def section(title: str, note: str, *children: Element) -> Element:
    """A part of the page under its heading."""
    notes = [element("p", note, class_="note")] if note else []
    return element("section", element("h2", title), *notes, *children)


def folded(summary: str, child: Element) -> Element:
    """What opens on a click."""
    return element("details", element("summary", summary), child)


def table(headings: Sequence[str], rows: Sequence[Sequence[str | float]], kind: str = "") -> Element:
    """A table; a float is a rate, shown in percent beside a bar that the table's highest rate fills.

    Args:
        headings: of the columns.
        rows: as many cells each; the first one names the row.
        kind: "words" to align text on the left, where numbers would align on the right.
    """
    highest = max((min(cell, 1.0) for row in rows for cell in row if isinstance(cell, float)), default=0.0)
    body = element("tbody")
    for name, *cells in rows:
        row = element("tr", element("th", str(name), scope="row"))
        for cell in cells:
            if isinstance(cell, float):
                width = 100 * min(cell, 1.0) / highest if highest else 0.0
                bar = element("i", class_="bar", style=f"width:{width / 20:.2f}em")
                row.append(element("td", bar, percent(cell), class_="rate"))
            else:
                row.append(element("td", cell))
        body.append(row)
    head = element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings)))
    return element("div", element("table", head, body), class_=f"scroll {kind}".strip())


CSS = """
:root { --paper: #faf9f6; --card: #fff; --ink: #1c1e22; --muted: #676c75; --rule: #e3e0d9;
  --train: #b86a1f; --dev: #1f5fbf; --right: #d5dcd3; --right-ink: #2f3b2d;
  --sub: #8a5200; --sub-back: #fdeecf; --del: #a8123c; --del-back: #fbe0e6;
  --ins: #1b4fae; --ins-back: #dfeafb;
  --r1: #1f5fbf; --r2: #c4511a; --r3: #16805d; --r4: #8a3ab0; --r5: #8f6c00; --r6: #c2266b; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14161a; --card: #1c1f24; --ink: #e9e6e0; --muted: #9ba1ab; --rule: #343840;
    --train: #e5a55b; --dev: #7db0ff; --right: #333d34; --right-ink: #cfdacb;
    --sub: #ffd08a; --sub-back: #4b3511; --del: #ff9fb4; --del-back: #54202d;
    --ins: #a6c8ff; --ins-back: #1f3862;
    --r1: #7db0ff; --r2: #ff9e6b; --r3: #5fd0a5; --r4: #cf9bf2; --r5: #e0c04f; --r6: #ff8fbb; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100%;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC",
    "Microsoft YaHei", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { margin: 0; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
h2 { margin: 3rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--rule); font-size: 1.25rem; }
p { margin: .5rem 0; }
.note, small, footer { color: var(--muted); font-size: .875rem; }
.hero { display: grid; grid-template-columns: auto 1fr; gap: 1rem 3.5rem; align-items: center;
  margin: 1rem 0 1.5rem; }
.headline { display: block; font-size: clamp(3.75rem, 12vw, 6.5rem); font-weight: 700; line-height: 1.05;
  letter-spacing: -.04em; }
.hero p { margin: 0; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .9rem 1.5rem;
  margin: 0; }
dt { color: var(--muted); font-size: .8125rem; }
dd { margin: 0; font-weight: 600; }
.strip { display: flex; gap: 2px; height: 1.75rem; border-radius: 6px; overflow: hidden; }
.strip span { flex-basis: 1.25rem; min-width: 0; font-size: .8125rem; font-weight: 700; line-height: 1.75rem;
  text-align: center; }
.key-entry { display: inline-block; margin-right: 1.25rem; font-size: .875rem; color: var(--muted); }
.key-entry i { display: inline-block; min-width: 1.35em; border-radius: 3px; font-style: normal;
  font-weight: 700; text-align: center; }
.key-entry i:empty::before { content: "\\00a0"; }
span.equal, i.equal { background: var(--right); color: var(--right-ink); }
span.substitution, i.substitution { background: var(--sub-back); color: var(--sub); }
span.deletion, i.deletion { background: var(--del-back); color: var(--del); }
span.insertion, i.insertion { background: var(--ins-back); color: var(--ins); }
.charts { display: flex; flex-wrap: wrap; gap: 1.25rem; margin-bottom: 1rem; }
figure { flex: var(--width) 1 calc(var(--width) * .7px); min-width: 0; max-width: calc(var(--width) * 1.1px);
  margin: 0; padding: .75rem .75rem .5rem; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin-bottom: .4rem; font-size: .875rem; }
.key::before { content: ""; display: inline-block; width: 1.4em; margin-right: .4em; vertical-align: .25em;
  border-top: 2.5px solid var(--dev); }
.key.train::before { border-top: 2.5px dashed var(--train); }
.key.rate::before { border-top-color: var(--muted); }
.key.device::before, .key.waiting::before, .key.evaluation::before { width: .8em; border-top-width: .8em;
  vertical-align: -.05em; border-radius: 2px; }
.key.device::before { border-top-color: var(--r3); }
.key.waiting::before { border-top-color: var(--r2); }
.key.evaluation::before { border-top-color: var(--muted); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--ink); font-size: 11.5px; }
svg text.label { fill: var(--muted); }
svg polyline { fill: none; stroke: var(--dev); stroke-width: 2.25; stroke-linejoin: round; }
svg polyline.train { stroke: var(--train); stroke-dasharray: 5 3.5; }
svg polyline.rate { stroke: var(--muted); }
svg circle { fill: var(--dev); }
svg circle.train { fill: var(--train); }
svg circle.rate { fill: var(--muted); }
svg circle.best { fill: var(--card); stroke: var(--dev); stroke-width: 2.5; }
svg .device { fill: var(--r3); fill-opacity: .75; }
svg .waiting { fill: var(--r2); }
svg .evaluation { fill: var(--muted); fill-opacity: .6; }
.r1 { --run: var(--r1); }
.r2 { --run: var(--r2); --dash: 7 3; }
.r3 { --run: var(--r3); --dash: 2.5 2.5; }
.r4 { --run: var(--r4); --dash: 10 3 2 3; }
.r5 { --run: var(--r5); --dash: 14 4; }
.r6 { --run: var(--r6); --dash: 5 2 1 2 1 2; }
svg polyline.run { stroke: var(--run); stroke-dasharray: var(--dash); stroke-width: 2; }
svg circle.run { fill: var(--run); }
svg circle.ring { fill: var(--card); stroke: var(--run); stroke-width: 2; }
svg text.end { fill: var(--run); font-weight: 700; }
svg .grid { stroke: var(--rule); }
svg .axis { stroke: var(--muted); }
svg line.best { stroke: var(--muted); stroke-dasharray: 2 3; }
svg text.best { font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
svg .tip { fill: transparent; }
svg .tip:hover { fill: var(--muted); fill-opacity: .13; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; }
.scroll table { width: 100%; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; }
th:first-child, .words th, .words td { text-align: left; }
td:last-child, thead th:last-child { padding-right: 0; }
thead th { color: var(--muted); font-size: .8125rem; font-weight: 500; white-space: normal;
  vertical-align: bottom; }
tbody th { min-width: 6rem; font-weight: 500; white-space: normal; }
.bar { display: inline-block; height: .7em; margin-right: .5em; border-radius: 2px; background: var(--dev);
  opacity: .55; }
.columns { display: flex; flex-wrap: wrap; gap: 1.5rem 3rem; margin-top: 1.75rem; align-items: start; }
.columns > * { flex: 1 1 20rem; min-width: 0; }
.columns > .words { flex: 1 1 11rem; }
.columns > .words:first-child { flex: 2.2 1 20rem; }
.columns table { font-size: .875rem; }
.columns th, .columns td { padding-right: .6rem; }
.columns td:last-child, .columns thead th:last-child { padding-right: 0; }
.columns.thirds > .words, .columns.thirds > .words:first-child { flex: 1 1 15rem; }
.columns.thirds .bar { display: none; }
.spaced { margin-top: 1.75rem; }
.told td:not(.rate) { white-space: normal; }
.told td:nth-child(4) { min-width: 9.5rem; }
.told td:last-child { min-width: 16rem; color: var(--muted); font-size: .875rem; }
.scroll .matrix { width: auto; }
.matrix th, .matrix td { padding: .35rem .7rem; }
.matrix .heat { border-left: 1px solid var(--rule);
  background: color-mix(in srgb, var(--shade) calc(var(--share) * 100%), transparent); }
.matrix .heat.right { --shade: var(--right); }
.matrix .heat.wrong { --shade: color-mix(in srgb, var(--sub) 60%, var(--sub-back)); }
.matrix .heat.lost { --shade: color-mix(in srgb, var(--del) 60%, var(--del-back)); }
.suggestion b { color: var(--ink); }
audio { display: block; width: 100%; height: 2.25rem; margin-top: .5rem; }
details { margin-top: .75rem; }
summary { color: var(--dev); cursor: pointer; }
pre { margin: .5rem 0; padding: 1rem; overflow-x: auto; background: var(--card);
  border: 1px solid var(--rule); border-radius: 10px; font-size: .8125rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: .75rem;
  margin-top: .75rem; }
.wide { grid-column: 1 / -1; }
article { padding: .9rem 1.1rem; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; overflow-wrap: anywhere; }
article p { color: var(--muted); }
h3 { margin: 0; font-size: 1.0625rem; font-weight: 600; }
h3 small { display: block; font-size: .8125rem; font-weight: 400; }
q { quotes: none; }
.alignment { display: grid; grid-template-columns: auto 1fr; column-gap: .75rem; margin-top: .6rem; }
.alignment tbody { display: flex; flex-wrap: wrap; gap: .5rem 3px; }
.alignment tr { display: flex; flex-direction: column; gap: 2px; }
.alignment th, .alignment td { min-width: 0; padding: .05rem .3rem; border: 1px solid transparent;
  border-radius: 3px; text-align: center; line-height: 1.5; }
.alignment th { padding-left: 0; text-align: left; font-size: .8125rem; line-height: 1.73; }
.alignment td:empty::before { content: "\\00a0"; }
.alignment td:last-child { padding: 0; font-size: .75rem; font-weight: 700; }
.substitution td { color: var(--sub); }
.substitution td:not(:last-child) { background: var(--sub-back); }
.deletion td { color: var(--del); }
.deletion td:first-child { background: var(--del-back); text-decoration: line-through; }
.insertion td { color: var(--ins); }
.insertion td:nth-child(2) { background: var(--ins-back); text-decoration: underline; }
.deletion td:nth-child(2), .insertion td:first-child { border: 1px dashed; }
.sound { display: grid; grid-template-columns: auto 1fr; column-gap: .6rem; margin-top: .6rem;
  font-size: .75rem; line-height: 1.5em; }
.sound > span { color: var(--muted); text-align: right; }
.sound > span:first-child { align-self: end; }
.picture { position: relative; height: 7rem; border-radius: 4px; overflow: hidden; background: #0c0d1f; }
.picture img { display: block; width: 100%; height: 100%; }
.tick { position: absolute; top: 0; bottom: 0; border-left: 1px solid #fff; opacity: .55; }
.tick.substitution, .tick.insertion { border-left-width: 2px; opacity: 1; }
.tick.substitution { border-color: #ffd08a; }
.tick.insertion { border-color: #a6c8ff; }
.second { position: absolute; top: 0; padding-left: .3em; border-left: 1px dotted #fff9; color: #fffc;
  font-size: .6875rem; }
.flags { position: relative; }
.flags > .flag { position: absolute; background: none; border-left: 1px solid var(--rule);
  white-space: nowrap; }
.heard > .flag { bottom: 0; }
.said > .flag { top: 0; display: flex; align-items: end; }
.flag b { position: relative; z-index: 1; display: block; height: 1.5em; padding: 0 .25em; font-weight: 500;
  background: var(--card); border-radius: 0 3px 3px 0; }
.flag.left b { position: absolute; right: 0; border-radius: 3px 0 0 3px; }
.heard .flag.left b { top: 0; }
.said .flag.left b { bottom: 0; }
.flag sup { display: inline-block; margin-left: .2em; font-size: .75em; line-height: 0; }
.flags > .substitution { border-color: var(--sub); color: var(--sub); }
.flag.substitution b { background: var(--sub-back); }
.flags > .deletion { border-color: var(--del); color: var(--del); }
.flag.deletion b { background: var(--del-back); text-decoration: line-through; }
.flags > .insertion { border-color: var(--ins); color: var(--ins); }
.flag.insertion b { background: var(--ins-back); text-decoration: underline; }
.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(14rem, 100%), 1fr)); gap: .75rem;
  margin-top: 1.25rem; }
.runs article { border-top: 4px solid var(--run); }
.runs strong { font-size: 2.5rem; line-height: 1.1; letter-spacing: -.03em; color: var(--ink); }
.runs small { display: block; }
.badge { display: inline-block; min-width: 1.5em; margin-right: .5em; border-radius: 3px;
  background: var(--run); color: var(--card); font-size: .8125rem; font-weight: 700; text-align: center; }
.beside td, .beside thead th:not(:first-child) { min-width: 6rem; max-width: 18rem; white-space: normal;
  overflow-wrap: anywhere; }
.differs > * { background: var(--sub-back); color: var(--sub); }
footer { margin-top: 3rem; }
@media (max-width: 40rem) {
  main { padding: 1.25rem 1rem 3rem; }
  .hero { grid-template-columns: 1fr; }
  dl { grid-template-columns: 1fr 1fr; }
  .columns > .words, .columns > .words:first-child { flex-basis: 100%; }
  .scroll table { font-size: .875rem; }
  th, td { padding-right: .6rem; }
  .bar { display: none; }
}
"""
