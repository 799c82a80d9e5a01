"""Tests of downloads from a local server that imitates the failures of real servers."""

import argparse
import dataclasses
import hashlib
import http.server
import io
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request

import pytest
from helpers import ROOT
from helpers.processes import LIMIT_S

from asr.base.download import RetryPolicy
from asr.base.errors import UserError
from asr.cli.commands.data.download import download_command
from asr.cli.main import main
from data_pipeline.corpora import CORPORA
from data_pipeline.download.corpus import download_corpus
from data_pipeline.download.fetch import at_mirror, fetch
from data_pipeline.types import Archive, Corpus, CorpusReading

CONTENT = random.Random(1).randbytes(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
HALF = len(CONTENT) // 2
QUICK = RetryPolicy(timeout_s=60, first_wait_s=0.001, max_tries=4)
IMPATIENT = dataclasses.replace(QUICK, timeout_s=1)


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles each request by the next action of the server's plan, and correctly once that is used up."""

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers), time.monotonic()))
        act = self.server.plan.pop(0) if self.server.plan else ordinary
        act(self)

    def log_message(self, *_):
        pass


def ordinary(handler, num_bytes=None, declared=None, resumable=True, tag=True, shift=0):
    """Send the file; optionally only some bytes, with a wrong length, or ignoring Range."""
    content = handler.server.content
    etag = f'"{hashlib.md5(content).hexdigest()[:8]}"'
    wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    unchanged = handler.headers.get("If-Range", etag) == etag
    begin = 0
    if wanted and resumable and unchanged:
        begin = int(wanted[1]) + shift
        if begin >= len(content):
            return say(416, {"Content-Range": f"bytes */{len(content)}"}, b"no such range")(handler)
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
    else:
        handler.send_response(200)
    if tag:
        handler.send_header("ETag", etag)
    handler.send_header("Content-Length", str(declared or len(content) - begin))
    handler.end_headers()
    handler.wfile.write(content[begin:][:num_bytes])
    return None


def cut(num_bytes, **options):
    return lambda handler: ordinary(handler, num_bytes, **options)


def say(code, headers=(), body=b""):
    def act(handler):
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return act


def stall(num_bytes):
    def act(handler):
        ordinary(handler, num_bytes)
        handler.wfile.flush()
        handler.server.end.wait(LIMIT_S)

    return act


def drip(handler):
    """Send a byte now and then, for as long as somebody listens."""
    ordinary(handler, 0)
    while not handler.server.end.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def replaced_by(content):
    def act(handler):
        handler.server.content = content
        ordinary(handler)

    return act


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.content, server.plan, server.asked, server.end = CONTENT, [], [], threading.Event()
        server.address = f"http://127.0.0.1:{server.server_port}"
        server.archive = Archive(f"{server.address}/resources/18/a.bin", MD5)
        server.unchecked = Archive(server.archive.url)
        server.tar = Archive(f"{server.address}/resources/18/a.tgz")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.end.set()
        server.shutdown()


def begins(server):
    """Return the first byte that each request asks for."""
    return [int((headers.get("Range") or "bytes=0-")[6:-1]) for _, headers, _ in server.asked]


def part_of(folder):
    return folder / "a.bin.part"


def interrupt(server, folder, archive):
    """Leave half of the file behind, as an aborted run does."""
    server.plan = [cut(HALF)] + [say(503)] * QUICK.max_tries
    with pytest.raises(UserError, match="the same command resumes"):
        fetch(archive, folder, QUICK)
    assert part_of(folder).read_bytes() == CONTENT[:HALF]
    server.plan, server.asked[:] = [], []


def test_fetch_downloads_the_whole_file_and_leaves_no_part(server, tmp_path):
    assert fetch(server.archive, tmp_path / "new", QUICK).read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.bin"]


def test_fetch_reports_bytes_received_and_then_bytes_verified(server, tmp_path):
    reports = []
    fetch(server.archive, tmp_path, QUICK, reports.append)
    assert list(dict.fromkeys(work.task for work in reports)) == ["a.bin", "checking a.bin"]
    assert {(work.unit, work.total) for work in reports} == {("bytes", len(CONTENT))}
    assert [work.done for work in reports if work.is_done] == [len(CONTENT)] * 2


def test_download_resumes_after_each_cut_connection(server, tmp_path):
    server.plan = [cut(30_000)] * 9  # more than the tries allowed without new data
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    assert begins(server) == list(range(0, 300_000, 30_000))


