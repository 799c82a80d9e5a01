"""Defines the separable network, its features and SpecAugment in PyTorch, for `pytorch_step.py`.

Modules have the names of ours, by which weights are copied. Sequences are (B, C, T), contiguous, as PyTorch's
convolutions have them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.audio.recording import WINDOW_SAMPLES
from asr.base.config import AugmentConfig
from asr.model.features.layer import FFT_SIZE, HOP, NORMALIZATION_EPSILON
from asr.model.features.log_mel import LogMel
from asr.model.networks.separable import DOWN_KERNEL, SIZES, Size

MOMENTUM, EPSILON = 0.05, 1e-3  # share of the moving statistics that a batch replaces, as in our networks


class Features(nn.Module):
    """Normalised log-mel energies (B, F, T), 0 on padding, of audio (B, S) int16."""

    def __init__(self) -> None:
        super().__init__()
        layer = LogMel(normalize=True)
        self.register_buffer("window", torch.from_numpy(layer.window))
        self.register_buffer("mel", torch.from_numpy(layer.mel))

    def forward(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        kept = torch.arange(audio.shape[1]) < num_samples[:, None]
        windows = (audio * kept).float().unfold(1, WINDOW_SAMPLES, HOP) * self.window
        energies = torch.fft.rfft(windows, FFT_SIZE).abs().square() @ self.mel
        values = torch.log(energies + 1).transpose(1, 2)  # (B, F, T)
        num_frames = (num_samples - WINDOW_SAMPLES) // HOP + 1
        mask = mask_of(num_frames, values.shape[2])
        count = num_frames[:, None, None]
        centred = (values - (values * mask).sum(2, keepdim=True) / count) * mask
        variance = centred.square().sum(2, keepdim=True) / count
        return centred * torch.rsqrt(variance + NORMALIZATION_EPSILON), num_frames


class SpecAugment(nn.Module):
    """Warped and masked features (B, F, T) in training."""

    def __init__(self, config: AugmentConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, values: Tensor, num_frames: Tensor) -> Tensor:
        num_rows, num_bands, num_padded = values.shape
        config = self.config
        if config.frequency_warp:
            values = self.warped(values)
        if config.frequency_masks:
            widest = torch.full((num_rows,), float(config.frequency_mask_bands))
            bands = torch.full((num_rows,), num_bands)
            values = values * self.kept(config.frequency_masks, widest, bands, num_bands)[:, :, None]
        if config.time_masks:
            widest = (num_frames * config.time_mask_share).clamp(max=config.time_mask_frames)
            values = values * self.kept(config.time_masks, widest, num_frames, num_padded)[:, None]
        return values

    def warped(self, values: Tensor) -> Tensor:
        num_rows, num_bands, _ = values.shape
        factors = 1 + self.config.frequency_warp * (2 * torch.rand(num_rows, 1, 1) - 1)
        bands = torch.arange(num_bands, dtype=torch.float32)
        places = (bands[:, None] * factors).clamp(max=num_bands - 1)  # (B, F to, 1)
        return torch.relu(1 - (bands - places).abs()) @ values

    def kept(self, num_masks: int, widest: Tensor, lengths: Tensor, size: int) -> Tensor:
        """Return (B, size), 0 under any of the masks."""
        shape = (len(lengths), num_masks)
        widths = torch.floor(torch.rand(shape) * (widest[:, None] + 1))
        starts = torch.floor(torch.rand(shape) * (lengths[:, None] - widths + 1))
        places = torch.arange(size)[:, None]
        masked = (places >= starts[:, None]) & (places < (starts + widths)[:, None])  # (B, size, masks)
        return (~masked.any(-1)).float()


class MaskedBatchNorm(nn.Module):
    """Normalisation over real frames by plain operations, since PyTorch's kernel knows no padding."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self.register_buffer("moving_mean", torch.zeros(channels))
        self.register_buffer("moving_variance", torch.ones(channels))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        mean, variance = self.moving_mean, self.moving_variance
        if self.training:
            count = mask.sum()
            mean = values.sum((0, 2)) / count
            variance = (values.square().sum((0, 2)) / count - mean.square()).clamp(min=0)
            with torch.no_grad():
                self.moving_mean.lerp_(mean, MOMENTUM)
                self.moving_variance.lerp_(variance, MOMENTUM)
        scale = self.gamma * torch.rsqrt(variance + EPSILON)
        shift = self.beta - mean * scale
        return torch.addcmul(shift[:, None], values, scale[:, None]) * mask


class PlainBatchNorm(MaskedBatchNorm):
    """PyTorch's own normalisation, which counts padding as speech: equal where there is none."""

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        moving = (self.moving_mean, self.moving_variance)
        return functional.batch_norm(values, *moving, self.gamma, self.beta, self.training, MOMENTUM, EPSILON)


