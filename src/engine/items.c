/* engine/items: what a session needs beside the graphs' values, measured from the header, so that the envelope holds it; and
 * where it lies in a reservation.
 *
 * Sizes that depend on the compiled plan (executor, plan record) are bounded from the traced graph: fusing only makes fewer ops
 * and values. What lies outside the reservation (program, libraries, main stack) is a fixed allowance, which session.c compares
 * with what the process holds when it is told that the whole process is meant.
 */
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"

enum {
    PROGRAM_BYTES = 6 * 1024 * 1024,
    SCRATCH_A_BYTE = 32,      /* of text, for the tokenizer */
    SCRATCH_FIXED = 64 * 1024,
    EXEC_A_OP = 512,          /* gate, addresses */
    RECORD_FIXED = 512 * 1024, /* handles of model and plan, first chunks of arenas, what the verifier keeps */
    SPARE_OPS = 64,
    KERNEL_FIXED = 256 * 1024, /* page tables of the program, records of the process and of its open files */
    KERNEL_A_THREAD = 32 * 1024 /* a stack of 16 KiB, and its record */
};

static void add(dct_items *items, dct_region region, const char *name, uint64_t bytes, bool outside) {
    if (bytes == 0) return;
    items->item[items->n++] = (dct_extra_item){region, name, dct_round_up(bytes, 64), outside};
}

uint64_t dct_longest_text(uint32_t n_tokens, uint32_t longest) { return (uint64_t)n_tokens * longest; }

/* Every byte of a token may be invalid and become the three bytes of U+FFFD; behind that, room for one token's bytes. */
uint64_t dct_answer_bytes(uint32_t n_tokens, uint32_t longest) { return 3 * dct_longest_text(n_tokens, longest) + longest + 64; }

/* No message can do without a token, and a question and its system prompt may be added to what is full, to be refused: the list
 * of messages, their texts, a NUL behind each. */
uint32_t dct_conversation_messages(uint32_t n_tokens) { return n_tokens + 2; }

uint64_t dct_conversation_bytes(uint32_t n_tokens, uint32_t longest) {
    return dct_conversation_messages(n_tokens) * (uint64_t)(sizeof(dctms_chat_message) + 1) + dct_longest_text(n_tokens, longest);
}

/* Scratch to tokenize a text as a chat: the text, its parts, and the tokenizer's own. The text with the most parts has a token
 * for each, and one template part before and after. */
static uint64_t text_scratch_bytes(uint32_t n_tokens, uint64_t n_text) {
    uint64_t parts = (2 * (uint64_t)n_tokens + 16) * sizeof(dct_text_part);
    return dct_round_up(n_text, 64) + dct_round_up(parts, 64) + n_text * SCRATCH_A_BYTE + SCRATCH_FIXED;
}

/* Bytes of the longest entry of the vocabulary: no token's text is longer, and a lone byte may become U+FFFD. */
static uint32_t longest_token(const dct_model *model) {
    const dct_meta *tokens = dct_model_find_meta(model, "tokenizer.ggml.tokens");
    uint64_t cursor = 0;
    size_t longest = 4;
    dct_str token;
    if (tokens == NULL) return (uint32_t)longest;
    while (dct_meta_array_next_str(model, tokens, &cursor, &token))
        if (token.len > longest) longest = token.len;
    return longest > DCT_LONGEST_TOKEN ? DCT_LONGEST_TOKEN : (uint32_t)longest;
}

static uint64_t template_bytes(const dct_model *model) {
    const dct_meta *meta = dct_model_find_meta(model, "tokenizer.chat_template");
    return meta != NULL && meta->type == DCT_META_STRING ? meta->as.s.len : 0;
}

