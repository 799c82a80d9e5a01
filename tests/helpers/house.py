"""Check the imports of the three packages: which room imports which, cycles, imports upwards.

python tests/helpers/house.py      # prints the counts, and every violation
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("asr", "data_pipeline", "multigpu")

# a room of asr may import itself and those before it
ROOMS = (
    "base",
    "audio",
    "pages",
    "language",
    "ctc",
    "model",
    "runs",
    "transcription",
    "evaluation",
    "report",
    "training",
    "export",
    "server",
    "cli",
)
# rooms and modules that compose asr with the other packages
COMPOSERS = {
    "evaluation": {"data_pipeline", "multigpu"},
    "training": {"data_pipeline", "multigpu"},
    "cli": {"data_pipeline", "multigpu"},
    "asr.model.devices": {"multigpu"},
}
ROOMS_FOR_DATA_PIPELINE = {"base", "audio", "pages"}

Graph = Mapping[str, set[str]]  # module -> modules that it imports


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return every module of the packages, by its dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the modules of the packages that each imports, including imports in functions and for types."""
    known = modules(root)
    return {
        name: {imported for imported in _imports(path, known) if imported in known}
        for name, path in known.items()
    }


def _imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else str(node.module)


def room_of(module: str) -> str:
    """Return the room of a module of asr, empty for `asr` itself and `asr.__main__`."""
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return room if package == "asr" and room in ROOMS else ""


def upward_imports(graph: Graph) -> list[str]:
    """Return the imports of a room of asr from a room that comes after it."""
    rank = {room: index for index, room in enumerate(ROOMS)}
    return [
        f"{module} imports {imported}"
        for module, all_imported in graph.items()
        for imported in sorted(all_imported)
        if room_of(module) and room_of(imported) and rank[room_of(module)] < rank[room_of(imported)]
    ]


def foreign_imports(graph: Graph) -> list[str]:
    """Return the imports across the packages that no rule allows."""
    return [
        f"{module} imports {imported}"
        for module, all_imported in graph.items()
        for imported in sorted(all_imported)
        if not _may_import(module, imported)
    ]


def _may_import(module: str, imported: str) -> bool:
    package, other = module.partition(".")[0], imported.partition(".")[0]
    if package == other:
        return True
    if package == "asr":
        return other in COMPOSERS.get(room_of(module), set()) | COMPOSERS.get(module, set())
    if package == "data_pipeline":
        return other == "asr" and room_of(imported) in ROOMS_FOR_DATA_PIPELINE
    return False


def import_cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules, or of folders within a room, that import each other in a cycle."""
    folded: dict[str, set[str]] = {}
    for module, all_imported in graph.items():
        folded.setdefault(_folder_or_module(module, graph), set()).update(
            _folder_or_module(imported, graph) for imported in all_imported
        )
    found = _strongly_connected(graph) + _strongly_connected(folded)
    return [list(group) for group in dict.fromkeys(tuple(sorted(group)) for group in found)]


def _folder_or_module(module: str, graph: Graph) -> str:
    """Return the sub-package that contains a module, such as data_pipeline.corpora, or else the module."""
    parts = module.split(".")
    depth = 3 if parts[0] == "asr" else 2  # asr.ctc, data_pipeline.corpora
    folder = ".".join(parts[:depth])
    return folder if folder in graph else module


def _strongly_connected(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan, 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(group)

    for node in graph:
        if node not in order:
            visit(node)
    return found


def main() -> int:
    """Print the rooms, their imports and every violation; return 1 if a rule is broken."""
    graph = import_graph()
    counts = Counter(room_of(module) for module in graph)
    print(f"asr/ has {sum(room in counts for room in ROOMS)} rooms:")
    for room in filter(counts.__getitem__, ROOMS):
        used = {room_of(x) for m, xs in graph.items() if room_of(m) == room for x in xs} - {"", room}
        print(f"  {room:<12} {counts[room]:>3} modules   imports {', '.join(sorted(used, key=ROOMS.index))}")
    print(f"{len(graph)} modules, {sum(map(len, graph.values()))} imports among them")
    broken = []
    for title, lines in (
        ("import cycles", [" <-> ".join(group) for group in import_cycles(graph)]),
        ("upward imports", upward_imports(graph)),
        ("forbidden imports across packages", foreign_imports(graph)),
    ):
        print(f"{len(lines)} {title}")
        broken += lines
    for line in broken:
        print(f"  {line}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
