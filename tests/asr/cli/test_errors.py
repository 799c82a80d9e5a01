"""The library names parameters, the command line its options."""

import argparse

import pytest

from asr.base.types import UserError
from asr.cli import main as program
from asr.cli.errors import as_typed
from asr.cli.main import main


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("--gpus", dest="devices")
    parser.add_argument("-r", "--resume", action="store_true")
    return parser


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("`devices`: no device 7", "--gpus: no device 7"),
        ("say `devices=2`, or none", "say --gpus 2, or none"),
        ("resume it (`resume=True`)", "resume it (--resume)"),
        ("resume it (`resume`)", "resume it (--resume)"),
        ("`run` is an argument, `other=1` unknown", "`run` is an argument, `other=1` unknown"),
        ("`asr doctor` names them; devices=2 is no parameter", None),
    ],
)
def test_parameters_become_the_options_of_the_command(parser, message, typed):
    assert as_typed(message, parser) == (typed or message)


def test_an_error_of_the_library_is_printed_with_the_options_of_its_command(monkeypatch, capsys):
    def run(arguments):
        raise UserError("`devices=9`: not there; or `overrides`")

    commands = [
        command._replace(run=run) if command.name == "train" else command for command in program.COMMANDS
    ]
    monkeypatch.setattr(program, "COMMANDS", commands)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "error: --gpus 9: not there; or --set\n"


def test_what_an_interrupt_notes_is_printed_before_the_end(monkeypatch, capsys):
    def run(arguments):
        interrupt = KeyboardInterrupt()
        interrupt.add_note("epoch 3 is saved")
        raise interrupt

    commands = [
        command._replace(run=run) if command.name == "runs" else command for command in program.COMMANDS
    ]
    monkeypatch.setattr(program, "COMMANDS", commands)
    assert main(["runs"]) == 130
    assert capsys.readouterr().err == "\nepoch 3 is saved\nstopped\n"
