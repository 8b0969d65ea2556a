/* Memory, files and time: what every POSIX system has. Presence of memory and its counters are in os_linux.c, processors and
 * control groups in os_cgroup.c, threads in os_thread.c, the seal in os_seal.c. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/safe_text.h"

uint64_t dct_os_page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

/* `wish` is where the system should place it, which it does when nothing is there. */
static void *map_near(void *wish, size_t bytes) {
    void *p = mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *dct_os_map(size_t bytes) { return map_near(NULL, bytes); }

void dct_os_unmap(void *ptr, size_t bytes) {
    if (ptr != NULL) munmap(ptr, bytes);
}

/* The system places mappings downwards, so there is mostly room below the one that it gives. */
void *dct_os_map_huge(size_t bytes) {
    const size_t page = 2 << 20;
    char *p = dct_os_map(bytes);
    size_t over = (uintptr_t)p & (page - 1);
    if (over != 0 && bytes >= page) {
        dct_os_unmap(p, bytes);
        p = map_near(p - over, bytes);
    }
    if (p != NULL) (void)dct_os_want_huge_pages(p, bytes);
    return p;
}

bool dct_os_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool dct_os_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static int64_t written_ns(const struct stat *st) { return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec; }

dct_status dct_file_open(dct_file *file, const char *path, dct_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return dct_fail(err, DCT_BAD_FILE, "%s: %s", dct_show_path(path).text, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return dct_fail(err, DCT_BAD_FILE, "%s: not a regular file", dct_show_path(path).text);
    }
    *file = (dct_file){.fd = fd, .bytes = (uint64_t)st.st_size, .written_ns = written_ns(&st),
                       .identity = dct_hash_mix(dct_hash_mix((uint64_t)st.st_dev) ^ (uint64_t)st.st_ino)};
    return DCT_OK;
}

bool dct_file_is_as_opened(const dct_file *file) {
    struct stat st;
    return fstat(file->fd, &st) == 0 && (uint64_t)st.st_size == file->bytes && written_ns(&st) == file->written_ns;
}

dct_status dct_file_open_stream(dct_file *file, const char *path, dct_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return dct_fail(err, DCT_BAD_FILE, "%s: %s", dct_show_path(path).text, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        close(fd);
        return dct_fail(err, DCT_BAD_FILE, "%s: a directory, not a text", dct_show_path(path).text);
    }
    *file = (dct_file){.fd = fd, .bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, .written_ns = written_ns(&st)};
    return DCT_OK;
}

void dct_file_close(dct_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

static dct_status fail_cut_off(const dct_file *file, uint64_t needed, dct_err *err) {
    struct stat st;
    uint64_t has = fstat(file->fd, &st) == 0 ? (uint64_t)st.st_size : file->bytes; /* it may have been cut since */
    return dct_fail_at(err, DCT_BAD_FILE, has, "the file is cut off: it has %llu bytes, at least %llu are needed",
                       (unsigned long long)has, (unsigned long long)needed);
}

dct_status dct_file_read_at(const dct_file *file, uint64_t offset, void *out, uint64_t n, dct_err *err) {
    char *to = out;
    while (n > 0) {
        size_t want = n < (1u << 30) ? (size_t)n : (1u << 30);
        ssize_t got = pread(file->fd, to, want, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return dct_fail_at(err, DCT_SYSTEM, offset, "read failed: %s", strerror(errno));
        if (got == 0) return fail_cut_off(file, offset + n, err);
        to += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return DCT_OK;
}

/* The file that was opened last and is not done. */
static dct_out *_Atomic being_written;

static void forget(dct_out *out) { (void)atomic_compare_exchange_strong(&being_written, &(dct_out *){out}, NULL); }

void dct_out_abandon(void) {
    const dct_out *out = atomic_load(&being_written);
    if (out != NULL && !out->direct) unlink(out->temp_path);
}

static dct_status fail_write(const char *path, dct_err *err) {
    return dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", dct_show_path(path).text, strerror(errno));
}

/* A file without a name in the directory of `path`; -1 where there is no such thing, or no way to name it later. */
static int open_nameless(const char *path) {
#if defined(O_TMPFILE)
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL) strcpy(directory, ".");
    else slash[slash == directory] = '\0'; /* the root keeps its slash */
    if (access("/proc/self/fd", X_OK) == 0) return open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#endif
    (void)path;
    return -1;
}

/* What a process that was killed in between left under this name is replaced. */
static int give_name(const dct_out *out) {
    char link_path[64];
    snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", out->fd);
    unlink(out->temp_path);
    return linkat(AT_FDCWD, link_path, AT_FDCWD, out->temp_path, AT_SYMLINK_FOLLOW);
}

dct_status dct_out_open(dct_out *out, const char *path, dct_err *err) {
    struct stat st;
    bool exists = stat(path, &st) == 0;
    int why = errno;
    if (!exists && lstat(path, &st) == 0)
        return dct_fail(err, DCT_SYSTEM, "cannot write %s: the file that this link names: %s", dct_show_path(path).text,
                        strerror(why));
    char *resolved = exists ? realpath(path, out->final_path) : NULL;
    int n = resolved != NULL ? (int)strlen(resolved) : snprintf(out->final_path, sizeof out->final_path, "%s", path);
    int m = snprintf(out->temp_path, sizeof out->temp_path, "%.4000s.part%ld", out->final_path, (long)getpid());
    if (n < 0 || (size_t)n >= 4000 || m < 0) return dct_fail(err, DCT_USAGE, "path too long: %.80s...", path);
    out->direct = exists && !S_ISREG(st.st_mode);
    atomic_store(&being_written, out); /* before there is a file, so that none is left behind by a signal in between */
    if (out->direct) out->fd = open(out->final_path, O_WRONLY | O_CLOEXEC);
    else out->fd = open_nameless(out->final_path);
    out->nameless = !out->direct && out->fd >= 0;
    if (!out->direct && !out->nameless) out->fd = open(out->temp_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out->fd >= 0) return DCT_OK;
    dct_status status = fail_write(path, err);
    forget(out);
    return status;
}

dct_status dct_out_write(const dct_out *out, const void *bytes, uint64_t n, dct_err *err) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = write(out->fd, from, n < (1u << 30) ? (size_t)n : (1u << 30));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return fail_write(out->final_path, err);
        from += put;
        n -= (uint64_t)put;
    }
    return DCT_OK;
}

dct_status dct_out_commit(dct_out *out, dct_err *err) {
    int failed = out->nameless ? give_name(out) : 0;
    if (failed == 0) {
        failed = close(out->fd);
        out->fd = -1;
    }
    if (failed == 0 && !out->direct) failed = rename(out->temp_path, out->final_path);
    if (failed == 0) {
        forget(out);
        return DCT_OK;
    }
    dct_status status = fail_write(out->final_path, err);
    dct_out_discard(out);
    return status;
}

void dct_out_discard(dct_out *out) {
    if (out->fd >= 0) close(out->fd);
    out->fd = -1;
    if (!out->direct) unlink(out->temp_path);
    forget(out);
}

dct_status dct_file_write_whole(const char *path, const void *bytes, uint64_t n, dct_err *err) {
    dct_out out;
    dct_status status = dct_out_open(&out, path, err);
    if (status != DCT_OK) return status;
    status = dct_out_write(&out, bytes, n, err);
    if (status == DCT_OK) return dct_out_commit(&out, err);
    dct_out_discard(&out);
    return status;
}

dct_status dct_file_make_unnamed(dct_file *file, const void *bytes, uint64_t n, dct_err *err) {
    const char *directory = getenv("TMPDIR");
    if (directory == NULL || *directory == '\0') directory = "/tmp";
    dct_out out;
    *file = (dct_file){.fd = -1};
    if (snprintf(out.final_path, sizeof out.final_path, "%s/dctms-XXXXXX", directory) >= (int)sizeof out.final_path)
        return dct_fail(err, DCT_USAGE, "TMPDIR is too long: %.80s...", directory);
    out.fd = mkostemp(out.final_path, O_APPEND | O_CLOEXEC);
    if (out.fd < 0) return fail_write(out.final_path, err);
    unlink(out.final_path);
    *file = (dct_file){.fd = out.fd, .bytes = n};
    dct_status status = dct_out_write(&out, bytes, n, err);
    if (status != DCT_OK) dct_file_close(file);
    return status;
}

uint64_t dct_os_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