static void add_persistent(const dctms_model *m, const dct_bounds *b, uint64_t token_bytes, uint32_t longest, dct_items *items) {
    const dct_region region = DCT_REGION_PERSISTENT;
    add(items, region, DCT_ITEM_TOKENS, token_bytes, false);
    add(items, region, DCT_ITEM_TEMPLATE, template_bytes(&m->model), false);
    add(items, region, DCT_ITEM_SAMPLER, dct_sampler_bytes(m->hp.n_vocab), false);
    add(items, region, DCT_ITEM_TIMELINE, (uint64_t)b->n_ctx * sizeof(dct_token), false);
    add(items, region, DCT_ITEM_PROMPT, ((uint64_t)b->n_input + 1) * sizeof(dct_token), false);
    add(items, region, DCT_ITEM_GENERATED, (uint64_t)b->n_output * sizeof(dct_token), false);
    add(items, region, DCT_ITEM_TEXT, dct_answer_bytes(b->n_output, longest), false);
    add(items, region, DCT_ITEM_CONVERSATION, dct_conversation_bytes(b->n_input, longest), false);
}

/* Workers, and the executor and record of each member of a family. */
static void add_machinery(uint32_t threads, uint32_t n_members, const dct_graph *g, dct_items *items) {
    const dct_region region = DCT_REGION_RUNTIME;
    uint64_t n_ops = 2 * ((uint64_t)g->n_ops + SPARE_OPS), n_values = 2 * ((uint64_t)g->n_values + SPARE_OPS);
    uint64_t record = n_ops * (sizeof(dct_op) + sizeof(dct_step) + 16) + n_values * (sizeof(dct_value) + sizeof(dct_place)) +
                      3 * g->n_weights * sizeof(dct_plan_weight) + 3 * g->n_caches * sizeof(dct_plan_cache);
    add(items, region, DCT_ITEM_STACKS, (uint64_t)(threads - 1) * DCT_WORKER_STACK, false);
    add(items, region, DCT_ITEM_POOL, dct_pool_bytes(threads), false);
    add(items, region, DCT_ITEM_EXEC, n_members * (n_ops * EXEC_A_OP + 4096), false);
    add(items, region, DCT_ITEM_RECORD, n_members * (record + record / 4) + RECORD_FIXED, true);
    items->kernel_bytes = KERNEL_FIXED + (uint64_t)threads * KERNEL_A_THREAD;
    items->staging_bytes = dct_load_staging_bytes(g, threads);
}

static void add_runtime(const dct_bounds *b, uint32_t n_members, const dct_graph *g, dct_items *items) {
    const dct_region region = DCT_REGION_RUNTIME;
    add_machinery(b->threads, n_members, g, items);
    add(items, region, DCT_ITEM_SESSION, sizeof(dctms_session), false);
    add(items, region, "library heap", DCT_LIBRARY_HEAP_BYTES, true);
    add(items, region, DCT_ITEM_PROGRAM, PROGRAM_BYTES, true);
    add(items, region, "main stack", DCT_MAIN_STACK, true);
}

static dct_status measure(const dctms_model *m, const dct_bounds *b, uint32_t n_members, uint64_t token_bytes, dct_arena *work,
                          dct_items *items, dct_err *err) {
    dct_graph g;
    dct_trace_params trace = dct_trace_params_of(b, DCT_PHASE_PREFILL);
    dct_status status = dct_arch_trace(&m->model, &m->hp, &trace, work, &g, err);
    if (status != DCT_OK) return status;
    uint32_t longest = longest_token(&m->model);
    memset(items, 0, sizeof *items);
    add_persistent(m, b, token_bytes, longest, items);
    add_runtime(b, n_members, &g, items);
    items->text_scratch_bytes = text_scratch_bytes(b->n_input, dct_longest_text(b->n_input, longest));
    return DCT_OK;
}

dct_status dct_items_measure(const dctms_model *m, const dct_bounds *b, uint32_t n_members, dct_arena *work, dct_items *items,
                             dct_err *err) {
    uint64_t token_bytes;
    dct_status status = dct_tokenizer_measure(&m->model, work, &token_bytes, err);
    return status == DCT_OK ? measure(m, b, n_members, token_bytes, work, items, err) : status;
}

/* ---- against a plan's own ---- */

static dct_status need_bytes(const char *name, uint64_t has, uint64_t need, dct_err *err) {
    if (has >= need) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "'%s' has %llu bytes, %llu are needed", name, (unsigned long long)has,
                    (unsigned long long)need);
}

