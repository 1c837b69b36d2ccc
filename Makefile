# Thin names for single commands. Each works on a bare clone: the environment is made where it is missing.
PYTHON ?= python3
# To try other versions than the tested ones: make CONSTRAINTS= test
CONSTRAINTS ?= -c constraints.txt
WORKERS ?= 2
# Files or folders of tests; without any, all: make test TESTS=tests/unit/base
TESTS ?=
# Of make test and make mutants. 1: what differs from the main branch; or files: make test CHANGED=report/page.py
CHANGED ?=
# One more than the cores: the tests of SLURM and of killed commands wait more than they compute.
TEST_WORKERS ?= $(shell expr $(WORKERS) + 1)
# Flags of the comparison: make bench BENCH="v0.1.0 --rounds 9"
BENCH ?=
# Flags of the report: make gpu-report GPU_REPORT=--prediction-only
GPU_REPORT ?=
# Another environment: make VENV=.venv-312 PYTHON=python3.12 test
VENV ?= .venv
BIN := $(VENV)/bin
OFFLINE := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false CUDA_VISIBLE_DEVICES=
# A worker that is done takes over tests from the end of another's; so what a file's tests share is made once.
PYTEST := $(OFFLINE) $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

.PHONY: help environment quickstart test mutants test-ci test-all test-lowest test-newest bench hooks transformers-tests notebook gpu-report slurm-packages check format docs clean-environment
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-20s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

environment: $(VENV)/installed ## make .venv with the tested versions

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, and $(PYTHON) is older; name another with: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check $(CONSTRAINTS) -e ".[torch,dev]"
	@touch $@

quickstart: environment ## a complete small study on the embedded corpus; its last line is the report's path
	$(BIN)/ffn-ablations study run configs/studies/quickstart.yaml --cluster local --workers $(WORKERS)

test: environment ## the fast tests: CPU only, offline; with CHANGED=1 those that import what you changed
ifeq ($(CHANGED),)
	$(PYTEST) $(TESTS)
else
	$(OFFLINE) $(BIN)/python -m tests.changed $(CHANGED)
endif

mutants: environment ## small changes of the lines you changed (or of CHANGED="files"): which no test notices
	$(OFFLINE) $(BIN)/python -m benchmarks.mutants $(filter-out 1,$(CHANGED))

test-ci: environment ## those that take longer, and those on real texts; CI runs them after the fast ones
	$(PYTEST) -m "(ci or data) and not slow and not gpu and not network" $(TESTS)

test-all: environment ## all of them, the slow ones too
	$(PYTEST) -m "not gpu and not network" --hypothesis-profile=thorough

# What a newer or older library says of its own future is no mistake of ours, and constraints.txt is of others.
OTHER_VERSIONS := -W default --deselect tests/unit/test_dependencies.py::test_everything_that_is_installed_is_pinned_and_allowed
test-lowest: ## the fast tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	@mkdir -p .venv-lowest
	$(PYTHON) .ci/lowest.py > .venv-lowest/constraints.txt
	PYTEST_ADDOPTS="$(OTHER_VERSIONS)" $(MAKE) VENV=.venv-lowest CONSTRAINTS="-c .venv-lowest/constraints.txt" test

test-newest: ## the fast tests with the newest versions that the package index has, in .venv-newest
	PYTEST_ADDOPTS="$(OTHER_VERSIONS)" $(MAKE) VENV=.venv-newest CONSTRAINTS= test

transformers-tests: environment ## transformers' own tests of models, on this project's classes; needs the package index
	$(PYTEST) -m slow tests/upstream

notebook: environment ## execute examples/quickstart.ipynb and the code of docs/python.md, and look at what they show
	$(PYTEST) -m "ci or slow" tests/integration/test_python_page.py -k "notebook or page_runs"

bench: environment ## how fast this checkout is beside the last release: ratios, appended to benchmarks/ratios.csv
	$(OFFLINE) $(BIN)/python -m benchmarks.two_checkouts --append benchmarks/ratios.csv $(BENCH)

gpu-report: environment ## on a machine with a GPU: what works and how fast, in 15 minutes, into gpu-report.md
	$(BIN)/python -m benchmarks.gpu.report $(GPU_REPORT)

slurm-packages: ## install what tests/slurm needs to start a SLURM of its own; as root, on Debian or Ubuntu
	-apt-get update
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge

check: environment ## format, lint, types, spelling, what GitHub reads
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/codespell
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $$(ls .github/ISSUE_TEMPLATE/*.yml | grep -v config)
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

hooks: environment ## let git run the checks before each commit
	$(BIN)/pre-commit install

format: environment ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: environment ## build the documents as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean-environment: ## remove .venv and those of other versions
	rm -rf .venv .venv-lowest .venv-newest
