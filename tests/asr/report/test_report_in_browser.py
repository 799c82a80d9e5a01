"""Test in a real Chromium that a report's recordings are played from where their spectrogram is clicked."""

from types import SimpleNamespace

import numpy as np
from helpers.browser import chromium
from helpers.transcripts import segment_of

from asr.audio.recording import write_wav
from asr.base.types import Utterance
from asr.evaluation.errors.metrics import total_edits
from asr.evaluation.labels.label_review import LabelReview
from asr.evaluation.scores import scores_of
from asr.report.evaluation_page import ReportedRun, ReportedSet, write_report


def test_a_click_on_the_spectrogram_plays_from_there(tmp_path):
    path = tmp_path / "a.wav"
    write_wav(path, np.random.default_rng(0).integers(-5000, 5000, 4 * 16000).astype(np.int16))
    utterances = [Utterance("u", str(path), 4.0, "", ("a", "b"))]
    hypotheses = [segment_of(["a", "c"])]
    evaluation = SimpleNamespace(
        utterances=utterances,
        hypotheses=hypotheses,
        loss=1.0,
        edits=total_edits([(utterances[0].tokens, hypotheses[0].tokens)]),
        token="",
    )
    scores = scores_of(utterances, hypotheses)
    report = tmp_path / "report.html"
    write_report(report, ReportedRun("x"), ReportedSet("test", evaluation, scores, LabelReview(())))
    with chromium("--autoplay-policy=no-user-gesture-required") as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(report.as_uri())
        picture = page.locator(".picture")
        box = picture.bounding_box()
        picture.click(position={"x": 0.75 * box["width"], "y": 50})
        page.wait_for_function("document.querySelector('audio').currentTime > 2.9")
        assert page.locator(".cursor").evaluate("cursor => parseFloat(cursor.style.left)") >= 72
        browser.close()
