/* Output and input of the command, through fixed buffers and write(2). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/utf8.h"
#include "cli/cli.h"

static char out_buffer[16 * 1024];
static size_t out_used;

static bool write_all(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t put = write(fd, text, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        text += put;
        n -= (size_t)put;
    }
    return true;
}

void cli_flush(void) {
    size_t n = out_used;
    out_used = 0;
    if (write_all(1, out_buffer, n)) return;
    int why = errno;
    dct_out_abandon();
    if (why == EPIPE) _exit(CLI_NO_READER);
    cli_note("dctms: cannot write to standard output: %s\n", strerror(why));
    _exit(DCT_SYSTEM);
}

void cli_out(void *where, const char *text, size_t n) {
    if (where == CLI_STDERR) {
        (void)!write_all(2, text, n);
        return;
    }
    while (n > 0) {
        size_t room = sizeof out_buffer - out_used, part = n < room ? n : room;
        memcpy(out_buffer + out_used, text, part);
        out_used += part;
        text += part;
        n -= part;
        if (out_used == sizeof out_buffer) cli_flush();
    }
}

void cli_print(const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) cli_out(NULL, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* A line of progress stands on the terminal: whatever is written next takes its place. */
static bool line_is_open;

static void clear_line(void) {
    static const char clear[] = "\r\033[K";
    if (line_is_open) (void)!write_all(2, clear, sizeof clear - 1);
    line_is_open = false;
}

