"""Say how an exported model compares with the trained model, and whether it is near enough to it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from asr.base.text.wording import counted, file_size
from asr.base.types import EditCounts
from asr.export.format import Bounds

FEW_ERRORS = 3  # more than the trained model's are always allowed where errors may increase


@dataclass(frozen=True)
class Parity:
    """What a comparison measured.

    Attributes:
        manifest: path of the clips' manifest.
        num_clips: number of clips.
        audio_s: seconds of all clips.
        token: what one token is called, such as "syllable".
        max_logit_difference: largest difference of a logit, alone and in batches, as `largest_difference`
            counts it; where a clip may differ by more than others, that which is the largest part of what is
            allowed. None without logits.
        allowed_logit_difference: of that clip, as `asr.model.logit_difference` has it; None where logits may
            differ by any number.
        num_same_tokens: clips whose tokens are the same, alone and in batches.
        changed: edits from the trained model's tokens to the exported model's, alone or in batches, whichever
            are more.
        trained: errors of the trained model, greedy.
        exported: errors of the exported model, alone or in batches, whichever are more.
        size_bytes: size of the model file.
        load_s: seconds in which a new process imports the runtime and loads the model.
        run_s: seconds in which it ran all clips, one by one.
        peak_memory_bytes: largest size of that process in memory.
        written: errors in the characters of texts, where the runtime writes them: of the trained model's
            tokens, converted by the general model of hanzi if they are syllables, and of the runtime's texts.
        streamed: errors of the exported model on clips as streams, and the clips whose tokens are the same.
        max_time_difference_s: by which the beginning of a token differs in clips whose tokens are the same;
            None if the runtime does not say when tokens begin.
    """

    manifest: str
    num_clips: int
    audio_s: float
    token: str
    max_logit_difference: float | None
    allowed_logit_difference: float | None
    num_same_tokens: int
    changed: EditCounts
    trained: EditCounts
    exported: EditCounts
    size_bytes: int
    load_s: float
    run_s: float
    peak_memory_bytes: int
    written: tuple[EditCounts, EditCounts] | None = None
    streamed: tuple[EditCounts, int] | None = None
    max_time_difference_s: float | None = None

    @property
    def real_time_factor(self) -> float:
        """Return the seconds of computing for a second of audio."""
        return self.run_s / self.audio_s

    def as_json(self) -> dict[str, Any]:
        """Return what `model.json` says about it."""
        found: dict[str, Any] = {
            "manifest": self.manifest,
            "clips": self.num_clips,
            "audio_s": round(self.audio_s, 3),
            "token": self.token,
            "largest_logit_difference": self.max_logit_difference,
            "allowed_logit_difference": self.allowed_logit_difference,
            "clips_with_same_tokens": self.num_same_tokens,
            "largest_time_difference_s": self.max_time_difference_s,
            "error_rate_trained": self.trained.rate,
            "error_rate_exported": self.exported.rate,
            "errors_trained": dataclasses.asdict(self.trained),
            "errors_exported": dataclasses.asdict(self.exported),
            "size_bytes": self.size_bytes,
            "load_s": round(self.load_s, 4),
            "real_time_factor": round(self.real_time_factor, 6),
            "peak_memory_bytes": self.peak_memory_bytes,
        }
        if self.written:
            found["character_error_rate_trained"], found["character_error_rate_exported"] = (
                edits.rate for edits in self.written
            )
        if self.streamed:
            found["error_rate_streamed"] = self.streamed[0].rate
            found["clips_with_same_tokens_streamed"] = self.streamed[1]
        return found

    def beyond(self, bounds: Bounds) -> list[str]:
        """Return a sentence about each bound that is exceeded."""
        found = []
        difference, most = self.max_logit_difference, self.allowed_logit_difference
        if difference is not None and most is not None and not difference <= most:
            found.append(f"logits differ by up to {difference:.3g}, at most {most:.3g} is allowed")
        seconds, most = self.max_time_difference_s, bounds.time_difference_s
        if seconds is not None and seconds > most:
            found.append(f"a token begins {seconds:.2f} s earlier or later, at most {most} s is allowed")
        if bounds.same_tokens and self.num_same_tokens < self.num_clips:
            different = counted(self.num_clips - self.num_same_tokens, "clip")
            found.append(f"the tokens of {different} differ, none may")
        share = bounds.changed_tokens
        if share is not None and _too_many(self.changed.errors, share, self.changed):
            found.append(f"{self.changed.rate:.2%} of the tokens differ, at most {share:.1%} may")
        for name, trained, exported, extra in self._error_rates(bounds):
            more = exported.errors - trained.errors
            if extra is not None and _too_many(more, extra, trained):
                found.append(
                    f"the {name} is {exported.rate:.2%}, at most {extra:.1%} above the trained model's "
                    f"{trained.rate:.2%} is allowed"
                )
        return found

    def _error_rates(self, bounds: Bounds) -> list[tuple[str, EditCounts, EditCounts, float | None]]:
        """Return the name of each error rate, those of both models, and its largest increase."""
        rates = [(f"{self.token} error rate", self.trained, self.exported, bounds.extra_errors)]
        if self.streamed:
            name = f"{self.token} error rate of streams"
            rates.append((name, self.trained, self.streamed[0], bounds.extra_errors))
        if self.written:
            rates.append(("character error rate", *self.written, bounds.extra_written_errors))
        return rates


def _too_many(errors: int, share: float, counts: EditCounts) -> bool:
    return errors > max(FEW_ERRORS, share * counts.reference_length)


def parity_rows(parity: Parity) -> list[tuple[str, str, str]]:
    """Return a table of a comparison, headings first."""
    difference, allowed = parity.max_logit_difference, parity.allowed_logit_difference
    most = "" if allowed is None else f" (at most {allowed:.2g})"

    def same(number: int) -> str:
        return f"{number:,} of {parity.num_clips:,}"

    rows = [
        ("", "trained", "exported"),
        (f"{parity.token} error rate, greedy", f"{parity.trained.rate:.2%}", f"{parity.exported.rate:.2%}"),
    ]
    if parity.written:
        trained, exported = parity.written
        rows.append(("character error rate, as written", f"{trained.rate:.2%}", f"{exported.rate:.2%}"))
    if parity.max_logit_difference is not None:
        rows.append((f"largest logit difference{most}", "", f"{difference:.2g}"))
    rows.append(("clips with the same tokens", "", same(parity.num_same_tokens)))
    if parity.max_time_difference_s is not None:
        rows.append(("largest difference of a token's time", "", f"{parity.max_time_difference_s:.2f} s"))
    if parity.streamed:
        edits, num_same = parity.streamed
        rows.append((f"{parity.token} error rate of streams", "", f"{edits.rate:.2%}"))
        rows.append(("streams with the same tokens", "", same(num_same)))
    return [
        *rows,
        ("size of the model", "", file_size(parity.size_bytes)),
        ("time to load it", "", f"{parity.load_s:.2f} s"),
        ("time for a second of audio", "", f"{1000 * parity.real_time_factor:.2f} ms"),
        ("peak memory", "", file_size(parity.peak_memory_bytes)),
    ]
