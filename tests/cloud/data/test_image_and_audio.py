"""Images and sound: reading, and transforms against PyTorch's or a formula."""

from __future__ import annotations

import io
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloud.data import audio, image

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (13, 17, 3), dtype=np.uint8)
RATE = 16000


def png(pixels: np.ndarray) -> bytes:
    pil = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    pil.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_png_is_read_as_its_pixels(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(png(PICTURE))
    np.testing.assert_array_equal(image.decode(path), PICTURE)
    np.testing.assert_array_equal(image.decode(path.read_bytes()), PICTURE)
    grey = image.decode(png(PICTURE[:, :, 0]), channels=1)
    np.testing.assert_array_equal(grey, PICTURE[:, :, :1])
    assert image.decode(path, channels=4).shape == (13, 17, 4)


def test_without_pillow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'mindspan\[image\]'"):
        image.decode(b"")


def test_what_is_no_image_is_refused() -> None:
    pytest.importorskip("PIL")
    with pytest.raises(ValueError, match="bytes: no image that Pillow knows"):
        image.decode(b"hello")
    with pytest.raises(ValueError, match="2 channels, want 1, 3 or 4"):
        image.decode(png(PICTURE), channels=2)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(7, 9), (20, 31), (13, 5)])
def test_resizing_is_pytorchs(size: tuple[int, int], antialias: bool) -> None:
    x = RNG.random((13, 17, 3)).astype(np.float32)
    t = torch.tensor(x).movedim(-1, 0)[None]
    want = torch.nn.functional.interpolate(
        t, size=size, mode="bilinear", antialias=antialias, align_corners=False
    )
    found = image.resize(x, size, antialias=antialias)
    np.testing.assert_allclose(found, want[0].movedim(0, -1).numpy(), atol=1e-5)


def test_resizing_to_a_number_keeps_the_shape_and_the_type() -> None:
    assert image.resize(PICTURE, 26).shape == (26, 34, 3)
    assert image.resize(PICTURE.swapaxes(0, 1), 26).shape == (34, 26, 3)
    assert image.resize(PICTURE, 5).dtype == np.uint8
    constant = np.full((8, 8, 1), 255, np.uint8)
    assert (image.resize(constant, 3) == 255).all()


def test_crops_lie_inside() -> None:
    np.testing.assert_array_equal(image.center_crop(PICTURE, 5), PICTURE[4:9, 6:11])
    for seed in range(20):
        part = image.random_crop(PICTURE, (12, 5), np.random.default_rng(seed))
        at = np.argwhere((PICTURE[:, :, 0] == part[0, 0, 0]) & (PICTURE[:, :, 1] == part[0, 0, 1]))
        assert any(np.array_equal(PICTURE[i : i + 12, j : j + 5], part) for i, j in at)
        assert image.random_resized_crop(PICTURE, 6, np.random.default_rng(seed)).shape == (6, 6, 3)
    assert image.random_crop(PICTURE, 19, RNG, padding=3).shape == (19, 19, 3)
    with pytest.raises(ValueError, match="crop: 14x3 of 13x17"):
        image.random_crop(PICTURE, (14, 3), RNG)
    with pytest.raises(ValueError, match="crop: 5x5 at 9,0 of 13x17"):
        image.crop(PICTURE, 9, 0, 5)


