# Two commands on a fresh Debian 12 or 13 machine, as root or with sudo:
#   make demo   installs what is missing and runs the main job on the bundled clip
#   make test   installs what is missing and runs the tests
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete

.PHONY: demo test setup check bench clean

demo: setup
	@$(BIN)/sluice run examples/data/pedestrians.mp4 examples/data/pedestrians.mp4 --model people \
	  --out out/demo --messages out/demo/detections.jsonl --summary out/demo/summary.json

test: setup check
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

setup: $(STAMP)

$(STAMP): scripts/setup pyproject.toml setup.py constraints.txt $(wildcard src/sluice/contract/native/*)
	@scripts/setup $(VENV)
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build out src/*.egg-info src/sluice/contract/_libsluice*.so
