/* The seal: a filter on system calls, written by hand, in every thread of the process.
 *
 * It refuses whatever gives a process memory: new mappings, a larger heap, more of a reserved range made usable, threads,
 * children, other programs, memory behind descriptors, rings that the kernel maps, and raising a limit again. What only gives
 * memory back (munmap, madvise) stays allowed, and so do locks (mlock), which make present what is already mapped. The
 * filter judges numbers, not files: writing a file of a tmpfs and the buffers of sockets are the system's memory, not ours.
 *
 * Refusals that need care:
 *   brk        must answer 0, not an error: the raw call returns an address, and glibc takes -ENOMEM for a very high one
 *   mprotect   a thread's malloc heap is reserved without access and made usable piece by piece, without any mmap
 *   clone      EAGAIN, which pthread_create reports as it is
 *   other ABIs on x86-64 the 32-bit and the x32 calls have other numbers: all of them are refused
 *
 * `kill` raises SIGSYS in the thread that asked, before anything is done: it ends the process, unless a handler says so in words
 * first. One that is blocked or ignored ends it all the same.
 *
 * The main stack grows without any system call. Its limit is set to its present size, so that a process which needs more
 * dies instead of growing; dct_os_populate_process(stack_bytes) makes it large enough before.
 */
#include "base/os.h"

#if defined(__linux__) && !defined(DCT_SANITIZED) && (defined(__x86_64__) || defined(__aarch64__))
#define CAN_SEAL 1
#else
#define CAN_SEAL 0 /* a sanitizer maps memory whenever it likes */
#endif

#if CAN_SEAL

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os_proc.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#else
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

enum { X32_BIT = 0x40000000 }; /* numbers from here on belong to the x32 ABI */

/* Numbers that are the same on every architecture and newer than some headers. */
enum { NR_CLONE3 = 435, NR_MEMFD_SECRET = 447, NR_MAP_SHADOW_STACK = 453 };

static const struct refusal {
    uint32_t number;
    uint32_t error; /* what the caller sees; 0 is a result of 0 */
    const char *name;
} refusals[] = {
    {SYS_mmap, ENOMEM, "mmap"},
    {SYS_mremap, ENOMEM, "mremap"},
    {SYS_brk, 0, "brk"},
    {SYS_mprotect, ENOMEM, "mprotect"},
    {SYS_pkey_mprotect, ENOMEM, "pkey_mprotect"},
    {SYS_remap_file_pages, ENOMEM, "remap_file_pages"},
    {NR_MAP_SHADOW_STACK, ENOMEM, "map_shadow_stack"},
    {SYS_clone, EAGAIN, "clone"},
    {NR_CLONE3, EAGAIN, "clone3"},
    {SYS_execve, EPERM, "execve"},
    {SYS_execveat, EPERM, "execveat"},
    {SYS_memfd_create, EPERM, "memfd_create"},
    {NR_MEMFD_SECRET, EPERM, "memfd_secret"},
    {SYS_shmget, ENOMEM, "shmget"},
    {SYS_shmat, ENOMEM, "shmat"},
    {SYS_io_setup, ENOMEM, "io_setup"},
    {SYS_io_uring_setup, EPERM, "io_uring_setup"},
    {SYS_io_uring_enter, EPERM, "io_uring_enter"},
    {SYS_io_uring_register, EPERM, "io_uring_register"},
    {SYS_userfaultfd, EPERM, "userfaultfd"},
#if defined(__x86_64__)
    {SYS_fork, EAGAIN, "fork"},
    {SYS_vfork, EAGAIN, "vfork"},
    {SYS_uselib, EPERM, "uselib"},
    {SYS_setrlimit, EPERM, "setrlimit"},
#elif defined(SYS_setrlimit)
    {SYS_setrlimit, EPERM, "setrlimit"},
#endif
};

enum { N_REFUSALS = sizeof refusals / sizeof *refusals, PROGRAM_MAX = 2 * N_REFUSALS + 16 };

typedef struct program {
    struct sock_filter code[PROGRAM_MAX];
    unsigned short n;
    bool kill;
} program;

static void emit(program *p, uint16_t code, uint8_t if_true, uint8_t if_false, uint32_t k) {
    p->code[p->n++] = (struct sock_filter){code, if_true, if_false, k};
}

static void emit_load(program *p, size_t offset) { emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset); }

static void emit_refuse(program *p, uint32_t error) {
    emit(p, BPF_RET | BPF_K, 0, 0, p->kill ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | error);
}

static void build_program(program *p, bool kill) {
    p->n = 0;
    p->kill = kill;
    emit_load(p, offsetof(struct seccomp_data, arch));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, OUR_ARCH);
    emit_refuse(p, EPERM);
    emit_load(p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
    emit_refuse(p, EPERM);
#endif
    for (size_t i = 0; i < N_REFUSALS; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, refusals[i].number);
        emit_refuse(p, refusals[i].error);
    }
    /* prlimit64 reads limits when its third argument, a pointer, is NULL in both halves; setting them is refused. */
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, SYS_prlimit64);
    emit_load(p, offsetof(struct seccomp_data, args[2]));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
    emit_load(p, offsetof(struct seccomp_data, args[2]) + 4);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
    emit_refuse(p, EPERM);
    emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

/* Holds the main stack at the size it has now. */
static dct_status fix_stack(dct_err *err) {
    char text[DCT_PROC_TEXT_BYTES];
    uint64_t bytes;
    if (!dct_proc_read(NULL, "/proc/self/status", text, sizeof text) || !dct_proc_number(text, "VmStk", &bytes)) {
        return dct_fail(err, DCT_SYSTEM, "cannot seal: /proc/self/status does not state VmStk");
    }
    struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};
    if (setrlimit(RLIMIT_STACK, &limit) != 0) return dct_fail(err, DCT_SYSTEM, "cannot seal: RLIMIT_STACK: %s", strerror(errno));
    return DCT_OK;
}

const char *dct_os_sealed_call(long number) {
    for (size_t i = 0; i < N_REFUSALS; i++)
        if (refusals[i].number == (uint32_t)number) return refusals[i].name;
    return number == SYS_prlimit64 ? "prlimit64" : "a system call of another ABI";
}

dct_status dct_os_seal(bool kill, bool *enforced, dct_err *err) {
    program p;
    build_program(&p, kill);
    struct sock_fprog filter = {p.n, p.code};
    dct_status status = fix_stack(err);
    if (status != DCT_OK) return status;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return dct_fail(err, DCT_SYSTEM, "cannot seal: PR_SET_NO_NEW_PRIVS: %s", strerror(errno));
    }
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (result > 0) return dct_fail(err, DCT_SYSTEM, "cannot seal: thread %ld has a filter of its own", result);
    if (result < 0 && errno != ENOSYS && errno != EINVAL && errno != EPERM) {
        return dct_fail(err, DCT_SYSTEM, "cannot seal: seccomp: %s", strerror(errno));
    }
    *enforced = result == 0; /* no filters in this kernel or sandbox: a promise */
    return DCT_OK;
}

#else

const char *dct_os_sealed_call(long number) {
    (void)number;
    return "a system call";
}

dct_status dct_os_seal(bool kill, bool *enforced, dct_err *err) {
    (void)kill, (void)err;
    *enforced = false;
    return DCT_OK;
}

#endif
