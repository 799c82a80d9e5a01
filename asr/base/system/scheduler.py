"""Connect to a Dask scheduler, or find out within seconds that there is none.

with contextlib.closing(scheduler_client("tcp://head-node:8786")) as client:
    print(client.nthreads())
"""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from asr.base.errors import UserError

ANSWER_S = 5.0  # in which a scheduler answers
EXPECTED = "expected an address such as tcp://HOST:8786, or the path of a scheduler file"
DASK_LOGGERS = (
    "distributed",
    "distributed.client",
    "distributed.core",
    "distributed.comm",
    "distributed.batched",
)


def scheduler_client(address: str) -> Any:
    """Return a `distributed.Client` of a scheduler.

    Args:
        address: such as "tcp://head-node:8786", or the path of a scheduler file.

    Raises:
        UserError: the package `distributed` is missing, the address is none, or no scheduler answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UserError(
            "`cluster` needs the package distributed, which is not installed; "
            "pip install 'polyphone[cluster]'"
        ) from None
    for part in DASK_LOGGERS:
        logging.getLogger(part).setLevel(logging.CRITICAL)  # what matters is a line or an error of ours
    found = _stated_in_file(address) if Path(address).is_file() else address
    _refuse_bad_address(found, address)
    # a client that does not find its scheduler cannot be closed: it waits, and fails, when the program ends
    _refuse_no_scheduler(found, address)
    try:
        return Client(found, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError, ImportError) as error:
        raise _no_scheduler(address, error) from None


def _stated_in_file(path: str) -> str:
    try:
        address = json.loads(Path(path).read_bytes())["address"]
    except (OSError, ValueError, TypeError, KeyError):
        address = None
    if not isinstance(address, str):
        raise UserError(
            f"`cluster={path}`: no scheduler file; expected one that `dask scheduler --scheduler-file` wrote"
        )
    return address


def _refuse_bad_address(address: str, given: str) -> None:
    from distributed.comm import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    scheme, place = parse_address(address)  # tcp:// where there is none
    try:
        get_backend(scheme)
        host, port = parse_host_port(place)
        is_address = bool(host) and 0 < int(port) < 1 << 16
    except (ValueError, RuntimeError):
        is_address = False
    if not is_address:
        problem = "" if "://" in given else "no such file; " if given else "is empty; "
        raise UserError(f"`cluster={given}`: {problem}{EXPECTED}")


def _refuse_no_scheduler(address: str, given: str) -> None:
    import asyncio

    try:
        with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop, such as that of a notebook
            kind = pool.submit(asyncio.run, _kind_of_server(address)).result()
    except Exception as error:  # whatever a server that is not Dask's has sent
        raise _no_scheduler(given, error) from None
    if kind != "Scheduler":
        raise UserError(f"`cluster={given}`: is the address of a {str(kind).lower()}, expected a scheduler's")


async def _kind_of_server(address: str) -> str:
    """Return what Dask's server at an address is: "Scheduler", "Worker" or "Nanny"."""
    import asyncio

    from distributed import Security
    from distributed.comm import connect

    security = Security().get_connection_args("client")
    async with asyncio.timeout(ANSWER_S):
        comm = await connect(address, timeout=ANSWER_S, **security)
        try:
            await comm.write({"op": "identity", "reply": True})
            return str((await comm.read())["type"])
        finally:
            comm.abort()


def _no_scheduler(address: str, error: Exception) -> UserError:
    reason = str(error) or f"nothing that Dask understands within {ANSWER_S:g} s"
    return UserError(
        f"`cluster={address}`: no scheduler answers ({reason}); start one with `dask scheduler`, or "
        "correct the address, such as tcp://HOST:8786, or the path of a scheduler file"
    )
