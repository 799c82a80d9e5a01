"""Test what is said of transcripts that are probably wrong; the commands' tests resume transcriptions."""

from pathlib import Path

import pytest
from helpers.transcripts import transcript_of

from asr.base.errors import UserError
from asr.transcription.to_files.resumable_transcription import DoubtfulTranscripts

SURE = transcript_of(("ni3", "hao3"), "你好", confidences=(0.9, 0.6))
DOUBTFUL = transcript_of(("ni3", "hao3"), "你好", confidences=(0.7, 0.3))
UNRATED = transcript_of(("ni3", "hao3"), "你好")


def logged(results, caplog):
    doubtful = DoubtfulTranscripts()
    for name, result in results.items():
        doubtful.add(Path(name), result)
    doubtful.log()
    return [record.getMessage() for record in caplog.records]


def test_a_recording_of_which_half_is_probably_wrong_is_named(caplog):
    (line,) = logged({"a.wav": DOUBTFUL}, caplog)
    assert line.startswith("a.wav: half of the transcript or more is probably wrong")
    assert "train.init_from" in line


def test_of_many_recordings_the_doubtful_ones_are_counted_in_one_line(caplog):
    results = {"sure.wav": SURE, **{f"{number}.wav": DOUBTFUL for number in range(9)}, "none.wav": UNRATED}
    (line,) = logged(results | {"bad.wav": UserError("bad.wav: not audio")}, caplog)
    assert line.startswith("9 of 11 recordings (0.wav, 1.wav, 2.wav")


@pytest.mark.parametrize("result", [SURE, UNRATED, UserError("a.wav: not audio")])
def test_nothing_is_said_of_a_sure_transcript_and_of_one_without_confidences(result, caplog):
    assert logged({"a.wav": result}, caplog) == []
