"""Write manifests of the usable utterances, how their labels were made, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import CheckedManifest
from data_pipeline.manifests.manifest import write_manifest
from data_pipeline.preparation.description import carry_labels, refuse_other_pieces

LEFT_OUT = "left_out.txt"


def write_clean(diagnosis: Diagnosis, folder: Path) -> dict[Path, int]:
    """Write manifests without unusable lines, and `left_out.txt` with the reasons.

    Args:
        diagnosis: findings about the manifests.
        folder: folder for the clean manifests.

    Returns:
        The number of utterances of each clean manifest; an empty one is not written.

    Raises:
        UserError: the folder cannot be written, contains one of the manifests themselves, or would have the
            pieces of different labels.
    """
    sources = diagnosis.contents.sources
    paths = clean_paths(sources, folder)
    refuse_other_pieces(folder, [source.corpus or source.path for source in sources])
    entries, usable = diagnosis.contents.entries, diagnosis.usable()
    written: dict[Path, int] = {}
    origins: dict[str, Path] = {}
    for source in sources:
        own = entries.of_source(source)
        kept = entries.utterances.take(own.start + np.flatnonzero(usable[own.start : own.stop]))
        if kept:
            write_manifest(paths[source], kept)
            written[paths[source]] = len(kept)
            corpus = source.corpus or source.path
            # a shard, train-00001.jsonl, is of a corpus, train-*.jsonl, and this is the corpus's name here
            origins[paths[source].name.replace(source.path.name, corpus.name)] = corpus
        else:
            paths[source].unlink(missing_ok=True)  # an older file would be mistaken for this manifest's
    carry_labels(folder, origins)
    with whole_file(folder / LEFT_OUT, "list") as file:
        for finding in diagnosis.findings:
            if finding.kind.left_out or finding.code in ("unreadable-manifest", "empty-manifest"):
                audio = f" ({finding.audio_path})" if finding.audio_path else ""
                line = (
                    f"{finding.where}{audio}: {finding.kind.title}: {finding.detail}; {finding.kind.remedy}"
                )
                # a file's name may contain line breaks, and bytes that are not UTF-8
                file.write(f"{' '.join(line.split())}\n".encode(errors="backslashreplace"))
    return written


def clean_paths(sources: Sequence[CheckedManifest], folder: Path) -> dict[CheckedManifest, Path]:
    """Return the paths of clean manifests: their own names, preceded by their folder's if two are equal.

    Raises:
        UserError: a clean manifest would overwrite one of the manifests or another clean one.
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