void cli_note(const char *format, ...) {
    char line[2048];
    clear_line();
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) (void)!write_all(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

int cli_fail(const dctms_error *err) {
    cli_flush();
    cli_note("dctms: %s\n", err->message);
    return err->code;
}

int cli_fail_err(const dct_err *err) {
    cli_flush();
    cli_note("dctms: %s\n", err->message);
    return err->code;
}

int cli_fail_file(const char *path, dct_err *err) {
    dct_err_name_file(err, path);
    return cli_fail_err(err);
}

int cli_usage(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_note("dctms: %s\n", line);
    return DCT_USAGE;
}

int cli_no_memory(const char *what) {
    cli_note("dctms: no memory for %s\n", what);
    return DCT_SYSTEM;
}

void cli_print_json_string(const char *text, size_t n) {
    cli_print("\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        uint32_t code;
        size_t bytes = dct_utf8_next(text + i, n - i, &code);
        if (bytes == 0) cli_print("?");
        else if (c == '"' || c == '\\') cli_print("\\%c", c);
        else if (c == '\n') cli_print("\\n");
        else if (c < 0x20 || c == 0x7f) cli_print("\\u%04x", c);
        else cli_out(NULL, &text[i], bytes);
        if (bytes > 1) i += bytes - 1;
    }
    cli_print("\"");
}

double cli_mib(uint64_t bytes) { return (double)bytes / (1024.0 * 1024.0); }

void cli_sink_write(void *ctx, const char *text, size_t n) {
    cli_sink *sink = ctx;
    if (sink->failed) return;
    if (sink->cap - sink->used < n) {
        size_t cap = sink->cap == 0 ? 1 << 20 : sink->cap * 2;
        while (cap - sink->used < n) cap *= 2;
        char *grown = dct_os_map(cap);
        if (grown == NULL) {
            sink->failed = true;
            return;
        }
        if (sink->used != 0) memcpy(grown, sink->bytes, sink->used);
        dct_os_unmap(sink->bytes, sink->cap);
        sink->bytes = grown;
        sink->cap = cap;
    }
    memcpy(sink->bytes + sink->used, text, n);
    sink->used += n;
}

void cli_sink_drop(cli_sink *sink) {
    if (sink->bytes != NULL) dct_os_unmap(sink->bytes, sink->cap);
    *sink = (cli_sink){0};
}

int cli_sink_save(cli_sink *sink, const char *path) {
    dct_err err;
    dct_status status = sink->failed ? dct_fail(&err, DCT_SYSTEM, "no memory to build %s", path)
                                     : dct_file_write_whole(path, sink->bytes, sink->used, &err);
    cli_sink_drop(sink);
    return status == DCT_OK ? 0 : cli_fail_err(&err);
}

/* ---- input ---- */

dct_status cli_open_text(dct_file *file, const char *path, dct_err *err) {
    if (strcmp(path, "-") != 0) return dct_file_open_stream(file, path, err);
    if (isatty(0)) cli_note("reading a text from the terminal; Ctrl-D behind its last line ends it\n");
    *file = (dct_file){.fd = 0};
    return DCT_OK;
}

static const char *shown_name(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

static dct_status fail_long(const char *name, uint64_t limit, dct_err *err) {
    return dct_fail(err, DCT_BOUND, "%s: more than %llu bytes", name, (unsigned long long)limit);
}

/* What comes has no size until it ends: it is read into pages that double. */
static dct_status read_all(const dct_file *file, const char *name, uint64_t limit, char **text, size_t *n, size_t *map_bytes,
                           dct_err *err) {
    size_t cap = 64 * 1024, used = 0;
    if (file->bytes > limit) return fail_long(name, limit, err);
    if (file->bytes >= cap) cap = (size_t)file->bytes + 2; /* the end is seen without growing */
    char *bytes = dct_os_map(cap);
    while (bytes != NULL) {
        ssize_t got = read(file->fd, bytes + used, cap - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) {
            *text = bytes;
            *n = used;
            *map_bytes = cap;
            return DCT_OK;
        }
        if (got < 0 || used + (size_t)got > limit) {
            dct_status status = got < 0 ? dct_fail(err, DCT_BAD_FILE, "%s: %s", name, strerror(errno))
                                        : fail_long(name, limit, err);
            dct_os_unmap(bytes, cap);
            return status;
        }
        used += (size_t)got;
        if (used + 1 < cap) continue;
        char *grown = dct_os_map(cap * 2);
        if (grown != NULL) memcpy(grown, bytes, used);
        dct_os_unmap(bytes, cap);
        bytes = grown;
        cap *= 2;
    }
    return dct_fail(err, DCT_SYSTEM, "%s: no memory to read it", name);
}

dct_status cli_read_file(const char *path, uint64_t limit, char **text, size_t *n, size_t *map_bytes, dct_err *err) {
    dct_file file;
    dct_status status = cli_open_text(&file, path, err);
    if (status != DCT_OK) return status;
    status = read_all(&file, shown_name(path), limit, text, n, map_bytes, err);
    if (file.fd != 0) dct_file_close(&file);
    return status;
}

dct_status cli_read_into(const dct_file *file, const char *path, char *into, size_t cap, uint64_t *n, dct_err *err) {
    *n = file->bytes;
    if (file->bytes > cap) return DCT_OK;
    *n = 0;
    for (;;) {
        char past;
        ssize_t got = *n < cap ? read(file->fd, into + *n, cap - (size_t)*n) : read(file->fd, &past, 1);
        if (got < 0 && errno == EINTR) return dct_fail(err, DCT_INTERRUPTED, "%s: interrupted", shown_name(path));
        if (got < 0) return dct_fail(err, DCT_BAD_FILE, "%s: %s", shown_name(path), strerror(errno));
        if (got == 0) return DCT_OK;
        *n += (size_t)got;
        if (*n > cap) return DCT_OK;
    }
}

void cli_drop_newline(const char *text, size_t *n) {
    if (*n > 0 && text[*n - 1] == '\n') --*n;
}

bool cli_can_draw(void) {
    const char *terminal = getenv("TERM");
    return isatty(2) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void cli_progress(void *label, uint64_t done, uint64_t total) {
    static int can_draw = -1;
    static unsigned last = 101;
    if (can_draw < 0) can_draw = cli_can_draw();
    if (!can_draw || total == 0) return;
    unsigned percent = (unsigned)((double)done / (double)total * 100);
    if (percent == last) return;
    cli_note("%s %3u %%", (const char *)label, percent);
    last = percent;
    line_is_open = true;
    if (done >= total) clear_line();
}
