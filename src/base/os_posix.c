/* Memory, files and time: what every POSIX system has. Processor, cgroup and counters are in os_linux.c, threads in
 * os_thread.c, the seal in os_seal.c. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t dct_os_page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

void *dct_os_map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void dct_os_unmap(void *ptr, size_t bytes) {
    if (ptr != NULL) munmap(ptr, bytes);
}

void *dct_os_map_aligned(size_t bytes, size_t align) {
    if (bytes > SIZE_MAX - align) return NULL;
    char *raw = dct_os_map(bytes + align);
    if (raw == NULL) return NULL;
    char *start = (char *)(((uintptr_t)raw + align - 1) & ~(uintptr_t)(align - 1));
    size_t head = (size_t)(start - raw), tail = align - head;
    if (head != 0) munmap(raw, head);
    if (tail != 0) munmap(start + bytes, tail);
    return start;
}

#if defined(MAP_FIXED_NOREPLACE)

/* Far enough below what the system would give next that small mappings made meanwhile do not reach it. */
enum { RANGE_DISTANCE = 256 * 1024 * 1024 };

void *dct_os_free_range(size_t bytes, size_t align) {
    char *near = dct_os_map(1);
    if (near == NULL) return NULL;
    munmap(near, 1);
    if ((uintptr_t)near < RANGE_DISTANCE || (uintptr_t)near - RANGE_DISTANCE < bytes) return NULL;
    return (void *)(((uintptr_t)near - RANGE_DISTANCE - bytes) & ~(uintptr_t)(align - 1));
}

bool dct_os_map_at(void *at, size_t bytes) {
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == at) return true;
    if (p != MAP_FAILED) munmap(p, bytes); /* a kernel that does not know the flag takes the address for a hint */
    return false;
}

#else

void *dct_os_free_range(size_t bytes, size_t align) {
    (void)bytes, (void)align;
    return NULL;
}

bool dct_os_map_at(void *at, size_t bytes) {
    (void)at, (void)bytes;
    return false;
}

#endif

bool dct_os_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool dct_os_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

dct_status dct_file_open(dct_file *file, const char *path, dct_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return dct_fail(err, DCT_BAD_FILE, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return dct_fail(err, DCT_BAD_FILE, "%s: not a regular file", path);
    }
    file->fd = fd;
    file->bytes = (uint64_t)st.st_size;
    return DCT_OK;
}

void dct_file_close(dct_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

dct_status dct_file_read_at(const dct_file *file, uint64_t offset, void *out, uint64_t n, dct_err *err) {
    char *to = out;
    while (n > 0) {
        size_t want = n < (1u << 30) ? (size_t)n : (1u << 30);
        ssize_t got = pread(file->fd, to, want, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return dct_fail_at(err, DCT_SYSTEM, offset, "read failed: %s", strerror(errno));
        if (got == 0) return dct_fail_at(err, DCT_BAD_FILE, offset, "the file is cut off: %llu bytes missing", (unsigned long long)n);
        to += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return DCT_OK;
}

dct_status dct_file_write_whole(const char *path, const void *bytes, uint64_t n, dct_err *err) {
    char temp[4096];
    int len = snprintf(temp, sizeof temp, "%s.part%ld", path, (long)getpid());
    if (len < 0 || (size_t)len >= sizeof temp) return dct_fail(err, DCT_USAGE, "path too long: %.80s...", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = write(fd, from, n < (1u << 30) ? (size_t)n : (1u << 30));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            int why = errno;
            close(fd);
            unlink(temp);
            return dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", path, strerror(why));
        }
        from += put;
        n -= (uint64_t)put;
    }
    if (close(fd) != 0 || rename(temp, path) != 0) {
        int why = errno;
        unlink(temp);
        return dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", path, strerror(why));
    }
    return DCT_OK;
}

uint64_t dct_os_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
