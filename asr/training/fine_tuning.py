"""Fine-tune: initialize a model with the weights of another run, whose vocabulary may differ.

loaded = load_matching(model, vocabulary, source, source_vocabulary)
for line in loaded.lines():
    print(line)

Layers are matched by name, outputs by token: a token of both vocabularies keeps its learned weights, whatever
its id in either. A new token begins with the mean weights of the others: with random ones it would be more
likely than all of them, which have learned to be rare, and the model would recognize nothing at first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.config import RECIPE, Config, FeatureConfig, own_learning_rate
from asr.base.errors import UserError
from asr.base.text.wording import counted, listed
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import AcousticModel
from asr.model.features import make_features
from asr.model.networks.separable import Block, Separable

Array = npt.NDArray[Any]

OUTPUT = "output"  # the layer whose weights belong to tokens, as those of the next one
FEEDBACK = "feedback"  # in asr/model/networks/intermediate.py
NETWORK = "acoustic_model/network/"  # the prefix of paths
SEED = "seed_generator_state"
MAX_LISTED = 6  # tokens or layers in a line

# Weights that know the speech are changed gently. Others have little to lose: a higher rate leaves 5 to 28 %
# fewer errors (docs/experiments.md, "Minutes of one speaker"). The limit lies between the parents that were
# measured, of 51 and of 87 %.
STRANGE_SPEECH = 0.7  # error rate on dev from which the speech is strange to the weights
SHARE_OF_RATE, STRANGE_SHARE_OF_RATE = 0.1, 1 / 3  # of the rate for random weights


class Weight(NamedTuple):
    """A weight, and why it was not loaded if it was not."""

    path: str
    shape: tuple[int, ...]
    reason: str = ""  # why it is not loaded, or only in part; empty if it is loaded


@dataclass(frozen=True)
class Loaded:
    """The weights that a model loaded from another run, and those that it did not.

    Attributes:
        taken: weights that are now the other run's.
        in_part: weights of the output layer where some tokens are new.
        initialized: weights that keep their initial values.
        num_added: residual blocks that only this model has; before training they return their inputs, so that
            a deeper network begins with the outputs of the other.
        unused: weights of the other run that this model does not have.
        shared_tokens: tokens of both vocabularies, without the blank.
        new_tokens: tokens of this run's vocabulary alone.
        dropped_tokens: tokens of the other run's vocabulary alone.
    """

    taken: tuple[Weight, ...]
    in_part: tuple[Weight, ...]
    initialized: tuple[Weight, ...]
    num_added: int
    unused: tuple[Weight, ...]
    shared_tokens: tuple[str, ...]
    new_tokens: tuple[str, ...]
    dropped_tokens: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return a summary in a few lines, grouped by layer."""
        taken = [*self.taken, *self.in_part]
        lines = [
            f"loaded: {len(taken)} of {counted(len(taken) + len(self.initialized), 'weight')}, in "
            f"{_some(dict.fromkeys(_layer(weight.path) for weight in taken))}"
        ]
        if any(_layer(weight.path) == OUTPUT for weight in taken):
            lines.append(self._token_line())
        if self.num_added:
            lines.append(f"added: {counted(self.num_added, 'block')}, which change nothing before training")
        lines += [f"initialized: {line}" for line in _by_layer(self.initialized)]
        return lines + [f"not used: {line}" for line in _by_layer(self.unused)]

    def _token_line(self) -> str:
        counts = [f"{len(self.shared_tokens):,} loaded"]
        if self.new_tokens:
            counts.append(f"{len(self.new_tokens):,} initialized ({_some(self.new_tokens)})")
        if self.dropped_tokens:
            counts.append(f"{len(self.dropped_tokens):,} not used ({_some(self.dropped_tokens)})")
        parts = next((f"; {weight.reason}" for weight in self.in_part if weight.path.endswith("/rows")), "")
        return f"tokens: {', '.join(counts)}{parts}"


def differing_features(config: Config, theirs: FeatureConfig) -> list[str]:
    """Return the settings of features that differ from those with which weights were trained, and how.

    A stem may begin to look at the pitch: before training, what it finds there changes nothing.
    """
    ours = config.features
    if config.model.stem != "1d":
        theirs = dataclasses.replace(theirs, pitch=theirs.pitch or ours.pitch)
    if ours.kind == theirs.kind:  # 0 and the number that it stands for are the same
        ours, theirs = (
            dataclasses.replace(config, num_mels=make_features(config).num_features)
            for config in (ours, theirs)
        )
    return [
        f"features.{field.name} is {here!r} and was {there!r}"
        for field in dataclasses.fields(ours)
        if (here := getattr(ours, field.name)) != (there := getattr(theirs, field.name))
    ]


class _Rows(NamedTuple):
    """The rows of two output layers that belong to the same token, part of one, or phone."""

    ours: list[int]
    theirs: list[int]
    kinds: npt.NDArray[np.int64]  # of each row of our output layer, paired or not
    num_theirs: int
    unit: str  # what a row belongs to: "outputs", "parts" or "phones"


