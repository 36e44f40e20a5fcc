.DEFAULT_GOAL := help
.PHONY: help setup demo page test test-fast test-live check lint package marketplace-check bench

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
export PYTHON

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## a virtual environment in .venv with everything (PYTHON=/path chooses the Python 3.12)
	@echo "$(VENV) is ready"

$(READY): requirements.txt requirements-dev.txt
	@scripts/install $(VENV) requirements-dev.txt
	@touch $@

demo: $(READY) ## the chatflow template for three questions, then a report on a question table (in demo_report/)
	@$(RUN) -m devhost.demo

page: $(READY) ## the results page with sample runs, on a local address
	@$(RUN) -m tests.pages

test: $(READY) ## all tests that need no real judge (ARGS="-k name" selects)
	@$(RUN) -m pytest -n 4 --dist loadfile $(ARGS)

test-fast: $(READY) ## the tests of core, bridge and metadata, which start no process: under a minute
	@$(RUN) -m pytest tests/evaluation tests/bridge tests/test_metadata.py tests/test_documents.py $(ARGS)

test-live: $(READY) ## the tests that ask a real judge
	@$(RUN) -m pytest -m live $(ARGS)

check: $(READY) ## style, formatting and types; changes nothing
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

lint: $(READY) ## repairs what ruff can repair, and formats
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

package: $(READY) ## dist/rag_evaluator-<version>.difypkg, ready to install in Dify, and the templates
	@$(RUN) -m devhost.package

marketplace-check: $(READY) ## the built package by the rules of Dify's marketplace, its install test included
	@$(RUN) -m devhost.marketplace --install

bench: $(READY) ## speed, calls, prompt size and memory; how often intervals and signs are right
	@$(RUN) -m benchmarks
