"""Test the files that start jobs on Slurm and Kubernetes: their fields, and the commands that they run."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.cli.main import make_parser
from asr.model.devices import Devices
from asr.training.engine import start_engine
from asr.transcription.to_files.shards import Shard
from multigpu.cluster import find_cluster

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra docs installs")

FOLDER = ROOT / "docs" / "deploy"
SLURM = ["transcribe.sbatch", "train.sbatch"]
# options of sbatch (Slurm 24.11) that take a value, and what it looks like; None for options without one
SBATCH_OPTIONS = {
    "array": r"\d+-\d+",
    "cpus-per-task": r"\d+",
    "gpus-per-node": r"\d+",
    "job-name": r"\w+",
    "mem": r"\d+[KMGT]",
    "nodes": r"\d+",
    "ntasks-per-node": r"\d+",
    "open-mode": "append|truncate",
    "output": r"[\w%-]+\.log",
    "requeue": None,
    "signal": r"(?:[RB]+:)?[A-Z0-9]+@\d+",
    "time": r"\d+:\d\d:\d\d",
}

# the fields of the API that these files use; `{}` has any names, `[...]` is a list, a set has the values
QUANTITY = re.compile(r"\d+(?:\.\d+)?(?:m|[KMGT]i?)?")
POD = {
    "spec": {
        "restartPolicy": {"Never", "OnFailure", "Always"},
        "containers": [
            {
                "name": str,
                "image": str,
                "command": [str],
                "args": [str],
                "resources": {"requests": {"": QUANTITY}, "limits": {"": QUANTITY}},
                "volumeMounts": [{"name": str, "mountPath": str}],
            }
        ],
        "volumes": [
            {
                "name": str,
                "persistentVolumeClaim": {"claimName": str},
                "emptyDir": {"medium": {"Memory", ""}, "sizeLimit": QUANTITY},
            }
        ],
    }
}
KINDS = {
    "transcribe.yaml": {
        "apiVersion": {"batch/v1"},
        "kind": {"Job"},
        "metadata": {"name": str},
        "spec": {
            "completionMode": {"Indexed", "NonIndexed"},
            "completions": int,
            "parallelism": int,
            "backoffLimitPerIndex": int,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": {"FailJob", "FailIndex", "Ignore", "Count"},
                        "onExitCodes": {"containerName": str, "operator": {"In", "NotIn"}, "values": [int]},
                    }
                ]
            },
            "template": POD,
        },
    },
    "train.yaml": {
        "apiVersion": {"kubeflow.org/v1"},
        "kind": {"TFJob"},
        "metadata": {"name": str},
        "spec": {
            "runPolicy": {"cleanPodPolicy": {"None", "Running", "All"}, "backoffLimit": int},
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": int,
                    "restartPolicy": {"Always", "OnFailure", "Never", "ExitCode"},
                    "template": POD,
                }
            },
        },
    },
}
# prints the arguments of each of our commands in place of running it, and runs the other commands
SHELL = """
SLURM_CPUS_PER_TASK=32
srun() { while [[ $1 = --* ]]; do shift; done; "$@"; }
asr() { printf '%s\\0' "$@"; printf '\\n'; }
exec() { "$@"; exit; }
"""


def check(value, expected, where="") -> None:
    """Assert that a value has the fields and the types of the API."""
    if isinstance(expected, dict):
        assert isinstance(value, dict), where
        for name, part in value.items():
            assert name in expected or "" in expected, f"{where}.{name}: no such field"
            check(part, expected.get(name, expected.get("")), f"{where}.{name}")
    elif isinstance(expected, list):
        assert isinstance(value, list), where
        assert value, where
        for index, part in enumerate(value):
            check(part, expected[0], f"{where}[{index}]")
    elif isinstance(expected, set):
        assert value in expected, where
    elif isinstance(expected, re.Pattern):
        assert expected.fullmatch(str(value)), where
    else:
        assert type(value) is expected, where


def described(name: str):
    (document,) = yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
    return document


def pod_of(name: str):
    spec = described(name)["spec"]
    return (spec["tfReplicaSpecs"]["Worker"] if name == "train.yaml" else spec)["template"]["spec"]


def script_of(name: str) -> str:
    if name in SLURM:
        return (FOLDER / name).read_text(encoding="utf-8")
    (container,) = pod_of(name)["containers"]
    assert container["command"] == ["bash", "-c"]
    (script,) = container["args"]
    return script


def commands_of(name: str, folder: Path, **variables: str) -> list[list[str]]:
    """Return the arguments of our commands that bash makes of a script, run in a folder."""
    script = script_of(name).replace("/data", str(folder))
    environment = {"PATH": os.environ["PATH"], **variables}
    command = ["bash", "-c", SHELL + script]
    output = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return [line.split("\0")[:-1] for line in output.splitlines()]


def sbatch_options(name: str) -> dict[str, str | None]:
    lines = re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", script_of(name), re.MULTILINE)
    assert len(lines) == script_of(name).count("#SBATCH")
    return {option: value or None for option, value in lines}


@pytest.mark.parametrize("name", SLURM)
def test_slurm_files_have_options_of_sbatch_and_a_script_that_bash_reads(name):
    subprocess.run(["bash", "-n", FOLDER / name], check=True)
    for option, value in sbatch_options(name).items():
        assert option in SBATCH_OPTIONS, option
        expected = SBATCH_OPTIONS[option]
        assert value is None if expected is None else re.fullmatch(expected, value), option
    before_script = script_of(name).split("set -e")[0]
    assert all(line.startswith("#") for line in before_script.splitlines()), (
        "sbatch reads no option after that"
    )


@pytest.mark.parametrize("name", list(KINDS))
def test_kubernetes_files_have_fields_of_the_api(name):
    check(described(name), KINDS[name])
    pod = pod_of(name)
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_wrong_field_is_found():
    document = described("train.yaml")
    document["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["arg"] = []
    with pytest.raises(AssertionError, match=r"containers\[0\]\.arg: no such field"):
        check(document, KINDS["train.yaml"])


@pytest.mark.parametrize("name", ["transcribe.sbatch", "transcribe.yaml"])
def test_jobs_together_transcribe_every_shard_once(name, tmp_path):
    if name in SLURM:
        first, last = map(int, (sbatch_options(name)["array"] or "").split("-"))
        variables = [{"SLURM_ARRAY_TASK_ID": str(number)} for number in range(first, last + 1)]
    else:
        spec = described(name)["spec"]
        variables = [{"JOB_COMPLETION_INDEX": str(index)} for index in range(spec["completions"])]
    shards, outs = [], set()
    for one in variables:
        ((*arguments,),) = commands_of(name, tmp_path, **one)
        parsed = make_parser().parse_args(arguments)
        shards.append(Shard.read(parsed.shard))
        outs.add(parsed.out)
    assert [shard.number for shard in shards] == list(range(1, len(variables) + 1))
    assert {shard.count for shard in shards} == {len(variables)}
    (out,) = outs
    assert (tmp_path / out).parent.is_dir()


def test_first_lines_of_a_slurm_file_are_commands_of_ours():
    (merge,) = re.findall(r'--wrap "asr (.+)"', script_of("transcribe.sbatch"))
    out = make_parser().parse_args(merge.split()).out
    assert f"--out {out}" in script_of("transcribe.sbatch")


@pytest.mark.parametrize("name", ["train.sbatch", "train.yaml"])
def test_training_starts_and_resumes_on_several_machines(name, tmp_path, monkeypatch):
    ((*arguments,),) = commands_of(name, tmp_path)
    parsed = make_parser().parse_args(arguments)
    assert (parsed.name, parsed.engine, parsed.devices, parsed.resume) == (
        "many",
        "multi-worker",
        "all",
        False,
    )
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UserError, match="found neither; start the processes by srun"):
        start_engine(
            Devices(parsed.devices, engine=parsed.engine)
        )  # asks for the others, which are not there
    config = load_config(parsed.config, parsed.overrides)
    assert config.data.train == "packed/train.jsonl"
    run = Path(config.train.runs_dir) / parsed.name
    (tmp_path / run).mkdir(parents=True)
    (tmp_path / run / "config.toml").touch()
    ((*arguments,),) = commands_of(name, tmp_path)
    parsed = make_parser().parse_args(arguments)
    assert (Path(parsed.config), parsed.engine, parsed.devices, parsed.resume) == (
        run,
        "multi-worker",
        "all",
        True,
    )
    assert not parsed.overrides  # a resumed run keeps its settings


def test_training_knows_the_addresses_that_the_operator_gives(monkeypatch):
    document = described("train.yaml")
    name, number = document["metadata"]["name"], document["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]
    workers = [f"{name}-worker-{index}.default.svc:2222" for index in range(number)]
    task = {"type": "worker", "index": 1}
    settings = {"cluster": {"worker": workers}, "task": task, "environment": "cloud"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(settings))
    cluster = find_cluster()
    assert (cluster.addresses, cluster.worker) == (tuple(workers), 1)
