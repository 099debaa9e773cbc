PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPMENT := $(VENV)/.installed-dev
AUDIT := .venv-audit
OLDEST := .venv-oldest
AUDIT_OPTIONS ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK_OPTIONS := --no-deps --require-hashes -r requirements-dev.lock
# a worker that crashes or hangs is named and not replaced: what it left would be waited for without end
PYTEST := $(BIN)/python -m pytest -q --max-worker-restart=0
# each kills so many processes that it may take more than the time after which a test counts as hanging
CRASHES := $(BIN)/python -m pytest -q -rP -o faulthandler_timeout=7200
# one more than processors: some tests wait for servers, processes and the disk
WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
# two more in system tests, which wait longer
SYSTEM_WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 2)')
# those that take longest come first, so that no worker is left alone with one at the end
SYSTEM_TESTS = $(shell grep --recursive --files-with-matches --include='test_*.py' mark.system property_tests tests | sort)
QUESTION ?= How does a run end when the iteration limit is reached, and what is 17 * 23?
MODEL ?= offline
export LITELLM_LOCAL_MODEL_COST_MAP := True
# the tests start many processes: where none may keep what it compiled, each compiles the package again
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo studio screenshots test oldest requests system crash explore mutants lint types mypy pyright audit collections lock lab bench bench-serving bench-peers docs clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 13

install: $(INSTALLED) ## Make .venv with what a user of the package needs

install-dev: $(DEVELOPMENT) ## Add the development tools to .venv; LOCKED=yes in the versions of the lock, by their hashes

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(DEVELOPMENT): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifdef LOCKED
	grep '^uv==' requirements-dev.lock | $(PIP) --no-deps --require-hashes -r /dev/stdin
	$(BIN)/uv pip install $(LOCK_OPTIONS) --quiet --compile-bytecode --python $(BIN)/python || \
	    $(PIP) $(LOCK_OPTIONS)  # where pip is configured for another index, which uv does not read
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check --disable-pip-version-check  # nothing was resolved: the lock must be complete
else
	$(PIP) -e '.[dev]'
endif
	@touch $(INSTALLED) $@

demo: $(INSTALLED) ## Let an agent answer a question about the documents in docs/ (QUESTION=…, MODEL=…)
	$(BIN)/reactive-agents run "$(QUESTION)" --model $(MODEL) --strategy reactive \
		--tools calculator,file-search,file-read --workspace docs

studio: $(DEVELOPMENT) ## Open the studio on a recorded example of each strategy; no key, no network
	$(BIN)/python -m tests.support.studio_runs

screenshots: $(DEVELOPMENT) ## Write the pictures of docs/studio.md again; needs Chromium
	$(BIN)/python -m tests.support.studio_pictures

test: $(DEVELOPMENT) ## Run the tests; COVERAGE=yes also fails below 90 % of the code, and takes half as long again
	$(PYTEST) -m 'not system' --numprocesses=$(WORKERS) --dist=worksteal $(if $(COVERAGE),--cov --cov-report=term:skip-covered)

oldest: $(DEVELOPMENT) ## Run the tests with the oldest versions of the libraries that pyproject.toml accepts
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(OLDEST)
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct -e '.[dev]'
	$(OLDEST)/bin/python -m pytest -q --max-worker-restart=0 -m 'not system' --numprocesses=$(WORKERS) --dist=worksteal

requests: $(DEVELOPMENT) ## Write the requests of strategies again, after a change of a prompt
	WRITE_REQUESTS=yes $(BIN)/python -m pytest -q tests/reasoning/test_requests.py

system: $(DEVELOPMENT) ## Run the tests with many processes, kills, a browser or a database server
	$(PYTEST) -m system --numprocesses=$(SYSTEM_WORKERS) --dist=loadfile --no-loadscope-reorder tests/system $(SYSTEM_TESTS)

