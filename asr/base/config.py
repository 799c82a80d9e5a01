"""Load the typed configuration: TOML files that extend one another, with overrides such as "train.epochs=2".

    extends = "demo.toml"      # relative to this file, whose own keys win

    [train]
    epochs = 60

Every field is documented where it is defined, below. The error for a wrong key or value names the file, the
key, what was expected and the most similar valid name.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from asr.base.errors import UserError
from asr.base.model_files.named import named_folder
from asr.base.registry import FEATURE_KINDS, NETWORKS, SIZED_NETWORKS
from asr.base.system.files import is_utf8, read_lines
from asr.base.system.storage.address import path_of
from asr.base.text.units import read_units
from asr.base.text.wording import did_you_mean

Settings = TypeVar("Settings", bound=Any)

ASR = Path(__file__).resolve().parents[1]
BUILT_IN = next(folder for folder in (ASR / "configs", ASR.parent / "configs") if folder.is_dir())
"""The folder of the built-in configurations: within `asr` where it is installed, beside it in a checkout."""
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}  # of values, in errors
OWN_RATE, OWN_RATES = 3e-3, {"conformer": 1e-3}  # learning rates of the networks


class Range(NamedTuple):
    """The bounds of a number, both included."""

    low: float
    high: float


class OneOf(NamedTuple):
    """The names that a setting may have: those of a registry."""

    names: Collection[str]


class Checked(NamedTuple):
    """The check of a text other than "", which raises a UserError that states what is expected."""

    check: Callable[[str], object]


_Layer = tuple[str, dict[str, Any]]  # the file (or override) and its table
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
    """The recordings and their labels."""

    # Name of a corpus, which data_pipeline.corpora prepares at first use; "" to use the manifests below.
    # Several are trained on together: "thchs30, hsk_words, mine=table", where `mine` names a table of yours.
    corpus: str = ""
    # Folder of the corpus as downloaded and unpacked; "" for one that is part of the project. Of several:
    # "thchs30=FOLDER, mine=FILE"; a folder without a name holds a folder for each of the others.
    source: str = ""
    # Where to download corpora from that are not in `source` yet: published, for their published addresses;
    # or a mirror with the same paths, such as openslr.elda.org; "" for nowhere. An unfinished download is
    # resumed.
    download: str = ""
    # How often an epoch has each utterance of some of several corpora, "thchs30=2, mine=0.3"; 1 for the
    # others. A fraction is drawn again in every epoch.
    weights: str = ""
    # Speakers who are never trained on, separated by commas; they become the test set of their corpus.
    held_out_speakers: str = ""
    # Corpora of words or syllables whose training recordings are joined to strings of up to 6 s by one
    # speaker, separated by commas: names of `corpus`. Words alone teach little about sentences.
    strings: str = ""
    # Units that the text is split into: syllables, characters or words; bpe:500 or unigram:500 for that many
    # pieces of words, learned from the training text by sentencepiece; mixed:200 for syllables, and that many
    # pieces of Latin words; the units.model of other labels or of a run for the same pieces, with mixed:
    # before it for syllables too; "" for the labels that the corpus contains, or else its usual units.
    units: Annotated[str, Checked(read_units)] = ""
    # Folder in which prepared corpora are kept.
    prepared_dir: str = "data"
    # Manifest of the training set (JSON Lines, see data_pipeline/manifests/manifest.py). `corpus` fills in
    # those of the three manifests that are empty. Any manifest may be in shards, "train-*.jsonl", and
    # compressed, "train.jsonl.gz", and in object storage, "s3://BUCKET/train.jsonl".
    train: str = ""
    # Manifests that `asr label` made, separated by commas; they are trained on together with `train`.
    # Recordings of `train`, `dev` and `test` in them are left out. `train.label_weight` weighs them.
    machine_labelled: str = ""
    # Manifest of the dev set, by which the epoch to decode with is chosen.
    dev: str = ""
    # Manifest of the test set, on which the chosen epoch is evaluated for the report. Where
    # there is none, nothing is tested, and the report has the errors on dev.
    test: str = ""
    # Manifests of further test sets, separated by commas; each is evaluated as `test` is, and has a report
    # of its own. `corpus` fills in those that it has, such as test_other of LibriSpeech; of several corpora,
    # it logs their files, which can be named here.
    more_tests: str = ""
    # Output units: "auto" for every token of the training manifest and, with train.init_from, every token of
    # that run if its unit is the same; "train" for the manifest's tokens alone; "mandarin" for every toned
    # syllable of Mandarin; or a file with "<blank>" on the first line, then one token a line.
    vocabulary: str = "auto"

    @property
    def more_test_manifests(self) -> list[Path]:
        """Return the manifests of the further test sets."""
        return _paths_in(self.more_tests)

    @property
    def machine_labelled_manifests(self) -> list[Path]:
        """Return the manifests that a model has labelled."""
        return _paths_in(self.machine_labelled)


def _paths_in(texts: str) -> list[Path]:
    return [path_of(path) for text in texts.split(",") if (path := text.strip())]


@dataclass(frozen=True)
class FeatureConfig:
    """What the model gets of the waveform, in windows of 25 ms every 10 ms at 16 kHz."""

    # log_mel; spectrogram (ASRT's 200 bins); mfcc (as python_speech_features computes them); or fbank (as
    # Kaldi computes them, and with it runtimes such as sherpa-onnx).
    kind: Annotated[str, OneOf(FEATURE_KINDS)] = "log_mel"
    # Number of mel bands of log_mel and fbank, up to 124 of fbank; 0 for 64 of log_mel, and for 80 of fbank,
    # which is what runtimes expect.
    num_mels: Annotated[int, Range(0, 128)] = 0
    # Normalise each band of each utterance to mean 0 and variance 1.
    normalize: bool = True
    # Over which frames: those loud enough to be speech, so that silence around it changes nothing; or clip,
    # all of them, as in runs from before this key existed.
    normalize_over: Literal["speech", "clip"] = "speech"
    # Add 48 features of the pitch of the voice, for languages with tones: those of the spectrum say little
    # about the tones of low voices. A two-dimensional stem (model.stem) has convolutions of its own for them;
    # for other networks, they are further bands.
    pitch: bool = False


@dataclass(frozen=True)
class AugmentConfig:
    """How training clips are varied, differently in every epoch; dev and test are not."""

    # Lowest factor of speed and pitch, which change together; 1.0 and 1.0 for none. Factors are drawn
    # log-uniformly: 0.9 and 1.1 replace the usual three steps, 0.9, 1.0 and 1.1.
    speed_min: Speed = 1.0
    # Highest factor of speed and pitch.
    speed_max: Speed = 1.0
    # Reverberation: "" for none; "rooms" for simulated rooms; or measured impulse responses, as a folder of
    # audio files or a manifest (JSON Lines, of which only "audio" is read).
    reverb: str = ""
    # Share of the clips that get reverberation, drawn again in every epoch.
    reverb_probability: Share = 0.5
    # Shortest reverberation time of a simulated room (RT60: decay by 60 dB), in seconds.
    reverb_time_min_s: ReverberationTime = 0.15
    # Longest reverberation time of a simulated room, in seconds.
    reverb_time_max_s: ReverberationTime = 0.6
    # Noise: "" for none; "coloured" for synthetic noise between white and brown; or recordings of noise, as a
    # folder or a manifest as above. Up to 256 MB of them are kept in memory.
    noise: str = ""
    # Share of the clips that get noise, drawn again in every epoch.
    noise_probability: Share = 0.5
    # Lowest signal-to-noise ratio, in dB; pauses do not count as speech.
    noise_snr_db_min: SignalToNoise = 5.0
    # Highest signal-to-noise ratio, in dB.
    noise_snr_db_max: SignalToNoise = 25.0
    # Share of the clips that get pauses, silent or with room tone, before and after the speech.
    pauses: Share = 0.5
    # Lowest gain, in dB; 0.0 and 0.0 for none. It is reduced where a clip would exceed 16 bits.
    gain_db_min: Gain = 0.0
    # Highest gain, in dB.
    gain_db_max: Gain = 0.0
    # Share of the clips that a telephone (8 kHz, G.711) or a codec at a low rate (MP3, Opus) transmits.
    channels: Share = 0.0
    # The frequency axis is stretched or compressed by up to this share, as another vocal tract would. The
    # cepstra of mfcc have no such axis and stay as they are.
    frequency_warp: Annotated[float, Range(0.0, 0.5)] = 0.0
    # SpecAugment: number of frequency masks in a clip.
    frequency_masks: Count = 0
    # Maximum width of a frequency mask, in bands; never more than half of them.
    frequency_mask_bands: Count = 15
    # SpecAugment: number of time masks in a clip.
    time_masks: Count = 0
    # Maximum width of a time mask, in frames of 10 ms.
    time_mask_frames: Count = 30
    # No time mask covers more than this share of the clip.
    time_mask_share: Share = 0.1
    # Subword regularisation, of labels in pieces: the same words in other pieces. With bpe and mixed, share
    # of the merges that are left out, 0.1 as in BPE-dropout (Provilkov et al., 2020, arXiv:1910.13267); with
    # unigram, share of the words whose pieces are drawn by their probability, 1.0 as in Kudo (2018,
    # arXiv:1804.10959). 0 for none.
    piece_sampling: Share = 0.0


@dataclass(frozen=True)
class ModelConfig:
    """The network from features to logits."""

    # Architecture: separable (one-dimensional separable convolutions), conformer (attention and convolutions;
    # Gulati et al., 2020, arXiv:2005.08100), or one of ASRT's networks.
    family: Annotated[str, OneOf(NETWORKS)] = "separable"
    # Size of the network: 0.4 to 40 million parameters in the separable family, 1.5 to 45 million in the
    # conformer family, which has no sm, sm_deep and xl: see asr/model/networks/separable.py and conformer.py.
    size: Literal["xs", "s", "sm", "sm_deep", "m", "l", "xl"] = "xs"
    # Share of activations dropped in training; the dcnn networks have fixed shares of their own.
    dropout: Annotated[float, Range(0.0, 0.9)] = 0.1
    # How a network of the separable family begins: with a convolution over time (1d), or with two (2d) or
    # three (2d_deep, 2d_fast) over time and frequency, which find the sounds of other voices at other
    # frequencies; behind 2d_fast there are a quarter of the frames, behind the others half of them. See
    # asr/model/networks/stem.py.
    stem: Literal["1d", "2d", "2d_deep", "2d_fast"] = "1d"
    # Let the outputs of toned syllables share weights by initial, final and tone.
    factored_output: bool = False
    # Intermediate CTC (Lee & Watanabe, 2021, arXiv:2102.03216), of the separable and conformer families:
    # where in the network there are outputs with a loss of their own in training, as shares of its blocks:
    # "0.7", "0.5, 0.8"; "" for none. Decoding does without them.
    intermediate_ctc: str = ""
    # What these outputs are: the tokens, as those of the last layer, or phones: the initials and the finals,
    # with their tones, of toned syllables (hierarchical CTC; Sanabria & Metze, 2018, arXiv:1807.07104). Many
    # syllables share a phone, so that lower layers learn the sounds of rare syllables from frequent ones.
    intermediate_units: Literal["tokens", "phones"] = "tokens"
    # Self-conditioned CTC (Nozaki & Komatsu, 2021, arXiv:2104.02724): layers behind an intermediate output
    # get its probabilities, in decoding as well.
    self_conditioned: bool = False
    # Of the conformer family: seconds of the chunks in which streams and recordings are recognized, a
    # multiple of 0.08, such as 0.64; a frame then depends on nothing behind its chunk. Half of the batches of
    # training see whole clips (dynamic chunk training; Zhang et al., 2020, arXiv:2012.05481). 0 for whole
    # clips alone. Set features.normalize = false with it, as normalisation looks at the whole clip.
    chunk_s: Annotated[float, Range(0.0, 10.0)] = 0.0
    # Normalise by the statistics of the whole batch where several devices share it; otherwise each device
    # uses the statistics of its own rows.
    synchronized_batch_norm: bool = False

    @property
    def title(self) -> str:
        """Return what to call the network: its family, and its size if the family has several."""
        return f"{self.family} {self.size}" if self.family in SIZED_NETWORKS else self.family


@dataclass(frozen=True)
class TrainConfig:
    """The training loop, its optimizer and its checkpoints."""

    # Number of passes over the training set.
    epochs: AtLeast1 = 40
    # Seconds of audio in a batch, padding included; the total of all devices that share the batch.
    batch_s: Positive = 40.0
    # Gradient accumulation: number of parts in which a batch is processed one after the other, in the memory
    # of one part. The step equals that of the whole batch, except that batch statistics are each part's own.
    accumulate: Annotated[int, Range(1, 64)] = 1
    # Without a GPU, and without `--gpus`: number of towers that share each batch, side by side on the cores,
    # which takes less time than all cores at one operation after the other. As on several GPUs, batch
    # statistics are each tower's own.
    cpu_towers: Annotated[int, Range(1, 64)] = 2
    # adamw, adam, sgd (with Nesterov momentum of 0.9), lion or adafactor.
    optimizer: Literal["adamw", "adam", "sgd", "lion", "adafactor"] = "adamw"
    # Peak learning rate, reached at the end of the warm-up; 0 for the network's own: 1e-3 of a Conformer and
    # 3e-3 of the others; with `init_from` a tenth of it, or a third where 70 % of dev or more is wrong
    # before training.
    learning_rate: Annotated[float, Range(0.0, 1e9)] = 2e-3
    # Length of the warm-up, as a share of all steps.
    warmup_share: Share = 0.1
    # Learning rate after the warm-up: cosine (down to zero), constant, noam (falls with the square root of
    # the step), or plateau (multiplied by `plateau_factor` when the dev error has not improved for
    # `plateau_epochs` epochs).
    schedule: Literal["cosine", "constant", "noam", "plateau"] = "cosine"
    # With `plateau`: number of epochs without a lower dev error before the learning rate is reduced.
    plateau_epochs: AtLeast1 = 3
    # With `plateau`: factor by which the learning rate is multiplied.
    plateau_factor: Annotated[float, Range(0.01, 0.99)] = 0.5
    # Stop when the dev error has not improved for this number of epochs; 0 for never.
    early_stopping_epochs: Count = 0
    # Weight decay, decoupled from the gradient; biases and normalisation have none, and `adam` ignores it. On
    # small corpora, networks learn more with much more of it: their built-in configurations have 0.3. See
    # docs/guides/methods.md.
    weight_decay: Share = 1e-2
    # Clip the gradients to this global norm.
    clip_norm: Positive = 5.0
    # Flat start, as of hidden Markov models: in this share of the steps, alignments in which the labels are
    # spread evenly over the clip are preferred, less and less. Without it, a network whose receptive field
    # covers a clip may learn to write all labels in the clip's first frames. 0 for none.
    flat_start: Share = 0.1
    # Weight of the loss of an utterance that a model has labelled (`asr label`), relative to one that people
    # have: below 1, wrong labels cost less. `asr label` leaves doubtful ones out, and those that are left
    # count in full, as in Kahn et al. (2020, arXiv:1909.09116) and Park et al. (2020, arXiv:2005.09629).
    label_weight: Annotated[float, Range(0.001, 10.0)] = 1.0
    # Share of the losses of `model.intermediate_ctc` in the whole loss.
    intermediate_weight: Share = 0.3
    # Consistency regularisation (CR-CTC; Yao et al., 2024, arXiv:2410.05101): the model processes two views
    # of each clip, masked by SpecAugment independently, and learns to give both the same outputs. Weight of
    # the divergence of the two, raised linearly during the warm-up: 0.2 in the paper, 0 for a single view.
    # Both views count in `batch_s`, so a batch has half of the clips, and an epoch twice the steps.
    consistency: Annotated[float, Range(0.0, 10.0)] = 0.0
    # With `consistency`: factor of `augment.time_masks`; views that differ more teach more.
    consistency_mask_factor: Annotated[float, Range(1.0, 10.0)] = 2.5
    # Number of batches with infinite loss or gradients that are skipped before the run is stopped.
    max_skipped: Count = 20
    # Number format of the network's computations; weights are float32. With float16 the loss is scaled, so
    # that small gradients do not underflow.
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    # Decay of an exponential moving average of the weights, such as 0.999; the average is evaluated and kept
    # to decode with. 0 for the weights themselves.
    ema_decay: Annotated[float, Range(0.0, 0.999999)] = 0.0
    # Start from the weights of another run, "runs/other", of a model file, "NAME.polyphone", of one at an
    # address, or of the model "general", if the installation carries it: layers that match are copied, the
    # rest are listed. [features] and [model] are then the other run's, and augmentation, learning rate,
    # epochs, weight decay and flat start suit fine-tuning, except for the settings in your own file and those
    # after `--set`: size sm_deep adds blocks to an sm, which change nothing before training. Its weights are
    # epoch 0: an epoch with more errors on dev is not chosen.
    init_from: str = ""
    # Names of layers that are not trained, separated by commas; * is a wildcard: "stage0, stage1/*".
    freeze: str = ""
    # Your function that returns Keras callbacks, as "module:function"; "" for none. They can monitor
    # loss, error, val_loss, val_error and learning_rate.
    callbacks: str = ""
    # Seed of the initial weights, the order of batches and everything drawn in training.
    seed: Count = 1
    # Folder in which run directories are created.
    runs_dir: str = "runs"
    # Seconds between checkpoints; there is one after every epoch as well.
    checkpoint_s: Positive = 600.0
    # Number of latest checkpoints that are kept.
    keep_last: AtLeast1 = 2
    # Number of checkpoints that are kept of the epochs with the lowest dev error.
    keep_best: AtLeast1 = 5
    # Number of dev utterances that TensorBoard shows after an epoch, with sound, spectrogram and alignment;
    # at most once a minute.
    tensorboard_utterances: Annotated[int, Range(0, 100)] = 4

    @property
    def num_views(self) -> int:
        """Return the number of views of each clip that a step learns from."""
        return 2 if self.consistency else 1

    @property
    def batch_clips_s(self) -> float:
        """Return the seconds of clips in a batch, padding included, each counted once."""
        return self.batch_s / self.num_views


@dataclass(frozen=True)
class DecodeConfig:
    """How the chosen epoch is decoded for the report; the run is decoded so from then on."""

    # Language model: train, for one of the text of the training set, which is kept in the run's folder `lm`;
    # a folder made by `asr lm train`; or an ARPA or KenLM file. Its weight is tuned on dev when all epochs
    # are trained, as `asr tune-decoder` does. "" for none, which is greedy decoding.
    language_model: str = ""
    # With language_model = "train": length of its longest n-grams.
    order: Annotated[int, Range(2, 6)] = 3


@dataclass(frozen=True)
class Config:
    """The settings of a whole run, as in `runs/<name>/config.toml`."""

    data: DataConfig = field(default_factory=DataConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)


BEFORE_THEIR_KEYS = Config(
    features=FeatureConfig(normalize_over="clip"),
    augment=AugmentConfig(pauses=0.0),
    train=TrainConfig(cpu_towers=1, flat_start=0.0),
)
"""Values of keys for configurations written before the keys existed."""

RECIPE: _Layer = (
    "train.init_from",
    {
        "augment": {
            "speed_min": 0.9,
            "speed_max": 1.1,
            "frequency_warp": 0.0,
            "frequency_masks": 2,
            "frequency_mask_bands": 10,
        },
        "train": {"epochs": 25, "learning_rate": 0, "weight_decay": 0.05, "flat_start": 0.0},
    },
)
"""Settings of a run that starts from the weights of another, where the user has set no others.

