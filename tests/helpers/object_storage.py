"""Start a server that speaks S3's protocol, moto's, in a second process, and fill its buckets."""

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from helpers.processes import free_ports

KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Bucket:
    """A bucket of the server.

    Attributes:
        address: s3:// and its name.
    """

    def __init__(self, name: str) -> None:
        import fsspec

        self.address = f"s3://{name}"
        self._files: Any = fsspec.filesystem("s3", use_listings_cache=False)
        self._files.mkdir(name)

    def put(self, source: Path | bytes, name: str) -> str:
        """Store bytes, a file or a folder under a name, and return its address."""
        address = f"{self.address}/{name}"
        if isinstance(source, bytes):
            self._files.pipe(address, source)
        else:
            self._files.put(str(source), address, recursive=source.is_dir())
        return address

    def put_marker(self, name: str) -> None:
        """Store the empty object that a console makes for a folder; the name ends in a slash."""
        bucket = self.address.removeprefix("s3://")
        self._files.call_s3("put_object", Bucket=bucket, Key=name, Body=b"")

    def remove(self, name: str) -> None:
        """Remove an object."""
        self._files.rm(f"{self.address}/{name}")


@contextlib.contextmanager
def object_storage() -> Iterator[Bucket]:
    """Yield an empty bucket, which this process and its children reach by s3:// until the block ends."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server)
        with mock.patch.dict(os.environ, {**KEYS, "AWS_ENDPOINT_URL": address}):
            forget_connections()
            yield Bucket(f"bucket-{port}")
    finally:
        server.kill()
        server.wait()
        forget_connections()


def forget_connections() -> None:
    """Make the next request use the environment as it is then."""
    import s3fs

    from asr.base.system.storage import file_systems

    file_systems._made_once.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "moto's server has ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/moto-api/", timeout=10).close()
            return
        time.sleep(0.1)
    raise AssertionError("moto's server does not answer")
