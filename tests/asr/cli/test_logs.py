"""Test that `--verbose` and `--quiet` set how much of the library's log is shown."""

import logging

import pytest

from asr.cli import main as program
from asr.cli.logs import TerminalHandler
from asr.cli.main import main

logger = logging.getLogger("asr.somewhere")


@pytest.fixture
def logging_command(monkeypatch):
    """Make `asr runs` log a line of each level and print its result."""

    def run(arguments):
        logger.debug("a detail")
        logger.info("news of %d things", 3)
        logger.warning("a doubt")
        print("the result")
        return 0

    commands = [
        command._replace(run=run) if command.name == "runs" else command for command in program.COMMANDS
    ]
    monkeypatch.setattr(program, "COMMANDS", commands)


@pytest.mark.usefixtures("logging_command")
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["runs"], ["news of 3 things", "warning: a doubt"]),
        (["--verbose", "runs"], ["a detail", "news of 3 things", "warning: a doubt"]),
        (["runs", "--verbose"], ["a detail", "news of 3 things", "warning: a doubt"]),
        (["--quiet", "runs"], ["warning: a doubt"]),
        (["runs", "--quiet"], ["warning: a doubt"]),
    ],
)
def test_log_options_before_or_after_the_command_set_the_level(options, lines, capsys):
    assert main(options) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == lines
    assert printed.out == "the result\n"


@pytest.mark.parametrize(
    "command", [["lm", "convert"], ["lm", "train"], ["lm", "info"], ["labels", "apply"]], ids=" ".join
)
def test_subcommands_accept_the_log_options(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert "[--verbose | --quiet]" in capsys.readouterr().out


def test_log_record_that_cannot_be_written_raises_nothing(monkeypatch):
    class FullDisk:
        def write(self, text):
            raise OSError(28, "No space left on device")

        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", FullDisk())
    TerminalHandler().emit(logging.makeLogRecord({"msg": "a doubt", "levelno": logging.WARNING}))


@pytest.mark.usefixtures("logging_command")
def test_second_command_in_one_process_logs_each_line_once(capsys):
    main(["runs"])
    capsys.readouterr()
    main(["runs"])
    assert capsys.readouterr().err.count("news") == 1
