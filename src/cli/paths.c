/* Outputs that must not destroy inputs, and that can be written: every verb that writes names here what it reads and what it
 * writes, before it opens anything or works for long. Files are told by device and number, so links and other spellings of a name
 * hide nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

/* What a path leads to. A file that does not exist yet is told by its directory and its name there. */
typedef struct place {
    dev_t dev;
    ino_t ino;
    bool exists, is_directory, is_shared; /* shared: a device or a pipe, which nothing that is written destroys */
    const char *name;
} place;

static bool same_place(const place *a, const place *b) {
    return a->dev == b->dev && a->ino == b->ino && a->exists == b->exists && !a->is_shared &&
           (a->exists || strcmp(a->name, b->name) == 0);
}

/* False when there is no telling, not even by the directory: opening the path will say why. */
static bool find_directory(const char *path, place *at) {
    const char *slash = strrchr(path, '/');
    char directory[CLI_PATH_BYTES];
    struct stat st;
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    if (n >= sizeof directory) return false;
    memcpy(directory, path, n);
    directory[n] = '\0';
    if (stat(n == 0 ? "." : directory, &st) != 0) return false;
    *at = (place){.dev = st.st_dev, .ino = st.st_ino, .name = path + n};
    return true;
}

static bool find_place(const char *path, bool is_input, place *at) {
    struct stat st;
    int found = is_input && strcmp(path, "-") == 0 ? fstat(0, &st) : stat(path, &st);
    if (found != 0) return find_directory(path, at);
    *at = (place){st.st_dev, st.st_ino, true, S_ISDIR(st.st_mode), !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode), path};
    return true;
}

/* Whether `out` is a file of the directory that is at `in`: a model may be a directory. */
static bool lies_in(const char *out_path, const place *out, const place *in) {
    place parent;
    return out->exists && find_directory(out_path, &parent) && parent.dev == in->dev && parent.ino == in->ino;
}

bool cli_model_part(const char *path, unsigned i, char part[CLI_PATH_BYTES]) {
    enum { TAIL = sizeof "-00001-of-00003.gguf" - 1 };
    size_t n = strlen(path);
    unsigned first, n_parts;
    if (n < TAIL || n >= CLI_PATH_BYTES || sscanf(path + n - TAIL, "-%5u-of-%5u.gguf", &first, &n_parts) != 2) return false;
    snprintf(part, CLI_PATH_BYTES, "%.*s-%05u-of-%05u.gguf", (int)(n - TAIL), path, i, n_parts);
    return i <= n_parts;
}

static bool is_a_part(const char *in_path, const place *out) {
    char part[CLI_PATH_BYTES];
    for (unsigned i = 1; cli_model_part(in_path, i, part); i++) {
        place at;
        if (find_place(part, true, &at) && same_place(&at, out)) return true;
    }
    return false;
}

static int check_against(const char *in_path, const char *out_path, const place *out) {
    place in;
    if (!find_place(in_path, true, &in)) return 0;
    if (!same_place(&in, out) && !lies_in(out_path, out, &in) && !is_a_part(in_path, out)) return 0;
    return cli_usage("%.400s would be written over %.400s, which is read", out_path, in_path);
}

/* Whether each could be begun, which leaves nothing behind. Devices and pipes would notice, and are not asked. */
static int try_outputs(const cli_paths *paths) {
    dct_out out;
    dct_err err;
    for (int i = 0; i < CLI_MAX_PATHS && paths->out[i] != NULL; i++) {
        place at;
        if (find_place(paths->out[i], false, &at) && (at.is_shared || (at.is_directory && paths->into_directories))) continue;
        if (dct_out_open(&out, paths->out[i], &err) != DCT_OK) return cli_fail_err(&err);
        dct_out_discard(&out);
    }
    return 0;
}

/* Whether the file is where standard output or the messages go: renaming another over it would lose what they say. */
static bool is_stream(const place *at) {
    struct stat st;
    for (int fd = 1; fd <= 2; fd++) {
        if (at->exists && !at->is_shared && fstat(fd, &st) == 0 && st.st_dev == at->dev && st.st_ino == at->ino) return true;
    }
    return false;
}

int cli_check_outputs(const cli_paths *paths) {
    place written[CLI_MAX_PATHS];
    for (int i = 0; i < CLI_MAX_PATHS && paths->out[i] != NULL; i++) {
        const char *path = paths->out[i];
        if (strcmp(path, "-") == 0) return cli_usage("-: a file is written, not standard output; name one (./- if it must be -)");
        written[i] = (place){.is_shared = true};
        if (!find_place(path, false, &written[i])) continue;
        if (is_stream(&written[i])) return cli_usage("%.400s is where standard output or messages go; name another file", path);
        for (int k = 0; k < i; k++)
            if (same_place(&written[i], &written[k])) return cli_usage("%.400s: two outputs cannot be one file", path);
        for (int k = 0; k < CLI_MAX_PATHS && paths->in[k] != NULL; k++) {
            int code = check_against(paths->in[k], path, &written[i]);
            if (code != 0) return code;
        }
    }
    return try_outputs(paths);
}

void cli_add_path(const char **list, const char *path) {
    int n = 0;
    if (path == NULL) return;
    while (list[n] != NULL) n++;
    list[n] = path;
}
