import dataclasses
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from helpers import ROOT

from asr.audio import recording
from asr.audio.recording import audio_header, piece_of_file, read_audio
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from asr.base.text.pieces import UNITS_MODEL, learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.types import MachineLabel
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.batches import pack
from data_pipeline.batches.dataset import Dataset
from data_pipeline.batches.pack import pack_manifest
from data_pipeline.corpora.forms import tar_shards
from data_pipeline.doctor.quick import check_audio
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.preparation.prepare import prepare_corpus

BY_MACHINE = MachineLabel("runs/a", "epoch-0001.npz", "1.0", "2026-11-29", 0.9, "/talk.wav")


@pytest.fixture(scope="module")
def mixed(clips, tmp_path_factory):
    """Return a manifest of several containers and sample rates."""
    folder = tmp_path_factory.mktemp("mixed")
    rows = list(clips)
    for place, (suffix, rate_hz) in enumerate([(".flac", 16000), (".mp3", 22050), (".wav", 8000)]):
        path = folder / f"x{suffix}"
        soundfile.write(path, np.random.default_rng(place).normal(0, 0.1, (rate_hz, 2)), rate_hz)
        rows[place] = dataclasses.replace(rows[place], audio_path=str(path), duration_s=1.0)
    write_manifest(folder / "train.jsonl", rows[::-1])
    return folder / "train.jsonl"


