"""Find the run that a user names: a directory, a model file, the address of either, or a model in the box.

named_folder("runs/demo")
named_folder("mine.polyphone")
named_folder("https://example.org/mine.polyphone#sha256=9f86d081...")
named_folder("s3://bucket/runs/demo")
named_folder("general")        # asr/base/model_files/general.polyphone, if this installation carries it
"""

from __future__ import annotations

import hashlib
import logging
import re
import urllib.parse
from pathlib import Path

from asr.base.errors import UserError
from asr.base.model_files.fetched import fetched
from asr.base.model_files.model_file import ABOUT, CONFIG, SUFFIX, about_of, models_folder, unpacked
from asr.base.system.lock import exclusive_lock
from asr.base.system.storage.address import Address, path_of
from asr.base.text.wording import most_similar

logger = logging.getLogger(__name__)

GENERAL = "general"
BOX = Path(__file__).parent / f"{GENERAL}{SUFFIX}"
ADDRESS = re.compile(r"(https?):/+(.+)", re.IGNORECASE)  # a Path has one slash
DIGEST = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)
MAX_DIGEST_BYTES = 1000  # of the file next to a model
ASCII = "".join(map(chr, range(33, 127)))  # which an address has as it is
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
EXAMPLES = (
    "a run's directory, such as runs/demo, a model file (NAME.polyphone), or the address of one "
    "(https://example.org/NAME.polyphone, s3://BUCKET/runs/demo)"
)


def named_folder(named: str | Path) -> Path:
    """Return the directory of the run that a user names, which may not exist.

    A model file is unpacked into the cache at first use, and an address is downloaded into it. Of a run in
    object storage, the cache has a copy; see `asr.base.model_files.fetched`.

    Raises:
        UserError: the model file, or the address, cannot be used, or there is no model in the box.
    """
    path = path_of(named)
    if isinstance(path, Address):
        copy = fetched(str(path))
        return copy if copy.is_dir() else unpacked(copy)
    if ADDRESS.fullmatch(str(named)):
        return unpacked(_downloaded(str(named)))
    try:
        is_there, is_file = path.exists(), path.is_file()
    except OSError as error:  # a long text, for instance
        raise UserError(
            f"{str(path)[:80]}: no run can be there ({error.strerror}); name {EXAMPLES}"
        ) from None
    if is_file:
        return unpacked(path)
    if path.suffix == SUFFIX and not is_there:
        raise UserError(f"{path}: no such model file; name {EXAMPLES}")
    if str(named) != GENERAL or (path / "config.toml").exists():
        return path
    if not BOX.is_file():
        raise UserError(f"{GENERAL}: this installation carries no model of that name; name {EXAMPLES}")
    return unpacked(BOX)


def is_named(text: str) -> bool:
    """Return whether a text names a run or an exported folder, or a model, rather than a recording."""
    path = path_of(text)
    try:
        return bool(
            ADDRESS.fullmatch(text)
            # asked first, so that an error about the storage of a recording names the recording
            or (path.is_dir() and any((path / name).is_file() for name in (CONFIG, ABOUT)))
            or (path.suffix == SUFFIX and path.is_file())
            or (text == GENERAL and not path.exists())
        )
    except OSError:  # a long text is no path
        return False


def has_general(recognizes: bool = True) -> bool:
    """Return whether this installation carries the model `general`.

    Args:
        recognizes: whether it must recognize speech well enough as it is.
    """
    return BOX.is_file() and bool(not recognizes or about_of(BOX).get("recognizes"))


def meant_by(directory: Path) -> str:
    """Return the run that a user may have meant by a directory without one; empty where none is similar.

    Runs next to it and in runs/ are known, and the model `general` of this installation.
    """
    known: dict[str, str] = {}
    for folder in (Path("runs"), directory.parent):
        known |= {path.parent.name: str(path.parent) for path in folder.glob("*/config.toml")}
    if has_general(recognizes=False):
        known[GENERAL] = GENERAL
    return known.get(most_similar(directory.name, known), "")


def default_run(recognizes: bool = True) -> str:
    """Return the name of the model that is used where the user names none.

    Args:
        recognizes: whether it must recognize speech well enough as it is.

    Raises:
        UserError: this installation carries none.
    """
    if has_general(recognizes):
        return GENERAL
    if BOX.is_file():
        why = (
            f"its model `{GENERAL}` does not recognize well enough as it is; `asr align`, `asr record` and "
            "train.init_from use it"
        )
    else:
        why = f"it carries no model `{GENERAL}`"
    raise UserError(f"no run is named, which this installation needs: {why}; name {EXAMPLES}")


def _downloaded(address: str) -> Path:
    """Return the file at an address, which is downloaded once."""
    from asr.base.download import PublishedFile, download, file_name

    scheme, rest = ADDRESS.fullmatch(address).groups()  # type: ignore[union-attr]
    url, _, fragment = f"{scheme.lower()}://{rest}".partition("#")
    url = urllib.parse.quote(url, safe=ASCII)  # 模型.polyphone
    try:
        host, _ = urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port
    except ValueError as error:
        raise UserError(f"{address}: not an address ({error}); name {EXAMPLES}") from None
    digest = fragment.removeprefix("sha256=")
    if fragment and not DIGEST.fullmatch(digest):
        raise UserError(f"{address}: expected #sha256= and 64 digits after the address, received #{fragment}")
    if scheme.lower() == "http" and not (digest or host in THIS_MACHINE):
        raise UserError(
            f"{address}: http lets others change the file on its way; use https, or add its digest: "
            f"{url}#sha256=DIGEST"
        )
    name = re.sub(r"[^\w.+-]", "_", file_name(url)).lstrip(".") or GENERAL
    folder = models_folder() / "downloads" / hashlib.sha256(f"{url}#{digest}".encode()).hexdigest()[:16]
    target = folder / name
    if not target.exists():
        with exclusive_lock(folder, "download", on_wait=lambda: None):
            digest = digest or _digest_beside(url, folder)
            logger.info("%s: downloading it into %s", url, folder)
            download(PublishedFile(url, digest=digest), target)
    return target


def _digest_beside(url: str, folder: Path) -> str:
    """Return the digest that the server has in a file next to a model, as `sha256sum` writes it."""
    from asr.base.download import PublishedFile, download

    parts = urllib.parse.urlsplit(url)
    beside = parts._replace(path=f"{parts.path}.sha256").geturl()
    remedy = (
        f"; expected a model file (NAME{SUFFIX}) at {url}, and its digest next to it, or in the address: "
        f"{url}#sha256=DIGEST"
    )
    for earlier in folder.glob("published.sha256*"):
        earlier.unlink()
    file = PublishedFile(beside, hint=remedy, max_bytes=MAX_DIGEST_BYTES)
    path = download(file, folder / "published.sha256")
    text = path.read_text(encoding="utf-8", errors="replace")
    path.unlink()
    if not (found := DIGEST.match(text)):
        raise UserError(f"{beside}: expected the SHA-256 of {parts.path}, received {text[:80]!r}{remedy}")
    return found[0]
