#!/usr/bin/env bash
# aarch64-sysroot.sh DIR: the arm64 libraries that the build needs, from Debian's packages, unpacked into DIR. apt keeps
# its lists and files of this architecture below DIR, so the system learns of no second architecture and no root is needed.
set -eu
dir=$1
[ -f "$dir/complete" ] && exit 0
mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial"
dir=$(cd "$dir" && pwd)
: >"$dir/apt/status"
arm64() { # an apt-get command
    apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$dir/apt/lists" \
        -o Dir::State::Status="$dir/apt/status" -o Dir::Cache="$dir/apt" -o APT::Sandbox::User=root "$@"
}
echo "Fetching arm64 libraries" >&2
arm64 update >/dev/null 2>&1 || true # a source without arm64 is no loss; what is missing shows in the next line
(cd "$dir/apt/archives" && arm64 download libjansson4 libjansson-dev libutf8proc2 libutf8proc-dev libcmocka0 libcmocka-dev libnanopb-dev >/dev/null)
for package in "$dir"/apt/archives/*.deb; do dpkg-deb -x "$package" "$dir"; done
rm -rf "$dir/apt"
touch "$dir/complete"