@pytest.fixture(scope="module", params=["tfrecord", "tar"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def packed(mixed, kind, tmp_path_factory):
    return pack_manifest(mixed, tmp_path_factory.mktemp("packed"), shard_bytes=100_000, kind=kind)


def test_batches_of_a_packed_corpus_equal_the_original_bit_for_bit(mixed, packed):
    batches = []
    for manifest in (mixed, packed.manifest):
        utterances = read_manifest(manifest)
        augmenter = Augmenter.load(AugmentConfig(speed_min=0.9, speed_max=1.1), 1)
        data = Dataset(utterances, Vocabulary.of_utterances(utterances), 5.0, augmenter)
        plan, found = data.epoch(0, 1, lambda num_samples, labels: True)
        batches.append((plan, [list(map(np.asarray, batch)) for batch in found]))
    (plan, one), (packed_plan, other) = batches
    assert plan == packed_plan
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("key", ["noise", "reverb"])
def test_sounds_in_a_pack_are_added_to_speech_as_those_in_files(clips, kind, key, tmp_path):
    always = AugmentConfig(noise_probability=1.0, reverb_probability=1.0, pauses=0.0)
    write_manifest(tmp_path / "sounds.jsonl", clips[:3])
    packed = pack_manifest(tmp_path / "sounds.jsonl", tmp_path / "out", kind=kind)
    speech, changed = read_audio(clips[4].audio_path), []
    for manifest in (tmp_path / "sounds.jsonl", packed.manifest):
        augmenter = Augmenter.load(dataclasses.replace(always, **{key: str(manifest)}), 1)
        changed.append([augmenter.apply(speech, epoch, 7, 1.0) for epoch in range(6)])
    np.testing.assert_array_equal(*changed)
    assert (changed[0] != speech).any()


@pytest.mark.parametrize("kind", ["tfrecord"], indirect=True)
def test_packed_files_are_tfrecords_that_tensorflow_reads(mixed, packed):
    shards = sorted(packed.manifest.parent.glob("*.tfrecord"))
    assert len(shards) == packed.num_files > 3
    features = {
        name: tf.io.FixedLenFeature([], tf.string) for name in ("audio", "id", "text", "tokens", "speaker")
    }
    found = {}
    for record in tf.data.TFRecordDataset(list(map(str, shards))):
        example = tf.io.parse_single_example(record, features)
        found[example["id"].numpy().decode()] = (example, example["audio"].numpy())
    for utterance in read_manifest(mixed):
        example, audio = found[utterance.id]
        assert example["text"].numpy().decode() == utterance.text
        assert example["tokens"].numpy().decode().split() == list(utterance.tokens)
        np.testing.assert_array_equal(read_audio(io.BytesIO(audio)), read_audio(utterance.audio_path))
        if utterance.audio_path.endswith(".flac"):
            assert audio == Path(utterance.audio_path).read_bytes()
        else:
            waveform, rate_hz = tf.audio.decode_wav(audio)
            assert (rate_hz, waveform.shape[1]) == (16000, 1)


@pytest.mark.parametrize("kind", ["tar"], indirect=True)
def test_packed_files_are_a_corpus_in_tar_shards(mixed, packed):
    shards = sorted(packed.manifest.parent.glob("*.tar"))
    assert len(shards) == packed.num_files > 3
    found = {u.id: u for u in tar_shards.CORPUS.read(packed.manifest.parent, Path("unused")).splits["train"]}
    for utterance in read_manifest(mixed):
        recording = found[utterance.id]
        said = (recording.text, recording.tokens, recording.speaker)
        assert said == (utterance.text, utterance.tokens, utterance.speaker)
        np.testing.assert_array_equal(read_audio(recording.audio_path), read_audio(utterance.audio_path))


@pytest.mark.parametrize("kind", ["tfrecord", "tar"], indirect=True)
def test_packed_manifest_is_prepared_like_any_list(mixed, packed, tmp_path):
    prepared = prepare_corpus("json_lines", str(packed.manifest), tmp_path / "out")
    again = {u.id: u.audio_path for path in prepared.manifests.values() for u in read_manifest(path)}
    assert again == {u.id: u.audio_path for u in read_manifest(packed.manifest)}


def test_labels_by_a_model_stay_such_in_shards_and_are_named_in_dev(clips, tmp_path):
    rows = [
        dataclasses.replace(clip, labelled_by=BY_MACHINE if index % 2 else None, speaker=f"s{index}")
        for index, clip in enumerate(clips)
    ]
    write_manifest(tmp_path / "all.jsonl", rows)
    pack_manifest(tmp_path / "all.jsonl", tmp_path / "packed", kind="tar")
    prepared = prepare_corpus("tar_shards", str(tmp_path / "packed"), tmp_path / "out")
    found = {split: read_manifest(path) for split, path in prepared.manifests.items()}
    assert {u.id: u.labelled_by for us in found.values() for u in us} == {u.id: u.labelled_by for u in rows}
    by_machine = {
        split: sum(u.labelled_by is not None for u in us) for split, us in found.items() if split != "train"
    }
    assert any(by_machine.values())
    for split, number in by_machine.items():
        note = f"{split}: {number} of {len(found[split])} labels are by a model"
        assert (note in "\n".join(prepared.lines())) == (number > 0)


def test_ids_that_cannot_name_files_are_kept(clips, tmp_path):
    ids = ["a.1", "a.2", "talks/b", "好", "_00000001", "plain"]
    rows = [dataclasses.replace(clip, id=name) for clip, name in zip(clips, ids, strict=False)]
    write_manifest(tmp_path / "train.jsonl", rows)
    packed = pack_manifest(tmp_path / "train.jsonl", tmp_path / "out", kind="tar")
    packed.manifest.unlink()  # as if the command had been interrupted
    assert pack_manifest(tmp_path / "train.jsonl", tmp_path / "out", kind="tar") == packed
    with tarfile.open(tmp_path / "out" / "train.jsonl-00000.tar") as tar:
        names = {name.split(".")[0] for name in tar.getnames()}
        assert len(names) == len(ids)
        assert "plain" in names


def test_packing_again_in_another_format_raises(mixed, kind, tmp_path):
    other = "tar" if kind == "tfrecord" else "tfrecord"
    packed = pack_manifest(mixed, tmp_path / "out@1+2", kind=kind)
    assert pack_manifest(mixed, tmp_path / "out@1+2", kind=kind) == packed
    with pytest.raises(UserError, match="is packed in another format; choose another folder"):
        pack_manifest(mixed, packed.manifest.parent, kind=other)
    packed.manifest.unlink()  # as if the command had been interrupted
    with pytest.raises(UserError, match=r"has files of train\.jsonl in another format"):
        pack_manifest(mixed, packed.manifest.parent, kind=other)


def test_long_text_is_packed_and_found_again(clips, tmp_path):
    write_manifest(tmp_path / "train.jsonl", [dataclasses.replace(clips[0], text="好" * 400_000)])
    packed = pack_manifest(tmp_path / "train.jsonl", tmp_path / "out", kind="tar")
    packed.manifest.unlink()
    assert pack_manifest(tmp_path / "train.jsonl", tmp_path / "out", kind="tar") == packed


def test_packed_recordings_are_packed_as_they_are(mixed, packed, kind, tmp_path):
    again = pack_manifest(packed.manifest, tmp_path, shard_bytes=100_000, kind=kind)
    sizes = [Path(u.audio_path.rpartition("@")[0]).stat().st_size for u in again.utterances]
    assert sizes == [Path(u.audio_path.rpartition("@")[0]).stat().st_size for u in packed.utterances]


def test_packed_clips_are_sorted_by_length(packed):
    def place(utterance):
        file, _, rest = utterance.audio_path.partition("@")
        return file, int(rest.split("+")[0])

    durations = [u.duration_s for u in sorted(packed.utterances, key=place)]
    assert durations == sorted(durations)


def test_audio_header_and_doctor_accept_packed_recordings(packed):
    assert not any(check_audio(read_manifest(packed.manifest)))
    header = audio_header(packed.utterances[0].audio_path)
    assert (header.rate_hz, header.num_channels, header.container) == (16000, 1, "WAV")


def test_reading_from_a_truncated_or_missing_pack_raises(mixed, kind, tmp_path):
    packed = pack_manifest(mixed, tmp_path, shard_bytes=1, kind=kind)
    last = packed.utterances[-1].audio_path
    shard = tmp_path / Path(last.partition("@")[0]).name
    shard.write_bytes(shard.read_bytes()[:-15000])
    with pytest.raises(UserError, match=rf"{kind}.*the file ends before"):
        read_audio(last)
    shard.unlink()
    with pytest.raises(UserError, match=rf"{kind}.*No such file"):
        read_audio(last)


def test_unreadable_recording_is_listed_and_the_others_are_packed(clips, tmp_path, capsys):
    gone = dataclasses.replace(clips[0], audio_path=str(tmp_path / "gone.wav"))
    write_manifest(tmp_path / "m.jsonl", [gone, *clips[1:3]])
    assert main(["pack", str(tmp_path / "m.jsonl"), str(tmp_path / "out")]) == 2
    assert [u.id for u in read_manifest(tmp_path / "out" / "m.jsonl")] == [u.id for u in clips[1:3]]
    assert "gone.wav" in (tmp_path / "out" / "m.left_out.tsv").read_text("utf-8")
    assert "gone.wav" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["more", "repaired", "speaker"])
def test_packing_again_after_the_corpus_has_changed_raises(clips, tmp_path, change):
    lost = dataclasses.replace(clips[0], id="lost", audio_path=str(tmp_path / "lost.wav"))
    rows = [lost, *clips[:4]]
    write_manifest(tmp_path / "m.jsonl", rows)
    first = pack_manifest(tmp_path / "m.jsonl", tmp_path / "out")
    assert pack_manifest(tmp_path / "m.jsonl", tmp_path / "out").left_out == first.left_out
    if change == "more":
        rows.append(clips[5])
    elif change == "repaired":
        shutil.copy(clips[0].audio_path, lost.audio_path)
    else:
        rows[1] = dataclasses.replace(rows[1], speaker="somebody")
    write_manifest(tmp_path / "m.jsonl", rows)
    with pytest.raises(UserError, match=r"m\.jsonl: .* utterances .*; remove .*m\.jsonl-\*\.tfrecord"):
        pack_manifest(tmp_path / "m.jsonl", tmp_path / "out")


def test_packing_again_updates_what_only_the_manifest_has(clips, kind, tmp_path):
    manifest, out = tmp_path / "m.jsonl", tmp_path / "out"
    write_manifest(manifest, clips[:3])
    first = pack_manifest(manifest, out, kind=kind)
    files = [path.stat() for path in out.glob(f"*.{kind}")]
    changes = {"corpus": "stories"} if kind == "tar" else {"corpus": "stories", "labelled_by": BY_MACHINE}
    write_manifest(manifest, [dataclasses.replace(clips[0], **changes), *clips[1:3]])
    again = pack_manifest(manifest, out, kind=kind)
    changed, *others = first.utterances
    assert list(again.utterances) == [dataclasses.replace(changed, **changes), *others]
    assert [path.stat() for path in out.glob(f"*.{kind}")] == files


def test_labels_by_a_model_in_tar_files_are_packed_again_when_they_change(clips, tmp_path):
    manifest, out = tmp_path / "m.jsonl", tmp_path / "out"
    write_manifest(manifest, clips[:2])
    first = pack_manifest(manifest, out, kind="tar")
    write_manifest(manifest, [dataclasses.replace(clips[0], labelled_by=BY_MACHINE), clips[1]])
    with pytest.raises(UserError, match=r"contains other utterances .*; remove .*m\.jsonl-\*\.tar"):
        pack_manifest(manifest, out, kind="tar")
    first.manifest.unlink()  # as after an interruption
    pack_manifest(manifest, out, kind="tar")
    splits = tar_shards.CORPUS.read(out, Path("unused")).splits
    found = {u.id: u.labelled_by for recordings in splits.values() for u in recordings}
    assert found == {clips[0].id: BY_MACHINE, clips[1].id: None}


def test_packing_again_after_a_recording_has_changed_raises(clips, tmp_path):
    own, out = tmp_path / "a.wav", tmp_path / "out"
    shutil.copy(clips[0].audio_path, own)
    write_manifest(tmp_path / "m.jsonl", [dataclasses.replace(clips[0], audio_path=str(own)), clips[1]])
    first = pack_manifest(tmp_path / "m.jsonl", out)
    later_s = (out / "m.jsonl-00000.tfrecord").stat().st_mtime + 60
    os.utime(own, (later_s, later_s))  # as a copy has
    assert pack_manifest(tmp_path / "m.jsonl", out).num_files == first.num_files
    samples, rate_hz = soundfile.read(own, dtype="int16")
    soundfile.write(own, samples // 2, rate_hz)
    os.utime(own, (later_s, later_s))
    with pytest.raises(UserError, match=f"recordings changed \\({clips[0].id}\\); remove"):
        pack_manifest(tmp_path / "m.jsonl", out)
    (out / "m.jsonl").unlink()  # as after an interruption
    again = pack_manifest(tmp_path / "m.jsonl", out).utterances[0]
    np.testing.assert_array_equal(read_audio(again.audio_path), samples // 2)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: os.truncate(path, path.stat().st_size // 2)])
def test_packing_again_over_a_damaged_pack_raises(clips, kind, tmp_path, damage):
    manifest, out = tmp_path / "m.jsonl", tmp_path / "out"
    write_manifest(manifest, clips[:3])
    first = pack_manifest(manifest, out, kind=kind)
    damage(out / f"m.jsonl-00000.{kind}")
    with pytest.raises(UserError, match=rf"m\.jsonl-00000\.{kind}: .*; remove .*m\.jsonl and .*\*\.{kind}"):
        pack_manifest(manifest, out, kind=kind)
    first.manifest.unlink()
    for one in pack_manifest(manifest, out, kind=kind).utterances:
        assert audio_header(one.audio_path).duration_s == pytest.approx(one.duration_s, abs=1e-3)


def test_files_of_a_pack_without_manifest_are_replaced_where_recordings_were_cut(clips, tmp_path):
    path = tmp_path / "a.wav"
    samples, rate_hz = soundfile.read(clips[0].audio_path)
    rows = [dataclasses.replace(clips[0], audio_path=str(path)), clips[1]]
    for seconds_off in (0, 0.3):
        kept = samples[round(seconds_off * rate_hz) :]
        soundfile.write(path, kept, rate_hz)
        rows[0] = dataclasses.replace(rows[0], duration_s=len(kept) / rate_hz)
        write_manifest(tmp_path / "m.jsonl", rows)
        (tmp_path / "out" / "m.jsonl").unlink(missing_ok=True)
        for one in pack_manifest(tmp_path / "m.jsonl", tmp_path / "out").utterances:
            assert audio_header(one.audio_path).duration_s == pytest.approx(one.duration_s, abs=1e-3)


def test_model_of_pieces_is_beside_packed_manifests(clips, tmp_path):
    write_manifest(tmp_path / "m.jsonl", clips[:2])
    learn_pieces(["the cat sat on the mat"], LearnedUnits("bpe", 15)).save(tmp_path / UNITS_MODEL)
    pack_manifest(tmp_path / "m.jsonl", tmp_path / "out")
    assert (tmp_path / "out" / UNITS_MODEL).read_bytes() == (tmp_path / UNITS_MODEL).read_bytes()
    learn_pieces(["a dog ate the cat"], LearnedUnits("bpe", 15)).save(tmp_path / UNITS_MODEL)
    with pytest.raises(UserError, match="the pieces of different labels"):
        pack_manifest(tmp_path / "m.jsonl", tmp_path / "out")


def test_repeated_pack_keeps_finished_files_and_replaces_partial_ones(mixed, clips, tmp_path):
    write_manifest(tmp_path / "dev.jsonl", clips[:3])
    first = pack_manifest(mixed, tmp_path / "out")
    when = [path.stat().st_mtime_ns for path in sorted((tmp_path / "out").glob("train*"))]
    (tmp_path / "out" / "dev.jsonl-00000.tfrecord").write_bytes(b"half a file")
    assert main(["pack", str(mixed), str(tmp_path / "dev.jsonl"), str(tmp_path / "out")]) == 0
    assert [path.stat().st_mtime_ns for path in sorted((tmp_path / "out").glob("train*"))] == when
    assert pack_manifest(mixed, tmp_path / "out").utterances == read_manifest(first.manifest)
    for utterance in read_manifest(tmp_path / "out" / "dev.jsonl"):
        read_audio(utterance.audio_path)


@pytest.mark.parametrize("damage", ["", "cut", "other"])
def test_interrupted_pack_keeps_complete_files_and_ends_as_if_uninterrupted(
    mixed, packed, kind, tmp_path, monkeypatch, damage
):
    added = []

    def add(shards, *arguments):
        if len(added) == 6:
            raise KeyboardInterrupt
        added.append(arguments)
        return original(shards, *arguments)

    original = pack._Shards.add
    monkeypatch.setattr(pack._Shards, "add", add)
    with pytest.raises(KeyboardInterrupt):
        pack_manifest(mixed, tmp_path, shard_bytes=100_000, kind=kind)
    monkeypatch.undo()
    shards = sorted(tmp_path.glob(f"*.{kind}"))
    assert len(shards) > 1
    when = [path.stat().st_mtime_ns for path in shards]
    if damage == "cut":
        shards[1].write_bytes(shards[1].read_bytes()[:-15000])
    elif damage == "other":
        shards[1].write_bytes(shards[1].read_bytes().replace(b"demo-", b"omed-"))
    again = pack_manifest(mixed, tmp_path, shard_bytes=100_000, kind=kind)
    assert again.num_files == packed.num_files
    for name in ("train.jsonl", *(path.name for path in packed.manifest.parent.glob(f"*.{kind}"))):
        assert (tmp_path / name).read_bytes() == packed.manifest.with_name(name).read_bytes()
    kept = [path.stat().st_mtime_ns == before for path, before in zip(shards, when, strict=True)]
    assert kept == [True] + [not damage] * (len(shards) - 1)


def test_pack_stays_open_between_two_recordings(packed, monkeypatch):
    opened = []
    monkeypatch.setattr(recording, "open", lambda *a, **k: opened.append(a) or open(*a, **k), raising=False)  # noqa: PTH123, SIM115
    recording._opened_once.cache_clear()
    for utterance in packed.utterances:
        read_audio(utterance.audio_path)
    assert len(opened) == packed.num_files < len(packed.utterances)


def test_packing_over_other_utterances_raises(packed, kind, clips, tmp_path):
    write_manifest(tmp_path / "train.jsonl", [*clips[:2][::-1], dataclasses.replace(clips[2], id="new")])
    before = packed.manifest.read_bytes()
    with pytest.raises(UserError, match="contains other utterances"):
        pack_manifest(tmp_path / "train.jsonl", packed.manifest.parent, kind=kind)
    assert packed.manifest.read_bytes() == before


def test_manifests_with_the_same_stem_get_separate_files(mixed, clips, tmp_path):
    write_manifest(tmp_path / "train.json", clips[:2])
    for manifest in (mixed, tmp_path / "train.json"):
        pack_manifest(manifest, tmp_path / "out")
    for packed in (tmp_path / "out" / mixed.name, tmp_path / "out" / "train.json"):
        for utterance in read_manifest(packed):
            read_audio(utterance.audio_path)


def test_concurrent_packing_into_one_folder_raises(mixed, tmp_path):
    with exclusive_lock(tmp_path, "asr pack"), pytest.raises(UserError, match="another asr pack"):
        pack_manifest(mixed, tmp_path)


def test_packing_into_the_folder_of_the_manifest_raises(mixed):
    with pytest.raises(UserError, match="folder of the manifest itself"):
        pack_manifest(mixed, mixed.parent)


def test_reading_beyond_the_end_of_a_pack_raises_before_allocating(packed, kind):
    with pytest.raises(UserError, match="the file ends before"):
        read_audio(piece_of_file(packed.manifest.parent / f"train.jsonl-00000.{kind}", 0, 10**15))


def test_packing_into_an_unwritable_folder_raises(mixed, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write this folder"):
        pack_manifest(mixed, tmp_path / "file" / "out")


def test_full_disk_leaves_no_manifest_and_no_partial_file(mixed, kind, tmp_path):
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from asr.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "pack", mixed, tmp_path, "--format", kind]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 2, result.stderr
    assert "cannot write packed files" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".asr-pack.lock"]


def test_shards_are_packed_as_one_manifest(mixed, packed, tmp_path):
    utterances = read_manifest(mixed)
    write_manifest(tmp_path / "shards" / "train-0.jsonl.gz", utterances[:5])
    write_manifest(tmp_path / "shards" / "train-1.jsonl", utterances[5:])
    again = pack_manifest(tmp_path / "shards" / "train-*", tmp_path / "out")
    assert again.manifest == tmp_path / "out" / "train.jsonl"
    assert [u.id for u in read_manifest(again.manifest)] == [u.id for u in read_manifest(packed.manifest)]
