"""Test that what a request holds is counted as long as it is in progress, and no longer."""

import pytest

from asr.server.requests.admission import Admission
from asr.server.requests.limits import Limits
from asr.server.requests.request_errors import RefusalError


def test_memory_is_released_with_the_ticket_and_not_counted_after_that():
    admission = Admission(Limits(max_pending_mb=1))
    with admission.ticket() as ticket:
        ticket.reserve(1 << 19)
        with pytest.raises(RefusalError):
            ticket.reserve(1 << 20)
        assert (admission.num_requests, admission.num_bytes) == (1, 1 << 19)
    ticket.reserve(1 << 19)  # by a thread that did not notice that the client has gone
    assert (admission.num_requests, admission.num_bytes) == (0, 0)
