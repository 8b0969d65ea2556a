/* The system: memory that is really there, honest figures, threads; limits of processors and memory on machines made of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "support/emulated.h"

/* ---- a machine made of files ---- */

static char machine[256];

static void write_file(const char *path, const char *text) {
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", machine, path);
    for (char *slash = whole + strlen(machine) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int new_machine(void **state) {
    (void)state;
    snprintf(machine, sizeof machine, "%s/machine.XXXXXX", DCT_BINARY_DIR);
    if (mkdtemp(machine) == NULL) return -1;
    write_file("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    write_file("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\n");
    return 0;
}

static int drop_machine(void **state) {
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", machine);
    return system(command);
}

static void expect_cpus(uint32_t want, const char *source) {
    char text[128];
    assert_int_equal(dct_os_usable_cpus(machine, text, sizeof text), want);
    assert_non_null(strstr(text, source));
}

#define GIB (UINT64_C(1) << 30)

static void expect_available(uint64_t want, const char *source) {
    dct_mem_available have;
    dct_os_mem_available(machine, &have);
    assert_int_equal(have.available_bytes, want);
    assert_non_null(strstr(have.source, source));
}

static void test_cpus_affinity(void **state) {
    (void)state;
    expect_cpus(8, "affinity");
    write_file("/proc/self/status", "Cpus_allowed_list:\t0-3,6,8-9\n");
    expect_cpus(7, "affinity to 7");
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/cpu.max", "max 100000\n");
    expect_cpus(7, "affinity");
}

static void test_cpus_v2(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "0::/a/b\n");
    write_file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    expect_cpus(4, "cgroup v2 quota 400000/100000 us (/a/b)");
    write_file("/sys/fs/cgroup/a/b/cpu.max", "765000 100000\n");
    expect_cpus(7, "/a/b");
    write_file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* the parent binds, rounded down */
    expect_cpus(2, "(/a)");
    write_file("/sys/fs/cgroup/a/cpu.max", "50000 100000\n"); /* half a processor is still one worker */
    expect_cpus(1, "(/a)");
    write_file("/sys/fs/cgroup/a/cpu.max", "50000 0\n"); /* nonsense is no limit */
    expect_cpus(7, "/a/b");
}

static void test_cpus_v1(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/m\n0::/\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    expect_cpus(8, "affinity");
    /* In a container the path of the host is absent: the mount's own files count. */
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "350000\n");
    expect_cpus(3, "cgroup v1 quota");
    write_file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n");
    write_file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
    expect_cpus(2, "(/docker/x)");
}

static void test_cpus_real(void **state) {
    (void)state;
    uint32_t n = dct_os_usable_cpus(NULL, NULL, 0);
    assert_true(n >= 1 && n <= (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
}

static void test_memory_plain(void **state) {
    (void)state;
    expect_available(12 * GIB, "MemAvailable");
    write_file("/proc/self/cgroup", "0::/a\n");
    write_file("/sys/fs/cgroup/a/memory.max", "max\n");
    write_file("/sys/fs/cgroup/a/memory.current", "7516192768\n");
    expect_available(12 * GIB, "MemAvailable");
}

static void test_memory_v2(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "0::/a/b\n");
    write_file("/sys/fs/cgroup/a/b/memory.max", "8589934592\n");
    write_file("/sys/fs/cgroup/a/b/memory.current", "7516192768\n"); /* 7 GiB, of which 6 can be dropped */
    write_file("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 2\ninactive_file 4294967296\nactive_file 2147483648\n");
    expect_available(7 * GIB, "cgroup v2 memory.max (/a/b)");
    dct_mem_available have;
    dct_os_mem_available(machine, &have);
    assert_int_equal(have.total_bytes, 8 * GIB);
    assert_true(have.charged_ahead_bytes >= 64 * 4096); /* a group's figures are that much too high */
    write_file("/sys/fs/cgroup/a/memory.max", "4294967296\n"); /* the parent's smaller limit wins */
    write_file("/sys/fs/cgroup/a/memory.current", "1073741824\n");
    expect_available(3 * GIB, "(/a)");
    write_file("/sys/fs/cgroup/a/memory.current", "9073741824\n"); /* over its limit: nothing left, not a huge number */
    expect_available(0, "(/a)");
}

static void test_memory_v1(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "4:memory:/m\n0::/\n");
    write_file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "1073741824\n");
    expect_available(12 * GIB, "MemAvailable");
    dct_mem_available have;
    dct_os_mem_available(machine, &have);
    assert_int_equal(have.charged_ahead_bytes, 0); /* no group binds */
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    write_file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
    write_file("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
    expect_available(GIB, "cgroup v1 memory.limit_in_bytes (/)");
}

static void test_memory_unknown(void **state) {
    (void)state;
    dct_mem_available have;
    dct_os_mem_available("/nowhere/at/all", &have);
    assert_int_equal(have.available_bytes, 0);
    assert_string_equal(have.source, "unknown");
}

/* ---- memory ---- */

static void test_populate(void **state) {
    (void)state;
    size_t bytes = 8 << 20;
    uint8_t *p = dct_os_map_huge(bytes);
    assert_non_null(p);
    if (!emulated("where the system places mappings")) assert_int_equal((uintptr_t)p % (2 << 20), 0);
#if defined(__linux__)
    (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* four huge pages would hold it all, populated or not */
#endif
    p[5] = 42;
    assert_int_equal(dct_os_populate(p, bytes, NULL), DCT_OK);
    assert_int_equal(p[5], 42); /* content is kept */
    dct_mem_figures before, after;
    dct_os_mem_figures(&before);
    for (size_t i = 0; i < bytes; i += 4096) ((volatile uint8_t *)p)[i] = 1;
    dct_os_mem_figures(&after);
    assert_true(after.min_faults - before.min_faults < 50); /* 2,048 without populating */
    dct_os_unmap(p, bytes);
}

static void test_figures(void **state) {
    (void)state;
#if defined(__linux__)
    dct_mem_figures f;
    dct_os_mem_figures(&f);
    assert_true(f.vm_hwm > 0 && f.vm_peak >= f.vm_size && f.vm_size > f.rss_anon && f.rss_anon > 0);
    assert_true(f.min_faults > 0);
#else
    skip();
#endif
}

/* In a child: bss, data and stack that were never touched do not fault after populating. */
static uint8_t never_touched[4 << 20];
static int populate_and_count(void) {
    dct_os_populate_process(256 * 1024);
    dct_mem_figures before, after;
    dct_os_mem_figures(&before);
    dct_os_mem_figures(&after); /* once to bring in the code of the call itself */
    dct_os_mem_figures(&before);
    for (size_t i = 0; i < sizeof never_touched; i += 4096) ((volatile uint8_t *)never_touched)[i] = 1;
    dct_os_mem_figures(&after);
    return after.min_faults - before.min_faults < 8 ? 0 : 1;
}

static void test_populate_process(void **state) {
    (void)state;
#if defined(DCT_SANITIZED) || !defined(__linux__)
    skip();
#endif
    if (emulated("skipped: faults of the program's own pages")) skip();
    pid_t child = fork();
    if (child == 0) _exit(populate_and_count());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* As a user without the right to lock: the message names the limit, what it is and what is needed. */
static int lock_as_nobody(void) {
    struct rlimit limit = {65536, 65536};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
    if (getuid() == 0 && setuid(65534) != 0) return 3;
    void *p = dct_os_map(1 << 20);
    dct_err err = {0};
    if (p == NULL || dct_os_lock(p, 1 << 20, 1 << 20, &err) != DCT_SYSTEM) return 4;
    bool named = strstr(err.message, "RLIMIT_MEMLOCK") != NULL && strstr(err.message, "65536") != NULL && strstr(err.message, "1048576") != NULL;
    return named ? 0 : 5;
}

static void test_lock_message(void **state) {
    (void)state;
#if defined(DCT_SANITIZED)
    skip(); /* sanitizers make mlock a no-op */
#endif
    pid_t child = fork();
    if (child == 0) _exit(lock_as_nobody());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- files ---- */

static void test_files(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/some.bin", machine);
    assert_int_equal(dct_file_write_whole(path, "abcdef", 6, NULL), DCT_OK);
    dct_file file;
    assert_int_equal(dct_file_open(&file, path, NULL), DCT_OK);
    assert_int_equal(file.bytes, 6);
    char text[8] = {0};
    assert_int_equal(dct_file_read_at(&file, 2, text, 4, NULL), DCT_OK);
    assert_string_equal(text, "cdef");
    dct_err err;
    assert_int_equal(dct_file_read_at(&file, 3, text, 4, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "cut off"));
    dct_file_close(&file);
    assert_int_equal(dct_file_open(&file, machine, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(dct_file_open(&file, "/nowhere/x", &err), DCT_BAD_FILE);
    assert_int_equal(dct_file_write_whole("/nowhere/x", "a", 1, &err), DCT_SYSTEM);
}

/* Until it is whole, a file has no name in the directory, but for a file system that cannot do that. */
/* A reason stays readable whatever the path is, and the path is said once. */
static void test_paths_leave_room(void **state) {
    (void)state;
    static const char *const ends[] = {"/x", "/\x1b[31mx", "/\xff\xfe"}, *const shown[] = {"/x: ", "/?[31mx: ", "/??: "};
    static const size_t lengths[] = {3, 100, 122, 300, 500, 3000};
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            char path[4096] = "", wanted[64];
            dct_file file;
            dct_out out;
            dct_err err;
            while (strlen(path) < lengths[k]) strcat(path, "/no");
            strcat(path, ends[i]);
            snprintf(wanted, sizeof wanted, "%sNo such file or directory", shown[i]);
            assert_int_equal(dct_file_open(&file, path, &err), DCT_BAD_FILE);
            dct_err_name_file(&err, path);
            const char *at = strstr(err.message, wanted);
            if (at == NULL || strcmp(at, wanted) != 0) fail_msg("%zu: '%s'", lengths[k], err.message);
            assert_true(strlen(err.message) <= 123 + strlen(wanted));
            assert_int_equal(dct_out_open(&out, path, &err), DCT_SYSTEM);
            assert_non_null(strstr(err.message, wanted));
        }
    }
}

static void test_files_appear_whole(void **state) {
    (void)state;
    char path[512], text[8] = {0};
    snprintf(path, sizeof path, "%s/whole.bin", machine);
    assert_int_equal(dct_file_write_whole(path, "old", 3, NULL), DCT_OK);
    for (int commit = 0; commit < 2; commit++) {
        dct_out out;
        dct_file file;
        assert_int_equal(dct_out_open(&out, path, NULL), DCT_OK);
        assert_int_equal(dct_out_write(&out, "newer", 5, NULL), DCT_OK);
        assert_int_equal(access(out.temp_path, F_OK) == 0, !out.nameless);
        if (commit) assert_int_equal(dct_out_commit(&out, NULL), DCT_OK);
        else dct_out_discard(&out);
        assert_int_not_equal(access(out.temp_path, F_OK), 0);
        assert_int_equal(dct_file_open(&file, path, NULL), DCT_OK);
        assert_int_equal(dct_file_read_at(&file, 0, text, file.bytes, NULL), DCT_OK);
        assert_string_equal(text, commit ? "newer" : "old");
        dct_file_close(&file);
    }
    unlink(path);
}

/* ---- threads ---- */


typedef struct probe {
    _Atomic uint32_t word;
    uintptr_t local;
    bool blocks_int;
} probe;

static void probe_main(void *arg) {
    probe *p = arg;
    int local = 1;
    sigset_t set;
    p->local = (uintptr_t)&local;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    p->blocks_int = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGSEGV) == 0;
    while (atomic_load(&p->word) == 0) dct_os_wait_word(&p->word, 0);
    atomic_store(&p->word, 2);
    dct_os_wake_word(&p->word);
}

static void test_thread(void **state) {
    (void)state;
    uint8_t *stack = dct_os_map(DCT_WORKER_STACK);
    assert_non_null(stack);
    probe p = {0};
    dct_thread thread;
    assert_int_equal(dct_thread_start(&thread, probe_main, &p, stack, DCT_WORKER_STACK, NULL), DCT_OK);
    usleep(20000); /* let it fall asleep; a wake that is lost would hang the test */
    atomic_store(&p.word, 1);
    dct_os_wake_word(&p.word);
    while (atomic_load(&p.word) != 2) dct_os_wait_word(&p.word, 1);
    dct_thread_join(thread);
#if !defined(DCT_SANITIZED) /* ASan may keep locals elsewhere */
    assert_true(p.local > (uintptr_t)stack && p.local < (uintptr_t)stack + DCT_WORKER_STACK);
#endif
    assert_true(p.blocks_int);
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    assert_int_equal(sigismember(&set, SIGINT), 0); /* the starter's mask is as it was */
    dct_os_wait_word(&p.word, 7);                   /* a word that differs does not sleep */
    dct_os_unmap(stack, DCT_WORKER_STACK);
}

static void test_thread_refuses_bad_stack(void **state) {
    (void)state;
    uint8_t *stack = dct_os_map(DCT_WORKER_STACK);
    dct_thread thread;
    probe p = {0};
    assert_int_equal(dct_thread_start(&thread, probe_main, &p, stack, 4096, NULL), DCT_BUG);
    assert_int_equal(dct_thread_start(&thread, probe_main, &p, stack + 8, DCT_WORKER_STACK - 16, NULL), DCT_BUG);
    assert_int_equal(dct_thread_start(&thread, probe_main, &p, NULL, DCT_WORKER_STACK, NULL), DCT_BUG);
    dct_os_unmap(stack, DCT_WORKER_STACK);
}

#define ON_MACHINE(test) cmocka_unit_test_setup_teardown(test, new_machine, drop_machine)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_MACHINE(test_cpus_affinity), ON_MACHINE(test_cpus_v2), ON_MACHINE(test_cpus_v1), cmocka_unit_test(test_cpus_real),
        ON_MACHINE(test_memory_plain), ON_MACHINE(test_memory_v2), ON_MACHINE(test_memory_v1), cmocka_unit_test(test_memory_unknown),
        cmocka_unit_test(test_populate), cmocka_unit_test(test_figures), cmocka_unit_test(test_populate_process),
        cmocka_unit_test(test_lock_message), ON_MACHINE(test_files), cmocka_unit_test(test_paths_leave_room),
        ON_MACHINE(test_files_appear_whole), cmocka_unit_test(test_thread), cmocka_unit_test(test_thread_refuses_bad_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
