"""The search for hanzi finds the same interpreted and compiled; a short process does not compile it."""

import os
import random
import subprocess
import sys
import warnings

import pytest
from helpers import ROOT

from asr.base.compiled import compiled
from asr.language.hanzi import converter as converter_module
from asr.language.hanzi.converter import INTERPRETED, Converter
from asr.language.hanzi.lattice import chain_lattice, lattice_from_nbest
from asr.language.hanzi.search import best_words
from asr.training.language_model import train_language_models

NUM_SENTENCES = 30
WORDS = ("wo3 men5", "bei3 jing1", "shi4", "peng2 you3", "yi1 yuan4", "qu4", "fu2 jian1", "lai2 le5")
SENTENCE = ["wo3", "men5", "qu4", "bei3", "jing1"]
PROGRAM = f"""
import sys
from asr.language.hanzi.converter import Converter
converter = Converter.load()
for num_sentences in (1, {INTERPRETED // len(SENTENCE)}):
    for _ in range(num_sentences):
        converter.convert({SENTENCE})
    print("numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return a folder with a language model of one's own, of words and readings."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.txt").write_text("苻坚来了\n我找苻坚\n我们去北京看朋友\n" * 50, encoding="utf-8")
    train_language_models([str(folder / "own.txt")], folder / "lm")
    return folder / "lm"


def lattices(converter):
    """Return sentences with odd syllables, some without tones, and lists of hypotheses."""
    draw, found = random.Random(0), []
    for index in range(NUM_SENTENCES):
        sentence = " ".join(draw.choices(WORDS, k=draw.randint(1, 5))).split()
        for _ in range(index % 4):
            sentence[draw.randrange(len(sentence))] = draw.choice(
                [*converter.dictionary.syllables, "-", "▁ok"]
            )
        if index % 10 == 0:
            sentence = [syllable.rstrip("12345") for syllable in sentence]
        other = [draw.choice([syllable, "shi4", "jian1"]) for syllable in sentence]
        found.append(chain_lattice(sentence))
        found.append(
            lattice_from_nbest([(sentence, -0.3), (other, -1.1), (sentence[:-1], -2.7), ((), -90.0)])
        )
    return found


@pytest.mark.parametrize(("has_own", "soft_tones"), [(False, None), (True, 4)])
def test_interpreted_search_finds_what_the_compiled_one_finds(has_own, soft_tones, own, monkeypatch):
    converter = Converter.load(own if has_own else None, soft_tones)

    def converted(search):
        monkeypatch.setattr(converter_module, "search", lambda _, *arguments: search(*arguments))
        return [converter.convert_lattice(lattice) for lattice in lattices(converter)]

    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        interpreted = converted(best_words)
    assert interpreted == converted(compiled(best_words))
    assert all(type(conversion.score) is float for conversion in interpreted)


def test_a_process_compiles_once_it_converts_a_lot():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert printed.split() == ["False", "True"]
