# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ten models for `torch.compile`: a name, a module and its inputs; benchmark and tests use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["MODELS", "Example", "example"]


@dataclass(frozen=True)
class Example:
    """A module in evaluation mode, and what it is called with."""

    module: nn.Module
    inputs: tuple[Any, ...]


class Residual(nn.Module):
    """A branch that is added to what it reads."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut or nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.branch(x) + self.shortcut(x)


def _conv(
    channels: int, out: int, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU())


class Attention(nn.Module):
    """Self-attention, causal or not, with rotary positions where asked."""

    def __init__(
        self, width: int, heads: int, *, causal: bool = False, rotary: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        split = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).reshape(split).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = _rotated(q), _rotated(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


def _rotated(x: Any) -> Any:
    length, depth = x.shape[-2:]
    frequency = 10000.0 ** (-torch.arange(0, depth, 2) / depth)
    angle = torch.arange(length)[:, None] * frequency
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class SwiGlu(nn.Module):
    """The gated feed-forward block of Llama."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (
            nn.Linear(width, hidden, bias=False),
            nn.Linear(width, hidden, bias=False),
        )
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class SqueezeExcite(nn.Module):
    """Channel weights from means, as in MobileNetV3."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Any) -> Any:
        scale = self.up(functional.relu(self.down(x.mean((2, 3), keepdim=True))))
        return x * functional.hardsigmoid(scale)


class UNet(nn.Module):
    """One level down and up again, with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.inner = _conv(channels, channels), _conv(channels, 2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.out = _conv(2 * channels, channels)

    def forward(self, x: Any) -> Any:
        skip = self.down(x)
        inner = self.inner(functional.max_pool2d(skip, 2))
        return self.out(torch.cat((skip, self.up(inner)), 1))


class ConvNext(nn.Module):
    """A depthwise convolution and a block of matmuls over the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)


class TextEncoder(nn.Module):
    """Embedding, two convolutions over time, and a weighted mean; no recurrence."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.convs = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2),
            nn.Tanh(),
            nn.Conv1d(width, width, 5, padding=2),
            nn.Tanh(),
        )
        self.score = nn.Linear(width, 1)

    def forward(self, x: Any) -> Any:
        y = self.convs(self.words(x).transpose(1, 2)).transpose(1, 2)
        return (y * self.score(y).softmax(1)).sum(1)


class Mixer(nn.Module):
    """Matmuls over the positions, then over the channels."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList((nn.LayerNorm(width), nn.LayerNorm(width)))
        self.positions, self.channels = _mlp(length, 2 * length), _mlp(width, 4 * width)

    def forward(self, x: Any) -> Any:
        x = x + self.positions(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


def _mlp(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


def _rand(*dims: int) -> Any:
    return torch.randn(dims)


def _transformer(width: int, heads: int) -> nn.Sequential:
    return nn.Sequential(
        Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, heads))),
        Residual(nn.Sequential(nn.LayerNorm(width), _mlp(width, 4 * width))),
    )


def _decoder(width: int, heads: int) -> nn.Sequential:
    attention = Attention(width, heads, causal=True, rotary=True)
    return nn.Sequential(
        Residual(nn.Sequential(nn.RMSNorm(width), attention)),
        Residual(nn.Sequential(nn.RMSNorm(width), SwiGlu(width, 3 * width))),
    )


def _inverted(channels: int, hidden: int) -> nn.Module:
    return Residual(
        nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            nn.Conv2d(hidden, hidden, 5, padding=2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            SqueezeExcite(hidden, hidden // 4),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
    )


def _resnet_block(channels: int, out: int) -> nn.Module:
    branch = nn.Sequential(
        _conv(channels, out, 3, 2), nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
    )
    shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, 2, bias=False), nn.BatchNorm2d(out))
    return nn.Sequential(Residual(branch, shortcut), nn.ReLU())


def _cnn(classes: int) -> nn.Module:
    return nn.Sequential(
        _conv(3, 32, 3, 2),
        _conv(32, 64),
        nn.MaxPool2d(2),
        _conv(64, 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, classes),
    )


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "mlp": lambda: (_mlp(512, 2048), (_rand(64, 512),)),
    "cnn": lambda: (_cnn(100), (_rand(4, 3, 64, 64),)),
    "resnet_block": lambda: (_resnet_block(64, 128), (_rand(1, 64, 56, 56),)),
    "transformer": lambda: (_transformer(256, 8), (_rand(2, 128, 256),)),
    "decoder": lambda: (_decoder(256, 8), (_rand(2, 128, 256),)),
    "unet": lambda: (UNet(32), (_rand(1, 32, 64, 64),)),
    "mobilenet": lambda: (_inverted(40, 120), (_rand(1, 40, 28, 28),)),
    "convnext": lambda: (ConvNext(96), (_rand(1, 96, 28, 28),)),
    "text_encoder": lambda: (TextEncoder(1000, 128), (torch.randint(1000, (4, 64)),)),
    "mixer": lambda: (Mixer(64, 128), (_rand(4, 64, 128),)),
}
"""What makes each model and its inputs."""


def example(name: str) -> Example:
    """Return a model with equal weights and inputs at each call."""
    torch.manual_seed(7)
    module, inputs = MODELS[name]()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):  # statistics as after some training
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return Example(module.eval(), inputs)