def test_retries_without_new_data_end_and_keep_the_part(server, tmp_path, caplog):
    server.plan = [cut(HALF)] + [cut(0)] * 10
    with pytest.raises(UserError, match=r"cut.*150kB.* is kept.*`mirror=HOST`.*openslr\.elda\.org"):
        fetch(server.archive, tmp_path, QUICK)
    assert len(server.asked) == 1 + QUICK.max_tries
    assert part_of(tmp_path).read_bytes() == CONTENT[:HALF]
    assert "the connection was cut after 150kB; retrying in" in caplog.text


def test_silent_server_is_retried_after_a_timeout(server, tmp_path, caplog):
    server.plan = [stall(HALF)]
    assert fetch(server.unchecked, tmp_path, IMPATIENT).read_bytes() == CONTENT
    assert begins(server) == [0, HALF]
    assert "the server stopped sending" in caplog.text


def test_server_that_sends_a_byte_now_and_then_is_given_up(server, tmp_path):
    server.plan = [drip] * 10
    hasty = dataclasses.replace(QUICK, timeout_s=0.5, max_tries=3)
    with pytest.raises(UserError, match=r"the server sent .*B in 0\.5 s; 3 tries without"):
        fetch(server.unchecked, tmp_path, hasty)


def test_later_run_requests_only_the_missing_part(server, tmp_path):
    interrupt(server, tmp_path, server.unchecked)
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    (_, headers, _) = server.asked[0]
    assert headers["Range"] == f"bytes={HALF}-"
    assert headers["If-Range"].startswith('"')


def test_changed_file_is_downloaded_from_the_beginning(server, tmp_path, caplog):
    interrupt(server, tmp_path, server.unchecked)
    server.content = CONTENT[::-1]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT[::-1]
    assert "has changed; starting from the beginning (150kB discarded)" in caplog.text


def test_file_changed_between_tries_is_never_mixed(server, tmp_path):
    server.plan = [cut(HALF), replaced_by(CONTENT[:200_000][::-1])]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT[:200_000][::-1]


def test_changed_file_is_detected_by_tag_when_if_range_is_ignored(server, tmp_path, caplog):
    interrupt(server, tmp_path, server.unchecked)
    server.content = CONTENT[::-1]

    def forgetful(handler):
        del handler.headers["If-Range"]
        ordinary(handler)

    server.plan = [forgetful]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT[::-1]
    assert "has changed" in caplog.text


def test_server_without_ranges_is_read_from_the_beginning(server, tmp_path, caplog):
    interrupt(server, tmp_path, server.unchecked)
    server.plan = [cut(None, resumable=False)]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    assert "starting from the beginning (150kB discarded)" in caplog.text


def test_answer_at_a_wrong_offset_is_not_appended(server, tmp_path):
    interrupt(server, tmp_path, server.unchecked)
    server.plan = [cut(None, shift=5)]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT


def test_part_longer_than_the_file_is_downloaded_again(server, tmp_path):
    interrupt(server, tmp_path, server.archive)
    with part_of(tmp_path).open("ab") as file:
        file.write(CONTENT)
    assert fetch(server.archive, tmp_path, QUICK).read_bytes() == CONTENT


@pytest.mark.parametrize("note", [None, "", 'http://another/a.bin\n"tag"'])
def test_part_of_unknown_origin_is_not_resumed_without_a_checksum(server, tmp_path, note):
    interrupt(server, tmp_path, server.unchecked)
    path = tmp_path / "a.bin.part.note"
    path.unlink() if note is None else path.write_text(note)
    part_of(tmp_path).write_bytes(b"something else")
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT


def test_complete_part_of_a_killed_run_is_not_downloaded_again(server, tmp_path):
    interrupt(server, tmp_path, server.unchecked)
    part_of(tmp_path).write_bytes(CONTENT)
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    assert begins(server) == [len(CONTENT)]


@pytest.mark.parametrize(
    "act",
    [
        say(416, {"Content-Range": f"bytes */{len(CONTENT)}", "Content-Type": "text/html"}, b"<html>"),
        say(416, {"Content-Type": "text/html"}, b"<html>"),
        cut(None, resumable=False),
    ],
)
def test_complete_part_is_kept_whatever_the_server_answers(server, tmp_path, act, caplog):
    interrupt(server, tmp_path, server.archive)
    part_of(tmp_path).write_bytes(CONTENT)
    server.plan = [act]
    assert fetch(server.archive, tmp_path, QUICK).read_bytes() == CONTENT
    assert begins(server) == [len(CONTENT)]
    assert "discarded" not in caplog.text


