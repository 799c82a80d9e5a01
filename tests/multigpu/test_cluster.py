import json

import pytest

from multigpu.cluster import find_cluster
from multigpu.errors import DeviceError

WORKERS = {"worker": ["a:1", "b:1"]}
SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[2,10]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_ID": "1234567",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("TF_CONFIG", *SLURM):
        monkeypatch.delenv(name, raising=False)


def tf_config(monkeypatch, cluster, kind, index):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "worker"),
    [
        (WORKERS, "worker", 0, 0),
        (WORKERS, "worker", 1, 1),
        ({"chief": ["c:1"], **WORKERS}, "chief", 0, 0),
        ({"chief": ["c:1"], **WORKERS}, "worker", 0, 1),
    ],
)
def test_each_process_of_tf_config_has_its_own_index(monkeypatch, cluster, kind, index, worker):
    tf_config(monkeypatch, cluster, kind, index)
    found = find_cluster()
    assert found.worker == worker
    assert found.addresses == (*cluster.get("chief", ()), *cluster["worker"])


@pytest.mark.parametrize(
    "text",
    [
        "{bad",
        "{}",
        "[]",
        '{"cluster": {}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_invalid_tf_config_error_shows_a_valid_example(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(DeviceError, match=r"TF_CONFIG: expected .*\{.cluster"):
        find_cluster()


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_slurm_ranks_have_the_addresses_of_their_hosts(monkeypatch, rank):
    for name, value in {**SLURM, "SLURM_PROCID": str(rank)}.items():
        monkeypatch.setenv(name, value)
    found = find_cluster()
    assert found.worker == rank
    # the first host of the list, not of the alphabet, runs the first ranks
    assert found.addresses == ("node2:24567", "node2:24568", "node10:24567", "node10:24568")
    assert found.resolver.cluster_spec().as_dict() == {"worker": list(found.addresses)}
    assert (found.resolver.task_type, found.resolver.task_id) == ("worker", rank)


def test_slurm_rank_beyond_the_tasks_is_an_error(monkeypatch):
    for name, value in {**SLURM, "SLURM_PROCID": "4"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DeviceError, match="SLURM_PROCID=4 of 4 tasks; start the processes by srun"):
        find_cluster()


def test_incomplete_slurm_variables_are_an_error(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    with pytest.raises(DeviceError, match="srun"):
        find_cluster()
