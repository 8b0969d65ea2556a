/* A library that misbehaves, for test_holes: loaded into the command by LD_PRELOAD, it waits for the first bytes of the answer, which
 * come after the seal, and then tries to obtain memory in the way that the variable DCT_HOLE names. It says in one line what came of
 * it, and lets the command go on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, LARGE = 64 * MIB, SMALL_STACK = 64 * 1024 };

/* Each returns whether it obtained what it tried to; errno tells why not. */

static void *volatile kept; /* so that no compiler can do without it */

static bool keep(void *p, size_t n) {
    kept = p;
    if (kept != NULL) memset(kept, 1, n);
    return kept != NULL;
}

static bool try_malloc(void) { return keep(malloc(1000), 1000); }
static bool try_heap(void) { return keep(malloc(8 * MIB), 8 * MIB); }

static bool try_mapping(int flags) {
    void *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return keep(p == MAP_FAILED ? NULL : p, LARGE);
}
static bool try_private(void) { return try_mapping(MAP_PRIVATE); }
static bool try_shared(void) { return try_mapping(MAP_SHARED); }

static bool try_file(void) {
    int fd = open("/proc/self/exe", O_RDONLY);
    const volatile char *p = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return false;
    return p[4096] != 1 || p[8192] != 1;
}

static bool try_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    return child > 0 && waitpid(child, NULL, 0) == child;
}

static void *nothing(void *arg) { return arg; }
static bool try_thread(void) {
    pthread_t id;
    int why = pthread_create(&id, NULL, nothing, NULL);
    if (why == 0) pthread_join(id, NULL);
    errno = why;
    return why == 0;
}

/* Frames of a page each; the result is used after the inner call, so that no frame can go before it. */
__attribute__((noinline)) static int use_stack(size_t bytes) {
    volatile char frame[4096];
    frame[0] = frame[4095] = 1;
    int below = bytes > sizeof frame ? use_stack(bytes - sizeof frame) : 0;
    return below + frame[0] + frame[4095];
}
static bool try_stack(void) { return use_stack(4 * MIB) > 0; }

/* A worker that was there before the seal and goes to its own piece of heap. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t worker;
static bool worker_got;
static int worker_errno;
static void *work(void *arg) {
    pthread_mutex_lock(&gate); /* until it is told to begin */
    worker_got = try_malloc() && try_private();
    worker_errno = errno;
    return arg;
}
static bool try_worker(void) {
    pthread_mutex_unlock(&gate);
    pthread_join(worker, NULL);
    errno = worker_errno;
    return worker_got;
}

/* No hole, but the depth of the stacks that the command gave its workers: they were painted before the workers ran, and what is no
 * longer paint was used. The first bytes hold what a worker must know to start.
 */
enum { PAINT = 0xa5, START_BYTES = 64, MAX_STACKS = 16 };
static struct painted {
    unsigned char *begin;
    size_t bytes;
} stacks[MAX_STACKS];
static size_t n_stacks;
static char found[64];

static bool try_depth(void) {
    size_t deepest = 0;
    for (size_t i = 0; i < n_stacks; i++) {
        size_t at = START_BYTES;
        while (at < stacks[i].bytes && stacks[i].begin[at] == PAINT) at++;
        if (stacks[i].bytes - at > deepest) deepest = stacks[i].bytes - at;
    }
    snprintf(found, sizeof found, "%zu stacks of %zu bytes, used %zu", n_stacks, stacks[0].bytes, deepest);
    return true;
}

static const struct {
    const char *name;
    bool (*try)(void);
} holes[] = {
    {"malloc", try_malloc}, {"heap", try_heap}, {"private", try_private}, {"shared", try_shared}, {"file", try_file},
    {"fork", try_fork},     {"thread", try_thread}, {"stack", try_stack}, {"worker", try_worker}, {"depth", try_depth},
};

static void say(const char *name, const char *what) {
    char line[128];
    int n = snprintf(line, sizeof line, "hole: %s: %s\n", name, what);
    (void)!syscall(SYS_write, 2, line, (size_t)n);
}

static const char *wanted;

static void act(void) {
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        if (strcmp(holes[i].name, wanted) != 0) continue;
        bool got = holes[i].try();
        say(holes[i].name, found[0] != '\0' ? found : got ? "obtained" : strerrorname_np(errno));
    }
}

__attribute__((constructor)) static void begin(void) {
    pthread_attr_t attr;
    wanted = getenv("DCT_HOLE");
    if (wanted == NULL || strcmp(wanted, "worker") != 0) return;
    pthread_mutex_lock(&gate);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    if (pthread_create(&worker, &attr, work, NULL) != 0) say("worker", "could not be started");
}

/* These two stand in the place of the C library's. */

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *), void *arg) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *at;
    size_t bytes;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    bool paints = wanted != NULL && strcmp(wanted, "depth") == 0 && attr != NULL && n_stacks < MAX_STACKS;
    if (paints && pthread_attr_getstack(attr, &at, &bytes) == 0) {
        memset((char *)at + START_BYTES, PAINT, bytes - START_BYTES);
        stacks[n_stacks++] = (struct painted){at, bytes};
    }
    return create(id, attr, main, arg);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    static bool done;
    if (fd == 1 && wanted != NULL && !done) {
        done = true;
        act();
    }
    return syscall(SYS_write, fd, bytes, n);
}
