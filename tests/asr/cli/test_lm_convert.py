import argparse
import os
import subprocess
import sys

import pytest

from asr.base.errors import UserError
from asr.cli.commands.language.lm_convert import add_lm_convert_arguments, lm_convert_command

PROGRAM = """
import argparse, sys
from asr.cli.commands.language.lm_convert import add_lm_convert_arguments, lm_convert_command
parser = argparse.ArgumentParser()
add_lm_convert_arguments(parser)
assert "numba" not in sys.modules
sys.exit(lm_convert_command(parser.parse_args()))
"""


def run(*arguments):
    parser = argparse.ArgumentParser()
    add_lm_convert_arguments(parser)
    return lm_convert_command(parser.parse_args(arguments))


def test_lm_convert_joins_its_arguments_to_one_sentence(capsys):
    assert run("ni3 hao3", "nǐ", "hǎo") == 0
    assert capsys.readouterr().out == "你好你好\n"


def test_lm_convert_reads_a_sentence_per_line_from_standard_input():
    lines = "\ufeffwo3 men5 qu4 xue2 xiao4\n\nlǜ sè xyz9\n".encode()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "-"],
        input=lines,
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == ["我们去学校", "", "绿色〔xyz9〕"]


def test_soft_tones_correct_a_wrong_tone(capsys):
    run("xue4 xiao4")
    run("--soft-tones", "4", "xue4 xiao4")
    hard, soft = capsys.readouterr().out.split()
    assert hard != "学校"
    assert soft == "学校"


@pytest.mark.parametrize("cost", ["-1", "nan", "inf"])
def test_invalid_cost_of_soft_tones_is_refused(cost):
    with pytest.raises(UserError, match="`soft_tones`: expected 0 or more"):
        run(f"--soft-tones={cost}", "ni3")


def test_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(UserError, match="asr lm train"):
        run("--model", str(tmp_path), "ni3")
