# Each target makes its own .venv and installs what it needs from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than two cores: many tests wait for processes of their own.
WORKERS ?= 3
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow faults check bench measure parity beside docs dist format clean

demo: $(VENV)/installed
	$(BIN)/farout demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

# The tests that take longest: examples of the docs, kills, and runs on several workers.
slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

# Kills, full disks, damaged files and more, on a study of all kinds of results; about half an hour on two cores.
faults: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.faults --out build/faults

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

# In an environment of its own, since timm in .venv would change what the tests do.
bench:
	$(MAKE) VENV=.venv-bench measure

measure: $(VENV)/peers
	$(BIN)/python -m benchmarks

# The same scores as pytorch-ood's, images as torchvision's, corruptions, attacks, attention maps and FID as their peers'; in the
# benchmarks' environment, which has them all.
parity:
	$(MAKE) VENV=.venv-bench beside

beside: $(VENV)/peers
	$(BIN)/python -m pytest -rs tests/parity tests/variations/test_torchvision_variations.py tests/attacks/test_foolbox_attacks.py

# Into build/site, which needs no server: open build/site/index.html.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Wheel and sources in dist, checked.
dist: $(VENV)/installed-dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/cffconvert --validate

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch comes first and by its exact version: left to the resolver, it may bring a build with gigabytes of CUDA.
$(VENV)/torch: constraints.txt | $(BIN)/python
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	touch $@

$(VENV)/installed: $(VENV)/torch pyproject.toml
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) -e ".[dev]"
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(PIP) -e ".[docs]"
	touch $@

$(VENV)/installed-dist: constraints.txt | $(BIN)/python
	$(PIP) build twine cffconvert
	touch $@

$(VENV)/peers: $(VENV)/installed-dev benchmarks/requirements.txt
	while read -r package; do \
		$(PIP) "$$package" 2> /dev/null || echo "could not install $$package; what needs it is left out"; \
	done < benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-bench build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
