# The commands of this repository. `make run` and `make test` do all of their own set-up on a bare Debian 12.

PREFIX ?= /usr/local
SOURCES = $(shell find weft cli python tests examples bench -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help run python test test-long test-gpu bench lint format install clean setup-run setup-test release

help:
	@echo "make run      build what the ledger needs and print it"
	@echo "make python   build the PyTorch package and install it in a virtual environment (VENV, build-python/venv)"
	@echo "make test     the folder law and the tests: release, and up to weft/world with ASan + UBSan"
	@echo "make test-long  whole models, virtual hosts; the rest with ASan + UBSan, threads with TSan"
	@echo "make test-gpu  the CUDA executor on an H100 or H200: tests, sanitizers, figures"
	@echo "make bench    measure this machine and write the tables in docs/results/"
	@echo "make lint     layout, folder law, clang-tidy"
	@echo "make format   lay out every source file"
	@echo "make install  program, libraries, headers and CMake package into PREFIX ($(PREFIX))"
	@echo "make clean    remove everything that was built"

# A first build for a machine without a GPU leaves CUDA out, which takes nvcc half a minute; whoever builds more has it.
run: setup-run
	@cmake --preset release --log-level=WARNING $(if $(wildcard build/CMakeCache.txt /dev/nvidiactl),,-D WEFT_CUDA=OFF) >/dev/null
	@cmake --build --preset release --target weft_cli
	@build/weft ledger

python: setup-run
	@tools/python.sh

test: setup-test
	@tools/test.sh

test-long: setup-test
	@tools/test.sh long

test-gpu: setup-test
	@tools/test_gpu.sh

bench: setup-test release
	@for page in proof t3 cpu isa ledger spd; do python3 tools/page_$$page.py || exit 1; done
	@echo "tools/page_reshard.py and tools/page_cluster.py make virtual hosts and need root"

lint:
	@clang-format --dry-run -Werror $(SOURCES)
	@python3 tools/check_layers.py
	@python3 tools/check_types.py
	@cmake --preset release --log-level=WARNING >/dev/null
	@run-clang-tidy -quiet -p build '/(weft|cli)/.*\.cc$$'

format:
	@clang-format -i $(SOURCES)

install: setup-run release
	@cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-dev build-tsan build-cuda build-python

setup-run:
	@tools/setup.sh run

setup-test:
	@tools/setup.sh test

release:
	@cmake --preset release --log-level=WARNING -D WEFT_CUDA=ON >/dev/null
	@cmake --build --preset release
