"""Find where a package uses private names of Keras or TensorFlow."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

# attributes that begin with an underscore and belong to Python or its library
OF_PYTHON = {"_replace", "_make", "_asdict", "_fields", "_exit", "_actions", "_ActionsContainer"}
FRAMEWORKS = ("keras", "tensorflow")
PRIVATE = re.compile(r"_[a-zA-Z]\w*")  # no dunder


def uses(root: Path, package: str, fence: str) -> list[str]:
    """Return the uses of private names in a package, outside of one module.

    Args:
        root: the folder that holds the package.
        package: its name.
        fence: dotted name of the module that may use them.
    """
    found = []
    for path in sorted((root / package).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if module != fence:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{module}:{line}: {name}" for line, name in sorted(_in_module(tree))]
    return found


def _in_module(tree: ast.Module) -> Iterator[tuple[int, str]]:
    own = _own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = origin + alias.name
                if name.startswith(("keras.src", "tensorflow.python", "tensorflow.tsl", "tensorflow.core")):
                    yield node.lineno, name
        elif isinstance(node, ast.Attribute):
            if PRIVATE.fullmatch(node.attr) and node.attr not in own | OF_PYTHON:
                yield node.lineno, node.attr
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and PRIVATE.fullmatch(node.value)
            and node.value not in own
        ):  # in getattr(model, "_name"), or the name of an attribute in a graph
            yield node.lineno, repr(node.value)


def _own_names(tree: ast.Module) -> set[str]:
    """Return the private names that a module gives to its classes, their attributes and its functions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            names.add(node.attr)
    return names


def overridden(root: Path, package: str, fence: str) -> list[str]:
    """Return the private names of Keras's and TensorFlow's classes that subclasses in a package define.

    Args:
        root: the folder that holds the package.
        package: its name.
        fence: dotted name of the module that may define them.
    """
    found = []
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if module == fence or not re.search(r"^(import|from) (keras|tensorflow)", text, re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.bases:
                own = {name for name in _own_names(ast.Module([node], [])) if PRIVATE.fullmatch(name)}
                if own:
                    cls = getattr(importlib.import_module(module), node.name, None)
                    taken = own & _private_names_of_frameworks(cls)
                    found += [f"{module}.{node.name}: {name}" for name in sorted(taken)]
    return found


def _private_names_of_frameworks(cls: object) -> set[str]:
    """Return the private methods and attributes of a class's bases in Keras and TensorFlow."""
    names: set[str] = set()
    for base in inspect.getmro(cls) if inspect.isclass(cls) else ():
        if base.__module__.startswith(FRAMEWORKS):
            names |= {name for name in vars(base) if PRIVATE.fullmatch(name)}
            names |= set(re.findall(r"\bself\.(_[a-zA-Z]\w*)", inspect.getsource(base)))
    return names
