import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from helpers.corpora import forms

from asr.audio.recording import audio_duration_s
from asr.base.errors import UserError
from data_pipeline.corpora.clip_lists import assign_splits, split_of
from data_pipeline.corpora.forms import asrt, folder, json_lines, kaldi, table
from data_pipeline.corpora.forms.pipes import file_of_pipe
from data_pipeline.corpora.layout import plain_spaces
from data_pipeline.corpora.public import common_voice, librispeech
from data_pipeline.preparation.prepare import prepare_corpus
from data_pipeline.types import Recording

MODULES = [librispeech, common_voice, kaldi, json_lines, table, folder, asrt]
TREES = [
    (librispeech, forms.build_librispeech),
    (common_voice, forms.build_common_voice),
    (kaldi, forms.build_kaldi),
    (json_lines, forms.build_nemo),
    (json_lines, forms.build_wenet),
    (table, forms.build_csv),
    (table, forms.build_tsv),
    (folder, forms.build_folder),
    (asrt, forms.build_asrt),
]


def read(module, source):
    return module.CORPUS.read(Path(source), Path("unused"))


def ids(reading):
    return {split: [recording.id for recording in found] for split, found in reading.splits.items()}


def texts(recordings):
    return {recording.id: recording.text for recording in recordings}


def counted(reading):
    return dict(Counter(out.reason for out in reading.left_out))


@pytest.mark.parametrize(("module", "build"), TREES)
def test_every_recording_is_readable_and_has_a_unique_id(module, build, tmp_path):
    reading = read(module, build(tmp_path))
    recordings = [recording for found in reading.splits.values() for recording in found]
    assert recordings
    assert len({recording.id for recording in recordings}) == len(recordings)
    for recording in recordings:
        assert audio_duration_s(Path(recording.audio_path)) > 0.2
        assert recording.text == plain_spaces(recording.text)
        assert recording.text or recording.tokens
    assert all(out.what.startswith(str(tmp_path)) for out in reading.left_out)


@pytest.mark.parametrize(("module", "build"), TREES)
def test_relative_source_gives_the_same_recordings(module, build, tmp_path, monkeypatch):
    build(tmp_path)
    absolute = read(module, tmp_path)
    monkeypatch.chdir(tmp_path)
    relative = read(module, ".")
    assert ids(relative) == ids(absolute)
    for split, recordings in relative.splits.items():
        assert [r.speaker for r in recordings] == [r.speaker for r in absolute.splits[split]]
        assert all(Path(recording.audio_path).is_file() for recording in recordings)


