"""Fine-tuning: a model begins with the weights of another run, whose vocabulary may be another.

loaded = load_matching(model, vocabulary, source, source_vocabulary)
for line in loaded.lines():
    print(line)

Layers go by name, outputs by token: a token that both runs know keeps what was learned of it, wherever it
stands among the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.types import UserError
from asr.base.vocabulary import Vocabulary
from asr.base.wording import listed
from asr.model.acoustic_model import AcousticModel

Array = npt.NDArray[Any]

OUTPUT = "output"  # the layer whose weights belong to tokens
NETWORK = "acoustic_model/network/"  # what paths begin with
SEED = "seed_generator_state"
MAX_LISTED = 6  # tokens, and layers in a line


class Weight(NamedTuple):
    """A weight and what became of it."""

    path: str
    shape: tuple[int, ...]
    reason: str = ""  # why it is not taken, or not as a whole


@dataclass(frozen=True)
class Loaded:
    """What a model took from another run.

    Attributes:
        taken: weights that are now the other run's.
        in_part: those of the output layer, where some tokens are new.
        anew: those that keep their initial values.
        unused: the other run's for which this model has no place.
        shared_tokens: tokens that both runs know; the blank, which they share as well, is none.
        new_tokens: those that only this run knows.
        dropped_tokens: those that only the other one knows.
    """

    taken: tuple[Weight, ...]
    in_part: tuple[Weight, ...]
    anew: tuple[Weight, ...]
    unused: tuple[Weight, ...]
    shared_tokens: tuple[str, ...]
    new_tokens: tuple[str, ...]
    dropped_tokens: tuple[str, ...]

    def lines(self) -> list[str]:
        """A few lines for a person, layers grouped."""
        taken = [*self.taken, *self.in_part]
        lines = [
            f"taken: {len(taken)} of {len(taken) + len(self.anew)} weights, in "
            f"{_some(dict.fromkeys(_layer(weight.path) for weight in taken))}"
        ]
        if any(_layer(weight.path) == OUTPUT for weight in taken):
            lines.append(self._token_line())
        lines += [f"begins anew: {line}" for line in _by_layer(self.anew)]
        return lines + [f"left out: {line}" for line in _by_layer(self.unused)]

    def _token_line(self) -> str:
        told = [f"{len(self.shared_tokens):,} keep what was learned"]
        if self.new_tokens:
            told.append(f"{len(self.new_tokens):,} begin anew ({_some(self.new_tokens)})")
        if self.dropped_tokens:
            told.append(f"{len(self.dropped_tokens):,} are left out ({_some(self.dropped_tokens)})")
        parts = next((f"; {weight.reason}" for weight in self.in_part if weight.path.endswith("/rows")), "")
        return f"tokens: {', '.join(told)}{parts}"


class _Rows(NamedTuple):
    """Which rows of the output layers belong to the same token, or part of one."""

    ours: list[int]
    theirs: list[int]
    num_ours: int  # in all
    unit: str  # what a row belongs to


def load_matching(
    model: AcousticModel,
    vocabulary: Vocabulary,
    source: Mapping[str, Array],
    source_vocabulary: Vocabulary,
) -> Loaded:
    """Give a model the weights of another run that fit it, moving statistics among them.

    A weight fits where path and shape are the same. The output layer goes by token or, where it is a sum of
    parts, by part: what is new keeps its initial values. Seeds are never taken.

    Args:
        model: its weights made.
        vocabulary: of its outputs.
        source: the other run's variables by their `path`.
        source_vocabulary: of the other run's outputs.

    Raises:
        UserError: no layer fits, or the other run's weights are not those of its vocabulary.
    """
    variables = {v.path: v for v in model.variables if not v.path.endswith(SEED)}
    ours = {path: np.asarray(variable) for path, variable in variables.items()}
    theirs = {path: np.asarray(array) for path, array in source.items() if not path.endswith(SEED)}
    rows = _matching_rows(ours, theirs, vocabulary, source_vocabulary)
    values = {path: _value(path, initial, theirs.get(path), rows) for path, initial in ours.items()}
    weights = [Weight(path, ours[path].shape, reason) for path, (_, reason) in values.items()]
    found = [weight for weight in weights if values[weight.path][0] is not None]
    if not any(_makes_a_network(weight) for weight in found):
        raise UserError(
            f"no layer of the other run's model fits this one's: it has {_described(theirs)}, this one has "
            f"{_described(ours)}; give both the same [model], or leave train.init_from out"
        )
    for weight in found:
        variables[weight.path].assign(values[weight.path][0])
    here, there = set(vocabulary.tokens), set(source_vocabulary.tokens)
    return Loaded(
        taken=tuple(weight for weight in found if not weight.reason),
        in_part=tuple(weight for weight in found if weight.reason),
        anew=tuple(weight for weight in weights if weight not in found),
        unused=tuple(Weight(p, a.shape, "not in this model") for p, a in theirs.items() if p not in ours),
        shared_tokens=tuple(token for token in vocabulary.tokens[1:] if token in there),
        new_tokens=tuple(token for token in vocabulary.tokens if token not in there),
        dropped_tokens=tuple(token for token in source_vocabulary.tokens if token not in here),
    )


def _value(path: str, initial: Array, array: Array | None, rows: _Rows | str) -> tuple[Array | None, str]:
    """What a weight becomes, None for its initial value; and why it is not all of the other run's."""
    if _layer(path) == OUTPUT:
        return (None, rows) if isinstance(rows, str) else _with_rows(path, initial, array, rows)
    if array is None:
        return None, "not in the other run"
    return (array, "") if array.shape == initial.shape else (None, _shapes(initial, array))


