/* Plan files from anyone: the header is made right so that the bytes reach the walk; what loads must print, compare and save, and
 * the verifier must come to an end with it. */
#include <string.h>

#include "base/hash.h"
#include "plan/plan.h"
#include "verify/verify.h"

enum { MAX_BYTES = 1 << 17, HEADER_BYTES = 32, HASH_AT = 16, HASHED_FROM = 24 };

static void nowhere(void *ctx, const char *text, size_t n) {
    (void)text;
    *(size_t *)ctx += n;
}

static void put_u64(uint8_t *at, uint64_t v) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(v >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[MAX_BYTES], again[MAX_BYTES];
    if (size > sizeof file || size < HEADER_BYTES) return 0;
    memcpy(file, data, size);
    memcpy(file, "DCTMPLAN", 8);
    put_u64(file + 8, DCT_PLAN_VERSION); /* and four bytes that are 0 */
    put_u64(file + HASHED_FROM, size);
    put_u64(file + HASH_AT, dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, file + HASHED_FROM, size - HASHED_FROM)));
    dct_arena arena, work;
    dct_arena_init(&arena, 64 << 20);
    dct_arena_init(&work, 64 << 20);
    dct_defect defect;
    dct_plan *plan;
    dct_err err;
    size_t printed = 0;
    uint64_t n;
    if (dct_plan_load(file, size, &arena, &plan, &err) == DCT_OK) {
        if (dct_plan_dump_text(plan, nowhere, &printed, NULL) == DCT_BUG) __builtin_trap();
        if (dct_plan_dump_svg(plan, DCT_PHASE_DECODE, nowhere, &printed, NULL) == DCT_BUG) __builtin_trap();
        if (dct_plan_dump_html(plan, nowhere, &printed, NULL) == DCT_BUG) __builtin_trap();
        if (dct_plan_dump_diff(plan, plan, &work, nowhere, &printed, &err) == DCT_BUG) __builtin_trap();
        if (dct_verify_alone(plan, &defect, &err) != DCT_OK && err.message[0] == '\0') __builtin_trap();
        if (dct_plan_save(plan, again, sizeof again, &n, &err) != DCT_OK || n != size || memcmp(file, again, n) != 0) __builtin_trap();
    }
    dct_arena_deinit(&work);
    dct_arena_deinit(&arena);
    return 0;
}
