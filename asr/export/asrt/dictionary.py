"""Read ASRT's `dict.txt`, which says which syllable each output of its networks stands for.

Line i (from 0) has the syllable of output i, a tab, and characters with this reading. The last output, which
has no line, is the blank; here the blank is the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.system.files import read_lines
from asr.base.text.pinyin import read_syllable
from asr.base.vocabulary import Vocabulary

NAME = "dict.txt"
FOLDERS_ABOVE = 3  # ASRT's folder has dict.txt, and weights up to two folders below it


class AsrtOutputs(NamedTuple):
    """What becomes of the outputs of a network of ASRT.

    Attributes:
        vocabulary: the new outputs, the blank first.
        columns: (V,) for each of them, the output of ASRT that it was.
        dropped: syllables that are in the list more than once; only the last output of each was trained.
        respelled: syllables with the spelling they have here, where it is another one.
    """

    vocabulary: Vocabulary
    columns: list[int]
    dropped: tuple[str, ...]
    respelled: dict[str, str]


def find_dictionary(weights: Path) -> Path:
    """Return the dict.txt of the folder of ASRT that a file of weights is in.

    Raises:
        UserError: there is none.
    """
    for folder in weights.absolute().parents[:FOLDERS_ABOVE]:
        if (folder / NAME).is_file():
            return folder / NAME
    raise UserError(
        f"{weights}: expected {NAME} in its folder or one of the two above, found none; name the {NAME} of "
        "the version of ASRT that trained it (`dictionary`): it lists the syllables of the outputs, which "
        "neither the weights nor Polyphone contain, and is in the root of ASRT's source code and releases"
    )


def read_dictionary(path: Path) -> list[str]:
    """Return the syllables of a dict.txt, one for each output except the blank.

    Raises:
        UserError: the file cannot be read.
    """
    lines = read_lines(path, "list of syllables")
    return [line.split("\t")[0].strip() for line in lines if line.strip()]


def outputs_of(syllables: Sequence[str], num_outputs: int, dictionary: Path, weights: Path) -> AsrtOutputs:
    """Return what becomes of a network's outputs.

    ASRT looks labels up in a mapping from syllables to lines, in which the last line of a syllable counts:
    outputs of earlier ones were never a target in training.

    Args:
        syllables: of the dictionary, in its order.
        num_outputs: of the network, the blank included.
        dictionary: path of the syllables, for errors.
        weights: path of the network's weights, for errors.

    Raises:
        UserError: the two do not belong together, or a syllable is not one word.
    """
    if len(syllables) != num_outputs - 1:
        raise UserError(
            f"{dictionary}: expected {num_outputs - 1:,} syllables, one a line, as {weights} has "
            f"{num_outputs:,} outputs with the blank; received {len(syllables):,}: name the {NAME} of the "
            "version of ASRT that trained it"
        )
    if not syllables:
        raise UserError(
            f"{dictionary}: expected syllables, received none, so the only output would be the blank; name "
            f"the {NAME} and the weights of a trained network"
        )
    last = {syllable: line for line, syllable in enumerate(syllables)}
    repeated = (syllable for line, syllable in enumerate(syllables) if last[syllable] != line)
    kept = sorted(last.values())
    spellings = _spellings(last)
    try:
        vocabulary = Vocabulary(spellings[syllables[line]] for line in kept)
    except UserError as error:
        raise UserError(f"{dictionary}: {error}") from None
    respelled = {syllable: spelling for syllable, spelling in spellings.items() if syllable != spelling}
    return AsrtOutputs(vocabulary, [num_outputs - 1, *kept], tuple(dict.fromkeys(repeated)), respelled)


def _spellings(syllables: Iterable[str]) -> dict[str, str]:
    """Return how each syllable is spelled here, such as lve4 for lue4; as it is where the list has both."""
    standard = {}
    for syllable in syllables:
        letters, tone = read_syllable(syllable) or ("", "")
        standard[syllable] = letters + tone if tone else syllable
    uses = Counter(standard.values())
    return {
        syllable: spelling if uses[spelling] == 1 else syllable for syllable, spelling in standard.items()
    }
