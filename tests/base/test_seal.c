/* The seal, each hole tried in a child of its own: a child sets up, seals, tries to obtain memory in one way, and answers by
 * its exit code. A sealed process cannot be unsealed, so nothing here may seal the test itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { REFUSED = 0, OBTAINED = 10, SKIP = 77, SETUP_FAILED = 78 };

/* Runs attempt() in a child behind the seal; its return value is the child's exit code. A child killed by signal s answers
 * 128 + s. */
static int in_sealed_child(int (*prepare)(void), int (*attempt)(void), bool kill) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would turn the death into their own exit code */
        signal(SIGSYS, SIG_DFL);
        if (prepare != NULL && prepare() != 0) _exit(SETUP_FAILED);
        bool enforced = false;
        if (dct_os_seal(kill, &enforced, NULL) != DCT_OK) _exit(SETUP_FAILED);
        if (!enforced) _exit(SKIP);
        _exit(attempt());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return SETUP_FAILED;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void expect(int (*prepare)(void), int (*attempt)(void), int want) {
    int got = in_sealed_child(prepare, attempt, false);
    if (got == SKIP) {
        print_message("skipped: no system call filter here\n");
        skip();
    }
    assert_int_equal(got, want);
}

static int refused_with(bool was_refused, int want_errno) {
    if (!was_refused) return OBTAINED;
    return errno == want_errno ? REFUSED : 11;
}

static int try_mmap(void) { return refused_with(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED, ENOMEM); }
static int try_shared(void) {
    return refused_with(mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED, ENOMEM);
}

static void *mapped;
static int map_one(void) { return (mapped = dct_os_map(4096)) == NULL; }
static int try_mremap(void) { return refused_with(mremap(mapped, 4096, 1 << 20, MREMAP_MAYMOVE) == MAP_FAILED, ENOMEM); }

/* Raw brk must answer 0: glibc takes any other unexpected number for an address. */
static int try_brk(void) { return syscall(SYS_brk, (char *)sbrk(0) + (1 << 20)) == 0 ? REFUSED : OBTAINED; }

/* With brk and mmap refused malloc must fail, with ENOMEM and alive, within what its heap already had. */
static int try_heap(void) {
    size_t got = 0;
    for (int i = 0; i < 4096; i++) {
        char *p = malloc(16 * 1024);
        if (p == NULL) return errno == ENOMEM && got <= (1 << 20) ? REFUSED : 11;
        memset(p, 1, 16 * 1024);
        got += 16 * 1024;
    }
    return OBTAINED;
}

/* A thread that called malloc before the seal owns 64 MiB of reserved heap; only mprotect stands before it. */
static _Atomic uint32_t worker_state;
static atomic_size_t worker_got;
static void *worker_main(void *arg) {
    (void)arg;
    char *first = malloc(1000);
    if (first != NULL) first[0] = 1;
    atomic_store(&worker_state, 1);
    dct_os_wake_word(&worker_state);
    while (atomic_load(&worker_state) != 2) dct_os_wait_word(&worker_state, 1);
    for (int i = 0; i < 2000; i++) {
        char *p = malloc(32 * 1024);
        if (p == NULL) break;
        memset(p, 1, 32 * 1024);
        atomic_fetch_add(&worker_got, 32 * 1024);
    }
    free(first);
    return NULL;
}

static pthread_t worker;
static int start_worker(void) {
    if (pthread_create(&worker, NULL, worker_main, NULL) != 0) return 1;
    while (atomic_load(&worker_state) != 1) dct_os_wait_word(&worker_state, 0);
    return 0;
}

static int try_worker_heap(void) {
    atomic_store(&worker_state, 2);
    dct_os_wake_word(&worker_state);
    pthread_join(worker, NULL);
    return atomic_load(&worker_got) <= (1 << 20) ? REFUSED : OBTAINED; /* what was usable before: 132 KiB */
}

