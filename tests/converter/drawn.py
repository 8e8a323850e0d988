"""Pictures that are drawn for models of pictures: hands, and what goes by road, water and air."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, radians, sin

from PIL import Image, ImageDraw, ImageFilter

Colour = tuple[int, int, int]
Point = tuple[float, float]
SKIN, CREASE, BEHIND = (224, 172, 140), (196, 140, 110), (60, 80, 70)
FIRST, RING = (122, 154, 186, 216), (120, 152, 184, 214)  # where fingers begin


def open_hand() -> tuple[Image.Image, list[Point]]:
    """A palm with its fingers apart on 336 x 336 points, and where thumb and fingers end."""
    image = Image.new("RGB", (336, 336), BEHIND)
    d = ImageDraw.Draw(image)
    d.rounded_rectangle((130, 270, 206, 346), 20, fill=SKIN)
    d.rounded_rectangle((106, 180, 232, 300), 40, fill=SKIN)
    tips = [_finger(d, (125, 265), (62, 205), SKIN, 30)]
    for x, length, angle in zip(RING, (100, 118, 110, 85), (-16, -5, 5, 16), strict=True):
        across, up = sin(radians(angle)) * length, cos(radians(angle)) * length
        tips.append(_finger(d, (x, 200), (x + across, 190 - up), SKIN, 26))
        for share in (0.35, 0.7):
            middle, height = x + across * share, 190 - up * share
            d.line((middle - 9, height, middle + 9, height), fill=CREASE, width=2)
    d.arc((110, 200, 200, 330), 250, 330, fill=CREASE, width=3)
    d.arc((115, 215, 230, 300), 200, 300, fill=CREASE, width=3)
    return image.filter(ImageFilter.GaussianBlur(2)), tips


def fist(fingers: Sequence[int] = ()) -> Image.Image:
    """A grey hand on dark ground from which these of four fingers stand out."""
    image, d = _grey_arm(150)
    lengths, angles = (105, 120, 110, 85), (-14, -4, 5, 16)
    for i, (x, length, angle) in enumerate(zip(FIRST, lengths, angles, strict=True)):
        if i in fingers:
            a = radians(angle)
            _finger(d, (x, 170), (x + sin(a) * length, 165 - cos(a) * length), (180,) * 3, 27)
        else:
            d.rounded_rectangle((x - 15, 145, x + 15, 205), 13, fill=(155,) * 3, outline=(120,) * 3)
    return image.filter(ImageFilter.GaussianBlur(3)).convert("L")


def flat_hand() -> Image.Image:
    """A grey hand on dark ground with all fingers side by side."""
    image, d = _grey_arm(140)
    for i, length in enumerate((110, 125, 120, 100)):
        x = 102 + i * 36
        d.rounded_rectangle((x, 165 - length, x + 32, 200), 16, fill=(180,) * 3)
    _finger(d, (115, 240), (85, 140), (180,) * 3, 32)
    return image.filter(ImageFilter.GaussianBlur(3)).convert("L")


def ship() -> Image.Image:
    image, d = _ground((170, 200, 235), (40, 70, 110), 150)
    d.polygon([(20, 140), (236, 140), (206, 180), (50, 180)], fill=(90, 30, 30))
    d.rectangle((70, 100, 180, 140), fill=(235, 235, 235))
    d.rectangle((90, 75, 150, 100), fill=(220, 220, 220))
    d.rectangle((110, 40, 130, 75), fill=(200, 60, 40))
    return image


def airplane() -> Image.Image:
    image, d = _ground((150, 190, 235), (150, 190, 235), 160)
    d.ellipse((20, 115, 236, 150), fill=(235, 235, 240))
    d.polygon([(120, 130), (160, 130), (110, 215), (85, 215)], fill=(190, 190, 200))
    d.polygon([(30, 128), (60, 120), (40, 75), (20, 75)], fill=(210, 60, 60))
    d.polygon([(125, 120), (150, 118), (120, 75), (105, 75)], fill=(200, 200, 205))
    return image


def automobile() -> Image.Image:
    image, d = _ground((200, 205, 210), (110, 110, 110), 170)
    red, glass = (200, 20, 20), (40, 50, 60)
    d.rounded_rectangle((20, 120, 236, 185), 20, fill=red)
    d.polygon([(60, 125), (90, 80), (165, 80), (205, 125)], fill=red)
    d.polygon([(75, 120), (97, 90), (125, 90), (125, 120)], fill=glass)
    d.polygon([(132, 120), (132, 90), (160, 90), (188, 120)], fill=glass)
    for x in (70, 185):
        d.ellipse((x - 25, 160, x + 25, 210), fill=(20, 20, 20))
        d.ellipse((x - 10, 175, x + 10, 195), fill=(170, 170, 170))
    return image


def truck() -> Image.Image:
    image, d = _ground((200, 210, 225), (120, 120, 115), 190)
    d.rectangle((15, 60, 185, 185), fill=(235, 235, 235))
    d.rectangle((187, 100, 240, 185), fill=(30, 60, 160))
    d.rectangle((200, 110, 233, 140), fill=(180, 210, 230))
    for x in (40, 75, 210):
        d.ellipse((x - 20, 170, x + 20, 210), fill=(20, 20, 20))
    return image


def _finger(d: ImageDraw.ImageDraw, start: Point, end: Point, colour: Colour, width: int) -> Point:
    """A line with a round end, which is returned."""
    (x, y), half = end, width / 2
    d.line((*start, *end), fill=colour, width=width)
    d.ellipse((x - half, y - half, x + half, y + half), fill=colour)
    return end


def _grey_arm(top: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (336, 336), (40, 40, 40))
    d = ImageDraw.Draw(image)
    d.rounded_rectangle((130, 250, 210, 340), 20, fill=(180,) * 3)
    d.rounded_rectangle((102, top, 236, 290), 45, fill=(180,) * 3)
    return image, d


def _ground(above: Colour, below: Colour, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (256, 256), above)
    d = ImageDraw.Draw(image)
    d.rectangle((0, height, 256, 256), fill=below)
    return image, d
