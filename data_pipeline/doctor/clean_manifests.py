"""Manifests of what is sound, beside a list of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from asr.base.files import whole_file
from asr.base.types import UserError
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import Source
from data_pipeline.manifest import write_manifest

LEFT_OUT = "left_out.txt"


def write_clean(diagnosis: Diagnosis, folder: Path) -> dict[Path, int]:
    """Write manifests without the lines that are not sound, and `left_out.txt` with the reasons.

    Args:
        diagnosis: of the manifests.
        folder: to write to.

    Returns:
        How many utterances each clean manifest holds; one that would hold none is not written.

    Raises:
        UserError: the folder cannot be written, or holds one of the manifests themselves.
    """
    sources = diagnosis.contents.sources
    paths = clean_paths(sources, folder)
    left_out = diagnosis.left_out()
    written: dict[Path, int] = {}
    for source in sources:
        kept = [
            entry.utterance
            for entry in diagnosis.contents.entries
            if entry.source == source and (source, entry.line) not in left_out
        ]
        if kept:
            write_manifest(paths[source], kept)
            written[paths[source]] = len(kept)
        else:
            paths[source].unlink(missing_ok=True)  # an older one would be taken for this one's
    with whole_file(folder / LEFT_OUT, "list") as file:
        for finding in diagnosis.findings:
            if finding.kind.left_out or finding.code in ("unreadable-manifest", "empty-manifest"):
                audio = f" ({finding.audio_path})" if finding.audio_path else ""
                line = (
                    f"{finding.where}{audio}: {finding.kind.title}: {finding.detail}; {finding.kind.remedy}"
                )
                # a file's name may hold line breaks, and bytes that are no UTF-8
                file.write(f"{' '.join(line.split())}\n".encode(errors="backslashreplace"))
    return written


def clean_paths(sources: Sequence[Source], folder: Path) -> dict[Source, Path]:
    """Where the clean manifests go: under their own names, with their folder's where two are called alike.

    Raises:
        UserError: that would overwrite one of the manifests, or one another.
    """
    names = Counter(source.path.name for source in sources)
    paths = {}
    for source in sources:
        alone = names[source.path.name] == 1
        name = source.path.name if alone else f"{source.path.resolve().parent.name}-{source.path.name}"
        paths[source] = folder / name
    taken = [path.resolve() for path in paths.values()] + [source.path.resolve() for source in sources]
    for path in paths.values():
        if taken.count(path.resolve()) > 1:
            raise UserError(f"{path}: a clean manifest would overwrite this one; choose another folder")
    return paths
