"""Make a corpus of speech by Kokoro: many speakers say sentences of texts, on all cores.

    from data_pipeline.recordings.kokoro.corpus import KokoroSettings, synthesize_by_kokoro
    settings = KokoroSettings(Path("kokoro.onnx"), Path("voices"), ["texts/"])
    made = synthesize_by_kokoro(Path("data/made"), settings, num_utterances=1000)

Which sentence a clip says, who says it and how fast follow from the seed and the clip's number. A clip gets
its name once it is complete, so the same call makes the missing ones after a process was killed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.base.errors import UserError
from asr.base.system.files import sha256_of, whole_file
from asr.base.system.lock import exclusive_lock
from asr.base.text.wording import duration
from asr.base.types import Utterance
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.manifests.manifest import write_manifest
from data_pipeline.recordings.kokoro.clips import Clip, ClipMakers, Container, Made
from data_pipeline.recordings.kokoro.phonemes import spelled, symbol_ids
from data_pipeline.recordings.kokoro.sentences import SentencePool
from data_pipeline.recordings.kokoro.voices import Voices, draw_speaker, read_voices, style_of, without
from data_pipeline.text.text_files import STANDARD_INPUT, find_text_files
from data_pipeline.work import available_cores

COMMAND = "asr synthesize"
MANIFEST, SETTINGS, SENTENCES = "manifest.jsonl", "synthesis.json", "sentences.tsv"
DRAWN_SPEEDS = (0.85, 1.3)  # 3 to 5 syllables a second
FIRST = 20  # clips, of which at least one must be speech


@dataclass(frozen=True)
class KokoroSettings:
    """What determines the clips of a corpus.

    Attributes:
        model: path of the ONNX file.
        voices: path of a folder of voices, or of a file with all.
        texts: paths of files and folders with sentences, see `whole_sentences`.
        seed: 0 or more.
        excluded_voices: names of voices that no speaker has.
        container: of the clips.
    """

    model: Path
    voices: Path
    texts: Sequence[str]
    seed: int = 1
    excluded_voices: Sequence[str] = ()
    container: Container = "opus"


@dataclass(frozen=True)
class SynthesizedSpeech:
    """A corpus of synthesized speech.

    Attributes:
        manifest: its path.
        num_utterances: in the manifest.
        duration_s: of all.
        left_out: number of sentences and clips that are not used, by reason.
    """

    manifest: Path
    num_utterances: int
    duration_s: float
    left_out: Counter[str]


def synthesize_by_kokoro(
    out_dir: Path,
    settings: KokoroSettings,
    *,
    num_utterances: int | None = None,
    hours: float | None = None,
    on_progress: OnProgress = ignore_progress,
) -> SynthesizedSpeech:
    """Write the clips that are missing, then the manifest of all.

    Args:
        out_dir: receives `manifest.jsonl`, `audio/kokoro-00001.opus`, ..., and what resuming needs.
        settings: what determines the clips.
        num_utterances: number of clips; a smaller number gives the first of them.
        hours: of speech, instead of a number of clips.
        on_progress: receives how many clips, or seconds of speech, are written.

    Raises:
        UserError: a file or a number cannot be used, the folder has clips of other settings, or the disk is
            full.
    """
    if (num_utterances is None) == (hours is None) or not 0 < (num_utterances or hours or 0) < 1e9:
        raise UserError(
            "expected either `num_utterances` of at least 1 or `hours` above 0; "
            f"received {num_utterances} and {hours}"
        )
    if settings.seed < 0:
        raise UserError(f"`seed`: expected at least 0, received {settings.seed}")
    if inside := [text for text in settings.texts if out_dir.resolve().is_relative_to(Path(text).resolve())]:
        raise UserError(f"{out_dir}: lies in the folder of texts {inside[0]}; choose one elsewhere")
    voices = without(read_voices(settings.voices), settings.excluded_voices)
    identity = _identity(settings, voices)
    num_makers = min(available_cores(), num_utterances or available_cores())
    kept: list[Utterance] = []
    with exclusive_lock(out_dir, COMMAND):
        resumes = _resumes(out_dir, identity)
        # a model that cannot be used is reported before texts are read
        with ClipMakers(num_makers, settings.model, settings.container) as makers:
            if resumes:
                pool = SentencePool.load(out_dir / SENTENCES)
            else:
                pool = SentencePool.read(settings.texts, settings.seed, on_progress)
                pool.save(out_dir / SENTENCES)
                with whole_file(out_dir / SETTINGS, "settings") as file:  # last: settings imply sentences
                    file.write(json.dumps(identity, indent=2).encode())
            left_out = pool.left_out.copy()
            clips = itertools.islice(_clips(out_dir / "audio", settings, voices, pool), num_utterances)
            for clip, outcome in _reported(makers.make(clips), num_utterances, hours, on_progress):
                if isinstance(outcome, str):
                    left_out[f"no speech: {outcome}"] += 1
                else:
                    name, path = clip.path.stem, str(clip.path)
                    kept.append(Utterance(name, path, outcome, clip.text, clip.tokens, clip.speaker))
    write_manifest(out_dir / MANIFEST, kept)
    return SynthesizedSpeech(
        out_dir / MANIFEST, len(kept), sum(utterance.duration_s for utterance in kept), left_out
    )


def _identity(settings: KokoroSettings, voices: Voices) -> dict[str, str | int]:
    """Return what must be the same for all clips of a folder."""
    if STANDARD_INPUT in settings.texts:
        raise UserError("-: standard input cannot be read again to resume; save the text to a file")
    return {
        "engine": "kokoro",
        "model": _digest([settings.model]),
        "voices": hashlib.sha256(
            b"".join(name.encode() + styles.tobytes() for name, styles in voices.items())
        ).hexdigest(),
        "texts": _digest(map(Path, find_text_files(settings.texts))),
        "seed": settings.seed,
        "format": settings.container,
    }


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(sha256_of(path))
        except OSError as error:
            raise UserError(f"{path}: cannot read this file ({error.strerror})") from None
    return digest.hexdigest()


def _resumes(out_dir: Path, identity: dict[str, str | int]) -> bool:
    """Return whether a folder has clips of these settings; raise a UserError if it has others."""
    path = out_dir / SETTINGS
    if not path.exists():
        if (out_dir / MANIFEST).exists():
            raise UserError(f"{out_dir / MANIFEST}: exists already; remove it or choose another folder")
        return False
    try:
        before = json.loads(path.read_bytes())
        differing = [name for name in identity if before.get(name) != identity[name]]
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: cannot read these settings ({error}); choose another folder") from None
    if differing:
        raise UserError(
            f"{out_dir}: its clips were made with other settings ({', '.join(differing)}); choose another "
            "folder, or give what was given before to resume"
        )
    return True


def _clips(folder: Path, settings: KokoroSettings, voices: Voices, pool: SentencePool) -> Iterator[Clip]:
    """Yield the clips to make, without end."""
    names = sorted(voices)
    for number, sentence in enumerate(pool.choose(settings.seed), start=1):
        rng = np.random.default_rng((settings.seed, number))
        speaker = draw_speaker(names, rng)
        symbols = symbol_ids(spelled(sentence.text, sentence.tokens))
        style = style_of(speaker, voices, len(symbols))
        path = folder / f"kokoro-{number:05d}.{settings.container}"
        speed = float(rng.uniform(*DRAWN_SPEEDS))
        yield Clip(path, sentence.text, sentence.tokens, speaker.name, symbols, style, speed)


def _reported(
    made: Iterator[Made],
    num_utterances: int | None,
    hours: float | None,
    on_progress: OnProgress,
) -> Iterator[Made]:
    """Yield and report the clips, until there are enough hours if these are given."""
    total_s, num_usable = 0.0, 0
    goal_s = (hours or 0) * 3600
    for number, (clip, outcome) in enumerate(made, start=1):
        yield clip, outcome
        if not isinstance(outcome, str):
            total_s, num_usable = total_s + outcome, num_usable + 1
        elif number in (FIRST, num_utterances) and not num_usable:
            raise UserError(
                f"none of the first {number} clips is speech ({outcome}); the model is damaged, or is not "
                "Kokoro 1.0: download it again"
            )
        if num_utterances is not None:
            note = f"{duration(total_s)} of speech"
            on_progress(Work("synthesizing", number, num_utterances, "utterances", note))
        else:
            on_progress(Work("synthesizing", min(total_s, goal_s), goal_s, "s of speech"))
        if 0 < goal_s <= total_s:
            return
