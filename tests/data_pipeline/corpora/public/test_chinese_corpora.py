import importlib
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.corpora.chinese import (
    BUILDERS,
    EXPECTED,
    build_aidatatang_200zh,
    build_aishell1,
    build_magicdata,
    build_primewords,
    build_st_cmds,
    build_thchs30,
    found,
    pack,
    sound,
    without_audio,
    write,
)
from helpers.processes import killed_at_opening

from asr.base.errors import UserError
from asr.base.text.pinyin import mandarin_syllables
from data_pipeline.corpora.public.magicdata import without_noises
from data_pipeline.labels.syllable_spelling import syllables_of


def corpus(name):
    return importlib.import_module(f"data_pipeline.corpora.public.{name}").CORPUS


def read(name, source, target):
    reading = corpus(name).read(source, target)
    return reading, {recording.id: recording for rows in reading.splits.values() for recording in rows}


def audio(recording):
    return Path(recording.audio_path).read_bytes()


each_corpus = pytest.mark.parametrize("name", BUILDERS)


@each_corpus
def test_corpus_in_its_real_layout_is_read_and_everything_else_is_left_out(name, tmp_path):
    reading, recordings = read(name, BUILDERS[name](tmp_path / "in"), tmp_path / "out")
    assert found(reading) == EXPECTED[name]
    assert all(item.what for item in reading.left_out)
    for recording in recordings.values():
        assert audio(recording).startswith(b"RIFF")
        assert recording.text == " ".join(recording.text.split())
        assert "\ufeff" not in recording.text


def test_recording_that_is_in_two_folders_is_used_once_for_testing(tmp_path):
    source = BUILDERS["aishell1"](tmp_path)
    before, _ = read("aishell1", source, tmp_path)
    tested, trained = (Path(before.splits[split][0].audio_path) for split in ("test", "train"))
    shutil.copy(tested, trained.parent)
    reading, _ = read("aishell1", source, tmp_path)
    assert found(reading)[0] == found(before)[0]
    (out,) = set(reading.left_out) - set(before.left_out)
    assert (out.what, out.reason) == (str(trained.parent / tested.name), "duplicate id")
    assert out.detail == f"{tested} is used"


@each_corpus
def test_source_may_be_the_corpus_folder_or_its_parent(name, tmp_path):
    builder, place = BUILDERS[name], tmp_path / "data" / "corpora"
    builder(place)
    children = [path for path in place.iterdir() if path.is_dir()]
    sources = [place, children[0] if len(children) == 1 else tmp_path / "data"]
    for number, source in enumerate(sources):
        reading, _ = read(name, source, tmp_path / f"out{number}")
        assert found(reading) == EXPECTED[name]


@each_corpus
def test_reading_a_corpus_opens_no_audio_file(name, tmp_path):
    build = {"aishell1": build_aishell1, "aidatatang_200zh": build_aidatatang_200zh}.get(name)
    source = build(tmp_path / "in", packed=False) if build else BUILDERS[name](tmp_path / "in")
    without_audio(tmp_path / "in")
    results = []
    reader = threading.Thread(
        target=lambda: results.append(read(name, source, tmp_path / "out")[0]), daemon=True
    )
    reader.start()
    reader.join(timeout=20)
    assert not reader.is_alive(), "reading blocked, so it opened a recording"
    assert found(results[0]) == EXPECTED[name]


@each_corpus
def test_wrong_folder_raises_with_the_expected_layout(name, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="below this folder") as error:
        read(name, tmp_path / "empty", tmp_path / "out")
    assert corpus(name).layout in str(error.value)
    with pytest.raises(UserError, match="expected a folder" if name != "st_cmds" else "below this folder"):
        read(name, tmp_path / "none", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "other"), [(name, other) for name in BUILDERS for other in BUILDERS if name != other]
)
def test_corpus_reader_rejects_the_folder_of_another_corpus(name, other, chinese_trees, tmp_path):
    with pytest.raises(UserError, match="below this folder"):
        read(name, chinese_trees[other], tmp_path / "out")


