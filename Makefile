# `make help` lists the targets. Everything runs from .venv, which the first of them makes.
SHELL := /bin/bash
BIN := .venv/bin
STAMP := .venv/.stamp
.DEFAULT_GOAL := help
.PHONY: help setup demo test smoke check bench clients constraints wheel clean

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(STAMP) ## .venv with both projects editable, third parties by version and hash (PYTHON=python3.12 chooses)

$(STAMP): pyproject.toml packaging/pyproject.toml packaging/hatch_build.py packaging/setup.sh constraints.txt
	@PYTHON="$(PYTHON)" packaging/setup.sh

demo: $(STAMP) ## make a small corpus, build it, verify it, say what was made and where
	$(BIN)/python -m pipelines.demo

test: $(STAMP) ## all tests but the whole-pipeline runs, on all cores
	$(BIN)/python -m pytest -m "not smoke" --numprocesses auto --dist loadfile

smoke: $(STAMP) ## the whole-pipeline runs: one at a time, since each takes all cores
	$(BIN)/python -m pytest -m smoke

check: $(STAMP) ## style, types, no registry hosts, no paths of one machine
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && packaging/check-names.sh

bench: $(STAMP) ## wall, CPU and memory against the plain ways of doing the same job
	$(BIN)/python benchmarks/build.py

clients: $(STAMP) ## add torch to .venv, for the clients that import it (2.9 GB to fetch on Linux x86_64)
	EXTRAS=dev,clients packaging/setup.sh

constraints: $(STAMP) ## write constraints.txt again (ARGS=--upgrade for newer versions)
	packaging/constraints.sh $(ARGS)

wheel: $(STAMP) ## both wheels, into dist/
	for at in . packaging; do $(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist $$at || exit; done

clean: ## remove build/, dist/, out/demo and the tools' caches; .venv and other builds under out/ stay
	rm -rf build dist out/demo .pytest_cache .mypy_cache .ruff_cache .hypothesis && find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