The usual ones, which find weights from random ones, undo what the other run has learned:
docs/guides/how-much-data.md has the figures.
"""


def load_config(config: str | Path, overrides: Sequence[str] = (), defaults: Config | None = None) -> Config:
    """Return the configuration of a TOML file and what it extends, with some of its settings replaced.

    Args:
        config: path of the file, or the name of one in `configs/`, such as "demo".
        overrides: settings to replace, such as "train.epochs=2".
        defaults: the values of keys that are not in the file; None for those of `Config`.

    Raises:
        UserError: a file is missing or is not TOML, or a key or a value is not valid.
    """
    path = config if isinstance(config, Path) else find_config(config)
    layers = _read_toml(path, ())
    set_here = [(f"`overrides={override}`", _parse_override(override)) for override in overrides]
    loaded = _apply(defaults or Config(), [*layers, *set_here])
    if loaded.train.init_from and defaults is None:
        loaded = _apply(loaded, [*_fine_tuning_layers(loaded.train.init_from, layers), *set_here])
    if loaded.train.learning_rate or loaded.train.init_from:
        return loaded
    rate = own_learning_rate(loaded.model.family)
    return dataclasses.replace(loaded, train=dataclasses.replace(loaded.train, learning_rate=rate))


def own_learning_rate(family: str) -> float:
    """Return the rate with which a network learns well from random weights."""
    return OWN_RATES.get(family, OWN_RATE)


def _fine_tuning_layers(init_from: str, layers: list[_Layer]) -> list[_Layer]:
    """Return the features and the network of the run to start from, the recipe, and the user's own layers.

    Neither a built-in configuration nor that of the other run is the user's own.
    """
    stored = named_folder(init_from) / "config.toml"
    others = {stored.resolve(), *BUILT_IN.resolve().glob("*.toml")}
    own = [layer for layer in layers if Path(layer[0]).resolve() not in others]
    if not stored.is_file():
        return [RECIPE, *own]  # the error comes when weights are loaded
    parent = _apply(BEFORE_THEIR_KEYS, _read_toml(stored, ()))
    return [(str(stored), {"features": vars(parent.features), "model": vars(parent.model)}), RECIPE, *own]


def find_config(name: str) -> Path:
    """Return the file of a configuration given as a path, or as the name of one in `configs/`.

    Raises:
        UserError: there is no such file.
    """
    candidates = [path_of(name), BUILT_IN / name, BUILT_IN / f"{name}.toml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if "=" in name:
        raise UserError(f"{name}: expected a configuration, received a setting; write `overrides={name}`")
    known = sorted(p.stem for p in BUILT_IN.glob("*.toml"))
    raise UserError(
        f"{name}: no such configuration{did_you_mean(name, known)}; the built-in ones are {', '.join(known)}"
    )


def dump_config(config: Config) -> str:
    """Return the configuration as TOML with every key written out; `load_config` reads it back."""
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
    """Return the table of a TOML file.

    Args:
        path: of the file.
        what: kind of the file, for an error, such as "configuration".

    Raises:
        UserError: the file cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads("\n".join(read_lines(path, what)))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def _read_toml(path: Path, seen: tuple[Path, ...]) -> list[_Layer]:
    """Return the layers of a file and of what it extends, the most basic first."""
    if path.resolve() in seen:
        raise UserError(f"{path}: extends itself through {seen[-1]}; remove one of the two `extends` lines")
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
        value = text.strip()  # an unquoted word is a string: model.size=s
    return {section: {name: value}}


