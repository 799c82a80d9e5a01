"""Define what a format of export is, and the formats, which `asr.base.registry.EXPORT_FORMATS` lists.

A format writes a model to a folder, and names the runtime that runs what it wrote. `asr.export.exporting`
does the rest: the folder gets its name only after its outputs were compared with the trained model's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from asr.base.errors import UserError
from asr.base.model_files.model_file import SUFFIX
from asr.base.registry import load
from asr.base.system.files import cannot_write, refuse_existing, whole_folder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from asr.runs.run import Run
    from asr.transcription.recognizer import Recognizer

ABOUT_FILE = "model.json"  # describes the model for programs
EXTRA_ERRORS = 0.003  # 0.3 points

Waveform: TypeAlias = "npt.NDArray[np.int16]"  # (S,) at 16 kHz


@dataclass(frozen=True)
class TrainedModel:
    """What a format exports.

    Attributes:
        run: the run directory.
        recognizer: its chosen epoch, with greedy decoding.
        manifest: of the clips that the exported model is compared on.
        about: what `model.json` says about it.
    """

    run: Run
    recognizer: Recognizer
    manifest: Path
    about: Mapping[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """Return what a viewer shows beside a graph."""
        return {key: str(self.about[key]) for key in ("run", "checkpoint", "sample_rate_hz", "unit")}


@dataclass(frozen=True)
class Bounds:
    """How far an exported model's outputs may be from the trained model's.

    Attributes:
        same_logits: whether logits may differ by no more than `allowed_difference`, where the runtime gives
            them.
        same_tokens: whether the tokens of every clip must be the same.
        changed_tokens: largest share of tokens that may differ; None for any. On small sets, three may.
        extra_errors: largest increase of the error rate, of streams too; None for any. On small sets, three
            errors more are allowed.
        extra_written_errors: the same of the characters of texts, where the runtime writes them.
        time_difference_s: by which the beginning of a token may differ, where the runtime says when it is.
    """

    same_logits: bool = True
    same_tokens: bool = False
    changed_tokens: float | None = None
    extra_errors: float | None = None
    extra_written_errors: float | None = None
    time_difference_s: float = 0.2


class Card(NamedTuple):
    """What its publisher says about a model, in formats that have a card.

    Attributes:
        licence: of the weights, such as "CC BY-SA 4.0".
        text: in Markdown: from whom it learned, what it cannot do.
        recognizes: whether it recognizes speech as it is; else it is for fine-tuning and known text.
    """

    licence: str = ""
    text: str = ""
    recognizes: bool = True


class Settings(NamedTuple):
    """The settings of an export that concern the format.

    Attributes:
        quantize: name of a quantization; empty for none.
        card: what the publisher says.
    """

    quantize: str = ""
    card: Card = Card()


class Written(NamedTuple):
    """What a format says about the folder that it wrote.

    Attributes:
        model_files: names of the files that a program loads to run the model, whose size is reported.
        about: what `model.json` says besides `TrainedModel.about`.
        stream_runtime: "module:class" of a `Runtime` that runs clips as streams; empty if the model has none.
    """

    model_files: Sequence[str]
    about: Mapping[str, Any]
    stream_runtime: str = ""


class Outputs(NamedTuple):
    """What a runtime made of a clip.

    Attributes:
        logits: (T, V) float32; None if the runtime gives none.
        tokens: what it recognized; None to take the greedy tokens of the logits.
        text: what it writes of the tokens, hanzi for syllables; None if it writes no text.
        times_s: when each token begins; None if the runtime does not say.
    """

    logits: npt.NDArray[np.float32] | None
    tokens: tuple[str, ...] | None = None
    text: str | None = None
    times_s: tuple[float, ...] | None = None


class Runtime(Protocol):
    """A runtime of exported models; its class is called with the folder, in a process without TensorFlow.

    Attributes:
        takes_batches: whether `run` takes several clips, which it pads to the longest.
    """

    takes_batches: bool

    def run(self, waveforms: Sequence[Waveform]) -> list[Outputs]:
        """Return the outputs of clips; of one clip unless `takes_batches`."""


@dataclass(frozen=True)
class Format:
    """A format, which names what it needs by "module:name", so that nothing is imported before it is used.

    Attributes:
        about: what the folder holds, in a few words.
        write: the function (model, empty folder, settings) -> `Written` of all files but `model.json`. It
            raises a UserError that names the layer if the format cannot take it.
        runtime: the class of a `Runtime`.
        packages: modules that writing and running need, besides those of the installation.
        extra: extra of the installation that contains them.
        bounds: what is checked.
        quantizations: names that `quantize` may have, each with what is checked then.
        suffix: of the file, where the export is one file; empty for a folder.
        pack: the function (written folder, path of the file), where the export is one file.
    """

    about: str
    write: str
    runtime: str
    packages: tuple[str, ...] = ()
    extra: str = ""
    bounds: Bounds = Bounds()
    quantizations: Mapping[str, Bounds] | None = None
    suffix: str = ""
    pack: str = ""

    @contextlib.contextmanager
    def folder_for(self, target: Path) -> Iterator[Path]:
        """Make the folder to write to; the target is complete when the block ends, or not there."""
        if not self.pack:
            with whole_folder(target, "exported model") as folder:
                yield folder
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as hidden:
                yield Path(hidden)
                load(self.pack)(Path(hidden), target)
        except OSError as error:
            raise cannot_write(target, "model file", error) from None

    def refuse_target(self, target: Path) -> None:
        """Raise a UserError if something of that name exists, or a file needs another suffix."""
        refuse_existing(target)
        if target.suffix != self.suffix and self.suffix:
            raise UserError(f"`out={target}`: expected a name that ends in {self.suffix}; name it so")

    def require_packages(self) -> None:
        """Raise a UserError that names the extra if a package is missing."""
        missing = [name for name in self.packages if importlib.util.find_spec(name.split(".")[0]) is None]
        if missing:
            raise UserError(
                f"{', '.join(missing)}: not installed, which this export needs; "
                f"pip install 'polyphone[{self.extra}]'"
            )

    def bounds_of(self, name: str, quantize: str) -> Bounds:
        """Return what is checked with a quantization.

        Raises:
            UserError: the format has no such quantization.
        """
        if not quantize:
            return self.bounds
        known = self.quantizations or {}
        if quantize not in known:
            choices = f"expected {' or '.join(known)} for" if known else "expected none for"
            raise UserError(f"`quantize`: {choices} the format {name}, received {quantize!r}")
        return known[quantize]


QUANTIZED = Bounds(same_logits=False, extra_errors=EXTRA_ERRORS)
SHERPA_BOUNDS = replace(QUANTIZED, changed_tokens=0.01, extra_written_errors=0.01)

ONNX = Format(
    about="a folder for ONNX Runtime, with a script that needs little more",
    write="asr.export.runtimes.onnx.bundle:write_bundle",
    runtime="asr.export.runtimes.onnx.runtime:OnnxRuntime",
    quantizations={"int8": QUANTIZED},
)
SHERPA = Format(
    about="a folder for sherpa-onnx, on phones and in its twelve languages",
    write="asr.export.runtimes.sherpa.folder:write_folder",
    runtime="asr.export.runtimes.sherpa.runtime:SherpaRuntime",
    packages=("sherpa_onnx",),
    extra="sherpa",
    bounds=SHERPA_BOUNDS,
    quantizations={"int8": replace(SHERPA_BOUNDS, changed_tokens=0.03)},
)
LITERT = Format(
    about="model.tflite for phones",
    write="asr.export.runtimes.litert.bundle:write_bundle",
    runtime="asr.export.runtimes.litert.runtime:LiteRtRuntime",
    packages=("ai_edge_litert",),
    extra="litert",
    bounds=Bounds(same_tokens=True),
    quantizations={"int8": QUANTIZED},
)
SAVED_MODEL = Format(
    about="a SavedModel for TensorFlow Serving",
    write="asr.export.runtimes.saved_model.bundle:write_bundle",
    runtime="asr.export.runtimes.saved_model.runtime:SavedModelRuntime",
    bounds=Bounds(same_tokens=True),
)
POLYPHONE = Format(
    about="one file, NAME.polyphone, to publish, which commands and train.init_from take in place of a run",
    write="asr.export.runtimes.polyphone.bundle:write_bundle",
    runtime="asr.export.runtimes.polyphone.runtime:ModelFileRuntime",
    quantizations={"float16": QUANTIZED},
    suffix=SUFFIX,
    pack="asr.export.runtimes.polyphone.bundle:pack_bundle",
)