/* The filter must hold in threads that ran before it. */
static _Atomic int thread_result;
static void *mmap_main(void *arg) {
    (void)arg;
    atomic_store(&worker_state, 1);
    dct_os_wake_word(&worker_state);
    while (atomic_load(&worker_state) != 2) dct_os_wait_word(&worker_state, 1);
    atomic_store(&thread_result, try_mmap());
    return NULL;
}
static int start_mmap_thread(void) {
    if (pthread_create(&worker, NULL, mmap_main, NULL) != 0) return 1;
    while (atomic_load(&worker_state) != 1) dct_os_wait_word(&worker_state, 0);
    return 0;
}
static int try_in_thread(void) {
    atomic_store(&thread_result, OBTAINED);
    atomic_store(&worker_state, 2);
    dct_os_wake_word(&worker_state);
    pthread_join(worker, NULL);
    return atomic_load(&thread_result);
}

static int try_mprotect(void) { return refused_with(mprotect(mapped, 4096, PROT_READ) != 0, ENOMEM); }

static void *nothing(void *arg) { return arg; }
static uint8_t *thread_stack;
static int map_stack(void) { return (thread_stack = dct_os_map(256 * 1024)) == NULL; }
static int try_thread(void) {
    pthread_attr_t attr;
    pthread_t id;
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, thread_stack, 256 * 1024);
    int why = pthread_create(&id, &attr, nothing, NULL);
    return why == 0 ? OBTAINED : why == EAGAIN || why == ENOMEM ? REFUSED : 11; /* ENOMEM: malloc refused first */
}

static int try_clone(void) {
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) _exit(OBTAINED);
    return refused_with(child < 0, EAGAIN);
}
static int try_clone3(void) { return refused_with(syscall(435, NULL, 0) < 0, EAGAIN); }
static int try_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(OBTAINED);
    return refused_with(child < 0, EAGAIN);
}
static int try_exec(void) {
    char *argv[] = {(char *)"/bin/false", NULL};
    execve(argv[0], argv, argv + 1);
    return refused_with(true, EPERM);
}
static int try_execveat(void) { return refused_with(syscall(SYS_execveat, AT_FDCWD, "/bin/false", NULL, NULL, 0) < 0, EPERM); }
static int try_memfd(void) { return refused_with(syscall(SYS_memfd_create, "x", 0) < 0, EPERM); }
static int try_shmget(void) { return refused_with(syscall(SYS_shmget, 0, 4096, 0600) < 0, ENOMEM); }
static int try_shmat(void) { return refused_with(syscall(SYS_shmat, -1, NULL, 0) < 0, ENOMEM); }
static int try_remap(void) { return refused_with(syscall(SYS_remap_file_pages, mapped, 4096, 0, 0, 0) < 0, ENOMEM); }
static int try_io_uring(void) { return refused_with(syscall(SYS_io_uring_setup, 1, NULL) < 0, EPERM); }
static int try_io_setup(void) {
    unsigned long ctx = 0;
    return refused_with(syscall(SYS_io_setup, 1, &ctx) < 0, ENOMEM);
}
static int try_userfaultfd(void) { return refused_with(syscall(SYS_userfaultfd, 0) < 0, EPERM); }

static int try_limits(void) {
    struct rlimit old;
    if (getrlimit(RLIMIT_AS, &old) != 0) return 12; /* reading stays allowed */
    return refused_with(setrlimit(RLIMIT_AS, &old) != 0, EPERM);
}

#if defined(__x86_64__)
static int try_x32(void) { return refused_with(syscall(0x40000000 + 9, NULL, 4096, 3, 0x22, -1, 0) < 0, EPERM); }

/* mmap2 by the 32-bit gate: number 192 there. A kernel without that gate faults, which also is no memory. */
static int try_i386(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(192L), "b"(0L), "c"(4096L), "d"(3L), "S"(0x22L), "D"(-1L) : "memory");
    return result < 0 && (int)result == -EPERM ? REFUSED : OBTAINED;
}
#endif

