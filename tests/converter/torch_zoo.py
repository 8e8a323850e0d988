"""The further models of small devices as people write them in PyTorch, narrow; weights are random.

Attention and recurrence, detectors with their tails, shuffles and squeezes: what exporters make of
them is as in the full models, for that depends on code and not on widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.converter.torch_bottlenecks import MobileBert, resnet50
from tests.converter.torch_detectors import Letterbox, Yolo5, Yolo8, yolo11
from tests.converter.torch_models import Head, conv_norm, randomised


class SqueezeExcite(nn.Module):
    """Hu et al. 2018, with MobileNetV3's gate."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = F.adaptive_avg_pool2d(x, 1)
        gate = F.hardsigmoid(self.wide(F.relu(self.narrow(gate))))
        return x * gate


class Residual(nn.Module):
    """x + body(x) where the shapes allow it."""

    def __init__(self, *body: nn.Module, same: bool = True) -> None:
        super().__init__()
        self.body, self.same = nn.Sequential(*body), same

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.same else y


def mobilenet_v3() -> nn.Module:
    """Howard et al. 2019: hard-swish, squeeze and excitation."""

    def block(a: int, wide: int, b: int, k: int, stride: int, act: type[nn.Module]) -> nn.Module:
        return Residual(
            conv_norm(a, wide, 1, act=act),
            conv_norm(wide, wide, k, stride, groups=wide, act=act),
            SqueezeExcite(wide),
            conv_norm(wide, b, 1, act=None),
            same=stride == 1 and a == b,
        )

    return Head(
        nn.Sequential(
            conv_norm(3, 8, 3, 2, act=nn.Hardswish),
            block(8, 16, 8, 3, 1, nn.ReLU),
            block(8, 24, 12, 5, 2, nn.Hardswish),
            block(12, 32, 12, 5, 1, nn.Hardswish),
            conv_norm(12, 32, 1, act=nn.Hardswish),
        ),
        32,
        7,
    )


def mobilenet_v4() -> nn.Module:
    """Qin et al. 2024: universal inverted bottlenecks with an extra depthwise layer."""

    def block(a: int, b: int, stride: int) -> nn.Module:
        return Residual(
            conv_norm(a, a, 3, groups=a, act=None),
            conv_norm(a, 2 * a, 1),
            conv_norm(2 * a, 2 * a, 5, stride, groups=2 * a),
            conv_norm(2 * a, b, 1, act=None),
            same=stride == 1 and a == b,
        )

    body = nn.Sequential(conv_norm(3, 8, 3, 2), block(8, 12, 2), block(12, 12, 1))
    return Head(body, 12, 7)


