import json

import pytest
from helpers.object_storage import object_storage

from asr.base.errors import UserError
from asr.base.model_files import fetched as module
from asr.base.model_files.fetched import fetched


@pytest.fixture(scope="module")
def bucket():
    with object_storage() as bucket:
        yield bucket


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Return the folder of the cache, which is empty."""
    monkeypatch.setattr(module, "models_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def run(bucket, request):
    name = f"runs/{request.node.name}"
    bucket.put(b"[train]\n", f"{name}/config.toml")
    bucket.put(b"weights", f"{name}/checkpoints/epoch-0001.npz")
    bucket.put(b"curves", f"{name}/tensorboard/events")
    return f"{bucket.address}/{name}"


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_run_is_copied_without_its_curves(run):
    folder = fetched(run)
    assert folder.name == run.rpartition("/")[2]
    assert contents(folder) == {"config.toml": b"[train]\n", "checkpoints/epoch-0001.npz": b"weights"}


def test_unchanged_files_are_copied_once(run, monkeypatch):
    folder = fetched(run)
    copied = []
    monkeypatch.setattr(module, "_copy_file", lambda address, path: copied.append(address))
    assert fetched(run) == folder
    assert copied == []


def test_copy_follows_what_is_at_the_address(run, bucket):
    folder, name = fetched(run), run.removeprefix(f"{bucket.address}/")
    bucket.put(b"better.", f"{name}/checkpoints/epoch-0001.npz")  # of the same size
    bucket.put(b"weights", f"{name}/checkpoints/epoch-0002.npz")
    bucket.remove(f"{name}/config.toml")
    assert contents(fetched(run)) == {
        "checkpoints/epoch-0001.npz": b"better.",
        "checkpoints/epoch-0002.npz": b"weights",
    }
    assert fetched(run) == folder


def test_copy_that_was_damaged_is_made_again(run, cache):
    folder = fetched(run)
    (folder / "config.toml").unlink()
    assert "config.toml" in contents(fetched(run))
    next(cache.rglob("files.json")).write_text("{")
    (folder / "config.toml").write_bytes(b"half")
    assert contents(fetched(run))["config.toml"] == b"[train]\n"


def test_interrupted_copy_is_continued(run, monkeypatch):
    copy = module._copy_file

    def copy_config(address, path):
        if path.name != "config.toml":
            raise KeyboardInterrupt
        copy(address, path)

    monkeypatch.setattr(module, "_copy_file", copy_config)
    with pytest.raises(KeyboardInterrupt):
        fetched(run)
    monkeypatch.setattr(module, "_copy_file", copy)
    assert len(contents(fetched(run))) == 2


def test_run_is_copied_without_the_empty_objects_that_mark_its_folders(run, bucket):
    name = run.removeprefix(f"{bucket.address}/")
    for folder in (f"{name}/", f"{name}/checkpoints/"):
        bucket.put_marker(folder)
    assert set(contents(fetched(run))) == {"config.toml", "checkpoints/epoch-0001.npz"}


def test_file_that_changes_while_it_is_copied_is_refused_and_copied_next_time(run, bucket, monkeypatch):
    copy, name = module._copy_file, run.removeprefix(f"{bucket.address}/")

    def copy_and_change(address, path):
        copy(address, path)
        if path.name == "config.toml":
            bucket.put(b"[model]\n", f"{name}/config.toml")  # of the same size

    monkeypatch.setattr(module, "_copy_file", copy_and_change)
    with pytest.raises(UserError, match=f"{run}: .*/config.toml has changed while it was copied; try again"):
        fetched(run)
    monkeypatch.setattr(module, "_copy_file", copy)
    assert contents(fetched(run))["config.toml"] == b"[model]\n"


def test_model_file_is_copied(bucket):
    path = fetched(bucket.put(b"model", "models/mine.polyphone"))
    assert (path.name, path.read_bytes()) == ("mine.polyphone", b"model")


def test_address_without_a_run_is_refused(bucket):
    with pytest.raises(UserError, match=f"{bucket.address}/runs/none: no run is there; correct the address"):
        fetched(f"{bucket.address}/runs/none")


def test_list_of_the_copied_files_has_their_versions(run, cache):
    fetched(run)
    (known,) = (json.loads(path.read_text()) for path in cache.rglob("files.json"))
    assert sorted(size for size, _ in known.values()) == [7, 8]
    assert all(version for _, version in known.values())
