# Every verb that people and CI run. `make help` lists them; each needs only Rust and Python 3.11+.
# Nothing is done twice: stamp files in the virtual environment remember what is installed and built.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check -q

# The interpreter decides how pyo3 is compiled; naming one for every cargo call keeps cargo from
# building everything again each time PATH differs.
export PYO3_PYTHON := $(abspath $(PY))

BASE := $(VENV)/.dmexp-base
DEV := $(VENV)/.dmexp-dev
NATIVE := $(VENV)/.dmexp-native
RUST := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

# A stamp is worth nothing when the library that it vouches for is gone.
ifeq ($(wildcard python/dmexp/_native*.so python/dmexp/_native*.pyd),)
.PHONY: $(NATIVE)
endif

.PHONY: help demo test test-rust test-python test-torch lint format bench bench-smoke exhaustive fuzz wheel clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dmexp needs Python 3.11 or later, this is %d.%d. Name another one: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

# pip 25.1 is the first to know dependency groups.
$(BASE): | $(VENV)/pyvenv.cfg
	$(PIP) install 'pip>=25.1' 'maturin>=1.9,<2'
	@touch $@

$(DEV): pyproject.toml $(BASE)
	$(PIP) install --group tests
	@touch $@

$(NATIVE): $(BASE) $(RUST) pyproject.toml
	PIP_QUIET=1 $(BIN)/maturin develop --release --quiet
	@touch $@

demo: $(NATIVE) ## export, inspect and verify the model in examples/
	@rm -rf demo && mkdir demo
	@run() { echo; echo "$$ $$*"; local program=$$1; shift; "$(BIN)/$$program" "$$@"; }; \
	run dmexp export examples/tiny-llama/model.safetensors -o demo/tiny-llama.bf16.dmexp; \
	run dmexp info demo/tiny-llama.bf16.dmexp; \
	run python examples/read_dmexp.py demo/tiny-llama.bf16.dmexp; \
	run dmexp verify demo/tiny-llama.bf16.dmexp

test: test-rust test-python ## all tests of both languages (minutes)

test-rust: $(BASE)
	cargo test --workspace --profile checked --quiet

test-python: $(DEV) $(NATIVE)
	$(PY) -m pytest -q

# PyTorch is several GB, so it has an environment of its own. The extension module in the tree is
# used from there as it is: abi3.
TORCH := .venv-torch
TORCH_PY := $(TORCH)/$(notdir $(BIN))/python

$(TORCH)/.dmexp-torch: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH_PY) -m pip install -q 'pip>=25.1'
	$(TORCH_PY) -m pip install -q --group tests torch numpy ml_dtypes tomli tomli-w rich
	@touch $@

test-torch: $(NATIVE) $(TORCH)/.dmexp-torch ## the tests that need PyTorch (installs it: several GB)
	PYTHONPATH=python $(TORCH_PY) -m pytest -q -m torch

exhaustive: $(DEV) $(NATIVE) ## every f32 against NumPy and ml_dtypes, on every tier (half an hour)
	$(PY) tests/exhaustive.py
	cargo run --release --quiet -p dmexp-core --example exhaustive

# What users install is what is measured: the built wheel, in an environment of its own, beside its
# peers. PyTorch comes from PyPI and takes several GB with what it depends on; BENCH_TORCH=no leaves
# it out, and the rows that compare with it.
BENCH := .venv-bench
BENCH_PY := $(BENCH)/$(notdir $(BIN))/python
BENCH_TORCH ?= yes

$(BENCH)/pyvenv.cfg:
	$(PYTHON) -m venv $(BENCH)
	$(BENCH_PY) -m pip install -q 'pip>=25.1'

$(BENCH)/.dmexp-torch: | $(BENCH)/pyvenv.cfg
	$(BENCH_PY) -m pip install -q 'torch>=2.4' || echo 'PyTorch cannot be had here.'
	@touch $@

$(BENCH)/.dmexp-bench: $(RUST) $(wildcard python/dmexp/*.py python/dmexp/*/*.py) pyproject.toml | $(BENCH)/pyvenv.cfg $(BASE)
	$(BENCH_PY) -m pip install -q '.[bench]'
	@touch $@

BENCH_READY := $(BENCH)/.dmexp-bench $(if $(filter yes,$(BENCH_TORCH)),$(BENCH)/.dmexp-torch)
BENCH_RUN := $(BENCH_PY) bench/run.py

bench: $(BENCH_READY) ## measure against the peers, on a quiet machine (installs PyTorch, several GB)
	$(BENCH_RUN) --results bench/results
	$(BENCH_PY) bench/bench_decode.py

bench-smoke: $(BENCH_READY) ## run every benchmark once on next to nothing, without a verdict
	$(BENCH_RUN) --smoke

FUZZ_MINUTES ?= 10

fuzz: $(DEV) $(NATIVE) ## mutate files for each parser, FUZZ_MINUTES=10 for each
	cd tests && $(abspath $(PY)) -m fuzz.fuzz_gguf --minutes $(FUZZ_MINUTES)
	cd tests && $(abspath $(PY)) -m fuzz.fuzz_safetensors --minutes $(FUZZ_MINUTES)

lint: $(DEV) $(NATIVE) ## rustfmt, clippy, ruff, mypy, and the stub against the binary
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PY) -m mypy.stubtest dmexp._native

format: $(DEV) ## rewrite the sources as `make lint` wants them
	cargo fmt --all
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

wheel: $(BASE) ## the wheel for this platform and the sdist, into dist/
	$(BIN)/maturin build --release --strip --sdist --out dist

clean: ## remove what was built (the virtual environment stays)
	cargo clean
	rm -rf demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f python/dmexp/_native*.so python/dmexp/_native*.pyd $(NATIVE)
	find python tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
