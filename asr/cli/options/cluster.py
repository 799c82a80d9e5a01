"""Declare `--cluster` for the commands that spread their work over a Dask cluster."""

from __future__ import annotations

import argparse
import contextlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asr.base.cluster import Cluster


def add_cluster_argument(parser: argparse.ArgumentParser, work: str) -> None:
    """Declare `--cluster`.

    Args:
        parser: of the command.
        work: what the workers do, as an imperative: "decode the recordings".
    """
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help=f"{work} on the workers of this Dask scheduler, which see the same files: tcp://HOST:8786, or "
        "its scheduler file (needs the extra cluster; default: this machine)",
    )


def chosen_cluster(arguments: argparse.Namespace) -> AbstractContextManager[Cluster | None]:
    """Return the context in which the cluster that `--cluster` names is connected; None without one."""
    if arguments.cluster is None:
        return contextlib.nullcontext()
    from asr.base.cluster import Cluster

    return Cluster.connect(arguments.cluster)
