"""Build C++ targets for tests, in folders that are kept between runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGES = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
CLANG = "/usr/lib/llvm-19/lib/clang/19"
WASM_PACKAGES = {
    "clang++-19": "clang-19",
    "wasm-ld-19": "lld-19",
    "node": "nodejs",
    "/usr/lib/wasm32-wasi/libc.a": "wasi-libc",
    "/usr/lib/wasm32-wasi/libc++abi.a": "libc++abi-19-dev-wasm32",
    "/usr/lib/wasm32-wasi/libc++.a": "libc++-19-dev-wasm32",
    f"{CLANG}/lib/wasi/libclang_rt.builtins-wasm32.a": "libclang-rt-19-dev-wasm32",
}


def native_build(target: str) -> Path:
    """The build folder for this machine, once it holds the target; programs are in `bin`."""
    return _build("native", target)


def one_isa_build() -> Path:
    """The build folder of a shared library with the kernels of one instruction set beside `ref`."""
    return _build(
        "isa", "lite", "-DBUILD_SHARED_LIBS=ON", "-DLITE_TOOLS=OFF", "-DLITE_ISAS=avx2;neon"
    )


def model_build(*models: Path) -> Path:
    """The build folder of a shared library with the kernels of these model files alone, and of one
    instruction set."""
    return _build(
        "model", "lite", "-DBUILD_SHARED_LIBS=ON", "-DLITE_TOOLS=OFF", "-DLITE_ISAS=avx2;neon",
        f"-DLITE_MODEL={';'.join(map(str, models))}",
    )  # fmt: skip


def fuzz_build(compiler: str) -> Path:
    """The build folder of `fuzz_model` by that clang++, with AddressSanitizer and UBSan."""
    return _build(
        "fuzz", "fuzz_model", "-DLITE_FUZZ=ON", "-DLITE_WERROR=OFF", "-DLITE_ISAS=avx2;neon",
        f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_C_COMPILER={compiler.replace('++', '')}",
    )  # fmt: skip


def sanitized_build(sanitizer: str, target: str) -> Path:
    """The same with one of the compiler's sanitizers: "thread", or "address,undefined"."""
    name = sanitizer.partition(",")[0]
    return _build(
        name, target, f"-DLITE_SANITIZE={sanitizer}", "-DLITE_ISAS=avx2;neon", "-DLITE_WERROR=OFF"
    )


def aarch64_build(target: str) -> Path:
    """The same for AArch64: programs run under qemu-aarch64. Skips the test without the tools."""
    _need(PACKAGES)
    return _build("aarch64", target, "-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake")


def wasm_build(target: str) -> Path:
    """The same for WebAssembly: modules run in Node. Skips the test without the tools."""
    _need(WASM_PACKAGES)
    return _build("wasm", target, "-DCMAKE_TOOLCHAIN_FILE=cmake/wasm.cmake")


def run_tool(*command: str) -> None:
    """Run a command of this Python's environment, which has cmake and ninja."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _need(packages: dict[str, str]) -> None:
    missing = {p: t for t, p in packages.items() if not (shutil.which(t) or Path(t).is_file())}
    if missing:
        tools = ", ".join(missing.values())
        pytest.skip(f"missing: {tools}; apt-get install {' '.join(missing)}")


@cache  # a build is looked at once in a process
def _build(name: str, target: str, *options: str) -> Path:
    folder = ROOT / "build" / f"check-{name}"
    python = f"-DPython_EXECUTABLE={sys.executable}"
    with _alone(folder.with_suffix(".lock")):
        run_tool("cmake", "-S.", f"-B{folder}", "-GNinja", "-DLITE_PYTHON=OFF", python, *options)
        run_tool("cmake", "--build", str(folder), "--target", target)
    return folder


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Holds the lock: tests run in several processes, and each builds what it finds missing."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
