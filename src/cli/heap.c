/* The library heap: malloc for this executable, in a fixed part of its own data.
 *
 * Our code never calls malloc; the libraries that we use do (jansson, libc's stdio). Giving them a heap of known size keeps the
 * promise of the envelope, and counting their calls lets a run print that there were none after ready. Blocks carry a 16-byte
 * head with their size; free blocks form one list in address order, so that neighbours merge; the first that fits is taken.
 *
 *     span:  | head | payload ... | head | payload | head | free ...................... |
 *
 * Verbs that print large JSON need more than the fixed part: then further spans are mapped. Verbs that keep to an envelope close
 * the heap first, and the fixed part is all there is. Under sanitizers their own allocator is used.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os.h"
#include "base/size.h"
#include "cli/cli.h"

#if defined(DCT_SANITIZED)

void cli_heap_get(cli_heap_figures *out) { memset(out, 0, sizeof *out); }
void cli_heap_close(void) {}

#else

enum { UNIT = 16, SPAN_BYTES = 4 * 1024 * 1024 };

typedef struct block {
    size_t bytes;       /* of the whole block, head included; a multiple of UNIT */
    struct block *next; /* while free: the next free block in address order */
} block;
_Static_assert(sizeof(block) == UNIT, "a head is one unit");

static _Alignas(64) char fixed_span[DCT_LIBRARY_HEAP_BYTES];
static block *free_list;
static block *hint; /* a free block near the last one freed; frees in address order then cost nothing */
static bool started, closed;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static cli_heap_figures figures;

static void take_lock(void) {
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) dct_cpu_relax();
}
static void drop_lock(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

/* Puts a block into the list and merges it with its neighbours. */
static void insert(block *b) {
    block *before = hint != NULL && hint < b ? hint : NULL;
    block *at = before != NULL ? before->next : free_list;
    while (at != NULL && at < b) {
        before = at;
        at = at->next;
    }
    b->next = at;
    if (at != NULL && (char *)b + b->bytes == (char *)at) {
        b->bytes += at->bytes;
        b->next = at->next;
    }
    if (before == NULL) {
        free_list = b;
    } else if ((char *)before + before->bytes == (char *)b) {
        before->bytes += b->bytes;
        before->next = b->next;
        b = before;
    } else {
        before->next = b;
    }
    hint = b;
}

static void add_span(void *memory, size_t bytes) {
    block *b = memory;
    b->bytes = bytes;
    figures.mapped_bytes += bytes;
    insert(b);
}

static block *take_first_fit(size_t bytes) {
    block **link = &free_list;
    for (block *b = *link; b != NULL; link = &b->next, b = *link) {
        if (b->bytes < bytes) continue;
        if (b->bytes - bytes >= 2 * UNIT) {
            block *rest = (block *)(void *)((char *)b + bytes);
            rest->bytes = b->bytes - bytes;
            rest->next = b->next;
            b->bytes = bytes;
            *link = rest;
        } else {
            *link = b->next;
        }
        hint = NULL;
        return b;
    }
    return NULL;
}

static void *allocate(size_t n) {
    if (n > PTRDIFF_MAX - 2 * UNIT) return NULL;
    size_t bytes = (n + UNIT - 1) / UNIT * UNIT + UNIT;
    if (bytes < 2 * UNIT) bytes = 2 * UNIT;
    take_lock();
    figures.calls++;
    if (!started) {
        started = true;
        add_span(fixed_span, sizeof fixed_span);
    }
    block *b = take_first_fit(bytes);
    if (b == NULL && !closed) {
        size_t span = bytes > SPAN_BYTES ? (bytes + 4095) / 4096 * 4096 : SPAN_BYTES;
        void *memory = dct_os_map(span);
        if (memory != NULL) {
            add_span(memory, span);
            b = take_first_fit(bytes);
        }
    }
    if (b != NULL) {
        figures.used_bytes += b->bytes;
        if (figures.used_bytes > figures.peak_bytes) figures.peak_bytes = figures.used_bytes;
        b->next = NULL;
    }
    drop_lock();
    if (b == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return (char *)b + UNIT;
}

static block *block_of(void *p) { return (block *)(void *)((char *)p - UNIT); }

void *malloc(size_t n) { return allocate(n); }

/* An aligned payload keeps, just before it, a head of its own whose `next` points at the real block. */
void free(void *p) {
    if (p == NULL) return;
    block *b = block_of(p);
    if (b->next != NULL) b = b->next;
    take_lock();
    figures.used_bytes -= b->bytes;
    insert(b);
    drop_lock();
}

void *calloc(size_t n, size_t size) {
    uint64_t bytes;
    if (!dct_mul_u64(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = allocate((size_t)bytes);
    if (p != NULL) memset(p, 0, (size_t)bytes);
    return p;
}

static size_t payload_bytes(void *p) {
    block *b = block_of(p);
    if (b->next == NULL) return b->bytes - UNIT;
    return (size_t)((char *)b->next + b->next->bytes - (char *)p);
}

void *realloc(void *p, size_t n) {
    if (p == NULL) return allocate(n);
    if (n == 0) {
        free(p);
        return NULL;
    }
    size_t have = payload_bytes(p);
    if (n <= have && have / 2 <= n) return p;
    void *q = allocate(n);
    if (q == NULL) return NULL;
    memcpy(q, p, n < have ? n : have);
    free(p);
    return q;
}

static void *allocate_aligned(size_t align, size_t n) {
    if (align <= UNIT) return allocate(n);
    if (n > PTRDIFF_MAX - align - UNIT) return NULL;
    char *raw = allocate(n + align + UNIT);
    if (raw == NULL) return NULL;
    char *p = (char *)(((uintptr_t)raw + UNIT + align - 1) / align * align);
    block_of(p)->bytes = 0;
    block_of(p)->next = block_of(raw);
    return p;
}

void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n) { return allocate_aligned(align, n); }
void *aligned_alloc(size_t align, size_t n) { return allocate_aligned(align, n); }
int posix_memalign(void **out, size_t align, size_t n);
int posix_memalign(void **out, size_t align, size_t n) {
    if (!dct_is_pow2(align) || align % sizeof(void *) != 0) return EINVAL;
    void *p = allocate_aligned(align, n);
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}
size_t malloc_usable_size(void *p);
size_t malloc_usable_size(void *p) { return p == NULL ? 0 : payload_bytes(p); }

void cli_heap_get(cli_heap_figures *out) {
    take_lock();
    *out = figures;
    drop_lock();
}

void cli_heap_close(void) {
    take_lock();
    closed = true;
    drop_lock();
}

#endif