class SameConv(nn.Conv2d):
    """TensorFlow's "same" padding, computed from the input's sizes as timm does."""

    def forward(self, x: Tensor) -> Tensor:
        pads = []
        for size, k, s in zip(x.shape[-2:], self.kernel_size, self.stride, strict=True):
            pads.append(max((math.ceil(size / s) - 1) * s + k - size, 0))
        x = F.pad(x, [pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)


def efficientnet_lite() -> nn.Module:
    """Tan and Le 2019 without squeeze and excitation, "same" padding, ReLU6."""

    def conv(a: int, b: int, k: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        return [SameConv(a, b, k, stride, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU6()]

    def block(a: int, b: int, k: int, stride: int) -> nn.Module:
        wide = 3 * a
        body = [*conv(a, wide, 1), *conv(wide, wide, k, stride, wide), *conv(wide, b, 1)[:2]]
        return Residual(*body, same=stride == 1 and a == b)

    features = [*conv(3, 8, 3, 2), block(8, 12, 3, 2), block(12, 12, 5, 1), block(12, 16, 5, 2)]
    return Head(nn.Sequential(*features), 16, 7)


class Fire(nn.Module):
    def __init__(self, a: int, squeeze: int, b: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(a, squeeze, 1)
        self.one, self.three = nn.Conv2d(squeeze, b, 1), nn.Conv2d(squeeze, b, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    """Iandola et al. 2016."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 8),
        Fire(16, 4, 8), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Dropout(), nn.Conv2d(16, 7, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class ShuffleUnit(nn.Module):
    """Ma et al. 2018: half of the channels pass, then all are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv_norm(half, half, 1), conv_norm(half, half, 3, groups=half, act=None),
            conv_norm(half, half, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=1)
        y = torch.cat([a, self.branch(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2() -> nn.Module:
    body = nn.Sequential(conv_norm(3, 16, 3, 2), ShuffleUnit(16), ShuffleUnit(16))
    return Head(body, 16, 7)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n, length, width = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        z: Tensor = self.out(y.transpose(1, 2).reshape(n, length, width))
        return z


class Block(nn.Module):
    """A layer of a transformer, norm first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.before(x), mask)
        y: Tensor = x + self.mlp(self.between(x))
        return y


class Deit(nn.Module):
    """Touvron et al. 2021."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.blocks = nn.Sequential(Block(width, 3), Block(width, 3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        y: Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return y


class MobileVit(nn.Module):
    """Mehta and Rastegari 2022: attention over pixels of patches that are unfolded and folded."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem, self.widen = conv_norm(3, 8, 3, 2, act=nn.SiLU), nn.Conv2d(8, width, 1)
        self.block, self.norm = Block(width, 2), nn.LayerNorm(width)
        self.narrow, self.head = nn.Conv2d(width, 8, 1), nn.Linear(8, 7)

    def forward(self, x: Tensor) -> Tensor:
        y = self.widen(self.stem(x))
        n, c, h, w = y.shape
        rows, columns = h // 2, w // 2
        p = y.reshape(n * c * rows, 2, columns, 2).transpose(1, 2)
        p = p.reshape(n, c, rows * columns, 4).transpose(1, 3).reshape(n * 4, rows * columns, c)
        p = self.norm(self.block(p)).view(n, 4, rows * columns, c)
        p = p.transpose(1, 3).reshape(n * c * rows, columns, 2, 2)
        y = p.transpose(1, 2).reshape(n, c, h, w)
        z: Tensor = self.head(self.narrow(y).mean((2, 3)))
        return z


class Bert(nn.Module):
    """Devlin et al. 2019: embeddings of tokens and places, a mask, a pooler."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(100, width), nn.Embedding(64, width)
        self.first, self.second = Block(width, 3), Block(width, 3)
        self.norm, self.pooler = nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.tokens(tokens) + self.places(places))
        hidden = torch.where(mask[:, None, None, :] > 0, 0.0, -1e9)
        x = self.second(self.first(x, hidden), hidden)
        return torch.tanh(self.pooler(x[:, 0]))


class Spotter(nn.Module):
    """A recurrent keyword spotter over any number of frames."""

    def __init__(self, kind: type[nn.RNNBase], both: bool = False, layers: int = 2) -> None:
        super().__init__()
        self.rnn = kind(10, 12, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(24 if both else 12, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.rnn(x)[0][:, -1])
        return y


class Whisper(nn.Module):
    """The encoder of Radford et al. 2022: two 1-D convolutions, sinusoids, blocks."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.one = nn.Conv1d(8, width, 3, padding=1)
        self.two = nn.Conv1d(width, width, 3, 2, padding=1)
        angles = torch.arange(20)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.block, self.norm = Block(width, 3), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.two(F.gelu(self.one(x)))).transpose(1, 2) + self.places
        y: Tensor = self.norm(self.block(x))
        return y


class WhisperDecoder(nn.Module):
    """Its decoder: the embedding is the last layer too, and tokens do not see later ones."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, width)
        self.places = nn.Parameter(torch.randn(32, width))
        self.block, self.norm = Block(width, 3), nn.LayerNorm(width)
        self.cross = nn.MultiheadAttention(width, 3, batch_first=True)

    def forward(self, tokens: Tensor, sound: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places[:length]
        mask = torch.full((length, length), -torch.inf).triu(1)
        x = self.block(x, mask)
        x = self.norm(x + self.cross(x, sound, sound, need_weights=False)[0])
        return x @ self.tokens.weight.T


class Ssd(nn.Module):
    """Liu et al. 2016 with MobileNetV3's light head: boxes around anchors, and scores."""

    def __init__(self, most: int = 0) -> None:
        super().__init__()
        self.most = most  # boxes to keep; 0: all of them, as they are
        self.body = nn.Sequential(conv_norm(3, 8, 3, 2, act=nn.ReLU6), conv_norm(8, 16, 3, 2))
        self.boxes, self.scores = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(16, 6, 3, padding=1)
        steps = (torch.arange(8) + 0.5) / 8
        centers = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).reshape(64, 1, 2)
        sides = torch.tensor([[0.2, 0.2], [0.3, 0.15]]).expand(64, 2, 2)
        anchors = torch.cat([centers.expand(64, 2, 2), sides], -1).reshape(128, 4)
        self.register_buffer("anchors", anchors)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.body(x)
        n = y.shape[0]
        offsets = self.boxes(y).permute(0, 2, 3, 1).reshape(n, -1, 4)
        scores = self.scores(y).permute(0, 2, 3, 1).reshape(n, -1, 3).softmax(-1)
        center = offsets[..., :2] * 0.1 * self.anchors[:, 2:] + self.anchors[:, :2]
        size = torch.exp((offsets[..., 2:] * 0.2).clamp(max=4.0)) * self.anchors[:, 2:]
        boxes = torch.cat([center - size / 2, center + size / 2], -1).clamp(0, 1)
        return (boxes, scores) if not self.most else self.kept(boxes[0], scores[0, :, 1])

    def kept(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        """Boxes of one image that are good enough: as many as there are."""
        found = torch.nonzero(scores > 0.3)[:, 0]
        best = torch.sort(scores[found], descending=True).indices[: self.most]
        return boxes[found][best], scores[found][best]


class Yolo(nn.Module):
    """Redmon and Farhadi 2018, tiny: two scales, of which one is made larger and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = conv_norm(3, 8, 3, 2, act=nn.SiLU), conv_norm(8, 16, 3, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.small, self.large = nn.Conv2d(24, 14, 1), nn.Conv2d(16, 14, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.stem(x)
        b = self.deep(a)
        found = [self.large(b), self.small(torch.cat([a, self.up(b)], 1))]
        rows = []
        for y, stride in zip(found, (4, 2), strict=True):
            n, _, h, w = y.shape
            y = y.view(n, 2, 7, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            steps = [torch.arange(k, dtype=y.dtype) for k in (h, w)]
            grid = torch.stack(torch.meshgrid(*steps, indexing="ij")[::-1], -1)
            center = (y[..., :2] * 2 - 0.5 + grid) * stride
            size = (y[..., 2:4] * 2) ** 2 * 8
            rows.append(torch.cat([center, size, y[..., 4:]], -1).reshape(n, -1, 7))
        return torch.cat(rows, 1)


@dataclass(frozen=True)
class Zoo:
    """A model; shapes of its inputs behind the batch (those named tokens and mask are integers);
    axes that are free."""

    make: Callable[[], nn.Module]
    inputs: dict[str, tuple[int, ...]]
    free: dict[str, tuple[int, ...]] | None = None
    batch: int = 2
    kinds: int | None = None  # of operators that the conversion may leave, where it is said

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return randomised(self.make())

    def arguments(self, seed: int = 0) -> tuple[Tensor, ...]:
        torch.manual_seed(seed)
        return tuple(
            torch.randint(0, 2 if name == "mask" else 50, (self.batch, *shape))
            if name in ("tokens", "mask")
            else torch.randn(self.batch, *shape)
            for name, shape in self.inputs.items()
        )

    def free_axes(self) -> dict[str, dict[int, str]]:
        """Which axis of which input is free, and its name."""
        return {
            name: {axis: f"{name}{axis}" if axis else "batch" for axis in axes}
            for name, axes in (self.free or {}).items()
        }


IMAGE = {"x": (3, 32, 32)}
BATCH = {"x": (0,)}
TOKENS = {"tokens": (16,), "mask": (16,)}
ZOO = {
    "mobilenet_v3": Zoo(mobilenet_v3, IMAGE, BATCH),
    "mobilenet_v4": Zoo(mobilenet_v4, IMAGE, BATCH),
    "efficientnet_lite": Zoo(efficientnet_lite, IMAGE, BATCH, kinds=7),
    "squeezenet": Zoo(squeezenet, IMAGE, BATCH),
    "shufflenet_v2": Zoo(shufflenet_v2, IMAGE, BATCH),
    "mobilevit": Zoo(MobileVit, IMAGE),
    "deit": Zoo(Deit, IMAGE, BATCH),
    "bert": Zoo(Bert, TOKENS, {"tokens": (0,), "mask": (0,)}),
    "whisper": Zoo(Whisper, {"x": (8, 40)}, BATCH),
    "whisper_decoder": Zoo(WhisperDecoder, {"tokens": (12,), "sound": (20, 24)}),
    "ssd": Zoo(Ssd, IMAGE, BATCH),
    "ssd_kept": Zoo(lambda: Ssd(most=20), IMAGE, batch=1),
    "yolo": Zoo(Yolo, IMAGE),
    "yolo5": Zoo(Yolo5, IMAGE, BATCH),
    "yolo8": Zoo(Yolo8, IMAGE, BATCH),
    "yolo11": Zoo(yolo11, IMAGE, BATCH),
    "yolo8_letterbox": Zoo(lambda: Letterbox(Yolo8()), {"x": (3, 48, 64)}),
    "resnet50": Zoo(resnet50, IMAGE, BATCH),
    "mobilebert": Zoo(MobileBert, TOKENS, {"tokens": (0, 1), "mask": (0, 1)}),
    "lstm": Zoo(lambda: Spotter(nn.LSTM), {"x": (9, 10)}, {"x": (1,)}),
    "gru": Zoo(lambda: Spotter(nn.GRU), {"x": (9, 10)}, {"x": (1,)}),
    "bi_lstm": Zoo(lambda: Spotter(nn.LSTM, both=True), {"x": (9, 10)}),
}
