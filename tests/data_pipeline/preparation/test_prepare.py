import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers import ROOT
from helpers.corpora.chinese import build_thchs30

from asr.audio.opening import open_recording
from asr.audio.recording import read_audio, write_wav
from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from asr.cli.main import main
from data_pipeline.corpora import find_corpus
from data_pipeline.doctor.quick import check_audio
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a transcript beside each clip, some of them unusable."""
    rng = np.random.default_rng(0)
    source = tmp_path / "mine"
    source.mkdir()
    sentences = ["今天天气很好", "我们去银行", "他得去", "长大", "绿色", "再见", "你好。", "谢谢"]
    for number, sentence in enumerate(sentences):
        soundfile.write(source / f"c{number}.wav", rng.normal(0, 0.1, 16000), 16000)
        (source / f"c{number}.txt").write_text(sentence, encoding="utf-8")
    (source / "c1.wav").write_bytes(b"")
    (source / "c6.txt").write_text("二〇一九年 OK", encoding="utf-8")
    return source


def prepared(folder, out):
    """Run `asr prepare` on the folder with a CSV list, and return its exit status."""
    rows = ["path,text,speaker"] + [
        f"{wav.name},{wav.with_suffix('.txt').read_text(encoding='utf-8')},s"
        for wav in sorted(folder.glob("*.wav"))
    ]
    rows += ["gone.wav,你好,s", "c0.wav,今天天气很好,s"]
    (folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    return main(["prepare", "table", str(folder / "list.csv"), str(out)])


def test_prepare_writes_manifests_and_reports_everything_left_out(folder, tmp_path, capsys):
    assert prepared(folder, tmp_path / "out") == 0
    output = capsys.readouterr().out
    kept = [u for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert {u.text for u in kept} == {"今天天气很好", "他得去", "长大", "绿色", "再见", "谢谢"}
    assert next(u for u in kept if u.text == "他得去").tokens == ("ta1", "dei3", "qu4")
    assert all(u.duration_s == 1.0 for u in kept)
    assert "left out: 4 of 10" in output
    rows = [line.split("\t") for line in (tmp_path / "out" / "left_out.tsv").read_text("utf-8").splitlines()]
    reasons = {Path(what).name: reason for reason, what, *_ in rows}
    assert reasons["gone.wav"] == "no such audio file"
    assert reasons["c0.wav"] == "repeated row"
    assert reasons["c1.wav"] == "unreadable audio"
    assert "found Latin letters" in reasons["c6.wav"]
    assert len(rows) == 4
    for reason in {row[0] for row in rows}:
        assert reason in output


def test_units_argument_chooses_the_labels(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    out = tmp_path / "characters"
    assert main(["prepare", "table", str(folder / "list.csv"), str(out), "--units", "characters"]) == 0
    kept = {u.text: u.tokens for path in out.glob("*.jsonl") for u in read_manifest(path)}
    assert kept["长大"] == ("长", "大")
    assert kept["二〇一九年 OK"] == ("二", "〇", "一", "九", "年", "o", "k")


def test_chosen_units_replace_the_labels_of_the_corpus(tmp_path):
    source = build_thchs30(tmp_path / "in")
    labels = {}
    for units in (None, "syllables"):
        manifests = prepare_corpus("thchs30", str(source), tmp_path / str(units), units).manifests
        labels[units] = {u.id: u.tokens for path in manifests.values() for u in read_manifest(path)}
    splits = find_corpus("thchs30").read(source, tmp_path).splits
    own = {recording.id: recording.tokens for rows in splits.values() for recording in rows}
    assert labels[None] == {name: own[name] for name in labels[None]}
    assert labels["syllables"].keys() <= own.keys()
    assert labels["syllables"] != labels[None]


def test_preparing_another_source_into_the_same_folder_fails(folder, tmp_path, capsys):
    prepared(folder, tmp_path / "out")
    assert prepared(folder, tmp_path / "out") == 0  # repeating the same command works
    (tmp_path / "other.csv").write_text("path,text\na.wav,你好\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["prepare", "table", str(tmp_path / "other.csv"), str(tmp_path / "out")]) == 2
    assert "prepared with source" in capsys.readouterr().err


def test_failed_preparation_is_repeated(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (tmp_path / "out" / "test.jsonl").unlink()
    (tmp_path / "out" / "test.jsonl").mkdir()  # so that it cannot be written
    assert prepared(folder, tmp_path / "out") == 2
    assert not json.loads((tmp_path / "out" / "prepared.json").read_text("utf-8"))["finished"]
    (tmp_path / "out" / "test.jsonl").rmdir()
    assert read_manifest(
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out").manifests["test"]
    )


def test_equal_ids_in_different_splits_get_the_split_as_prefix(folder, tmp_path):
    rows = ["id,path,text,split", "1,c0.wav,你好,train", "2,c2.wav,再见,train"]
    rows += ["1,c3.wav,谢谢,test", "1,c4.wav,绿色,dev"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    manifests = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out").manifests
    found = {split: {u.id: u.text for u in read_manifest(path)} for split, path in manifests.items()}
    assert found == {
        "train": {"train-1": "你好", "2": "再见"},
        "dev": {"dev-1": "绿色"},
        "test": {"1": "谢谢"},
    }


def test_recording_in_train_and_test_is_kept_in_test(folder, tmp_path):
    rows = ["id,path,text,split", "1,c0.wav,你好,train", "2,c2.wav,再见,train"]
    rows += ["1,c0.wav,你好,test", "3,c4.wav,绿色,dev"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    prepared = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out")
    found = {split: {u.id: u.text for u in read_manifest(path)} for split, path in prepared.manifests.items()}
    assert found == {"train": {"2": "再见"}, "dev": {"3": "绿色"}, "test": {"1": "你好"}}
    assert [row.reason for row in prepared.left_out] == ["duplicate id"]


def test_labels_of_a_list_are_converted_to_the_project_spelling(folder, tmp_path):
    rows = ["path,pinyin,split", "c0.wav,ni3 hao,train", "c2.wav,lü4 lue4,train", "c3.wav,hello,train"]
    rows += ["c4.wav,shi4,dev", "c5.wav,shi4,test"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    manifests = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out").manifests
    assert [u.tokens for u in read_manifest(manifests["train"])] == [("ni3", "hao5"), ("lv4", "lve4")]
    assert "invalid syllable labels" in (tmp_path / "out" / "left_out.tsv").read_text("utf-8")


def test_short_clips_and_non_utf8_names_are_left_out(folder, tmp_path):
    soundfile.write(folder / "one.wav", np.zeros(1), 16000)
    (folder / "one.txt").write_text("你好", encoding="utf-8")
    for suffix in ("wav", "txt"):
        (folder / f"c2.{suffix}").rename(os.fsdecode(os.fsencode(folder) + b"/\xc4\xe3." + suffix.encode()))
    assert main(["prepare", "folder", str(folder), str(tmp_path / "out")]) == 0
    kept = [u.id for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert sorted(kept) == ["c0", "c3", "c4", "c5", "c7"]
    left_out = (tmp_path / "out" / "left_out.tsv").read_bytes().decode("utf-8")
    assert "audio shorter than 25 ms" in left_out
    assert "name is not UTF-8" in left_out


def test_prepare_with_other_units_replaces_the_manifests(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    units = ["--units", "characters"]
    assert main(["prepare", "table", str(folder / "list.csv"), str(tmp_path / "out"), *units]) == 0
    kept = {u.text: u.tokens for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)}
    assert kept["长大"] == ("长", "大")
    with pytest.raises(UserError, match="prepared with units 'characters'"):
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out")


def test_prepared_manifests_are_used_when_the_source_is_gone(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (folder / "list.csv").rename(tmp_path / "moved.csv")
    manifests = prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out").manifests
    assert read_manifest(manifests["train"])
    assert main(["prepare", "table", str(folder / "list.csv"), str(tmp_path / "out")]) == 2
    assert read_manifest(manifests["train"])


def test_segment_outside_its_recording_is_left_out_with_its_reason(folder, tmp_path):
    rows = ["id,path,text,start,end", "1,c0.wav,你好,0.1,0.9", "2,c0.wav,再见,0.5,9", "3,c2.wav,绿色,0,0.8"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    prepared = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out")
    assert [(row.what, row.reason) for row in prepared.left_out] == [("2", "segment outside its recording")]
    assert sum(split.num_utterances for split in prepared.splits.values()) == prepared.num_found - 1 == 2


def test_pieces_of_earlier_times_stay_and_are_counted(folder, tmp_path):
    source, out = tmp_path / "list.csv", tmp_path / "out"
    times = ["0,0.5\nmine/c0.wav,再见,0.5,1", "0,0.5\nmine/c0.wav,再见,0.4,1"]
    pieces = []
    for each in times:
        source.write_text(f"file,text,start,end\nmine/c0.wav,你好,{each}\n", encoding="utf-8")
        found = prepare_corpus("table", str(source), out, again=True)
        pieces.append(
            {u.audio_path: u.text for path in found.manifests.values() for u in read_manifest(path)}
        )
        expected = len(pieces) > 1
        assert (f"{out / 'audio'}: 1 recording of earlier preparations" in str(found.lines())) == expected
    assert all(Path(path).exists() for path in (*pieces[0], *pieces[1]))
    (shared,) = pieces[0].keys() & pieces[1].keys()
    assert pieces[0][shared] == pieces[1][shared] == "你好"


def test_manifest_of_a_removed_split_is_deleted(tmp_path):
    source = build_thchs30(tmp_path / "in")
    prepare_corpus("thchs30", str(source), tmp_path / "out")
    for path in source.rglob("test/*"):
        path.unlink()
    prepare_corpus("thchs30", str(source), tmp_path / "out", again=True)
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.jsonl")) == ["dev", "train"]


def test_manifests_not_made_by_prepare_are_not_overwritten(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (tmp_path / "lists").mkdir()
    mine = tmp_path / "lists" / "train.jsonl"
    mine.write_text("my own list", encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.jsonl: not made by `asr prepare`"):
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "lists")
    assert mine.read_text("utf-8") == "my own list"


def test_prepared_folder_inside_the_source_is_not_read(folder):
    assert main(["prepare", "folder", str(folder), str(folder / "out")]) == 0
    (folder / "out" / "extra.txt").write_text("你好", encoding="utf-8")
    soundfile.write(folder / "out" / "extra.wav", np.ones(16000), 16000)
    assert main(["prepare", "folder", str(folder), str(folder / "out")]) == 0
    kept = [u.id for path in (folder / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert kept
    assert not any("extra" in name for name in kept)


def test_concurrent_preparation_into_one_folder_raises(folder, tmp_path):
    with (
        exclusive_lock(tmp_path / "out", "asr prepare"),
        pytest.raises(UserError, match="another asr prepare"),
    ):
        prepare_corpus("folder", str(folder), tmp_path / "out")


def test_known_corpus_without_dev_gets_no_dev_from_train(tmp_path):
    source = build_thchs30(tmp_path / "in")
    for path in source.rglob("dev/*"):
        path.unlink()
    manifests = prepare_corpus("thchs30", str(source), tmp_path / "out").manifests
    assert set(manifests) == {"train", "test"}


def test_pipe_among_the_recordings_is_left_out_without_blocking(folder, tmp_path):
    (folder / "c3.wav").unlink()
    os.mkfifo(folder / "c3.wav")
    assert main(["prepare", "folder", str(folder), str(tmp_path / "out")]) == 0
    left_out = (tmp_path / "out" / "left_out.tsv").read_text("utf-8")
    assert "c3.wav\texpected a file, received a pipe" in left_out


def test_source_without_usable_recordings_fails_with_the_reasons(tmp_path, capsys):
    (tmp_path / "l.csv").write_text("path,text\na.wav,你好\nb.wav,OK\n", encoding="utf-8")
    assert main(["prepare", "table", str(tmp_path / "l.csv"), str(tmp_path / "out")]) == 2
    output = capsys.readouterr().err
    assert "no usable recording" in output
    assert "no such audio file" in output
    assert "Latin letters" in output


def test_unknown_corpus_raises_with_the_nearest_name():
    with pytest.raises(UserError, match=r"expected one of .*did you mean thchs30\?"):
        find_corpus("thchs-30")


def test_prepare_does_not_import_tensorflow(folder, tmp_path):
    program = (
        "import sys; from asr.cli.main import main; "
        f"main(['prepare', 'folder', {str(folder)!r}, {str(tmp_path / 'out')!r}]); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def _folder_of(source, texts):
    source.mkdir()
    for name, text in texts.items():
        write_wav(
            source / f"{name}.wav", np.random.default_rng(0).integers(-999, 999, 16000).astype(np.int16)
        )
        (source / f"{name}.txt").write_text(text, encoding="utf-8")
    return source


def test_splits_are_drawn_of_what_can_be_used(tmp_path):
    texts = {"a": "你好", "b": "再见", "c": "谢谢"}
    for unusable in texts:
        source = _folder_of(tmp_path / unusable, {**texts, unusable: "?!"})
        prepared = prepare_corpus("folder", str(source), tmp_path / f"out-{unusable}")
        assert "train" in prepared.manifests
        assert len(prepared.left_out) == 1


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_names_in_both_unicode_forms_find_each_other(tmp_path, forms):
    source = _folder_of(tmp_path / "in", {"x": "你好"})
    for suffix, form in zip((".wav", ".txt"), forms, strict=True):
        (source / f"x{suffix}").rename(source / (unicodedata.normalize(form, "nǐ hǎo") + suffix))
    prepared = prepare_corpus("folder", str(source), tmp_path / "out")
    assert not prepared.left_out


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_recordings_in_a_folder_named_in_another_form_are_prepared_checked_and_read(tmp_path, forms, capsys):
    on_disk, given = (tmp_path / unicodedata.normalize(form, "nǐ hǎo") for form in forms)
    _folder_of(on_disk, {on_disk.name: "你好"})
    assert main(["prepare", "folder", str(given), str(tmp_path / "out")]) == 0
    prepared = prepare_corpus("folder", str(given), tmp_path / "again")
    manifest = next(iter(prepared.manifests.values()))
    text = unicodedata.normalize("NFD", manifest.read_text("utf-8"))
    manifest.write_text(unicodedata.normalize(forms[1], text), encoding="utf-8")
    [utterance] = read_manifest(manifest)
    assert check_audio([utterance]) == [""]
    assert len(read_audio(given / f"{given.name}.wav")) == len(read_audio(utterance.audio_path))
    assert open_recording(given / f"{given.name}.wav") is not None


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_table_finds_recordings_in_both_unicode_forms(tmp_path, forms):
    audio, listed = (unicodedata.normalize(form, "nǐ.wav") for form in forms)
    (tmp_path / "in").mkdir()
    write_wav(tmp_path / "in" / audio, np.arange(16000, dtype=np.int16))
    (tmp_path / "in" / "all.tsv").write_text(f"path\tsentence\n{listed}\t你好\n", encoding="utf-8")
    prepared = prepare_corpus("table", str(tmp_path / "in" / "all.tsv"), tmp_path / "out")
    assert not prepared.left_out
