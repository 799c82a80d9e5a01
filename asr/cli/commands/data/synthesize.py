"""`asr synthesize` makes labelled speech: robotic by espeak-ng, natural by Kokoro."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.base.errors import UserError
from asr.base.text.wording import counted, duration
from asr.cli.progress_bars import ProgressBars

USUAL_NUMBER = 1000
FOR_KOKORO = ("model", "voices", "text", "exclude_voices", "format", "hours")


def add_synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("out", type=Path, help="folder for the audio and its manifest")
    parser.add_argument(
        "--engine",
        choices=["espeak", "kokoro"],
        default="espeak",
        help="espeak: random syllables, robotic, for tests; kokoro: sentences by many voices, for training "
        "(default: espeak)",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--num",
        dest="num_utterances",
        type=int,
        metavar="N",
        help=f"number of utterances (default: {USUAL_NUMBER})",
    )
    amount.add_argument("--hours", type=float, metavar="HOURS", help="kokoro: of speech, instead of --num")
    parser.add_argument("--seed", type=int, default=1, help="of the random choice of utterances (default: 1)")
    kokoro = parser.add_argument_group("the engine kokoro", "the same command resumes where it was stopped")
    kokoro.add_argument("--model", type=Path, metavar="FILE", help="Kokoro 1.0 as ONNX")
    kokoro.add_argument(
        "--voices", type=Path, metavar="PATH", help="a folder of voices, or a file with all of them"
    )
    kokoro.add_argument(
        "--text",
        nargs="+",
        metavar="PATH",
        help="text files, or folders of them, whose sentences are said (default: 760 sentences of the "
        "project's own)",
    )
    kokoro.add_argument(
        "--exclude-voices",
        nargs="+",
        metavar="NAME",
        help="voices that no speaker has, such as those of a test set",
    )
    kokoro.add_argument(
        "--format",
        choices=["opus", "wav"],
        help="of the audio; Opus is an eighth as large (default: opus)",
    )


def synthesize_command(arguments: argparse.Namespace) -> int:
    """Synthesize a corpus and return the exit status."""
    if arguments.num_utterances is None and arguments.hours is None:
        arguments.num_utterances = USUAL_NUMBER
    if arguments.engine == "kokoro":
        return _by_kokoro(arguments)
    from data_pipeline.recordings.synthesis import synthesize_corpus

    if given := [name for name in FOR_KOKORO if getattr(arguments, name) is not None]:
        option = f"--{given[0].replace('_', '-')}"
        raise UserError(f"{option}: is for --engine kokoro, received --engine espeak; leave one of them out")
    with ProgressBars() as bars:
        manifest = synthesize_corpus(
            arguments.out,
            num_utterances=arguments.num_utterances,
            seed=arguments.seed,
            on_progress=bars,
        )
    print(f"{counted(arguments.num_utterances, 'utterance')}: {manifest}")
    return 0


def _by_kokoro(arguments: argparse.Namespace) -> int:
    from data_pipeline.collection.prompts import OWN_SENTENCES
    from data_pipeline.recordings.kokoro.corpus import KokoroSettings, synthesize_by_kokoro

    if not arguments.model or not arguments.voices:
        raise UserError(
            "--engine kokoro: expected --model FILE and --voices PATH; both are free to download, see "
            "docs/guides/corpora.md"
        )
    settings = KokoroSettings(
        arguments.model,
        arguments.voices,
        arguments.text or [str(OWN_SENTENCES)],
        arguments.seed,
        arguments.exclude_voices or (),
        arguments.format or "opus",
    )
    with ProgressBars() as bars:
        made = synthesize_by_kokoro(
            arguments.out,
            settings,
            num_utterances=arguments.num_utterances,
            hours=arguments.hours,
            on_progress=bars,
        )
    for reason, count in made.left_out.most_common():
        print(f"left out: {count:,}  {reason}")
    print(f"{counted(made.num_utterances, 'utterance')}, {duration(made.duration_s)}: {made.manifest}")
    return 0
