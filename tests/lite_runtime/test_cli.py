"""The commands ms-run, ms-bench and ms-inspect."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from ir import model_file
from ir.graph import Graph, Model, Value
from lite_runtime import cli
from tests.lite_runtime.models import cnn_batch, small_cnn

COMMANDS: list[Callable[[list[str]], None]] = [cli.run, cli.bench, cli.inspect]
SECRET = bytes(range(32))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.ms"
    path.write_bytes(model_file.write(small_cnn()))
    return path


def test_run_reads_arrays_and_writes_arrays(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = cnn_batch(3)["image"]
    np.save(tmp_path / "x.npy", image)
    out = tmp_path / "out"
    cli.run([str(model), "--input", f"image={tmp_path}/x.npy", "--output-dir", str(out)])
    assert capsys.readouterr().out.startswith("logits: dtype float32  shape [3, 5]  min ")
    assert [p.name for p in out.iterdir()] == ["logits.npy"]
    np.testing.assert_array_equal(np.load(out / "logits.npy"), lite.load(model).run(image))
    cli.run([str(model), "--input", f"{tmp_path}/x.npy", "--json"])
    assert json.loads(capsys.readouterr().out)["outputs"]["logits"]["shape"] == [3, 5]


def test_an_output_name_cannot_leave_the_output_folder(tmp_path: Path) -> None:
    x = Value((2,), name="x")
    graph = Graph((x,), (x, x), ("../../up", "..."))
    model_file.save(Model({"infer": graph}), tmp_path / "m.ms")
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    out = tmp_path / "deep" / "out"
    cli.run([f"{tmp_path}/m.ms", "--input", f"{tmp_path}/x.npy", "--output-dir", str(out)])
    assert sorted(p.name for p in out.iterdir()) == ["_.._up.npy", "output.npy"]
    assert not list((tmp_path / "deep").glob("*.npy"))


def test_bench_reports_percentiles_memory_and_nodes(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.bench([str(model), "--runs", "5", "--entry", "train", "--size", "batch=4", "--profile"])
    text = capsys.readouterr().out
    assert text.startswith("entry train, 5 runs\nlatency ms      p50 ")
    assert "[4,8,8,6]" in text
    cli.bench([str(model), "--runs", "5", "--json", "--threads", "1", "--profile"])
    report = json.loads(capsys.readouterr().out)
    assert report["entry"] == "infer"
    latency = report["latency_ms"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"]
    assert report["planned_bytes"] == lite.load(model).planned_bytes()
    assert report["profile"]["nodes"][0]["op"] == "conv2d"


def test_inspect_tells_what_a_file_holds(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.inspect([str(model)])
    text = capsys.readouterr().out
    for line in (
        "signature   none",
        "dimension   batch: 1 to 2147483647",
        "entry train",
        "  input     image: float32[batch,8,8,3]",
        "  output    loss: float32[]",
        "  trainable  float32[6,3,3,3]  0.weight",
    ):
        assert line in text.splitlines()
    cli.inspect([str(model), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["file_bytes"] == model.stat().st_size
    assert report["entries"]["infer"]["operators"]["conv2d"] == 1
    assert report["entries"]["infer"]["planned_bytes"] > 0
    assert report["entries"]["infer"]["without_kernel"] == []


def test_inspect_draws_every_node(model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "train.svg"
    cli.inspect([str(model), "--graph", str(picture), "--entry", "train"])
    root = ET.parse(picture).getroot()
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    nodes = lite.load(model).nodes("train")
    assert sum(t.startswith("momentum_step") for t in texts) == 6
    boxes = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("rx")]
    assert len(boxes) == len(nodes) + 3 + 1  # inputs and outputs
    assert {"conv2d [6,3,3,3]", "float32[1,8,8,3]", "batch = 1"} <= set(texts)  # one batch for all


def test_inspect_verifies_a_signature(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(SECRET).public_key()
    raw, pem = tmp_path / "key.pub", tmp_path / "key.pem"
    raw.write_bytes(key.public_bytes_raw())
    pem.write_bytes(
        key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    unsigned = model.read_bytes()
    model.write_bytes(model_file.sign(unsigned, SECRET))
    for good in (str(raw), str(pem), key.public_bytes_raw().hex()):
        cli.inspect([str(model), "--verify", good])
        assert f"signature   by {key.public_bytes_raw().hex()}, valid" in capsys.readouterr().out
    cli.inspect([str(model)])
    assert ", not verified" in capsys.readouterr().out

    forged = bytearray(model.read_bytes())
    forged[-40] ^= 1  # in the signature; its trailer's hash made right again
    trailer = model_file.MAGIC + bytes(forged).rpartition(model_file.MAGIC)[2][:-32]
    forged[-32:] = hashlib.sha256(trailer).digest()
    for file, wanted in (
        (unsigned, "not signed"),
        (model_file.sign(unsigned, bytes(32)), "signed by "),
        (bytes(forged), "signed by "),
    ):
        model.write_bytes(file)
        lite.load(model)  # a reader without a key takes it
        with pytest.raises(SystemExit) as end:
            cli.inspect([str(model), "--verify", str(raw)])
        assert end.value.code == 1
        assert wanted in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_failure_is_one_line_and_code_1(
    command: Callable[[list[str]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.ms"
    damaged.write_bytes(b"MSPN" * 100)
    for path in (damaged, tmp_path / "nothing.ms"):
        with pytest.raises(SystemExit) as end:
            command([str(path)])
        assert end.value.code == 1
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1)
        assert err.startswith("ms-")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--input", "image=nothing.npy"], "ms-run: nothing.npy: No such file or directory\n"),
        (["--input", "image=MODEL"], "not a .npy file"),
    ],
)
def test_run_says_what_is_wrong_with_a_file(
    arguments: list[str], words: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.run([str(model), *(a.replace("MODEL", str(model)) for a in arguments)])
    assert end.value.code == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (cli.run, "--entry test", "--entry test: MODEL has infer, loss, train"),
        (cli.run, "", "--input image=FILE.npy is missing; inputs are image"),
        (cli.run, "--input x=x.npy", "--input x=x.npy: no input x; inputs are image"),
        (cli.run, "--entry loss --input x.npy", "want NAME=FILE.npy; inputs are image, label"),
        (cli.run, "--input a.npy --input b.npy", "--input b.npy: image has a.npy already"),
        (cli.bench, "--size bach=16", "no free dimension bach; there are batch"),
        (cli.bench, "--size batch", "--size batch: want NAME=N"),
        (cli.bench, "--size batch=-1", "want batch=N with N from 1 to 2147483647"),
        (cli.bench, "--size batch=0", "want batch=N with N from 1 to 2147483647"),
        (cli.bench, "--backend fast", "'fast'"),
        (cli.bench, "--threads 257", "--threads 257: want 1 to 256"),
        (cli.bench, "--size batch=²", "want batch=N with N from 1 to 2147483647"),
        (cli.inspect, "--graph MODEL", "--graph MODEL: is the model, want another file to write"),
        (cli.inspect, "--graph=", "'': want the name of a file"),
        (cli.inspect, "--entry test", "--entry test: MODEL has infer, loss, train"),
    ],
)
def test_arguments_that_do_not_fit_the_model_are_wrong_usage(
    command: Callable[[list[str]], None],
    arguments: str,
    words: str,
    model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        command([str(model), *arguments.replace("MODEL", str(model)).split()])
    assert end.value.code == 2
    assert words.replace("MODEL", str(model)) in capsys.readouterr().err


def test_a_backend_that_this_processor_has_not_is_wrong_usage(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "avx2" if platform.machine() in ("aarch64", "arm64") else "neon"
    with pytest.raises(SystemExit) as end:
        cli.bench([str(model), "--backend", missing])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"ms-bench: --backend {missing}: want auto, ref")


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word(model: Path) -> None:
    program = f"from lite_runtime import cli; cli.inspect([{str(model)!r}])"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, timeout=60
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_inspect_names_files_and_keys_that_it_cannot_use(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        (["--verify", ""], "ms-inspect: key : no such file, and not a key of 64 hex digits\n"),
        (["--verify", "00"], "ms-inspect: key 00: no such file, and not a key of 64 hex digits\n"),
        (["--graph", "/nowhere/x.svg"], "ms-inspect: /nowhere/x.svg: No such file or directory\n"),
    ):
        with pytest.raises(SystemExit) as end:
            cli.inspect([str(model), *arguments])
        assert end.value.code == 1
        assert capsys.readouterr().err == words


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_errors_have_code_2_and_help_has_examples(
    command: Callable[[list[str]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, code in (([], 2), (["m.ms", "--threads", "none"], 2), (["--version"], 0)):
        with pytest.raises(SystemExit) as end:
            command(arguments)
        assert end.value.code == code
    with pytest.raises(SystemExit):
        command(["--help"])
    assert "examples:\n  ms-" in capsys.readouterr().out
