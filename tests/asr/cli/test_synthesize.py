import pytest
from helpers.kokoro import write_model, write_voices

from asr.cli.main import main
from data_pipeline.manifests.manifest import read_manifest


@pytest.fixture
def files(tmp_path):
    voices = write_voices(tmp_path / "kokoro" / "voices")
    return ["--model", str(write_model(tmp_path / "kokoro" / "tiny.onnx")), "--voices", str(voices)]


def synthesize(tmp_path, *arguments):
    return main(["synthesize", str(tmp_path / "out"), "--engine", "kokoro", *map(str, arguments)])


def test_kokoro_says_the_projects_own_sentences(files, tmp_path, capsys):
    assert synthesize(tmp_path, *files, "--num", 3, "--exclude-voices", "zf_one", "af_four") == 0
    utterances = read_manifest(tmp_path / "out" / "manifest.jsonl")
    assert len(utterances) == 3
    assert all(utterance.text and utterance.tokens for utterance in utterances)
    assert not any(name in u.speaker for u in utterances for name in ("zf_one", "af_four"))
    printed = capsys.readouterr().out
    assert printed.startswith("3 utterances, ")
    assert printed.rstrip().endswith("manifest.jsonl")


@pytest.mark.slow
def test_kokoro_says_a_text_for_hours_and_reports_what_it_cannot(files, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("我们走吧。\n我用GPU训练。\n他们来了。\n", encoding="utf-8")
    text = ["--text", tmp_path / "text.txt"]
    assert synthesize(tmp_path, *files, *text, "--hours", 10 / 3600, "--format", "wav") == 0
    utterances = read_manifest(tmp_path / "out" / "manifest.jsonl")
    assert {u.text for u in utterances} == {"我们走吧。", "他们来了。"}
    assert all(u.audio_path.endswith(".wav") for u in utterances)
    assert sum(u.duration_s for u in utterances) >= 10
    assert "left out: 1  " in capsys.readouterr().out


@pytest.mark.parametrize("given", [[], ["--model", "a.onnx"], ["--voices", "voices"]])
def test_missing_files_are_named(given, tmp_path, capsys):
    assert synthesize(tmp_path, *given) == 2
    assert "expected --model FILE and --voices PATH" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "given", [["--text", "a.txt"], ["--exclude-voices", "zf_one"], ["--hours", "1"], ["--format", "wav"]]
)
def test_options_of_kokoro_with_espeak_are_refused(given, tmp_path, capsys):
    assert main(["synthesize", str(tmp_path / "out"), *given]) == 2
    assert f"{given[0]}: is for --engine kokoro" in capsys.readouterr().err
