/* tools/protocol_calls: records of calls as lines of CSV in files that only grow.
 *
 * What was measured is never rewritten: a run that is cut off has lost at most the line that it was writing, which is
 * removed when the file is opened again. Lines are read back strictly; one that is not as we write it is DCT_BAD_FILE with
 * its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "tools/protocol.h"

static const char calls_heading[] =
    "run,stress,system,prompt,repetition,n_prompt,n_predicted,latency_ms,peak_rss_bytes,vm_hwm_bytes\n";
static const char rss_heading[] = "run,stress,system,prompt,repetition,ms,rss_bytes\n";
enum { MAX_FIELDS = 11, MAX_LINE = 256, MAX_FILE = 1 << 30 }; /* fields: one more than a line has, so that it is seen */

/* ---- names ---- */

static const char *const system_names[DCT_SYSTEMS] = {"planned", "dynamic", "llama.cpp"};
static const char *const stress_names[DCT_STRESSES] = {"none", "cpu", "memory", "io"};

const char *dct_system_name(dct_system system) { return system_names[system]; }
const char *dct_stress_name(dct_stress stress) { return stress_names[stress]; }

static bool find_name(const char *const *names, uint32_t n, const char *name, uint32_t *out) {
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

bool dct_system_of_name(const char *name, dct_system *out) {
    uint32_t i;
    if (!find_name(system_names, DCT_SYSTEMS, name, &i)) return false;
    *out = (dct_system)i;
    return true;
}

bool dct_stress_of_name(const char *name, dct_stress *out) {
    uint32_t i;
    if (!find_name(stress_names, DCT_STRESSES, name, &i)) return false;
    *out = (dct_stress)i;
    return true;
}

/* ---- files ---- */

static dct_status fail_errno(const char *what, dct_err *err) {
    return dct_fail(err, DCT_SYSTEM, "%s: %s", what, strerror(errno));
}

static bool write_text(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t put = write(fd, text, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        text += put;
        n -= (size_t)put;
    }
    return true;
}

static dct_status file_bytes(int fd, uint64_t *bytes, dct_err *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_errno("the records", err);
    *bytes = (uint64_t)st.st_size;
    return *bytes <= MAX_FILE ? DCT_OK : dct_fail(err, DCT_BAD_FILE, "more than %d bytes of records", MAX_FILE);
}

/* Ours begins with the heading. That of a file which is new, or was cut off in the heading, is written. */
static dct_status take_heading(int fd, const char *heading, dct_err *err) {
    char begin[MAX_LINE];
    size_t n = strlen(heading);
    ssize_t got = pread(fd, begin, n, 0);
    if (got < 0) return fail_errno("the records cannot be read", err);
    if (memcmp(begin, heading, (size_t)got) != 0) return dct_fail(err, DCT_BAD_FILE, "the first line is not our heading");
    if (got == (ssize_t)n) return DCT_OK;
    if (ftruncate(fd, 0) != 0) return fail_errno("a torn heading cannot be removed", err);
    return write_text(fd, heading, n) ? DCT_OK : fail_errno("the heading cannot be written", err);
}

/* Removes what stands behind the last newline of a file of ours. */
static dct_status cut_torn_line(int fd, dct_err *err) {
    uint64_t bytes, keep;
    char last;
    dct_status status = file_bytes(fd, &bytes, err);
    if (status != DCT_OK) return status;
    keep = bytes;
    while (keep > 0 && bytes - keep < MAX_LINE) {
        if (pread(fd, &last, 1, (off_t)keep - 1) != 1) return fail_errno("the records cannot be read", err);
        if (last == '\n') break;
        keep--;
    }
    if (bytes - keep == MAX_LINE) return dct_fail(err, DCT_BAD_FILE, "these are no records");
    return keep == bytes || ftruncate(fd, (off_t)keep) == 0 ? DCT_OK : fail_errno("a torn record cannot be removed", err);
}

static dct_status open_fd(dct_calls_file *file, const char *path, dct_err *err) {
    dct_file unnamed;
    if (path == NULL) {
        dct_status status = dct_file_make_unnamed(&unnamed, NULL, 0, err);
        *file = (dct_calls_file){unnamed.fd, {"a temporary file"}};
        return status;
    }
    *file = (dct_calls_file){open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666), dct_show_path(path)};
    return file->fd >= 0 ? DCT_OK : fail_errno(file->name.text, err);
}

static dct_status open_file(dct_calls_file *file, const char *path, const char *heading, dct_err *err) {
    dct_status status = open_fd(file, path, err);
    if (status != DCT_OK) return status;
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK ? dct_fail(err, DCT_SYSTEM, "another process is writing it") : fail_errno("flock", err);
    if (status == DCT_OK) status = take_heading(file->fd, heading, err); /* before anything is cut: it may not be ours */
    if (status == DCT_OK) status = cut_torn_line(file->fd, err);
    if (status == DCT_OK) return DCT_OK;
    dct_err_name_file(err, file->name.text);
    dct_calls_close(file);
    return status;
}

