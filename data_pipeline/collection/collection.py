"""What people record together: their sentences, the judgement of their takes, and the corpus that grows.

Its results are objects for JSON, as the recording page reads them (asr/server/recording/routes.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, resample
from asr.base.text.hanzi_text import is_hanzi
from data_pipeline.collection.checks import BackgroundChecks, Check, contradicts_many
from data_pipeline.collection.corpus import write_corpus
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.take import Take
from data_pipeline.collection.take_quality import judge_take, usual_pace
from data_pipeline.collection.takes import Takes
from data_pipeline.preparation.description import PreparedCorpus

MAX_RATE_HZ = 48_000  # stored as recorded up to it; training resamples anyway

Object = dict[str, Any]  # for JSON


class SpeechCollection:
    """Prompts and takes of several speakers; all methods may be called from any thread.

    Args:
        takes: on the disk.
        prompts: in the order in which they are offered.
        goal_s: seconds that each speaker is to record.
        next_commands: returns the commands to run next by a name, given the splits that have a manifest; None
            to show none.
    """

    def __init__(
        self,
        takes: Takes,
        prompts: Sequence[Prompt],
        goal_s: float,
        next_commands: Callable[[Collection[str]], Mapping[str, str]] | None,
    ) -> None:
        self._takes, self._goal_s, self._next_commands = takes, goal_s, next_commands
        self._prompts = {prompt.id: prompt for prompt in prompts}
        self._writing = threading.Lock()
        self._checks: BackgroundChecks | None = None

    def start_checks(self, check: Check, on_checked: Callable[[], None], judge: str = "") -> None:
        """Begin to check in a thread what was said, in takes that were not checked before and in new ones.

        Args:
            check: finds what was said differently.
            on_checked: called in the thread after each result.
            judge: the run whose model checks; empty for `general`, whose takes a run checks again.
        """
        self._checks = BackgroundChecks(self._takes, check, on_checked, judge)

    def warm_up(self) -> None:
        """Judge silence, since the first judgement takes longer."""
        judge_take(np.zeros(SAMPLE_RATE_HZ, np.int16), SAMPLE_RATE_HZ, next(iter(self._prompts.values())))

    def session(self, speaker: str) -> Object:
        """Return what a speaker has recorded, and what remains."""
        takes = {take.prompt: take for take in self._takes.of(speaker)}
        prompts = self._prompts.values()
        return {
            "speaker": speaker,
            "language": _language(list(prompts)),
            "prompts": [_prompt_fields(prompt, takes.get(prompt.id)) for prompt in prompts],
            "kept_s": self.kept_s(speaker),
            "goal_s": self._goal_s,
            "checks": self._checks is not None,
        }

    def kept_s(self, speaker: str) -> float:
        """Return the seconds that a speaker has recorded, without takes in doubt."""
        return sum(take.duration_s for take in self._takes.of(speaker) if not take.in_doubt)

    def record(
        self, speaker: str, prompt_id: str, samples: npt.NDArray[np.int16], rate_hz: int, *, keep: bool
    ) -> Object | None:
        """Judge a take, and store it if nothing is wrong with it.

        Args:
            speaker: name.
            prompt_id: of the sentence.
            samples: (S,) as recorded.
            rate_hz: their rate.
            keep: whether to store it in any case.

        Returns:
            None if there is no such sentence.

        Raises:
            UserError: it cannot be written.
        """
        prompt = self._prompts.get(prompt_id)
        if prompt is None:
            return None
        if rate_hz > MAX_RATE_HZ:
            samples, rate_hz = resample(samples, rate_hz), SAMPLE_RATE_HZ
        quality = judge_take(samples, rate_hz, prompt, usual_pace(self._takes.of(speaker)))
        problems = [{"kind": one.kind, "detail": one.detail} for one in quality.problems]
        answer = {"problems": problems, "duration_s": (quality.end - quality.start) / rate_hz}
        if problems and not keep:
            return {"state": "again", **answer, "kept_s": self.kept_s(speaker)}
        cut = samples[quality.start : quality.end]
        if len(cut) * SAMPLE_RATE_HZ < WINDOW_SAMPLES * rate_hz:
            cut = samples  # silence, which the speaker wants all the same
        take = self._takes.keep(speaker, prompt, cut, rate_hz, problems)
        if self._checks:
            self._checks.add(take)
        return {"state": "kept", **answer, "duration_s": take.duration_s, "kept_s": self.kept_s(speaker)}

    def recording(self, speaker: str, prompt_id: str) -> bytes | None:
        """Return the FLAC file of a take; None if there is none."""
        take = self._takes.find(speaker, prompt_id)
        if take is None:
            return None
        try:
            return (self._takes.folder / take.audio).read_bytes()
        except FileNotFoundError:  # replaced meanwhile
            return None

    def drop(self, speaker: str, prompt_id: str) -> Object | None:
        """Remove a take; return None if there is none.

        Raises:
            UserError: this cannot be written.
        """
        if not self._takes.drop(speaker, prompt_id):
            return None
        return {"state": "todo", "kept_s": self.kept_s(speaker)}

    def accept(self, speaker: str, prompt_id: str) -> Object | None:
        """Keep a take that was in doubt; return None if there is none.

        Raises:
            UserError: this cannot be written.
        """
        take = self._takes.find(speaker, prompt_id)
        if take is None or self._takes.accept(take) is None:
            return None
        return {"state": "kept", "kept_s": self.kept_s(speaker)}

    def checked(self, speaker: str, after: int) -> Object:
        """Return the results of the check that a speaker has not seen.

        Args:
            speaker: name.
            after: `last` of the results before; 0 for all results.
        """
        takes = self._takes.of(speaker)
        new = [take for take in takes if take.checked > after]
        results = [
            {"id": take.prompt, "state": _state(take), "differences": list(take.differences)} for take in new
        ]
        last = max((take.checked for take in new), default=after)
        return {"last": last, "results": results, "contradicts_many": contradicts_many(takes)}

    def speakers_contradicted(self) -> list[str]:
        """Return the speakers whom the model contradicts so often that it doubts none of their takes."""
        speakers = dict.fromkeys(take.speaker for take in self._takes.all())
        return [speaker for speaker in speakers if contradicts_many(self._takes.of(speaker))]

    def write(self) -> PreparedCorpus:
        """Write the manifests of what is recorded.

        Raises:
            UserError: they cannot be written.
        """
        with self._writing:
            return write_corpus(self._takes)

    def finish(self) -> Object:
        """Write the manifests, and return their sizes and the next commands.

        Raises:
            UserError: they cannot be written.
        """
        corpus = self.write()
        sizes = {split: summary.num_utterances for split, summary in corpus.splits.items()}
        commands = self._next_commands(sizes) if self._next_commands else {}
        return {"manifests": sizes, "next": dict(commands)}

    def close(self) -> None:
        """End the check."""
        if self._checks:
            self._checks.close()


def _prompt_fields(prompt: Prompt, take: Take | None) -> Object:
    return {
        "id": prompt.id,
        "text": prompt.text,
        "syllables": prompt.syllables_by_character(),
        "places": prompt.places(),
        "state": _state(take),
        "problems": list(take.problems) if take else [],
        "differences": list(take.differences) if take else [],
        "duration_s": take.duration_s if take else 0.0,
    }


def _state(take: Take | None) -> str:
    if take is None:
        return "todo"
    return "again" if take.in_doubt else "kept"


def _language(prompts: Sequence[Prompt]) -> str:
    text = "".join(prompt.text for prompt in prompts)
    if any(map(is_hanzi, text)):
        return "zh"
    return "en" if text.isascii() else ""