def load_matching(
    model: AcousticModel,
    vocabulary: Vocabulary,
    source: Mapping[str, Array],
    source_vocabulary: Vocabulary,
) -> Loaded:
    """Load the matching weights of another run into a model, including moving statistics.

    A weight matches if path and shape are equal. Outputs are matched by token, by part if they are a sum of
    parts, or by phone; a new one gets the mean of those of its kind. Seeds are never loaded.

    Args:
        model: with its weights created.
        vocabulary: of its outputs.
        source: the other run's variables by their `path`.
        source_vocabulary: of the other run's outputs.

    Raises:
        UserError: no layer matches, or the other run's weights do not fit its vocabulary.
    """
    variables = {v.path: v for v in model.variables if not v.path.endswith(SEED)}
    ours = {path: np.asarray(variable) for path, variable in variables.items()}
    theirs = {path: np.asarray(array) for path, array in source.items() if not path.endswith(SEED)}
    rows = _matching_rows(ours, theirs, vocabulary, source_vocabulary)
    middle = rows
    if getattr(model.network, "num_phones", 0):
        middle = _rows_by_name(vocabulary.phones().tokens, source_vocabulary.phones().tokens, "phones")
    values = {
        path: _value(path, initial, theirs.get(path), rows if _layer(path) == OUTPUT else middle)
        for path, initial in ours.items()
    }
    weights = [Weight(path, ours[path].shape, reason) for path, (_, reason) in values.items()]
    found = [weight for weight in weights if values[weight.path][0] is not None]
    if not any(_shows_a_match(weight) for weight in found):
        raise UserError(
            f"no layer of the other run's model fits this model: it has {_described(theirs)}, this one has "
            f"{_described(ours)}; use the same [model] settings for both, or leave out train.init_from"
        )
    for weight in found:
        variables[weight.path].assign(values[weight.path][0])
    added = _added_blocks(model, {weight.path for weight in found})
    for block in added:
        block.begin_as_identity()
    here, there = set(vocabulary.tokens), set(source_vocabulary.tokens)
    return Loaded(
        taken=tuple(weight for weight in found if not weight.reason),
        in_part=tuple(weight for weight in found if weight.reason),
        initialized=tuple(weight for weight in weights if weight not in found),
        num_added=len(added),
        unused=tuple(Weight(p, a.shape, "not in this model") for p, a in theirs.items() if p not in ours),
        shared_tokens=tuple(token for token in vocabulary.tokens[1:] if token in there),
        new_tokens=tuple(token for token in vocabulary.tokens if token not in there),
        dropped_tokens=tuple(token for token in source_vocabulary.tokens if token not in here),
    )


def _added_blocks(model: AcousticModel, loaded: Container[str]) -> list[Block]:
    """Return the residual blocks without a loaded weight, of stages that begin with a loaded one."""
    if not isinstance(model.network, Separable):
        return []

    def is_loaded(block: Block) -> bool:
        return any(variable.path in loaded for variable in block.variables)

    return [
        block
        for first, *others in model.network.blocks()
        for block in others
        if is_loaded(first) and not is_loaded(block)
    ]


def with_tuning_rate(config: Config, start_error: float) -> Config:
    """Return the configuration with a learning rate that suits the weights to start from, unless it has one.

    Args:
        config: of a run with `train.init_from`.
        start_error: the error rate on dev with these weights.
    """
    if config.train.learning_rate:
        return config
    rate = _tuning_rate(config, start_error)
    return dataclasses.replace(config, train=dataclasses.replace(config.train, learning_rate=rate))


def _tuning_rate(config: Config, start_error: float) -> float:
    share = SHARE_OF_RATE if start_error < STRANGE_SPEECH else STRANGE_SHARE_OF_RATE
    return round(share * own_learning_rate(config.model.family), 9)


def recipe_line(config: Config, start_error: float) -> str:
    """Return the settings of a run that starts from another: those for fine-tuning, and the user's own."""
    rate = _tuning_rate(config, start_error)
    _, sections = RECIPE
    usual: list[str] = []
    others: list[str] = []
    for name, values in sections.items():
        for key, value in values.items():
            expected = rate if key == "learning_rate" else value
            used = getattr(getattr(config, name), key)
            (usual if used == expected else others).append(f"{name}.{key}={used:g}")
    line = f"settings for fine-tuning: {', '.join(usual) or 'none'}"
    return f"{line}; yours: {', '.join(others)}" if others else line


def _value(path: str, initial: Array, array: Array | None, rows: _Rows | str) -> tuple[Array | None, str]:
    """Return a weight's new value (None to keep the initial one), and why it is not loaded as a whole."""
    if array is None and _layer(path) != OUTPUT:
        return None, "not in the other run"
    if _belongs_to_tokens(path):
        return (None, rows) if isinstance(rows, str) else _with_rows(path, initial, array, rows)
    assert array is not None
    return (array, "") if array.shape == initial.shape else (None, _shapes(initial, array))