dct_status dct_calls_open(dct_calls_file *file, const char *path, dct_err *err) {
    return open_file(file, path, calls_heading, err);
}

dct_status dct_rss_open(dct_calls_file *file, const char *path, dct_err *err) { return open_file(file, path, rss_heading, err); }

void dct_calls_close(dct_calls_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

/* ---- writing ---- */

static int put_key(char *line, size_t size, const dct_call *c) {
    return snprintf(line, size, "%u,%s,%s,%u,%u", c->key.run, dct_stress_name(c->key.stress), dct_system_name(c->key.system),
                    c->prompt, c->repetition);
}

/* The file is again what it was before, so that a series is there whole or not at all. */
static dct_status fail_append(const dct_calls_file *file, off_t before, const char *what, const dct_call *c, dct_err *err) {
    dct_status status =
        dct_fail(err, DCT_SYSTEM, "%s: %s of run %u, stress %s, %s, prompt %u, repetition %u cannot be written: %s",
                 file->name.text, what, c->key.run, dct_stress_name(c->key.stress), dct_system_name(c->key.system), c->prompt,
                 c->repetition, strerror(errno));
    (void)!ftruncate(file->fd, before); /* else opening it again removes the torn line */
    return status;
}

dct_status dct_calls_append(const dct_calls_file *file, const dct_call *c, dct_err *err) {
    char line[MAX_LINE];
    off_t before = lseek(file->fd, 0, SEEK_END);
    int n = put_key(line, sizeof line, c);
    n += snprintf(line + n, sizeof line - (size_t)n, ",%u,%u,%.6f,%" PRIu64 ",%" PRIu64 "\n", c->n_prompt, c->n_predicted,
                  c->latency_ms, c->peak_rss, c->vm_hwm);
    return write_text(file->fd, line, (size_t)n) ? DCT_OK : fail_append(file, before, "the call", c, err);
}

dct_status dct_rss_append(const dct_calls_file *file, const dct_call *c, const dct_rss_sample *samples, uint32_t n,
                          dct_err *err) {
    char key[MAX_LINE], text[16 * MAX_LINE];
    off_t before = lseek(file->fd, 0, SEEK_END);
    size_t used = 0;
    bool done = true;
    put_key(key, sizeof key, c);
    for (uint32_t i = 0; i < n && done; i++) {
        if (i > 0 && i + 1 < n && samples[i].bytes == samples[i - 1].bytes) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s,%.3f,%" PRIu64 "\n", key, samples[i].ms, samples[i].bytes);
        if (sizeof text - used >= MAX_LINE) continue;
        done = write_text(file->fd, text, used);
        used = 0;
    }
    done = done && write_text(file->fd, text, used);
    return done ? DCT_OK : fail_append(file, before, "memory during the call", c, err);
}

/* ---- reading ---- */

/* The fields of one line, each ended by a NUL. */
typedef struct fields {
    char *at[MAX_FIELDS];
    uint32_t n;
} fields;

static void split(char *line, fields *f) {
    f->n = 0;
    for (char *at = line; at != NULL && f->n < MAX_FIELDS;) {
        f->at[f->n++] = at;
        at = strchr(at, ',');
        if (at != NULL) *at++ = '\0';
    }
}

static bool take_u64(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || v < least || v > most) return false;
    *out = v;
    return true;
}

static bool take_u32(const char *text, uint32_t least, uint32_t most, uint32_t *out) {
    uint64_t v;
    if (!take_u64(text, least, most, &v)) return false;
    *out = (uint32_t)v;
    return true;
}

static bool take_ms(const char *text, double *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double v = strtod(text, &end);
    if (*end != '\0' || !(v >= 0 && v < 1e12)) return false;
    *out = v;
    return true;
}

static bool take_key(const fields *f, dct_session_key *key, uint32_t *prompt, uint32_t *repetition) {
    return take_u32(f->at[0], 1, DCT_PROTOCOL_RUNS, &key->run) && dct_stress_of_name(f->at[1], &key->stress) &&
           dct_system_of_name(f->at[2], &key->system) && take_u32(f->at[3], 0, DCT_PROTOCOL_PROMPTS - 1, prompt) &&
           take_u32(f->at[4], 1, DCT_PROTOCOL_REPETITIONS, repetition);
}

static bool take_call(const fields *f, void *record) {
    dct_call *c = record;
    return f->n == 10 && take_key(f, &c->key, &c->prompt, &c->repetition) && take_u32(f->at[5], 1, UINT32_MAX, &c->n_prompt) &&
           take_u32(f->at[6], 1, UINT32_MAX, &c->n_predicted) && take_ms(f->at[7], &c->latency_ms) && c->latency_ms > 0 &&
           take_u64(f->at[8], 0, UINT64_MAX, &c->peak_rss) && take_u64(f->at[9], 0, UINT64_MAX, &c->vm_hwm);
}

