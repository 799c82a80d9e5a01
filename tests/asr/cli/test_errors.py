"""Test that errors of the library, which name parameters, are printed with the command's options."""

import argparse

import pytest

from asr.base.errors import UserError
from asr.cli import main as program
from asr.cli.errors import with_options
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
def test_parameters_in_errors_become_options_of_the_command(parser, message, typed):
    assert with_options(message, parser) == (typed or message)


def test_library_errors_are_printed_with_the_options_of_the_command(monkeypatch, capsys):
    def run(arguments):
        raise UserError("`devices=9`: not there; or `overrides`")

    commands = [
        command._replace(run=run) if command.name == "train" else command for command in program.COMMANDS
    ]
    monkeypatch.setattr(program, "COMMANDS", commands)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "error: --gpus 9: not there; or --set\n"


def test_notes_of_an_interrupt_are_printed(monkeypatch, capsys):
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
