"""Check the certificate of a server before its model is loaded."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate for TLS.

    Attributes:
        certificate: chain in PEM, that of the server first.
        key: of the certificate in PEM, without a passphrase.
    """

    certificate: Path
    key: Path

    def check(self) -> None:
        """Raise a UserError if TLS cannot use the files."""
        _check_readable(self.certificate, "certificate")
        _check_readable(self.key, "key of a certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, self._refuse_passphrase)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise UserError(
                    f"{self.key}: it is not the key of {self.certificate}; name both of one pair"
                ) from None
            raise UserError(
                f"{self.certificate}, {self.key}: expected a certificate with its key in PEM, received "
                f"something else ({error.reason or error}); convert them by openssl"
            ) from None

    def _refuse_passphrase(self) -> str:
        raise UserError(
            f"{self.key}: expected a key without a passphrase, which nobody can type for a server; "
            "remove it by openssl"
        )


def _check_readable(path: Path, what: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot read this {what} ({error.strerror})") from None