@pytest.mark.parametrize("module", MODULES)
def test_unrelated_folder_raises_with_expected_and_found_files(module, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.md").touch()
    with pytest.raises(UserError, match=r"below this folder; expected .*found .*notes\.md, photos/"):
        read(module, tmp_path)
    with pytest.raises(UserError, match="no such file or folder"):
        read(module, tmp_path / "nowhere")


@pytest.mark.parametrize("module", MODULES)
def test_format_metadata_is_complete(module):
    corpus = module.CORPUS
    assert corpus.about
    assert corpus.layout
    assert corpus.units == ("characters" if module is librispeech else "syllables")
    assert bool(corpus.archives) == (module is librispeech)
    assert all(len(archive.md5) == 32 for archive in corpus.archives)


def test_librispeech_parts_are_read_as_splits(tmp_path):
    reading = read(librispeech, forms.build_librispeech(tmp_path))
    assert ids(reading) == {
        "train": ["103-7-0000", "103-7-0001", "20-7-0000", "20-7-0001"],
        "dev": ["84-7-0000", "84-7-0001"],
        "dev_other": ["116-7-0000", "116-7-0001"],
        "test": ["61-7-0000", "61-7-0001"],
    }
    first = reading.splits["train"][0]
    assert (first.text, first.speaker) == ("IT'S LINE 0", "103")
    assert counted(reading) == {"audio without a transcript": 1, "transcript without audio": 1}
    one_part = read(librispeech, tmp_path / "LibriSpeech" / "dev-clean")
    assert list(one_part.splits) == ["dev"]


def test_librispeech_parts_in_several_places_are_read_once_each(tmp_path, monkeypatch):
    expected = read(librispeech, forms.build_librispeech(tmp_path))
    corpus = tmp_path / "LibriSpeech"
    (corpus / "train-clean-100").rename(tmp_path / "train-clean-100")
    shutil.copytree(corpus / "dev-clean", tmp_path / "twice" / "dev-clean")
    reading = read(librispeech, tmp_path)
    assert {split: {r.id for r in rs} for split, rs in reading.splits.items()} == {
        split: {r.id for r in rs} for split, rs in expected.splits.items()
    }
    repeated = [out for out in reading.left_out if out.reason == "duplicate id"]
    assert len(repeated) == len(expected.splits["dev"])
    monkeypatch.chdir(corpus / "dev-clean")
    assert read(librispeech, Path()).splits.keys() == {"dev"}


def test_librispeech_without_transcripts_raises(tmp_path):
    forms.clip(tmp_path / "dev-clean" / "1" / "2" / "1-2-0000.flac")
    with pytest.raises(UserError, match=r"no recording with its text below this folder; .* left out 1 file"):
        read(librispeech, tmp_path)


def test_common_voice_tables_are_read_as_splits(tmp_path):
    reading = read(common_voice, forms.build_common_voice(tmp_path))
    assert ids(reading) == {"train": ["cv_1", "cv_2"], "dev": ["cv_5"], "test": ["cv_6"]}
    assert texts(reading.splits["train"]) == {"cv_1": '"你好，她说。', "cv_2": "第二 句"}
    assert reading.splits["dev"][0].text == '他说"再见"'
    assert reading.splits["dev"][0].speaker == "c2"
    assert counted(reading) == {
        "duplicate id": 1,
        "fewer fields than columns": 1,
        "empty transcript": 1,
    }
    table_path = tmp_path / "cv-corpus-19.0" / "zh-CN" / "train.tsv"
    assert f"{table_path}:5" in {out.what for out in reading.left_out}


def test_common_voice_with_several_languages_raises(tmp_path):
    forms.build_common_voice(tmp_path, "zh-CN")
    forms.build_common_voice(tmp_path, "zh-TW")
    with pytest.raises(UserError, match=r"2 languages below this folder; .*zh-CN, .*zh-TW"):
        read(common_voice, tmp_path)
    assert len(read(common_voice, tmp_path / "cv-corpus-19.0" / "zh-TW").splits) == 3


def test_common_voice_without_splits_uses_the_validated_clips(tmp_path):
    forms.write(tmp_path / "validated.tsv", "client_id\tpath\tsentence\nc\tabc\tText\n")
    forms.clip(tmp_path / "clips" / "abc.mp3")
    (recording,) = read(common_voice, tmp_path).splits["all"]
    assert recording == Recording("abc", str(tmp_path / "clips" / "abc.mp3"), "Text", "c")


def test_common_voice_table_without_its_columns_raises(tmp_path):
    forms.write(tmp_path / "train.tsv", "path\ttext\na.mp3\tText\n")
    with pytest.raises(
        UserError, match=r"train\.tsv:1: no column sentence or client_id; .* found path, text"
    ):
        read(common_voice, tmp_path)


def test_kaldi_data_directories_are_read_as_splits(tmp_path):
    reading = read(kaldi, forms.build_kaldi(tmp_path))
    assert ids(reading) == {
        "train": ["a-1", "a-2", "b-3", "b-4"],
        "dev": ["c-1", "c-2"],
        "test": ["d-1"],
    }
    assert texts(reading.splits["train"])["a-1"] == "绿 是 阳春"
    assert [r.speaker for r in reading.splits["train"]] == ["anna", "anna", "bert", "bert"]
    assert [Path(r.audio_path).name for r in reading.splits["train"]] == [
        "a-1.wav",
        "a-2.flac",
        "b 3.wav",
        "b-4.WAV",
    ]
    assert [(r.begin_s, r.end_s) for r in reading.splits["dev"]] == [(0.0, 0.75), (0.75, None)]
    assert counted(reading) == {
        "duplicate id": 1,
        "command that does more than decode one file": 1,
        "entry of a Kaldi archive": 1,
        "audio without a transcript": 1,
        "transcript without audio": 1,
        "invalid time span": 1,
        "segment of a recording missing from wav.scp": 1,
        "segment without begin and end times": 2,
        "another list for the same split": 1,
    }


def test_single_kaldi_folder_is_a_whole_corpus(tmp_path):
    source = forms.build_kaldi(tmp_path) / "data" / "train"
    assert list(read(kaldi, source).splits) == ["all"]
    assert ids(read(kaldi, source / "wav.scp")) == ids(read(kaldi, source))


def test_kaldi_without_text_raises(tmp_path):
    forms.write(tmp_path / "wav.scp", "a a.wav\n")
    with pytest.raises(UserError, match=r"wav\.scp without text beside it"):
        read(kaldi, tmp_path)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sph2pipe -f wav -p a.sph |", "a.sph"),
        ("/opt/kaldi/tools/sph2pipe_v2.5/sph2pipe -f wav a.sph|", "a.sph"),
        ("flac -cds a.flac |", "a.flac"),
        ("cat 'my clip (1).wav' |", "my clip (1).wav"),
        ("sox a.wav -r 16000 -b 16 -t wav - |", "a.wav"),
        ("sox a.wav -t wav - rate 16000 |", "a.wav"),
        ("ffmpeg -i a.mp3 -f wav -ar 16000 -ac 1 - 2>/dev/null |", "a.mp3"),
        ("sph2pipe -f wav a.sph | sox -t wav - -r 16000 -t wav - |", "a.sph"),
        # these change the sound
        ("sph2pipe -f wav -p -c 1 a.sph |", None),
        ("flac -c -d -s --skip=16000 a.flac |", None),
        ("sox -t wav a.wav -t wav - speed 0.9 |", None),
        ("sox --vol 0.5 -t wav a.wav -t wav - |", None),
        ("sox -r 8000 a.wav -t wav - |", None),
        ("sox -t raw a.wav -t wav - |", None),
        ("ffmpeg -ss 3 -i a.mp3 -f wav - |", None),
        ("flac -c -d -s a.flac | sox -t wav - -t wav - reverb |", None),
        # the file of these is ambiguous or unknown
        ("cat a.wav b.wav |", None),
        ("cat $AUDIO/a.wav |", None),
        ('cat "`ls`" |', None),
        ("cat a.wav; rm a.wav |", None),
        ("cat 'a.wav |", None),
        ("gunzip -c a.wav.gz |", None),
        ("sox |", None),
        ("|", None),
    ],
)
def test_file_of_pipe_is_known_only_if_the_command_just_decodes_it(command, path):
    assert file_of_pipe(command) == path


