#!/bin/sh
# check-page.sh DCTMS [MODEL [FLAGS]]: the page of `plan --html` in a real browser. Opens it light and dark, phase by phase, as
# arena and as lanes, then uses it (check-page.js); fails when a script reports an error, when a page is not ready, or when it is
# larger than 1.5 MB. Prints the time until the page is drawn, and leaves pictures in build/page.
set -eu
dctms=$1
shift
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "page: skipped, no Chromium (Debian: apt install chromium)"
    exit 0
}
out=build/page
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
mkdir -p "$out"
page=$(realpath "$out")/plan.html
"$dctms" plan "$@" --html "$page" >"$out/plan.txt"

# The browser's own sandbox is for pages of strangers, and not to be had as root.
browse() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$profile" --hide-scrollbars \
        --window-size=1280,900 --virtual-time-budget=3000 --enable-logging=stderr "$@" 2>"$out/log"
    if grep 'CONSOLE' "$out/log"; then
        echo "page: a script reports the above"
        exit 1
    fi
}

bytes=$(wc -c <"$page")
[ "$bytes" -le 1500000 ] || { echo "page: $bytes bytes are too many"; exit 1; }
for phase in prefill decode; do
    for view in arena lanes; do
        for look in light:v1 light:v8 dark:s2; do # a value outside the arena, one inside, a step
            browse --screenshot="$out/$phase-$view-${look%:*}.png" \
                "file://$page#phase=$phase&view=$view&theme=${look%:*}&chosen=${look#*:}" >/dev/null
        done
    done
done
browse --dump-dom "file://$page" >"$out/dom.html"
ready=$(sed -n 's/.*data-ready-ms="\([0-9]*\)".*/\1/p' "$out/dom.html" | head -n 1)
[ -n "$ready" ] || { echo "page: the scripts did not come to their end"; exit 1; }
{
    sed '/^<\/body>$/,$d' "$page"
    echo '<script>' && cat "$(dirname "$0")/check-page.js" && echo '</script></body></html>'
} >"$out/checked.html"
browse --dump-dom "file://$(realpath "$out/checked.html")" >"$out/dom.html"
grep -q 'data-checked="all"' "$out/dom.html" || { echo "page: check-page.js did not come to its end"; exit 1; }
echo "page: $bytes bytes, drawn after $ready ms, no error; pictures in $out"