@pytest.fixture(scope="module")
def chinese_trees(tmp_path_factory):
    return {name: builder(tmp_path_factory.mktemp(name)) for name, builder in BUILDERS.items()}


def test_error_names_an_archive_that_must_be_unpacked_first(tmp_path):
    (tmp_path / "data_aishell.tgz").touch()
    with pytest.raises(UserError, match=r"unpack data_aishell\.tgz first"):
        read("aishell1", tmp_path, tmp_path / "out")


@each_corpus
def test_corpus_metadata_is_complete(name):
    known = corpus(name)
    assert known.language == "zh"
    assert known.hours > 0
    assert known.size_gb > 0
    assert known.licence
    assert known.address.startswith("https://www.openslr.org/")
    assert all(
        archive.url.startswith("https://") and len(archive.md5) in (0, 32) for archive in known.archives
    )
    assert bool(known.archives) == (name != "aidatatang_200zh")


@each_corpus
def test_reading_a_corpus_twice_gives_equal_results(name, tmp_path):
    source = BUILDERS[name](tmp_path / "in")
    assert corpus(name).read(source, tmp_path / "out") == corpus(name).read(source, tmp_path / "out")


def test_thchs30_syllables_are_converted_to_the_project_spelling(tmp_path):
    _, recordings = read("thchs30", build_thchs30(tmp_path), tmp_path / "out")
    assert {name: " ".join(recording.tokens) for name, recording in recordings.items()} == {
        "A11_0": "lv4 shi4 yang2 chun1 yan1 jing3",
        "A11_1": "ta1 qu4 lv3 xing2 le5",
        "B22_7": "yi2 kuai4 er5 chi1 qin1 lve4",
        "C4_250": "er4 ge1",
    }
    assert recordings["A11_1"].text == "他 去 旅 行 了"
    assert {recording.speaker for recording in recordings.values()} == {"A11", "B22", "C4"}


def test_circular_thchs30_links_are_left_out(tmp_path):
    root = build_thchs30(tmp_path)
    write(root / "data" / "A11_1.wav.trn", "../train/A11_1.wav.trn\n")
    reading, _ = read("thchs30", root, tmp_path / "out")
    assert found(reading)[1]["broken link file"] == 2


@pytest.mark.parametrize(
    ("written", "syllables"),
    [
        ("lv4 nv3 lve4 nve4", "lv4 nv3 lve4 nve4"),
        ("lü4 LÜ4 lu:4 lüe4 nue4 lue5", "lv4 lv4 lv4 lve4 nve4 lve5"),
        ("jv2 qvan2 xve2 yv3", "ju2 quan2 xue2 yu3"),
        ("de de0 de5", "de5 de5 de5"),
        ("er2 er5 r5 er", "er2 er5 er5 er5"),
        ("nar3 dianr3 zher4 wanr2", "na3 er5 dian3 er5 zhe4 er5 wan2 er5"),
        ("ng2 n4 en1", "en2 en4 en1"),
        ("ｍａ１", "ma1"),
        ("mā nǚ de", "ma1 nv3 de5"),
    ],
)
def test_syllables_of_converts_other_spellings(written, syllables):
    assert " ".join(syllables_of(written)) == syllables


@pytest.mark.parametrize("written", ["xhi1", "ma6", "hello", "ma1ma1", "1", "ma-1", "mā1", "wo3,", "=", "绿"])
def test_syllables_of_rejects_invalid_syllables(written):
    with pytest.raises(UserError, match="syllable"):
        syllables_of(f"ni3 {written} hao3")


