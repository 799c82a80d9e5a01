"""Checks README, CONTRIBUTING and the site: commands run, links lead somewhere, figures have a source.

The cheap part parses every command with the real parser. The slow part runs each distinct command and Python
block once, in reading order, in one folder, on a few clips of the demo corpus.
"""

import argparse
import dataclasses
import importlib
import json
import re
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from helpers import ROOT, asrt, pages

from asr.base.config import Config
from asr.cli.main import main as asr_main
from asr.cli.main import make_parser as make_asr_parser
from data_pipeline.corpora.public import mandarin_demo
from multigpu.__main__ import main as multigpu_main
from multigpu.__main__ import make_parser as make_multigpu_parser

LONGEST_README = 160  # lines
TERMS = "docs/zh/reference/terms.md"

# how a command of ours begins -> its arguments' beginning, parser, and the function that runs it
PROGRAMS = {
    ("asr",): ((), make_asr_parser, asr_main),
    ("python", "-m", "asr"): ((), make_asr_parser, asr_main),
    ("python", "train.py"): (("train",), make_asr_parser, asr_main),
    ("python", "-m", "multigpu"): ((), make_multigpu_parser, multigpu_main),
}
# how a command begins -> why the test does not run it
NOT_RUN = {
    "python3 -m venv": "installs; .ci/run does this",
    ". .venv/bin/activate": "installs; .ci/run does this",
    "pip install": "installs; .ci/run does this",
    "pip config": "changes the user's settings",
    "docker build": "needs Docker",
    "pre-commit": "changes the checkout; needs git",
    "pytest": "runs this test",
    "ruff": "checks the checkout; .ci/run does this",
    "mypy": "checks the checkout; .ci/run does this",
    ".ci/run": "runs this test",
    "python docs/build.py": "builds the site; .ci/run does this",
    "python tests/helpers/": "checks the checkout; tests/test_house.py does this",
    "python demo-onnx/recognize.py": "tests/asr/export/test_recognize.py runs it",
    "docker run": "needs Docker; tests/asr/export/saved_model runs what TensorFlow Serving would",
    'printf \'{"signature_name"': "asks the server that is not there",
    "curl": "needs a server; tests/asr/server does this for that of `asr serve`",
    "arecord": "needs a microphone; tests/asr/export/test_recognize.py streams a recording",
    "tensorboard": "serves until it is stopped",
    "asr serve": "serves until it is stopped; tests/asr/cli/test_serve.py does this",
    "asr transcribe runs/demo recordings/ --out all.jsonl --shard $SLURM": "needs Slurm",
    "dask scheduler": "serves until it is stopped; tests/end_to_end/test_cluster.py starts one",
    "dask worker": "serves until it is stopped; tests/end_to_end/test_cluster.py starts some",
    "asr doctor data/mine/train.jsonl --cluster": "needs a cluster; test_cluster.py has one",
    "asr transcribe runs/demo recordings/ --out all.jsonl --cluster": "needs a cluster, as above",
    "asr prepare folder recordings data/mixed": "needs Latin words; tests/end_to_end/test_mixed.py has some",
    "asr lm train text.txt --units mixed": "needs a run of mixed units; test_mixed.py has one",
    "asr transcribe runs/mine a.wav --lm lm-mixed": "needs a run of mixed units; test_mixed.py has one",
    "asr transcribe https://": "needs a server; tests/asr/export/runtimes/polyphone does this with one",
    "asr record": "serves until it is stopped; tests/end_to_end/test_recorded_in_browser.py does this",
    "asr doctor data/voice": "needs recordings of asr record; test_recorded_in_browser.py has some",
    "asr inspect data/voice": "needs recordings of asr record; test_recorded_in_browser.py has some",
    "python train.py demo --name voice": "needs recordings; test_recorded_in_browser.py trains on some",
    "asr doctor 'data/mine/train-": "needs shards; tests/data_pipeline/doctor/test_diagnosis.py has some",
    "asr prepare json_lines recordings.jsonl.gz": "needs recordings; test_sharded_preparation.py has some",
    "asr doctor 'data/large/train-": "needs shards; test_sharded_preparation.py has some",
    "asr pack 'data/large/train-": "needs shards; test_sharded_preparation.py has some",
    "asr train base --name mine --set": "needs shards; test_sharded_training.py has some",
    "asr train base --name packed --set data.train=s3://": "needs a bucket; test_object_storage.py has one",
    "asr evaluate s3://": "needs a bucket; test_object_storage.py has one",
    "asr download thchs30": "downloads 6.5 GB; tests/data_pipeline/download does this with a small archive",
    "asr prepare thchs30": "needs the download; tests/data_pipeline/corpora does this with a small copy",
    "asr doctor data/thchs30": "needs the download; the demo's manifests are examined instead",
    "asr inspect data/thchs30": "needs the download; the demo's manifests are inspected instead",
    "python train.py base --name thchs30": "needs the download",
    "python train.py thchs30": "downloads; tests/end_to_end/test_recipes.py does this with a small copy",
    "python train.py aishell1": "downloads; tests/end_to_end/test_recipes.py does this with a small copy",
    "python train.py librispeech": "downloads; tests/end_to_end/test_recipes.py does this with a small copy",
    "python train.py mandarin_open": "downloads; tests/end_to_end/test_recipes.py does it with a small copy",
    "asr tune-batch aishell1": "downloads; the demo's batch is tuned instead",
    "asr prepare librispeech": "needs the corpus; tests/data_pipeline/corpora does this with a small copy",
    "asr synthesize data/made": "needs a download; tests/asr/cli/test_synthesize.py has a tiny one",
    "asr lm train english.txt": "needs a run of pieces; tests/end_to_end/test_pieces.py has one",
    "asr tune-decoder runs/english": "needs a run of pieces; tests/end_to_end/test_pieces.py has one",
    "asr transcribe runs/english": "needs a run of pieces; tests/end_to_end/test_pieces.py has one",
    "python train.py --name mirrored": "tests/end_to_end/test_train_on_devices.py trains with this engine",
    "python train.py --name staged": "tests/end_to_end/test_train_on_devices.py trains with this engine",
    "python train.py --name first-two": "needs two GPUs; the next line does the same on simulated ones",
    "python -m multigpu.examples": "needs devices of its own; tests/multigpu/test_examples.py does this",
    "for i in 0 1": "needs two GPUs; tests/end_to_end/test_train_on_devices.py trains in two processes",
}
# what is different here: fewer epochs, a smaller network, and three devices that are simulated from the start
SUBSTITUTED = [
    (r"^(python train\.py(?!.*--resume).+)$(?<!train\.epochs=2)", r"\1 --set train.epochs=1"),
    (r"(--resume --set train\.epochs=)80", r"\g<1>3"),
    (r"^(python train\.py)$", r"\1 --set train.epochs=2"),
    (r"(model\.family=conformer)", r"\1 model.size=xs"),  # minutes less
    # of the size of the demo; a run that starts from another one has the size of that one
    (
        r"^(python train\.py(?!.*(?:--resume|conformer|\.toml)).*|asr tune-batch .*)$",
        r"\1 --set model.size=xs",
    ),
    (
        r"^(python train\.py(?!.*--resume).*)$",
        r"\1 --set train.batch_s=60 --set train.tensorboard_utterances=0",
    ),
    (r"^(?!asr tune-batch)(.*) --simulate\b", r"\1"),
]
# a number that is measured: a share, a time, a speed
FIGURE = re.compile(
    r"\d(?: ?%| ?％|\s(?:times as|seconds|minutes|hours|MB\b|s of audio)|\s?(?:倍|秒|分钟|小时))"
    r"|\b(?:two|three|four|five|ten)(?: and a half)? minutes\b"
)
SOURCE = re.compile(r"benchmarks|experiments|\w+\.py\b")
CODE = re.compile(r"`[^`]+`|--[a-z][a-z-]+|{\w*}")  # what a translation keeps as it is
# a part of a paragraph whose numbers nobody measured, and what they are
NO_FIGURES = {
    "95 % interval": "the level of an interval",
    "95% 置信": "the level of an interval",
    "every ten minutes": "a default, train.checkpoint_s",
    "contradicts more than 30 % of at least 20": "a constant, data_pipeline/collection/checks.py",
    "超过 30% 与文字不符": "a constant, data_pipeline/collection/checks.py",
    "sets another goal than 30 minutes": "a default, --minutes",
    "目标默认为 30 分钟": "a default, --minutes",
    "62 minutes": "the demo corpus",
    "2.5 hours": "a corpus",
    "3.5% 百分之三点五": "an example",
    "3.5% 变成": "an example",
    "from 90 % up as plain text": "a confidence, which the page draws differently",
    "90% 及以上为普通文字": "a confidence, which the page draws differently",
    "2.5 小时": "a corpus",
    "音节开始后 0.4 秒": "a constant, asr/transcription/transcript.py",
    "比自身起点晚 0.4 秒": "a constant, asr/transcription/transcript.py",
    "请求体停顿 20 秒": "a constant, asr/server/requests/request_body.py",
    "0.7 秒没有音节": "a constant, asr/transcription/streaming/stream.py",
    "约 85% 的音节": "a statement of ASRT's makers",
    "about 85 % of the syllables": "a statement of ASRT's makers",
    "补零到 16 秒": "ASRT's padding",
    "超过 16 秒": "ASRT's padding",
}


