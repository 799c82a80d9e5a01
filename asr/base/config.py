"""Typed configuration: TOML files that extend one another, and overrides such as "train.epochs=2".

    extends = "demo.toml"      # relative to this file; what stands here wins

    [train]
    epochs = 60

Every field is documented where it stands, below. A wrong key or value is an error that names the file,
the key, what was expected and the nearest valid name.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from asr.base.files import is_utf8, read_lines
from asr.base.types import UserError

Settings = TypeVar("Settings", bound=Any)

ASR = Path(__file__).resolve().parents[1]
BUILT_IN = next(folder for folder in (ASR / "configs", ASR.parent / "configs") if folder.is_dir())
"""The configurations that the project brings along: installed within `asr`, in a checkout beside it."""


class Range(NamedTuple):
    """Bounds of a number, both included."""

    low: float
    high: float


AtLeast1 = Annotated[int, Range(1, 10**9)]
Count = Annotated[int, Range(0, 10**9)]
Share = Annotated[float, Range(0.0, 1.0)]
Positive = Annotated[float, Range(1e-9, 1e9)]
Speed = Annotated[float, Range(0.25, 4.0)]
ReverberationTime = Annotated[float, Range(0.1, 2.0)]
SignalToNoise = Annotated[float, Range(-20.0, 60.0)]
Gain = Annotated[float, Range(-40.0, 40.0)]


@dataclass(frozen=True)
class DataConfig:
    """Where the recordings and their labels come from."""

    # A corpus that data_pipeline.corpora prepares at first use, or "" to give the manifests below.
    corpus: str = ""
    # The corpus as downloaded and unpacked; "" for a corpus that the project carries.
    source: str = ""
    # What its text is cut into: syllables, characters, words; "" for the labels that it brings along, or
    # else what it is usually labelled with.
    units: Literal["", "syllables", "characters", "words"] = ""
    # Where prepared corpora are kept.
    prepared_dir: str = "data"
    # Manifests (JSON Lines, see data_pipeline/manifest.py); a corpus fills in those left empty.
    train: str = ""
    dev: str = ""
    test: str = ""
    # Output units: "train" for every token of the training manifest, "mandarin" for every toned
    # syllable of Mandarin, or a file with one token a line below "<blank>".
    vocabulary: str = "train"


@dataclass(frozen=True)
class FeatureConfig:
    """What the model sees of the waveform; always 25 ms windows every 10 ms, at 16 kHz."""

    # log_mel; spectrogram, ASRT's 200 bins; or mfcc, as python_speech_features computes them.
    kind: Literal["log_mel", "spectrogram", "mfcc"] = "log_mel"
    # Bands of log_mel.
    num_mels: Annotated[int, Range(4, 128)] = 64
    # Mean 0 and variance 1 for each band of each utterance.
    normalize: bool = True


@dataclass(frozen=True)
class AugmentConfig:
    """What training changes in a clip, anew in every epoch. Dev and test are never changed."""

    # Speed and pitch together, drawn between these factors; 1.0 and 1.0 for none. Any factor in between is
    # as likely: 0.9 and 1.1 take the place of the usual three steps, 0.9, 1.0 and 1.1.
    speed_min: Speed = 1.0
    speed_max: Speed = 1.0
    # Reverberation: "" for none; "rooms" for simulated ones; or measured impulse responses, a folder of
    # audio files or a manifest (JSON Lines, of which only "audio" is read).
    reverb: str = ""
    # Share of the clips that get it, drawn anew in every epoch.
    reverb_probability: Share = 0.5
    # Until the sound of a simulated room has died away by 60 dB (RT60), in seconds.
    reverb_time_min_s: ReverberationTime = 0.15
    reverb_time_max_s: ReverberationTime = 0.6
    # Noise: "" for none; "coloured" for synthetic noise between white and brown; or recordings of noise, a
    # folder or a manifest as above. Up to 256 MB of them are kept in memory.
    noise: str = ""
    # Share of the clips that get it, drawn anew in every epoch.
    noise_probability: Share = 0.5
    # Speech above the noise, in dB; pauses do not count as speech.
    noise_snr_db_min: SignalToNoise = 5.0
    noise_snr_db_max: SignalToNoise = 25.0
    # Louder or quieter, in dB; 0.0 and 0.0 for none. A clip that would not fit into 16 bits is turned down.
    gain_db_min: Gain = 0.0
    gain_db_max: Gain = 0.0
    # The frequency axis is stretched by up to this share to either side: another vocal tract.
    frequency_warp: Annotated[float, Range(0.0, 0.5)] = 0.0
    # SpecAugment: masks per clip and the widest mask, in bands and in frames of 10 ms.
    frequency_masks: Count = 0
    frequency_mask_bands: Count = 15
    time_masks: Count = 0
    time_mask_frames: Count = 30
    # No time mask covers more than this share of the clip.
    time_mask_share: Share = 0.1


@dataclass(frozen=True)
class ModelConfig:
    """The network from features to logits."""

    # One-dimensional separable convolutions, or one of ASRT's networks.
    family: Literal["separable", "dcnn251bn", "dcnn251", "dcnn25", "dcnn24"] = "separable"
    # Size of the separable family, 0.4 to 40 million parameters: see asr/model/networks/separable.py.
    size: Literal["xs", "s", "m", "l", "xl"] = "xs"
    # Share of activations dropped in training; the dcnn family brings its own.
    dropout: Annotated[float, Range(0.0, 0.9)] = 0.1
    # Let toned syllables share what they have in common: initial, final and tone.
    factored_output: bool = False
    # Batch normalisation by the statistics of the whole batch, where several devices share it; else each
    # device uses those of its own rows.
    synchronized_batch_norm: bool = False


@dataclass(frozen=True)
class TrainConfig:
    """The loop."""

    # How often every utterance is trained on.
    epochs: AtLeast1 = 40
    # Seconds of audio in a batch, padding counted; of all devices together, where several share it.
    batch_s: Positive = 40.0
    # A batch is worked on in so many parts, one after the other: the memory of a part, the step of the whole,
    # but for batch statistics, which are each part's own.
    accumulate: Annotated[int, Range(1, 64)] = 1
    # adamw; adam; sgd, with Nesterov momentum of 0.9; lion; or adafactor.
    optimizer: Literal["adamw", "adam", "sgd", "lion", "adafactor"] = "adamw"
    # The highest learning rate, reached after the warm-up, a share of all steps.
    learning_rate: Positive = 2e-3
    warmup_share: Share = 0.1
    # What follows the warm-up: a cosine down to zero; constant; noam, which falls with the square root of the
    # step; or plateau, which is multiplied by a factor when the dev error has not fallen for some epochs.
    schedule: Literal["cosine", "constant", "noam", "plateau"] = "cosine"
    plateau_epochs: AtLeast1 = 3
    plateau_factor: Annotated[float, Range(0.01, 0.99)] = 0.5
    # Stop when the dev error has not fallen for so many epochs; 0 for never.
    early_stopping_epochs: Count = 0
    weight_decay: Share = 1e-2
    # Gradients are scaled down to this global norm.
    clip_norm: Positive = 5.0
    # Batches left out because their loss or gradients are infinite, before the run is stopped.
    max_skipped: Count = 20
    # What the network computes in; weights are float32. With float16 the loss is scaled, so that small
    # gradients do not vanish.
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    # Evaluate and keep an exponential moving average of the weights, with a decay such as 0.999; 0 for the
    # weights themselves.
    ema_decay: Annotated[float, Range(0.0, 0.999999)] = 0.0
    # Begin with the weights of another run, "runs/other": layers that match are taken, the rest are listed.
    init_from: str = ""
    # Layers that are not trained, by name, separated by commas; * stands for anything: "stage0, stage1/*".
    freeze: str = ""
    # A function of yours that returns Keras callbacks, as "module:function"; "" for none. They can monitor
    # loss, error, val_loss, val_error and learning_rate.
    callbacks: str = ""
    # Of the first weights, the order of batches and everything drawn in training.
    seed: Count = 1
    # Run directories are made here.
    runs_dir: str = "runs"
    # Seconds between checkpoints; there is one after every epoch as well.
    checkpoint_s: Positive = 600.0
    # Checkpoints that are kept: the latest, and those of the epochs with the lowest dev error.
    keep_last: AtLeast1 = 2
    keep_best: AtLeast1 = 5
    # Utterances of the dev set that TensorBoard shows, with sound, spectrogram and alignment, after epochs at
    # least a minute apart.
    tensorboard_utterances: Annotated[int, Range(0, 100)] = 4


@dataclass(frozen=True)
class Config:
    """A whole run, as `runs/<name>/config.toml` keeps it."""

    data: DataConfig = field(default_factory=DataConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def load_config(config: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration of a TOML file and what it extends, with some of its settings replaced.

    Args:
        config: path of the file, or the name of one in `configs/`, such as "demo".
        overrides: settings to replace, such as "train.epochs=2".

    Raises:
        UserError: a file is missing or is not TOML; a key or a value is not one of `Config`'s.
    """
    path = config if isinstance(config, Path) else find_config(config)
    loaded = _apply(Config(), _read_toml(path, ()))
    for override in overrides:
        loaded = _apply(loaded, [(f"`overrides={override}`", _parse_override(override))])
    return loaded


