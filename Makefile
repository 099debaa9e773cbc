PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
QUESTION ?= How does a run end when the iteration limit is reached, and what is 17 * 23?
MODEL ?= offline
export LITELLM_LOCAL_MODEL_COST_MAP := True

.DEFAULT_GOAL := help
.PHONY: help install demo test explore lint types bench docs clean

help: ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

install: $(INSTALLED) ## Make .venv with the project and its development tools

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(INSTALLED) ## Let an agent answer a question about the documents in docs/ (QUESTION=…, MODEL=…)
	$(BIN)/reactive-agents run "$(QUESTION)" --model $(MODEL) --strategy reactive \
		--tools calculator,file-search,file-read --workspace docs

test: $(INSTALLED) ## Run all tests, and see that they cover the code
	$(BIN)/python -m pytest -q --numprocesses=auto --dist=loadfile --cov --cov-report=term:skip-covered

explore: $(INSTALLED) ## Look for new examples that break the laws of property_tests/
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -q --numprocesses=auto --dist=loadfile property_tests

lint: $(INSTALLED) ## Check style and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(INSTALLED) ## Check types
	$(BIN)/mypy
	$(BIN)/pyright

bench: $(INSTALLED) ## Measure what the framework costs beside a bare loop; writes bench.json
	$(BIN)/python -m tests.benchmarks

docs: $(INSTALLED) ## Bring the README's output up to date, write the API reference to build/docs
	$(BIN)/python -m tests.docs.readme
	$(BIN)/pdoc --output-directory build/docs reactive_agents

clean: ## Remove .venv and everything that can be made again
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage bench.json build
