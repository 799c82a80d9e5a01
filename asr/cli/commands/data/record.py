"""`asr record` opens a page on which people read sentences aloud, and makes a corpus of their takes."""

from __future__ import annotations

import argparse
import bisect
import contextlib
import functools
import itertools
import logging
import math
import shlex
import webbrowser
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.base.model_files.named import GENERAL, has_general
from asr.base.text.terminal_table import align_columns
from asr.base.text.wording import counted
from asr.cli.options.serving import (
    add_address_arguments,
    add_certificate_arguments,
    certificate_of,
    has_screen,
    log_as_json,
    require_packages,
    token_of,
)
from asr.runs.resume_command import asr_command
from data_pipeline.types import SPLITS

if TYPE_CHECKING:
    from asr.base.text.units import Unit
    from data_pipeline.collection.checks import Check
    from data_pipeline.collection.prompts import Prompt

PORT = 20004  # besides those of `asr serve` and of ASRT's gRPC
MINUTES = 30.0
SPEAKER = "me"
RUNS = Path("runs")
WHY_CONTRADICTED = "it does not know this voice, or the sentences are read otherwise than they are labelled"
TAKE_MB = 12  # of a minute at 96 kHz
PENDING_MB = 128  # of takes that arrive at the same time; pages send one at a time, and again if refused


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="folder of the corpus: a new one, or one that this command began",
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="sentences to read: a text, a table or a manifest (default: the project's own)",
    )
    speakers = parser.add_mutually_exclusive_group()
    speakers.add_argument("--speaker", metavar="NAME", help=f"who reads (default: {SPEAKER})")
    speakers.add_argument(
        "--speakers",
        type=Path,
        metavar="FILE",
        help="several people, the name of one in each line; each gets a link",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        metavar="N",
        help=f"minutes that each speaker is to read (default: {MINUTES:g})",
    )
    parser.add_argument(
        "--units",
        choices=("syllables", "characters", "words"),
        help="units of the labels (default: syllables, or those that OUT has)",
    )
    parser.add_argument(
        "--run",
        metavar="RUN",
        help="a run, a model file or its address, whose model checks in the background whether each sentence "
        "was said as written (default: the model `general`, for syllables)",
    )
    add_address_arguments(parser, PORT)
    group = parser.add_argument_group("who may use it", "each speaker's link has a key that nobody can guess")
    group.add_argument(
        "--token-file", type=Path, metavar="FILE", help="use the token in it as the key of the only speaker"
    )
    group.add_argument(
        "--insecure", action="store_true", help="let everybody who reaches the page record, without a key"
    )
    add_certificate_arguments(group)


def record_command(arguments: argparse.Namespace) -> int:
    """Record until a signal, write the manifests, and return the exit status."""
    require_packages("serve")
    from asr.server.recording.app import make_recording_app
    from asr.server.recording.service import RecordingService
    from asr.server.requests.limits import Limits
    from asr.server.serving import address_of, listen, name_on_network, serve
    from data_pipeline.collection.collection import SpeechCollection
    from data_pipeline.collection.takes import open_takes

    names, certificate = _names(arguments), certificate_of(arguments)
    with contextlib.ExitStack() as stack:
        takes = stack.enter_context(open_takes(arguments.out, arguments.units))
        prompts, goal_s = _prompts(arguments, takes.settings.units)
        listening = stack.enter_context(contextlib.closing(listen(arguments.host, arguments.port)))
        check = _check(arguments.run, takes.settings.units)
        speakers = _speakers(arguments, names)  # writes their keys
        next_commands = functools.partial(_next_commands, arguments.out, takes.settings.units, arguments.run)
        # the pages of several speakers are those of guests, who have no use for paths of this machine
        collection = SpeechCollection(takes, prompts, goal_s, next_commands if len(speakers) == 1 else None)
        stack.callback(collection.close)
        service = RecordingService(
            collection, speakers, Limits(max_body_mb=TAKE_MB, max_pending_mb=PENDING_MB)
        )
        if check:
            collection.start_checks(check, service.on_checked, _judge(arguments.run))
        if takes.all():
            collection.write()
        address = address_of(listening, name_on_network(arguments.host), certificate)
        links = {name: f"{address}/{f'#{key}' if key else ''}" for key, name in speakers.items()}
        log_as_json()
        if not arguments.verbose:  # the links would scroll away
            logging.getLogger("asr.server.requests.gate").setLevel(logging.WARNING)
        show = functools.partial(_show, arguments, links)
        serve(make_recording_app(service), service, listening, certificate, show)
        corpus = collection.write()
    if not corpus.splits:
        print(f"{arguments.out}: nothing is recorded; the same command continues")
        return 0
    print("\n".join(corpus.lines()))
    for speaker in collection.speakers_contradicted():
        print(f"{speaker}: the model contradicts too many takes to doubt any; {WHY_CONTRADICTED}")
    for about, command in next_commands(corpus.splits).items():
        print(f"\n# {about}\n{command}")
    return 0