def test_commands_in_wav_scp_are_never_run(tmp_path):
    forms.write(tmp_path / "wav.scp", f"a touch {tmp_path}/ran; cat a.wav |\nb b.wav\n")
    forms.write(tmp_path / "text", "a 一\nb 二\n")
    assert ids(read(kaldi, tmp_path)) == {"all": ["b"]}
    assert not (tmp_path / "ran").exists()


def test_nemo_manifests_are_read_as_splits(tmp_path):
    reading = read(json_lines, forms.build_nemo(tmp_path))
    assert ids(reading) == {
        "train": ["anna-1", "anna-2", "bert-1", "long-0.50", "long-1.25"],
        "dev": ["anna-1-2"],
    }
    train = reading.splits["train"]
    assert train[1].text == '他说"再见"'
    assert [recording.speaker for recording in train[:3]] == ["anna", "7", ""]
    assert [(r.begin_s, r.end_s) for r in train[2:]] == [(0.0, None), (0.5, 1.25), (1.25, 1.75)]
    assert counted(reading) == {
        "not a JSON object": 2,
        "audio without a transcript": 1,
        "empty transcript": 1,
        "no audio path": 1,
        "time is not a number": 1,
        "characters that UTF-8 cannot encode": 1,
    }
    assert f"{tmp_path}/train_manifest.json:4" in {out.what for out in reading.left_out}


def test_wenet_lists_are_read_as_splits(tmp_path):
    reading = read(json_lines, forms.build_wenet(tmp_path))
    assert ids(reading) == {"train": ["u-1", "u-2"], "dev": ["u-3"], "test": ["u-4"]}
    assert texts(reading.splits["train"]) == {"u-1": "你好", "u-2": "再见"}
    assert (reading.splits["train"][1].begin_s, reading.splits["train"][1].end_s) == (0.25, 0.75)
    assert [(out.what, out.reason) for out in reading.left_out] == [
        (f"{tmp_path}/train/data.list:3", "duplicate id")
    ]


