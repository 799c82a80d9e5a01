"""Compares training steps with the same network, features, augmentation and optimiser in PyTorch.

    pip install -e ".[benchmarks]"
    python -m benchmarks.peers.pytorch_step [xs] [s] [m] [--towers 1]

Where TensorFlow and Triton, which PyTorch for GPUs brings, are in one process, LLVM ends it when a network is
compiled: on a CPU, `pip uninstall triton`.

PyTorch gets several ways to do it: batch normalisation that leaves out padding, as ours does, or its own and
faster one, which does not; eager or compiled; either of its fast AdamWs. Before that, both networks get the
same weights, and must have the same logits and losses for clips of different lengths. Ours does more:
it finds the best path, too, for the errors that training shows, and skips steps that are not finite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from asr.base.config import TrainConfig, load_config
from asr.base.types import Batch
from asr.base.vocabulary import Vocabulary
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import AcousticModel, make_acoustic_model
from asr.training.optimization.optimizer import BETA_2, NOT_DECAYED
from benchmarks.common import compare, seconds, show
from benchmarks.peers.pytorch_network import Network
from benchmarks.training.update import SHAPES, make_batch, sizes_and_towers, title_of, training_step

CALLS = {
    "xs": 10,
    "s": 10,
    "m": 2,
}  # between the clock's readings: threads of one library wait for a while after a step
RUNS = {"xs": 12, "s": 12, "m": 8}
TOLERANCE = 1e-3
EPSILON = 1e-7  # AdamW's in Keras
PLAIN = ["model.dropout=0", "augment.frequency_warp=0", "augment.frequency_masks=0"]  # nothing is drawn


class Way(NamedTuple):
    """A way to train in PyTorch."""

    norm: str  # "masked" or "own"
    mode: str  # "eager" or "compiled"
    adamw: str  # "fused" or "foreach"

    def __str__(self) -> str:
        return f"{self.norm} norm, {self.mode}, {self.adamw} AdamW"


WAYS = [
    Way("masked", "eager", "foreach"),
    Way("masked", "eager", "fused"),
    Way("masked", "compiled", "fused"),
    Way("own", "eager", "fused"),
    Way("own", "compiled", "fused"),
]


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    sizes, num_towers = sizes_and_towers("A training step, and the same in PyTorch.")
    for size in sizes:
        num_clips, clip_s, num_outputs, num_labels = SHAPES[size]
        batch = make_batch(num_clips, clip_s, num_outputs, num_labels)
        ours = training_step(size, num_outputs, batch, compiled=True, num_towers=num_towers)
        rows = differences(size, num_outputs, batch)
        for way in WAYS:
            peer = pytorch_step(size, num_outputs, batch, way)
            first_s = seconds(peer)
            steps = [repeated(step, CALLS[size]) for step in (ours, peer)]
            *runs_s, ratio = compare(*steps, RUNS[size])
            ours_ms, peer_ms = (run_s / CALLS[size] * 1e3 for run_s in runs_s)
            rows[str(way)] = (
                f"ours {ours_ms:.1f} ms, PyTorch {peer_ms:.1f} ms (first {first_s:.1f} s), ratio {ratio:.2f}"
            )
            print(way, rows[str(way)], flush=True)  # it takes minutes
        show(f"{title_of(size, num_towers)}, PyTorch {torch.__version__}", rows)


def repeated(step: Callable[[], float], calls: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(calls):
            step()

    return run


def pytorch_step(size: str, num_outputs: int, batch: Batch, way: Way) -> Callable[[], float]:
    """Return a function that makes a training step in PyTorch, and returns its loss."""
    config = load_config("demo")
    network = Network(size, num_outputs, config.augment, config.model.dropout, way.norm == "own").train()
    optimizer = make_optimizer(network, config.train, way.adamw)
    parameters = list(network.parameters())
    tensors = [torch.from_numpy(np.asarray(each)) for each in batch]
    run = torch.compile(network, dynamic=False) if way.mode == "compiled" else network

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = ctc_of(run(*tensors[:2]), *tensors[2:]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, config.train.clip_norm, foreach=True)
        optimizer.step()
        return loss.item()

    return step


def ctc_of(logits: tuple[Tensor, Tensor], labels: Tensor, num_labels: Tensor) -> Tensor:
    values, num_frames = logits
    log_probabilities = functional.log_softmax(values, 2).transpose(0, 1)
    lengths = (num_frames.long(), num_labels.long())
    return functional.ctc_loss(
        log_probabilities, labels.long(), *lengths, reduction="none", zero_infinity=True
    )


def make_optimizer(network: Network, config: TrainConfig, adamw: str) -> torch.optim.Optimizer:
    decayed: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, parameter in network.named_parameters():
        decayed[not any(part in name for part in NOT_DECAYED)].append(parameter)
    groups = [
        {"params": decayed[True], "weight_decay": config.weight_decay},
        {"params": decayed[False], "weight_decay": 0.0},
    ]
    # the first steps of training, in its warm-up
    rate, betas = config.learning_rate / 100, (0.9, BETA_2)
    return torch.optim.AdamW(groups, rate, betas, EPSILON, **{adamw: True})


def differences(size: str, num_outputs: int, batch: Batch) -> dict[str, str]:
    """Return by how much logits and losses of both networks differ in training, which is not much."""
    num_rows, num_padded = batch.audio.shape
    num_samples = (num_padded * np.linspace(1, 0.8, num_rows)).astype(np.int32)
    config = load_config("demo", [f"model.size={size}", "model.factored_output=false", *PLAIN])
    ours = make_acoustic_model(config, Vocabulary(f"t{index}" for index in range(num_outputs - 1)))
    peer = Network(size, num_outputs, config.augment, config.model.dropout, plain_norm=False).train()
    with torch.no_grad():
        peer.load(weights_of(ours))
        tensors = [
            torch.from_numpy(each) for each in (batch.audio, num_samples, batch.labels, batch.num_labels)
        ]
        values, num_frames = peer(*tensors[:2])
        losses = ctc_of((values, num_frames), *tensors[2:]).numpy()
    logits = ours(batch.audio, num_samples, training=True)
    np.testing.assert_array_equal(num_frames.numpy(), logits.num_frames)
    inside = np.arange(values.shape[1]) < num_frames.numpy()[:, None]
    of_logits = np.max(np.abs(values.numpy() - logits.values)[inside])
    of_losses = np.max(np.abs(losses / ctc_loss(logits, batch.labels, batch.num_labels).numpy() - 1))
    assert of_logits < TOLERANCE, f"logits differ by {of_logits}"
    assert of_losses < TOLERANCE, f"losses differ by {of_losses}"
    return {"largest difference": f"{of_logits:.1e} of a logit, {of_losses:.1e} of the loss"}


def weights_of(model: AcousticModel) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the path within the network of each weight, and its value."""
    for variable in model.network.variables:
        _, found, path = variable.path.partition("/network/")
        if found:  # no state of random numbers
            yield path, variable.numpy()


if __name__ == "__main__":
    main()
