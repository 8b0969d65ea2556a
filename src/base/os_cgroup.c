/* What this process may use of the machine: processors and memory, by affinity, by /proc/meminfo, by its own limits and by the
 * control groups above it. A limit anywhere on the way up binds, so every ancestor is asked:
 *
 *     /proc/self/cgroup    "0::/a/b"              v2:  /sys/fs/cgroup[/unified]/a/b/cpu.max, memory.max, then /a, then /
 *                          "5:memory:/c"          v1:  /sys/fs/cgroup/memory/c/memory.limit_in_bytes, then /
 *
 * In a container the path may name a directory that only the host sees; its files are then absent, and the walk ends at the
 * mount itself, which is the container's own group. All paths take a prefix, so that tests bring their own machine.
 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "base/os_proc.h"
#include "base/size.h"

enum { GROUP_BYTES = 512 };

/* A controller's group: the v2 one or that of a v1 hierarchy. `path` is "" for the top, else "/a/b". */
typedef struct group {
    bool is_v2;
    const char *mount;
    char path[GROUP_BYTES];
} group;

/* Whether the comma-separated list [list, end) holds `name`. */
static bool list_holds(const char *list, const char *end, const char *name) {
    size_t n = strlen(name);
    while (list < end) {
        const char *stop = memchr(list, ',', (size_t)(end - list));
        if (stop == NULL) stop = end;
        if ((size_t)(stop - list) == n && memcmp(list, name, n) == 0) return true;
        list = stop + 1;
    }
    return false;
}

/* The path that /proc/self/cgroup states for a v1 controller, or for v2 when controller is "". */
static bool group_path(const char *root, const char *controller, char *path, size_t size) {
    char text[DCT_PROC_TEXT_BYTES];
    if (!dct_proc_read(root, "/proc/self/cgroup", text, sizeof text)) return false;
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (end == NULL) end = line + strlen(line);
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *list_end = list == NULL ? NULL : memchr(list + 1, ':', (size_t)(end - list - 1));
        bool found = list_end != NULL &&
                     (*controller == '\0' ? list_end == list + 1 : list_holds(list + 1, list_end, controller));
        if (found) {
            const char *from = list_end + 1;
            size_t n = (size_t)(end - from);
            /* "/" is the top; "/.." means outside of our view, where the top is all we can see. */
            if (n >= size || n <= 1 || strncmp(from, "/..", 3) == 0) n = 0;
            memcpy(path, from, n);
            path[n] = '\0';
            return true;
        }
        line = *end == '\0' ? NULL : end + 1;
    }
    return false;
}

static bool group_read(const char *root, const group *g, const char *file, char *text, size_t size) {
    char path[GROUP_BYTES + 128];
    int n = snprintf(path, sizeof path, "%s%s/%s", g->mount, g->path, file);
    return n > 0 && (size_t)n < sizeof path && dct_proc_read(root, path, text, size);
}

static bool group_read_number(const char *root, const group *g, const char *file, uint64_t *out) {
    char text[64];
    const char *p = text;
    return group_read(root, g, file, text, sizeof text) && dct_proc_digits(&p, out);
}

/* To the parent; false at the top. */
static bool group_up(group *g) {
    char *slash = strrchr(g->path, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    return true;
}

static const char *group_name(const group *g) { return *g->path == '\0' ? "/" : g->path; }

/* Calls visit for each group from ours to the top, in v2 and in the v1 hierarchies at `mounts` (NULL-terminated). */
static void for_each_group(const char *root, const char *controller, const char *const *v1_mounts,
                           void (*visit)(const char *root, const group *g, void *ctx), void *ctx) {
    static const char *const v2_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL};
    for (int v2 = 1; v2 >= 0; v2--) {
        const char *const *mounts = v2 ? v2_mounts : v1_mounts;
        char path[GROUP_BYTES];
        if (!group_path(root, v2 ? "" : controller, path, sizeof path)) continue;
        for (; *mounts != NULL; mounts++) {
            group g = {.is_v2 = v2 != 0, .mount = *mounts};
            memcpy(g.path, path, sizeof path);
            do visit(root, &g, ctx);
            while (group_up(&g));
        }
    }
}

/* ---- processors ---- */

typedef struct cpu_limit {
    uint64_t cpus; /* whole ones; at least 1 */
    char source[128];
} cpu_limit;