def _apply(config: Config, layers: list[_Layer]) -> Config:
    sections = {f.name: f for f in dataclasses.fields(Config)}
    for source, table in layers:
        for name, values in table.items():
            if name not in sections:
                raise UserError(
                    f"{source}: {name}: no such section{did_you_mean(name, sections)}; "
                    f"sections are {', '.join(sections)}"
                )
            if not isinstance(values, dict):
                raise UserError(f"{source}: {name}: expected a section [{name}], received {values!r}")
            section = getattr(config, name)
            config = dataclasses.replace(config, **{name: replaced(section, values, f"{source}: {name}.")})
    return config


def replaced(settings: Settings, values: Mapping[str, Any], where: str) -> Settings:
    """Return settings with some values replaced; the dataclass's type annotations say what is valid.

    Args:
        settings: a dataclass.
        values: the new values by name.
        where: prefix of the name in an error, such as `demo.toml: train.`.

    Raises:
        UserError: a name is unknown or a value is not valid.
    """
    types = typing.get_type_hints(type(settings), include_extras=True)
    for key, value in values.items():
        if key not in types:
            raise UserError(
                f"{where}{key}: no such key{did_you_mean(key, types)}; keys are {', '.join(types)}"
            )
        settings = dataclasses.replace(settings, **{key: _checked(where + key, value, types[key])})
    return settings