def known_program(command):
    """Return the beginning of our program's name that a command has, or None."""
    return next((start for start in PROGRAMS if tuple(command.words[: len(start)]) == start), None)


def reason_not_to_run(command):
    return next((why for start, why in NOT_RUN.items() if command.text.strip().startswith(start)), None)


def all_blocks():
    return [block for page in pages.PAGES for block in pages.blocks(page)]


def all_commands():
    return [command for block in all_blocks() for command in pages.commands(block)]


@pytest.mark.parametrize("page", pages.PAGES)
def test_commands_of_a_page_parse(page, capsys):
    for block in pages.blocks(page):
        for command in pages.commands(block):
            start = known_program(command)
            if start is None:
                assert reason_not_to_run(command), f"{page}:{command.line}: {command.text}: not known"
                continue
            before, make_parser, _ = PROGRAMS[start]
            try:
                make_parser().parse_args([*before, *command.words[len(start) :]])
            except SystemExit:
                pytest.fail(f"{page}:{command.line}: {command.text}: {capsys.readouterr().err}")


def subparsers(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def options(parser):
    """Return the options of a parser and of all its commands."""
    found = {option for action in parser._actions for option in action.option_strings}
    return found.union(*(options(child) for _, child in subparsers(parser)))


@pytest.mark.parametrize("page", pages.PAGES)
def test_commands_and_options_in_the_prose_exist(page):
    parsers = [make_asr_parser(), make_multigpu_parser()]
    known = options(parsers[0]) | options(parsers[1])
    names = dict(subparsers(parsers[0]))
    for code in re.findall(r"`([^`\n]+)`", pages.without_blocks(page)):
        words = code.split()
        ours = words[0] in ("asr", "python") or words[0].startswith("--")
        if words[0] == "asr" and len(words) > 1 and re.fullmatch(r"[a-z][a-z-]*", words[1]):
            assert words[1] in names, f"{page}: `{code}`"
        if ours and words[:2] != ["python", "-m"] and not code.startswith("python docs/"):
            for word in words:
                option = word.partition("=")[0]
                assert not word.startswith("--") or option in known, f"{page}: `{code}`"


@pytest.mark.parametrize("page", pages.PAGES)
def test_python_blocks_compile(page):
    for block in pages.blocks(page):
        if block.language == "python":
            compile(block.text, f"{page}:{block.line}", "exec")


@pytest.mark.parametrize("page", pages.PAGES)
def test_links_of_a_page_lead_to_files_and_headings(page):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", pages.without_blocks(page)):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page}: {target}"
        if heading:
            assert heading[1:] in pages.anchors(path), f"{page}: {target}{heading}"


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_figure_names_its_benchmark(page):
    for paragraph in pages.paragraphs(page):
        stripped = paragraph
        for words in NO_FIGURES:
            stripped = stripped.replace(words, "")
        if FIGURE.search(stripped):
            assert SOURCE.search(paragraph), f"{page}: no benchmark for the figure in: {paragraph}"


@pytest.mark.parametrize("page", [page for page in pages.PAGES if pages.twin(page) in pages.PAGES])
def test_twins_show_the_same_commands(page):
    def shown(name):
        return [command.text for block in pages.blocks(name) for command in pages.commands(block)]

    assert shown(page) == shown(pages.twin(page))


@pytest.mark.parametrize("page", pages.CHINESE)
def test_no_line_breaks_within_a_chinese_paragraph(page):
    # a browser shows the break as a blank between two characters
    assert list(pages.broken_lines(page)) == []


def test_a_line_break_within_a_chinese_paragraph_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    parts = [
        "# 题",
        "第一行，\n第二行",
        "- 一\n- 二\n  三",
        "| 表 |\n|---|\n| 格 |",
        "```sh\na\nb\n```",
        "> 引\n文",
    ]
    text = "\n\n".join(parts)
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert list(pages.broken_lines("page.md")) == ["第二行", "  三", "文"]


def terms():
    """Return the rows of the table of terms: English, Chinese, and what is not to be written."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", pages.text_of(TERMS), re.MULTILINE)
    return [(english, chinese, wrong.split("、")) for english, chinese, wrong in rows[1:]]


@pytest.mark.parametrize("page", [page for page in pages.CHINESE if page != TERMS])
def test_chinese_pages_use_the_terms_of_the_table(page):
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", pages.without_blocks(page))
    for english, chinese, wrong in terms():
        for word in wrong:
            assert word not in prose, f"{page}: {word}: write {chinese} for {english}"


@pytest.mark.parametrize("page", pages.CHINESE)
def test_no_blank_before_a_per_cent_sign_on_a_chinese_page(page):
    assert re.findall(r".*\d\s%.*", pages.text_of(page)) == []


@pytest.mark.parametrize("page", ["README.md", pages.twin("README.md")])
def test_readme_is_short(page):
    assert len(pages.text_of(page).splitlines()) < LONGEST_README


def test_what_is_not_run_is_still_shown():
    shown = [command.text.strip() for command in all_commands()]
    if (ROOT / "CONTRIBUTING.md").exists():
        assert [start for start in NOT_RUN if not any(text.startswith(start) for text in shown)] == []


@pytest.fixture
def extension(monkeypatch):
    """Return what imports a module of the site's generator."""
    monkeypatch.syspath_prepend(ROOT / "docs/_ext")
    return importlib.import_module


def test_reference_of_the_configuration_has_every_key_with_its_meaning(extension):
    text = extension("code_reference").configuration()
    for section in dataclasses.fields(Config):
        for key in dataclasses.fields(section.default_factory):
            _, found, entry = text.partition(f"### `{section.name}.{key.name}`\n")
            assert found, f"{section.name}.{key.name}"
            kind, meaning = entry.strip().split("\n\n")[:2]
            assert "default: `" in kind
            assert len(meaning.split()) >= 3


def test_reference_of_the_commands_has_every_command(extension):
    text = extension("code_reference").commands()
    for name, parser in subparsers(make_asr_parser()):
        assert f"### `asr {name}`\n" in text
        for option in options(parser) - {"-h", "--help", "--verbose", "--quiet"}:
            assert option in text


def test_chinese_reference_translates_every_text_and_no_other(extension):
    chinese_reference = extension("chinese_reference")
    translations, texts = chinese_reference.translations(), chinese_reference.texts()
    assert [text for text in texts if text not in translations] == [], "add these to translations.toml"
    assert [text for text in translations if text not in texts] == [], "no longer in the code"
    for text, translation in translations.items():
        assert not [word for *_, wrong in terms() for word in wrong if word in translation], translation
        assert set(CODE.findall(text)) == set(CODE.findall(translation)), text


def test_chinese_reference_has_the_entries_of_the_english_one(extension):
    translate = extension("chinese_reference").translate
    reference = extension("code_reference")
    for make in (reference.configuration, reference.decoder_settings, reference.commands):
        headings = [re.findall(r"^#+ .*", text, re.MULTILINE) for text in (make(), make(translate))]
        assert headings[0] == headings[1] != []


def test_diagram_of_the_rooms_has_every_room_and_package(extension):
    drawing = extension("rooms_diagram").diagram()
    for name in ("base", "training", "cli", "data_pipeline", "multigpu"):
        assert f">{name}</text>" in drawing


def test_chinese_queries_are_cut_into_terms_that_the_index_has(extension):
    pytest.importorskip("sphinx")
    if shutil.which("node") is None:
        pytest.skip("needs node, to run what the browser runs")
    chinese_search = extension("chinese_search")
    program = (
        chinese_search.Chinese.js_splitter_code + "console.log(JSON.stringify(splitQuery(process.argv[1])))"
    )
    page = "训练语言模型lm后，用beam search解码。热词"
    terms = set(chinese_search.Chinese({}).split(page))
    for query, expected in {
        "语言模型": ["语言", "言模", "模型"],
        "词": ["词"],
        "beam search解码": ["beam", "search", "解码"],
    }.items():
        done = subprocess.run(["node", "-e", program, query], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == expected
        assert terms.issuperset(expected)


# ------------------------------------------------------------------------------ every command runs

NUM_CLIPS = {"train": 40, "dev": 6, "test": 6}
ALIGNED = "demo-0002"  # the pages align it with its text


def tokens_of(record):
    return set(record["pinyin"].split())


def chosen_clips(records):
    """Return a few short clips, those of dev and test with tokens of the training set as far as possible."""
    of_split = {split: [r for r in records if r["split"] == split] for split in NUM_CLIPS}
    aligned = next(r for r in records if r["id"] == ALIGNED)
    missing, chosen = tokens_of(aligned), []
    for record in of_split["train"]:  # the shortest first
        if missing & tokens_of(record):
            chosen.append(record)
            missing -= tokens_of(record)
    chosen += [record for record in of_split["train"] if record not in chosen]
    del chosen[NUM_CLIPS["train"] :]
    known = set().union(*map(tokens_of, chosen))
    for split in ("dev", "test"):
        of_split[split].sort(key=lambda record: (record is not aligned, len(tokens_of(record) - known)))
        chosen += of_split[split][: NUM_CLIPS[split]]
    return chosen


def small_demo(path):
    """Write an archive like the demo corpus's with a few of its clips; return all texts of the corpus."""
    with zipfile.ZipFile(mandarin_demo.ARCHIVE) as whole, zipfile.ZipFile(path, "w") as small:
        records = [json.loads(line) for line in whole.read("manifest.jsonl").decode().splitlines()]
        records.sort(key=lambda record: record["duration_s"])
        chosen = chosen_clips(records)
        small.writestr("manifest.jsonl", "".join(json.dumps(record) + "\n" for record in chosen))
        for record in chosen:
            small.writestr(record["audio"], whole.read(record["audio"]))
    return [record["text"] for record in records]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, clips):
    """Return the folder that all commands run in, with the files that the pages suppose a reader to have."""
    import soundfile

    from asr.audio.recording import read_audio

    folder = tmp_path_factory.mktemp("documentation")
    with pytest.MonkeyPatch.context() as patch:
        texts = small_demo(folder / "demo.zip")
        patch.setattr(mandarin_demo, "ARCHIVE", folder / "demo.zip")
        patch.chdir(folder)
        (folder / "texts").mkdir()
        (folder / "texts/news.txt").write_text("\n".join(texts), encoding="utf-8")
        (folder / "names.txt").write_text("医院\n", encoding="utf-8")
        (folder / "text.txt").write_text("周二早上一点我要去医院", encoding="utf-8")
        (folder / "clips").mkdir()
        for i, clip in enumerate(clips):
            speaker = folder / "recordings" / ("anna", "ben", "cara")[i % 3]
            speaker.mkdir(parents=True, exist_ok=True)
            shutil.copy(clip.audio_path, speaker / f"{i:03}.wav")
            (speaker / f"{i:03}.txt").write_text(clip.text, encoding="utf-8")
            shutil.copy(clip.audio_path, folder / "clips" / f"{i:03}.wav")
        rows = [(f"clips/{i:03}.wav", clip.text, "abc"[i % 3]) for i, clip in enumerate(clips)]
        table = ["path\ttext\tspeaker", *("\t".join(row) for row in rows)]
        (folder / "recordings.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
        lines = [json.dumps({"id": path[6:9], "audio": path, "text": text}) for path, text, _ in rows]
        (folder / "recordings.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        shutil.copy(clips[0].audio_path, folder / "memo.wav")
        (folder / "memo.txt").write_text(clips[0].text, encoding="utf-8")
        soundfile.write(folder / "question.mp3", read_audio(clips[1].audio_path), 16000)
        yield folder


def accept_a_correction(folder):
    """Write the review that a reader of the report would have filled in."""
    from asr.evaluation.labels.review_file import ReviewRow, write_review
    from data_pipeline.manifests.manifest import read_manifest

    first = read_manifest(folder / "data/mine/train.jsonl")[0]
    suggested = ("ni3", *first.tokens[1:])
    row = ReviewRow("y", first.id, first.audio_path, first.text, first.tokens, suggested, "", "1")
    write_review(folder / "runs/from-general/review-mine-train.csv", [row])


def lay_down_asrt(folder):
    """Write what a reader has of ASRT; of its networks the smallest, which is trained in less time."""
    from asr.base.text.pinyin import mandarin_syllables

    weights = folder / "ASRT/save_models/SpeechModel251bn.model.h5"
    weights.parent.mkdir(parents=True)
    syllables = mandarin_syllables()
    asrt.write_weights(weights, asrt.random_layers("24", len(syllables) + 1))
    (folder / "ASRT/dict.txt").write_text(asrt.dictionary_text(syllables), encoding="utf-8")


def lay_down_asrt_lists(folder):
    """Write a configuration of ASRT that lists the recordings, with the syllables of their labels."""
    from data_pipeline.manifests.manifest import read_manifest

    dataset = {}
    for split in NUM_CLIPS:
        utterances = read_manifest(folder / f"data/mandarin_demo/{split}.jsonl")
        lists = {"data_list": f"{split}.wav.lst", "label_list": f"{split}.syllable.txt"}
        for name, lines in zip(
            lists.values(),
            ([(u.id, u.audio_path) for u in utterances], [(u.id, *u.tokens) for u in utterances]),
            strict=True,
        ):
            (folder / "ASRT" / name).write_text("\n".join(map(" ".join, lines)) + "\n", encoding="utf-8")
        dataset[split] = [lists | {"name": split, "data_path": "."}]
    settings = json.dumps({"dict_filename": "dict.txt", "dataset": dataset})
    (folder / "ASRT/asrt_config.json").write_text(settings, encoding="utf-8")


# how a command begins -> what a reader does before
BEFORE = {
    "asr labels apply": accept_a_correction,
    "asr import-asrt": lay_down_asrt,
    "asr prepare asrt": lay_down_asrt_lists,
}


def names_of_a_reader():
    """Return what the Python blocks of the pages suppose to be defined."""
    import keras
    import numpy as np

    from asr.audio.recording import read_audio

    sound = read_audio("memo.wav")
    return {
        "microphone": [sound[i : i + 4000] for i in range(0, len(sound), 4000)],
        "inner": keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)]),
        "x": np.ones((128, 4), "float32"),
        "y": np.ones((128, 1), "float32"),
    }


