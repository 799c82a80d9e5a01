"""Labels recordings without text: cuts them at pauses, recognizes the segments, and keeps the sure ones.

    labelled.jsonl                      a line for each segment that is kept; `labelled_by` says what made it
    labelled.left_out.tsv               every other segment and recording, with the reason
    audio/NAME-3f0c21aa-1200-3450.wav   segments of longer recordings, with begin and end in milliseconds;
                                        short recordings stay where they are

Training on such labels is self-training, or pseudo-labelling (Kahn et al., 2020, arXiv:1909.09116), and its
repetition noisy student training (Park et al., 2020, arXiv:2005.09629).
"""

from __future__ import annotations

import dataclasses
import datetime
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from asr.audio.recording import SAMPLE_RATE_HZ, audio_duration_s, read_audio, write_wav
from asr.audio.voice_activity import speech_frames
from asr.base.errors import UserError
from asr.base.system.files import is_utf8
from asr.base.text.wording import duration
from asr.base.types import MachineLabel, Utterance
from asr.base.version import __version__
from asr.base.work import OnProgress, ignore_progress, reported
from asr.evaluation.labels.calibrated_confidence import CalibratedConfidence
from asr.transcription.files import STANDARD_INPUT, refuse_bad_out
from asr.transcription.recognizer import Recognizer
from asr.transcription.to_files.resumable_transcription import resumable_transcripts
from asr.transcription.transcript import Segment, Transcript
from data_pipeline.manifests.left_out import partition, reason_lines, write_left_out
from data_pipeline.manifests.manifest import write_manifest
from data_pipeline.recordings.segments import file_name, read_spans
from data_pipeline.types import UNREADABLE_AUDIO, LeftOut, Recording

MIN_CONFIDENCE = 0.8  # the least sure labels that are kept have one wrong token in five, most have fewer
LIMITS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # in the table of what others would keep
NO_SPEECH = "no speech found"
SAME_RECORDING = "another path of a recording"
NOT_UTF8 = "name is not UTF-8; rename it"
AUDIO = "audio"  # folder of the cut segments, beside the manifest


class JudgedSegment(NamedTuple):
    """A segment of speech: its confidence and its length."""

    confidence: float
    duration_s: float


