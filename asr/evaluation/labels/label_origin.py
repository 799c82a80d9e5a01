"""Records what labels were made of, so that complete labels are not made again.

labelled.jsonl.made_of              digests of what the labels depend on, and of the manifest itself
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from asr.base.system.files import sha256_of, whole_file
from asr.base.system.storage.address import path_of
from asr.base.version import __version__
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.file_recognizer import LoadedFrom
from asr.transcription.to_files.journal import model_digest, stamp_of
from data_pipeline.manifests.manifest import read_manifest

SUFFIX = ".made_of"  # appended to the name of the manifest


def origin_digest(
    run: Run, choice: DecoderChoice, dev: Path, min_confidence: float, sources: Sequence[Path]
) -> str:
    """Return a digest of what labels depend on; it is taken before they are made.

    Args:
        run: whose chosen checkpoint labels.
        choice: its decoder.
        dev: the manifest that calibrates its confidence; whether its recordings change is not noticed.
        min_confidence: of what is kept.
        sources: the recordings.
    """
    loaded = LoadedFrom.of(run, run.chosen_checkpoint(), choice)
    lines = [__version__, str(run.directory.resolve()), model_digest(loaded.files, loaded.decoder)]
    lines += [str(min_confidence)]
    lines += [f"{utterance.audio_path} {utterance.tokens}" for utterance in read_manifest(dev)]
    lines += [f"{source} {stamp_of(source)}" for source in sources]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def is_made_of(manifest: Path, origin: str) -> bool:
    """Return whether a manifest is complete with its recordings, and was made of what has this digest."""
    try:
        is_same = json.loads(_record_of(manifest).read_bytes()) == _record(manifest, origin)
    except (OSError, ValueError):
        return False
    return is_same and all(path_of(labelled.audio_path).exists() for labelled in read_manifest(manifest))


def record_origin(manifest: Path, origin: str) -> None:
    """Record the digest of what a manifest, just written, was made of."""
    with whole_file(_record_of(manifest), "record of labels") as file:
        file.write(json.dumps(_record(manifest, origin)).encode())


def _record(manifest: Path, origin: str) -> dict[str, str]:
    return {"origin": origin, "manifest": sha256_of(manifest).hex()}


def _record_of(manifest: Path) -> Path:
    return manifest.with_name(manifest.name + SUFFIX)
