"""Test the weights that are included, as whoever starts from them does."""

import json

import pytest

from asr import Recognizer
from asr.base.model_files.model_file import CARD, about_of
from asr.base.model_files.named import BOX, named_folder
from asr.base.text.wording import percent
from asr.cli.main import main
from asr.evaluation.errors.metrics import total_edits
from asr.runs.run import Run

LARGEST_BYTES = 15_000_000


def test_its_card_lies_beside_it_and_says_what_the_file_says():
    about, card = about_of(BOX), BOX.with_suffix(".md").read_text(encoding="utf-8")
    assert (named_folder("general") / CARD).read_text(encoding="utf-8") == card
    assert BOX.stat().st_size < LARGEST_BYTES
    assert f"licence of the weights: {about['licence']}" in card
    assert about["error_rates"]
    for rate in about["error_rates"]:
        (row,) = [
            line for line in card.splitlines() if line.startswith(f"| {rate['set']} | {rate['decoder']} |")
        ]
        assert f"| {percent(rate['rate'])} (" in row
    assert about["recognizes"]
    assert "asr transcribe general.polyphone" in card


def test_recordings_are_transcribed_without_a_run(clips, capsys):
    assert main(["transcribe", *[str(clip.audio_path) for clip in clips[:4]], "--format", "jsonl"]) == 0
    texts = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    pairs = [(tuple(clip.text), tuple(text)) for clip, text in zip(clips[:4], texts, strict=True)]
    assert total_edits(pairs).rate < 0.4


@pytest.mark.slow
def test_it_knows_the_syllables_of_mandarin(clips):
    recognizer = Recognizer.load("general")
    pairs = [(clip.tokens, recognizer.transcribe(clip.audio_path).tokens) for clip in clips]
    assert total_edits(pairs).rate < 0.3


@pytest.mark.slow
def test_training_starts_from_it(separable_config):
    settings = ["train.init_from=general", "train.epochs=1", "features.normalize_over=speech"]
    assert main(["train", str(separable_config), "--name", "from-general", "--set", *settings]) == 0
    start = Run(separable_config.parent / "runs" / "from-general").start_error()
    assert start < 0.4