def test_syllables_of_keeps_every_syllable_in_the_project_spelling():
    syllables = [syllable for syllable in mandarin_syllables() if len(syllable) > 2 or syllable[0] in "aoe"]
    syllables = [syllable for syllable in syllables if syllable[:-1] not in ("ng", "hm", "hng")]
    assert len(syllables) > 1300
    assert [syllables_of(syllable) for syllable in syllables] == [(syllable,) for syllable in syllables]


def test_st_cmds_speaker_is_a_person_whatever_the_letter(tmp_path):
    _, recordings = read("st_cmds", build_st_cmds(tmp_path), tmp_path / "out")
    assert {name[8:]: recording.speaker for name, recording in recordings.items()} == {
        "P00001A0001": "P00001",
        "P00001A0002": "P00001",
        "P00001I0001": "P00001",
        "P00001I0002": "P00001",
        "P00255A0119": "P00255",
        "P00255A0120": "P00255",
    }
    assert recordings["20170001P00001A0002"].text == "还喝 里下聊天"
    assert recordings["20170001P00255A0119"].text == "有三个人"


def test_st_cmds_in_subfolders_is_read_the_same(tmp_path):
    root = build_st_cmds(tmp_path) / "ST-CMDS-20170001_1-OS"
    before, _ = read("st_cmds", root, tmp_path / "out")
    for path in list(root.iterdir()):
        (root / path.suffix[1:].lower()).mkdir(exist_ok=True)
        path.rename(root / path.suffix[1:].lower() / path.name)
    after, _ = read("st_cmds", root, tmp_path / "out")
    assert found(after) == found(before)


def test_only_the_unreadable_transcript_is_left_out(tmp_path):
    root = build_st_cmds(tmp_path) / "ST-CMDS-20170001_1-OS"
    (root / "20170001P00001A0001.txt").write_bytes(b"\xff\xff\xff")
    reading, recordings = read("st_cmds", root, tmp_path / "out")
    assert len(recordings) == 5
    assert found(reading)[1]["unreadable transcript"] == 1


@pytest.mark.parametrize(
    ("name", "build"), [("aishell1", build_aishell1), ("aidatatang_200zh", build_aidatatang_200zh)]
)
class TestNestedArchives:
    def test_archives_and_folders_unpacked_in_place_give_equal_recordings(self, name, build, tmp_path):
        packed, from_archives = read(name, build(tmp_path / "packed"), tmp_path / "out1")
        loose, from_folders = read(name, build(tmp_path / "loose", packed=False), tmp_path / "out2")
        assert found(packed) == found(loose) == EXPECTED[name]
        for one, other in ((from_archives[key], from_folders[key]) for key in from_archives):
            assert (one.text, one.speaker) == (other.text, other.speaker)
            assert audio(one) == audio(other)
        assert {recording.speaker for recording in from_folders.values()} <= {
            "S0002", "S0724", "S0764", "G0013", "G0002", "G0080"
        }  # fmt: skip
        assert not (tmp_path / "out2").exists()

    def test_second_reading_unpacks_nothing_again(self, name, build, tmp_path):
        _, recordings = read(name, build(tmp_path / "in"), tmp_path / "out")
        before = {path: path.stat().st_ctime_ns for path in tmp_path.rglob("*.wav")}
        assert len(before) >= len(recordings)
        _, again = read(name, tmp_path / "in", tmp_path / "out")
        assert again == recordings
        assert {path: path.stat().st_ctime_ns for path in tmp_path.rglob("*.wav")} == before

    def test_speakers_unpacked_in_place_are_not_unpacked_again(self, name, build, tmp_path):
        build(tmp_path / "in")
        archive = sorted((tmp_path / "in").rglob("[SG]*.tar.gz"))[0]
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
            tar.extractall(archive.parent)
        archive.write_bytes(b"damaged, but never opened")
        reading, _ = read(name, tmp_path / "in", tmp_path / "out")
        assert found(reading) == EXPECTED[name]

    @pytest.mark.parametrize("damage", ["cut", "flipped", "last byte", "empty", "no archive"])
    def test_damaged_archive_is_left_out_and_the_others_are_read(self, name, build, damage, tmp_path):
        build(tmp_path / "in")
        archive = sorted((tmp_path / "in").rglob("[SG]*.tar.gz"))[0]
        data = archive.read_bytes()
        middle = len(data) // 2
        archive.write_bytes(
            {
                "cut": data[:middle],
                "flipped": data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :],
                "last byte": data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
                "empty": b"",
                "no archive": b"<html>404 Not Found</html>",
            }[damage]
        )
        reading, recordings = read(name, tmp_path / "in", tmp_path / "out")
        out = [item for item in reading.left_out if item.what == str(archive)]
        assert [item.reason for item in out] == ["archive that cannot be unpacked"]
        assert recordings
        assert len(recordings) < sum(map(len, EXPECTED[name][0].values()))
        archive.write_bytes(data)
        reading, _ = read(name, tmp_path / "in", tmp_path / "out")
        assert found(reading) == EXPECTED[name]

    def test_partly_unpacked_folder_is_unpacked_again(self, name, build, tmp_path):
        build(tmp_path / "in")
        read(name, tmp_path / "in", tmp_path / "out")
        home = next(path for path in (tmp_path / "out").rglob("[SG]*") if path.is_dir())
        part = home.rename(home.with_name(f".{home.name}.part"))
        lost = next(part.rglob("*.wav"))
        lost.unlink()
        sound(part / "train" / "S9999" / "BAC009S9999W9999.wav")
        reading, _ = read(name, tmp_path / "in", tmp_path / "out")
        assert found(reading) == EXPECTED[name]
        assert not part.exists()

    def test_reading_writes_only_into_the_target(self, name, build, tmp_path):
        build(tmp_path / "in")
        before = sorted((tmp_path / "in").rglob("*"))
        read(name, tmp_path / "in", tmp_path / "out")
        assert sorted((tmp_path / "in").rglob("*")) == before