def _names(arguments: argparse.Namespace) -> list[str]:
    from data_pipeline.collection.speakers import checked_name, read_names

    if arguments.speakers is None:
        return [checked_name(arguments.speaker or SPEAKER)]
    for option in ("token_file", "insecure"):
        if getattr(arguments, option):
            raise UserError(f"`{option}` is for a single speaker; of several each has a link: leave it out")
    return read_names(arguments.speakers)


def _prompts(arguments: argparse.Namespace, units: Unit) -> tuple[list[Prompt], float]:
    """Return the sentences to read, and the seconds of them that each speaker is to record."""
    from data_pipeline.collection.prompts import expected_duration_s, own_prompts, read_prompts
    from data_pipeline.collection.takes import PROMPTS_LEFT_OUT
    from data_pipeline.manifests.left_out import reason_lines, write_left_out

    goal_s = 60 * arguments.minutes
    if not 0 < goal_s < math.inf:
        raise UserError(f"`minutes={arguments.minutes:g}`: expected a number above 0")
    if arguments.prompts:
        prompts, left_out = read_prompts(arguments.prompts, units, goal_s)
        listed = arguments.out / PROMPTS_LEFT_OUT
        write_left_out(listed, left_out)
        title = f"{arguments.prompts}: {counted(len(prompts), 'sentence')} to read"
        print("\n".join([title, *reason_lines(left_out, listed)]))
    else:
        prompts = own_prompts(units)
    ends_s = list(itertools.accumulate(map(expected_duration_s, prompts)))
    num_needed = bisect.bisect_left(ends_s, goal_s) + 1
    return prompts[:num_needed], min(goal_s, ends_s[-1])


def _speakers(arguments: argparse.Namespace, names: list[str]) -> dict[str, str]:
    """Return the name of each speaker by the key of the link."""
    from data_pipeline.collection.speakers import keys_of

    if arguments.insecure:
        return {"": names[0]}
    if token := token_of(arguments.token_file):
        return {token: names[0]}
    return {key: name for name, key in keys_of(arguments.out, names).items()}


def _check(run: str | None, units: Unit) -> Check | None:
    """Return a function that finds what was said differently, by a trained model; None without a model.

    Raises:
        UserError: the run has no model, or its labels have other units.
    """
    if run is None and not _has_general_of(units):
        return None
    from asr.audio.recording import read_audio
    from asr.transcription.alignment.differences import differences
    from asr.transcription.recognizer import Recognizer

    # loaded at its first call; for `general`, that is the first take: its first use takes some seconds
    recognizer = functools.cache(functools.partial(Recognizer.of_known_text, run))
    if run is not None and (unit := recognizer().vocabulary.unit) != units:
        raise UserError(
            f"`run={run}`: expected a model of {units}, as OUT has, received one of {unit}; choose another "
            "run, or leave it out"
        )

    def check(path: Path, tokens: tuple[str, ...]) -> list[dict[str, object]]:
        found = differences(recognizer(), read_audio(path), tokens, knows_voice=bool(_judge(run)))
        fields = ("kind", "start", "end", "recognized")
        return [{name: getattr(difference, name) for name in fields} for difference in found]

    return check


def _judge(run: str | None) -> str:
    """Return the run that checks takes, which should know the voices; empty for the model `general`."""
    return "" if run in (None, GENERAL) else str(run)


def _has_general_of(units: Unit) -> bool:
    """Return whether this installation carries the model `general`, and it has these units."""
    return units == "syllables" and has_general(recognizes=False)


def _next_commands(out: Path, units: Unit, run: str | None, splits: Collection[str]) -> dict[str, str]:
    """Return the commands that check the corpus and train on it, from a model if there is one."""
    manifests = {split: str(out / f"{split}.jsonl") for split in SPLITS if split in splits}
    begin = GENERAL if run is None and _has_general_of(units) else run
    settings = [f"train.init_from={begin}"] if begin else []
    settings += ["data.corpus=", *(f"data.{split}={path}" for split, path in manifests.items())]
    # a run may have the name already: the run to begin from is often named after the same corpus
    name = out.resolve().name
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    free_name = next(name for name in names if not (RUNS / name).exists())
    commands = {
        "doctor": ["doctor", *manifests.values()],
        "inspect": ["inspect", *manifests.values()],
        "train": ["train", "demo", "--name", free_name, "--set", *settings],
    }
    asr = shlex.split(asr_command())
    return {name: shlex.join([*asr, *command]) for name, command in commands.items()}


def _show(arguments: argparse.Namespace, links: Mapping[str, str]) -> None:
    print(f"{arguments.out} is recorded at\n")
    print("\n".join(f"  {line}" for line in align_columns(list(links.items()))))
    from asr.server.requests.gate import is_local

    if not (arguments.certificate or is_local(arguments.host)):
        print(
            "\nbrowsers give a page of another computer the microphone by https only: name a certificate by "
            "--cert and --key"
        )
    print("\nCtrl-C stops the server and writes the manifests", flush=True)
    if not arguments.no_browser and has_screen() and len(links) == 1:
        webbrowser.open(next(iter(links.values())))
