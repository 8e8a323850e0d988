"""How large the library is, what it needs and shows; what a build for chosen models leaves out."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ir import model_file
from ir.graph import Graph, Model, Value
from ir.op import OPS
from ir.operators import main, operators
from tests.helpers import ROOT
from tests.lite_runtime.models import control_models, linear_model, small_cnn
from tests.native import model_build, native_build, one_isa_build, run_tool

pytestmark = pytest.mark.timeout(900)  # with the build
CONSUMER = Path(__file__).parent / "consumer"
C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


@pytest.fixture(scope="module")
def shared() -> Path:
    """The library with all kernels, as a shared one."""
    return native_build("lite_shared") / "lite_runtime/liblite.so"


@pytest.fixture(scope="module")
def chosen() -> Path:
    """The same with the kernels that two small models want, one of them a CNN that trains."""
    folder = ROOT / "build/check-models"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, model in (("line", linear_model()), ("cnn", small_cnn())):
        paths.append(folder / f"{name}.ms")
        if not paths[-1].exists() or paths[-1].read_bytes() != model_file.write(model):
            model_file.save(model, paths[-1])
    return model_build(*paths) / "lite_runtime/liblite.so"


def output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def stripped_bytes(library: Path, where: Path) -> int:
    output("strip", "-o", where / "stripped.so", library)
    return (where / "stripped.so").stat().st_size


def test_the_library_is_small_and_needs_the_c_library_alone(shared: Path, tmp_path: Path) -> None:
    assert stripped_bytes(shared, tmp_path) <= 1_300_000  # with every instruction set
    one_isa = one_isa_build() / "lite_runtime/liblite.so"
    assert stripped_bytes(one_isa, tmp_path) <= 1_000_000
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", shared)))
    assert "libc.so.6" in needed
    assert needed <= C_LIBRARY


def test_the_library_shows_its_own_functions_alone(shared: Path) -> None:
    lines = output("nm", "-D", "--defined-only", shared).splitlines()
    names = [line.split()[-1] for line in lines]
    assert "lite_open" in names
    assert [n for n in names if not n.startswith("lite_")] == []


def test_a_program_in_c_links_the_static_library_without_that_of_c_plus_plus(
    tmp_path: Path,
) -> None:
    library = native_build("lite") / "lite_runtime/liblite.a"
    if not shutil.which("cc"):
        pytest.skip("cc is missing")
    include = ROOT / "lite_runtime/include"
    run_tool(
        "cc", "-std=c99", f"-I{include}", str(CONSUMER / "train.c"), str(library), "-lm",
        "-pthread", "-o", str(tmp_path / "train"),
    )  # fmt: skip
    assert trains(tmp_path / "train", tmp_path)


def trains(program: Path, where: Path) -> bool:
    """Whether `consumer/train.c` does what it says."""
    model_file.save(linear_model(), where / "line.ms")
    return output(program, where / "line.ms", where / "saved.ms").startswith("loss ")


def test_a_build_for_models_is_smaller_and_runs_them(chosen: Path, tmp_path: Path) -> None:
    assert stripped_bytes(chosen, tmp_path) <= 300_000
    include = ROOT / "lite_runtime/include"
    run_tool(
        "cc", "-std=c99", f"-I{include}", str(CONSUMER / "train.c"), f"-L{chosen.parent}", "-llite",
        f"-Wl,-rpath,{chosen.parent}", "-o", str(tmp_path / "train"),
    )  # fmt: skip
    assert trains(tmp_path / "train", tmp_path)


def test_a_build_for_models_refuses_others_in_words(chosen: Path, tmp_path: Path) -> None:
    x = Value((2,), name="x")
    model_file.save(Model({"infer": Graph((x,), (OPS["tanh"](x),))}), path := tmp_path / "tanh.ms")
    lite = ctypes.CDLL(str(chosen))
    lite.lite_last_error.restype = ctypes.c_char_p
    session, room = ctypes.c_void_p(), ctypes.create_string_buffer(256)
    assert lite.lite_open(str(path).encode(), None, ctypes.byref(session), room, 256) == 0
    assert lite.lite_memory_info(session, 0, ctypes.create_string_buffer(64)) == 3  # LITE_NO_KERNEL
    assert b"): no kernel in this build" in lite.lite_last_error(session)
    lite.lite_close(session)


def test_an_operator_that_there_is_not_ends_the_build(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no operator tahn"):
        run_tool(
            "cmake", "-S.", f"-B{tmp_path}", "-GNinja", "-DLITE_PYTHON=OFF", "-DLITE_OPERATORS=tahn"
        )


def test_the_operators_of_a_file_are_those_of_all_its_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = Value((2,), name="x")
    model_file.save(Model({"infer": Graph((x,), (OPS["tanh"](x),))}), tmp_path / "a.ms")
    model_file.save(control_models()[1], tmp_path / "b.ms")  # a recursion
    assert main([str(tmp_path / "a.ms"), str(tmp_path / "b.ms")]) == 0
    assert capsys.readouterr().out.split() == sorted({"tanh"} | operators(control_models()[1]))
    assert {"call", "cond", "cast", "mul"} <= operators(control_models()[1])
    assert main([str(tmp_path / "none.ms")]) == 1
    assert "none.ms" in capsys.readouterr().err