@dataclass(frozen=True)
class Labelled:
    """The result of labelling recordings.

    Attributes:
        manifest: of what is kept.
        utterances: in the manifest.
        left_out: segments and recordings that are not, with the reason.
        num_recordings: that were to be labelled.
        recordings_s: seconds of those that can be read.
        segments: all segments of speech, kept or not.
    """

    manifest: Path
    utterances: Sequence[Utterance]
    left_out: Sequence[LeftOut]
    num_recordings: int
    recordings_s: float
    segments: Sequence[JudgedSegment]

    @property
    def left_out_path(self) -> Path:
        """Return the path of the list of what is left out."""
        return _left_out_path(self.manifest)

    @property
    def kept_s(self) -> float:
        """Return the seconds of what is kept."""
        return sum(utterance.duration_s for utterance in self.utterances)

    @property
    def confidence(self) -> float:
        """Return the mean confidence of the tokens that are kept, which is the share that should be right."""
        num_tokens = sum(len(utterance.tokens) for utterance in self.utterances)
        sure = sum(
            len(utterance.tokens) * utterance.labelled_by.confidence
            for utterance in self.utterances
            if utterance.labelled_by
        )
        return sure / num_tokens

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of recordings, segments and what is kept of them, with its hours."""
        return [
            ("", "number", "duration"),
            ("recordings", f"{self.num_recordings:,}", duration(self.recordings_s)),
            ("segments of speech", *_number_and_duration(self.segments)),
            ("kept", f"{len(self.utterances):,}", duration(self.kept_s)),
        ]

    def rows_by_limit(self) -> list[tuple[str, ...]]:
        """Return a table of what would be kept with other limits."""
        return [
            ("at least", "number", "duration"),
            *(
                (f"{limit:g}", *_number_and_duration([s for s in self.segments if s.confidence >= limit]))
                for limit in LIMITS
            ),
        ]

    def reasons(self) -> list[str]:
        """Return lines on what is left out, by reason."""
        return reason_lines(self.left_out, self.left_out_path)


@dataclass(frozen=True)
class MachineLabeller:
    """The model that labels recordings, and how sure it must be.

    Attributes:
        recognizer: of the recordings.
        calibrated: the confidence of its transcripts.
        run: directory of the run, for the manifest.
        min_confidence: of what is kept, from 0 to 1.
    """

    recognizer: Recognizer
    calibrated: CalibratedConfidence
    run: Path
    min_confidence: float = MIN_CONFIDENCE

    def label(
        self, sources: Sequence[Path], out: Path, on_progress: OnProgress = ignore_progress
    ) -> Labelled:
        """Write the manifest of recordings; to resume after an interruption, call it again.

        Args:
            sources: paths of the recordings.
            out: path of the manifest.
            on_progress: receives how many recordings are transcribed, and how many are cut.

        Raises:
            UserError: nothing is kept, or a file cannot be written.
        """
        if STANDARD_INPUT in map(str, sources):
            raise UserError("-: standard input cannot be labelled, as a manifest names files; name a file")
        if not is_utf8(str(out.resolve())):
            raise UserError(f"{out}: name is not UTF-8; choose another folder")
        first: dict[Path, Path] = {}
        repeated: list[LeftOut] = []
        for source in dict.fromkeys(sources):
            used = first.setdefault(source.resolve(), source)
            if used is not source:
                repeated.append(LeftOut(str(source), SAME_RECORDING, f"{used} is labelled"))
        sources = list(first.values())
        refuse_bad_out(out, sources)
        with resumable_transcripts(self.recognizer, sources, out, on_progress) as journal:
            pairs = zip(sources, map(_of_speech, sources, journal.results()), strict=True)
            recordings_s, segments = 0.0, list[JudgedSegment]()
            results: list[Utterance | LeftOut] = [*repeated]
            for source, result in reported(pairs, "cutting", "recordings", on_progress, len(sources)):
                results += self._of_recording(source, result, out.parent / AUDIO)
                if not isinstance(result, UserError):
                    recordings_s += result.duration_s
                    segments += [
                        JudgedSegment(self.calibrated.confidence(one.confidences), one.end_s - one.start_s)
                        for one in result.segments
                    ]
            parts = partition(results)
            write_left_out(_left_out_path(out), parts.left_out)
            if not parts.kept:
                reasons = reason_lines(parts.left_out, _left_out_path(out))
                why = "no speech was found; name recordings of speech"
                if segments:
                    highest = max(segment.confidence for segment in segments)
                    why = (
                        f"the highest confidence is {highest:.2f}; lower `min_confidence`, or train the run "
                        "on more labels"
                    )
                raise UserError("\n".join([f"{out}: nothing is kept, as {why}", *reasons]))
            write_manifest(out, parts.kept)
        return Labelled(out, parts.kept, parts.left_out, len(sources), recordings_s, segments)

    def _of_recording(
        self, source: Path, result: Transcript | UserError, folder: Path
    ) -> list[Utterance | LeftOut]:
        """Return an utterance for each segment that is kept, and what is left out of a recording."""
        if isinstance(result, UserError):
            return [LeftOut(str(source), UNREADABLE_AUDIO, str(result).removeprefix(f"{source}: "))]
        if not is_utf8(str(source)):
            return [LeftOut(str(source), NOT_UTF8)]
        if not result.segments:
            return [LeftOut(str(source), NO_SPEECH)]
        reason = f"confidence below {self.min_confidence:g}"
        left_out: list[Utterance | LeftOut] = []
        sure: list[tuple[Segment, float]] = []
        for segment in result.segments:
            confidence = self.calibrated.confidence(segment.confidences)
            if confidence >= self.min_confidence:
                sure.append((segment, confidence))
            else:
                where = Recording("", str(source), "", begin_s=segment.start_s, end_s=segment.end_s).where
                left_out.append(LeftOut(where, reason, f"{confidence:.3f}: {segment.text}"))
        try:
            return [*self._utterances(source, result, sure, folder), *left_out]
        except UserError as error:
            return [LeftOut(str(source), UNREADABLE_AUDIO, str(error).removeprefix(f"{source}: "))]

    def _utterances(
        self, source: Path, result: Transcript, sure: Sequence[tuple[Segment, float]], folder: Path
    ) -> Iterator[Utterance]:
        """Yield the utterances of segments; those of a longer recording are written as files of their own."""
        path = source.resolve()
        name = f"{source.stem}-{zlib.crc32(str(path).encode()):08x}"
        made_by = self._made_by(path)
        if _is_whole([segment for segment, _ in sure], result):
            ((segment, confidence),) = sure
            label = dataclasses.replace(made_by, confidence=round(confidence, 4))
            yield Utterance(
                name, str(path), audio_duration_s(path), segment.text, segment.tokens, labelled_by=label
            )
            return
        folder.mkdir(parents=True, exist_ok=True)
        spans = list(_without_overlaps(segment for segment, _ in sure))
        for (segment, confidence), span, samples in zip(sure, spans, read_spans(path, spans), strict=True):
            one = f"{name}-{round(1000 * segment.start_s)}"
            begin, end = (round(1000 * sample / SAMPLE_RATE_HZ) for sample in span)
            wav = folder / f"{file_name(f'{name}-{begin}-{end}')}.wav"
            write_wav(wav, samples)
            label = dataclasses.replace(
                made_by, confidence=round(confidence, 4), begin_s=round(span[0] / SAMPLE_RATE_HZ, 4)
            )
            duration_s = len(samples) / SAMPLE_RATE_HZ
            yield Utterance(one, str(wav), duration_s, segment.text, segment.tokens, labelled_by=label)

    def _made_by(self, source: Path) -> MachineLabel:
        origin = self.recognizer.origin
        model = origin.files[0].stem if origin else ""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return MachineLabel(str(self.run), model, __version__, today, 0.0, str(source))


def _of_speech(source: Path, result: Transcript | UserError) -> Transcript | UserError:
    """Return a transcript, which has no segment if the recording is without speech.

    A short recording was recognized as a whole, and a model may write words for noise or silence. One that
    was cut at its pauses consists of speech.
    """
    if isinstance(result, UserError) or not _is_whole(result.segments, result):
        return result
    try:
        has_speech = speech_frames(read_audio(source)).any()
    except UserError as error:
        return error
    return result if has_speech else dataclasses.replace(result, segments=())


def _is_whole(segments: Sequence[Segment], result: Transcript) -> bool:
    return [(segment.start_s, segment.end_s) for segment in segments] == [(0, result.duration_s)]


def _number_and_duration(segments: Sequence[JudgedSegment]) -> tuple[str, str]:
    return f"{len(segments):,}", duration(sum(segment.duration_s for segment in segments))


def _left_out_path(manifest: Path) -> Path:
    return manifest.with_name(f"{manifest.stem}.left_out.tsv")


def _without_overlaps(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of segments in samples."""
    last = 0
    for segment in segments:
        begin, end = (round(time_s * SAMPLE_RATE_HZ) for time_s in (segment.start_s, segment.end_s))
        begin = max(begin, last)
        yield begin, end
        last = end
