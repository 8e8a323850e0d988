"""Detectors of the YOLO family of 2020 to 2024 as their authors write them, narrow."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.converter.torch_models import conv_norm

BINS = 8  # of a side's distribution
CLASSES = 3


def conv(a: int, b: int, size: int = 1, stride: int = 1, groups: int = 1) -> nn.Module:
    return conv_norm(a, b, size, stride, groups, act=nn.SiLU)


class Bottleneck(nn.Module):
    """x + two convolutions."""

    def __init__(self, width: int, first: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(width, width, first), conv(width, width, 3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.body(x)
        return y


class C3(nn.Module):
    """Half of the channels pass bottlenecks, half none; both are joined (Wang et al. 2020)."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.left, self.right, self.out = conv(a, b // 2), conv(a, b // 2), conv(b, b)
        self.body = Bottleneck(b // 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(torch.cat([self.body(self.left(x)), self.right(x)], 1))
        return y


class C2f(nn.Module):
    """A split, bottlenecks one behind the other, and all of them joined; `inner`: what they are."""

    def __init__(self, a: int, b: int, inner: type[nn.Module] = Bottleneck, count: int = 2) -> None:
        super().__init__()
        self.half = b // 2
        self.first, self.out = conv(a, b), conv((2 + count) * self.half, b)
        self.parts = nn.ModuleList(inner(self.half) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        found = list(self.first(x).chunk(2, 1))
        for part in self.parts:
            found.append(part(found[-1]))
        y: Tensor = self.out(torch.cat(found, 1))
        return y


class C3k(C3):
    """C3 of one width."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)


class Pyramid(nn.Module):
    """Three times the largest around each place, joined (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.out = conv(width, width // 2), conv(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.first(x)]
        for _ in range(3):
            found.append(self.pool(found[-1]))
        y: Tensor = self.out(torch.cat(found, 1))
        return y


class PixelAttention(nn.Module):
    """Half of the channels pass attention over places, whose own places are a depthwise layer (the
    C2PSA of YOLO11)."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.half, self.heads = width // 2, heads
        self.of_key, self.of_head = self.half // heads // 2, self.half // heads
        self.first, self.out = conv(width, width), conv(width, width)
        self.qkv = conv_norm(self.half, 2 * self.half, 1, act=None)
        self.place = conv_norm(self.half, self.half, 3, groups=self.half, act=None)
        self.joined = conv_norm(self.half, self.half, 1, act=None)
        self.mlp = nn.Sequential(
            conv(self.half, 2 * self.half), conv_norm(2 * self.half, self.half, 1, act=None)
        )

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.first(x).split((self.half, self.half), 1)
        b = b + self.attention(b)
        b = b + self.mlp(b)
        y: Tensor = self.out(torch.cat([a, b], 1))
        return y

    def attention(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        qkv = self.qkv(x).view(n, self.heads, 2 * self.of_key + self.of_head, h * w)
        q, k, v = qkv.split((self.of_key, self.of_key, self.of_head), 2)
        weight = (q.transpose(-2, -1) @ k) * self.of_key**-0.5
        y = (v @ weight.softmax(-1).transpose(-2, -1)).view(n, c, h, w)
        z: Tensor = self.joined(y + self.place(v.reshape(n, c, h, w)))
        return z


class Neck(nn.Module):
    """Two scales, of which the small one is made larger, joined, and made small again."""

    def __init__(self, block: type[nn.Module], deep: nn.Module) -> None:
        super().__init__()
        self.stem, self.shallow = conv(3, 8, 3, 2), nn.Sequential(conv(8, 16, 3, 2), block(16, 16))
        self.deep = nn.Sequential(conv(16, 32, 3, 2), block(32, 32), Pyramid(32), deep)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.large, self.down = block(48, 16), conv(16, 16, 3, 2)
        self.small = block(48, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.shallow(self.stem(x))
        b = self.deep(a)
        large = self.large(torch.cat([a, self.up(b)], 1))
        return large, self.small(torch.cat([self.down(large), b], 1))


def grid(h: int, w: int) -> Tensor:
    steps = [torch.arange(k, dtype=torch.float32) for k in (h, w)]
    return torch.stack(torch.meshgrid(*steps, indexing="ij")[::-1], -1)


class Yolo5(nn.Module):
    """Jocher 2020: C3, anchors, centers and sizes by sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.neck = Neck(C3, nn.Identity())
        self.heads = nn.ModuleList(nn.Conv2d(c, 2 * (5 + CLASSES), 1) for c in (16, 32))
        self.register_buffer("anchors", torch.tensor([[[6.0, 9], [14, 12]], [[20, 33], [40, 26]]]))

    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for i, (head, y) in enumerate(zip(self.heads, self.neck(x), strict=True)):
            n, _, h, w = y.shape
            y = head(y).view(n, 2, 5 + CLASSES, h, w).permute(0, 1, 3, 4, 2).contiguous()
            xy, wh, score = y.sigmoid().split((2, 2, 1 + CLASSES), 4)
            xy = (xy * 2 + grid(h, w) - 0.5) * 4 * 2**i
            wh = (wh * 2) ** 2 * self.anchors[i].view(1, 2, 1, 1, 2)
            rows.append(torch.cat((xy, wh, score), 4).view(n, 2 * h * w, 5 + CLASSES))
        return torch.cat(rows, 1)


class Yolo8(nn.Module):
    """Jocher et al. 2023: no anchors; sides are means of distributions (Li et al. 2020). `light`:
    depthwise layers before the classes, as YOLO11 has them."""

    def __init__(self, neck: nn.Module | None = None, light: bool = False) -> None:
        super().__init__()
        self.neck = neck or Neck(C2f, nn.Identity())
        widths = (16, 32)
        self.sides = nn.ModuleList(
            nn.Sequential(conv(c, 16, 3), conv(16, 16, 3), nn.Conv2d(16, 4 * BINS, 1))
            for c in widths
        )
        self.kinds = nn.ModuleList(
            nn.Sequential(
                *((conv(c, c, 3, groups=c), conv(c, 16)) if light else (conv(c, 16, 3),)),
                nn.Conv2d(16, CLASSES, 1),
            )
            for c in widths
        )
        self.mean = nn.Conv2d(BINS, 1, 1, bias=False)
        self.mean.weight.data = torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        found, centers, strides = [], [], []
        parts = zip(self.sides, self.kinds, self.neck(x), strict=True)
        for i, (sides, kinds, y) in enumerate(parts):
            n, _, h, w = y.shape
            found.append(torch.cat((sides(y), kinds(y)), 1).view(n, 4 * BINS + CLASSES, h * w))
            centers.append(grid(h, w).view(-1, 2) + 0.5)
            strides.append(torch.full((h * w, 1), 4.0 * 2**i))
        at, by = (torch.cat(v).transpose(0, 1) for v in (centers, strides))
        sides, kinds = torch.cat(found, 2).split((4 * BINS, CLASSES), 1)
        n, _, count = sides.shape
        bins = sides.view(n, 4, BINS, count).transpose(2, 1).softmax(1)
        left, right = self.mean(bins).view(n, 4, count).chunk(2, 1)
        low, high = at - left, at + right
        boxes = torch.cat(((low + high) / 2, high - low), 1) * by
        return torch.cat((boxes, kinds.sigmoid()), 1)


class C3k2(C2f):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b, C3k, 1)


def yolo11() -> nn.Module:
    """Jocher and Qiu 2024: C3k2, attention over places, a light head."""
    return Yolo8(Neck(C3k2, PixelAttention(32)), light=True)


class Letterbox(nn.Module):
    """A detector behind what its users put in front of it: normalised, smaller, with a border."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, x: Tensor) -> Tensor:
        x = F.interpolate(x / 255, scale_factor=0.5, mode="bilinear", align_corners=False)
        y: Tensor = self.detector(F.pad(x, (0, 0, 4, 4), value=0.4473))
        return y