def choices_of(expected: Any) -> tuple[str, ...]:
    """Return the values that the type of a setting allows, where it names them all; else nothing."""
    if typing.get_origin(expected) is Literal:
        return typing.get_args(expected)
    metadata = getattr(expected, "__metadata__", ())  # of Annotated
    return tuple(name for item in metadata if isinstance(item, OneOf) for name in item.names)


def _checked(where: str, value: Any, expected: Any) -> Any:
    if choices := choices_of(expected):
        if value not in choices:
            raise UserError(
                f"{where}: expected one of {', '.join(choices)}, received {value!r}"
                f"{did_you_mean(str(value), choices)}"
            )
        return value
    bounds = None
    if typing.get_origin(expected) is Annotated:
        expected, bounds = typing.get_args(expected)
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        remedy = "; put it in quotes" if expected is str else ""
        raise UserError(f"{where}: expected {KINDS[expected]}, received {value!r}{remedy}")
    if isinstance(bounds, Checked):
        _check_text(where, value, bounds)
    elif bounds and not bounds.low <= value <= bounds.high:
        raise UserError(f"{where}: expected {bounds.low:g} to {bounds.high:g}, received {value!r}")
    if expected is str and not is_utf8(value):
        raise UserError(f"{where}: {value!r} cannot be written as UTF-8; rename it")
    return value


def _check_text(where: str, value: str, checked: Checked) -> None:
    try:
        if value:
            checked.check(value)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
