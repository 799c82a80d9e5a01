"""Define the fixtures that many tests share: a few real clips, and a run trained on them."""

import gc
import json
import os
import re
import shutil
import signal
import zipfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # the same on a machine with a GPU

import pytest
from filelock import FileLock
from helpers.tiny import TINY, register_tiny

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.system.interrupt import HANG_UP
from asr.base.types import Utterance
from asr.cli.main import main
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE
from data_pipeline.manifests.manifest import write_manifest

NUM_CLIPS = 12


def pytest_configure(config: pytest.Config) -> None:
    """Simulate three devices before the first tensor is made, except in the process that starts the workers.

    Code that does not choose devices uses only the first, with all threads. A shell that starts pytest in the
    background has it and its children ignore SIGINT, and nohup has them ignore SIGHUP: tests that send these
    signals would wait forever.
    With Python's own thresholds, a sixth of the time of tracing goes into looking for garbage.
    """
    gc.set_threshold(50_000, 20, 100)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if HANG_UP and signal.getsignal(HANG_UP) is signal.SIG_IGN:
        signal.signal(HANG_UP, signal.SIG_DFL)
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return
    import tensorflow as tf

    from multigpu.devices import simulate_devices

    tf.config.threading.set_intra_op_parallelism_threads(os.cpu_count() or 1)
    simulate_devices(3)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Utterance]:
    """Return the shortest training clips of the demo corpus, as WAV files."""
    folder = tmp_path_factory.mktemp("clips", numbered=False)
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = [json.loads(line) for line in archive.read("manifest.jsonl").decode().splitlines()]
        records = [record for record in records if record["split"] == "train"]
        records.sort(key=lambda record: record["duration_s"])
        utterances = []
        for record in records[:NUM_CLIPS]:
            ogg = Path(archive.extract(record["audio"], folder))
            waveform = read_audio(ogg)
            wav = ogg.with_suffix(".wav")
            write_wav(wav, waveform)
            ogg.unlink()
            tokens = tuple(record["pinyin"].split())
            duration_s = len(waveform) / SAMPLE_RATE_HZ
            utterances.append(
                Utterance(record["id"], str(wav), duration_s, record["text"], tokens, record["speaker"])
            )
    return utterances


@pytest.fixture(scope="session")
def separable_config(clips: list[Utterance], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration that trains a small network on the clips, and tests it on four of them."""
    folder = tmp_path_factory.mktemp("config", numbered=False)
    write_manifest(folder / "train.jsonl", clips)
    write_manifest(folder / "dev.jsonl", clips[:4])
    path = folder / "separable.toml"
    path.write_text(
        f"""
        [data]
        train = "{folder}/train.jsonl"
        dev = "{folder}/dev.jsonl"
        test = "{folder}/dev.jsonl"
        [augment]
        speed_min = 0.9
        speed_max = 1.1
        frequency_masks = 1
        pauses = 0.0
        [features]
        normalize_over = "clip"
        [train]
        epochs = 2
        batch_s = 6.0
        cpu_towers = 1
        tensorboard_utterances = 0
        runs_dir = "{folder}/runs"
        """,
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="session")
def clip_config(separable_config: Path) -> Path:
    """Return the same with a network that takes little time to trace, which only this process knows."""
    path = separable_config.with_name("clips.toml")
    path.write_text(f'extends = "{separable_config.name}"\n[model]\nfamily = "{TINY}"\n', encoding="utf-8")
    return path


@pytest.fixture(scope="module", autouse=True)
def _frozen_heap() -> None:
    """Spare searches for garbage what the earlier modules made and keep: Keras starts one for each layer that
    it quantizes, TensorFlow one for each export, and among all those objects each would take seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _tiny_network() -> None:
    """Register the tiny network after the collection, so that tests of every network do not include it."""
    register_tiny()


@pytest.fixture(scope="session")
def trained_run(clip_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of two epochs, made by the command itself.

    One of the processes of `pytest -n` trains it; the others copy it, with their own paths in its files.
    """
    run = clip_config.parent / "runs" / "clips"
    command = ["train", str(clip_config), "--set", "train.tensorboard_utterances=1"]
    own = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        assert main(command) == 0
        return run
    shared = own.parent / "trained_run"
    with FileLock(own.parent / "trained_run.lock"):
        if not shared.exists():
            assert main(command) == 0
            shutil.copytree(run, shared)
            return run
    shutil.copytree(shared, run)
    for path in (path for path in run.iterdir() if path.suffix in (".html", ".json", ".toml")):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"{re.escape(str(own.parent))}/[\w-]+", str(own), text), encoding="utf-8")
    return run
