"""What a user names is a directory, a model file, an address, which is downloaded once, or in the box."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT
from helpers.model_files import members_of, served, weights_of, write_members

from asr.base.config import RECIPE, load_config
from asr.base.errors import UserError
from asr.base.model_files import named
from asr.base.model_files.named import default_run, has_general, is_named, named_folder
from asr.base.system.storage.refusals import StorageError
from asr.runs.run import Run

WEIGHTS = weights_of(kernel=np.arange(60_000, dtype=np.float32))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def content(tmp_path):
    return write_members(tmp_path / "small.polyphone", members_of(WEIGHTS)).read_bytes()


def digest_line(content):
    return f"{hashlib.sha256(content).hexdigest()}  small.polyphone\n".encode()


def test_directory_is_itself_and_a_file_is_unpacked(tmp_path, content):
    assert named_folder("runs/nothing").as_posix() == "runs/nothing"
    assert Run.open(tmp_path / "small.polyphone").vocabulary().tokens == ("<blank>", "hao3", "ni3")
    assert Run.open(tmp_path / "small.polyphone").is_model_file
    with pytest.raises(UserError, match="no run here"):
        Run.open(tmp_path)
    with pytest.raises(UserError, match="no such model file"):
        Run.open(tmp_path / "missing.polyphone")


def test_similar_name_is_suggested(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "thchs30"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.toml").touch()
    (tmp_path / "runs" / "thchs3").mkdir()  # without a run

    def suggested(text):
        with pytest.raises(UserError, match=f"{text}: no run here") as error:
            Run.open(text)
        return str(error.value).partition("did you mean ")[2].rstrip("?")

    texts = ("mine", "runs/thchs3", "elsewhere/mime", "unlike")
    assert list(map(suggested, texts)) == ["runs/mine", "runs/thchs30", "runs/mine", ""]
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    (tmp_path / "elsewhere" / "mine" / "config.toml").touch()
    assert suggested("elsewhere/mime") == "elsewhere/mine"  # rather than that in runs/
    monkeypatch.setattr(named, "BOX", tmp_path / "small.polyphone")
    assert suggested("generall") == "general"
    monkeypatch.setattr(named, "BOX", tmp_path / "none.polyphone")
    assert suggested("generall") == ""


def test_address_with_a_digest_is_downloaded_once(content):
    with served({"/models/small.polyphone": content}) as server:
        address = f"{server.address}/models/small.polyphone#sha256={hashlib.sha256(content).hexdigest()}"
        folder = named_folder(address)
        assert folder.name == "small"
        assert len(server.asked) == 1
    assert named_folder(address) == folder  # without the server


def test_digest_is_read_beside_an_address_without_one(content):
    files = {"/small.polyphone": content, "/small.polyphone.sha256": digest_line(content)}
    with served(files) as server:
        address = f"{server.address}/small.polyphone?download=true"
        folder = named_folder(address)
        assert [path for path, _ in server.asked] == [
            "/small.polyphone.sha256?download=true",
            "/small.polyphone?download=true",
        ]
    assert named_folder(address) == folder  # without the server


def test_interrupted_download_resumes_where_it_broke_off(content):
    with served({"/small.polyphone": content}) as server:
        server.cuts = [100_000]
        named_folder(f"{server.address}/small.polyphone#sha256={hashlib.sha256(content).hexdigest()}")
        assert [asked for _, asked in server.asked] == ["", "bytes=100000-"]


def test_wrong_digest_is_an_error_and_the_file_is_not_used(tmp_path, content):
    with served({"/small.polyphone": content}) as server, pytest.raises(UserError, match="SHA-256 0000"):
        named_folder(f"{server.address}/small.polyphone#sha256={'0' * 64}")
    assert not list(tmp_path.rglob("config.toml"))


def test_address_without_any_digest_is_refused_with_the_remedy(tmp_path, content):
    with served({"/small.polyphone": content}) as server, pytest.raises(UserError, match="#sha256=DIGEST"):
        named_folder(f"{server.address}/small.polyphone")
    files = {"/small.polyphone": content, "/small.polyphone.sha256": b"<html>moved"}
    with served(files) as server, pytest.raises(UserError, match="expected the SHA-256"):
        named_folder(f"{server.address}/small.polyphone")
    assert not list(tmp_path.rglob("config.toml"))


def test_address_where_nothing_is_names_what_is_expected_there():
    with (
        served({}) as server,
        pytest.raises(UserError, match=rf"404.*expected a model file .*at {server.address}/none.polyphone,"),
    ):
        named_folder(f"{server.address}/none.polyphone")


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("http://example.org/a.polyphone", "use https"),
        ("https://example.org/a.polyphone#sha256=12", "64 digits"),
        ("https://example.org/a.polyphone#main", "64 digits"),
    ],
)
def test_address_that_cannot_be_checked_is_refused_before_anything_is_sent(address, what):
    with pytest.raises(UserError, match=what):
        named_folder(address)


@pytest.mark.parametrize(
    "address",
    ["https://[bad/x.polyphone", "https://example.org:notaport/a.polyphone", "https://a:99999/a.polyphone"],
)
def test_malformed_address_is_an_error_at_once(address, caplog):
    with pytest.raises(UserError, match="not an address"):
        named_folder(address)
    assert "retrying" not in caplog.text


def test_name_in_chinese_is_downloaded(content):
    with served({"/%E6%A8%A1%E5%9E%8B.polyphone": content}) as server:
        digest = hashlib.sha256(content).hexdigest()
        assert named_folder(f"{server.address}/模型.polyphone#sha256={digest}").name == "模型"


def test_digest_file_beside_an_address_is_not_read_beyond_a_limit(content, tmp_path):
    files = {"/small.polyphone": content, "/small.polyphone.sha256": digest_line(content) + b"x" * 20_000}
    with (
        served(files) as server,
        pytest.raises(UserError, match=r"at most 1\.00kB, received 20\.1kB.*#sha256="),
    ):
        named_folder(f"{server.address}/small.polyphone")
    assert max((path.stat().st_size for path in (tmp_path / "cache").rglob("*.part")), default=0) <= 1000


def test_long_text_is_no_run():
    text = "今天天气很好，" * 100
    assert not is_named(text)
    with pytest.raises(UserError, match="no run can be there"):
        named_folder(text)


@pytest.mark.parametrize("path", ["/%2e%2e%2f%2e%2e%2fevil", "/..%2Fevil.polyphone", "/a%00b", "/"])
def test_names_in_an_address_do_not_lead_out_of_the_cache(path, tmp_path, content):
    with served({path: content}) as server:
        folder = named_folder(f"{server.address}{path}#sha256={hashlib.sha256(content).hexdigest()}")
    assert folder.is_relative_to(tmp_path / "cache")
    assert not [
        path
        for path in tmp_path.rglob("*evil*")
        if not path.is_relative_to(tmp_path / "cache" / "polyphone" / "models")
    ]


def test_file_at_an_address_that_is_no_model_is_an_error():
    with served({"/a.polyphone": b"hello"}) as server, pytest.raises(UserError, match="model file"):
        named_folder(f"{server.address}/a.polyphone#sha256={hashlib.sha256(b'hello').hexdigest()}")


def test_two_processes_download_and_unpack_a_model_once(tmp_path, content):
    program = (
        "import sys; from asr.base.model_files.named import named_folder; print(named_folder(sys.argv[1]))"
    )
    with served({"/small.polyphone": content}) as server:
        address = f"{server.address}/small.polyphone#sha256={hashlib.sha256(content).hexdigest()}"
        command = [sys.executable, "-c", program, address]
        both = [
            subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        outputs = {process.communicate(timeout=120)[0] for process in both}
        assert [process.returncode for process in both] == [0, 0]
        assert len(outputs) == 1
        assert len(server.asked) == 1


def test_without_a_model_in_the_box_each_name_of_it_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(named, "BOX", tmp_path / "general.polyphone")
    assert not has_general()
    with pytest.raises(UserError, match="this installation carries no model of that name"):
        named_folder("general")
    with pytest.raises(UserError, match="it carries no model `general`; name a run's directory"):
        default_run()
    with pytest.raises(UserError, match="carries no model"):
        load_config("demo", overrides=["train.init_from=general"])


def test_model_in_the_box_is_found_by_its_name_and_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named, "BOX", write_members(tmp_path / "box.polyphone", members_of()))
    assert default_run() == "general"
    assert Run.open().directory == Run.open("general").directory == named_folder(tmp_path / "box.polyphone")
    (tmp_path / "general").mkdir()
    (tmp_path / "general" / "config.toml").touch()
    assert not Run.open("general").is_model_file  # one's own run of that name wins


def test_model_that_does_not_recognize_is_a_start_and_no_default(tmp_path, monkeypatch):
    monkeypatch.setattr(named, "BOX", write_members(tmp_path / "box.polyphone", members_of(recognizes=False)))
    assert has_general(recognizes=False)
    assert not has_general()
    assert default_run(recognizes=False) == "general"
    with pytest.raises(UserError, match=r"`asr align`, `asr record` and train.init_from use it"):
        default_run()
    assert load_config("demo", overrides=["train.init_from=general"]).model.family == "separable"


def test_fine_tuning_has_the_network_of_the_model_file(tmp_path):
    members = {**members_of(), "config.toml": b'[features]\nkind = "fbank"\n[model]\nfamily = "conformer"\n'}
    path = write_members(tmp_path / "a.polyphone", members)
    config = load_config("demo", overrides=[f"train.init_from={path}"])
    assert (config.features.kind, config.model.family) == ("fbank", "conformer")
    assert config.train.epochs == RECIPE[1]["train"]["epochs"]


def test_only_what_is_there_or_an_address_is_taken_for_a_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").touch()
    assert is_named("small.polyphone")
    assert is_named("https://example.org/a.polyphone")
    assert is_named("general")
    assert not is_named("a.wav")
    assert not is_named("missing.polyphone")
    assert not is_named(".")


def test_error_about_the_storage_of_a_recording_names_the_recording(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StorageError, match=r"^s3://without-packages/a.wav: .*polyphone\[cloud\]"):
        is_named("s3://without-packages/a.wav")
