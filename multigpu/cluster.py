"""Which processes train together, and which of them this one is."""

from __future__ import annotations

import os
import shutil
from typing import Any

import tensorflow as tf

from multigpu.errors import DeviceError


def find_cluster() -> Any:
    """A `ClusterResolver` of what TF_CONFIG says, or else Slurm, which gives each process its GPUs as well.

    Raises:
        DeviceError: neither is there.
    """
    resolvers = tf.distribute.cluster_resolver
    if os.environ.get("TF_CONFIG"):
        return resolvers.TFConfigClusterResolver()
    if "SLURM_PROCID" in os.environ:
        if shutil.which("nvidia-smi"):
            resolver = resolvers.SlurmClusterResolver()
            resolver.cluster_spec()  # sets CUDA_VISIBLE_DEVICES
            return resolver
        # it knows only tasks with GPUs: one each is made up, and not passed on
        named = resolvers.SlurmClusterResolver(gpus_per_node=1 << 16, gpus_per_task=1, auto_set_gpu=False)
        return resolvers.SimpleClusterResolver(
            named.cluster_spec(),
            "",
            named.task_type,
            named.task_id,
            num_accelerators={"GPU": 0},
            rpc_layer="grpc",
        )
    raise DeviceError(
        "multi-worker: nothing says who takes part; start it by srun, or set TF_CONFIG in every process, "
        'such as {"cluster": {"worker": ["host1:12345", "host2:12345"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