@pytest.mark.parametrize(
    "record",
    [
        {
            "id": "u",
            "audio": "a.wav",
            "duration_s": 0.3,
            "text": "你好",
            "tokens": "ni3 hao3",
            "speaker": "s",
        },
        {"key": "u", "source": "a.wav", "target": "你好", "speaker": "s", "tokens": ["ni3", "hao3"]},
        {"utt": "u", "utt2spk": "s", "feat": "a.wav", "text": "你好", "tokens": "ni3 hao3"},
        {"id": "u", "audio": {"path": "a.wav"}, "sentence": "你好", "spk": "s", "tokens": "ni3 hao3"},
    ],
)
def test_single_json_lines_file_of_any_toolkit_is_a_whole_corpus(record, tmp_path):
    path = forms.write(tmp_path / "train.jsonl", json.dumps(record))
    expected = Recording("u", f"{tmp_path}/a.wav", "你好", "s", ("ni3", "hao3"))
    assert read(json_lines, path).splits == {"all": [expected]}


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (json_lines, "train.jsonl", '{"audio_filepath": "a.wav"}\n'),
        (json_lines, "train.jsonl", ""),
        (table, "train.csv", "path,text\na.wav,\n"),
        (table, "train.csv", "path,text\n"),
        (kaldi, "wav.scp", "a a.wav\n"),
    ],
)
def test_list_without_a_usable_line_raises(module, name, text, tmp_path):
    path = forms.write(tmp_path / name, text)
    forms.write(tmp_path / "text", "b 二\n")
    with pytest.raises(UserError, match=f"{path}: no usable line; expected .*; found (no lines|1)"):
        read(module, tmp_path)


