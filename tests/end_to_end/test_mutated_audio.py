"""Test that 500 randomly damaged recordings make no reader of audio crash or hang, and that all are named."""

import contextlib
import csv
import io
import json
import re
import resource

import numpy as np
import pytest
import soundfile
from helpers.damage import blank, cut, insert_garbage

from asr.audio.recording import audio_header, read_audio
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from data_pipeline.batches.dataset import Dataset
from data_pipeline.doctor.quick import check_utterances
from data_pipeline.manifests.manifest import read_manifest, write_manifest

NUM_FILES = 500
MOST_GROWTH_MB = 300
KINDS = [
    ("wav", "PCM_16"),
    ("wav", "FLOAT"),
    ("flac", "PCM_16"),
    ("ogg", "VORBIS"),
    ("mp3", "MPEG_LAYER_III"),
]


def flip_bits(data, rng):
    for place in rng.integers(len(data), size=rng.integers(1, 40)):
        data[place] ^= 1 << rng.integers(8)


def break_header(data, rng):
    data[rng.integers(4, 48)] = rng.integers(256)


def declare_huge_sizes(data, rng):
    huge = rng.choice([0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFF0, 0x10000000]).item()
    for name in (b"RIFF", b"data", b"fmt "):
        if (place := data.find(name)) >= 0 and rng.random() < 0.7:
            data[place + 4 : place + 8] = huge.to_bytes(4, "little")
    if data[:4] == b"fLaC":  # the number of samples: 36 bits of its first block
        data[21:26] = b"\xff" * 5


DAMAGES = [flip_bits, break_header, cut, declare_huge_sizes, insert_garbage, blank]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Return utterances whose one-second recordings are damaged; their manifest entries are not."""
    folder = tmp_path_factory.mktemp("damaged")
    rng = np.random.default_rng(11)
    sound = rng.normal(0, 0.1, 16000)
    whole = []
    for container, coding in KINDS:
        stream = io.BytesIO()
        soundfile.write(stream, sound, 16000, format=container.upper(), subtype=coding)
        whole.append((container, stream.getvalue()))
    utterances = []
    for number in range(NUM_FILES):
        container, data = whole[number % len(whole)]
        data = bytearray(data)
        DAMAGES[number // len(whole) % len(DAMAGES)](data, rng)
        path = folder / f"{number:03d}.{container}"
        path.write_bytes(data)
        utterances.append(Utterance(path.stem, str(path), 1.0, "你", ("ni3",)))
    write_manifest(folder / "train.jsonl", utterances)
    return utterances


@pytest.fixture(autouse=True)
def _memory_stays_bounded():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MOST_GROWTH_MB


def test_damaged_recording_is_read_or_named_in_an_error(damaged):
    refusals = {}
    for utterance in damaged:
        for reader in (read_audio, audio_header):
            with contextlib.suppress(UserError):
                reader(utterance.audio_path)
                continue
            with pytest.raises(UserError, match=re.escape(utterance.audio_path)):
                reader(utterance.audio_path)
            refusals[utterance.id] = reader
    assert 100 < len(refusals) < NUM_FILES


def test_recordings_that_pass_the_check_never_fail_in_training(damaged):
    sound, problems = check_utterances(damaged, Vocabulary(["ni3"]), lambda num_samples, labels: True)
    assert len(sound) + len(problems) == NUM_FILES
    for utterance in {u.id: u for u in damaged if u not in sound}.values():
        assert any(utterance.audio_path in problem for problem in problems)
    data = Dataset(sound, Vocabulary(["ni3"]), 20.0)
    plan, batches = data.epoch(0, 1, lambda num_samples, labels: True)
    assert sum(len(np.asarray(batch.num_samples)) for batch in batches) == sum(map(len, plan)) == len(sound)


@pytest.mark.slow
def test_doctor_names_damaged_recordings_and_its_clean_manifest_is_usable(damaged, tmp_path):
    manifest = damaged[0].audio_path.replace("000.wav", "train.jsonl")
    arguments = [manifest, "--json", str(tmp_path / "found.json"), "--html", str(tmp_path / "found.html")]
    assert main(["doctor", *arguments, "--write-clean", str(tmp_path / "clean")]) == 1
    clean = read_manifest(tmp_path / "clean" / "train.jsonl")
    kept = {utterance.id for utterance in clean}
    left_out = (tmp_path / "clean" / "left_out.txt").read_text(encoding="utf-8")
    named = json.dumps(json.loads((tmp_path / "found.json").read_text(encoding="utf-8")))
    for utterance in damaged:
        if utterance.id not in kept:
            assert utterance.audio_path in left_out
            assert f'"{utterance.id}"' in named
    for utterance in clean:
        read_audio(utterance.audio_path)
    assert 0 < len(clean) < NUM_FILES


def test_transcribe_transcribes_or_names_each_damaged_recording(damaged, trained_run, tmp_path, capsys):
    folder = damaged[0].audio_path.rpartition("/")[0]
    out = tmp_path / "out.csv"
    assert main(["transcribe", str(trained_run), folder, "--format", "csv", "--out", str(out)]) == 2
    with out.open(encoding="utf-8-sig", newline="") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    errors = capsys.readouterr().err
    for utterance in damaged:
        assert utterance.audio_path in rows
        try:
            read_audio(utterance.audio_path)
        except UserError:
            assert utterance.audio_path in errors
