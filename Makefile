# Thin names for single commands. Each works on a bare clone: the environment is made where it is missing.
PYTHON ?= python3
# To try other versions than the tested ones: make CONSTRAINTS= test
CONSTRAINTS ?= -c constraints.txt
WORKERS ?= 2
# Files or folders of tests; without any, all: make test TESTS=tests/unit/base
TESTS ?=
# One more than the cores: the tests of SLURM and of killed commands wait more than they compute.
TEST_WORKERS ?= $(shell expr $(WORKERS) + 1)
# Flags of the report: make gpu-report GPU_REPORT=--prediction-only
GPU_REPORT ?=
BIN := .venv/bin
# A worker that is done takes over tests from the end of another's; so what a file's tests share is made once.
PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false CUDA_VISIBLE_DEVICES= \
  $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

.PHONY: help environment quickstart test test-ci test-all transformers-tests notebook gpu-report slurm-packages check format docs clean-environment
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-20s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

environment: .venv/installed ## make .venv with the tested versions

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, and $(PYTHON) is older; name another with: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check $(CONSTRAINTS) -e ".[torch,dev]"
	@touch $@

quickstart: environment ## a complete small study on the embedded corpus; its last line is the report's path
	$(BIN)/ffn-ablations study run configs/studies/quickstart.yaml --cluster local --workers $(WORKERS) --cells-per-job 3

test: environment ## the fast tests: CPU only, offline; those of SLURM are skipped where it is not installed
	$(PYTEST) $(TESTS)

test-ci: environment ## those that take longer, and those on real texts; CI runs them after the fast ones
	$(PYTEST) -m "(ci or data) and not slow and not gpu and not network" $(TESTS)

test-all: environment ## all of them, the slow ones too
	$(PYTEST) -m "not gpu and not network" --hypothesis-profile=thorough

transformers-tests: environment ## transformers' own tests of models, on this project's classes; needs the package index
	$(PYTEST) -m slow tests/upstream

notebook: environment ## execute examples/quickstart.ipynb and the code of docs/python.md, and look at what they show
	$(PYTEST) -n 0 -m "slow or not slow" tests/integration/test_python_page.py -k "notebook or page_runs"

gpu-report: environment ## on a machine with a GPU: predict, test, measure, and write it all into gpu-report.md
	$(BIN)/python -m benchmarks.gpu.report $(GPU_REPORT)

slurm-packages: ## install what tests/slurm needs to start a SLURM of its own; as root, on Debian or Ubuntu
	-apt-get update
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge

check: environment ## format, lint, types, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/codespell

format: environment ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: environment ## build the documents as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean-environment: ## remove .venv
	rm -rf .venv