def find_config(name: str) -> Path:
    """The file of a configuration given as a path, or as the name of one in `configs/`.

    Raises:
        UserError: neither exists.
    """
    candidates = [Path(name), BUILT_IN / name, BUILT_IN / f"{name}.toml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = sorted(p.stem for p in BUILT_IN.glob("*.toml"))
    raise UserError(f"{name}: no such configuration{nearest(name, known)}; built in are {', '.join(known)}")


def dump_config(config: Config) -> str:
    """The configuration as TOML, every key written out; `load_config` reads it back unchanged."""
    lines: list[str] = []
    for section in dataclasses.fields(config):
        lines.append(f"[{section.name}]")
        values = getattr(config, section.name)
        lines += [*toml_lines(values), ""]
    return "\n".join(lines)


def toml_lines(settings: Settings) -> list[str]:
    """Return the fields of a dataclass as lines of TOML, each with its value."""
    # JSON's strings, numbers and booleans are valid TOML
    return [
        f"{field.name} = {json.dumps(getattr(settings, field.name), ensure_ascii=False)}"
        for field in dataclasses.fields(settings)
    ]


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A TOML file's table.

    Args:
        path: of the file.
        what: it is, for an error.

    Raises:
        UserError: there is no such file, or it is no TOML.
    """
    try:
        return tomllib.loads("\n".join(read_lines(path, what)))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


_Layer = tuple[str, dict[str, Any]]  # where it comes from, and what it says


def _read_toml(path: Path, seen: tuple[Path, ...]) -> list[_Layer]:
    """The layers of a file, the most basic first."""
    if path.resolve() in seen:
        raise UserError(f"{path}: extends itself, by way of {seen[-1]}; remove one of the two lines")
    table = read_toml(path, "configuration")
    parent = table.pop("extends", None)
    if parent is None:
        return [(str(path), table)]
    if not isinstance(parent, str):
        raise UserError(f"{path}: extends: expected the name of a file, received {parent!r}")
    return [*_read_toml(path.parent / parent, (*seen, path.resolve())), (str(path), table)]


def _parse_override(override: str) -> dict[str, Any]:
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot):
        raise UserError(f"`overrides={override}`: expected section.key=value, such as train.epochs=60")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string: model.size=s
    return {section: {name: value}}


def _apply(config: Config, layers: list[_Layer]) -> Config:
    sections = {f.name: f for f in dataclasses.fields(Config)}
    for source, table in layers:
        for name, values in table.items():
            if name not in sections:
                raise UserError(
                    f"{source}: {name}: no such section{nearest(name, sections)}; "
                    f"sections are {', '.join(sections)}"
                )
            if not isinstance(values, dict):
                raise UserError(f"{source}: {name}: expected a section [{name}], received {values!r}")
            section = getattr(config, name)
            config = dataclasses.replace(config, **{name: replaced(section, values, f"{source}: {name}.")})
    return config


def replaced(settings: Settings, values: Mapping[str, Any], where: str) -> Settings:
    """Settings, of a dataclass whose types tell what is allowed, with some of them replaced.

    Args:
        settings: as they are.
        values: new ones, by name.
        where: goes before a name in an error, such as `demo.toml: train.`.

    Raises:
        UserError: a name or a value is not one of the settings'.
    """
    types = typing.get_type_hints(type(settings), include_extras=True)
    for key, value in values.items():
        if key not in types:
            raise UserError(f"{where}{key}: no such key{nearest(key, types)}; keys are {', '.join(types)}")
        settings = dataclasses.replace(settings, **{key: _checked(where + key, value, types[key])})
    return settings


def _checked(where: str, value: Any, expected: Any) -> Any:
    if typing.get_origin(expected) is Literal:
        choices = typing.get_args(expected)
        if value not in choices:
            raise UserError(
                f"{where}: expected one of {', '.join(choices)}, received {value!r}"
                f"{nearest(str(value), choices)}"
            )
        return value
    bounds = None
    if typing.get_origin(expected) is Annotated:
        expected, bounds = typing.get_args(expected)
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        remedy = "; put it in quotes" if expected is str else ""
        raise UserError(f"{where}: expected {expected.__name__}, received {value!r}{remedy}")
    if bounds and not bounds.low <= value <= bounds.high:
        raise UserError(f"{where}: expected {bounds.low:g} to {bounds.high:g}, received {value!r}")
    if expected is str and not is_utf8(value):
        raise UserError(f"{where}: {value!r} cannot be written as UTF-8; rename it")
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after the known name that comes closest; empty where none does."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""