def test_resuming_without_tags_requires_a_checksum(server, tmp_path):
    for archive, folder, expected in [
        (server.unchecked, tmp_path / "unchecked", [0, 0]),
        (server.archive, tmp_path / "checked", [0, HALF]),
    ]:
        server.asked[:] = []
        server.plan = [cut(HALF, tag=False), cut(None, tag=False)]
        assert fetch(archive, folder, QUICK).read_bytes() == CONTENT
        assert begins(server) == expected


def test_mirror_resumes_a_download_of_another_server(server, tmp_path):
    interrupt(server, tmp_path, server.archive)
    mirror = at_mirror(server.archive, f"http://localhost:{server.server_port}/")
    assert mirror.url != server.archive.url
    assert fetch(mirror, tmp_path, QUICK).read_bytes() == CONTENT
    assert begins(server) == [HALF]
    assert "If-Range" not in server.asked[0][1]  # each server has tags of its own


def test_mirror_is_a_host_or_an_address():
    archive = Archive("https://www.openslr.org/resources/18/a.bin", MD5)
    assert at_mirror(archive, "openslr.elda.org").url == "https://openslr.elda.org/resources/18/a.bin"
    assert at_mirror(archive, "http://host:8000/slr/").url == "http://host:8000/slr/resources/18/a.bin"
    assert at_mirror(archive, "openslr.elda.org").md5 == MD5
    for wrong in ("", "two words", "ftp://host", "https://user:word@host"):
        with pytest.raises(UserError, match="expected a host such as openslr"):
            at_mirror(archive, wrong)


def test_retry_after_of_a_busy_server_is_respected(server, tmp_path, caplog):
    server.plan = [say(429, {"Retry-After": "1"}), say(503), say(500)]
    assert fetch(server.archive, tmp_path, QUICK).read_bytes() == CONTENT
    first, second, *_ = [time_s for *_, time_s in server.asked]
    assert second - first >= 1
    waits_s = [float(wait_s) for wait_s in re.findall("retrying in (.*) s", caplog.text)]
    assert waits_s == [1, 0.002, 0.004]


def test_long_retry_after_is_an_error(server, tmp_path):
    server.plan = [say(503, {"Retry-After": "3600"})]
    with pytest.raises(UserError, match=r"503.*wait of 3600 s"):
        fetch(server.archive, tmp_path, QUICK)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (say(404), "404 .*there is no such file"),
        (say(401), "401 .*login required"),
        (say(204), "status 204"),
        (say(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>log in"), "received a web page"),
        (say(302, {"Location": "file:///etc/passwd"}), "302"),
        (say(302, {"Location": "http://[bad/a.bin"}), "Invalid IPv6 URL.*expected an http"),
    ],
)
def test_permanent_http_error_is_not_retried(server, tmp_path, act, message):
    server.plan = [act]
    with pytest.raises(UserError, match=message):
        fetch(server.archive, tmp_path, QUICK)
    assert len(server.asked) == 1
    assert not (tmp_path / "a.bin").exists()


def test_redirection_is_followed(server, tmp_path):
    server.plan = [say(302, {"Location": "/elsewhere/b.tgz"})]
    assert fetch(server.archive, tmp_path, QUICK) == tmp_path / "a.bin"
    assert [path for path, *_ in server.asked] == ["/resources/18/a.bin", "/elsewhere/b.tgz"]


def test_download_shorter_than_its_declared_length_is_an_error(server, tmp_path):
    server.plan = [cut(None, declared=len(CONTENT) + 10, resumable=False)] * 20
    with pytest.raises(UserError, match=r"cut|cannot resume"):
        fetch(server.unchecked, tmp_path, QUICK)
    assert not (tmp_path / "a.bin").exists()


def test_truncated_content_is_detected_by_the_checksum(server, tmp_path):
    server.plan = [cut(HALF, declared=HALF)]
    with pytest.raises(UserError, match=f"expected the published MD5 {MD5}.*a.bin.wrong"):
        fetch(server.archive, tmp_path, QUICK)


