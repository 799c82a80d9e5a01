"""The file system of fsspec that an address is in; it knows where credentials are."""

from __future__ import annotations

import functools
import os
from typing import Any

CONNECTIONS = 64  # at a time; botocore has 10
MAX_SYSTEMS = 64


def file_system(address: str) -> Any:
    """Return the file system of an address, one for all threads of this process."""
    scheme, _, rest = address.partition("://")
    return _made_once(scheme.lower(), rest.partition("/")[0], os.getpid())


@functools.lru_cache(maxsize=MAX_SYSTEMS)  # fsspec keeps one for each thread, with connections of its own
def _made_once(scheme: str, host: str, _process: int) -> Any:
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # an object may appear or change
    if scheme in ("s3", "s3a"):
        options["config_kwargs"] = {"max_pool_connections": CONNECTIONS}
    return fsspec.core.url_to_fs(f"{scheme}://{host}/", **options)[0]