class Block(nn.Module):
    """Separable convolutions, in the larger sizes with a gate, and a residual path around them."""

    def __init__(self, size: Size, stage: int, dropout: float, norm: type[MaskedBatchNorm]) -> None:
        super().__init__()
        channels, kernel = size.channels[stage], size.kernels[stage]
        self.convolutions = size.convolutions
        for index in range(size.convolutions):
            self.add_module(f"conv{index}", SeparableConvolution(channels, channels, kernel, norm))
        self.gate = Gate(channels) if size.gate else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        hidden = values
        for index in range(self.convolutions):
            convolution = self.get_submodule(f"conv{index}")
            hidden = convolution(torch.relu(hidden) if index else hidden, mask)
        if self.gate is not None:
            hidden = self.gate(hidden, mask)
        return self.dropout(torch.relu(values + hidden))


class SeparableConvolution(nn.Module):
    """A filter over time for each channel, a mixture of channels, and a normalisation."""

    def __init__(self, before: int, channels: int, kernel: int, norm: type[MaskedBatchNorm]) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(before, before, kernel, padding=kernel // 2, groups=before, bias=False)
        self.pointwise = nn.Conv1d(before, channels, 1, bias=False)
        self.norm = norm(channels)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        filtered = self.depthwise(values)
        if not isinstance(self.norm, PlainBatchNorm):
            filtered = filtered * mask
        return self.norm(self.pointwise(filtered), mask)


class Gate(nn.Module):
    """A factor for each channel that depends on the whole clip."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // 8)
        self.excite = nn.Linear(channels // 8, channels)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        mean = values.sum(2) / mask.sum(2).clamp(min=1)
        return values * torch.sigmoid(self.excite(torch.relu(self.squeeze(mean))))[:, :, None]


class Stage(nn.Module):
    """A convolution of stride 2, then residual blocks."""

    def __init__(self, size: Size, stage: int, dropout: float, norm: type[MaskedBatchNorm]) -> None:
        super().__init__()
        before = size.channels[stage - 1] if stage else LogMel.NUM_MELS
        self.down = nn.Conv1d(before, size.channels[stage], DOWN_KERNEL, stride=2, bias=False)
        self.norm = norm(size.channels[stage])
        self.blocks = size.blocks[stage]
        for index in range(self.blocks):
            self.add_module(f"block{index}", Block(size, stage, dropout, norm))

    def forward(self, values: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        side = DOWN_KERNEL // 2
        hidden = self.down(functional.pad(values, (side, side - 1 + values.shape[2] % 2)))
        num_frames = (num_frames + 1) // 2
        mask = mask_of(num_frames, hidden.shape[2])
        hidden = torch.relu(self.norm(hidden * mask, mask))
        for index in range(self.blocks):
            hidden = self.get_submodule(f"block{index}")(hidden, mask)
        return hidden, num_frames


class Network(nn.Module):
    """A network from audio (B, S) int16 to logits (B, T, V) and the frames of each row."""

    def __init__(
        self, size: str, num_outputs: int, augment: AugmentConfig, dropout: float, plain_norm: bool
    ) -> None:
        super().__init__()
        recipe, norm = SIZES[size], PlainBatchNorm if plain_norm else MaskedBatchNorm
        self.features, self.spec_augment = Features(), SpecAugment(augment)
        self.stage0, self.stage1, self.stage2 = (Stage(recipe, stage, dropout, norm) for stage in range(3))
        self.head = SeparableConvolution(recipe.channels[-1], recipe.head, recipe.kernels[-1], norm)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(recipe.head, num_outputs)

    def forward(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        hidden, num_frames = self.features(audio, num_samples)
        hidden = self.spec_augment(hidden, num_frames)
        for stage in (self.stage0, self.stage1, self.stage2):
            hidden, num_frames = stage(hidden, num_frames)
        hidden = torch.relu(self.head(hidden, mask_of(num_frames, hidden.shape[2])))
        return self.output(self.dropout(hidden).transpose(1, 2)), num_frames

    def load(self, weights: Iterator[tuple[str, np.ndarray]]) -> None:
        """Take our weights, by their paths within the network."""
        own = dict(self.state_dict())
        for path, value in weights:
            name = path.replace("/", ".").replace("kernel", "weight")
            if "kernel" in path:  # ours end with the outputs, those of PyTorch begin with them
                value = value.transpose(1, 2, 0) if "depthwise" in path else value.T
            own[name].copy_(torch.from_numpy(value.reshape(own[name].shape)))


def mask_of(num_frames: Tensor, size: int) -> Tensor:
    """Return (B, 1, size), 1 on real frames and 0 on padding."""
    return (torch.arange(size) < num_frames[:, None]).float()[:, None]
