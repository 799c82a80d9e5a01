"""Test that labels are only used again with all that they were made of, and with their own recordings."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.evaluation.labels.label_origin import is_made_of, origin_digest, record_origin
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from data_pipeline.manifests.manifest import write_manifest


@pytest.fixture
def labelled(clips, tmp_path):
    """Return a manifest whose recordings are its own."""
    own = [Path(shutil.copy(clip.audio_path, tmp_path)) for clip in clips[:2]]
    path = tmp_path / "labelled.jsonl"
    write_manifest(
        path, [dataclasses.replace(c, audio_path=str(o)) for c, o in zip(clips, own, strict=False)]
    )
    record_origin(path, "digest")
    return path, own


def test_complete_labels_are_used_again(labelled):
    path, _ = labelled
    assert is_made_of(path, "digest")
    assert not is_made_of(path, "other")


def test_labels_that_were_changed_are_not_used_again(labelled):
    path, _ = labelled
    path.write_bytes(path.read_bytes() + b"\n")
    assert not is_made_of(path, "digest")


def test_labels_without_their_recordings_are_not_used_again(labelled):
    path, own = labelled
    own[1].unlink()
    assert not is_made_of(path, "digest")


def test_the_digest_follows_run_decoder_dev_and_recordings(separable_run, clips, tmp_path):
    dev, source = tmp_path / "dev.jsonl", Path(shutil.copy(clips[0].audio_path, tmp_path))
    write_manifest(dev, clips[:3])
    run, greedy = Run(separable_run), DecoderChoice(DecoderSettings())
    found = {origin_digest(run, greedy, dev, 0.8, [source]), origin_digest(run, greedy, dev, 0.7, [source])}
    found.add(origin_digest(run, DecoderChoice(DecoderSettings(beam=4)), dev, 0.8, [source]))
    write_manifest(dev, clips[:2])
    found.add(origin_digest(run, greedy, dev, 0.8, [source]))
    source.write_bytes(b"other")
    found.add(origin_digest(run, greedy, dev, 0.8, [source]))
    assert len(found) == 5
    assert origin_digest(run, greedy, dev, 0.8, [source]) in found