def test_flips_normalisation_and_light() -> None:
    np.testing.assert_array_equal(image.flip_horizontal(PICTURE)[:, 0], PICTURE[:, -1])
    flips = [image.random_flip(PICTURE, np.random.default_rng(s))[0, 0, 0] for s in range(40)]
    assert {int(f) for f in flips} == {int(PICTURE[0, 0, 0]), int(PICTURE[0, -1, 0])}
    x = image.normalise(PICTURE, [0.5, 0.4, 0.3], 0.25)
    np.testing.assert_allclose(x, (PICTURE / 255 - [0.5, 0.4, 0.3]) / 0.25, atol=1e-6)
    assert image.random_brightness(PICTURE, RNG).dtype == np.uint8
    soft = image.random_contrast(x, np.random.default_rng(1), most=0.5)
    ratio = soft.std() / x.std()
    assert 0.5 <= ratio <= 1.5
    np.testing.assert_allclose(soft.mean(), x.mean(), atol=1e-5)


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_files_of_every_width_are_read(bits: int, channels: int, tmp_path: Path) -> None:
    x = RNG.uniform(-1, 1, (50, channels))
    top = 2 ** (bits - 1)
    whole = np.clip(np.rint(x * top), -top, top - 1).astype(np.int64) + (128 if bits == 8 else 0)
    data = b"".join(
        int(v).to_bytes(bits // 8, "little", signed=bits > 8) for v in whole.reshape(-1)
    )
    path = tmp_path / "x.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(bits // 8)
        file.setframerate(8000)
        file.writeframes(data)
    for source in (path, path.read_bytes()):
        found, rate = audio.read_wav(source)
        assert (rate, found.dtype, found.shape) == (8000, np.float32, x.shape)
        np.testing.assert_allclose(found, x, atol=1 / top + 1e-7)


def test_a_wav_file_is_written_and_read_back(tmp_path: Path) -> None:
    x = RNG.uniform(-0.9, 0.9, 100)
    audio.write_wav(tmp_path / "x.wav", x, RATE)
    found, rate = audio.read_wav(tmp_path / "x.wav")
    assert rate == RATE
    np.testing.assert_allclose(found[:, 0], x, atol=2**-15)
    with pytest.raises(ValueError, match="want a PCM WAV file"):
        audio.read_wav(b"RIFF, or not")


def tone(hertz: float, rate: int, seconds: float = 0.5) -> Any:
    return np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("to", [8000, 11025, 44100, 48000])
def test_resampling_keeps_a_tone(to: int) -> None:
    y = audio.resample(tone(440, RATE), RATE, to)
    want = np.sin(2 * np.pi * 440 * np.arange(len(y)) / to)
    assert len(y) == -(-RATE // 2 * to // RATE)
    np.testing.assert_allclose(y[200:-200], want[200:-200], atol=1e-4)


def test_resampling_drops_what_the_new_rate_cannot_hold() -> None:
    y = audio.resample(tone(7000, RATE), RATE, 8000)
    assert np.abs(y[100:-100]).max() < 1e-3
    stereo = audio.resample(np.stack([tone(440, RATE)] * 2, 1), RATE, 8000)
    np.testing.assert_array_equal(stereo[:, 0], stereo[:, 1])


def test_spectra_are_pytorchs() -> None:
    x = RNG.standard_normal(5000).astype(np.float32)
    for centered in (True, False):
        want = torch.stft(
            torch.tensor(x), 256, 100, window=torch.hann_window(256), center=centered,
            return_complex=True,
        )  # fmt: skip
        found = audio.stft(x, size=256, step=100, centered=centered)
        np.testing.assert_allclose(found, want.numpy().T, atol=1e-4)
    with pytest.raises(ValueError, match="stft: 10 samples, want at least 256"):
        audio.stft(x[:10], size=256, centered=False)


def test_mel_bands_overlap_evenly_and_a_tone_is_loudest_in_its_own() -> None:
    filters = audio.mel_filters(RATE, size=1024, mels=20)
    inner = filters.sum(0)[np.searchsorted(np.linspace(0, 8000, 513), 200) : 400]
    np.testing.assert_allclose(inner, 1, atol=1e-5)
    bands = audio.log_mel(tone(1000, RATE), RATE, size=1024, mels=20)
    assert bands.shape[1] == 20
    bin_of_tone = round(1000 / (RATE / 1024))
    assert (bands[3:-3].argmax(1) == filters[:, bin_of_tone].argmax()).all()
    with pytest.raises(ValueError, match="want within 0 to 8000"):
        audio.mel_filters(RATE, high_hz=9000)


def test_all_mfcc_coefficients_hold_what_the_bands_hold() -> None:
    x = RNG.standard_normal(4000).astype(np.float32)
    bands, all_of_them = (
        audio.log_mel(x, RATE, mels=20),
        audio.mfcc(x, RATE, coefficients=20, mels=20),
    )
    np.testing.assert_allclose(
        np.square(all_of_them).sum(1), np.square(bands).sum(1), rtol=1e-4
    )  # the transform is orthonormal
    np.testing.assert_allclose(all_of_them[:, 0], bands.sum(1) / np.sqrt(20), rtol=1e-4)
    np.testing.assert_array_equal(audio.mfcc(x, RATE, mels=20), all_of_them[:, :13])
    with pytest.raises(ValueError, match="30 coefficients of 20 bands"):
        audio.mfcc(x, RATE, coefficients=30, mels=20)