def members(*names):
    return [(name, b"RIFF") for name in names]


@pytest.mark.parametrize("evil", ["../../evil.wav", "../../evil.txt", "train/../../../evil.wav"])
def test_archive_that_would_write_outside_its_folder_is_left_out(evil, tmp_path):
    build_aishell1(tmp_path / "in")
    archive = tmp_path / "in" / "data_aishell" / "wav" / "S0002.tar.gz"
    pack(archive, members("train/S0002/BAC009S0002W0122.wav", evil))
    reading, recordings = read("aishell1", tmp_path / "in", tmp_path / "out")
    assert [item.reason for item in reading.left_out if item.what == str(archive)] == [
        "archive that cannot be unpacked"
    ]
    assert not list(tmp_path.rglob("evil*"))
    assert "BAC009S0002W0122" not in recordings


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_archive_with_links_to_the_outside_is_left_out(kind, tmp_path):
    build_aishell1(tmp_path / "in")
    archive = tmp_path / "in" / "data_aishell" / "wav" / "S0002.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("train/S0002/BAC009S0002W0122.wav")
        link.type, link.linkname = kind, "/etc/passwd"
        tar.addfile(link)
    reading, recordings = read("aishell1", tmp_path / "in", tmp_path / "out")
    assert "archive that cannot be unpacked" in [
        item.reason for item in reading.left_out if item.what == str(archive)
    ]
    assert "BAC009S0002W0122" not in recordings


def test_archive_without_audio_is_left_out(tmp_path):
    build_aishell1(tmp_path / "in")
    archive = tmp_path / "in" / "data_aishell" / "wav" / "S0002.tar.gz"
    pack(archive, members("train/S0002/README", "train/S0002/._BAC009S0002W0122.wav"))
    reading, _ = read("aishell1", tmp_path / "in", tmp_path / "out")
    assert [item.reason for item in reading.left_out if item.what == str(archive)] == [
        "archive without audio"
    ]


