/* Records of protocol from a file that anyone may have touched: opened as for going on, read back, and what is read is written again
 * and read as the same. The first byte chooses calls or the series of RSS, and whether our heading is put before the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/protocol.h"

enum { MAX_BYTES = 1 << 16 };

static const char *const headings[2] = {
    "run,stress,system,prompt,repetition,n_prompt,n_predicted,latency_ms,peak_rss_bytes,vm_hwm_bytes\n",
    "run,stress,system,prompt,repetition,ms,rss_bytes\n",
};

static void must(bool holds) {
    if (!holds) abort();
}

static bool same_key(const dct_session_key *a, const dct_session_key *b) {
    return a->run == b->run && a->stress == b->stress && a->system == b->system;
}

/* Times are written to the nanosecond, so they may come back a little different. */
static bool near(double a, double b) { return a - b < 1e-3 + 1e-9 * a && b - a < 1e-3 + 1e-9 * a; }

static void same_calls_again(const dct_call *calls, uint32_t n, dct_arena *arena) {
    dct_calls_file again;
    dct_call *read;
    uint32_t n_read;
    dct_err err;
    must(dct_calls_open(&again, NULL, &err) == DCT_OK);
    for (uint32_t i = 0; i < n; i++) must(dct_calls_append(&again, &calls[i], &err) == DCT_OK);
    dct_status status = dct_calls_load(&again, arena, &read, &n_read, &err);
    dct_calls_close(&again);
    if (status != DCT_OK) { /* a latency under half a nanosecond is written as 0, which is none */
        for (uint32_t i = 0; i < n; i++)
            if (calls[i].latency_ms < 1e-6) return;
        abort();
    }
    must(n_read == n);
    for (uint32_t i = 0; i < n; i++) {
        const dct_call *a = &calls[i], *b = &read[i];
        must(same_key(&a->key, &b->key) && a->prompt == b->prompt && a->repetition == b->repetition);
        must(a->n_prompt == b->n_prompt && a->n_predicted == b->n_predicted && near(a->latency_ms, b->latency_ms));
        must(a->peak_rss == b->peak_rss && a->vm_hwm == b->vm_hwm);
    }
}

static void same_series_again(const dct_rss_record *records, uint32_t n, dct_arena *arena) {
    dct_calls_file again;
    dct_rss_record *read;
    uint32_t n_read;
    dct_err err;
    must(dct_rss_open(&again, NULL, &err) == DCT_OK);
    for (uint32_t i = 0; i < n; i++) {
        const dct_call call = {.key = records[i].key, .prompt = records[i].prompt, .repetition = records[i].repetition};
        must(dct_rss_append(&again, &call, &records[i].sample, 1, &err) == DCT_OK);
    }
    must(dct_rss_load(&again, arena, &read, &n_read, &err) == DCT_OK && n_read == n);
    for (uint32_t i = 0; i < n; i++) {
        const dct_rss_record *a = &records[i], *b = &read[i];
        must(same_key(&a->key, &b->key) && a->prompt == b->prompt && a->repetition == b->repetition);
        must(near(a->sample.ms, b->sample.ms) && a->sample.bytes == b->sample.bytes);
    }
    dct_calls_close(&again);
}

/* Every line behind the heading is a record, or none is taken. */
static uint32_t lines_of(int fd) {
    static char text[MAX_BYTES + 256];
    uint32_t n = 0;
    ssize_t got = pread(fd, text, sizeof text, 0);
    for (ssize_t i = 0; i < got; i++) n += text[i] == '\n';
    return n;
}

static void load(const dct_calls_file *file, bool is_series, dct_arena *arena) {
    dct_call *calls;
    dct_rss_record *records;
    uint32_t n;
    dct_err err = {0};
    dct_status status = is_series ? dct_rss_load(file, arena, &records, &n, &err) : dct_calls_load(file, arena, &calls, &n, &err);
    must(status == DCT_OK || (status == DCT_BAD_FILE && err.message[0] != '\0'));
    if (status != DCT_OK) return;
    must(n + 1 == lines_of(file->fd));
    if (is_series) same_series_again(records, n, arena);
    else same_calls_again(calls, n, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static int fd = -1;
    static char path[64];
    if (n == 0 || n > MAX_BYTES) return 0;
    if (fd < 0) {
        fd = memfd_create("records", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    bool is_series = data[0] & 1;
    const char *heading = data[0] & 2 ? "" : headings[is_series];
    size_t n_heading = strlen(heading);
    must(ftruncate(fd, 0) == 0 && pwrite(fd, heading, n_heading, 0) == (ssize_t)n_heading);
    must(pwrite(fd, data + 1, n - 1, (off_t)n_heading) == (ssize_t)n - 1);
    dct_calls_file file;
    dct_arena arena;
    dct_err err = {0};
    dct_arena_init(&arena, 0);
    dct_status status = is_series ? dct_rss_open(&file, path, &err) : dct_calls_open(&file, path, &err);
    must(status == DCT_OK || (status == DCT_BAD_FILE && err.message[0] != '\0'));
    if (status == DCT_OK) {
        load(&file, is_series, &arena);
        dct_calls_close(&file);
    }
    dct_arena_deinit(&arena);
    return 0;
}
