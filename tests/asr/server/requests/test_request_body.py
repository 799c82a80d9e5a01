"""Test what the server does with work for clients that go away."""

import asyncio
import gc
import logging

import pytest

from asr.server.requests.request_body import while_connected
from asr.server.requests.request_errors import RefusalError


class GoneAway:
    """A request whose client has closed the connection."""

    async def receive(self):
        return {"type": "http.disconnect"}


async def fails_when_cancelled():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise RefusalError(400, "cut_off", "the recording is cut off") from None


def test_error_of_work_for_a_client_that_is_gone_is_no_failure_of_the_server(caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(RefusalError, match="the client closed"):
        asyncio.run(while_connected(GoneAway(), fails_when_cancelled()))
    gc.collect()
    assert not caplog.records
