/* The neighbour of a session in protocol: a process of our own that makes the machine busy in one way until it is ended.
 *
 *   cpu      spins, on any processor that it gets
 *   memory   maps and dirties 32 MiB at a time up to a limit, gives all of it back, and begins again
 *   io       writes a file of 1 GiB through the page cache and onto the disk, drops it from there, reads it, and begins again
 *
 * It ends when its parent does, however that ends: the system sees to it on Linux, and the neighbour looks for its parent
 * between two steps of its work. Its file has no name, so nothing stays behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/protocol.h"

enum { STEP_BYTES = 32 * 1024 * 1024, MAX_STEPS = 1 << 16, BLOCK_BYTES = 1024 * 1024, FILE_BLOCKS = 1024, SYNC_BLOCKS = 64 };

static bool has_parent(pid_t parent) { return getppid() == parent; }

static void spin(pid_t parent) {
    volatile uint32_t x = 0;
    while (has_parent(parent)) {
        for (uint32_t i = 0; i < 1u << 24; i++) x = x * 1664525u + 1013904223u;
    }
}

/* ---- memory ---- */

static void dirty(char *bytes, size_t n, char value) {
    for (size_t i = 0; i < n; i += (size_t)dct_os_page_bytes()) bytes[i] = value;
}

/* What the system refuses it does not take. */
static void take_and_give(pid_t parent, uint64_t limit) {
    static void *steps[MAX_STEPS];
    uint64_t most = limit / STEP_BYTES < MAX_STEPS ? limit / STEP_BYTES : MAX_STEPS;
    size_t step = most > 0 ? STEP_BYTES : (size_t)limit;
    if (most == 0) most = 1;
    for (char value = 1; has_parent(parent); value = (char)(value % 100 + 1)) {
        uint64_t n = 0;
        for (; n < most && has_parent(parent) && (steps[n] = dct_os_map(step)) != NULL; n++) dirty(steps[n], step, value);
        if (n == 0) nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL); /* the system has none to give */
        while (n > 0) dct_os_unmap(steps[--n], step);
    }
}

/* ---- io ---- */

static int open_unnamed(void) {
    const char *directory = getenv("TMPDIR");
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/dctms-io-XXXXXX", directory != NULL && *directory != '\0' ? directory : "/var/tmp");
    if (n < 0 || (size_t)n >= sizeof path) return -1;
    int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    return fd;
}

/* At most a quarter of what the disk has left. */
static uint32_t blocks_for(int fd) {
    struct statvfs disk;
    if (fstatvfs(fd, &disk) != 0) return 0;
    uint64_t blocks = (uint64_t)disk.f_bavail * disk.f_frsize / 4 / BLOCK_BYTES;
    return blocks < FILE_BLOCKS ? (uint32_t)blocks : FILE_BLOCKS;
}

/* One pass over the file, writing or reading; false when the disk refuses. What is written goes to the disk in small parts,
 * so that the process can be ended soon. */
static bool pass(int fd, char *block, uint32_t n_blocks, bool writes, pid_t parent) {
    for (uint32_t i = 0; i < n_blocks && has_parent(parent); i++) {
        off_t at = (off_t)i * BLOCK_BYTES;
        ssize_t n = writes ? pwrite(fd, block, BLOCK_BYTES, at) : pread(fd, block, BLOCK_BYTES, at);
        if (n != BLOCK_BYTES || (writes && i % SYNC_BLOCKS == SYNC_BLOCKS - 1 && fdatasync(fd) != 0)) return false;
    }
    return true;
}

static void stream(pid_t parent) {
    int fd = open_unnamed();
    char *block = dct_os_map(BLOCK_BYTES);
    uint32_t n_blocks = fd >= 0 ? blocks_for(fd) : 0;
    if (block == NULL || n_blocks == 0) return;
    dirty(block, BLOCK_BYTES, 1);
    while (has_parent(parent)) {
        if (!pass(fd, block, n_blocks, true, parent) || fdatasync(fd) != 0) return;
        if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return;
        if (!pass(fd, block, n_blocks, false, parent)) return;
    }
}

/* ---- what the others call ---- */

static void be_neighbour(dct_stress stress, uint64_t limit, pid_t parent) {
    if (stress == DCT_STRESS_CPU) spin(parent);
    if (stress == DCT_STRESS_MEMORY) take_and_give(parent, limit);
    if (stress == DCT_STRESS_IO) stream(parent);
}

int protocol_start_neighbour(const protocol_request *r, dct_stress stress, pid_t *pid) {
    *pid = 0;
    if (stress == DCT_STRESS_NONE) return 0;
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        cli_note("dctms: cannot start the neighbour process: %s\n", strerror(errno));
        return DCT_SYSTEM;
    }
    if (child == 0) {
        cli_follow_parent(parent);
        int code = protocol_enter_group(r);
        if (code == 0) be_neighbour(stress, r->neighbour_bytes, parent);
        _exit(code != 0 ? code : DCT_SYSTEM);
    }
    *pid = child;
    return 0;
}

bool protocol_neighbour_lives(pid_t pid) {
    siginfo_t ended = {.si_pid = 0};
    return pid == 0 || (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0);
}

void protocol_end_neighbour(pid_t pid) {
    if (pid == 0) return;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}
