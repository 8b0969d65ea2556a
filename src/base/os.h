/* base/os: the operating system, as little of it as we need. Linux and other POSIX systems differ only behind this header.
 *
 * Functions here never print and never allocate but by mapping pages.
 */
#ifndef DCT_BASE_OS_H
#define DCT_BASE_OS_H

#include <stdatomic.h>

#include "base/status.h"

/* --- memory ------------------------------------------------------------------------------------------------------- */

uint64_t dct_os_page_bytes(void);

/* Private anonymous pages, zeroed, not yet populated; NULL when refused. */
void *dct_os_map(size_t bytes);
void dct_os_unmap(void *ptr, size_t bytes);

/* Asks for huge pages; false when the system has none to give. Harmless either way. */
bool dct_os_want_huge_pages(void *ptr, size_t bytes);

/* As dct_os_map, where huge pages fit, and asks for them; elsewhere when that place is taken, or when it is smaller than one.
 * Never more than `bytes` are mapped, not even for a moment: limits of addresses count that. */
void *dct_os_map_huge(size_t bytes);

/* From now on pages stay as they are: the system makes no huge page of small ones behind our back, which shows as a page fault in
 * whoever touches them meanwhile. Huge pages that are there remain. */
void dct_os_settle_pages(void *ptr, size_t bytes);

/* Makes every page of the range present and writable without changing its content, and touches it. */
dct_status dct_os_populate(void *ptr, size_t bytes, dct_err *err) DCT_MUST_CHECK;

/* Pins the range in memory, one of several that have `all_bytes` together. The message names RLIMIT_MEMLOCK, what it is and what
 * is needed for all. */
dct_status dct_os_lock(void *ptr, size_t bytes, uint64_t all_bytes, dct_err *err) DCT_MUST_CHECK;

/* Populates every page that the process has mapped (program, libraries, data), so that none faults later. The calling
 * thread's stack is touched down to `stack_bytes`. */
void dct_os_populate_process(size_t stack_bytes);

/* For what could not be mapped: "the system refused N MiB for WHAT", with RLIMIT_AS and what is mapped already when that limit is
 * the cause. Returns DCT_SYSTEM. */
dct_status dct_os_fail_map(const char *what, uint64_t bytes, dct_err *err);

/* Whether the main stack may grow to `stack_bytes` and a little more; the message names RLIMIT_STACK and both numbers. */
dct_status dct_os_check_stack(size_t stack_bytes, dct_err *err) DCT_MUST_CHECK;

/* --- files -------------------------------------------------------------------------------------------------------- */

typedef struct dct_file {
    int fd;
    uint64_t bytes; /* size when opened; 0 when not a regular file */
    int64_t written_ns; /* when it was last written, as of then */
    uint64_t identity;  /* hash of the device and the number there: one file under all its names */
} dct_file;

bool dct_os_is_directory(const char *path);
bool dct_os_exists(const char *path);

/* Opens for reading; refuses what is not a regular file. The message carries path and reason. */
dct_status dct_file_open(dct_file *file, const char *path, dct_err *err) DCT_MUST_CHECK;
/* Opens for reading in order whatever has bytes to give: a file, a pipe, a terminal. Waits for the writer of a named pipe. */
dct_status dct_file_open_stream(dct_file *file, const char *path, dct_err *err) DCT_MUST_CHECK;
void dct_file_close(dct_file *file);

/* Whether size and time of writing are what they were when it was opened. */
bool dct_file_is_as_opened(const dct_file *file);

/* Exactly n bytes at `offset`; fewer is DCT_BAD_FILE "cut off", with the bytes that the file has and those it needs. */
dct_status dct_file_read_at(const dct_file *file, uint64_t offset, void *out, uint64_t n, dct_err *err) DCT_MUST_CHECK;

/* A file being written. A regular file is built beside its place and renamed into it by dct_out_commit, so a reader never sees
 * half of it; a symbolic link is followed first; a device or a pipe is written as it stands. Until then it has no name where the
 * file system can do that, and whatever ends the process, it is gone. */
typedef struct dct_out {
    int fd;
    bool direct;      /* no rename: `final_path` is not a regular file */
    bool nameless;    /* `temp_path` is its name only between the last write and the rename */
    char final_path[4096], temp_path[4096];
} dct_out;

dct_status dct_out_open(dct_out *out, const char *path, dct_err *err) DCT_MUST_CHECK;
dct_status dct_out_write(const dct_out *out, const void *bytes, uint64_t n, dct_err *err) DCT_MUST_CHECK;
dct_status dct_out_commit(dct_out *out, dct_err *err) DCT_MUST_CHECK; /* closes; on failure nothing is left behind */
void dct_out_discard(dct_out *out);                                   /* closes and removes what was written */

/* Removes what has been written of the file that was opened last, unless it is done. For a process that ends here and now; may be
 * called by a signal handler. */
void dct_out_abandon(void);

/* The three in one. */
dct_status dct_file_write_whole(const char *path, const void *bytes, uint64_t n, dct_err *err) DCT_MUST_CHECK;

/* A file without a name, in TMPDIR or else /tmp: it begins with these bytes, may be read and appended to, and is gone when it is
 * closed. */
