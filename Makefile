# Two commands on a fresh Debian 12 or 13 machine, as root or with sudo:
#   make demo   installs what is missing and runs the main job on the bundled clip
#   make test   installs what is missing and runs the tests
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
REFERENCE := .venv-reference

PEERS := .venv-peers

.PHONY: demo test fuzz bench test-gpu test-reference setup check clean

demo: setup
	@$(BIN)/sluice run examples/data/pedestrians.mp4 examples/data/pedestrians.mp4 --model people \
	  --out out/demo --messages out/demo/detections.jsonl --summary out/demo/summary.json

# Many tests wait for servers and clocks, so two processes share them; JOBS=0 keeps all in one, for a debugger.
JOBS ?= 2
test: $(VENV)/.test-complete check
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

# Looks for input that ends it, TIME seconds for each target: make fuzz TIME=600 TARGETS="tracker engine". What is found is
# kept in out/fuzz/findings; the next run goes on from out/fuzz/corpus.
TIME ?= 60
fuzz: $(VENV)/.test-complete
	@$(BIN)/python tests/fuzz/guided.py --time $(TIME) $(TARGETS)

# The same results as the packages that models come from: an environment of its own, about 7 GB and 5 minutes.
test-reference: setup $(REFERENCE)/.complete
	@$(REFERENCE)/bin/python -m pytest tests/reference tests/runtimes tests/gpu $(PYTEST_ARGS)

# On a machine with an NVIDIA GPU: make test-gpu CLIP=clip.h264 [PYTHON=python3]; see scripts/test-gpu.
PYTHON ?= $(BIN)/python
test-gpu:
	@scripts/test-gpu $(CLIP) $(PYTHON)

# Sluice beside what people would pick instead: installs those (8 GB in .venv-peers, once), measures for about an hour and
# writes docs/benchmarks. BENCH_ARGS="--streams 1 4 --repeats 1" measures less.
BENCH_MODEL ?= $(firstword $(wildcard ../shared/data/models/yolo11n_256_coco80_int8_qdq.onnx) out/bench/yolo11n.onnx)
bench: $(VENV)/.test-complete $(PEERS)/.complete $(BENCH_MODEL)
	@$(BIN)/python bench/peers/clips.py out/bench
	@$(BIN)/python bench/peers/throughput.py $(BENCH_MODEL) out/bench $(BENCH_ARGS)
	@$(BIN)/python bench/peers/live.py $(BENCH_MODEL) out/bench
	@$(BIN)/python bench/peers/outage.py $(BENCH_MODEL) out/bench
	@$(PEERS)/ultralytics/bin/python bench/peers/report.py docs/benchmarks

out/bench/yolo11n.onnx: | $(PEERS)/.complete
	@mkdir -p out/bench
	@cd out/bench && $(CURDIR)/$(PEERS)/ultralytics/bin/yolo export model=yolo11n.pt format=onnx imgsz=256

$(PEERS)/.complete: scripts/setup-peers
	@scripts/setup-peers
	@touch $@

check: $(VENV)/.test-complete
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

setup: $(STAMP)

$(STAMP): scripts/setup pyproject.toml setup.py constraints.txt $(wildcard src/sluice/contract/native/*)
	@scripts/setup $(VENV)
	@touch $(STAMP)

# The servers that the tests start for themselves, which the main job does not need.
$(VENV)/.test-complete: $(STAMP)
	@scripts/setup $(VENV) test
	@touch $@

$(REFERENCE)/.complete: scripts/setup-reference constraints-reference.txt
	@scripts/setup-reference $(REFERENCE)
	@touch $@

clean:
	rm -rf $(VENV) $(REFERENCE) $(PEERS) build out src/*.egg-info src/sluice/contract/_libsluice*.so