crash: $(DEVELOPMENT) ## Kill durable runs, personas and writers of files many times, and count what is lost or done twice
	QUEUED_RUNS=1000 KILLED_STEPS=20 KILLED_EVERY=1 RESTARTED_EVERY=1 $(CRASHES) tests/system/test_durable_crashes.py tests/system/test_postgres_runs.py
	COMMIT_KILLS=50 PRUNE_KILLS=24 $(CRASHES) tests/system/test_crashes.py tests/system/test_prune_kills.py
	PERSONA_KILLS=100 $(CRASHES) tests/system/test_persona_kills.py tests/system/postgres/test_persona_kills.py
	PERSONA_KILL_POINTS=all $(CRASHES) tests/system/test_persona_kill_points.py

explore: $(DEVELOPMENT) ## Look for new examples that break the laws of property_tests/
	HYPOTHESIS_PROFILE=explore $(PYTEST) --numprocesses=auto --dist=worksteal property_tests

mutants: $(DEVELOPMENT) ## Plant 400 faults in the kernel and in planning, and count those that the tests find
	$(PIP) -e '.[mutants]'
	$(BIN)/python -m tests.mutants

lint: $(DEVELOPMENT) ## Check style and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: mypy pyright ## Check types; with -j2 by both checkers at once

mypy: $(DEVELOPMENT)
	$(BIN)/mypy

pyright: $(DEVELOPMENT)
	$(BIN)/pyright

lock: $(DEVELOPMENT) ## Write the versions and hashes of the development environment to requirements-dev.lock
	$(BIN)/python -m tests.lock_file

audit: $(AUDIT)/.installed ## Write build/sbom.json, and compare the lock with known vulnerabilities; OFFLINE=yes takes a list of 2021
	mkdir -p build
	$(AUDIT)/bin/cyclonedx-py requirements requirements-dev.lock --pyproject pyproject.toml -o build/sbom.json
ifdef OFFLINE
	@echo "NOT COMPARED with the database of vulnerabilities, as OFFLINE=yes asks, but with a list of 2021:"
	$(AUDIT)/bin/python tests/known_vulnerabilities.py requirements-dev.lock
else
	@rm -f build/vulnerabilities.json; status=0; \
	$(AUDIT)/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes \
	    $(AUDIT_OPTIONS) --format json --output build/vulnerabilities.json -r requirements-dev.lock || status=$$?; \
	if ! test -s build/vulnerabilities.json; then \
	    echo "NOT COMPARED: no answer of the database of vulnerabilities (pip-audit ended with $$status)." >&2; \
	    exit 2; \
	fi; \
	exit $$status
endif

$(AUDIT)/.installed: $(DEVELOPMENT)
	test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit cyclonedx-bom safety-db packaging
	@touch $@

collections: $(DEVELOPMENT) ## Measure the check for prompt injection on public collections, which are downloaded into build/
	$(BIN)/python -m tests.public_collections

lab: $(DEVELOPMENT) ## Measure how runs with simulated weak models end; writes docs/weak-models.md
	$(BIN)/python -m tests.lab --write

bench: $(DEVELOPMENT) ## Measure what the framework costs beside a bare loop; writes bench.json
	$(BIN)/python -m tests.benchmarks
	$(BIN)/python -m tests.benchmarks.durable

bench-serving: $(DEVELOPMENT) ## Measure what a server adds: requests, events, 500 streams at once
	$(BIN)/python -m tests.benchmarks.serving

bench-peers: $(DEVELOPMENT) ## Measure it beside Agno, which is installed into .venv-peers
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check agno
	$(BIN)/python -m tests.benchmarks.peers

docs: $(DEVELOPMENT) ## Bring the README's output up to date, write the documentation site to build/docs
	$(BIN)/python -m tests.docs.readme
	$(BIN)/python -m tests.docs.site

clean: ## Remove .venv and everything that can be made again
	rm -rf $(VENV) .venv-peers .venv-audit .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage bench.json build