def steps():
    """Return each distinct command, configuration and Python block of the pages, in reading order."""
    found = {}
    for block in all_blocks():
        if block.language == "toml" and re.match(r"# [\w-]+\.toml\n", block.text):
            found.setdefault(("toml", block.text), block)
        elif block.language == "python" and block.page != "CONTRIBUTING.md":  # see test_contributing.py
            if "head-node" in block.text:  # needs a cluster; tests/end_to_end/test_cluster.py has one
                continue
            found.setdefault(("python", block.text), block)
        for command in pages.commands(block):
            if not reason_not_to_run(command):
                found.setdefault(("command", command.text), command)
    return list(found.values())


def words_of(command):
    """Return the words of a command with its substitutions made and its file patterns expanded."""
    text = command.text
    for pattern, replacement in SUBSTITUTED:
        text = re.sub(pattern, replacement, text)
    words = shlex.split(text)
    return [
        name for word in words for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("step", steps(), ids=lambda step: f"{step.page}:{step.line}")
def test_what_a_page_shows_runs(step, folder):
    if isinstance(step, pages.Command):
        for start, prepare in BEFORE.items():
            if step.text.startswith(start):
                prepare(folder)
        start = known_program(step)
        before, _, main = PROGRAMS[start]
        words = [*before, *words_of(step)[len(start) :]]
        assert main(words) == 0, shlex.join(words)
    elif step.language == "toml":
        name = step.text.split("\n", 1)[0].removeprefix("# ")
        (folder / name).write_text(step.text, encoding="utf-8")
    else:
        exec(compile(step.text, f"{step.page}:{step.line}", "exec"), names_of_a_reader())