static void visit_cpu(const char *root, const group *g, void *ctx) {
    cpu_limit *limit = ctx;
    uint64_t quota, period;
    if (g->is_v2) {
        char text[64];
        const char *p = text;
        if (!group_read(root, g, "cpu.max", text, sizeof text) || !dct_proc_digits(&p, &quota)) return; /* absent or "max" */
        while (*p == ' ') p++;
        if (!dct_proc_digits(&p, &period)) period = 100000;
    } else if (!group_read_number(root, g, "cpu.cfs_quota_us", &quota) || /* -1, no digits: no quota */
               !group_read_number(root, g, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (period == 0) return;
    uint64_t cpus = quota / period;
    if (cpus == 0) cpus = 1;
    if (cpus >= limit->cpus) return;
    limit->cpus = cpus;
    snprintf(limit->source, sizeof limit->source, "cgroup v%d quota %llu/%llu us (%.60s)", g->is_v2 ? 2 : 1,
             (unsigned long long)quota, (unsigned long long)period, group_name(g));
}

/* Processors in a list as "0-3,8". */
static uint64_t count_list(const char *p) {
    uint64_t n = 0, first, last;
    while (dct_proc_digits(&p, &first)) {
        last = first;
        if (*p == '-') {
            p++;
            if (!dct_proc_digits(&p, &last) || last < first) return n;
        }
        n += last - first + 1;
        if (*p == ',') p++;
    }
    return n;
}

static uint64_t affinity_cpus(const char *root) {
#if defined(__linux__)
    if (root == NULL || *root == '\0') {
        unsigned long mask[128]; /* 8,192 processors */
        memset(mask, 0, sizeof mask);
        if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) == 0) {
            uint64_t n = 0;
            for (size_t i = 0; i < sizeof mask / sizeof *mask; i++) n += (uint64_t)__builtin_popcountl(mask[i]);
            return n;
        }
    }
    char text[DCT_PROC_TEXT_BYTES];
    const char *list = NULL;
    if (dct_proc_read(root, "/proc/self/status", text, sizeof text)) list = dct_proc_find(text, "Cpus_allowed_list");
    if (list != NULL) return count_list(list);
#else
    (void)root, (void)count_list;
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint64_t)online : 1;
}

uint32_t dct_os_usable_cpus(const char *root, char *source, size_t source_bytes) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", NULL};
    cpu_limit limit = {.cpus = affinity_cpus(root)};
    if (limit.cpus == 0) limit.cpus = 1;
    snprintf(limit.source, sizeof limit.source, "affinity to %llu processors", (unsigned long long)limit.cpus);
    for_each_group(root, "cpu", mounts, visit_cpu, &limit);
    if (source != NULL && source_bytes > 0) snprintf(source, source_bytes, "%s", limit.source);
    return limit.cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)limit.cpus;
}

dct_status dct_os_use_cpus(uint64_t mask, dct_err *err) {
#if defined(__linux__)
    if (syscall(SYS_sched_setaffinity, 0, sizeof mask, &mask) == 0) return DCT_OK;
    return dct_fail(err, DCT_SYSTEM, "cannot run on the processors of mask %llx: %s", (unsigned long long)mask, strerror(errno));
#else
    return dct_fail(err, DCT_SYSTEM, "cannot run on the processors of mask %llx: this system has no such call",
                    (unsigned long long)mask);
#endif
}

void dct_os_cpu_name(char *name, size_t size) {
    char text[DCT_PROC_TEXT_BYTES];
    const char *at = dct_proc_read(NULL, "/proc/cpuinfo", text, sizeof text) ? dct_proc_find(text, "model name") : NULL;
    size_t n = at != NULL ? strcspn(at, "\n") : 0;
    snprintf(name, size, "%.*s", (int)n, at != NULL ? at : "");
}

/* ---- memory ---- */

static const char *const memory_mounts[] = {"/sys/fs/cgroup/memory", NULL}; /* of v1 */

/* v1 states "no limit" as the largest page-aligned number; so does any value that no machine has. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* The kernel charges a group for pages ahead, a batch for each processor. */
static uint64_t charge_batches(void) {
    enum { BATCH_PAGES = 64 };
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    return BATCH_PAGES * dct_os_page_bytes() * (cpus > 0 ? (uint64_t)cpus : 1);
}

/* Page cache of files can be reclaimed whether it was used lately or not. */
static uint64_t reclaimable(const char *root, const group *g) {
    char text[DCT_PROC_TEXT_BYTES];
    uint64_t inactive = 0, active = 0;
    if (!group_read(root, g, "memory.stat", text, sizeof text)) return 0;
    if (!dct_proc_number(text, g->is_v2 ? "inactive_file" : "total_inactive_file", &inactive)) inactive = 0;
    if (!dct_proc_number(text, g->is_v2 ? "active_file" : "total_active_file", &active)) active = 0;
    uint64_t sum;
    return dct_add_u64(inactive, active, &sum) ? sum : 0;
}