dct_status dct_file_make_unnamed(dct_file *file, const void *bytes, uint64_t n, dct_err *err) DCT_MUST_CHECK;

/* --- time, processor, counters ------------------------------------------------------------------------------------ */

uint64_t dct_os_now_ns(void); /* monotonic */

/* How many workers this process should run: floor(min(affinity, cgroup quota)), at least 1. `source` (may be NULL)
 * receives one line that says where the number comes from. `root` prefixes /proc and /sys paths (tests); NULL = "". */
uint32_t dct_os_usable_cpus(const char *root, char *source, size_t source_bytes);

/* Keeps the process, and the threads that it will start, on the processors of `mask` (bit 0: the first). */
dct_status dct_os_use_cpus(uint64_t mask, dct_err *err) DCT_MUST_CHECK;

/* The processor's name as the system gives it; "" when it gives none. */
void dct_os_cpu_name(char *name, size_t size);

typedef struct dct_mem_figures {
    uint64_t vm_hwm, vm_peak, vm_size, rss_anon, rss_file, vm_swap; /* bytes, from /proc/self/status; 0 when unknown */
    uint64_t min_faults, maj_faults;                                 /* since the process started */
} dct_mem_figures;
void dct_os_mem_figures(dct_mem_figures *out);

/* Memory that this process could still take: min(MemAvailable, cgroup limit - use that cannot be reclaimed), v1 and v2,
 * nested; no more than RLIMIT_AS and RLIMIT_DATA. `total` is the size of the machine, or of the least of these limits. */
typedef struct dct_mem_available {
    uint64_t available_bytes, total_bytes;
    uint64_t charged_ahead_bytes; /* at most: use that a control group counts and nobody has, and gives back when it is needed */
    char source[128]; /* "MemAvailable", "cgroup v2 memory.max (/a/b)", "RLIMIT_AS (ulimit -v)", ... */
} dct_mem_available;
void dct_os_mem_available(const char *root, dct_mem_available *out);

/* A memory cgroup of a limit below the one that this process is in (v2, else v1), empty; one of the name that holds no process is
 * taken over. A process that enters takes its later children with it. Removing needs all of them ended. DCT_SYSTEM says why none
 * can be made. */
typedef struct dct_mem_group {
    char path[1024];
} dct_mem_group;
dct_status dct_os_mem_group_make(const char *name, uint64_t limit_bytes, dct_mem_group *out, dct_err *err) DCT_MUST_CHECK;
dct_status dct_os_mem_group_enter(const dct_mem_group *group, dct_err *err) DCT_MUST_CHECK;
void dct_os_mem_group_remove(const dct_mem_group *group);

/* --- threads ------------------------------------------------------------------------------------------------------ */

typedef struct dct_thread {
    uintptr_t handle;
} dct_thread;

/* Enough for any worker of ours. */
#ifdef DCT_SANITIZED
enum { DCT_WORKER_STACK = 4 * 1024 * 1024 }; /* a sanitizer keeps its own data there */
#else
enum { DCT_WORKER_STACK = 256 * 1024 };
#endif

/* Starts a thread whose stack is the caller's memory (16-byte aligned, at least 64 KiB). */
dct_status dct_thread_start(dct_thread *thread, void (*main)(void *), void *arg, void *stack, size_t stack_bytes,
                            dct_err *err) DCT_MUST_CHECK;
void dct_thread_join(dct_thread thread);

/* Lets another thread that wants to run have the processor. */
void dct_os_yield(void);

/* Threads and the processors that they run on, one by one; known on Linux alone. */
typedef struct dct_os_cpus {
    unsigned long bits[1024 / (8 * sizeof(unsigned long))];
} dct_os_cpus;
uint32_t dct_os_cpu(void);                 /* that the caller runs on; UINT32_MAX: not known */
int32_t dct_os_thread_id(void);            /* of the caller; 0: not known */
uint64_t dct_os_thread_ns(int32_t thread); /* processor time of a thread of ours, which stands still while it does not run */
bool dct_os_cpus_allowed(dct_os_cpus *out); /* where the caller may run; false: not known */
bool dct_os_keep_thread(int32_t thread, const dct_os_cpus *cpus); /* on these, from now on; 0: the caller. False: refused */

/* Sleeps while *word == expected (may wake early). Wakes every sleeper on the word. */
void dct_os_wait_word(_Atomic uint32_t *word, uint32_t expected);
void dct_os_wake_word(_Atomic uint32_t *word);

static inline void dct_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* --- the seal ----------------------------------------------------------------------------------------------------- */

/* From now on no thread of this process can obtain memory: mmap, brk, mremap, mprotect, clone, fork, exec and their kin are
 * refused (planning.md §6: brk answers 0, the rest EPERM or ENOMEM). Irrevocable. *enforced is false where the system has
 * no such filter: the seal is then a promise. The main stack is held at the size it has: dct_os_populate_process makes it as
 * large as needed before. `kill`: an attempt raises SIGSYS instead, which ends the process. */
dct_status dct_os_seal(bool kill, bool *enforced, dct_err *err) DCT_MUST_CHECK;

/* The name of a system call that the seal refuses, by the number that SIGSYS brings. */
const char *dct_os_sealed_call(long number);

#endif
