# make bench: from nothing to signed, verified, reproduced records. make test: the whole suite.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= runs/bench

.PHONY: bench test test-agents check lint lock benchmark fuzz engine images services services-stop clean

bench: $(VENV)/.ready engine images
	BIN=$(BIN) OUT=$(OUT) scripts/bench

test: $(VENV)/.ready engine images check
	BIN=$(BIN) REQUIRE='$(REQUIRE)' scripts/test $(TESTS)

# The real agents, each in its image; AGENTS='codex qwen' for some. Not part of `make test`: 0.8 GB of downloads, once.
test-agents: $(VENV)/.ready engine images
	BIN=$(BIN) scripts/test-agents $(AGENTS)

check lint: $(VENV)/.ready
	$(BIN)/ruff check appliance attest tests
	$(BIN)/ruff format --check appliance attest tests
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: $(VENV)/.ready engine images
	$(BIN)/python -m tests.benchmarks
	$(BIN)/python -m tests.benchmarks.attest_figures
	$(BIN)/python -m tests.benchmarks.meter_cost
	$(BIN)/python -m tests.benchmarks.gateway_cost

# Every bit of a bundle, then FUZZ_SECONDS (60) of each reader: FUZZ='bundle policy' for some of them.
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m pytest -m fuzz tests
	$(BIN)/python -m tests.fuzz $(FUZZ)

# atheris guides the search by coverage where it installs; elsewhere hypothesis draws inputs.
$(VENV)/.fuzz: $(VENV)/.ready requirements-fuzz.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-fuzz.lock || echo 'no atheris here: hypothesis instead'
	touch $@

engine:
	@scripts/engine

# The real Sigstore services, built once and left running on loopback; needs Go.
services: $(VENV)/.ready
	BIN=$(BIN) scripts/services start

services-stop:
	BIN=$(BIN) scripts/services stop

images: $(VENV)/.ready engine
	$(BIN)/appliance images load base c node

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: PYTHON=/path/to/python3.11 make ...")'
	@echo 'installing the locked dependencies into $(VENV) (a minute or two)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# The locks hold versions and hashes, never an address: any index that serves the same bytes will do.
lock:
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --allow-unsafe --no-header -o requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --allow-unsafe --no-header --all-extras -o requirements-dev.lock pyproject.toml requirements-dev.in
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header -o requirements-fuzz.lock requirements-fuzz.in

clean:
	rm -rf $(VENV) runs build dist