static void visit_memory(const char *root, const group *g, void *ctx) {
    dct_mem_available *out = ctx;
    uint64_t limit, used;
    if (!group_read_number(root, g, g->is_v2 ? "memory.max" : "memory.limit_in_bytes", &limit) || limit >= NO_LIMIT) return;
    if (!group_read_number(root, g, g->is_v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return;
    uint64_t cache = reclaimable(root, g);
    used = used > cache ? used - cache : 0;
    uint64_t available = limit > used ? limit - used : 0;
    if (out->total_bytes == 0 || limit < out->total_bytes) out->total_bytes = limit;
    if (available >= out->available_bytes && *out->source != '\0') return;
    out->available_bytes = available;
    out->charged_ahead_bytes = charge_batches();
    snprintf(out->source, sizeof out->source, "cgroup %s (%.60s)", g->is_v2 ? "v2 memory.max" : "v1 memory.limit_in_bytes",
             group_name(g));
}

/* A limit of the process's own bounds what it may map, and no process can have more present than mapped. */
static void apply_rlimit(int resource, const char *name, dct_mem_available *out) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    if (out->total_bytes == 0 || limit.rlim_cur < out->total_bytes) out->total_bytes = limit.rlim_cur;
    if (limit.rlim_cur >= out->available_bytes && *out->source != '\0') return;
    out->available_bytes = limit.rlim_cur;
    snprintf(out->source, sizeof out->source, "%s", name);
}

void dct_os_mem_available(const char *root, dct_mem_available *out) {
    memset(out, 0, sizeof *out);
    char text[DCT_PROC_TEXT_BYTES];
    if (dct_proc_read(root, "/proc/meminfo", text, sizeof text)) {
        if (!dct_proc_number(text, "MemTotal", &out->total_bytes)) out->total_bytes = 0;
        if (dct_proc_number(text, "MemAvailable", &out->available_bytes))
            snprintf(out->source, sizeof out->source, "MemAvailable");
    }
    for_each_group(root, "memory", memory_mounts, visit_memory, out);
    if (root == NULL) { /* the limits are those of this process, not of a machine made of files */
        apply_rlimit(RLIMIT_AS, "RLIMIT_AS (ulimit -v)", out);
        apply_rlimit(RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", out);
    }
    if (*out->source == '\0') snprintf(out->source, sizeof out->source, "unknown");
}

/* ---- a group of our own ---- */

typedef struct new_group {
    const char *name;
    uint64_t limit;
    dct_mem_group *out;
    bool made;
    char why[160]; /* none was made yet */
} new_group;

static bool write_number(const char *directory, const char *file, uint64_t number) {
    char path[sizeof((dct_mem_group *)0)->path + 64], text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64 "\n", number);
    snprintf(path, sizeof path, "%s/%s", directory, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, text, (size_t)n) == n;
    return close(fd) == 0 && done;
}

/* Without the memory controller there is nothing to write a limit to; with processes in it nothing is ours. */
static bool set_up(const new_group *wanted, const group *g) {
    const char *directory = wanted->out->path;
    char path[sizeof wanted->out->path + 64], text[64];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    if (!dct_proc_read("", path, text, sizeof text) || text[0] != '\0') return false;
    if (g->is_v2) (void)!write_number(directory, "memory.swap.max", 0); /* absent where there is no swap */
    return write_number(directory, g->is_v2 ? "memory.max" : "memory.limit_in_bytes", wanted->limit);
}

static void visit_new(const char *root, const group *g, void *ctx) {
    new_group *wanted = ctx;
    char *path = wanted->out->path;
    if (wanted->made) return;
    int n = snprintf(path, sizeof wanted->out->path, "%s%s%s/%s", root, g->mount, g->path, wanted->name);
    if (n < 0 || (size_t)n >= sizeof wanted->out->path) return;
    bool is_new = mkdir(path, 0755) == 0;
    int error = is_new ? 0 : errno;
    wanted->made = (is_new || error == EEXIST) && set_up(wanted, g);
    if (wanted->made) return;
    const char *reason = error != 0 && error != EEXIST ? strerror(error) : "no memory controller there, or it is in use";
    if (wanted->why[0] == '\0') snprintf(wanted->why, sizeof wanted->why, "%.80s: %.70s", path, reason);
    if (is_new) rmdir(path);
}

dct_status dct_os_mem_group_make(const char *name, uint64_t limit_bytes, dct_mem_group *out, dct_err *err) {
    new_group wanted = {.name = name, .limit = limit_bytes, .out = out};
    for_each_group("", "memory", memory_mounts, visit_new, &wanted);
    if (wanted.made) return DCT_OK;
    const char *why = wanted.why[0] != '\0' ? wanted.why : "none is mounted";
    return dct_fail(err, DCT_SYSTEM, "no memory cgroup can be made here: %s", why);
}

dct_status dct_os_mem_group_enter(const dct_mem_group *g, dct_err *err) {
    if (write_number(g->path, "cgroup.procs", (uint64_t)getpid())) return DCT_OK;
    return dct_fail(err, DCT_SYSTEM, "%.200s cannot be entered: %s", g->path, strerror(errno));
}

void dct_os_mem_group_remove(const dct_mem_group *g) { rmdir(g->path); }
