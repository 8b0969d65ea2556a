# A thin front: each target is a CMake preset and a command. Build trees lie in build/<preset>.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
DCTMS := build/release/dctms

.PHONY: all deps demo test test-aarch64 asan ubsan tsan clang fuzz floors install accuracy compare types speed shared interleave bench page clean

all: build-release

deps:
	@scripts/deps.sh

build-%: deps
	@cmake --preset $* -Wno-dev >/dev/null
	@cmake --build build/$* -j $(JOBS) -- --no-print-directory -s

# What this is for, on the built-in model: the cost before anything is loaded, then an answer that costs no more.
demo: build-release
	@scripts/demo.sh $(DCTMS)

test: build-ci floors
	@scripts/test-data.sh build/ci
	@DCTMS=build/ci/dctms ctest --test-dir build/ci --output-on-failure -j $(JOBS)

# The suite of a cross build, under qemu, on a processor with everything and on one without byte dots (docs/AARCH64.md).
test-aarch64:
	@scripts/test-aarch64.sh $(JOBS)

floors:
	@scripts/check-source.sh . $$(ls build/ci/libdctms.a 2>/dev/null)

clang: build-clang
	@ctest --test-dir build/clang --output-on-failure -j $(JOBS)

asan ubsan tsan: %: build-%
	@ctest --test-dir build/$* --output-on-failure -j $(JOBS)

fuzz: build-fuzz
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

# The built-in model's held-out accuracy (its card's table), and the tables of docs/. These take minutes to hours.
accuracy: build-release
	@python3 bench/accuracy.py $(DCTMS)

# Accuracy beside a peer: NODE_PEER=folder with node-llama-cpp.
compare: build-release build-ci
	@bench/peers/accuracy.sh $(DCTMS) build/ci/dctms_oracle build/peers

# The same for every type, with KL divergence: the built-in model in each, and synthetic ones. ITEMS="tiny-vl:Q4_0 ..." for some of them.
types: build-release build-ci
	@cmake --build build/release --target dctms_requant -- --no-print-directory -s
	@bench/peers/types.sh $(DCTMS) build/ci/dctms_oracle build/release/dctms_requant build/peers $(ITEMS)

# The table of docs/PERFORMANCE.md: make speed MODELS="a.gguf b.gguf" LLAMA_BENCH=path [IK_BENCH=path] [SPEED_FLAGS="-d 0,4096 -r 5"]
# And the lines about a machine that others use: make shared MODELS=a.gguf [LLAMA_BENCH=path] [LLAMA_CLI=path]
speed: build-release
	@bench/compare --dctms $(DCTMS) $(SPEED_FLAGS) $(MODELS)

shared: build-release
	@for what in steady hog crowd start idle; do for model in $(MODELS); do bench/shared $$what $$model --dctms $(DCTMS) || exit 1; done; done

# The page of plan --html in a headless Chromium, where there is one: make page MODEL=a.gguf FLAGS="-c 1280 -n 256"
page: build-release
	@scripts/check-page.sh $(DCTMS) $(MODEL) $(FLAGS)

# All 100,000 random schedules of tests/verify/test_interleave.c (docs/PACKING.md); `make test` runs a slice of them.
interleave: build-ci
	@DCTMS_CASES=100000 build/ci/test_interleave

bench: build-release
	@$(DCTMS) bench

install: build-release
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
