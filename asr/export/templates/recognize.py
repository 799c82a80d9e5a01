"""Transcribe speech by the model in this folder; needs NumPy, soundfile, and its runtime.

python recognize.py question.mp3                    # any rate, channels and container of libsndfile
python recognize.py - < question.wav
python recognize.py *.wav --format jsonl            # with times and confidences, one object a line
arecord -q -f S16_LE -r 16000 | python recognize.py --stream -
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from models import load_model
from recordings import RATE_HZ, SHORTEST, RecordingError, Waveform, pieces, read_recording

HERE = Path(__file__).resolve().parent
WORD_BOUNDARY = "▁"
EXIT_MISTAKE = 2
STEP = 5120  # samples of a stream, 0.32 s, after which its transcript is updated
PAUSE_S = 0.7  # without a token, ends a segment of a stream
LONG_S = 30.0  # a segment of this length ends before a word that a blank precedes, one of twice this anyway

LogProbs = npt.NDArray[np.float32]  # (T, V), natural logarithms


class Best(NamedTuple):
    """The best token of every frame.

    Attributes:
        ids: (T,) int64.
        scores: (T,) float64, their natural log probabilities.
    """

    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]

    @classmethod
    def of(cls, log_probs: LogProbs) -> Best:
        """Return the best tokens of (T, V) log probabilities."""
        return cls(log_probs.argmax(axis=1), log_probs.max(axis=1).astype(float))

    def between(self, begin: int | None, end: int | None) -> Best:
        """Return those of some frames."""
        return Best(self.ids[begin:end], self.scores[begin:end])

    def followed_by(self, other: Best) -> Best:
        """Return these frames and others behind them."""
        return Best(np.append(self.ids, other.ids), np.append(self.scores, other.scores))


class Transcript(NamedTuple):
    """What was recognized.

    Attributes:
        text: the tokens as one string, or the hanzi they were converted to.
        tokens: units of the vocabulary.
        times_s: when each token was first emitted, in seconds.
        confidences: estimated probability that each token is correct.
        score: natural logarithm of the best alignment's probability.
    """

    text: str
    tokens: list[str]
    times_s: list[float]
    confidences: list[float]
    score: float


class Recognizer:
    """The model in a folder, with its decoder.

    Args:
        folder: with a model, tokens.txt and model.json.
        write_hanzi: whether the text of a Mandarin model is hanzi, if the folder has what that needs.
    """

    def __init__(self, folder: Path = HERE, write_hanzi: bool = True) -> None:
        self.about: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        lines = (folder / "tokens.txt").read_text("utf-8").splitlines()
        self.tokens = [line.rpartition(" ")[0] for line in lines]  # their ids are 0, 1, 2, ...
        self._model = load_model(folder)
        self._converter = None
        if write_hanzi and (folder / "hanzi.npz").is_file():
            from hanzi import Converter

            self._converter = Converter(folder / "hanzi.npz")

    def transcribe(self, waveform: Waveform) -> Transcript:
        """Transcribe (S,) int16 samples at 16 kHz of any length; long recordings are cut at their pauses."""
        parts = []
        for piece in pieces(waveform, self.about["ignores_silence"]):
            part = self.decode(self.log_probs(piece.waveform))
            if part.tokens or len(piece.waveform) == len(waveform):  # a clip's score is that of its silence
                begin_s = piece.begin / RATE_HZ
                parts.append(part._replace(times_s=[round(time + begin_s, 3) for time in part.times_s]))
        return joined(parts)

    def log_probs(self, waveform: Waveform) -> LogProbs:
        """Run the model on (S,) int16 samples."""
        if len(waveform) < SHORTEST:
            return np.zeros((0, len(self.tokens)), np.float32)
        frames = self._model(np.divide(waveform, 32768, dtype=np.float32))
        frames -= frames.max(axis=1, keepdims=True)
        log_probs: LogProbs = frames - np.log(np.exp(frames).sum(axis=1, keepdims=True))
        return log_probs

    def decode(self, log_probs: LogProbs) -> Transcript:
        """Decode greedily: take the best token of every frame, merge repeats, remove blanks."""
        return self.merge(Best.of(log_probs))

    def merge(self, best: Best, first: int = 0) -> Transcript:
        """Merge repeats of the best tokens and remove blanks; the frames begin at number `first`."""
        begins = self.begins(best)
        run_ends = np.flatnonzero(np.diff(best.ids, append=-1)) + 1
        ends = run_ends[np.searchsorted(run_ends, begins, side="right")]
        tokens = [self.tokens[index] for index in best.ids[begins]]
        return Transcript(
            self.text_of(tokens),
            tokens,
            [round(float(first + begin) * self.about["frame_s"], 3) for begin in begins],
            [float(np.exp(best.scores[begin:end].mean())) for begin, end in zip(begins, ends, strict=True)],
            float(best.scores.sum()),
        )

    def begins(self, best: Best) -> npt.NDArray[np.int64]:
        """Return the frames in which tokens begin."""
        blank = self.about["blank_id"]
        return np.flatnonzero((best.ids != blank) & (best.ids != np.append(blank, best.ids)[:-1]))

    def text_of(self, tokens: Sequence[str]) -> str:
        """Return tokens as readable text."""
        if self.about["unit"] == "mixed":
            words = _mixed_words(tokens)
            if self._converter is None:
                return " ".join(word.removeprefix(WORD_BOUNDARY) for word in words)
            return self._converter.convert(words)
        if self._converter is not None:
            return self._converter.convert(tokens)
        has_spaces = self.about["unit"] != "pieces" and any(map(_is_longer_than_a_character, self.tokens[1:]))
        gap = " " if has_spaces else ""
        return gap.join(tokens).replace(WORD_BOUNDARY, " ").strip()


def joined(parts: Sequence[Transcript]) -> Transcript:
    """Return the transcripts of stretches of a recording as one."""
    return Transcript(
        " ".join(part.text for part in parts if part.text),
        [token for part in parts for token in part.tokens],
        [time for part in parts for time in part.times_s],
        [confidence for part in parts for confidence in part.confidences],
        sum((part.score for part in parts), 0.0),
    )


def _mixed_words(tokens: Sequence[str]) -> list[str]:
    """Return syllables as they are, and Latin words, whose letters or pieces are in a row, after a mark."""
    words: list[str] = []
    before = ""
    for token in tokens:
        letters = token.removeprefix(WORD_BOUNDARY)
        is_syllable = token[-1].isdigit()
        kind = "syllable" if is_syllable else "letter" if len(token) == 1 and token.isupper() else "piece"
        if kind == before and (kind == "letter" or (kind == "piece" and letters == token)):
            words[-1] += letters
        elif letters:
            words.append(token if is_syllable else WORD_BOUNDARY + letters)
        before = kind if letters else ""
    return words


def _is_longer_than_a_character(token: str) -> bool:
    return any(unicodedata.category(char)[0] != "M" for char in token[1:])  # other than marks on the first


class Stream:
    """Recognition while speech comes in, segment by segment; the tokens are those of the whole recording.

    The model runs on the new samples and on those around them that it needs. A frame is settled when what it
    depends on is complete. What is held does not grow with the stream.

    Args:
        recognizer: with a model whose outputs depend on a bounded stretch of sound.

    Attributes:
        num_final: tokens of the open segment that cannot change.
    """

    def __init__(self, recognizer: Recognizer) -> None:
        field = recognizer.about["receptive_field_samples"]
        if field is None:
            raise RecordingError(
                "--stream: this model needs the whole recording, as its features are normalised over it or "
                "its network sees all of it; train one with features.normalize = false, which is a conformer "
                "with model.chunk_s or a separable network of the sizes up to sm_deep"
            )
        self._recognizer, self._before, self._after = recognizer, field["before"], field["after"]
        self._chunk: int = field.get("chunk", 1)  # frames that depend on the same samples
        self._frame: int = recognizer.about["frame_samples"]
        self._held = np.zeros(0, np.int16)
        self._begin = 0  # of the samples held; a multiple of a chunk
        self._settled = Best.of(np.zeros((0, len(recognizer.tokens)), np.float32))  # of the open segment
        self._first = 0  # its first frame
        self.num_final = 0

    def feed(self, samples: Waveform) -> tuple[list[Transcript], Transcript]:
        """Accept further samples, (n,) int16 at 16 kHz.

        Returns:
            The segments that have ended, some without a token, and the open one.
        """
        self._held = np.concatenate([self._held, samples])
        num_settled = self._first + len(self._settled.ids)
        new = Best.of(self._recognizer.log_probs(self._held)[num_settled - self._begin // self._frame :])
        num_complete = (self._begin + len(self._held) - 1 - self._after) // self._frame + 1
        num_complete -= num_complete % self._chunk
        num_new = min(max(0, num_complete - num_settled), len(new.ids))
        self._settled = self._settled.followed_by(new.between(0, num_new))
        needed = (num_settled + num_new) * self._frame - self._before
        chunk = self._chunk * self._frame
        drop = max(0, needed // chunk * chunk - self._begin)
        self._held, self._begin = self._held[drop:], self._begin + drop
        ended = self._ended()
        self.num_final = len(self._recognizer.begins(self._settled))
        ahead = self._settled.followed_by(new.between(num_new, None))
        return ended, self._recognizer.merge(ahead, self._first)

    def _ended(self) -> list[Transcript]:
        """End the segments that are over within the settled frames, and return them."""
        ended = []
        while end := self._end():
            ended.append(self._recognizer.merge(self._settled.between(0, end), self._first))
            self._settled, self._first = self._settled.between(end, None), self._first + end
        return ended

    def _end(self) -> int:
        """Return how long the open segment is if it is over: at a pause, or before a word if it is long."""
        frame_s, num_frames = self._recognizer.about["frame_s"], len(self._settled.ids)
        is_blank = self._settled.ids == self._recognizer.about["blank_id"]
        places = np.concatenate([[-1], np.flatnonzero(~is_blank), [num_frames]])
        if len(pauses := np.flatnonzero((np.diff(places) - 1) * frame_s >= PAUSE_S)):
            return int(places[pauses[0] + 1])
        if num_frames * frame_s > LONG_S:
            begins = [place for place in places[2:-1] if is_blank[place - 1] and self._begins_word(place)]
            if begins:
                return int(begins[-1])
        return num_frames if num_frames * frame_s > 2 * LONG_S else 0

    def _begins_word(self, frame: int) -> bool:
        tokens = self._recognizer.tokens
        has_pieces = self._recognizer.about["unit"] in ("pieces", "mixed")
        token = tokens[self._settled.ids[frame]]
        return not has_pieces or token.startswith(WORD_BOUNDARY) or token[-1].isdigit()


def samples_of(path: str) -> Iterator[Waveform]:
    """Yield a recording in steps; standard input is plain 16-bit samples at 16 kHz, of one channel."""
    if path != "-":
        waveform = read_recording(path)
        yield from (waveform[begin : begin + STEP] for begin in range(0, len(waveform), STEP))
        return
    while data := sys.stdin.buffer.read(2 * STEP):
        yield np.frombuffer(data[: len(data) // 2 * 2], "<i2")


def print_stream(recognizer: Recognizer, path: str, as_json: bool) -> None:
    """Print the open segment of a stream whenever it changes; as JSON, the whole transcript at the end."""
    stream, shown = Stream(recognizer), ""
    whole: list[Transcript] = []  # what has ended
    rest: list[Transcript] = []  # what is open
    for samples in samples_of(path):
        ended, transcript = stream.feed(samples)
        whole += ended if as_json else []
        rest = [transcript]
        for segment, num_final in [
            *((one, len(one.tokens)) for one in ended),
            (transcript, stream.num_final),
        ]:
            has_ended = segment is not transcript
            if segment.text != shown or (as_json and has_ended and segment.tokens):
                parts = {"final": segment.tokens[:num_final], "provisional": segment.tokens[num_final:]}
                line = json.dumps(
                    {"file": path, "text": segment.text, **parts, "ended": has_ended}, ensure_ascii=False
                )
                print(line if as_json else segment.text, flush=True)
            shown = "" if has_ended else segment.text
    if as_json and rest:
        print_transcript(path, joined(whole + rest), as_json=True, with_name=True)


def print_transcript(path: str, transcript: Transcript, *, as_json: bool, with_name: bool) -> None:
    """Print a transcript as `asr transcribe` does."""
    if as_json:
        rounded = transcript._replace(
            confidences=[round(confidence, 3) for confidence in transcript.confidences],
            score=round(transcript.score, 4),
        )
        print(json.dumps({"file": path, **rounded._asdict()}, ensure_ascii=False), flush=True)
    else:
        print((f"{path}\t" if with_name else "") + transcript.text, flush=True)


def main() -> int:
    """Transcribe the files of the command line, and return the exit status."""
    parser = argparse.ArgumentParser(description="Transcribe speech by the model in this folder.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="recordings, or - for standard input")
    parser.add_argument("--format", choices=["text", "jsonl"], default="text", help="default: text")
    parser.add_argument("--tokens", action="store_true", help="write syllables, without hanzi conversion")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="recognize while sound comes in; - is then plain 16-bit samples at 16 kHz, of one channel",
    )
    arguments = parser.parse_args()
    as_json = arguments.format == "jsonl"
    recognizer = Recognizer(write_hanzi=not arguments.tokens)
    status = 0
    for path in arguments.files:
        try:
            if arguments.stream:
                print_stream(recognizer, path, as_json)
            else:
                transcript = recognizer.transcribe(read_recording(path))
                print_transcript(path, transcript, as_json=as_json, with_name=len(arguments.files) > 1)
        except RecordingError as error:
            status = EXIT_MISTAKE
            print(f"error: {error}", file=sys.stderr)
            if as_json:
                print(json.dumps({"file": path, "error": str(error)}, ensure_ascii=False), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
