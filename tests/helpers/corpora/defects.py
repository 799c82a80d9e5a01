"""Make a small corpus of noises without defects, and in it every defect that `asr doctor` looks for."""

import itertools
import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor.checkup import MAX_SAMPLES, Checkups, check_recording
from data_pipeline.doctor.contents import read_contents
from data_pipeline.doctor.diagnosis import Diagnosis, diagnose
from data_pipeline.doctor.findings import sources_of
from data_pipeline.doctor.label_checks import LabelRules, vocabulary_of

RATE_HZ = 16000
WORDS = "一二三四五六七八九十百千"
SYLLABLES = ["yi1", "er4", "san1", "si4", "wu3", "liu4", "qi1", "ba1", "jiu3", "shi2", "bai3", "qian1"]
SPLITS = {"train": 24, "test": 4}


class SmallCorpus:
    """Manifests in `folder` as records that a test may damage before `save`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vocabulary: list[str] | None = None
        self.batch_s: float | None = None
        self.records = {split: [self.add(split, n) for n in range(num)] for split, num in SPLITS.items()}
        self.extra = dict.fromkeys(SPLITS, b"")
        self.save()

    def add(self, split: str, number: int) -> dict:
        """Write a recording and return its record, with five tokens; all sentences differ."""
        first = number if split == "train" else 100 + number
        places = [first % 12, (first // 12 + 5) % 12, 3, (7 * first) % 12, (first // 3) % 12]
        name = f"{split}-{number}"
        self.write(name, noise(first, 1.2 + 0.02 * number))
        return {
            "id": name,
            "audio": f"{name}.wav",
            "duration_s": 1.2 + 0.02 * number,
            "text": "".join(WORDS[place] for place in places),
            "tokens": " ".join(SYLLABLES[place] for place in places),
            "speaker": f"{split} speaker {number % 3}",
        }

    def write(self, name: str, samples, rate_hz=RATE_HZ, suffix=".wav", **options) -> Path:
        path = self.folder / f"{name}{suffix}"
        soundfile.write(path, samples, rate_hz, **options)
        return path

    def audio(self, number: int = 0) -> Path:
        return self.folder / f"train-{number}.wav"

    def train(self, number: int = 0) -> dict:
        return self.records["train"][number]

    def test(self, number: int = 0) -> dict:
        return self.records["test"][number]

    def save(self) -> list[Path]:
        for split, records in self.records.items():
            lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            (self.folder / f"{split}.jsonl").write_bytes(self.extra[split] + lines.encode())
        return self.paths

    @property
    def paths(self) -> list[Path]:
        return [self.folder / f"{split}.jsonl" for split in self.records]


def noise(seed: int, duration_s: float) -> np.ndarray:
    """Return noise with the level of speech; every seed gives another."""
    return np.random.default_rng(seed).normal(0, 0.05, round(duration_s * RATE_HZ))


def frames_needed(ids: list[int]) -> int:
    return len(ids) + sum(one == other for one, other in itertools.pairwise(ids))


def examine(corpus: SmallCorpus) -> Diagnosis:
    return examine_paths(corpus.save(), corpus.vocabulary, corpus.batch_s)


def examine_paths(paths, tokens=None, batch_s=None) -> Diagnosis:
    """Examine manifests as the doctor does, in this process and with a model of one frame every 80 ms."""
    contents = read_contents(sources_of(paths))
    train = [source for source in contents.sources if source.role == "train"]
    vocabulary, findings = vocabulary_of(contents.entries.columns_of(train))
    if tokens:
        vocabulary = Vocabulary(tokens)
    rules = LabelRules(vocabulary, frames_needed, lambda n: n // 1280, "a <model>", batch_s)
    checkups = Checkups.of([check_recording(entry.utterance.audio_path) for entry in contents.entries])
    return diagnose(contents, checkups, rules, findings)


def overdriven() -> np.ndarray:
    times_s = np.arange(round(1.2 * RATE_HZ)) / RATE_HZ
    return np.clip(3 * np.sin(2 * np.pi * 200 * times_s) + noise(0, 1.2), -1, 1)


Defect = Callable[[SmallCorpus], object]
DEFECTS: dict[str, list[Defect]] = {}


def defect(code: str) -> Callable[[Defect], Defect]:
    def register(spoil: Defect) -> Defect:
        DEFECTS.setdefault(code, []).append(spoil)
        return spoil

    return register


@defect("unreadable-manifest")
def manifest_is_missing(corpus):
    corpus.records["dev"] = []
    corpus.extra["dev"] = b""
    corpus.save = lambda: corpus.paths


@defect("empty-manifest")
def manifest_is_empty(corpus):
    corpus.records["dev"] = []
    corpus.extra["dev"] = b"\n\n"


@defect("broken-line")
def line_is_not_json(corpus):
    corpus.extra["train"] = b'{"id": "a", \n'


@defect("broken-line")
def line_is_gbk(corpus):
    corpus.extra["train"] = '{"id": "你"}\n'.encode("gbk")


@defect("broken-vocabulary")
def token_is_the_blank(corpus):
    corpus.train()["tokens"] = "yi1 <blank> san1 si4 wu3"
    corpus.train()["text"] = ""


@defect("repeated-id")
def id_is_duplicated(corpus):
    corpus.train(5)["id"] = corpus.train(2)["id"]


@defect("missing-audio")
def audio_is_missing(corpus):
    corpus.audio().unlink()


@defect("missing-audio")
def audio_is_a_folder(corpus):
    corpus.audio().unlink()
    corpus.audio().mkdir()


@defect("empty-audio")
def audio_is_empty(corpus):
    corpus.audio().write_bytes(b"")


@defect("truncated-audio")
def wav_is_cut_off(corpus):
    data = corpus.audio().read_bytes()
    corpus.audio().write_bytes(data[: len(data) // 2])


@defect("truncated-audio")
def flac_is_cut_off(corpus):
    path = corpus.write("cut", noise(0, 1.2), suffix=".flac")
    path.write_bytes(path.read_bytes()[:-5000])
    corpus.train()["audio"] = path.name


@defect("corrupt-audio")
def audio_is_a_text(corpus):
    corpus.audio().write_text("<html>404 not found</html>" * 100)


@defect("oversized-audio")
def audio_lasts_for_hours(corpus):
    data = bytearray(corpus.audio().read_bytes()[:44])
    num_bytes = 2 * (MAX_SAMPLES + 1)
    data[4:8], data[40:44] = (36 + num_bytes).to_bytes(4, "little"), num_bytes.to_bytes(4, "little")
    corpus.audio().write_bytes(data)
    os.truncate(corpus.audio(), 44 + num_bytes)  # a hole, which takes no room on the disk


@defect("oversized-audio")
def audio_is_longer_than_training_takes(corpus):
    corpus.write("train-0", noise(0, 301))
    corpus.train()["duration_s"] = 301.0


@defect("missing-audio")
def audio_is_a_pipe(corpus):
    corpus.audio().unlink()
    os.mkfifo(corpus.audio())


@defect("too-short")
def audio_is_shorter_than_a_window(corpus):
    corpus.write("train-0", noise(0, 0.02))


@defect("silent")
def audio_is_silent(corpus):
    corpus.write("train-0", np.zeros(round(1.2 * RATE_HZ)))


@defect("silent")
def audio_is_a_constant(corpus):
    corpus.write("train-0", np.full(round(1.2 * RATE_HZ), 0.3))


@defect("mixed-down")
def channels_cancel_out(corpus):
    sound = noise(0, 1.2)
    corpus.write("train-0", np.stack([sound, -sound], axis=1))


@defect("wrong-duration")
def manifest_gives_another_length(corpus):
    corpus.train()["duration_s"] = 1.3


@defect("no-label")
def tokens_are_missing(corpus):
    corpus.train()["tokens"] = " "


@defect("damaged-label")
def token_has_lost_a_character(corpus):
    corpus.train()["tokens"] = corpus.train()["tokens"].replace("si4", "s\ufffd4")


@defect("damaged-label")
def token_holds_a_byte_order_mark(corpus):
    corpus.train()["tokens"] = "\ufeff" + corpus.train()["tokens"]


@defect("unknown-token")
def token_is_not_in_the_vocabulary(corpus):
    corpus.vocabulary = SYLLABLES
    corpus.train()["tokens"] = corpus.train()["tokens"].replace("si4", "kuai4")


@defect("too-many-tokens")
def tokens_and_their_repeats_exceed_the_frames(corpus):
    # 1.2 s are 15 frames of 80 ms: 8 tokens fit, were it not for 7 repeats and one more
    corpus.train()["tokens"] = "si4 " * 8 + "er4"
    corpus.train()["text"] = "四四四四四四四四二"


@defect("contradicting-labels")
def one_recording_has_two_labels(corpus):
    corpus.write("train-1", noise(0, 1.2))
    corpus.train(1)["duration_s"] = 1.2


@defect("repeated-audio")
def a_recording_occurs_as_wav_and_flac(corpus):
    path = corpus.write("again", soundfile.read(corpus.audio(), dtype="int16")[0], suffix=".flac")
    corpus.records["train"].append({**corpus.train(), "id": "again", "audio": path.name})


@defect("shared-audio")
def a_recording_occurs_in_train_and_test(corpus):
    corpus.test()["audio"] = corpus.train()["audio"]
    corpus.test()["duration_s"] = corpus.train()["duration_s"]


@defect("shared-sentence")
def a_sentence_occurs_in_train_and_test(corpus):
    corpus.test()["tokens"], corpus.test()["text"] = corpus.train()["tokens"], corpus.train()["text"]


@defect("shared-speaker")
def a_speaker_occurs_in_train_and_test(corpus):
    corpus.test()["speaker"] = corpus.train()["speaker"]


@defect("shared-id")
def an_id_occurs_in_two_manifests(corpus):
    corpus.test()["id"] = corpus.train()["id"]


@defect("unseen-token")
def test_has_a_token_that_train_lacks(corpus):
    corpus.test()["tokens"] = corpus.test()["tokens"].replace("si4", "kuai4")


@defect("odd-token")
def token_has_no_tone(corpus):
    corpus.train()["tokens"] = corpus.train()["tokens"].replace("si4", "si")


@defect("mixed-forms")
def token_comes_in_two_unicode_forms(corpus):
    for record in corpus.records["train"] + corpus.records["test"]:
        marks = str.maketrans({"4": "\u0300", "1": "\u0304", "2": "\u0301", "3": "\u030c"})
        composed = unicodedata.normalize("NFC", record["tokens"].replace("si4", "sì").translate(marks))
        record.update(text="", tokens=composed)
    corpus.train()["tokens"] = corpus.train()["tokens"].replace("sì", "si\u0300")


@defect("text-and-tokens")
def text_has_more_hanzi_than_syllables(corpus):
    corpus.train()["text"] += "百"


@defect("text-and-tokens")
def text_with_the_hanzi_for_zero_has_more_hanzi_than_syllables(corpus):
    corpus.train()["text"] += "〇"


@defect("speaking-rate")
def sentence_is_far_too_long_for_its_recording(corpus):
    corpus.train()["tokens"] = "yi1 er4 san1 si4 wu3 liu4 qi1 ba1 jiu3 shi2 bai3 qian1 yi1 er4"
    corpus.train()["text"] = WORDS + "一二"


@defect("unusual-length")
def recording_is_much_longer_than_the_rest(corpus):
    corpus.write("train-0", noise(0, 9.0))
    corpus.train().update(duration_s=9.0, tokens=" ".join(SYLLABLES * 3), text=WORDS * 3)


@defect("longer-than-batch")
def recording_is_longer_than_a_batch(corpus):
    corpus.batch_s = 1.65


@defect("narrow-band")
def recording_is_from_a_telephone(corpus):
    corpus.write("train-0", noise(0, 0.6), 8000)


@defect("clipped")
def recording_is_clipped(corpus):
    corpus.write("train-0", overdriven())


@defect("clipped")
def recording_was_clipped_and_turned_down(corpus):
    corpus.write("train-0", 0.4 * overdriven())


@defect("quiet")
def recording_is_very_quiet(corpus):
    corpus.write("train-0", 0.03 * noise(0, 1.2))


@defect("offset")
def recording_has_an_offset(corpus):
    corpus.write("train-0", noise(0, 1.2) + 0.05)


@defect("zero-tail")
def recording_ends_in_zeros(corpus):
    corpus.write("train-0", np.concatenate([noise(0, 0.5), np.zeros(2 * RATE_HZ)]))
    corpus.train()["duration_s"] = 2.5


@defect("damaged-text")
def text_was_read_in_latin_1(corpus):
    corpus.train()["text"] = corpus.train()["text"].encode().decode("cp1252", errors="replace")


@defect("damaged-text")
def text_was_read_in_gbk(corpus):
    corpus.train()["text"] = corpus.train()["text"].encode().decode("gbk", errors="replace")


@defect("damaged-text")
def text_holds_a_control_character(corpus):
    corpus.train()["text"] += "\x07"


@defect("resampled")
def recording_is_from_a_compact_disc(corpus):
    corpus.write("train-0", noise(0, 1.2 * 44.1 / 16), 44100)


@defect("mixed-down")
def recording_is_in_stereo(corpus):
    corpus.write("train-0", np.stack([noise(0, 1.2), noise(1000, 1.2)], axis=1))


@defect("unstated-length")
def recording_was_piped_into_an_au_file(corpus):
    path = corpus.write("train-0", noise(0, 1.2), suffix=".au", subtype="PCM_16")
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\xff" * 4 + data[12:])
    corpus.train()["audio"] = path.name


@defect("odd-space")
def text_holds_a_full_width_space(corpus):
    corpus.train()["text"] += "\u3000"


@defect("decomposed")
def text_is_decomposed(corpus):
    corpus.train()["speaker"] = unicodedata.normalize("NFD", "José")


@defect("byte-order-mark")
def manifest_begins_with_a_byte_order_mark(corpus):
    corpus.extra["train"] = b"\xef\xbb\xbf"


@defect("no-speaker")
def speakers_are_not_named(corpus):
    corpus.train()["speaker"] = ""