def _with_rows(path: str, initial: Array, array: Array | None, rows: _Rows) -> tuple[Array | None, str]:
    """Return an output weight with the other run's rows where they match, and why others do not."""
    assert array is not None, path  # rows are matched only if both runs have the same output weights
    if len(_rows_first(path, array)) != rows.num_theirs:
        return None, "outputs in the middle are phones in only one of the two (model.intermediate_units)"
    if _rows_first(path, array).shape[1:] != _rows_first(path, initial).shape[1:]:
        return None, _shapes(initial, array)
    value, learned = initial.copy(), _rows_first(path, array)[rows.theirs]
    for kind in np.unique(rows.kinds):
        if (alike := rows.kinds[rows.ours] == kind).any():
            _rows_first(path, value)[rows.kinds == kind] = learned[alike].mean(axis=0)
    _rows_first(path, value)[rows.ours] = learned
    if len(rows.ours) == len(rows.kinds):
        return value, ""
    return value, f"{len(rows.ours):,} of {len(rows.kinds):,} {rows.unit} are known"


def _matching_rows(
    ours: Mapping[str, Array], theirs: Mapping[str, Array], vocabulary: Vocabulary, other: Vocabulary
) -> _Rows | str:
    """Return the rows of the output layers that belong together, or a reason why none do."""
    here, there = (
        {path: _rows_first(path, array) for path, array in arrays.items() if _layer(path) == OUTPUT}
        for arrays in (ours, theirs)
    )
    if here.keys() != there.keys():
        return "only one of the two is a sum of parts (model.factored_output)"
    names, other_names, unit = vocabulary.tokens, other.tokens, "outputs"
    kinds = None
    if any(path.endswith("/rows") for path in here):
        names, other_names, unit = *_part_names(vocabulary, other), "parts"
        kinds = _kinds_of_parts(vocabulary)
    for path, array in there.items():
        if len(array) != len(other_names):
            raise UserError(
                f"the other run's {path} has {len(array)} rows, but its vocabulary makes {len(other_names)} "
                f"{unit}: its vocabulary file has changed since training; restore the original"
            )
        if array.shape[1:] != here[path].shape[1:]:
            return f"{counted(here[path].shape[1], 'input')} here, {array.shape[1]} there"
    return _rows_by_name(names, other_names, unit, kinds)


def _rows_by_name(
    names: Sequence[Any],
    other_names: Sequence[Any],
    unit: str,
    kinds: npt.NDArray[np.int64] | None = None,
) -> _Rows:
    """Return which rows have the same name in both runs; without `kinds`, the blank's and then tokens'."""
    indices = {name: index for index, name in enumerate(other_names)}
    shared = [index for index, name in enumerate(names) if name in indices]
    theirs = [indices[names[index]] for index in shared]
    kinds = np.minimum(np.arange(len(names)), 1) if kinds is None else kinds
    return _Rows(shared, theirs, kinds, len(other_names), unit)


def _kinds_of_parts(vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    """Return the kind of each part: of the blank, an initial, a final, a tone or a whole token."""
    parts = np.array(vocabulary.syllable_parts())  # (V, 4)
    kinds = np.zeros(parts.max() + 1, np.int64)
    kinds[parts[1:]] = np.arange(1, parts.shape[1] + 1)
    return kinds


def _part_names(one: Vocabulary, other: Vocabulary) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return, for both vocabularies, each part's id among the parts of the tokens of both."""
    both = Vocabulary(dict.fromkeys([*one.tokens[1:], *other.tokens[1:]]))
    common = dict(zip(both.tokens, both.syllable_parts(), strict=True))

    def names(vocabulary: Vocabulary) -> tuple[int, ...]:
        by_id: dict[int, int] = {}
        for token, parts in zip(vocabulary.tokens, vocabulary.syllable_parts(), strict=True):
            by_id.update(zip(parts, common[token], strict=True))
        return tuple(by_id[part] for part in range(len(by_id)))

    return names(one), names(other)


def _rows_first(path: str, array: Array) -> Array:
    """Return a view of an output weight with tokens (or parts) first: a dense kernel (C, V) has them last."""
    return array.T if path.endswith("/kernel") else array


def _shows_a_match(weight: Weight) -> bool:
    """Return whether loading this weight shows a match: any two networks share norms and tokens."""
    return len(weight.shape) > 1 and not _belongs_to_tokens(weight.path)


def _belongs_to_tokens(path: str) -> bool:
    """Return whether a weight has a row for each token or part, as in output layers, also in the middle."""
    return path.split("/")[-2] in (OUTPUT, FEEDBACK)


def _layer(path: str) -> str:
    """Return the outermost layer of the network that contains a weight, such as "stage0"."""
    return path.removeprefix(NETWORK).split("/")[0]


def _some(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    return listed(list(names), MAX_LISTED)


def _by_layer(weights: Iterable[Weight]) -> list[str]:
    """Return a line for each of the first layers, and one for the rest."""
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
    return f"{counted(sum(array.size for array in arrays.values()), 'weight')} in {_some(layers)}"


def _shapes(ours: Array, theirs: Array) -> str:
    here, there = ("x".join(map(str, array.shape)) for array in (ours, theirs))
    return f"{here} here, {there} there"
