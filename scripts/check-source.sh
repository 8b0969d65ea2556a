#!/bin/sh
# check-source.sh [SOURCE_DIR [LIBRARY]]: the include rule of DESIGN §2, what the library must not call, and how sources look.
#
#   1. A file of src/ includes its own folder and lower floors. Folders on one floor do not include each other, but for the
#      pairs in EXCEPTIONS. Front ends (cli, server) include the public header, base/ and themselves, and cli tools/tools.h.
#   2. Nothing outside the front ends allocates from the heap, prints, or ends the process, but for the files in HEAP_FILES.
#   3. No line of include/ and src/ is longer than 130 characters, but for the files in LONG_FILES.
#   4. With a LIBRARY (libdctms.a): every symbol that it gives to others begins with dct_ or dctms_.
#
# Prints one line an offence, "file:line: what", and exits 1 when there is any.
set -eu
root=${1:-$(dirname "$0")/..}
[ -z "${2-}" ] || set -- "$root" "$(realpath "$2")"
cd "$root"

FLOORS='base=0 onnx=1 model=1 ir=1 kernels=1 text=1 image=1 arch=2 plan=2 compile=3 verify=3 exec=4 engine=5 tools=5 cli=6 server=6'

# Same-floor includes that the design needs and does not spell out.
#   text>model    the tokenizer is built from the metadata of a model file
#   ir>kernels    sizes of packed weights, quantised rows, caches and scratch are facts of the kernels' layouts
EXCEPTIONS='text>model ir>kernels'

# engine/dynamic.c is the baseline that the paper compares with: one malloc and one free a tensor, on purpose.
HEAP_FILES='src/engine/dynamic.c'

files=$(find src -name '*.[ch]' -o -name '*.def' | LC_ALL=C sort)
status=0

awk -v floors="$FLOORS" -v exceptions="$EXCEPTIONS" '
BEGIN {
    n = split(floors, list, " ")
    for (i = 1; i <= n; i++) { split(list[i], pair, "="); floor[pair[1]] = pair[2] }
    n = split(exceptions, list, " ")
    for (i = 1; i <= n; i++) allowed[list[i]] = 1
}
function offend(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split(FILENAME, path, "/"); from = path[2]
    header = $0; sub(/^[^"]*"/, "", header); sub(/".*/, "", header)
    front = from == "cli" || from == "server"
    if (header == "dctms.h") {
        if (floor[from] < 5) offend(from "/ includes the public header, which stands above it")
        next
    }
    if (split(header, part, "/") < 2) { offend("\"" header "\" is not written as folder/header"); next }
    to = part[1]
    if (!(from in floor)) { offend("folder " from " stands on no floor"); next }
    if (!(to in floor)) { offend("\"" header "\" stands on no floor"); next }
    if (from == to || ((from ">" to) in allowed)) next
    if (front) {
        if (to != "base" && !(from == "cli" && header == "tools/tools.h")) offend(from "/ includes " header)
        next
    }
    if (floor[to] >= floor[from]) offend(from "/ (floor " floor[from] ") includes " header " (floor " floor[to] ")")
}
END { exit bad }
' $files || status=1

awk -v heap_files="$HEAP_FILES" '
BEGIN {
    n = split(heap_files, list, " ")
    for (i = 1; i <= n; i++) may_use_heap[list[i]] = 1
    heap = "malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|aligned_alloc|posix_memalign"
    other = "printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|exit|_exit|abort"
}
FNR == 1 { in_comment = 0 }
# The line without comments and strings: a call named there is no call.
function code_of(line,    out, at) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (at == 0) return out
            line = substr(line, at + 2); in_comment = 0
        } else if (match(line, /\/\*|"(\\.|[^"\\])*"|\/\/.*/)) {
            out = out substr(line, 1, RSTART - 1) " "
            if (substr(line, RSTART, 2) == "/*") in_comment = 1
            line = substr(line, RSTART + RLENGTH)
        } else { out = out line; line = "" }
    }
    return out
}
function calls(code, names) { return match(code, "(^|[^A-Za-z0-9_>.])(" names ")[ \t]*[(]") }
FILENAME ~ /^src\/(cli|server)\// { next }
{
    code = code_of($0)
    if (calls(code, other)) { printf "%s:%d: prints or ends the process\n", FILENAME, FNR; bad = 1 }
    if (!(FILENAME in may_use_heap) && calls(code, heap)) { printf "%s:%d: uses the heap\n", FILENAME, FNR; bad = 1 }
}
END { exit bad }
' $files || status=1

# Characters, not bytes, where the system knows UTF-8.
LONG_FILES='\.def$' # a .def is a table, a row a line
locale -a 2>/dev/null | grep -qi '^C\.utf-\?8$' && LC_ALL=C.UTF-8 && export LC_ALL
if grep -nE '^.{131,}' $(echo "$files" | grep -vE "$LONG_FILES") include/*.h | sed 's/^\([^:]*:[0-9]*\):.*/\1: longer than 130 characters/' | grep .; then
    status=1
fi

if [ -n "${2-}" ]; then
    if nm -g --defined-only "$2" | awk 'NF == 3 && $3 !~ /^dct(ms)?_/ { print "'"$2"': exports " $3 }' | grep .; then status=1; fi
fi

[ $status -eq 0 ] && echo "source: $(echo "$files" | wc -l) files, no offence"
exit $status
