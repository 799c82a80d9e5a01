"""Errors that clients get; each protocol formats them in its own way."""

from __future__ import annotations


class RefusalError(Exception):
    """Raised where a request cannot be answered; its client receives the reason.

    Args:
        status: of HTTP.
        code: a name for programs, such as "queue_full".
        message: a sentence for people.
        param: name of the field that is wrong; None if it is none.
        retry_after_s: after which the same request may be answered; None if never.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.retry_after_s = param, retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of an answer by HTTP."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> RefusalError:
    """Return the refusal of a request that is wrong in itself."""
    return RefusalError(400, code, message, param=param)


def too_large(message: str, param: str | None = None) -> RefusalError:
    """Return the refusal of a request that exceeds a limit for each request."""
    return RefusalError(413, "too_large", message, param=param)


def queue_full(message: str) -> RefusalError:
    """Return the refusal of a request while too many others are in progress."""
    return RefusalError(429, "queue_full", f"{message}; retry later", retry_after_s=2)


def unavailable(code: str, message: str) -> RefusalError:
    """Return the refusal of a request by a server that is stopping, or too slow."""
    return RefusalError(503, code, message, retry_after_s=5)