def test_wrong_checksum_renames_the_file_and_the_next_run_downloads_again(server, tmp_path):
    server.content = CONTENT[::-1]
    with pytest.raises(UserError, match=r"expected the published MD5 .* received .*`mirror=HOST`"):
        fetch(server.archive, tmp_path, QUICK)
    assert (tmp_path / "a.bin.wrong").read_bytes() == CONTENT[::-1]
    assert not (tmp_path / "a.bin").exists()
    server.content = CONTENT
    assert fetch(server.archive, tmp_path, QUICK).read_bytes() == CONTENT


def test_existing_file_is_verified_and_not_downloaded(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    assert fetch(server.archive, tmp_path, QUICK).read_bytes() == CONTENT
    assert not server.asked
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(UserError, match="expected the published MD5"):
        fetch(server.archive, tmp_path, QUICK)


def test_file_larger_than_free_space_is_not_downloaded(server, tmp_path):
    server.plan = [cut(100, declared=1 << 60)]
    with pytest.raises(UserError, match=r"a.bin.part: needs 1.15EB, .* are free"):
        fetch(server.archive, tmp_path, QUICK)
    assert part_of(tmp_path).stat().st_size == 0


def test_unreachable_host_is_named_in_the_error(server, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    for url, message in [
        (f"http://127.0.0.1:{port}/a.bin", "cannot reach 127.0.0.1 .Connection refused"),
        (
            "http://no-such-host.invalid/a.bin",
            "cannot reach no-such-host.invalid",
        ),
        (f"https://127.0.0.1:{server.server_port}/a.bin", "cannot reach 127.0.0.1"),
        ("gopher://127.0.0.1/a.bin", "expected an http or https address"),
        ("https://openslr..org/a.bin", "expected an http or https address"),
    ]:
        with pytest.raises(UserError, match=message):
            fetch(Archive(url), tmp_path, QUICK)


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ("http://me:secret@{unused}", "cannot reach corpora.test through the proxy {unused} of http_proxy "),
        ("socks5://{unused}", "through the proxy socks5://{unused} of http_proxy .*; expected http or https"),
        ("http://127.0.0.1:abc", "through the proxy http://127.0.0.1:abc of http_proxy .nonnumeric port"),
    ],
)
def test_proxy_that_fails_is_named_in_the_error(tmp_path, monkeypatch, proxy, message):
    monkeypatch.setattr(urllib.request, "_opener", None)  # which reads the variables once
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setenv("http_proxy", proxy.format(unused=address))
    with pytest.raises(UserError, match=message.format(unused=address)) as error:
        fetch(Archive("http://corpora.test/a.bin"), tmp_path, QUICK)
    assert "secret" not in str(error.value)


