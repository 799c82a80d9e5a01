"""Make small trees in the layouts of the general forms, LibriSpeech and Common Voice, with their quirks."""

import json
from pathlib import Path

import numpy as np
import soundfile

RATE_HZ = 16000
BYTE_ORDER_MARK = "\ufeff"


def clip(path: Path, seconds: float = 0.3) -> Path:
    """Write a short recording in the container of its suffix; every path has another sound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(sum(path.name.encode()))
    container = path.suffix[1:].upper().replace("SPH", "NIST").replace("LST", "WAV")
    soundfile.write(path, rng.normal(0, 0.1, int(seconds * RATE_HZ)), RATE_HZ, format=container)
    return path


def write(path: Path, text: str, encoding: str = "utf-8", newline: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    return path


def build_librispeech(root: Path) -> Path:
    """Write five parts, with an upper-case suffix, a clip without a line and a line without a clip."""
    corpus = root / "LibriSpeech"
    for part, speaker, suffix in (
        ("train-clean-100", "103", ".flac"),
        ("train-other-500", "20", ".FLAC"),
        ("dev-clean", "84", ".flac"),
        ("dev-other", "116", ".flac"),
        ("test-clean", "61", ".wav"),  # some convert it
    ):
        chapter = corpus / part / speaker / "7"
        for number in range(2):
            clip(chapter / f"{speaker}-7-{number:04d}{suffix}")
        lines = [f"{speaker}-7-{number:04d} IT'S LINE {number}" for number in range(2)]
        write(chapter / f"{speaker}-7.trans.txt", "\n".join(lines) + "\n")
    clip(corpus / "dev-clean" / "84" / "7" / "84-7-0002.flac")  # without a line
    with (corpus / "dev-clean" / "84" / "7" / "84-7.trans.txt").open("a") as file:
        file.write("84-7-0003 A LINE WITHOUT AUDIO\n")
    write(corpus / "SPEAKERS.TXT", "; ID | SEX | SUBSET\n103 | F | train-clean-100\n")
    return root


def build_common_voice(root: Path, language: str = "zh-CN") -> Path:
    """Write a release with newer columns, a sentence that begins with a quotation mark, and a bad line."""
    folder = root / "cv-corpus-19.0" / language
    header = "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\tgender\t"
    header += "accents\tvariant\tlocale\tsegment"

    def row(client: str, name: str, sentence: str) -> str:
        return f"{client}\t{name}\tid\t{sentence}\t\t2\t0\t\t\t\t\t{language}\t"

    tables = {
        "train": [
            row("c1", "cv_1.mp3", '"你好，她说。'),
            row("c1", "cv_2.mp3", "　第二　句"),
            row("c1", "cv_2.mp3", "第二句又来"),
            "c1\tcv_3.mp3\tcut off",
            row("c1", "cv_4.mp3", ""),
        ],
        "dev": [row("c2", "cv_5.mp3", '他说"再见"')],
        "test": [row("c3", "cv_6.mp3", "再见")],
        "other": [row("c4", "cv_7.mp3", "不用")],
        "validated": [row("c5", "cv_8.mp3", "也不用")],
    }
    for name, rows in tables.items():
        write(folder / f"{name}.tsv", "\n".join([header, *rows]) + "\n")
    for number in range(1, 9):
        clip(folder / "clips" / f"cv_{number}.mp3")
    return root


def build_kaldi(root: Path) -> Path:
    """Write data/train with pipes and quirks, data/dev with segments, data/test, and a copy of train."""
    audio, data = root / "audio", root / "data"
    for name in ("a-1.wav", "a-2.flac", "b 3.wav", "b-4.WAV", "c-long.wav", "d-1.wav"):
        clip(audio / name, 2.0 if "long" in name else 0.3)
    write(
        data / "train" / "wav.scp",
        f"{BYTE_ORDER_MARK}a-1 audio/a-1.wav\n"
        "a-2 flac -c -d -s audio/a-2.flac |\n"
        "b-3\tcat 'audio/b 3.wav' |\n"
        "b-4 audio/b-4.WAV\n"
        "b-5 sph2pipe -f wav -p -c 1 audio/b-5.sph |\n"
        "b-6 /data/raw_wav.1.ark:4711\n"
        "b-7 audio/b-7.wav\n"
        "a-1 audio/d-1.wav\n",
        newline="\r\n",
    )
    write(
        data / "train" / "text",
        "a-1 绿 是　阳春\na-2 你好\nb-3 再见\nb-4 三\nb-5 五\nb-6 六\nb-9 没有 声音\n",
        newline="\r\n",
    )
    write(data / "train" / "utt2spk", "a-1 anna\na-2 anna\nb-3 bert\nb-4 bert\n")
    write(data / "dev" / "wav.scp", "c-long audio/c-long.wav\n")
    write(
        data / "dev" / "segments",
        "c-1 c-long 0.0 0.75\nc-2 c-long 0.75 -1\nc-3 c-long 1.5 1.0\nc-4 e-long 0 1\nc-5 c-long 0\nc-6\n",
    )
    write(
        data / "dev" / "text",
        "".join(f"c-{number} 第{hanzi}句\n" for number, hanzi in enumerate("一二三四五六", 1)),
    )
    write(data / "test" / "wav.scp", "d-1 audio/d-1.wav\n")
    write(data / "test" / "text", "d-1 你好\n")
    write(data / "train_sp" / "wav.scp", "sp0.9-a-1 sox -t wav audio/a-1.wav -t wav - speed 0.9 |\n")
    write(data / "train_sp" / "text", "sp0.9-a-1 绿\n")
    return root


def build_nemo(root: Path) -> Path:
    """Write NeMo manifests for train and validation, with typical mistakes, beside a settings file."""
    for name in ("anna/1.wav", "anna/2.wav", "bert/1.wav", "long.wav"):
        clip(root / "wav" / name, 2.0 if "long" in name else 0.3)
    records = [
        {"audio_filepath": "wav/anna/1.wav", "duration": 0.3, "text": "你好", "speaker": "anna"},
        {"audio_filepath": "wav\\anna\\2.wav", "duration": 0.3, "text": '他说"再见"', "speaker": 7},
        {"audio_filepath": "wav/bert/1.wav", "duration": 0.3, "text": "再见"},
        {"audio_filepath": "wav/long.wav", "offset": 0.5, "duration": 0.75, "text": "一"},
        {"audio_filepath": "wav/long.wav", "offset": 1.25, "duration": 0.5, "text": "二"},
        {"audio_filepath": "wav/bert/1.wav", "duration": 0.3},
        {"audio_filepath": "wav/bert/1.wav", "duration": 0.3, "text": " 　"},
        {"duration": 0.3, "text": "没有声音"},
        {"audio_filepath": "wav/long.wav", "offset": "soon", "duration": 0.5, "text": "三"},
        {"audio_filepath": "wav/bert/1.wav", "duration": 0.3, "text": "\ud800"},
    ]
    lines = [json.dumps(record) for record in records]
    lines[3:3] = ['{"audio_filepath": "wav/anna/1.wav", "dur', "", '["no", "object"]']
    write(root / "train_manifest.json", BYTE_ORDER_MARK + "\n".join(lines) + "\n", newline="\r\n")
    write(root / "validation_manifest.json", json.dumps(records[0] | {"text": "不同"}) + "\n")
    write(root / "tokenizer_config.json", json.dumps({"units": 5}, indent=2))
    return root


def build_wenet(root: Path) -> Path:
    """Write train, dev and test with a data.list each, with duplicate ids and one segment."""
    for name in ("1", "2", "3", "4"):
        clip(root / "wavs" / f"{name}.wav", 1.0)
    for split, records in {
        "train": [
            {"key": "u-1", "wav": "wavs/1.wav", "txt": "你好"},
            {"key": "u-2", "wav": "wavs/2.wav", "txt": "再见", "start": 0.25, "end": 0.75},
            {"key": "u-1", "wav": "wavs/2.wav", "txt": "再来"},
        ],
        "dev": [{"key": "u-3", "wav": "wavs/3.wav", "txt": "三"}],
        "test": [{"key": "u-4", "wav": "wavs/4.wav", "txt": "四"}],
    }.items():
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        write(root / split / "data.list", "\n".join(lines) + "\n")
    return root


def build_csv(root: Path) -> Path:
    """Write a table with a split column, as a Chinese spreadsheet saves it, with unusable rows."""
    for name in ("a1.wav", "a2.wav", "b1.WAV", "b2.wav"):
        clip(root / "clips" / name)
    rows = [
        "Filename,Duration,Sentence,Client ID,Split",
        'clips/a1.wav,0.3,"你好,她说",anna,train',
        'clips/a2.wav,0.3,"她说""再见""",anna,train',
        "clips/b1.WAV,0.3,再见,bert,validation",
        "clips/b2.wav,0.3,三,bert,test",
        "clips/b2.wav,0.3,你好,再见,bert,test",
        'clips/b2.wav,0.3,"没有结束,bert,test',
        "clips/b2.wav,0.3,,bert,test",
        ",0.3,没有文件,bert,test",
        "clips/b2.wav,0.3,没有归属,bert,",
    ]
    write(root / "table.csv", "\n".join(rows) + "\n", encoding="gb18030", newline="\r\n")
    return root


