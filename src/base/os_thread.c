/* Threads on stacks that the caller planned, and sleeping on a word.
 *
 * A thread takes nothing from us but its stack. Signals stay with the thread that started the others: a worker blocks all but
 * those that its own faults raise.
 */
#include "base/os.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { STACK_MIN = 64 * 1024 };

/* What a new thread must know. It lies at the low end of the stack, which the thread reaches last, and is copied at once. */
typedef struct start_record {
    void (*main)(void *);
    void *arg;
} start_record;

static void *thread_entry(void *record) {
    start_record start = *(const start_record *)record;
    start.main(start.arg);
    return NULL;
}

static void worker_signals(sigset_t *set) {
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++) sigdelset(set, own_faults[i]);
}

dct_status dct_thread_start(dct_thread *thread, void (*main)(void *), void *arg, void *stack, size_t stack_bytes, dct_err *err) {
    if (stack == NULL || (uintptr_t)stack % 16 != 0 || stack_bytes < STACK_MIN || stack_bytes % 16 != 0) {
        return dct_fail(err, DCT_BUG, "a thread's stack must be aligned to 16 and at least %d bytes", STACK_MIN);
    }
    start_record *record = stack;
    *record = (start_record){main, arg};
    pthread_attr_t attr;
    int why = pthread_attr_init(&attr);
    if (why != 0) return dct_fail(err, DCT_SYSTEM, "cannot start a thread: %s", strerror(why));
    sigset_t blocked, before;
    worker_signals(&blocked);
    pthread_t id;
    why = pthread_attr_setstack(&attr, stack, stack_bytes);
    if (why == 0) why = pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if (why == 0) {
        why = pthread_create(&id, &attr, thread_entry, record);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    if (why != 0) return dct_fail(err, DCT_SYSTEM, "cannot start a thread: %s", strerror(why));
    thread->handle = (uintptr_t)id;
    return DCT_OK;
}

void dct_thread_join(dct_thread thread) { pthread_join((pthread_t)thread.handle, NULL); }

#if defined(__linux__)

void dct_os_wait_word(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void dct_os_wake_word(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }

uint32_t dct_os_cpu(void) {
    int cpu = sched_getcpu();
    return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}

int32_t dct_os_thread_id(void) { return (int32_t)syscall(SYS_gettid); }

/* The kernel makes a thread's clock from its number: what pthread_getcpuclockid returns. */
uint64_t dct_os_thread_ns(int32_t thread) {
    struct timespec t;
    if (clock_gettime((clockid_t)(~(uint32_t)thread << 3 | 6), &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool dct_os_cpus_allowed(dct_os_cpus *out) {
    memset(out, 0, sizeof *out);
    return syscall(SYS_sched_getaffinity, 0, sizeof *out, out) > 0;
}

bool dct_os_keep_thread(int32_t thread, const dct_os_cpus *cpus) {
    return syscall(SYS_sched_setaffinity, thread, sizeof *cpus, cpus) == 0;
}

#else /* no word to sleep on: doze and look again, which the contract allows */

void dct_os_wait_word(_Atomic uint32_t *word, uint32_t expected) {
    if (atomic_load_explicit(word, memory_order_acquire) != expected) return;
    struct timespec doze = {0, 50000};
    nanosleep(&doze, NULL);
}

void dct_os_wake_word(_Atomic uint32_t *word) { (void)word; }

uint32_t dct_os_cpu(void) { return UINT32_MAX; }

int32_t dct_os_thread_id(void) { return 0; }

uint64_t dct_os_thread_ns(int32_t thread) {
    (void)thread;
    return 0;
}

bool dct_os_cpus_allowed(dct_os_cpus *out) {
    memset(out, 0, sizeof *out);
    return false;
}

bool dct_os_keep_thread(int32_t thread, const dct_os_cpus *cpus) {
    (void)thread, (void)cpus;
    return false;
}

#endif

void dct_os_yield(void) { sched_yield(); }
