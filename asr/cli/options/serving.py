"""Declare where a server listens and who may use it, and read these options."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError

if TYPE_CHECKING:
    from asr.server.certificate import Certificate

SERVER_PACKAGES = ("starlette", "uvicorn", "python_multipart", "prometheus_client", "websockets")
MIN_TOKEN_CHARS = 8


def add_address_arguments(parser: argparse.ArgumentParser, port: int) -> None:
    """Declare `--host`, `--port` and `--no-browser`."""
    parser.add_argument("--host", default="127.0.0.1", help="address (default: this machine only)")
    parser.add_argument("--port", type=int, default=port, help=f"port, 0 for any (default: {port})")
    parser.add_argument("--no-browser", action="store_true", help="do not open the server's page")


def add_certificate_arguments(group: argparse._ActionsContainer) -> None:
    """Declare `--cert` and `--key`."""
    group.add_argument("--cert", dest="certificate", type=Path, metavar="FILE", help="certificate for TLS")
    group.add_argument("--key", type=Path, metavar="FILE", help="its key")


def require_packages(extra: str, names: Sequence[str] = SERVER_PACKAGES) -> None:
    """Raise a UserError with the extra to install if a package is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"{', '.join(missing)}: not installed; pip install 'polyphone[{extra}]'")


def token_of(path: Path | None) -> str:
    """Return the token in a file; empty without a file.

    Raises:
        UserError: the file cannot be read, or its first line is no token.
    """
    if path is None:
        return ""
    from asr.base.system.files import read_lines

    token = read_lines(path, "token")[0].strip()
    if len(token) < MIN_TOKEN_CHARS or not token.isascii():
        raise UserError(
            f"{path}: expected a token of at least {MIN_TOKEN_CHARS} ASCII characters on the first line"
        )
    return token


def certificate_of(arguments: argparse.Namespace) -> Certificate | None:
    """Return the certificate that the options name, once it is checked; None without the options.

    Raises:
        UserError: one of both is missing, or TLS cannot use them.
    """
    from asr.server.certificate import Certificate

    if (arguments.certificate is None) != (arguments.key is None):
        raise UserError("TLS needs both `certificate` and `key`")
    if arguments.certificate is None:
        return None
    certificate = Certificate(arguments.certificate, arguments.key)
    certificate.check()
    return certificate


def log_as_json() -> None:
    """Write the server's log as JSON on standard error, from now on."""
    from asr.server.logs import JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("asr", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def has_screen() -> bool:
    """Return whether a browser can be opened where the person is who typed the command."""
    has_display = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return has_display and sys.stdout.isatty()
