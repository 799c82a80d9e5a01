"""Write a manifest in one file, or in shards if it is large.

data/mine/train.jsonl
data/mine/train-00000-of-00012.jsonl.gz, ...    beyond a million utterances; `train-*.jsonl.gz` names them
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from asr.base.system.shards import NUMBERED, WILDCARDS, is_pattern, numbered
from asr.base.types import Utterance
from data_pipeline.manifests.manifest import write_manifest

UTTERANCES_PER_SHARD = 1_000_000  # 60 MB compressed: a machine of a cluster has copied it in seconds
SUFFIX = ".jsonl.gz"


def manifest_to_write(folder: Path, name: str, num_utterances: int) -> Path:
    """Return the path of a manifest that is not written yet; of a large one, with wildcards."""
    if num_utterances <= UTTERANCES_PER_SHARD:
        return folder / f"{name}.jsonl"
    return folder / f"{name}-*{SUFFIX}"


def write_in_shards(path: Path, utterances: Sequence[Utterance]) -> None:
    """Write a manifest to a path of `manifest_to_write`.

    Earlier shards are removed before. After an interruption, some are missing, and a set of which a shard is
    missing is refused by `shards_of`.
    """
    if not WILDCARDS.search(path.name):
        write_manifest(path, utterances)
        return
    remove_manifest(path)
    count = -(-len(utterances) // UTTERANCES_PER_SHARD)
    rows = iter(utterances)
    for number in range(count):
        shard = path.with_name(numbered(path.name.removesuffix(f"-*{SUFFIX}"), number, count, SUFFIX))
        write_manifest(shard, itertools.islice(rows, UTTERANCES_PER_SHARD))


def remove_manifest(path: Path) -> None:
    """Remove a manifest that `write_in_shards` wrote, if it is there, and no other file."""
    if not is_pattern(path):
        path.unlink(missing_ok=True)
        return
    name = path.name.removesuffix(f"-*{SUFFIX}")
    for shard in list(path.parent.glob(f"*{SUFFIX}")):
        if (match := NUMBERED.fullmatch(shard.name)) and match["name"] == name:
            shard.unlink()


def manifests_in(folder: Path) -> dict[str, Path]:
    """Return the manifests in a folder by their names, such as `train`, in one file or in shards."""
    shards = [match["name"] for path in folder.glob(f"*{SUFFIX}") if (match := NUMBERED.fullmatch(path.name))]
    return {
        **{name: folder / f"{name}-*{SUFFIX}" for name in shards},
        **{path.stem: path for path in folder.glob("*.jsonl")},
    }
