#!/usr/bin/env bash
# deps.sh [PACKAGE...]: what the build needs from Debian, and the packages named. Installs what is missing when it may,
# otherwise says the one line to run.
set -eu
missing="${*:+ $*}"
need() { # package, then a command that succeeds when it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
need gcc sh -c 'command -v cc || command -v gcc'
need make command -v make
need cmake command -v cmake
need pkg-config command -v pkg-config
if command -v pkg-config >/dev/null 2>&1; then
    need libjansson-dev pkg-config --exists jansson
    need libutf8proc-dev pkg-config --exists libutf8proc
    need libcmocka-dev pkg-config --exists cmocka
else
    missing="$missing libjansson-dev libutf8proc-dev libcmocka-dev"
fi
[ -f /usr/include/pb_decode.h ] || missing="$missing libnanopb-dev" # it has no .pc file
[ -f /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Please install:$missing (names are Debian's)" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "Please run: sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "Installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt-get update >/dev/null && apt-get install -y --no-install-recommends $missing >/dev/null; }
