"""Export a run in one call: write the model in a format, run it, and compare it with the trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.errors import UserError
from asr.base.registry import EXPORT_FORMATS, load, load_part
from asr.base.system.shards import has_manifest
from asr.base.system.storage.address import path_of
from asr.base.text.wording import listed
from asr.base.work import OnProgress, ignore_progress
from asr.export.format import Bounds, Card, Format, Settings, TrainedModel, Written

if TYPE_CHECKING:
    from asr.evaluation.evaluator import EvaluationData
    from asr.export.parity import Parity
    from asr.runs.run import Run

DEFAULT_FORMAT = "onnx"


@dataclass(frozen=True)
class Exported:
    """What an export made.

    Attributes:
        folder: the folder, or the file of a format that has one.
        format: name of its format.
        parity: how the exported model compares with the trained one.
        bounds: how far it may be from it.
    """

    folder: Path
    format: str
    parity: Parity
    bounds: Bounds


class ParityError(UserError):
    """Raised when an exported model differs from the trained one by more than its bounds allow.

    Attributes:
        parity: what was measured.
        bounds: what was allowed.
    """

    def __init__(self, out: Path, parity: Parity, bounds: Bounds) -> None:
        self.parity, self.bounds = parity, bounds
        reasons = "; ".join(parity.beyond(bounds))
        super().__init__(f"{out}: not written, because the exported model is not the trained one: {reasons}")


def export(
    run: str | Path,
    out: str | Path,
    format: str = DEFAULT_FORMAT,  # noqa: A002 (as the option of the command)
    *,
    quantize: str = "",
    manifest: str | Path | None = None,
    clips: int | None = None,
    card: Card | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Exported:
    """Export the chosen epoch of a run, and compare what was exported with it.

    Args:
        run: directory of the run, or a model file.
        out: the folder to make, or the file, NAME.polyphone; it is complete, or not there.
        format: a name in `asr.base.registry.EXPORT_FORMATS`.
        quantize: "int8" or "float16" for a smaller model, where the format has it; "" for float32.
        manifest: clips to compare on; None for the run's test set.
        clips: number of clips to compare on, evenly spread over the set; None for all.
        card: what the publisher says about a model file.
        on_progress: receives the progress of checking the clips and of the comparison.

    Raises:
        ParityError: the outputs differ by more than the format allows.
        UserError: there is no trained run, the format does not exist or cannot take the model, a package is
            missing, no clip can be read, or the folder exists or cannot be written.
    """
    made, target, settings = format_of(format), Path(out), Settings(quantize, card or Card())
    bounds = made.bounds_of(format, quantize)
    if card is not None and not made.suffix:
        raise UserError(f"`card`: expected none for the format {format}, which has no card; leave it out")
    if clips is not None and clips < 1:
        raise UserError(f"`clips`: expected 1 or more, received {clips}")
    made.refuse_target(target)
    made.require_packages()
    trained, data = _trained_model(run, manifest, clips, on_progress)
    from asr.export.about import write_about
    from asr.export.comparison import ExportedFolder, measure

    with made.folder_for(target) as folder:
        written: Written = load(made.write)(trained, folder, settings)
        about: dict[str, Any] = {"format": format, "quantize": quantize, **trained.about, **written.about}
        write_about(folder, about)
        exported = ExportedFolder(folder, made.runtime, written)
        parity = measure(trained.recognizer, data, trained.manifest, exported, bounds, on_progress)
        if parity.beyond(bounds):
            raise ParityError(target, parity, bounds)
        write_about(folder, {**about, "parity": parity.as_json()})
    return Exported(target, format, parity, bounds)


def format_of(name: str) -> Format:
    """Return a format by its name.

    Raises:
        UserError: there is none of that name.
    """
    if name not in EXPORT_FORMATS:
        known = listed(list(EXPORT_FORMATS), len(EXPORT_FORMATS))
        raise UserError(f"`format`: expected one of {known}, received {name!r}")
    found: Format = load_part(EXPORT_FORMATS, name)
    return found


def _trained_model(
    named: str | Path, manifest: str | Path | None, clips: int | None, on_progress: OnProgress
) -> tuple[TrainedModel, EvaluationData]:
    """Return a run's model, and the clips to compare on."""
    from asr.runs.run import Run

    run = Run.open(named)
    run.chosen_checkpoint()
    path = _manifest(run, manifest)
    from asr.model.devices import start_devices

    start_devices()  # before the import of TensorFlow, to silence its logs
    from asr.evaluation.data import evaluation_data
    from asr.export.about import describe
    from asr.transcription.recognizer import Recognizer

    recognizer = Recognizer.trained(run)
    data, _ = evaluation_data(path, recognizer.vocabulary, on_progress, clips)
    return TrainedModel(run, recognizer, path, describe(run, recognizer)), data


def _manifest(run: Run, manifest: str | Path | None) -> Path:
    if manifest is not None:
        return path_of(manifest)
    data = run.config().data
    own = "" if run.is_model_file else data.test or data.dev
    if not own:
        what = f"{run.directory.name}: a model file" if run.is_model_file else f"{run.directory}: this run"
        raise UserError(
            f"{what} has no test or dev set, and an export is compared with the "
            "trained model on clips; name a list of clips by `manifest`"
        )
    path = path_of(own)
    if not has_manifest(path):
        raise UserError(
            f"{run.directory}: its {'test' if data.test else 'dev'} set, {path}, is not there, and an export "
            "is compared with the trained model on clips; name another list of clips by `manifest`"
        )
    return path