def test_many_archives_are_unpacked_in_threads_that_end(tmp_path):
    root = tmp_path / "in" / "data_aishell"
    names = [f"BAC009S{speaker:04d}W{number:04d}" for speaker in range(40) for number in range(5)]
    write(root / "transcript" / "aishell_transcript_v0.8.txt", "".join(f"{name} 好\n" for name in names))
    for speaker in range(40):
        inside = [f"train/S{speaker:04d}/BAC009S{speaker:04d}W{number:04d}.wav" for number in range(5)]
        pack(root / "wav" / f"S{speaker:04d}.tar.gz", members(*inside))
    running = set(threading.enumerate())
    reading, recordings = read("aishell1", tmp_path / "in", tmp_path / "out")
    assert sorted(recordings) == names
    assert not reading.left_out
    assert set(threading.enumerate()) <= running


def test_speaker_half_unpacked_by_a_killed_process_is_unpacked_again(tmp_path):
    build_aishell1(tmp_path / "in")
    archive = tmp_path / "in" / "data_aishell" / "wav" / "S0002.tar.gz"
    names = [f"train/S0002/BAC009S0002W{number:04d}.wav" for number in (122, 123, 124, 500, 501)]
    pack(archive, [(name, b"RIFF") for name in names])
    home = tmp_path / "out" / "unpacked" / "S0002"
    program = "from data_pipeline.corpora.public.aishell1 import read; from pathlib import Path; import sys; "
    program += "read(Path(sys.argv[1]), Path(sys.argv[2]))"
    program = killed_at_opening(names[-1], program)
    process = subprocess.run([sys.executable, "-c", program, tmp_path / "in", tmp_path / "out"], cwd=ROOT)
    assert process.returncode == -signal.SIGKILL
    assert not home.exists()
    assert len(list(home.with_name(".S0002.part").rglob("*.wav"))) == len(names) - 1
    reading, _ = read("aishell1", tmp_path / "in", tmp_path / "out")
    assert len([item for item in reading.left_out if "S0002" in item.what]) == len(names) - 2
    assert [path.name for path in home.parent.iterdir() if path.name.startswith(".")] == []


def test_primewords_records_give_speakers_and_texts(tmp_path):
    _, recordings = read("primewords", build_primewords(tmp_path), tmp_path / "out")
    assert [recordings[key].speaker for key in sorted(recordings)] == ["70", "71", "70"]
    assert [recordings[key].text for key in sorted(recordings)] == ["这 是 一句 话", "第二 句", "第三句"]


@pytest.mark.parametrize("text", ["[{", '{"file": "a.wav"}', "", "[" * 100_000])
def test_invalid_primewords_list_raises_with_its_path(text, tmp_path):
    source = build_primewords(tmp_path)
    write(source / "primewords_md_2018_set1" / "set1_transcript.json", text)
    with pytest.raises(UserError, match=r"set1_transcript\.json: (not JSON|expected a JSON list)"):
        read("primewords", source, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[FIL]那个 [SPK] 你 好，FIL 世界", "那个 你 好， 世界"),
        ("[ fil ]好[SPK]", "好"),
        ("【SPK】好。", "好。"),
        ("SPK。", ""),
        ("，。？", ""),
        ("看 FILM", "看 FILM"),
        ("[二]楼", "[二]楼"),
    ],
)
def test_noise_marks_are_removed_from_magicdata_texts(text, kept):
    assert without_noises(text) == kept


def test_missing_magicdata_split_is_left_out(tmp_path):
    source = build_magicdata(tmp_path / "in")
    (source / "train").rename(tmp_path / "elsewhere")
    reading, _ = read("magicdata", source, tmp_path / "out")
    assert set(reading.splits) == {"dev", "test"}
    missing = [item.what for item in reading.left_out if item.reason.startswith("missing split")]
    assert missing == [str(source / "train")]
