/* Presence of memory: huge pages, populating, locking, and what the kernel counts. Linux first; other systems get the
 * portable half and figures of 0, which mean "unknown".
 *
 * Two facts shape this file. A page that was populated by the kernel may still be slow at its first touch on a virtual
 * machine, because the host backs it late and no fault counter shows that: so populating always ends with a touch of every
 * page. And a page table that is complete in the reservation is not complete in the process: program, libraries, data and
 * the main stack fault too, so they are populated by a walk over /proc/self/maps.
 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os_proc.h"
#include "base/size.h"

enum { TOUCH_BYTES = 4096 }; /* the smallest page of any system we run on */

/* Writes one byte of each page back as it is, atomically, so that it is safe beside threads that use the range: nothing changes
 * for them, which the thread sanitizer cannot know. */
__attribute__((no_sanitize_thread)) static void touch_pages(void *ptr, size_t bytes) {
    uint8_t *p = ptr;
    for (size_t at = 0; at < bytes; at += TOUCH_BYTES) __atomic_fetch_or(&p[at], 0, __ATOMIC_RELAXED);
    if (bytes != 0) __atomic_fetch_or(&p[bytes - 1], 0, __ATOMIC_RELAXED);
}

/* Recursion whose frames are a page each: the only way to touch a stack that no compiler can object to. The result is read
 * after the inner call, so that it cannot become a jump that reuses this frame. */
__attribute__((noinline)) static char touch_stack(size_t bytes) {
    volatile char frame[TOUCH_BYTES];
    frame[0] = 0;
    frame[TOUCH_BYTES - 1] = 0;
    char below = bytes > TOUCH_BYTES ? touch_stack(bytes - TOUCH_BYTES) : 0;
    return (char)(frame[0] | below);
}

dct_status dct_os_check_stack(size_t stack_bytes, dct_err *err) {
    enum { MARGIN = 256 * 1024 }; /* arguments, environment and what is in use already */
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= stack_bytes + MARGIN)
        return DCT_OK;
    return dct_fail(err, DCT_SYSTEM,
                    "the stack may not grow enough: RLIMIT_STACK is %llu bytes, %llu are needed (raise it with ulimit -s)",
                    (unsigned long long)limit.rlim_cur, (unsigned long long)(stack_bytes + MARGIN));
}

dct_status dct_os_fail_map(const char *what, uint64_t bytes, dct_err *err) {
    enum { MIB = 1024 * 1024 };
    struct rlimit limit;
    dct_mem_figures now;
    dct_os_mem_figures(&now);
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (bytes <= limit.rlim_cur && now.vm_size <= limit.rlim_cur - bytes))
        return dct_fail(err, DCT_SYSTEM, "the system refused %.1f MiB for %s", (double)bytes / MIB, what);
    return dct_fail(err, DCT_SYSTEM,
                    "the system refused %.1f MiB for %s: RLIMIT_AS is %.1f MiB, %.1f MiB are mapped already "
                    "(raise it with ulimit -v)",
                    (double)bytes / MIB, what, (double)limit.rlim_cur / MIB, (double)now.vm_size / MIB);
}

dct_status dct_os_lock(void *ptr, size_t bytes, uint64_t all_bytes, dct_err *err) {
    if (bytes == 0 || mlock(ptr, bytes) == 0) return DCT_OK;
    int why = errno;
    struct rlimit limit = {0, 0};
#if defined(RLIMIT_MEMLOCK)
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= all_bytes)) {
        return dct_fail(err, DCT_SYSTEM, "cannot lock %llu bytes in memory: %s", (unsigned long long)all_bytes, strerror(why));
    }
#endif
    return dct_fail(err, DCT_SYSTEM,
                    "cannot lock memory: RLIMIT_MEMLOCK is %llu bytes, %llu are needed (raise it with ulimit -l)",
                    (unsigned long long)limit.rlim_cur, (unsigned long long)all_bytes);
}

#if defined(__linux__)

/* Values of <linux/mman.h> since Linux 5.14, for older headers. */
enum { POPULATE_READ = 22, POPULATE_WRITE = 23 };

#if defined(DCT_SANITIZED)
enum { WALKS_MAPS = 0 }; /* a sanitizer maps terabytes of shadow that must stay empty */
#else
enum { WALKS_MAPS = 1 };
#endif

bool dct_os_want_huge_pages(void *ptr, size_t bytes) { return madvise(ptr, bytes, MADV_HUGEPAGE) == 0; }

/* A kernel without huge pages refuses, and makes none. */
void dct_os_settle_pages(void *ptr, size_t bytes) { (void)madvise(ptr, bytes, MADV_NOHUGEPAGE); }

/* 0, or the errno of populating whole pages [begin, end). */
static int populate_range(uintptr_t begin, uintptr_t end, int advice) {
    while (madvise((void *)begin, end - begin, advice) != 0) {
        if (errno != EINTR && errno != EAGAIN) return errno;
    }
    return 0;
}

dct_status dct_os_populate(void *ptr, size_t bytes, dct_err *err) {
    if (bytes == 0) return DCT_OK;
    uintptr_t page = (uintptr_t)dct_os_page_bytes();
    uintptr_t begin = (uintptr_t)ptr & ~(page - 1);
    uintptr_t end = ((uintptr_t)ptr + bytes + page - 1) & ~(page - 1);
    int why = populate_range(begin, end, POPULATE_WRITE);
    if (why != 0 && why != EINVAL) { /* EINVAL: a kernel before 5.14, where touching alone must do */
        return dct_fail(err, DCT_SYSTEM, "the system cannot give %llu bytes of memory: %s", (unsigned long long)bytes,
                        strerror(why));
    }
    touch_pages(ptr, bytes);
    return DCT_OK;
}

