"""Finds out which processes train together, and which of them this one is, from TF_CONFIG or from Slurm."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import tensorflow as tf

from multigpu.devices import ask_nvidia_smi
from multigpu.errors import DeviceError
from multigpu.replication.keras_internals import slurm_tasks

EXAMPLE = '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, "task": {"type": "worker", "index": 0}}'
FIRST_PORT, NUM_PORTS = 20_000, 10_000  # of Slurm's jobs: each gets its own by its job number


class ProcessGroup(NamedTuple):
    """The processes that train together.

    Attributes:
        resolver: TensorFlow's view of them.
        addresses: host:port of each process, the chief first.
        worker: index of this process in `addresses`.
    """

    resolver: Any
    addresses: tuple[str, ...]
    worker: int


def find_cluster() -> ProcessGroup:
    """Return the processes that TF_CONFIG names, or else Slurm; under Slurm, choose this process's GPUs, too.

    Raises:
        DeviceError: neither is set, or its value cannot be parsed.
    """
    if os.environ.get("TF_CONFIG"):
        return _from_tf_config(os.environ["TF_CONFIG"])
    if "SLURM_PROCID" in os.environ:
        return _from_slurm()
    raise DeviceError(
        "multi-worker: expected TF_CONFIG or Slurm's variables, found neither; start the processes by srun, "
        f"or set TF_CONFIG in each, such as {EXAMPLE}"
    )


def _from_tf_config(text: str) -> ProcessGroup:
    try:
        settings = json.loads(text)
        jobs, task = settings["cluster"], settings["task"]
        kind, index = task["type"], int(task["index"])
        chiefs, workers = list(jobs.get("chief", ())), list(jobs.get("worker", ()))
        addresses = (*chiefs, *workers)
        worker = {"chief": 0, "worker": len(chiefs)}[kind] + index
        if not 0 <= index < len(jobs[kind]) or not all(":" in address for address in addresses):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DeviceError(f"TF_CONFIG: expected one such as {EXAMPLE}, received {text}") from None
    return ProcessGroup(tf.distribute.cluster_resolver.TFConfigClusterResolver(), addresses, worker)


def _from_slurm() -> ProcessGroup:
    try:
        # The resolver supports only tasks with GPUs of their own, so one for each is pretended. Its addresses
        # are not used: it sorts hosts as text, and gives rank 0 of node[2,10] the address of node10.
        named = tf.distribute.cluster_resolver.SlurmClusterResolver(
            gpus_per_node=1 << 16, gpus_per_task=1, auto_set_gpu=False
        )
        tasks_of_host = slurm_tasks(named)
        places = [(host, task) for host, num_tasks in tasks_of_host.items() for task in range(num_tasks)]
        worker = int(os.environ["SLURM_PROCID"])
        if not 0 <= worker < len(places):
            raise ValueError(f"SLURM_PROCID={worker} of {len(places)} tasks")
        port = FIRST_PORT + int(os.environ.get("SLURM_JOB_ID", 0)) % NUM_PORTS
    except (RuntimeError, ValueError) as error:
        raise DeviceError(
            f"multi-worker: invalid Slurm variables: {error}; start the processes by srun"
        ) from None
    host, task = places[worker]
    _choose_gpus(task, tasks_of_host[host])
    addresses = tuple(f"{host}:{port + task}" for host, task in places)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(addresses)}),
        task_type="worker",
        task_id=worker,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    return ProcessGroup(resolver, addresses, worker)


def _choose_gpus(task: int, num_tasks: int) -> None:
    """Divide a host's GPUs among its tasks, unless Slurm has done so."""
    if "CUDA_VISIBLE_DEVICES" in os.environ or num_tasks == 1:
        return
    each = sum(line.startswith("GPU ") for line in ask_nvidia_smi("--list-gpus")) // num_tasks
    if each:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(task * each, (task + 1) * each)))
