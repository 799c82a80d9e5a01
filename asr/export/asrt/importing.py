"""Turn weights that ASRT trained into a run directory: `asr import-asrt` as a function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.base.config import Config, FeatureConfig, ModelConfig, TrainConfig
from asr.base.system.files import refuse_existing
from asr.base.vocabulary import Vocabulary
from asr.export.asrt.dictionary import AsrtOutputs, find_dictionary, outputs_of, read_dictionary
from asr.runs.origin import ImportOrigin, write_run
from asr.runs.run import Run

LEARNING_RATE = 2e-4  # to fine-tune with; the default is for weights that begin at random


@dataclass(frozen=True)
class ImportedAsrt:
    """A run that was made of ASRT's weights.

    Attributes:
        run: the new run, which decodes like any other.
        network: ASRT's name of the network, such as "251bn".
        dictionary: path of the list of syllables.
        num_outputs: outputs of ASRT's network, the blank included.
        vocabulary: outputs of the new run.
        dropped: syllables that are in the list more than once; their untrained outputs are left out.
        respelled: syllables with their spelling in the new run, where it is another one.
    """

    run: Run
    network: str
    dictionary: Path
    num_outputs: int
    vocabulary: Vocabulary
    dropped: tuple[str, ...]
    respelled: dict[str, str]


def import_asrt(weights: str | Path, run: str | Path, dictionary: str | Path | None = None) -> ImportedAsrt:
    """Make a run directory of weights that ASRT trained, for its networks 251bn, 251, 25 and 24.

    The blank becomes the first output, and a syllable that is in the list twice loses the output that was
    never trained. Logits are those of ASRT, except in about the last half second of a clip: ASRT pads every
    clip to 16 s with zeros, which its convolutions take for sound; here padding is left out.

    Args:
        weights: a file such as SpeechModel251bn.model.h5 or SpeechModel251bn.model.base.h5.
        run: the new run directory.
        dictionary: ASRT's dict.txt; None for the one in the folder of ASRT that the weights are in.

    Raises:
        UserError: a file cannot be read, is damaged, or is of another network; the list of syllables does
            not fit the outputs; the run exists or cannot be written.
    """
    from asr.model.devices import start_devices

    weights, target = Path(weights), Path(run)
    refuse_existing(target)
    start_devices()  # before the import of TensorFlow, to silence its logs
    from asr.export.asrt.keras2_file import read_arrays
    from asr.export.asrt.networks import recognize_network

    network = recognize_network(read_arrays(weights), weights)
    dictionary = Path(dictionary) if dictionary is not None else find_dictionary(weights)
    outputs = outputs_of(read_dictionary(dictionary), network.num_outputs, dictionary, weights)
    config = Config(
        features=FeatureConfig(kind="spectrogram", normalize=False),
        model=ModelConfig(family=network.family),
        train=TrainConfig(learning_rate=LEARNING_RATE),
    )
    arrays = _variables(config, outputs, network.weights)
    origin = ImportOrigin("ASRT", network.name, str(weights))
    made = write_run(target, config, outputs.vocabulary, arrays, origin)
    return ImportedAsrt(
        made,
        network.name,
        dictionary,
        network.num_outputs,
        outputs.vocabulary,
        outputs.dropped,
        outputs.respelled,
    )


def _variables(
    config: Config, outputs: AsrtOutputs, weights: dict[str, npt.NDArray[np.float32]]
) -> dict[str, npt.NDArray[Any]]:
    """Return the weights by the paths of the model's variables, with the outputs in their new order."""
    from asr.model.acoustic_model import make_acoustic_model

    model = make_acoustic_model(config, outputs.vocabulary)
    prefix = f"{model.name}/{model.network.name}/"
    arrays = {f"{prefix}{name}": array for name, array in weights.items()}
    for name in ("output/kernel", "output/bias"):
        arrays[prefix + name] = arrays[prefix + name][..., outputs.columns]
    expected = {variable.path: tuple(variable.shape) for variable in model.weights}
    assert {path: array.shape for path, array in arrays.items()} == expected
    return arrays
