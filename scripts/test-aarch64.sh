#!/usr/bin/env bash
# test-aarch64.sh [JOBS]: the test suite cross-built for aarch64 and run under qemu-user, once for each processor of CPUS.
# docs/AARCH64.md says what is skipped there.
set -eu
cd "$(dirname "$0")/.."
jobs=${1:-2}
missing=""
for tool in gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc qemu-user:qemu-aarch64; do
    command -v "${tool#*:}" >/dev/null 2>&1 || missing="$missing ${tool%%:*}"
done
[ -f /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$missing libc6-dev-arm64-cross"
# shellcheck disable=SC2086
scripts/deps.sh $missing
scripts/aarch64-sysroot.sh build/aarch64-sysroot
cmake --preset aarch64 -Wno-dev >/dev/null
cmake --build build/aarch64 -j "$jobs" -- --no-print-directory -s
export DCTMS_EMULATED=1 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu # for programs that tests start
if ! build/aarch64/dctms --version >/dev/null 2>&1; then
    echo "test-aarch64: the kernel does not start aarch64 programs, which tests of the command need: install qemu-user-binfmt" >&2
    exit 1
fi
for cpu in ${CPUS:-max cortex-a72}; do
    echo "== qemu-aarch64 -cpu $cpu"
    QEMU_CPU=$cpu ctest --test-dir build/aarch64 --output-on-failure -j "$jobs"
    grep -h -E '^emulated: |^skipped: (neon|no system call filter)' build/aarch64/Testing/Temporary/LastTest.log | sort | uniq -c
done
