"""Requests files, or the missing part of one, from HTTP servers, and interprets their answers."""

from __future__ import annotations

import email.utils
import http.client
import re
import socket
import ssl
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from urllib.error import HTTPError, URLError

from asr.base.errors import UserError

OPENSLR_HOSTS = ("openslr.trmal.net", "openslr.elda.org", "openslr.magicdatatech.com")  # EU, EU, China
TRANSIENT_STATUSES = (408, 425, 429)  # besides 500 and above
STATUS_HINTS = {401: "login required", 404: "there is no such file", 410: "the file was removed"}
OUT_OF_RANGE = 416


class TransientError(Exception):
    """Reports a failure that may not occur again in another try.

    Attributes:
        retry_after_s: wait in seconds that the server requests.
        connected: whether the server answered at all.
        is_slow: whether it sent too little in a long time.
    """

    def __init__(
        self, reason: str, retry_after_s: float = 0.0, *, connected: bool = True, is_slow: bool = False
    ) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.connected, self.is_slow = connected, is_slow


@dataclass(frozen=True, slots=True)
class Origin:
    """A server's description of a file; empty or None what the server leaves open."""

    url: str
    etag: str = ""
    last_modified: str = ""
    num_bytes: int | None = None

    @property
    def validator(self) -> str:
        """Return the value of If-Range, which must not be a weak tag (RFC 9110, 13.1.5)."""
        return self.etag if self.etag.startswith('"') else self.last_modified

    def may_be(self, other: Origin) -> bool:
        """Return whether this may be the same file as another; tags are compared on the same server only."""
        pairs: list[tuple[object, object]] = [(self.num_bytes, other.num_bytes)]
        if self.url == other.url:
            pairs += [(self.etag, other.etag), (self.last_modified, other.last_modified)]
        return all(ours == theirs or not ours or not theirs for ours, theirs in pairs)


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer to a request for a file.

    Attributes:
        response: stream of the content.
        origin: the server's description of the whole file.
        offset: position of the first byte in the answer; -1 if the server leaves that open.
    """

    response: http.client.HTTPResponse
    origin: Origin
    offset: int


def request_file(url: str, offset: int, validator: str, timeout_s: float) -> Answer | None:
    """Request a file from a byte on.

    Args:
        url: address of the file, http or https.
        offset: position of the first byte requested.
        validator: tag or date of the file as it was; if the file has changed since, the server sends it from
            the beginning. May be empty.
        timeout_s: time without data after which the connection counts as lost.

    Returns:
        The answer, which may begin at another byte; None if the server's file has no such byte.

    Raises:
        TransientError: the request failed, and another may succeed.
        UserError: the request failed permanently.
    """
    headers = {"User-Agent": "polyphone", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if validator:
            headers["If-Range"] = validator
    try:
        request = urllib.request.Request(url, headers=headers)
        response: http.client.HTTPResponse = _opener().open(request, timeout=timeout_s)
    except HTTPError as error:
        with error:
            if error.code == OUT_OF_RANGE and offset:
                return None
            raise _status_error(error, url) from None
    except URLError as error:
        raise _no_connection(error, url) from None
    except (OSError, http.client.HTTPException) as error:
        raise TransientError(connection_failure(error)) from None
    return _answer(response, url)


def connection_failure(error: Exception) -> str:
    """Describe how a connection failed."""
    if isinstance(error, TimeoutError):
        return "the server stopped sending"
    return f"the connection was lost ({getattr(error, 'strerror', None) or error or type(error).__name__})"


def other_servers(url: str) -> str:
    """Return the end of an error that names other servers of OpenSLR's files; empty for other files."""
    address = urllib.parse.urlsplit(url)
    if "openslr" not in (address.hostname or "") and not address.path.startswith("/resources/"):
        return ""
    others = [host for host in OPENSLR_HOSTS if host != address.hostname]
    return f"; `mirror=HOST` uses another server: {', '.join(others)}"


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (  # only those of HTTP, since a redirection must not lead to ftp: or file:
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _answer(response: http.client.HTTPResponse, url: str) -> Answer:
    headers = response.headers
    if "html" in headers.get_content_type():
        raise UserError(
            f"{url}: expected a file, received a web page; check whether this network requires a login, or "
            f"the file has moved{other_servers(url)}"
        )
    offset, size = 0, headers.get("Content-Length", "")
    if response.status == http.client.PARTIAL_CONTENT:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
        offset, size = (int(match[1]), match[2]) if match else (-1, "")
    elif response.status != http.client.OK:
        raise UserError(f"{url}: expected the file, received status {response.status}{other_servers(url)}")
    num_bytes = int(size) if size.isdecimal() else None
    origin = Origin(url, headers.get("ETag", ""), headers.get("Last-Modified", ""), num_bytes)
    return Answer(response, origin, offset)


def _no_connection(error: URLError, url: str) -> Exception:
    host, reason = urllib.parse.urlsplit(url).hostname, error.reason
    transient = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    if isinstance(reason, ssl.SSLError) and not isinstance(reason, transient):
        why = getattr(reason, "verify_message", "") or reason.reason
        return UserError(
            f"{url}: no secure connection to {host} ({why}); check this machine's clock, and whether there "
            f"is a proxy in between{other_servers(url)}"
        )
    if isinstance(reason, socket.gaierror):
        return TransientError(f"cannot find the host {host}; check the network", connected=False)
    if isinstance(reason, OSError):
        return TransientError(f"cannot reach {host} ({reason.strerror or reason})", connected=False)
    return UserError(f"{url}: cannot be downloaded ({reason}); expected an http or https address")


def _status_error(error: HTTPError, url: str) -> Exception:
    status = f"the server returned {error.code} {error.reason}"
    if error.code in TRANSIENT_STATUSES or error.code >= http.client.INTERNAL_SERVER_ERROR:
        return TransientError(status, _seconds(error.headers.get("Retry-After", "")))
    hint = STATUS_HINTS.get(error.code, "expected the file")
    return UserError(f"{url}: {status} ({hint}){other_servers(url)}")


def _seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
