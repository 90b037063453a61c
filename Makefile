# make demo | test | lint | performance | path. Each makes the virtual environment first where it is missing.

VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
READY = $(VENV)/.lamella-installed

# CPU builds of torch, unless pip is told of local wheels: the default index has CUDA builds of several GB.
ifeq ($(PIP_FIND_LINKS),)
TORCH_INDEX ?= --extra-index-url https://download.pytorch.org/whl/cpu
endif

.PHONY: demo test lint performance path clean

demo: $(READY)
	$(BIN)/python -m lamella.tools.demo

test: $(READY)
	$(BIN)/python -m pytest -n 2

lint: $(READY) path
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

# Measures for half an hour on a machine that does nothing else, and writes the tables and plots of docs/performance.md.
performance: $(READY)
	$(BIN)/python benchmarks/tables.py --run all
	$(BIN)/python benchmarks/plots.py

# The repository's root is the package; this link lets tools that look for a folder named lamella find it.
path:
	@mkdir -p build/path
	@ln -sfn ../.. build/path/lamella

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Lamella needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV): PyTorch for the CPU and the tools, a few minutes the first time."
	@$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt $(TORCH_INDEX) --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
