"""Servers of files: asking for what is missing of one, and what their answers mean."""

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

from asr.base.types import UserError

OPENSLR_HOSTS = ("openslr.trmal.net", "openslr.elda.org", "openslr.magicdatatech.com")  # EU, EU, China
TRY_AGAIN = (408, 425, 429)  # besides 500 and above
STATUS_HINTS = {401: "it wants a login", 404: "there is no such file", 410: "the file is gone"}
OUT_OF_RANGE = 416


class TryAgainError(Exception):
    """A try that failed in a way that another may not.

    Attributes:
        asked_s: how long the server wants to be left alone.
        connected: whether it answered at all.
    """

    def __init__(self, reason: str, asked_s: float = 0.0, *, connected: bool = True) -> None:
        super().__init__(reason)
        self.asked_s = asked_s
        self.connected = connected


@dataclass(frozen=True, slots=True)
class Origin:
    """What a server says of a file; empty and None where it does not."""

    url: str
    etag: str = ""
    last_modified: str = ""
    num_bytes: int | None = None

    @property
    def validator(self) -> str:
        """For If-Range, which takes no weak tag (RFC 9110, 13.1.5)."""
        return self.etag if self.etag.startswith('"') else self.last_modified

    def may_be(self, other: Origin) -> bool:
        """Whether nothing speaks against this being the other file; servers tag theirs as they like."""
        pairs: list[tuple[object, object]] = [(self.num_bytes, other.num_bytes)]
        if self.url == other.url:
            pairs += [(self.etag, other.etag), (self.last_modified, other.last_modified)]
        return all(ours == theirs or not ours or not theirs for ours, theirs in pairs)


@dataclass(frozen=True, slots=True)
class Answer:
    """A file on its way.

    Attributes:
        response: to read from.
        origin: what the server says of the whole file.
        offset: of the first byte that comes; -1 where the server leaves that open.
    """

    response: http.client.HTTPResponse
    origin: Origin
    offset: int


def ask(url: str, offset: int, validator: str, timeout_s: float) -> Answer | None:
    """Ask for a file from a byte on.

    Args:
        url: of the file, http or https.
        offset: the first byte wanted.
        validator: of the file as it was; if it is another by now, the server begins anew. May be empty.
        timeout_s: of silence, after which a connection counts as lost.

    Returns:
        The answer, which may begin elsewhere; None where the server's file has no such byte.

    Raises:
        TryAgainError: it failed for now.
        UserError: it failed for good.
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
            raise _refusal(error, url) from None
    except URLError as error:
        raise _no_connection(error, url) from None
    except (OSError, http.client.HTTPException) as error:
        raise TryAgainError(loss(error)) from None
    return _answer(response, url)


def loss(error: Exception) -> str:
    """What became of a connection."""
    if isinstance(error, TimeoutError):
        return "the server fell silent"
    return f"the connection was lost ({getattr(error, 'strerror', None) or error or type(error).__name__})"


def other_servers(url: str) -> str:
    """The end of an error: where else a file of OpenSLR can be had; empty for other files."""
    address = urllib.parse.urlsplit(url)
    if "openslr" not in (address.hostname or "") and not address.path.startswith("/resources/"):
        return ""
    others = [host for host in OPENSLR_HOSTS if host != address.hostname]
    return f"; `mirror=HOST` takes another server: {', '.join(others)}"


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (  # those of HTTP alone: a redirection must not lead to ftp: or file:
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
            f"{url}: expected a file, received a web page; does this network want a login, or has the "
            f"file moved?{other_servers(url)}"
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
            f"{url}: no safe connection to {host} ({why}); is this machine's clock right, does a proxy stand "
            f"between?{other_servers(url)}"
        )
    if isinstance(reason, socket.gaierror):
        return TryAgainError(f"cannot find the host {host}; is there a network?", connected=False)
    if isinstance(reason, OSError):
        return TryAgainError(f"cannot reach {host} ({reason.strerror or reason})", connected=False)
    return UserError(f"{url}: cannot be fetched ({reason}); expected an address of http or https")


def _refusal(error: HTTPError, url: str) -> Exception:
    said = f"the server says {error.code} {error.reason}"
    if error.code in TRY_AGAIN or error.code >= http.client.INTERNAL_SERVER_ERROR:
        return TryAgainError(said, _seconds(error.headers.get("Retry-After", "")))
    hint = STATUS_HINTS.get(error.code, "expected the file")
    return UserError(f"{url}: {said} ({hint}){other_servers(url)}")


def _seconds(retry_after: str) -> float:
    """From a Retry-After, which holds seconds or a date."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
