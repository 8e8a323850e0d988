"""The command ms-convert: flags, exit codes, what is printed, and the same bytes every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

import lite_runtime as lite
import lite_runtime.cli
from converter.cli import main
from ir import model_file
from tests.converter.conftest import Exported, samples
from tests.helpers import ROOT

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ms_convert(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output and standard error of one call."""

    def run(*argv: object) -> tuple[int, str, str]:
        try:
            code = main([str(a) for a in argv])
        except SystemExit as e:
            code = int(e.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, **samples("lenet"))
    return path


def test_a_model_is_written_and_the_agreement_printed(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    target = tmp_path / "out.ms"
    code, out, err = ms_convert(exported("lenet"), "-o", target)
    assert (code, err) == (0, "")
    assert "nodes: 20 read, 9 written: conv2d ×2" in out
    assert "agreement of y on 4 random inputs: largest difference" in out
    assert lite.load(target).entries == ["infer"]


def test_the_file_is_beside_the_source_unless_said_otherwise(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    source = tmp_path / "net.onnx"
    source.write_bytes(exported("mlp").read_bytes())
    assert ms_convert(source)[0] == 0
    assert (tmp_path / "net.ms").exists()


def test_int8_with_a_float_head_that_trains(
    ms_convert: Run, exported: Exported, tmp_path: Path, calibration: Path
) -> None:
    target = tmp_path / "out.ms"
    code, out, _ = ms_convert(
        exported("lenet"), "-o", target, "--quantize", "int8", "--calibration", calibration,
        "--train", "--trainable", "11.*", "--optimizer", "momentum:lr=0.1", "--check", "8",
    )  # fmt: skip
    assert code == 0
    assert "entries: infer, loss, train; trains 11.weight, 11.bias" in out
    assert "on 8 inputs" in out
    assert lite.load(target).entries == ["infer", "loss", "train"]


def test_a_model_that_trains_in_parts(ms_convert: Run, exported: Exported, tmp_path: Path) -> None:
    target = tmp_path / "out.ms"
    code, _, _ = ms_convert(exported("mlp"), "-o", target, "--train", "--accumulate")
    assert code == 0
    session = lite.load(target)
    assert session.entries == ["infer", "loss", "train", "accumulate", "apply"]
    promised = [k for k in session.metadata if k.startswith("memory.")]
    assert promised == sorted(f"memory.{entry}" for entry in session.entries)


def test_the_report_is_json_on_request(ms_convert: Run, exported: Exported, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code, out, _ = ms_convert(
        exported("mlp"), "-o", tmp_path / "m.ms", "--json", "--report", report
    )
    assert code == 0
    found = json.loads(out)
    assert found == json.loads(report.read_text())
    assert found["agrees"] is True
    assert found["nodes"] == {"linear": 3}
    assert [p["pass"] for p in found["passes"]][1:3] == ["constant_folding", "fuse_pad"]
    assert found["agreement"][0]["relative"] < 1e-4


def test_shapes_outputs_and_real_check_data(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", x=samples("mlp", 9)["x"])
    code, out, _ = ms_convert(
        exported("mlp", free_batch=False), "-o", tmp_path / "m.ms",
        "--input", "x=rows,20", "--check-data", tmp_path / "data.npz", "--check", "6",
    )  # fmt: skip
    assert code == 0
    assert "on 6 inputs" in out
    assert lite.load(tmp_path / "m.ms").inputs("infer")[0].shape == ("rows", 20)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["m.onnx", "--no-such-flag"],
        ["m.onnx", "--quantize", "int4"],
        ["m.onnx", "--quantize", "int8"],
        ["m.onnx", "--calibration", "c.npz"],
        ["m.onnx", "--check", "0"],
        ["m.onnx", "--input", "x"],
        ["m.onnx", "--input", "x=0,3"],
        ["m.onnx", "--train", "--optimizer", "newton"],
        ["m.onnx", "--train", "--loss", "perplexity"],
        ["m.onnx", "--trainable", "fc.*"],
        ["m.onnx", "--accumulate"],
        ["m.onnx", "--keep-float", "fc.*"],
        ["m.onnx", "--tol", "small"],
        ["m.ms"],
        ["m.onnx", "--tol", "nan"],
        ["m.onnx", "--tol=-1"],
        ["m.onnx", "--tol", "inf"],
        ["m.onnx", "--check", "²"],
        ["m.onnx", "--check", "9" * 5000],
        ["m.onnx", "--report", "m.onnx"],
        ["m.onnx", "--report", "x/../m.ms"],
        [""],
        ["m.onnx", "--config", "none.toml"],
        ["m.onnx", "--config", "/dev/zero"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(argv: list[str], ms_convert: Run) -> None:
    code, out, err = ms_convert(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("usage: ms-convert")
    assert "ms-convert: error: " in err


@pytest.mark.parametrize(
    "argv",
    [
        ["none.onnx"],
        ["{mlp}", "--tol", "1e-12"],
        ["{mlp}", "--input", "z=3,20"],
        ["{mlp}", "--output", "z"],
        ["{mlp}", "-o", "m.onnx"],
        ["{mlp}", "-o", "../{folder}/m.onnx"],
        ["{mlp}", "--train", "--trainable", "none.*"],
        ["{mlp}", "--check-data", "none.npz"],
        ["{mlp}", "--check-data", "{mlp}"],
        ["{mlp}", "--sign", "none.key"],
        ["{mlp}", "--sign", "{mlp}"],
        ["{mlp}", "-o", "none/m.ms"],
        ["{mlp}", "--from", "ms"],
        ["{mlp}", "--check", "100000000"],
        ["/dev/zero", "-o", "m.ms"],
    ],
    ids=" ".join,
)
def test_a_failure_exits_with_1_and_one_line_and_writes_nothing(
    argv: list[str], ms_convert: Run, exported: Exported, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(exported("mlp").read_bytes())
    code, out, err = ms_convert(*(a.format(mlp="m.onnx", folder=tmp_path.name) for a in argv))
    assert (code, out) == (1, "")
    assert err.startswith("ms-convert: ")
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_the_source_is_never_overwritten(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    source = tmp_path / "m.onnx"
    source.write_bytes(exported("mlp").read_bytes())
    before = source.read_bytes()
    (tmp_path / "link").symlink_to(source)
    for target in (source, tmp_path / "link"):
        code, _, err = ms_convert(source, "-o", target)
        assert (code, source.read_bytes()) == (1, before)
        assert err == f"ms-convert: {target}: is the source itself, want another file to write\n"


def test_int8_of_a_model_that_trains_as_a_whole_is_refused(
    ms_convert: Run, exported: Exported, tmp_path: Path, calibration: Path
) -> None:
    code, _, err = ms_convert(
        exported("lenet"), "-o", tmp_path / "m.ms", "--train",
        "--quantize", "int8", "--calibration", calibration,
    )  # fmt: skip
    assert code == 1
    assert "nothing can be int8, for what trains stays float32 and 0.weight, " in err
    assert "name fewer (--trainable)" in err
    assert not (tmp_path / "m.ms").exists()


def test_an_output_that_is_not_there_and_an_array_without_a_name_say_so(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    _, _, err = ms_convert(exported("mlp"), "-o", tmp_path / "m.ms", "--output", "z")
    assert "no output ['z']; there are " in err
    assert ", y\n" in err
    np.save(tmp_path / "x.npy", samples("mlp")["x"])
    argv = exported("mlp"), "-o", tmp_path / "m.ms", "--check-data", tmp_path / "x.npy"
    assert "x.npy: one array without a name" in ms_convert(*argv)[2]


def test_a_report_that_cannot_be_written_is_a_failure(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    code, _, err = ms_convert(
        exported("mlp"), "-o", tmp_path / "m.ms", "--report", tmp_path / "none" / "r.json"
    )
    assert code == 1
    assert err.endswith("r.json: No such file or directory; the model was written\n")


def test_bisect_writes_nothing_and_says_that_all_agrees(
    ms_convert: Run, exported: Exported, tmp_path: Path, calibration: Path
) -> None:
    code, out, _ = ms_convert(exported("lenet"), "-o", tmp_path / "m.ms", "--bisect")
    assert (code, out) == (0, "every step agrees\n")
    code, out, _ = ms_convert(
        exported("lenet"), "-o", tmp_path / "m.ms", "--bisect", "--quantize", "int8",
        "--calibration", calibration, "--tol", "1e-5",
    )  # fmt: skip
    assert (code, out) == (1, "quantize is the first step that breaks agreement\n")
    assert not (tmp_path / "m.ms").exists()


def test_a_file_gives_flags_and_the_command_line_wins(
    ms_convert: Run, exported: Exported, tmp_path: Path, calibration: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'quantize = "int8"\ncalibration = "{calibration}"\ntrain = true\ncheck = 3\n'
        'trainable = ["11.*", "9.*"]\noptimizer = "adam:lr=0.01"\ninput = ["x=b,1,28,28"]\n'
        f'o = "{tmp_path / "from_config.ms"}"\ntol = 0.09\n'
    )
    code, out, _ = ms_convert(exported("lenet"), "--config", config, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["target"].endswith("from_config.ms")
    assert (found["quantize"], found["checked_inputs"], found["tolerance"]) == ("int8", 3, 0.09)
    assert found["trainable"] == ["9.weight", "9.bias", "11.weight", "11.bias"]
    code, out, _ = ms_convert(
        exported("lenet"), "--config", config, "--json", "--trainable", "11.*", "--check", "2"
    )
    found = json.loads(out)
    assert (found["trainable"], found["checked_inputs"]) == (["11.weight", "11.bias"], 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed = 3", "unknown flags ['speed']"),
        ('train = "yes"', "train is 'yes', want true or false"),
        ('check = "many"', "'many': want a number of at least 1"),
        ('quantize = "int4"', "quantize is 'int4', want one of none, fp16"),
        ("quantize = ", "Invalid value"),
        ('config = "c.toml"', "unknown flags ['config']"),
        ("\x22\\u001b[2J\x22 = 1", "train-batch, train-memory, trainable\n"),
        ("a = " + "[" * 100_000, "recursion"),
        ("check = " + "9" * 5000, "limit (4300 digits)"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(
    text: str, message: str, ms_convert: Run, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(text)
    code, _, err = ms_convert("m.onnx", "--config", config)
    assert code == 2
    assert message in err


def test_a_configuration_that_is_not_there_is_named_once(ms_convert: Run) -> None:
    _, _, err = ms_convert("m.onnx", "--config", "nope.toml")
    assert err.endswith("ms-convert: error: nope.toml: No such file or directory\n")


def key_files(folder: Path) -> tuple[dict[str, Path], str]:
    """One private key in every form, and the public key in hex."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    forms = {
        "raw": key.private_bytes_raw(),
        "hex": key.private_bytes_raw().hex().encode() + b"\n",
        "pem": pem,
    }
    for name, data in forms.items():
        (folder / name).write_bytes(data)
    return {n: folder / n for n in forms}, key.public_key().public_bytes_raw().hex()


@pytest.mark.parametrize("form", ["raw", "hex", "pem"])
def test_a_signed_file_passes_inspection(
    form: str, ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    keys, public = key_files(tmp_path)
    target = tmp_path / "m.ms"
    assert ms_convert(exported("mlp"), "-o", target, "--sign", keys[form])[0] == 0
    lite_runtime.cli.inspect([str(target), "--verify", public])
    with pytest.raises(SystemExit):
        lite_runtime.cli.inspect([str(target), "--verify", "00" * 32])


def test_the_same_flags_give_the_same_bytes_in_any_process(
    exported: Exported, tmp_path: Path, calibration: Path
) -> None:
    code = "import sys; from converter.cli import main; sys.exit(main(sys.argv[1:]))"
    written = []
    for i in range(2):
        target = tmp_path / f"{i}" / "m.ms"
        target.parent.mkdir()
        argv = [
            str(exported("lenet")), "-o", str(target), "--quantize", "int8", "--calibration",
            str(calibration), "--train", "--trainable", "11.*", "--optimizer", "adam:lr=0.01",
        ]  # fmt: skip
        env = os.environ | {"PYTHONHASHSEED": str(i), "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", code, *argv], check=True, env=env, cwd=target.parent)
        written.append(target.read_bytes())
    assert main([*argv[:2], str(tmp_path / "third.ms"), *argv[3:]]) == 0
    assert written[0] == written[1] == (tmp_path / "third.ms").read_bytes()


def test_no_line_of_the_program_that_converts_is_in_the_file(
    ms_convert: Run, exported: Exported, tmp_path: Path
) -> None:
    target = tmp_path / "m.ms"
    ms_convert(exported("resnet18"), "-o", target, "--train", "--trainable", "classifier.*")
    entries = model_file.load(target).entries
    sources = {n.source for g in entries.values() for n in g.nodes}
    assert not [s for s in sources if ".py:" in s]
    assert "/classifier/Gemm" in sources


def test_help_shows_examples_and_version_a_number(ms_convert: Run) -> None:
    code, out, _ = ms_convert("--help")
    assert code == 0
    assert "examples:\n  ms-convert model.onnx" in out
    code, out, _ = ms_convert("--version")
    assert code == 0
    assert out.startswith("ms-convert 0.")


def test_a_target_without_kernels_is_refused_and_no_file_is_written(
    exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as e:
        main([str(exported("mlp")), "-o", str(tmp_path / "m.ms"), "--target", "vulkan"])
    assert e.value.code == 2
    assert capsys.readouterr().err.endswith("want cpu; the file to write is -o or --to\n")
    assert not list(tmp_path.iterdir())
    assert main([str(exported("mlp")), "--to", str(tmp_path / "m.ms"), "--target", "cpu"]) == 0