static uint64_t item_bytes(const dct_plan *plan, dct_region region, const char *name, bool outside) {
    const dct_item *item = dct_plan_item(plan, region, name, outside);
    return item != NULL ? item->bytes : 0;
}

/* Scratch that may lie over the arena, and pages of the kernel, which needs page tables of 8 bytes for each 4 KiB at least. */
static dct_status check_shared_items(const dct_plan *plan, const dct_items *need, dct_err *err) {
    uint64_t text = item_bytes(plan, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT_SCRATCH, false);
    uint64_t staging = item_bytes(plan, DCT_REGION_RUNTIME, DCT_ITEM_STAGING, false);
    dct_place over;
    if (text == 0 && !plan->bounds.overlap) text = plan->region_bytes[DCT_REGION_ARENA];
    if (dct_plan_staging(plan, need->staging_bytes, &over)) staging = need->staging_bytes;
    dct_status status = need_bytes(DCT_ITEM_TEXT_SCRATCH, text, need->text_scratch_bytes, err);
    if (status == DCT_OK) status = need_bytes(DCT_ITEM_STAGING, staging, need->staging_bytes, err);
    if (status != DCT_OK) return status;
    return need_bytes(DCT_ITEM_KERNEL, dct_plan_kernel_bytes(plan), need->kernel_bytes + plan->reserve_bytes / 512, err);
}

dct_status dct_items_check(const dct_plan *plan, const dctms_model *m, dct_err *err) {
    dct_items need;
    dct_arena work;
    dct_arena_init(&work, 0);
    dct_status status = measure(m, &plan->bounds, plan->n_smaller + 1, 0, &work, &need, err);
    dct_arena_deinit(&work);
    for (uint32_t i = 0; status == DCT_OK && i < need.n; i++) {
        const dct_extra_item *wanted = &need.item[i];
        uint64_t has = item_bytes(plan, wanted->region, wanted->name, wanted->outside);
        status = need_bytes(wanted->name, has, wanted->bytes, err);
    }
    return status == DCT_OK ? check_shared_items(plan, &need, err) : status;
}

/* Program, heap and main stack are the caller's and no business of the plan. */
void dct_items_of_graph(const dct_graph *g, uint32_t threads, dct_items *items) {
    memset(items, 0, sizeof *items);
    add_machinery(threads, 1, g, items);
    add(items, DCT_REGION_RUNTIME, DCT_ITEM_RUNNER, sizeof(dctms_runner), false);
}

/* ---- in a reservation ---- */

void *dct_item_at(const dct_plan *plan, const dct_bases *bases, dct_region region, const char *name, uint64_t *bytes) {
    uint64_t offset;
    return dct_plan_find_item(plan, region, name, &offset, bytes) ? bases->of[region] + offset : NULL;
}

dct_status dct_item_need(const dct_plan *plan, const dct_bases *bases, dct_region region, const char *name, uint64_t need,
                         void *out, dct_err *err) {
    uint64_t bytes;
    void *at = dct_item_at(plan, bases, region, name, &bytes);
    if (at == NULL || bytes < need)
        return dct_fail(err, DCT_BAD_FILE, "the plan's item '%s' has %llu bytes, %llu are needed", name,
                        (unsigned long long)bytes, (unsigned long long)need);
    memcpy(out, &at, sizeof at);
    return DCT_OK;
}

dct_status dct_start_workers(const dct_plan *plan, const dct_bases *bases, dct_pool **pool, dct_err *err) {
    const dct_region region = DCT_REGION_RUNTIME;
    uint32_t n = plan->bounds.threads;
    void *stacks = NULL, *memory = NULL;
    dct_status status = dct_item_need(plan, bases, region, DCT_ITEM_POOL, dct_pool_bytes(n), &memory, err);
    if (status == DCT_OK && n > 1)
        status = dct_item_need(plan, bases, region, DCT_ITEM_STACKS, (uint64_t)(n - 1) * DCT_WORKER_STACK, &stacks, err);
    return status == DCT_OK ? dct_pool_start(memory, n, stacks, DCT_WORKER_STACK, pool, err) : status;
}
