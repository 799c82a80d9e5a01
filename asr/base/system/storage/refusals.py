"""Errors of object storage, with the address and what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from asr.base.errors import UserError
from asr.base.system.storage.file_systems import file_system

CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to those of a user who may read "
    "it, and AWS_ENDPOINT_URL for a store that is not Amazon's",
    "gs": "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
}
OTHER_CREDENTIALS = "give them as the documentation of its fsspec package says"
MISSING = "nothing is there; correct the address, or copy the file there again if it was removed"
CHANGED = "has changed since it was first read; copy or pack it again, then resume in a new process"
PACKAGES = "pip install 'polyphone[cloud]' for s3://, gcsfs for gs://, pyarrow for hdfs://"


class MissingError(UserError):
    """A UserError about an address where nothing is."""


class StorageError(UserError):
    """A UserError about the storage as a whole, or a whole pack, which no other recording would be spared."""


@contextlib.contextmanager
def as_user_errors(address: str) -> Iterator[None]:
    """Turn whatever reading from an address raises into a UserError.

    Libraries of storage have errors of their own without a common class, so that names decide.
    """
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise absent(address) from None
    except ImportError as error:
        raise StorageError(
            f"{address}: reading from there needs more packages ({error}); {PACKAGES}"
        ) from None
    except IsADirectoryError:
        raise UserError(f"{address}: expected a file, received a folder") from None
    except Exception as error:
        if has_changed(error):
            raise UserError(f"{address}: {CHANGED}") from None
        raise StorageError(f"{address}: {_reason(error, address)}") from None


def has_changed(error: BaseException) -> bool:
    """Return whether an error of fsspec is about a file of which another version is there."""
    return type(error).__name__ == "FileExpired"


def changed(address: str) -> StorageError:
    """Return the error of a pack of which another version is there."""
    return StorageError(f"{address}: {CHANGED}")


def absent(address: str) -> MissingError:
    """Return the error of an address where nothing is."""
    refuse_missing_bucket(address)
    return MissingError(f"{address}: {MISSING}")


def refuse_missing_bucket(address: str) -> None:
    """Raise a UserError if there is not even a bucket, the first name of an address, where it can be seen."""
    scheme, _, rest = address.partition("://")
    bucket, _, name = rest.partition("/")
    if name and not _is_there(f"{scheme}://{bucket}"):
        raise StorageError(f"{address}: there is no bucket {bucket}; correct the address, or make the bucket")


def _is_there(bucket: str) -> bool:
    """Return whether a bucket exists; True if that cannot be found out."""
    with contextlib.suppress(PermissionError, OSError, ValueError):
        try:
            file_system(bucket).info(bucket)
        except FileNotFoundError:
            return False
    return True


def _reason(error: Exception, address: str) -> str:
    kind, scheme = type(error).__name__, address.partition("://")[0].lower()
    if isinstance(error, PermissionError) or "Credential" in kind or "Unauthorized" in kind:
        remedy = CREDENTIALS.get(scheme, OTHER_CREDENTIALS)
        return f"the credentials are missing, or do not allow to read it ({_words(error)}); {remedy}"
    if isinstance(error, ValueError) and "rotocol" in str(error):
        return f"no storage is known by {scheme}://; expected s3://, gs://, hdfs://, or a path"
    return f"cannot be read ({_words(error)}); check the network and the address of the store, then try again"


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