def test_gb18030_csv_from_a_spreadsheet_is_read(tmp_path):
    reading = read(table, forms.build_csv(tmp_path) / "table.csv")
    assert ids(reading) == {"train": ["a1", "a2"], "dev": ["b1"], "test": ["b2"]}
    assert texts(reading.splits["train"]) == {"a1": "你好,她说", "a2": '她说"再见"'}
    assert reading.splits["dev"][0].speaker == "bert"
    assert {out.what.split(":")[-1]: out.reason for out in reading.left_out} == {
        "6": "more fields than columns",
        "7": "quotation mark not closed",
        "8": "empty transcript",
        "9": "transcript without audio",
        "10": "empty split column",
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_quoted_cell_of_a_csv_may_hold_line_breaks(delimiter, end, tmp_path):
    rows = [
        ["path", '"text\n(ms)"', "speaker"],
        ["a.wav", '"第一行\n\n第二""行"""', "anna"],
        ["b.wav", f'"再见{delimiter}\n好"', '"ber\nt"'],
        ["c.wav", "", "anna"],
        ["d.wav", "四", "anna"],
    ]
    text = "\n".join(map(delimiter.join, rows))
    for name in "abcd":
        forms.clip(tmp_path / f"{name}.wav")
    reading = read(table, forms.write(tmp_path / "t.csv", text, newline=end))
    assert texts(reading.splits["all"]) == {"a": '第一行 第二"行"', "b": f"再见{delimiter} 好", "d": "四"}
    assert [(out.what, out.reason) for out in reading.left_out] == [
        (f"{tmp_path}/t.csv:9", "empty transcript")
    ]


@pytest.mark.parametrize(
    "row",
    [
        'b.wav,"没有结束',
        'b.wav,"没有结束\ny.wav,再见"',
        'b.wav,"没有结束\nwithout a suffix,再见"',
        'b.wav,"没有结束\ny.wav,"再见"',
        'b.wav,"没有"结束',
        'b.wav,"' + "长\n" * 200 + '"',
    ],
)
def test_quotation_mark_that_is_not_closed_takes_no_other_row(row, tmp_path):
    for name in "abxy":
        forms.clip(tmp_path / f"{name}.wav")
    path = forms.write(tmp_path / "t.csv", f"path,text\na.wav,一\n{row}\nx.wav,三\n")
    reading = read(table, path)
    found = {**texts(reading.splits["all"]), **{out.what: out.reason for out in reading.left_out}}
    expected = {"a": "一", f"{path}:3": "quotation mark not closed", "x": "三"}
    assert {name: found.get(name) for name in expected} == expected
    assert ("y" in found) == ("y.wav" in row)


def test_tsv_tables_in_a_folder_are_read_as_splits(tmp_path):
    reading = read(table, forms.build_tsv(tmp_path))
    assert ids(reading) == {"train": ["1", "2"], "dev": ["3"], "test": ["4"]}
    assert texts(reading.splits["train"]) == {"1": '"你好', "2": "再见"}
    assert reading.splits["dev"][0].text == "三"
    assert [(out.what, out.reason) for out in reading.left_out] == [
        (f"{tmp_path}/speakers.csv", "table without the expected columns")
    ]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("audio", ["path", "File", "audio_filepath", "wav"])
def test_delimiter_and_column_names_are_detected(delimiter, audio, tmp_path):
    rows = [["x", audio, "Transcription", "client_id"], ["1", "a.wav", "so; it, goes", "s"]]
    lines = [delimiter.join(f'"{field}"' for field in row) for row in rows]
    path = forms.write(tmp_path / "t.csv", "\n".join(lines))
    assert read(table, path).splits["all"] == [Recording("a", f"{tmp_path}/a.wav", "so; it, goes", "s")]


def test_table_without_the_columns_raises_with_those_found(tmp_path):
    path = forms.write(tmp_path / "t.csv", "clip_name;words\na.wav;你好\n")
    for source in (path, tmp_path):
        with pytest.raises(UserError, match=r"t\.csv:1: expected a header with .* found clip_name, words;"):
            read(table, source)


def test_clips_are_matched_with_transcripts_beside_them(tmp_path):
    reading = read(folder, forms.build_folder(tmp_path))
    assert texts(reading.splits["all"]) == {
        "anna-1": "你好， 她说",
        "anna-2": "她说：“再见”",
        "anna-3": "三 个",
        "anna-4": "绿是",
        "bert-1": "再见",
    }
    assert [r.speaker for r in reading.splits["all"]] == ["anna"] * 4 + ["bert"]
    assert {Path(out.what).name: out.reason for out in reading.left_out} == {
        "3.wav": "audio without a transcript",
        "README.txt": "transcript without audio",
        "2.lab": "transcript of timed phones, not words",
        "2.wav": "audio without a transcript",
    }


def test_split_folders_are_not_read_as_speakers(tmp_path):
    for name in ("train/wavs/anna/1", "train/wavs/bert/1", "valid/wavs/carl/1", "test/wavs/dora/1"):
        forms.clip(tmp_path / f"{name}.wav")
        forms.write(tmp_path / f"{name}.txt", "你好")
    reading = read(folder, tmp_path)
    assert {split: [r.speaker for r in found] for split, found in reading.splits.items()} == {
        "test": ["dora"],
        "train": ["anna", "bert"],
        "dev": ["carl"],
    }
    forms.clip(tmp_path / "more.wav")
    forms.write(tmp_path / "more.txt", "再见")
    assert list(read(folder, tmp_path).splits) == ["all"]


def test_asrt_lists_are_read_as_splits(tmp_path):
    reading = read(asrt, forms.build_asrt(tmp_path))
    assert ids(reading) == {
        "train": ["20170001P00001A0001", "A2_0", "A2_1"],
        "dev": ["A11_101"],
        "test": ["D4_750"],
    }
    assert {recording.tokens for recording in reading.splits["train"]} == {("lv4", "shi4", "de5")}
    assert counted(reading) == {
        "audio without a transcript": 1,
        "transcript without audio": 1,
        "list without a syllable list beside it": 1,
    }


def test_asrt_configuration_gives_the_paths_of_audio_and_lists(tmp_path):
    audio = forms.build_asrt(tmp_path / "speech_data")
    project = tmp_path / "asrt"
    project.mkdir()
    (audio / "thchs30").rename(project / "thchs30")
    lists = {"data_list": "thchs30/cv.wav.lst", "label_list": "thchs30/cv.syllable.txt"}
    absent = {"data_list": "aishell/dev.wav.lst", "label_list": "aishell/dev.syllable.txt"}
    settings = {"dataset": {"dev": [entry | {"data_path": str(audio)} for entry in (lists, absent)]}}
    config = forms.write(project / "asrt_config.json", json.dumps(settings))
    for source in (project, config):
        reading = read(asrt, source)
        assert ids(reading) == {"dev": ["A11_101"]}
        assert Path(reading.splits["dev"][0].audio_path).is_file()
        assert counted(reading) == {"list named in asrt_config.json not found": 2}
    config.write_text('{"dataset": []}')
    with pytest.raises(UserError, match=r"asrt_config\.json: not an ASRT configuration"):
        read(asrt, config)


@pytest.mark.parametrize("place", ["lists/deep", "lists", ".", "elsewhere"])
def test_audio_is_found_beside_the_list_above_it_or_in_the_current_folder(place, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    wanted = forms.clip(tmp_path / place / "wav" / "a.wav")
    lines = ['{"wav": "wav/missing.wav", "txt": "二"}', '{"wav": "wav/a.wav", "txt": "一"}']
    path = forms.write(tmp_path / "lists" / "deep" / "x.jsonl", "\n".join(lines))
    recordings = read(json_lines, path).splits["all"]
    assert wanted.samefile(recordings[1].audio_path)
    assert Path(recordings[0].audio_path).parent == Path(recordings[1].audio_path).parent


def test_recordings_with_missing_audio_are_kept_for_preparation_to_report(tmp_path):
    path = forms.write(tmp_path / "x.jsonl", '{"wav": "wav/a.wav", "txt": "一"}')
    (recording,) = read(json_lines, path).splits["all"]
    assert recording.audio_path == f"{tmp_path}/wav/a.wav"


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("train_960", "train"),
        ("TRAIN-clean", "train"),
        ("train_dev", "dev"),
        ("train_nodev", "train"),
        ("validation_manifest", "dev"),
        ("cv", "dev"),
        ("cv-corpus", None),
        ("eval92", "test"),
        ("test_other", "test"),
        ("latest", None),
        ("data", None),
        ("train集", "train"),
        ("dev集", "dev"),
        ("test集_2", "test"),
        ("2024train数据", "train"),
        ("测试集v2", "test"),
        ("trainer集", None),
    ],
)
def test_split_of_recognizes_the_split_in_a_name(name, split):
    assert split_of(name) == split


