import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers import ROOT
from helpers.corpora.chinese import build_thchs30

from asr.audio.recording import read_audio
from asr.base.lock import alone_in
from asr.base.types import UserError
from asr.cli.main import main
from data_pipeline.corpora import find_corpus
from data_pipeline.manifest import read_manifest
from data_pipeline.prepare import prepare_corpus
from data_pipeline.segments import cut_segments, file_name
from data_pipeline.splitting import complete_splits
from data_pipeline.types import LeftOut, Recording


def recordings(num, num_speakers, num_sentences):
    return [
        Recording(
            f"r{i}",
            f"{i}.wav",
            f"句{i % num_sentences}",
            f"speaker{i % num_speakers}" if num_speakers else "",
        )
        for i in range(num)
    ]


@pytest.mark.parametrize(
    ("num_speakers", "num_sentences", "apart"),
    [(40, 500, "speaker"), (3, 200, "text"), (0, 200, "text")],
)
def test_a_corpus_without_splits_is_cut_so_that_they_share_nothing(num_speakers, num_sentences, apart):
    rows = recordings(2000, num_speakers, num_sentences)
    splits, told = complete_splits({"all": rows})
    assert list(splits) == ["train", "dev", "test"]
    assert sorted(r.id for part in splits.values() for r in part) == sorted(r.id for r in rows)
    seen = [{getattr(r, apart) for r in splits[name]} for name in splits]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    groups = sorted(set().union(*seen))
    assert seen[2] != set(groups[: len(seen[2])])  # the alphabet does not decide
    for name in ("dev", "test"):
        assert 0.05 <= len(splits[name]) / 2000 < 0.08
    assert ("no speaker" if apart == "speaker" else "no sentence") in told
    # another order of files is no other cut
    again, _ = complete_splits({"all": rows[::-1]})
    assert {name: {r.id for r in part} for name, part in again.items()} == {
        name: {r.id for r in part} for name, part in splits.items()
    }


def test_a_speaker_who_says_most_is_trained_on():
    for name in "abcdefghijkl":
        much = [Recording(f"m{i}", f"m{i}.wav", f"句{i}", f"much-{name}") for i in range(1000)]
        little = [Recording(f"l{i}", f"l{i}.wav", f"话{i}", f"little{i % 12}") for i in range(120)]
        splits, _ = complete_splits({"all": much + little})
        assert {r.speaker for r in much} <= {r.speaker for r in splits["train"]}
        assert splits["dev"]
        assert splits["test"]


def test_a_sentence_punctuated_otherwise_is_the_same_sentence():
    rows = [Recording(f"a{i}", f"a{i}.wav", f"第{i}句") for i in range(300)]
    rows += [Recording(f"b{i}", f"b{i}.wav", f" 第{i}句。") for i in range(300)]
    splits, _ = complete_splits({"all": rows})
    seen = [{r.id[1:] for r in part} for part in splits.values()]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]


def test_recordings_of_nobody_are_not_taken_for_speakers():
    rows = [
        Recording(f"a{i}", f"a{i}.wav", f"第{i % 50}句", "" if i % 2 else f"s{i % 40}") for i in range(600)
    ]
    splits, told = complete_splits({"all": rows})
    assert "no sentence" in told
    assert not {r.text for r in splits["train"]} & {r.text for r in splits["test"]}


def test_what_is_in_no_split_beside_others_is_trained_on():
    rows = recordings(100, 0, 100)
    splits, _ = complete_splits(
        {"all": rows[:60], "train": rows[60:80], "dev": rows[80:90], "test": rows[90:]}
    )
    assert {name: len(part) for name, part in splits.items()} == {"train": 80, "dev": 10, "test": 10}
    splits, _ = complete_splits({"all": rows[:60], "test": rows[60:]})
    assert splits["test"] == rows[60:]
    assert sum(len(part) for part in splits.values()) == 100


def test_a_corpus_without_dev_gives_some_of_train_and_keeps_its_test():
    test = recordings(30, 3, 30)
    splits, told = complete_splits({"train": recordings(1000, 30, 100), "test": test, "other": test[:2]})
    assert splits["test"] == test
    assert splits["other"] == test[:2]
    assert len(splits["train"]) + len(splits["dev"]) == 1000
    assert len(splits["dev"]) >= 50
    assert "dev made of 5%" in told