/* The main stack is a mapping that grows by itself. */
__attribute__((noinline)) static int use_stack(size_t bytes) {
    volatile char frame[4096];
    frame[0] = 1;
    frame[4095] = 1;
    int below = bytes > 4096 ? use_stack(bytes - 4096) : 0;
    return below + frame[0] + frame[4095];
}
static int prepare_stack(void) {
    dct_os_populate_process(512 * 1024);
    return 0;
}
static int try_stack_planned(void) { return use_stack(256 * 1024) > 0 ? REFUSED : 11; }
static int try_stack_beyond(void) { return use_stack(6 << 20) > 0 ? OBTAINED : 11; }

/* What must go on working: files, time, sleeping, giving memory back. */
static int still_works(void) {
    char byte;
    int fd = open("/proc/self/status", O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd) != 0) return 11;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || write(pair[0], "x", 1) != 1) return 12;
    if (madvise(mapped, 4096, MADV_DONTNEED) != 0 || munmap(mapped, 4096) != 0) return 13;
    return dct_os_now_ns() != 0 ? REFUSED : 14;
}

#define HOLE(name, prepare) \
    static void test_##name(void **state) { (void)state; expect(prepare, try_##name, REFUSED); }
HOLE(mmap, NULL)
HOLE(shared, NULL)
HOLE(mremap, map_one)
HOLE(brk, NULL)
HOLE(heap, NULL)
HOLE(worker_heap, start_worker)
HOLE(in_thread, start_mmap_thread)
HOLE(mprotect, map_one)
HOLE(thread, map_stack)
HOLE(clone, NULL)
HOLE(clone3, NULL)
HOLE(fork, NULL)
HOLE(exec, NULL)
HOLE(execveat, NULL)
HOLE(memfd, NULL)
HOLE(shmget, NULL)
HOLE(shmat, NULL)
HOLE(remap, map_one)
HOLE(io_uring, NULL)
HOLE(io_setup, NULL)
HOLE(userfaultfd, NULL)
HOLE(limits, NULL)
HOLE(stack_planned, prepare_stack)
#if defined(__x86_64__)
HOLE(x32, NULL)

static void test_i386(void **state) {
    (void)state;
    int got = in_sealed_child(NULL, try_i386, false);
    if (got == SKIP) skip();
    assert_true(got == REFUSED || got == 128 + SIGSEGV);
}
#endif

static void test_stack_beyond(void **state) {
    (void)state;
    expect(prepare_stack, try_stack_beyond, 128 + SIGSEGV);
}

static void test_still_works(void **state) {
    (void)state;
    expect(map_one, still_works, REFUSED);
}

static void test_kill(void **state) {
    (void)state;
    int got = in_sealed_child(NULL, try_mmap, true);
    if (got == SKIP) skip();
    assert_int_equal(got, 128 + SIGSYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mmap),        cmocka_unit_test(test_shared),        cmocka_unit_test(test_mremap),
        cmocka_unit_test(test_brk),         cmocka_unit_test(test_heap),        cmocka_unit_test(test_worker_heap),
        cmocka_unit_test(test_in_thread),   cmocka_unit_test(test_mprotect),      cmocka_unit_test(test_thread),
        cmocka_unit_test(test_clone),       cmocka_unit_test(test_clone3),        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_exec),        cmocka_unit_test(test_execveat),      cmocka_unit_test(test_memfd),
        cmocka_unit_test(test_shmget),      cmocka_unit_test(test_shmat),         cmocka_unit_test(test_remap),
        cmocka_unit_test(test_io_uring),    cmocka_unit_test(test_io_setup),      cmocka_unit_test(test_userfaultfd),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_stack_planned), cmocka_unit_test(test_stack_beyond),
        cmocka_unit_test(test_still_works), cmocka_unit_test(test_kill),
#if defined(__x86_64__)
        cmocka_unit_test(test_x32),         cmocka_unit_test(test_i386),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
