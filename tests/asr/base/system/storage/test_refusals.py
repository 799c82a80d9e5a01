import os
import subprocess
import sys
from unittest import mock

import pytest
from helpers.object_storage import KEYS, forget_connections, object_storage

from asr.base.errors import UserError
from asr.base.system.storage.refusals import StorageError
from asr.base.system.storage.store import find, open_stored, read_range


@pytest.fixture(scope="module")
def bucket():
    with object_storage() as bucket:
        yield bucket


@pytest.fixture
def environment():
    """Yield this process's environment, which is as it was afterwards."""
    with mock.patch.dict(os.environ):
        yield os.environ
    forget_connections()


def test_a_missing_object_is_no_fault_of_the_storage(bucket):
    address = f"{bucket.address}/none.wav"
    assert find(address) is None
    for read in (open_stored, lambda name: read_range(name, 0, 10)):
        with pytest.raises(UserError, match=f"^{address}: nothing is there; correct the address") as error:
            read(address)
        assert not isinstance(error.value, StorageError)


def test_a_missing_bucket_is_named(bucket):
    for read in (find, open_stored, lambda name: read_range(name, 0, 10)):
        with pytest.raises(StorageError, match=r"^s3://no-such/x/a.wav: there is no bucket no-such; correct"):
            read("s3://no-such/x/a.wav")


def test_missing_credentials_are_named_with_what_to_set(bucket, environment, tmp_path):
    for name in KEYS.keys() - {"AWS_EC2_METADATA_DISABLED"}:
        del environment[name]
    environment["HOME"] = str(tmp_path)  # without ~/.aws
    forget_connections()
    with pytest.raises(StorageError, match=r"^s3://b/a.wav: the credentials are missing.*AWS_ACCESS_KEY_ID"):
        open_stored("s3://b/a.wav")


def test_a_server_that_does_not_answer_is_named(environment):
    environment.update(KEYS, AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    forget_connections()
    with pytest.raises(
        StorageError, match=r"^s3://b/a.wav: cannot be read \(.*127.0.0.1:9.*check the network"
    ):
        open_stored("s3://b/a.wav")


def test_a_scheme_that_nobody_knows_is_named():
    with pytest.raises(StorageError, match=r"^xyz://b/a.wav: no storage is known by xyz://; expected s3://"):
        open_stored("xyz://b/a.wav")


@pytest.mark.parametrize("package", ["fsspec", "s3fs"])
def test_a_missing_package_is_named_with_its_extra(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from asr.base.errors import UserError\n"
        "from asr.base.system.storage.store import open_stored\n"
        "try: open_stored('s3://b/a.wav')\n"
        "except UserError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.startswith("s3://b/a.wav: reading from there needs more packages")
    assert "pip install 'polyphone[cloud]'" in shown
