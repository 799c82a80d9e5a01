"""Draws the rooms of `asr` and the packages beside it from the imports in the code, in layers.

An arrow leads from what imports to what is imported; arrows that follow from others are left out. The layers
are those of Sugiyama et al. (1981): each node one above the highest it imports, each layer in the order that
its neighbours suggest, arrows across several layers led through each of them.
"""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from html import escape
from statistics import mean

from helpers import house

WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT, BEND_WIDTH = 620, 78, 120, 34, 32
SWEEPS = 8  # over the layers, to order them

Needs = dict[str, set[str]]  # room or package -> those that it imports


def needs() -> Needs:
    """Return which rooms and packages each imports, in the order of the house."""
    graph = house.import_graph()
    found: Needs = {}
    for module, imported in graph.items():
        found.setdefault(_place(module), set()).update(map(_place, imported))
    order = ["multigpu", *house.ROOMS, "data_pipeline"]
    return {name: found[name] - {name, "asr"} for name in order if name in found}


def _place(module: str) -> str:
    return house.room_of(module) or module.partition(".")[0]


def diagram() -> str:
    """Return the drawing as SVG in HTML."""
    direct = _without_implied(needs())
    layers, edges = _layers(direct)
    x = _positions(layers, edges)
    height = ROW * len(layers)
    level = {node: i for i, layer in enumerate(layers) for node in layer}

    def top(node: str) -> float:
        return height - ROW * (level[node] + 1) + (ROW - BOX_HEIGHT) / 2

    lines = []
    for upper, lower in edges:
        bend_above, bend_below = upper.startswith("."), lower.startswith(".")
        y1, y2 = top(upper) + BOX_HEIGHT, top(lower) - (0 if bend_below else 3)
        x1, x2, half = x[upper], x[lower], (y2 - y1) / 2
        arrow = "" if bend_below else ' marker-end="url(#arrow)"'
        lines.append(
            f'<path d="M{x1:.0f} {y1 - BOX_HEIGHT * bend_above:.0f} V{y1:.0f} C{x1:.0f} {y1 + half:.0f} '
            f'{x2:.0f} {y2 - half:.0f} {x2:.0f} {y2:.0f}"{arrow}/>'
        )
    boxes = []
    for node in direct:
        group = "<g>" if node in house.ROOMS else '<g class="package">'
        boxes.append(
            f'{group}<rect x="{x[node] - BOX_WIDTH / 2:.0f}" y="{top(node):.0f}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="6"/><text x="{x[node]:.0f}" y="{top(node) + BOX_HEIGHT / 2 + 5:.0f}">'
            f"{escape(node)}</text></g>"
        )
    return "\n".join(
        [
            '<div class="diagram">',
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="which room imports which">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
            *lines,
            *boxes,
            "</svg>",
            "</div>",
        ]
    )


def _without_implied(all_needs: Needs) -> Needs:
    """Return the imports without those that follow from others (the transitive reduction)."""

    def reach(name: str) -> set[str]:
        return all_needs[name].union(*map(reach, all_needs[name]))

    return {
        name: {other for other in direct if not any(other in reach(third) for third in direct - {other})}
        for name, direct in all_needs.items()
    }


def _layers(direct: Needs) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """Return the layers, the lowest first, and the edges between neighbours; bends have a dot in front."""
    level: dict[str, int] = {}

    def level_of(name: str) -> int:
        if name not in level:
            level[name] = 1 + max(map(level_of, direct[name]), default=-1)
        return level[name]

    layers: list[list[str]] = [[] for _ in range(1 + max(map(level_of, direct)))]
    for name in direct:
        layers[level[name]].append(name)
    edges = []
    for upper, below in direct.items():
        for lower in sorted(below):
            node = upper
            for between in range(level[upper] - 1, level[lower], -1):
                bend = f".{upper}.{lower}.{between}"
                layers[between].append(bend)
                edges.append((node, bend))
                node = bend
            edges.append((node, lower))
    return layers, edges


def _positions(layers: list[list[str]], edges: list[tuple[str, str]]) -> dict[str, float]:
    """Return the horizontal middle of each node, having sorted each layer by its neighbours' mean places."""
    place = {node: float(i) for layer in layers for i, node in enumerate(layer)}
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            for node in layer:
                near = [place[b] for a, b in edges if a == node] + [place[a] for a, b in edges if b == node]
                place[node] = mean(near) if near else place[node]
            layer.sort(key=place.__getitem__)
            for i, node in enumerate(layer):
                place[node] = i - (len(layer) - 1) / 2
    x: dict[str, float] = {}
    for layer in layers:
        widths = [BEND_WIDTH if node.startswith(".") else BOX_WIDTH for node in layer]
        gap = min((WIDTH - sum(widths)) / (len(layer) + 1), 60)
        left = (WIDTH - sum(widths) - gap * (len(layer) - 1)) / 2
        for node, width in zip(layer, widths, strict=True):
            x[node] = left + width / 2
            left += width + gap
    return x


def table() -> str:
    """Return the rooms and packages as a table: what each is for, its size, what it imports."""
    sizes = Counter(map(_place, house.import_graph()))
    lines = ["| room or package | what it is for | modules | imports |", "|---|---|---|---|"]
    for name, imported in needs().items():
        module = importlib.import_module(f"asr.{name}" if name in house.ROOMS else name)
        purpose = (inspect.getdoc(module) or "").splitlines()[0]
        in_order = [other for other in (*house.ROOMS, "data_pipeline", "multigpu") if other in imported]
        lines.append(f"| `{name}` | {purpose} | {sizes[name]} | {', '.join(in_order)} |")
    return "\n".join(lines)