def test_a_corpus_with_its_own_splits_keeps_them():
    splits = {"train": recordings(5, 1, 5), "dev": recordings(1, 1, 1), "test": recordings(1, 1, 1)}
    assert complete_splits(splits) == (splits, "")


@pytest.mark.parametrize("num", [1, 2, 3, 4])
def test_a_handful_of_recordings_leaves_some_to_train_on(num):
    splits, _ = complete_splits({"all": recordings(num, 0, num)})
    assert len(splits["train"]) >= 1
    assert sum(map(len, splits.values())) == num


@pytest.fixture
def folder(tmp_path):
    """A folder with a transcript beside each clip, some of them unfit."""
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
    """What `asr prepare` makes of it by way of a CSV list."""
    rows = ["path,text,speaker"] + [
        f"{wav.name},{wav.with_suffix('.txt').read_text(encoding='utf-8')},s"
        for wav in sorted(folder.glob("*.wav"))
    ]
    rows += ["gone.wav,你好,s", "c0.wav,今天天气很好,s"]  # a list's doubled line is told by the doctor
    (folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    return main(["prepare", "table", str(folder / "list.csv"), str(out)])


def test_one_command_makes_manifests_and_tells_everything_it_leaves_out(folder, tmp_path, capsys):
    assert prepared(folder, tmp_path / "out") == 0
    told = capsys.readouterr().out
    kept = [u for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert {u.text for u in kept} == {"今天天气很好", "他得去", "长大", "绿色", "再见", "谢谢"}
    assert next(u for u in kept if u.text == "他得去").tokens == ("ta1", "dei3", "qu4")
    assert all(u.duration_s == 1.0 for u in kept)
    assert "left out: 3 of 10" in told
    rows = [line.split("\t") for line in (tmp_path / "out" / "left_out.tsv").read_text("utf-8").splitlines()]
    reasons = {Path(what).name: reason for reason, what, *_ in rows}
    assert reasons["gone.wav"] == "no such audio file"
    assert reasons["c1.wav"] == "audio that cannot be read"
    assert "found Latin letters" in reasons["c6.wav"]
    assert len(rows) == 3
    for reason in {row[0] for row in rows}:
        assert reason in told


def test_units_may_be_chosen(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    out = tmp_path / "characters"
    assert main(["prepare", "table", str(folder / "list.csv"), str(out), "--units", "characters"]) == 0
    kept = {u.text: u.tokens for path in out.glob("*.jsonl") for u in read_manifest(path)}
    assert kept["长大"] == ("长", "大")
    assert kept["二〇一九年 OK"] == ("二", "〇", "一", "九", "年", "o", "k")


def test_labels_of_the_corpus_s_own_give_way_to_units_asked_for(tmp_path):
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


def test_another_corpus_is_not_mixed_into_a_folder(folder, tmp_path, capsys):
    prepared(folder, tmp_path / "out")
    assert prepared(folder, tmp_path / "out") == 0  # the same once more is fine
    (tmp_path / "other.csv").write_text("path,text\na.wav,你好\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["prepare", "table", str(tmp_path / "other.csv"), str(tmp_path / "out")]) == 2
    assert "prepared from source" in capsys.readouterr().err


def test_a_preparation_that_fails_half_way_is_not_taken_for_a_whole_one(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (tmp_path / "out" / "test.jsonl").unlink()
    (tmp_path / "out" / "test.jsonl").mkdir()  # which cannot be written
    assert prepared(folder, tmp_path / "out") == 2
    assert not json.loads((tmp_path / "out" / "prepared.json").read_text("utf-8"))["finished"]
    (tmp_path / "out" / "test.jsonl").rmdir()
    assert read_manifest(
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out").manifests["test"]
    )


def test_ids_that_begin_anew_in_every_split_are_told_apart(folder, tmp_path):
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


def test_a_recording_in_two_splits_stays_where_it_is_tested_on(folder, tmp_path):
    rows = ["id,path,text,split", "1,c0.wav,你好,train", "2,c2.wav,再见,train"]
    rows += ["1,c0.wav,你好,test", "3,c4.wav,绿色,dev"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    prepared = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out")
    found = {split: {u.id: u.text for u in read_manifest(path)} for split, path in prepared.manifests.items()}
    assert found == {"train": {"2": "再见"}, "dev": {"3": "绿色"}, "test": {"1": "你好"}}
    assert [row.reason for row in prepared.left_out] == ["an id that stands twice"]


def test_labels_that_a_list_brings_are_brought_to_one_spelling(folder, tmp_path):
    rows = ["path,pinyin,split", "c0.wav,ni3 hao,train", "c2.wav,lü4 lue4,train", "c3.wav,hello,train"]
    rows += ["c4.wav,shi4,dev", "c5.wav,shi4,test"]
    (folder / "l.csv").write_text("\n".join(rows), encoding="utf-8")
    manifests = prepare_corpus("table", str(folder / "l.csv"), tmp_path / "out").manifests
    assert [u.tokens for u in read_manifest(manifests["train"])] == [("ni3", "hao5"), ("lv4", "lve4")]
    assert "labels that are no syllables" in (tmp_path / "out" / "left_out.tsv").read_text("utf-8")


def test_clips_too_short_and_names_that_are_no_text_are_left_out(folder, tmp_path):
    soundfile.write(folder / "one.wav", np.zeros(1), 16000)
    (folder / "one.txt").write_text("你好", encoding="utf-8")
    for suffix in ("wav", "txt"):
        (folder / f"c2.{suffix}").rename(os.fsdecode(os.fsencode(folder) + b"/\xc4\xe3." + suffix.encode()))
    assert main(["prepare", "folder", str(folder), str(tmp_path / "out")]) == 0
    kept = [u.id for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert sorted(kept) == ["c0", "c3", "c4", "c5", "c7"]
    left_out = (tmp_path / "out" / "left_out.tsv").read_bytes().decode("utf-8")
    assert "audio shorter than 25 ms" in left_out
    assert "a name that is not UTF-8" in left_out


def test_another_kind_of_units_may_be_prepared_in_place(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    units = ["--units", "characters"]
    assert main(["prepare", "table", str(folder / "list.csv"), str(tmp_path / "out"), *units]) == 0
    kept = {u.text: u.tokens for path in (tmp_path / "out").glob("*.jsonl") for u in read_manifest(path)}
    assert kept["长大"] == ("长", "大")
    with pytest.raises(UserError, match="prepared from units 'characters'"):
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out")


def test_what_is_prepared_is_used_where_its_source_is_gone(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (folder / "list.csv").rename(tmp_path / "moved.csv")
    manifests = prepare_corpus("table", str(folder / "list.csv"), tmp_path / "out").manifests
    assert read_manifest(manifests["train"])
    assert main(["prepare", "table", str(folder / "list.csv"), str(tmp_path / "out")]) == 2
    assert read_manifest(manifests["train"])


def test_a_split_that_is_gone_leaves_no_manifest_behind(tmp_path):
    source = build_thchs30(tmp_path / "in")
    prepare_corpus("thchs30", str(source), tmp_path / "out")
    for path in source.rglob("test/*"):
        path.unlink()
    prepare_corpus("thchs30", str(source), tmp_path / "out", again=True)
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.jsonl")) == ["dev", "train"]


def test_manifests_that_someone_else_made_are_not_written_over(folder, tmp_path):
    prepared(folder, tmp_path / "out")
    (tmp_path / "lists").mkdir()
    mine = tmp_path / "lists" / "train.jsonl"
    mine.write_text("my own list", encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.jsonl: was not made by asr prepare"):
        prepare_corpus("table", str(folder / "list.csv"), tmp_path / "lists")
    assert mine.read_text("utf-8") == "my own list"


def test_what_was_prepared_inside_of_the_source_is_not_read_again(folder):
    assert main(["prepare", "folder", str(folder), str(folder / "out")]) == 0
    (folder / "out" / "extra.txt").write_text("你好", encoding="utf-8")
    soundfile.write(folder / "out" / "extra.wav", np.ones(16000), 16000)
    assert main(["prepare", "folder", str(folder), str(folder / "out")]) == 0
    kept = [u.id for path in (folder / "out").glob("*.jsonl") for u in read_manifest(path)]
    assert kept
    assert not any("extra" in name for name in kept)


def test_two_commands_do_not_prepare_into_one_folder(folder, tmp_path):
    with (
        alone_in(tmp_path / "out", "asr prepare"),
        pytest.raises(UserError, match="another asr prepare is at"),
    ):
        prepare_corpus("folder", str(folder), tmp_path / "out")


def test_a_known_corpus_is_not_measured_on_a_dev_set_of_our_making(tmp_path):
    source = build_thchs30(tmp_path / "in")
    for path in source.rglob("dev/*"):
        path.unlink()
    manifests = prepare_corpus("thchs30", str(source), tmp_path / "out").manifests
    assert set(manifests) == {"train", "test"}


def test_a_pipe_among_the_recordings_holds_nothing_up(folder, tmp_path):
    (folder / "c3.wav").unlink()
    os.mkfifo(folder / "c3.wav")
    assert main(["prepare", "folder", str(folder), str(tmp_path / "out")]) == 0
    assert "c3.wav\ta pipe, expected a file" in (tmp_path / "out" / "left_out.tsv").read_text("utf-8")


def test_nothing_that_can_be_used_is_an_error_with_its_reasons(tmp_path, capsys):
    (tmp_path / "l.csv").write_text("path,text\na.wav,你好\nb.wav,OK\n", encoding="utf-8")
    assert main(["prepare", "table", str(tmp_path / "l.csv"), str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "nothing that can be used" in told
    assert "no such audio file" in told
    assert "Latin letters" in told


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["hsk_word", "a", "b"], "did you mean hsk_words?"),
        (["digits", "a"], "expected DIR OUT"),
        (["mandarin_demo", "a", "b"], "expected OUT"),
        (["digits", "/no/such/folder", "out"], "no folder '/no/such/folder'"),
        ([], "--list"),
    ],
)
def test_a_wrong_command_says_what_was_expected(arguments, error, capsys):
    assert main(["prepare", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_the_list_shows_every_corpus_with_licence_and_address(capsys):
    assert main(["prepare", "--list"]) == 0
    told = capsys.readouterr().out
    from data_pipeline.corpora import CORPORA, FORMS

    for name, corpus in CORPORA.items():
        assert f"\n{name}\n" in told
        assert corpus.licence
        assert corpus.licence in told
        assert corpus.address in told
        assert corpus.hours or name == "common_voice"  # grows every few months
    for name, form in FORMS.items():
        assert f"\n{name}\n" in told
        assert form.about in told


def test_an_unknown_corpus_is_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"expected one of .*did you mean thchs30\?"):
        find_corpus("thchs-30")


def test_pieces_of_a_long_recording_become_files(tmp_path):
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "long.flac", rng.normal(0, 0.1, 32000), 16000)
    whole = read_audio(tmp_path / "long.flac")
    long = str(tmp_path / "long.flac")
    rows = [
        Recording("all", long, "全", begin_s=0.0, end_s=1.98),
        Recording("a/1", long, "甲", begin_s=0.5, end_s=1.25),
        Recording("a_1", long, "乙", begin_s=1.25),
        Recording("whole", long, "丙"),
        Recording("beyond", long, "丁", begin_s=1.0, end_s=3.0),
        Recording("backwards", long, "戊", begin_s=1.0, end_s=0.5),
        Recording("gone", "gone.wav", "己", begin_s=1.0),
    ]
    results = list(cut_segments(rows, tmp_path / "audio"))
    kept = {r.id: r for r in results if isinstance(r, Recording)}
    assert set(kept) == {"a/1", "a_1", "whole", "all"}
    assert kept["whole"] == rows[3]
    assert kept["all"].audio_path == long  # no copy of what is there
    assert all(recording.begin_s == 0 and recording.end_s is None for recording in kept.values())
    np.testing.assert_array_equal(read_audio(kept["a/1"].audio_path), whole[8000:20000])
    np.testing.assert_array_equal(read_audio(kept["a_1"].audio_path), whole[20000:])
    left_out = {r.what: r.reason for r in results if isinstance(r, LeftOut)}
    assert set(left_out) == {"beyond", "backwards", "gone"}
    assert "outside" in left_out["beyond"]


def test_file_names_are_plain_and_their_own():
    ids = ["a", "a/b", "a_b", "a:b", "..", "中文", "x" * 300, "x" * 299, "长" * 200]
    names = [file_name(each) for each in ids]
    assert len(set(names)) == len(ids)
    assert names[0] == "a"
    assert all("/" not in name and not name.startswith(".") and len(name.encode()) < 200 for name in names)


def test_preparing_imports_no_tensorflow(folder, tmp_path):
    program = (
        "import sys; from asr.cli.main import main; "
        f"main(['prepare', 'folder', {str(folder)!r}, {str(tmp_path / 'out')!r}]); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
