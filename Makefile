# make demo: from nothing to a trained and tested model.  make test: all tests.  make help: the rest.
# PYTHON=/path/to/python3.12, VENV=folder and TENSORFLOW=cpu|cuda are for bin/setup_environment.sh.

VENV ?= .venv
# Tests at a time: two at most, for each may use several processes itself.
TEST_JOBS ?= $(shell nproc 2>/dev/null | awk '{ print ($$1 < 2) ? $$1 : 2 }')
PYTEST_ARGS ?=
export VENV

.PHONY: help demo test lint format clean environment-demo environment-dev horovod

help:
	@echo 'make demo     install, make a speech corpus, train, test, export and transcribe (a few minutes)'
	@echo 'make test     install what is missing, Horovod too (7 minutes the first time), and run all tests'
	@echo 'make lint     check style and types'
	@echo 'make format   put the code into the style that make lint asks for'
	@echo "make horovod  build Horovod for this machine's TensorFlow and install it into $(VENV)"
	@echo 'make clean    remove $(VENV), demo/ and caches in this folder'
	@echo
	@echo 'make PYTHON=/path/to/python3.12 ...  which Python $(VENV) is made with (3.10 to 3.13)'
	@echo 'make TENSORFLOW=cpu ...              no CUDA, though nvidia-smi answers'
	@echo "make test PYTEST_ARGS='-k lstm'      some of the tests"

environment-demo:
	@bin/setup_environment.sh demo

environment-dev:
	@bin/setup_environment.sh dev

demo: environment-demo
	@PYTHON=$(VENV)/bin/python bin/demo.sh

horovod: environment-dev
	@bin/install_horovod.sh --python $(VENV)/bin/python

lint: environment-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: environment-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

test: horovod
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

clean:
	test ! -e $(VENV)/pyvenv.cfg || rm -rf $(VENV)
	rm -rf demo build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
