"""Array files that lie, and names that would reach a terminal."""

from __future__ import annotations

import io
import os
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ir import model_file
from ir.graph import Graph, Model, Value
from lite_runtime import LiteError, cli
from lite_runtime.console import printable
from lite_runtime.files import read_array, read_arrays
from tests.helpers import ROOT

NESTED = "(" * 3000


def header(text: str) -> bytes:
    data = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data


def described(descr: str, shape: str) -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}")


HOSTILE = {
    "empty": b"",
    "no header": b"\x93NUMPY\x01\x00",
    "another version": b"\x93NUMPY\x09\x00" + bytes(100),
    "open bracket": header("{'descr': ("),
    "nested": header(NESTED),
    "no such type": described("'<q9'", "(2,)"),
    "pickled": described("'|O'", "(1,)") + b"cos\nsystem\n",
    "more than there is": described("'<f4'", f"({2**40},)") + bytes(64),
    "more than a number holds": described("'<f4'", f"({2**63}, {2**63})") + bytes(64),
    "large elements": described("'|V2147483647'", "(1000,)") + bytes(64),
    "negative": described("'<f4'", "(-4,)") + bytes(64),
    "shape of strings": described("'<f4'", "('a',)") + bytes(64),
}


def archive(data: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        file.writestr("x.npy", data)
    return out.getvalue()


@pytest.fixture
def little_memory():
    """What is declared must not be taken: 4 GiB of addresses more than now are all there is."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**32, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, old)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", HOSTILE)
def test_an_array_file_that_lies_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(HOSTILE[name])
    with pytest.raises(LiteError, match=r"x\.npy: not a \.npy file \([^\n]+\)$"):
        read_array(tmp_path / "x.npy")
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        (tmp_path / "x.npz").write_bytes(archive(HOSTILE[name], compression))
        with pytest.raises(LiteError, match=r"x\.npz: not an \.npz file of arrays \([^\n]+\)$"):
            read_arrays(tmp_path / "x.npz")


def damaged_archives() -> dict[str, bytes]:
    good = io.BytesIO()
    np.savez(good, x=np.arange(9))
    whole = good.getvalue()
    directory = whole.rindex(b"PK\x01\x02")
    encrypted = bytearray(whole)
    encrypted[directory + 8] |= 1
    wrong_sum = bytearray(whole)
    wrong_sum[directory + 16] ^= 1
    return {
        "cut": whole[:-30],
        "encrypted": bytes(encrypted),
        "wrong sum": bytes(wrong_sum),
        "no archive": b"PK\x03\x04" + bytes(100),
        "text": archive(b"this is no array at all"),
    }


@pytest.mark.parametrize("name", damaged_archives())
def test_a_damaged_archive_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(damaged_archives()[name])
    with pytest.raises(LiteError, match=r"x\.npz: not an \.npz file of arrays \([^\n]+\)$"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.usefixtures("little_memory")
def test_an_archive_and_its_array_may_agree_on_a_lie(tmp_path: Path) -> None:
    data = bytearray(archive(described("'<f4'", f"({2**29},)") + bytes(64)))
    for place in (data.index(b"PK\x03\x04") + 22, data.rindex(b"PK\x01\x02") + 24):
        data[place : place + 4] = struct.pack("<I", 2**31 + 128)
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(LiteError, match=r"x\.npz: not an \.npz file of arrays"):
        read_arrays(tmp_path / "x.npz")


def test_a_small_archive_of_many_zeros_is_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(2**18), b=np.zeros(2**18))
    assert (tmp_path / "x.npz").stat().st_size < 2**14
    with pytest.raises(LiteError, match="2097152 bytes, 2097151 at most are read"):
        read_arrays(tmp_path / "x.npz", most_bytes=2**22 - 1)
    assert set(read_arrays(tmp_path / "x.npz", most_bytes=2**22)) == {"a", "b"}


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3).T, np.zeros((0, 3)), np.float16(2)])
def test_arrays_come_back_as_they_were(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", y=array, z=[True])
    np.testing.assert_array_equal(read_array(tmp_path / "x.npy"), array)
    found = read_arrays(tmp_path / "x.npz")
    np.testing.assert_array_equal(found["y"], array)
    assert found["z"].dtype == bool


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(LiteError, match=r"/dev/zero: a device or a pipe, want a file"):
        read_array("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LiteError, match="pipe: a device or a pipe"):
        read_arrays(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        read_array(tmp_path)


def test_only_what_shows_itself_is_printed() -> None:
    assert printable("größe ×2") == "größe ×2"
    assert printable("\x1b]0;owned\x07\x9b31m") == "\\x1b]0;owned\\x07\\x9b31m"
    assert printable("a\nsignature   by me, valid") == "a\\nsignature   by me, valid"
    assert printable("\u202egnp.exe\u2028\ud800\t") == "\\u202egnp.exe\\u2028\\ud800\\t"


# The format lets no other control characters into names, and into metadata line ends besides.
EVIL = "x\x9b2J\u202e"


@pytest.fixture
def evil_model(tmp_path: Path) -> Path:
    from ir.op import OPS

    x = Value((2,), name=EVIL)
    node = OPS["relu"].node([x], {}, source=EVIL)
    graph = Graph((x,), node.results, (EVIL,))
    model = Model({"infer": graph, EVIL: graph}, {EVIL: f"{EVIL}\nsignature   by me, valid"})
    model_file.save(model, tmp_path / "m.ms")
    return tmp_path / "m.ms"


def test_names_in_a_model_file_do_not_reach_the_terminal(
    evil_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    np.save(tmp_path / "y.npy", np.ones(3, np.float32))
    path = str(evil_model)
    cli.inspect([path, "--graph", str(tmp_path / "m.svg")])
    cli.run([path, "--input", str(tmp_path / "x.npy")])
    cli.bench([path, "--runs", "1", "--entry", EVIL, "--profile"])
    for arguments in (["--input", str(tmp_path / "y.npy")], ["--entry", "none"], []):
        with pytest.raises(SystemExit):
            cli.run([path, *arguments])
    out, err = capsys.readouterr()
    assert "metadata    x\\x9b2J\\u202e: x\\x9b2J\\u202e\\nsignature   by me, valid\n" in out
    assert len(err.splitlines()) == 3
    for text in (out, err):
        assert text.replace("\n", "").isprintable()
        assert "\nsignature   by me" not in text


@pytest.mark.parametrize(
    "program", ["lite_runtime.cli import inspect", "converter.cli import main"]
)
@pytest.mark.parametrize("target", ["/dev/full", None])
def test_a_standard_output_that_takes_nothing_is_one_line(
    program: str, target: str | None, evil_model: Path, tmp_path: Path
) -> None:
    module, name = program.split(" import ")
    arguments = [str(evil_model)] + (["-o", str(tmp_path / "o.ms")] if name == "main" else [])
    code = f"import sys; from {module} import {name} as f; sys.exit(f({arguments!r}))"
    with open(target or os.devnull, "w") as out:
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" -c "$1" {"" if target else ">&-"}', sys.executable, code],
            stdout=out, stderr=subprocess.PIPE, text=True, timeout=60, cwd=ROOT,
        )  # fmt: skip
    if target:
        assert done.returncode == 1
        assert done.stderr.endswith(": No space left on device\n")
        assert done.stderr.count("\n") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")


def test_a_session_that_outlives_the_interpreter_says_nothing(tmp_path: Path) -> None:
    path, x = tmp_path / "model.ms", Value((2,), name="x")
    model_file.save(Model({"run": Graph((x,), (x + x,))}), path)
    code = (
        "import threading, lite_runtime as lite\n"
        "wait = lambda session: threading.Event().wait()\n"
        f"threading.Thread(target=wait, args=[lite.load({str(path)!r})], daemon=True).start()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