def build_tsv(root: Path) -> Path:
    """Write train.tsv, dev.tsv, test.tsv without speakers, a lone quotation mark, and an unrelated table."""
    for split, rows in {
        "train": ["path\ttext", '1.wav\t"你好', '2.wav\t"再见"'],
        "dev": ["text\tpath", "三\t3.wav"],
        "test": ["path\ttext", "4.wav\t四"],
    }.items():
        write(root / f"{split}.tsv", BYTE_ORDER_MARK + "\n".join(rows) + "\n")
    write(root / "speakers.csv", "speaker,age\nanna,30\n")
    for number in range(1, 5):
        clip(root / f"{number}.wav")
    return root


def build_folder(root: Path) -> Path:
    """Write clips of two speakers with transcripts of all kinds, and files without a partner."""
    for name in ("anna/1.wav", "anna/2.WAV", "anna/3.flac", "anna/4.wav", "bert/1.wav", "bert/2.wav"):
        clip(root / name)
    clip(root / "bert" / "3.wav")
    write(root / "anna" / "1.txt", f"{BYTE_ORDER_MARK}你好，\n她说\n", newline="\r\n")
    write(root / "anna" / "2.TXT", "她说：“再见”\n", encoding="gb18030")
    write(root / "anna" / "3.lab", "　三　个 ")
    write(root / "anna" / "4.wav.trn", "绿是\nlv4 shi4\nl v4 sh ix4\n")
    write(root / "bert" / "1.wav.txt", "再见")
    write(root / "bert" / "2.lab", "0 1500000 sil\n1500000 3000000 a1\n")
    write(root / "README.txt", "About these recordings.")
    return root