def test_unwritable_download_folder_is_an_error(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write this file"):
        fetch(server.archive, tmp_path / "file", QUICK)


def run(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


FETCH = """
import sys
from pathlib import Path
from data_pipeline.types import Archive
from data_pipeline.download.fetch import fetch
"""


def test_download_to_a_full_disk_is_an_error_and_keeps_the_part(server, tmp_path):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({HALF}, {HALF}))"
    process = run(
        f"{FETCH}{limit}\nfetch(Archive(sys.argv[1]), Path(sys.argv[2]))", server.archive.url, tmp_path
    )
    assert "a.bin.part: cannot write this file (File too large)" in process.communicate(timeout=LIMIT_S)[1]
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    assert 0 < begins(server)[1] <= HALF


def until(condition, process):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def test_killed_download_resumes_where_it_stopped(server, tmp_path):
    server.plan = [stall(1000)]
    process = run(f"{FETCH}fetch(Archive(sys.argv[1]), Path(sys.argv[2]))", server.archive.url, tmp_path)
    part = part_of(tmp_path)
    until(lambda: part.exists() and part.stat().st_size == 1000, process)
    process.kill()
    process.communicate()
    assert not (tmp_path / "a.bin").exists()
    assert fetch(server.unchecked, tmp_path, QUICK).read_bytes() == CONTENT
    assert begins(server) == [0, 1000]


def tar_of(**files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"corpus/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def corpus_of(*archives, **facts):
    return Corpus(read=lambda source, target: CorpusReading(), about="noise", archives=archives, **facts)


def test_download_command_fetches_and_unpacks_a_corpus_once(server, tmp_path, capsys, monkeypatch):
    server.content = tar_of(a=CONTENT)
    md5 = hashlib.md5(server.content).hexdigest()
    corpus = corpus_of(Archive("http://unused.invalid/a.tgz", md5), licence="MIT", address="here")
    monkeypatch.setitem(CORPORA, "noise", corpus)
    for first in (True, False):
        assert main(["download", "noise", str(tmp_path), "--mirror", server.address]) == 0
        out, err = capsys.readouterr()
        assert ("already downloaded and unpacked" in err) != first
        assert "noise is complete" in out
        assert f"prepare noise {tmp_path} OUT" in out
        assert "are kept" in out
        assert len(server.asked) == 1
    assert (tmp_path / "corpus" / "a").read_bytes() == CONTENT
    (tmp_path / "a.tgz").unlink()
    download_corpus("noise", corpus, tmp_path, server.address, QUICK)
    assert len(server.asked) == 1


def test_corpus_with_missing_files_is_unpacked_again(server, tmp_path):
    server.content = tar_of(a=CONTENT)
    corpus = corpus_of(server.tar)
    download_corpus("noise", corpus, tmp_path, retries=QUICK)
    (tmp_path / "corpus" / "a").unlink()
    download_corpus("noise", corpus, tmp_path, retries=QUICK)
    assert (tmp_path / "corpus" / "a").read_bytes() == CONTENT
    assert len(server.asked) == 1


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole[:500] + whole[501:]])
def test_damaged_archive_without_a_checksum_is_set_aside_and_downloaded_again(server, tmp_path, damage):
    whole = tar_of(a=CONTENT)
    corpus = corpus_of(server.tar)
    server.content = damage(whole)
    with pytest.raises(UserError, match=r"truncated or damaged.*renamed to a\.tgz\.wrong"):
        download_corpus("noise", corpus, tmp_path, retries=QUICK)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["a.tgz.wrong"]
    server.content = tar_of()
    with pytest.raises(UserError, match="it is empty"):
        download_corpus("noise", corpus, tmp_path, retries=QUICK)
    server.content = whole
    assert download_corpus("noise", corpus, tmp_path, retries=QUICK) == [tmp_path / "a.tgz"]
    assert (tmp_path / "corpus" / "a").read_bytes() == CONTENT


def test_error_for_corpus_without_archives_says_where_to_get_it(tmp_path):
    for corpus, message in [
        (
            corpus_of(address="https://a.example", layout="clips/"),
            r"https://a.example.*clips/.*asr prepare own",
        ),
        (corpus_of(), "bring your own"),
        (corpus_of(needs_source=False), "part of this project"),
    ]:
        with pytest.raises(UserError, match=message):
            download_corpus("own", corpus, tmp_path)


def test_error_for_unknown_corpus_lists_known_ones(tmp_path):
    with pytest.raises(UserError, match=r"'mandarin_dem': expected one of .*did you mean mandarin_demo"):
        download_command(argparse.Namespace(corpus="mandarin_dem", dir=tmp_path, mirror=None))


def test_corpus_larger_than_free_space_is_an_error_before_downloading(server, tmp_path):
    with pytest.raises(UserError, match=r"for the download .*needs 1.00PB"):
        download_corpus("noise", corpus_of(server.archive, size_gb=1e6), tmp_path, retries=QUICK)
    assert not server.asked


DOWNLOAD = """
import sys
from pathlib import Path
from data_pipeline.download.corpus import download_corpus
from data_pipeline.types import Archive, Corpus
corpus = Corpus(read=None, about="noise", archives=(Archive(sys.argv[1]),))
download_corpus("noise", corpus, Path(sys.argv[2]))
"""


def test_concurrent_download_is_an_error_and_interrupted_one_says_how_to_resume(server, tmp_path):
    server.plan = [stall(HALF)]
    process = run(DOWNLOAD, server.archive.url, tmp_path)
    part = part_of(tmp_path)
    until(lambda: part.exists() and part.stat().st_size == HALF, process)
    with pytest.raises(UserError, match="another asr download is running there"):
        download_corpus("noise", corpus_of(server.unchecked), tmp_path, retries=QUICK)
    os.kill(process.pid, signal.SIGINT)
    assert f"{tmp_path}: the download so far is kept; the same command resumes" in process.communicate()[1]
    assert part.read_bytes() == CONTENT[:HALF]