static bool take_rss(const fields *f, void *record) {
    dct_rss_record *r = record;
    return f->n == 7 && take_key(f, &r->key, &r->prompt, &r->repetition) && take_ms(f->at[5], &r->sample.ms) &&
           take_u64(f->at[6], 0, UINT64_MAX, &r->sample.bytes);
}

static dct_status read_text(int fd, dct_arena *arena, char **text, uint64_t *n, dct_err *err) {
    dct_status status = file_bytes(fd, n, err);
    if (status != DCT_OK) return status;
    *text = dct_arena_alloc(arena, *n + 1);
    if (*text == NULL) return dct_fail_memory(err, arena, "the records");
    for (uint64_t at = 0; at < *n;) {
        ssize_t got = pread(fd, *text + at, (size_t)(*n - at), (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail_errno("the records cannot be read", err);
        at += (uint64_t)got;
    }
    return DCT_OK;
}

/* Every line behind the heading goes through `take` into the next record. */
static dct_status load_lines(int fd, dct_arena *arena, size_t record_bytes, bool (*take)(const fields *f, void *record),
                             void **records, uint32_t *n, dct_err *err) {
    char *text;
    uint64_t n_text, n_lines = 0;
    dct_status status = read_text(fd, arena, &text, &n_text, err);
    if (status != DCT_OK) return status;
    for (uint64_t i = 0; i < n_text; i++) n_lines += text[i] == '\n';
    char *out = dct_arena_array(arena, n_lines, record_bytes);
    if (out == NULL) return dct_fail_memory(err, arena, "the records");
    *n = 0;
    char *line = strchr(text, '\n');
    for (line = line != NULL ? line + 1 : text; line < text + n_text;) {
        fields f;
        char *end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        uint64_t offset = (uint64_t)(line - text);
        split(line, &f);
        if (end == NULL || !take(&f, out + *n * record_bytes)) return dct_fail_at(err, DCT_BAD_FILE, offset, "this is no record");
        ++*n;
        line = end + 1;
    }
    *records = out;
    return DCT_OK;
}

static dct_status load(const dct_calls_file *file, dct_arena *arena, size_t record_bytes,
                       bool (*take)(const fields *f, void *record), void **records, uint32_t *n, dct_err *err) {
    dct_status status = load_lines(file->fd, arena, record_bytes, take, records, n, err);
    if (status != DCT_OK) dct_err_name_file(err, file->name.text);
    return status;
}

dct_status dct_calls_load(const dct_calls_file *file, dct_arena *arena, dct_call **calls, uint32_t *n, dct_err *err) {
    void *records;
    dct_status status = load(file, arena, sizeof **calls, take_call, &records, n, err);
    if (status == DCT_OK) *calls = records;
    return status;
}

dct_status dct_rss_load(const dct_calls_file *file, dct_arena *arena, dct_rss_record **out, uint32_t *n, dct_err *err) {
    void *records;
    dct_status status = load(file, arena, sizeof **out, take_rss, &records, n, err);
    if (status == DCT_OK) *out = records;
    return status;
}

static bool is_key(const dct_session_key *a, const dct_session_key *b) {
    return a->run == b->run && a->stress == b->stress && a->system == b->system;
}

static bool has_call(const dct_call *calls, uint32_t n, const dct_rss_record *of) {
    for (uint32_t i = 0; i < n; i++) {
        const dct_call *c = &calls[i];
        if (is_key(&c->key, &of->key) && c->prompt == of->prompt && c->repetition == of->repetition) return true;
    }
    return false;
}

static bool is_of_one_call(const dct_rss_record *a, const dct_rss_record *b) {
    return is_key(&a->key, &b->key) && a->prompt == b->prompt && a->repetition == b->repetition;
}

static dct_status drop_unfinished(const dct_calls_file *file, const dct_call *calls, uint32_t n_calls, dct_arena *arena,
                                  dct_err *err) {
    dct_rss_record *r;
    uint32_t n;
    char *text;
    uint64_t n_text, at = 0;
    dct_status status = dct_rss_load(file, arena, &r, &n, err);
    if (status != DCT_OK || n == 0 || has_call(calls, n_calls, &r[n - 1])) return status;
    uint32_t first = n - 1;
    while (first > 0 && is_of_one_call(&r[first - 1], &r[n - 1])) first--;
    status = read_text(file->fd, arena, &text, &n_text, err);
    if (status != DCT_OK) return status;
    for (uint32_t line = 0; line <= first; line++) at = (uint64_t)(strchr(text + at, '\n') - text) + 1; /* the heading is one */
    return ftruncate(file->fd, (off_t)at) == 0 ? DCT_OK : fail_errno("a series without its call cannot be removed", err);
}

dct_status dct_rss_drop_unfinished(const dct_calls_file *file, const dct_calls_file *calls_file, dct_err *err) {
    dct_arena arena;
    dct_call *calls;
    uint32_t n;
    dct_arena_init(&arena, 0);
    dct_status status = dct_calls_load(calls_file, &arena, &calls, &n, err);
    if (status == DCT_OK) status = drop_unfinished(file, calls, n, &arena, err);
    dct_arena_deinit(&arena);
    return status;
}
