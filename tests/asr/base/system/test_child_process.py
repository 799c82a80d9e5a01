"""Children answer requests, end with their parent, and say how they ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest
from helpers import ROOT
from helpers.processes import wait_until_ended

from asr.base.errors import UserError
from asr.base.system.child_process import ChildEndedError, ChildProcess, answers_in_order

LARGE = 1 << 20  # more than a pipe holds


def double(requests, greeting=""):
    if greeting:
        yield greeting
    for request in requests:
        print("a library's own line", flush=True)
        yield 2 * request


def fail(requests, how):
    for _ in requests:
        if how == "mistake":
            raise UserError("a mistake")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(3)
    yield None


def wait_forever(requests):
    yield os.getpid()
    signal.pause()


def test_child_answers_each_request_and_what_it_prints_is_no_answer(capfd):
    with ChildProcess(double, "ready") as child:
        assert child.receive() == "ready"
        for request in (3, "a", b"a" * LARGE):
            child.send(request)
            assert child.receive() == 2 * request
    assert "own line" in capfd.readouterr().err


def test_answers_have_the_order_of_their_requests():
    children = [ChildProcess(double) for _ in range(2)]
    try:
        for requests in (range(7), range(1), (), (b"a" * LARGE, b"b" * LARGE, b"c" * LARGE)):
            assert list(answers_in_order(children, requests)) == [2 * request for request in requests]
    finally:
        for child in children:
            child.kill()


@pytest.mark.parametrize(("how", "ending"), [("killed", "SIGKILL"), ("exit", "status 3")])
def test_parent_learns_how_a_child_ended(how, ending):
    with ChildProcess(fail, how) as child:
        child.send(1)
        with pytest.raises(ChildEndedError, match=ending):
            child.receive()
        child.send(2)  # nobody takes it


def test_mistake_that_a_child_reports_is_raised_in_the_parent():
    with ChildProcess(fail, "mistake") as child:
        child.send(1)
        with pytest.raises(UserError, match="a mistake"):
            child.receive()


def test_children_share_an_inbox():
    inbox = SimpleQueue()
    children = [ChildProcess(double, name, inbox=inbox) for name in "ab"]
    found = dict(inbox.get() for _ in children)
    assert [found[child] for child in children] == ["a", "b"]
    for child in children:
        child.kill()
    assert {child for child, _ in (inbox.get() for _ in children)} == set(children)


def test_child_that_is_busy_ends_with_the_block():
    with ChildProcess(wait_forever) as child:
        pid = child.receive()
    wait_until_ended([pid])


def test_ctrl_c_in_a_terminal_does_not_reach_a_child():
    with ChildProcess(wait_forever) as child:
        assert os.getpgid(child.receive()) != os.getpgrp()  # a terminal interrupts a group of processes


FORKING = """
import os, signal
from asr.base.system.child_process import ChildProcess
from test_child_process import double
child = ChildProcess(double, "ready")
fork = os.fork()
if fork == 0:
    signal.alarm(60)  # it would wait for a thread that it does not have
    child.kill()
else:
    status = os.waitpid(fork, 0)[1]
    child.send(3)
    print(child.receive(), child.receive(), status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no forks")
def test_child_outlives_a_fork_of_its_parent(tmp_path):
    done = subprocess.run(**program_of(FORKING, tmp_path), stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, "ready 6 0\n")


def program_of(text, folder):
    """Return the arguments of `subprocess` for a program that can import this module."""
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path}
    return {"args": [sys.executable, program], "env": environment, "cwd": folder, "text": True}


PROGRAM = """
import sys
from asr.base.system.child_process import ChildProcess
from test_child_process import double
child = ChildProcess(double, "ready")  # the program is not run again: it has no guard
child.receive()
print(child._process.pid, flush=True)
sys.stdin.read()
"""


def test_child_ends_when_its_parent_is_killed_and_needs_no_guarded_program(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(**program_of(PROGRAM, tmp_path), **pipes) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        wait_until_ended([pid])