def _with_rows(path: str, initial: Array, array: Array | None, rows: _Rows) -> tuple[Array, str]:
    """An output weight with the rows that the other run has."""
    assert array is not None, path  # there are rows only where both have the same output weights
    value = initial.copy()
    _rows_first(path, value)[rows.ours] = _rows_first(path, array)[rows.theirs]
    if len(rows.ours) == rows.num_ours:
        return value, ""
    return value, f"{len(rows.ours):,} of {rows.num_ours:,} {rows.unit} are known"


def _matching_rows(
    ours: Mapping[str, Array], theirs: Mapping[str, Array], vocabulary: Vocabulary, other: Vocabulary
) -> _Rows | str:
    """The rows of the output layers that belong together, or why none do."""
    here, there = (
        {path: _rows_first(path, array) for path, array in arrays.items() if _layer(path) == OUTPUT}
        for arrays in (ours, theirs)
    )
    if here.keys() != there.keys():
        return "only one of the two is a sum of parts (model.factored_output)"
    names, other_names, unit = vocabulary.tokens, other.tokens, "outputs"
    if any(path.endswith("/rows") for path in here):
        names, other_names, unit = *_part_names(vocabulary, other), "parts"
    for path, array in there.items():
        if len(array) != len(other_names):
            raise UserError(
                f"the other run's {path} has {len(array)} rows, but its vocabulary makes "
                f"{len(other_names)} {unit}: it is not the one that the run was trained with; bring that back"
            )
        if array.shape[1:] != here[path].shape[1:]:
            return f"{here[path].shape[1]} inputs here, {array.shape[1]} there"
    places = {name: place for place, name in enumerate(other_names)}
    shared = [place for place, name in enumerate(names) if name in places]
    return _Rows(shared, [places[names[place]] for place in shared], len(names), unit)


def _part_names(one: Vocabulary, other: Vocabulary) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """For both vocabularies, what each part is called: its id among the parts of all their tokens."""
    both = Vocabulary(dict.fromkeys([*one.tokens[1:], *other.tokens[1:]]))
    common = dict(zip(both.tokens, both.syllable_parts(), strict=True))

    def names(vocabulary: Vocabulary) -> tuple[int, ...]:
        by_id: dict[int, int] = {}
        for token, parts in zip(vocabulary.tokens, vocabulary.syllable_parts(), strict=True):
            by_id.update(zip(parts, common[token], strict=True))
        return tuple(by_id[part] for part in range(len(by_id)))

    return names(one), names(other)


def _rows_first(path: str, array: Array) -> Array:
    """A view of an output weight with tokens, or their parts, first: a dense kernel (C, V) has them last."""
    return array.T if path.endswith("/kernel") else array


def _makes_a_network(weight: Weight) -> bool:
    """Whether it says something that it is taken: any two networks have norms and tokens in common."""
    return len(weight.shape) > 1 and _layer(weight.path) != OUTPUT


def _layer(path: str) -> str:
    """The outermost layer of the network that a weight is in: stage0."""
    return path.removeprefix(NETWORK).split("/")[0]


def _some(names: Iterable[str]) -> str:
    """Return the first few, and how many more there are."""
    return listed(list(names), MAX_LISTED)


def _by_layer(weights: Iterable[Weight]) -> list[str]:
    """A line for each of the first layers, another for the rest."""
    layers: dict[str, list[Weight]] = {}
    for weight in weights:
        layers.setdefault(_layer(weight.path), []).append(weight)
    lines = []
    for layer, (first, *others) in list(layers.items())[:MAX_LISTED]:
        more = f", and {len(others)} more in {layer}" if others else ""
        lines.append(f"{first.path.removeprefix(NETWORK)} ({first.reason}){more}")
    rest = list(layers)[MAX_LISTED:]
    return lines + ([f"and in {_some(rest)}"] if rest else [])


def _described(arrays: Mapping[str, Array]) -> str:
    layers = dict.fromkeys(_layer(path) for path in arrays)
    return f"{sum(array.size for array in arrays.values()):,} weights in {_some(layers)}"


def _shapes(ours: Array, theirs: Array) -> str:
    here, there = ("x".join(map(str, array.shape)) for array in (ours, theirs))
    return f"{here} here, {there} there"