def build_asrt(root: Path) -> Path:
    """Write a dataset folder as ASRT has it: lists of two corpora copied beside their audio."""
    audio = {
        "data_thchs30/train/A2_0": ("thchs30", "train.wav.lst"),
        "data_thchs30/train/A2_1": ("thchs30", "train.wav.lst"),
        "data_thchs30/dev/A11_101": ("thchs30", "cv.wav.lst"),
        "data_thchs30/test/D4_750": ("thchs30", "test.wav.lst"),
        "ST-CMDS-20170001_1-OS/20170001P00001A0001": ("st-cmds", "train.wav.txt"),
    }
    lists: dict[Path, list[str]] = {}
    for path, (corpus, name) in audio.items():
        clip(root / f"{path}.wav")
        lists.setdefault(root / corpus / name, []).append(f"{path.split('/')[-1]} {path}.wav")
    lists[root / "thchs30" / "train.wav.lst"].append("A2_2 data_thchs30/train/A2_2.wav")
    for path, lines in lists.items():
        write(path, "\n".join(lines) + "\n")
        ids = [line.split()[0] for line in lines]
        labels = path.with_name(path.name.split(".")[0] + ".syllable.txt")
        text = "".join(f"{name} lv4 shi4 de5 \n" for name in ids if name != "A2_2")
        write(labels, text + ("A2_3 mei2 you3\n" if path.name.startswith("train.wav.lst") else ""))
    write(root / "st-cmds" / "dev.wav.lst", "x y.wav\n")
    return root