def test_list_named_exactly_for_a_split_is_preferred_to_its_variants():
    names = ("train", "train_sp", "dev_clean", "dev_other", "test", "lexicon")
    chosen, left_out = assign_splits({Path(name): name for name in names})
    assert [(str(path), split) for path, split in chosen] == [
        ("train", "train"),
        ("dev_clean", "dev"),
        ("dev_other", "dev"),
        ("test", "test"),
    ]
    assert [(out.what, out.reason) for out in left_out] == [
        ("train_sp", "another list for the same split"),
        ("lexicon", "list name without a split"),
    ]
    assert assign_splits({Path("a"): "a", Path("b"): "b"}) == ([(Path("a"), "all"), (Path("b"), "all")], [])


@pytest.mark.slow
def test_list_of_100_000_lines_is_read_in_seconds_with_few_file_accesses(tmp_path, monkeypatch):
    forms.clip(tmp_path / "wav" / "00" / "0.wav")
    lines = [f'{{"wav": "wav/{n % 100:02d}/{n}.wav", "txt": "第{n}句话"}}' for n in range(100_000)]
    path = forms.write(tmp_path / "data.list", "\n".join(lines))
    accesses = []
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda name: accesses.append(name) or exists(name))
    begin_s = time.process_time()
    recordings = read(json_lines, path).splits["all"]
    assert time.process_time() - begin_s < 10
    assert len(recordings) == 100_000
    assert recordings[-1].id == "99-99999"
    assert len(accesses) < 1000


def test_table_may_name_segments_of_longer_files(tmp_path):
    rows = [
        "path,text,start,end",
        "long.wav,一,0.5,1.5",
        "long.wav,二,1.5,",
        "long.wav,三,,",
        'long.wav,四,"1,5",2',
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    reading = table.read(tmp_path / "t.csv", tmp_path)
    segments = {r.text: (r.begin_s, r.end_s) for r in reading.splits["all"]}
    assert segments == {"一": (0.5, 1.5), "二": (1.5, None), "三": (0.0, None)}
    (left_out,) = reading.left_out
    assert left_out.reason == "time is not a number"
    assert left_out.detail == "expected a number such as 12.5, or a time, received '1,5'"


def test_cantonese_gets_no_mandarin_pinyin(tmp_path, monkeypatch):
    forms.build_common_voice(tmp_path, "zh-HK")
    with pytest.raises(UserError, match=r"zh-HK is Cantonese.*units=characters"):
        prepare_corpus("common_voice", str(tmp_path), tmp_path / "out")
    assert prepare_corpus("common_voice", str(tmp_path), tmp_path / "out", "characters").splits
    monkeypatch.chdir(tmp_path / "cv-corpus-19.0" / "zh-HK")
    with pytest.raises(UserError, match="zh-HK is Cantonese"):
        prepare_corpus("common_voice", ".", tmp_path / "here")
    for table_path in Path().glob("*.tsv"):  # the first releases do not name their language
        table_path.write_text(table_path.read_text("utf-8").replace("locale", "accent"), encoding="utf-8")
    (tmp_path / "link").symlink_to(Path.cwd())
    with pytest.raises(UserError, match="zh-HK is Cantonese"):
        prepare_corpus("common_voice", str(tmp_path / "link"), tmp_path / "there")
