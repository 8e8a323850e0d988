"""Fuzz the runtime with libFuzzer: `python -m tests.lite_runtime.fuzz [RUNS]`, or `make fuzz`.

Builds lite_runtime/tools/fuzz_model.cc with clang, writes a corpus of small models to
out/fuzz/corpus, where libFuzzer adds what it finds, and runs RUNS files more. Ends with 1 and the
file's path where one crashes, hangs, leaks or reads what is not its own.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT
from tests.lite_runtime.mutations import originals
from tests.native import fuzz_build

FOLDER = ROOT / "out/fuzz"
SECONDS_EACH = 10
MOST_BYTES = 1 << 14  # of a file: small ones run fast


def clang() -> str | None:
    """The newest clang++ on the path that has libFuzzer, or None."""
    names = [*(f"clang++-{n}" for n in range(25, 13, -1)), "clang++"]
    return next((n for n in names if shutil.which(n) and _has_libfuzzer(n)), None)


def _has_libfuzzer(compiler: str) -> bool:
    program = 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
    words = [compiler, "-xc++", "-fsanitize=fuzzer,address", "-", "-o", "/dev/null"]
    return subprocess.run(words, input=program, capture_output=True, text=True).returncode == 0


def write_corpus(folder: Path) -> int:
    """The small files among those of `mutations`, named by their hashes; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [f for f in originals() if len(f) <= MOST_BYTES]
    for file in files:
        (folder / hashlib.sha256(file).hexdigest()[:16]).write_bytes(file)
    return len(files)


def fuzz(program: Path, runs: int, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Run so many files; what libFuzzer says is in `stderr`, files that fail are in `folder`."""
    write_corpus(folder / "corpus")
    options = {
        "runs": runs, "max_len": MOST_BYTES, "timeout": SECONDS_EACH, "rss_limit_mb": 2048,
        "len_control": 0, "artifact_prefix": f"{folder}/", "print_final_stats": 1,
    }  # fmt: skip
    words = [f"-{k}={v}" for k, v in options.items()]
    command = [str(program), *words, str(folder / "corpus")]
    return subprocess.run(command, capture_output=True, text=True)


def main(runs: int) -> int:
    compiler = clang()
    if compiler is None:
        print("fuzz: no clang++ (apt-get install clang-19 libclang-rt-19-dev)", file=sys.stderr)
        return 1
    done = fuzz(fuzz_build(compiler) / "bin/fuzz_model", runs)
    (FOLDER / "log.txt").write_text(done.stderr)
    stats = re.findall(r"stat::(\w+): +(\d+)", done.stderr)
    print(", ".join(f"{name} {number}" for name, number in stats))
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-60:]), file=sys.stderr)
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
