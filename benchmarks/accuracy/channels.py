"""Measures what telephones, codecs, rooms and quiet do to the error rate of runs.

    python -m benchmarks.accuracy.channels data/mandarin_demo/test.jsonl runs/demo runs/robust
    python -m benchmarks.accuracy.channels CLIPS.jsonl general --beam 16

GSM is not among the channels of training.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import soxr
from rapidfuzz.distance import Levenshtein

from asr import Recognizer
from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, read_audio, to_int16
from asr.base.decoder_settings import DecoderSettings
from benchmarks.common import show
from data_pipeline.augment.channels import TELEPHONE_HZ, through_mp3, through_opus, through_telephone
from data_pipeline.augment.rooms import draw_room, impulse_response, reverberate
from data_pipeline.manifests.manifest import read_manifest

REVERBERATION_S = (0.2, 0.5)
QUIET_S, QUIET_LEVEL = 1.5, 3.0  # before and after; standard deviation of its 16-bit samples

Change = Callable[[Waveform, np.random.Generator], Waveform]


def through_gsm(waveform: Waveform, _: np.random.Generator) -> Waveform:
    """Return a clip as GSM's full-rate codec makes it, 13 kbit/s at 8 kHz."""
    file = io.BytesIO()
    narrow = to_int16(soxr.resample(waveform.astype(np.float32), SAMPLE_RATE_HZ, TELEPHONE_HZ))
    soundfile.write(file, narrow, TELEPHONE_HZ, format="WAV", subtype="GSM610")
    file.seek(0)
    decoded, _ = soundfile.read(file, dtype="float32")
    return to_int16(32767 * soxr.resample(decoded, TELEPHONE_HZ, SAMPLE_RATE_HZ))


def in_a_room(waveform: Waveform, rng: np.random.Generator) -> Waveform:
    """Return a clip as a microphone in a drawn room records it."""
    response = impulse_response(draw_room(rng, REVERBERATION_S), rng)
    return to_int16(reverberate(waveform.astype(np.float32), response))


def amid_quiet(waveform: Waveform, rng: np.random.Generator) -> Waveform:
    """Return a clip with faint noise before and after it."""
    before, after = to_int16(rng.normal(0, QUIET_LEVEL, (2, round(QUIET_S * SAMPLE_RATE_HZ))))
    return np.concatenate([before, waveform, after])


CHANNELS: dict[str, Change] = {
    "as recorded": lambda waveform, _: waveform,
    "8 kHz, half of them G.711": lambda waveform, rng: through_telephone(waveform, rng)[0],
    "MP3, 17 to 43 kbit/s": lambda waveform, rng: through_mp3(waveform, rng)[0],
    "Opus, 6 to 20 kbit/s": lambda waveform, rng: through_opus(waveform, rng)[0],
    "GSM, 13 kbit/s": through_gsm,
    "in a room, reverberation of 0.2 to 0.5 s": in_a_room,
    "1.5 s of quiet before and after": amid_quiet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure errors behind telephones and codecs.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--clips", type=int, help="only the first clips")
    parser.add_argument("--beam", type=int, default=1, help="beam of the decoder (default: 1, greedy)")
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.manifest)[: arguments.clips]
    clips = [(read_audio(one.audio_path), one.tokens) for one in utterances]
    num_tokens = sum(len(tokens) for _, tokens in clips)
    settings = DecoderSettings(beam=arguments.beam)
    recognizers = [Recognizer.load(run, settings=settings) for run in arguments.runs]
    rows = {"": "  ".join(f"{run.name[-10:]:>10}" for run in arguments.runs)}
    for name, change in CHANNELS.items():
        rng = np.random.default_rng(1)
        changed = [(change(clip, rng), tokens) for clip, tokens in clips]
        shares = [
            sum(Levenshtein.distance(recognized(recognizer, clip), tokens) for clip, tokens in changed)
            / num_tokens
            for recognizer in recognizers
        ]
        rows[name] = "  ".join(f"{share:10.1%}" for share in shares)
    show(f"syllables wrong, {len(clips)} clips", rows)


def recognized(recognizer: Recognizer, clip: Waveform) -> list[str]:
    file = io.BytesIO()
    soundfile.write(file, clip, SAMPLE_RATE_HZ, format="WAV")
    file.seek(0)
    return list(recognizer.transcribe(file).tokens)


if __name__ == "__main__":
    main()
