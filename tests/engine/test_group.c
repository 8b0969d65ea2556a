/* Several models in one reservation: the same answers as alone, an envelope that adds up and holds, and a verifier that sees when it does not. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/emulated.h"

#define MODELS DCT_SOURCE_DIR "/models/tiny-vl/"

enum { N = 2, STEPS = 24, CTX = 192 };
static const char *const paths[N] = {MODELS "tiny-vl-f16.gguf", MODELS "tiny-draft-f16.gguf"};
static const char *const prompts[N] = {"The red square is left of", "One two three"};

static dctms_model *model_of(const char *path) {
    dctms_model *model;
    dctms_error err;
    if (dctms_model_open(path, &model, &err) != DCTMS_OK) fail_msg("%s", err.message);
    return model;
}

static const dctms_ctx_step steps[] = {{24, 24}, {28, 4}, {64, 2}}; /* the smallest reaches past the caches of the largest */
enum { N_CTX_STEPS = sizeof steps / sizeof *steps };

static dctms_plan *plan_with(const char *path, uint32_t n_ctx, bool is_family) {
    dctms_plan *plan;
    dctms_error err;
    dctms_model *model = model_of(path);
    dctms_plan_params params = dctms_plan_default_params();
    params.n_ctx = is_family ? 0 : n_ctx;
    params.n_ctx_steps = is_family ? N_CTX_STEPS : 0;
    if (is_family) memcpy(params.ctx_steps, steps, sizeof steps);
    params.n_output = is_family ? STEPS : 64;
    params.threads = 2;
    if (dctms_plan_compile(model, &params, &plan, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_model_free(model);
    return plan;
}

static dctms_plan *plan_of(const char *path, uint32_t n_ctx) { return plan_with(path, n_ctx, false); }

static dctms_session *open_on(const char *path, const dctms_plan *plan) {
    dctms_session *session;
    dctms_error err;
    dctms_model *model = model_of(path);
    if (dctms_session_open(model, plan, NULL, &session, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_model_free(model);
    return session;
}

/* Saved, and loaded again: no file says which files its weights are from. */
static dctms_plan *through_file(dctms_plan *made) {
    static const char file[] = DCT_BINARY_DIR "/test_group.plan";
    dctms_plan *loaded;
    dctms_error err;
    if (dctms_plan_save(made, file, &err) || dctms_plan_load(file, &loaded, &err)) fail_msg("%s", err.message);
    dctms_plan_free(made);
    unlink(file);
    return loaded;
}

static dctms_group *group_through(bool has_files, const char *const files[N], const uint32_t ctx[N], dctms_group_mode mode) {
    dctms_plan *plans[N];
    dctms_group *group;
    dctms_error err;
    for (uint32_t i = 0; i < N; i++) plans[i] = plan_of(files[i], ctx[i]);
    for (uint32_t i = 0; has_files && i < N; i++) plans[i] = through_file(plans[i]);
    if (dctms_group_make((const dctms_plan *const *)plans, N, mode, &group, &err) != DCTMS_OK) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < N; i++) dctms_plan_free(plans[i]); /* the group holds them */
    return group;
}

static dctms_group *group_of(const char *const files[N], const uint32_t ctx[N], dctms_group_mode mode) {
    return group_through(false, files, ctx, mode);
}

static const uint32_t same_ctx[N] = {CTX, CTX};

static void prompt(dctms_session *s, uint32_t i) {
    dctms_error err;
    if (dctms_session_prompt(s, prompts[i], strlen(prompts[i]), false, &err) != DCTMS_OK) fail_msg("%s", err.message);
}

/* The token with the largest logit, and on to the next. */
static dctms_token step(dctms_session *s) {
    dctms_error err;
    const float *logits = dctms_session_logits(s);
    dctms_token best = 0;
    for (uint32_t t = 1; t < dctms_session_n_vocab(s); t++)
        if (logits[t] > logits[best]) best = t;
    if (dctms_session_step(s, best, &err) != DCTMS_OK) fail_msg("%s", err.message);
    return best;
}

static void run_alone(uint32_t i, dctms_token out[STEPS]) {
    dctms_plan *plan = plan_of(paths[i], CTX);
    dctms_session *s = open_on(paths[i], plan);
    prompt(s, i);
    for (uint32_t k = 0; k < STEPS; k++) out[k] = step(s);
    dctms_session_free(s);
    dctms_plan_free(plan);
}

static void alternating_models_answer_as_alone(void **state) {
    (void)state;
    static const dctms_group_mode modes[] = {DCTMS_CONCURRENT, DCTMS_EXCLUSIVE};
    dctms_token alone[N][STEPS];
    for (uint32_t i = 0; i < N; i++) run_alone(i, alone[i]);
    for (size_t m = 0; m < 2; m++) {
        dctms_group *group = group_of(paths, same_ctx, modes[m]);
        dctms_session *s[N];
        for (uint32_t i = 0; i < N; i++) s[i] = open_on(paths[i], dctms_group_member(group, i));
        dctms_group_free(group); /* the sessions hold it */
        for (uint32_t i = 0; i < N; i++) prompt(s[i], i);
        for (uint32_t k = 0; k < STEPS; k++)
            for (uint32_t i = 0; i < N; i++) assert_int_equal(step(s[i]), alone[i][k]);
        for (uint32_t i = 0; i < N; i++) dctms_session_free(s[i]);
    }
}

/* Bit i: model i has several contexts. */
static dctms_group *group_with(uint32_t families, dctms_group_mode mode) {
    dctms_plan *plans[N];
    dctms_group *group;
    dctms_error err;
    for (uint32_t i = 0; i < N; i++) plans[i] = plan_with(paths[i], CTX, families >> i & 1);
    if (dctms_group_make((const dctms_plan *const *)plans, N, mode, &group, &err) != DCTMS_OK) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < N; i++) dctms_plan_free(plans[i]);
    return group;
}

/* Through all members, while the other model does the same over the bytes that the two share. */
static void families_answer_as_alone(void **state) {
    (void)state;
    dctms_token alone[N][STEPS];
    for (uint32_t i = 0; i < N; i++) run_alone(i, alone[i]);
    for (uint32_t k = 0; k < 6; k++) {
        uint32_t families = k / 2 + 1;
        dctms_group *group = group_with(families, k % 2 == 0 ? DCTMS_EXCLUSIVE : DCTMS_CONCURRENT);
        dctms_session *s[N];
        for (uint32_t i = 0; i < N; i++) s[i] = open_on(paths[i], dctms_group_member(group, i));
        for (uint32_t i = 0; i < N; i++) prompt(s[i], i);
        for (uint32_t i = 0; i < N; i++) assert_int_equal(s[i]->plan->n_smaller, families >> i & 1 ? N_CTX_STEPS - 1 : 0);
        for (uint32_t j = 0; j < STEPS; j++)
            for (uint32_t i = 0; i < N; i++) assert_int_equal(step(s[i]), alone[i][j]);
        for (uint32_t i = 0; i < N; i++) assert_int_equal(s[i]->member, s[i]->plan->n_smaller); /* the last one was reached */
        for (uint32_t i = 0; i < N; i++) dctms_session_free(s[i]);
        dctms_group_free(group);
    }
}

/* One family shares its arena with plans of one context; two cannot, since each has it behind its own caches. */
static void one_family_shares_its_arena(void **state) {
    (void)state;
    for (uint32_t families = 0; families < 4; families++) {
        dctms_group *both[2] = {group_with(families, DCTMS_CONCURRENT), group_with(families, DCTMS_EXCLUSIVE)};
        uint64_t a = both[0]->layout.plans[0]->region_bytes[DCT_REGION_ARENA];
        uint64_t b = both[0]->layout.plans[1]->region_bytes[DCT_REGION_ARENA];
        uint64_t saved = families == 3 ? 0 : a < b ? a : b;
        assert_int_equal(both[0]->layout.m_max_bytes - both[1]->layout.m_max_bytes, saved);
        for (uint32_t i = 0; i < 2; i++) dctms_group_free(both[i]);
    }
    dctms_group *group = group_with(3, DCTMS_EXCLUSIVE);
    dct_group *g = &group->layout;
    dct_err err;
    const dct_plan *largest = g->plans[0], *smallest = dct_plan_member(largest, 0);
    assert_true(smallest->region_bytes[DCT_REGION_KV] + dct_plan_arena_height(smallest) > largest->region_bytes[DCT_REGION_KV]);
    dct_part own = g->part_of[1][DCT_REGION_ARENA];
    assert_int_equal(dct_verify_group(g, &err), DCT_OK);
    g->part_of[1][DCT_REGION_ARENA] = g->part_of[0][DCT_REGION_WEIGHTS];
    assert_int_equal(dct_verify_group(g, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "intermediates of model 1 do not follow its caches"));
    g->part_of[1][DCT_REGION_ARENA] = own;
    g->part_of[0][DCT_REGION_ARENA].offset -= DCT_PLAN_PAGE;
    assert_int_equal(dct_verify_group(g, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "intermediates of model 0 do not follow its caches"));
    g->part_of[0][DCT_REGION_ARENA].offset += DCT_PLAN_PAGE;
    assert_int_equal(dct_verify_group(g, &err), DCT_OK);
    dctms_group_free(group);
}

/* One that was closed can be opened again beside the other, whose answer goes on; and so when the plans come from files. */
static void a_member_can_be_opened_again(void **state) {
    (void)state;
    dctms_token alone[N][STEPS];
    for (uint32_t i = 0; i < N; i++) run_alone(i, alone[i]);
    for (int has_files = 0; has_files < 2; has_files++) {
        dctms_group *group = group_through(has_files != 0, paths, same_ctx, DCTMS_EXCLUSIVE);
        dctms_session *stays = open_on(paths[0], dctms_group_member(group, 0));
        prompt(stays, 0);
        for (uint32_t k = 0; k < STEPS; k++) {
            dctms_session *comes = k % 8 == 0 ? open_on(paths[1], dctms_group_member(group, 1)) : NULL;
            if (comes != NULL) prompt(comes, 1);
            for (uint32_t j = 0; comes != NULL && j < 3; j++) assert_int_equal(step(comes), alone[1][j]);
            assert_int_equal(step(stays), alone[0][k]);
            dctms_session_free(comes);
        }
        dctms_session_free(stays);
        dctms_group_free(group);
    }
}

static uint64_t arena_of(const dctms_group *g, uint32_t i) { return g->layout.plans[i]->region_bytes[DCT_REGION_ARENA]; }

static void the_envelope_adds_up(void **state) {
    (void)state;
    dctms_group *groups[2] = {group_of(paths, same_ctx, DCTMS_CONCURRENT), group_of(paths, same_ctx, DCTMS_EXCLUSIVE)};
    dctms_group_info info[2];
    for (size_t m = 0; m < 2; m++) {
        dctms_group_get_info(groups[m], &info[m]);
        assert_int_equal(info[m].m_max_bytes, info[m].reserve_bytes + info[m].outside_bytes);
        assert_true(info[m].m_max_bytes < info[m].alone_bytes);
    }
    uint64_t a = arena_of(groups[0], 0), b = arena_of(groups[0], 1), smaller = a < b ? a : b;
    assert_int_equal(info[0].arena_bytes, a + b);
    assert_int_equal(info[1].arena_bytes, a + b - smaller);
    assert_int_equal(info[0].m_max_bytes - info[1].m_max_bytes, smaller);
    uint64_t reserve = 0;
    for (uint32_t i = 0; i < N; i++) reserve += groups[0]->layout.plans[i]->reserve_bytes;
    assert_int_equal(info[0].reserve_bytes, reserve);
    for (size_t m = 0; m < 2; m++) dctms_group_free(groups[m]);
}

/* Two contexts on one file: its weights are there once, and are read once. */
static void weights_of_one_file_are_there_once(void **state) {
    (void)state;
    static const char *const twice[N] = {MODELS "tiny-vl-f16.gguf", MODELS "tiny-vl-f16.gguf"};
    static const uint32_t ctx[N] = {CTX, 2 * CTX};
    dctms_token alone[STEPS];
    run_alone(0, alone);
    dctms_group *group = group_of(twice, ctx, DCTMS_CONCURRENT);
    uint64_t weights = group->layout.plans[0]->region_bytes[DCT_REGION_WEIGHTS];
    assert_int_equal(dct_group_region_bytes(&group->layout, DCT_REGION_WEIGHTS), weights);
    dctms_session *s[N];
    for (uint32_t i = 0; i < N; i++) s[i] = open_on(twice[i], dctms_group_member(group, i));
    assert_ptr_equal(s[0]->bases.of[DCT_REGION_WEIGHTS], s[1]->bases.of[DCT_REGION_WEIGHTS]);
    for (uint32_t i = 0; i < N; i++) prompt(s[i], 0);
    for (uint32_t k = 0; k < STEPS; k++)
        for (uint32_t i = 0; i < N; i++) assert_int_equal(step(s[i]), alone[k]);
    dctms_session_free(s[0]); /* the weights stay */
    dctms_error err;
    assert_int_equal(dctms_session_rewind(s[1], 0, &err), DCTMS_OK);
    prompt(s[1], 0);
    for (uint32_t k = 0; k < STEPS; k++) assert_int_equal(step(s[1]), alone[k]);
    dctms_session_free(s[1]);
    dctms_group_free(group);
}

/* Two fine-tunes can have one header: they are two files, and each answers as alone. */
static void files_with_one_header_are_two(void **state) {
    (void)state;
    static const char *const files[N] = {MODELS "tiny-vl-f16.gguf", DCT_BINARY_DIR "/test_group.gguf"};
    FILE *in = fopen(files[0], "rb"), *out = fopen(files[1], "wb");
    assert_true(in != NULL && out != NULL);
    for (int byte; (byte = fgetc(in)) != EOF;) fputc(byte, out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    dctms_group *group = group_of(files, same_ctx, DCTMS_CONCURRENT);
    assert_int_equal(group->layout.plans[0]->fingerprint, group->layout.plans[1]->fingerprint);
    assert_int_equal(dct_group_region_bytes(&group->layout, DCT_REGION_WEIGHTS), 2 * group->layout.plans[0]->region_bytes[DCT_REGION_WEIGHTS]);
    dctms_session *again, *s = open_on(files[0], dctms_group_member(group, 0));
    dctms_model *model = model_of(files[0]);
    dctms_error err;
    assert_int_equal(dctms_session_open(model, dctms_group_member(group, 0), NULL, &again, &err), DCTMS_USAGE);
    assert_non_null(strstr(err.message, "has a session already"));
    dctms_model_free(model);
    dctms_session_free(s);
    dctms_group_free(group);
    static const char *const twice[N] = {MODELS "tiny-vl-f16.gguf", MODELS "tiny-vl-f16.gguf"};
    group = group_of(twice, same_ctx, DCTMS_CONCURRENT);
    s = open_on(twice[0], dctms_group_member(group, 0));
    model = model_of(files[1]); /* whose weights are not those that lie there */
    assert_int_equal(dctms_session_open(model, dctms_group_member(group, 1), NULL, &again, &err), DCTMS_USAGE);
    assert_non_null(strstr(err.message, "are of another file"));
    dctms_model_free(model);
    dctms_session_free(s);
    dctms_group_free(group);
    group = group_through(true, files, same_ctx, DCTMS_CONCURRENT); /* plans that know no files: what was loaded counts */
    s = open_on(files[0], dctms_group_member(group, 0));
    dctms_session_free(open_on(files[1], dctms_group_member(group, 1)));
    model = model_of(files[0]);
    assert_int_equal(dctms_session_open(model, dctms_group_member(group, 1), NULL, &again, &err), DCTMS_USAGE);
    assert_non_null(strstr(err.message, "are of another file"));
    dctms_model_free(model);
    dctms_session_free(s);
    dctms_group_free(group);
    unlink(files[1]);
}

typedef struct progress_seen {
    uint64_t done, total;
} progress_seen;

static void see_progress(void *ctx, uint64_t done, uint64_t total) { *(progress_seen *)ctx = (progress_seen){done, total}; }

/* Progress ends at all that there was to do: what another session loaded is not, and the piece that a larger arena shares is. */
static void progress_ends_at_its_total(void **state) {
    (void)state;
    static const char *const files[][N] = {{MODELS "tiny-vl-f16.gguf", MODELS "tiny-vl-f16.gguf"},
                                           {MODELS "tiny-vl-f16.gguf", MODELS "tiny-draft-f16.gguf"},
                                           {MODELS "tiny-draft-f16.gguf", MODELS "tiny-vl-f16.gguf"}};
    for (uint32_t k = 0; k < 8; k++) {
        dctms_group_mode mode = k % 2 == 0 ? DCTMS_EXCLUSIVE : DCTMS_CONCURRENT;
        dctms_group *group = k < 6 ? group_of(files[k / 2], same_ctx, mode) : group_with(3, mode);
        const char *const *file = files[k < 6 ? k / 2 : 1];
        progress_seen seen[N] = {{0, 0}};
        dctms_session *s[N];
        for (uint32_t i = 0; i < N; i++) {
            dctms_error err;
            dctms_model *model = model_of(file[i]);
            dctms_session_params sp = dctms_session_default_params();
            sp.progress = see_progress;
            sp.progress_ctx = &seen[i];
            if (dctms_session_open(model, dctms_group_member(group, i), &sp, &s[i], &err)) fail_msg("%s", err.message);
            dctms_model_free(model);
            assert_true(seen[i].total > 0);
            assert_int_equal(seen[i].done, seen[i].total);
        }
        if (file[0] == file[1]) assert_true(seen[1].total + group->layout.plans[1]->region_bytes[DCT_REGION_WEIGHTS] < seen[0].total);
        for (uint32_t i = 0; i < N; i++) dctms_session_free(s[i]);
        dctms_group_free(group);
    }
}

static void an_exclusive_group_runs_one_at_a_time(void **state) {
    (void)state;
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        dctms_group *group = group_of(paths, same_ctx, exclusive ? DCTMS_EXCLUSIVE : DCTMS_CONCURRENT);
        dctms_session *s = open_on(paths[0], dctms_group_member(group, 0));
        dctms_error err;
        prompt(s, 0);
        atomic_store(&group->is_running, true); /* as if the other were in the middle of a step */
        dctms_status status = dctms_session_step(s, 1, &err);
        assert_int_equal(status, exclusive ? DCTMS_USAGE : DCTMS_OK);
        if (exclusive) assert_non_null(strstr(err.message, "another model"));
        atomic_store(&group->is_running, false);
        assert_int_equal(dctms_session_step(s, 1, &err), DCTMS_OK);
        dctms_session_free(s);
        dctms_group_free(group);
    }
}

/* Texts are tokenized, and weights pass, over what the model that has the turn computes with. */
static void who_is_refused_writes_nothing(void **state) {
    (void)state;
    dctms_group *group = group_of(paths, same_ctx, DCTMS_EXCLUSIVE);
    dctms_session *s = open_on(paths[0], dctms_group_member(group, 0)), *second = NULL;
    dctms_model *model = model_of(paths[1]);
    const dctms_chat_message message = {"user", prompts[0]};
    dctms_token ids[64] = {0};
    size_t n_ids;
    const size_t n = strlen(prompts[0]);
    prompt(s, 0);
    const uint32_t n_tokens = dctms_session_n_tokens(s);
    char *arena = s->bases.of[DCT_REGION_ARENA];
    assert_ptr_equal(s->tokenizer.scratch, arena);
    const uint64_t n_arena = s->plan->region_bytes[DCT_REGION_ARENA];
    memset(arena, 0x5a, (size_t)n_arena);
    for (int how = 0; how < 6; how++) {
        dctms_error err = {0};
        dctms_status status = DCTMS_OK;
        atomic_store(&group->is_running, true); /* as if another were in the middle of a step */
        if (how == 0) status = dctms_session_prompt(s, prompts[0], n, false, &err);
        if (how == 1) status = dctms_session_chat(s, &message, 1, &err);
        if (how == 2) status = dctms_tokenize(dctms_session_tokenizer(s), prompts[0], n, false, false, ids, 64, &n_ids, &err);
        if (how == 3) status = dctms_session_eval(s, ids, 1, &err);
        if (how == 4) status = dctms_session_step(s, 1, &err);
        if (how == 5) status = dctms_session_open(model, dctms_group_member(group, 1), NULL, &second, &err);
        atomic_store(&group->is_running, false);
        assert_int_equal(status, DCTMS_USAGE);
        assert_non_null(strstr(err.message, "another model"));
        for (uint64_t i = 0; i < n_arena; i++)
            if (arena[i] != 0x5a) fail_msg("%d wrote byte %llu of the intermediates", how, (unsigned long long)i);
        assert_int_equal(dctms_session_n_tokens(s), n_tokens);
        assert_non_null(dctms_session_logits(s));
    }
    dctms_error err;
    assert_int_equal(dctms_tokenize(dctms_session_tokenizer(s), prompts[0], n, false, false, ids, 64, &n_ids, &err), DCTMS_OK);
    assert_int_equal(dctms_session_chat(s, &message, 1, &err), DCTMS_OK); /* and the turn was given back */
    if (dctms_session_open(model, dctms_group_member(group, 1), NULL, &second, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_session_free(second);
    dctms_model_free(model);
    dctms_session_free(s);
    dctms_group_free(group);
}

/* Each damage is seen by the verifier, which names what is wrong. */
static void damaged_layouts_are_refused(void **state) {
    (void)state;
    dctms_group *group = group_of(paths, same_ctx, DCTMS_EXCLUSIVE);
    dct_group *g = &group->layout;
    dct_err err;
    assert_int_equal(dct_verify_group(g, &err), DCT_OK);

    const dct_group whole = *g;
    uint64_t pieces[N * DCT_REGION_COUNT];
    memcpy(pieces, g->piece_bytes, g->n_pieces * sizeof *pieces);
    dct_part places[N][DCT_REGION_COUNT];
    memcpy(places, g->part_of, sizeof places);
#define DAMAGE(change, part) \
    do { \
        change; \
        assert_int_equal(dct_verify_group(g, &err), DCT_BAD_FILE); \
        if (strstr(err.message, part) == NULL) fail_msg("%s: not '%s'", err.message, part); \
        *g = whole; \
        memcpy(g->piece_bytes, pieces, g->n_pieces * sizeof *pieces); \
        memcpy(g->part_of, places, sizeof places); \
        assert_int_equal(dct_verify_group(g, &err), DCT_OK); \
    } while (0)
    for (uint32_t i = 0; i < g->n_pieces; i++) DAMAGE(g->piece_bytes[i] -= DCT_PLAN_PAGE, "no piece");
    for (uint32_t i = 0; i < g->n_pieces; i++) DAMAGE(g->piece_bytes[i] += DCT_PLAN_PAGE, "M_max");
    DAMAGE(g->piece_bytes[2] += 64, "no piece");
    DAMAGE(g->reserve_bytes -= 1, "M_max");
    DAMAGE(g->part_of[1][DCT_REGION_KV].piece = 1000, "no piece");
    DAMAGE(g->part_of[1][DCT_REGION_WEIGHTS] = g->part_of[0][DCT_REGION_WEIGHTS], "weights of model 1 and weights of model 0");
    DAMAGE(g->part_of[1][DCT_REGION_KV] = g->part_of[0][DCT_REGION_WEIGHTS], "share bytes");
    DAMAGE(g->exclusive = false, "intermediate of model 1 and intermediate of model 0");
    DAMAGE(g->m_max_bytes -= 1, "M_max");
    DAMAGE(g->outside_bytes -= 1; g->m_max_bytes -= 1, "M_max");
#undef DAMAGE
    dctms_group_free(group);
}

static void senseless_groups_are_refused(void **state) {
    (void)state;
    dctms_group *group = group_of(paths, same_ctx, DCTMS_EXCLUSIVE), *other = NULL;
    const dctms_plan *member = dctms_group_member(group, 0);
    dctms_error err;
    assert_int_equal(dctms_group_make(&member, 1, DCTMS_CONCURRENT, &other, &err), DCTMS_USAGE);
    assert_int_equal(dctms_group_make(&member, 0, DCTMS_CONCURRENT, &other, &err), DCTMS_USAGE);
    assert_null(dctms_group_member(group, N));
    assert_null(other);
    dctms_group_free(group);
}

#if !defined(DCT_SANITIZED) && defined(__linux__)
/* What a model needs is mapped when its header is gone, so that the two never add up to more than M_max. */
static void a_model_is_mapped_when_it_is_opened(void **state) {
    (void)state;
    if (emulated("skipped: what an emulator has mapped is counted with the process")) skip();
    dctms_group *group = group_of(paths, same_ctx, DCTMS_CONCURRENT);
    const dct_plan *second = group->layout.plans[1];
    uint64_t bytes = second->region_bytes[DCT_REGION_WEIGHTS] + second->region_bytes[DCT_REGION_KV] + second->region_bytes[DCT_REGION_ARENA];
    dctms_session *s[N];
    dctms_memory memory[N];
    for (uint32_t i = 0; i < N; i++) {
        s[i] = open_on(paths[i], dctms_group_member(group, i));
        dctms_session_memory(s[i], &memory[i]);
    }
    assert_true(memory[1].vm_size_bytes >= memory[0].vm_size_bytes + bytes);
    for (uint32_t i = 0; i < N; i++) dctms_session_free(s[i]);
    dctms_group_free(group);
}

/* In a process of its own: what it may hold, and what it held at most. */
static int be_child(const char *mode) {
    dctms_group *group = strcmp(mode, "families") == 0 ? group_with(3, DCTMS_EXCLUSIVE)
                         : group_of(paths, same_ctx, strcmp(mode, "exclusive") == 0 ? DCTMS_EXCLUSIVE : DCTMS_CONCURRENT);
    dctms_session *s[N];
    dctms_memory memory;
    for (uint32_t i = 0; i < N; i++) s[i] = open_on(paths[i], dctms_group_member(group, i));
    for (uint32_t i = 0; i < N; i++) prompt(s[i], i);
    for (uint32_t k = 0; k < STEPS; k++)
        for (uint32_t i = 0; i < N; i++) step(s[i]);
    dctms_session_memory(s[0], &memory);
    printf("%llu %llu\n", (unsigned long long)(memory.m_max_bytes - dct_group_kernel_bytes(&group->layout)),
           (unsigned long long)memory.vm_hwm_bytes);
    return 0;
}

static void the_process_keeps_within_its_envelope(void **state) {
    (void)state;
    if (emulated("skipped: an emulator's memory is counted with the process")) skip();
    static const char *const modes[] = {"concurrent", "exclusive", "families"};
    for (size_t m = 0; m < 3; m++) {
        char command[600], line[128] = "";
        unsigned long long m_max = 0, observed = 0;
        snprintf(command, sizeof command, "%s/test_group %s", DCT_BINARY_DIR, modes[m]);
        FILE *child = popen(command, "r");
        assert_non_null(child);
        assert_non_null(fgets(line, sizeof line, child));
        assert_int_equal(pclose(child), 0);
        assert_int_equal(sscanf(line, "%llu %llu", &m_max, &observed), 2);
        assert_true(observed <= m_max);
        assert_true(observed + ((unsigned long long)7 << 20) > m_max); /* no padding: what outside items hold in reserve */
    }
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternating_models_answer_as_alone),
        cmocka_unit_test(families_answer_as_alone),
        cmocka_unit_test(one_family_shares_its_arena),
        cmocka_unit_test(a_member_can_be_opened_again),
        cmocka_unit_test(the_envelope_adds_up),
        cmocka_unit_test(weights_of_one_file_are_there_once),
        cmocka_unit_test(files_with_one_header_are_two),
        cmocka_unit_test(progress_ends_at_its_total),
        cmocka_unit_test(an_exclusive_group_runs_one_at_a_time),
        cmocka_unit_test(who_is_refused_writes_nothing),
        cmocka_unit_test(damaged_layouts_are_refused),
        cmocka_unit_test(senseless_groups_are_refused),
#if !defined(DCT_SANITIZED) && defined(__linux__)
        cmocka_unit_test(a_model_is_mapped_when_it_is_opened),
        cmocka_unit_test(the_process_keeps_within_its_envelope),
#endif
    };
#if !defined(DCT_SANITIZED) && defined(__linux__)
    if (argc == 2) return be_child(argv[1]);
#endif
    (void)argc;
    (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
