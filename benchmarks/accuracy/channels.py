"""Measures what telephones and codecs do to the error rate of runs, with and without `augment.channels`.

    python -m benchmarks.accuracy.channels data/mandarin_demo/test.jsonl runs/demo runs/robust

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
from data_pipeline.manifests.manifest import read_manifest

Change = Callable[[Waveform, np.random.Generator], Waveform]


def through_gsm(waveform: Waveform, _: np.random.Generator) -> Waveform:
    """Return a clip as GSM's full-rate codec makes it, 13 kbit/s at 8 kHz."""
    file = io.BytesIO()
    narrow = to_int16(soxr.resample(waveform.astype(np.float32), SAMPLE_RATE_HZ, TELEPHONE_HZ))
    soundfile.write(file, narrow, TELEPHONE_HZ, format="WAV", subtype="GSM610")
    file.seek(0)
    decoded, _ = soundfile.read(file, dtype="float32")
    return to_int16(32767 * soxr.resample(decoded, TELEPHONE_HZ, SAMPLE_RATE_HZ))


CHANNELS: dict[str, Change] = {
    "as recorded": lambda waveform, _: waveform,
    "8 kHz, half of them G.711": lambda waveform, rng: through_telephone(waveform, rng)[0],
    "MP3, 17 to 43 kbit/s": lambda waveform, rng: through_mp3(waveform, rng)[0],
    "Opus, 6 to 20 kbit/s": lambda waveform, rng: through_opus(waveform, rng)[0],
    "GSM, 13 kbit/s": through_gsm,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure errors behind telephones and codecs.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--clips", type=int, help="only the first clips")
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.manifest)[: arguments.clips]
    clips = [(read_audio(one.audio_path), one.tokens) for one in utterances]
    num_tokens = sum(len(tokens) for _, tokens in clips)
    recognizers = [
        Recognizer.load(run, settings=DecoderSettings(), write_hanzi=False) for run in arguments.runs
    ]
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