typedef struct mapping {
    uintptr_t begin, end;
    bool readable, writable, is_private, has_file, is_special;
} mapping;

static bool read_hex(const char **p, uint64_t *out) {
    uint64_t v = 0;
    const char *c = *p;
    for (;; c++) {
        unsigned digit;
        if (*c >= '0' && *c <= '9') digit = (unsigned)(*c - '0');
        else if (*c >= 'a' && *c <= 'f') digit = (unsigned)(*c - 'a' + 10);
        else break;
        v = v * 16 + digit;
    }
    if (c == *p) return false;
    *p = c;
    *out = v;
    return true;
}

/* "begin-end rwxp offset dev inode   path": a path begins with '/', a special mapping with "[v" (vdso, vvar, vsyscall). */
static bool parse_mapping(const char *line, mapping *m) {
    uint64_t begin, end;
    if (!read_hex(&line, &begin) || *line++ != '-' || !read_hex(&line, &end) || *line++ != ' ' || strlen(line) < 4) return false;
    m->begin = (uintptr_t)begin;
    m->end = (uintptr_t)end;
    m->readable = line[0] == 'r';
    m->writable = line[1] == 'w';
    m->is_private = line[3] == 'p';
    m->has_file = strchr(line, '/') != NULL;
    m->is_special = strstr(line, "[v") != NULL;
    return true;
}

/* An anonymous mapping larger than this belongs to someone who populates it himself (the reservation), or is a reserve that
 * must not be populated at all. malloc's heaps are smaller. */
#define ANONYMOUS_MAX ((uintptr_t)64 << 20)

static void populate_mapping(const mapping *m) {
    if (!m->readable || m->is_special) return;
    if (!m->has_file && m->end - m->begin > ANONYMOUS_MAX) return;
    if (m->writable && m->is_private) { /* data, bss, heap, stack: make the private copy now */
        if (populate_range(m->begin, m->end, POPULATE_WRITE) == EINVAL) touch_pages((void *)m->begin, m->end - m->begin);
        return;
    }
    if (!m->has_file || populate_range(m->begin, m->end, POPULATE_READ) != EINVAL) return;
    /* Before 5.14: let the kernel read a byte of each page for us, since one behind the end of a file would kill us. */
    for (uintptr_t at = m->begin; at < m->end; at += TOUCH_BYTES) {
        char byte;
        struct iovec to = {&byte, 1}, from = {(void *)at, 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) return;
    }
}

static void populate_mappings(int maps) {
    char text[4096];
    size_t used = 0;
    bool skip = false; /* the rest of a line too long for the buffer, whose head was handled */
    for (;;) {
        ssize_t got = read(maps, text + used, sizeof text - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        used += (size_t)got;
        text[used] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            mapping m;
            if (!skip && parse_mapping(line, &m)) populate_mapping(&m);
            skip = false;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
        if (used < sizeof text - 1) continue;
        mapping m;
        if (!skip && parse_mapping(text, &m)) populate_mapping(&m);
        skip = true;
        used = 0;
    }
}

/* The stack of the main thread grows and is touched; those of others are mappings like all else, and may be shorter. */
void dct_os_populate_process(size_t stack_bytes) {
    if (dct_os_thread_id() == getpid()) (void)touch_stack(stack_bytes);
    (void)dct_os_now_ns(); /* the clock lies in pages of the kernel's that only a call can bring in */
    int maps = WALKS_MAPS ? open("/proc/self/maps", O_RDONLY | O_CLOEXEC) : -1;
    if (maps < 0) return;
    populate_mappings(maps);
    close(maps);
}

static void read_status(dct_mem_figures *out) {
    char text[DCT_PROC_TEXT_BYTES];
    if (!dct_proc_read(NULL, "/proc/self/status", text, sizeof text)) return;
    const struct {
        const char *key;
        uint64_t *to;
    } fields[] = {
        {"VmHWM", &out->vm_hwm},     {"VmPeak", &out->vm_peak},   {"VmSize", &out->vm_size},
        {"RssAnon", &out->rss_anon}, {"RssFile", &out->rss_file}, {"VmSwap", &out->vm_swap},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!dct_proc_number(text, fields[i].key, fields[i].to)) *fields[i].to = 0;
    }
}

#else /* other POSIX systems */

bool dct_os_want_huge_pages(void *ptr, size_t bytes) {
    (void)ptr, (void)bytes;
    return false;
}

void dct_os_settle_pages(void *ptr, size_t bytes) { (void)ptr, (void)bytes; }

dct_status dct_os_populate(void *ptr, size_t bytes, dct_err *err) {
    (void)err;
    touch_pages(ptr, bytes);
    touch_pages(ptr, bytes);
    return DCT_OK;
}

void dct_os_populate_process(size_t stack_bytes) { (void)touch_stack(stack_bytes); }

static void read_status(dct_mem_figures *out) { (void)out; }

#endif

void dct_os_mem_figures(dct_mem_figures *out) {
    memset(out, 0, sizeof *out);
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        out->min_faults = (uint64_t)use.ru_minflt;
        out->maj_faults = (uint64_t)use.ru_majflt;
    }
    read_status(out);
}
