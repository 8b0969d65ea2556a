/* One session of bench: a plan that holds its deepest test, then each test from the same depth.
 *
 * A test runs once to warm up, then `-r` times; tokens are a fixed pseudo-random sequence. What is timed is evaluation alone: no
 * sampling, as in llama-bench. A steady test rewinds the cursor after each token, so that all of them do the same work.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "cli/bench.h"

enum { MOST_TIMES = 1 << 17 }; /* a megabyte beside the session, for which M_max has room */

typedef struct bench_run {
    dctms_session *session;
    const bench_job *job;
    dctms_token *prompt;
    double *step_ms;  /* of the repetitions of one test, in order */
    uint64_t n_waits; /* of the steps of the last repetition */
} bench_run;

static dctms_token token_at(uint32_t i, uint32_t n_vocab) { return (dctms_token)(dct_hash_mix(i + 1) % n_vocab); }

static dctms_status eval_prompt(const bench_run *run, uint32_t n, dctms_error *err) {
    return n > 0 ? dctms_session_eval(run->session, run->prompt, n, err) : DCTMS_OK;
}

/* The answer of a test. The time of each token goes to `steps` unless that is NULL; that of all of them, without the rewinding,
 * is added to *ns. */
static dctms_status eval_answer(bench_run *run, const bench_test *t, double *steps, uint64_t *ns, dctms_error *err) {
    dctms_session *s = run->session;
    uint32_t depth = dctms_session_n_tokens(s), n_vocab = dctms_session_n_vocab(s);
    uint64_t waits = dctms_session_waits(s);
    dctms_status status = DCTMS_OK;
    for (uint32_t i = 0; i < t->n_gen && status == DCTMS_OK; i++) {
        uint64_t begin = dct_os_now_ns();
        status = dctms_session_step(s, token_at(depth + i, n_vocab), err);
        uint64_t took = dct_os_now_ns() - begin;
        if (steps != NULL) steps[i] = (double)took * 1e-6;
        *ns += took;
        if (status == DCTMS_OK && t->steady) status = dctms_session_rewind(s, depth, err);
    }
    run->n_waits = dctms_session_waits(s) - waits;
    return status;
}

/* One repetition; the timeline is at the setup's depth before and after. */
static dctms_status run_once(bench_run *run, const bench_test *t, double *steps, double *ns, dctms_error *err) {
    uint64_t begin = dct_os_now_ns();
    dctms_status status = eval_prompt(run, t->n_prompt, err);
    uint64_t took = dct_os_now_ns() - begin;
    if (status == DCTMS_OK) status = eval_answer(run, t, steps, &took, err);
    *ns = took > 0 ? (double)took : 1;
    return status == DCTMS_OK ? dctms_session_rewind(run->session, run->job->setup.depth, err) : status;
}

static dctms_status run_test(bench_run *run, const bench_test *t, bench_result *result, dctms_error *err) {
    const cli_options *o = run->job->options;
    double ignored;
    uint32_t n_steps = 0;
    dctms_status status = o->no_warmup ? DCTMS_OK : run_once(run, t, NULL, &ignored, err);
    for (uint32_t r = 0; r < o->repetitions && status == DCTMS_OK; r++) {
        status = run_once(run, t, run->step_ms + n_steps, &result->times.ns[r], err);
        n_steps += t->n_gen;
    }
    if (status != DCTMS_OK) return status;
    result->test = t;
    result->times.n = o->repetitions;
    bool has_waits = t->n_gen > 0 && run->job->modes->session.alloc == DCTMS_ALLOC_PLANNED;
    result->waits_per_token = has_waits ? (double)run->n_waits / t->n_gen : (double)NAN;
    bench_summarise(&result->times, t->n_prompt + t->n_gen, run->step_ms, n_steps);
    dctms_session_memory(run->session, &result->memory);
    return DCTMS_OK;
}

/* UTC as 2026-11-30T01:02:03Z. The parent has called gmtime_r, so that nothing about time zones is read here. */
static void note_time(char *text, size_t size) {
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static dctms_status fill_to_depth(const bench_run *run, dctms_error *err) { return eval_prompt(run, run->job->setup.depth, err); }

static int run_tests(bench_run *run, bench_result *result) {
    const bench_tests *tests = run->job->tests;
    dctms_error err;
    dctms_status status = fill_to_depth(run, &err);
    for (uint32_t i = 0; i < tests->n && status == DCTMS_OK; i++) {
        if (run->job->options->delay > 0) nanosleep(&(struct timespec){.tv_sec = run->job->options->delay}, NULL);
        note_time(result->began, sizeof result->began);
        status = run_test(run, &tests->test[i], result, &err);
        if (status == DCTMS_OK) bench_print_row(run->job->sheet, result);
        cli_flush();
    }
    return status == DCTMS_OK ? 0 : cli_fail(&err);
}

/* How many times of single tokens a test has at most. */
static uint64_t count_steps(const bench_job *job) {
    uint64_t most = 1;
    for (uint32_t i = 0; i < job->tests->n; i++) {
        uint64_t n = (uint64_t)job->options->repetitions * job->tests->test[i].n_gen;
        most = n > most ? n : most;
    }
    return most;
}

/* Bounds that hold the deepest test, and the longest prompt that is evaluated at once; false after printing a usage error. */
static bool make_bounds(const bench_job *job, dctms_plan_params *pp, uint32_t *longest) {
    const bench_setup *setup = &job->setup;
    cli_options one = *job->options;
    one.ubatch = setup->ubatch;
    one.threads = setup->threads;
    one.type_k = setup->type_k;
    one.type_v = setup->type_v;
    if (!cli_plan_params(&one, pp)) return false;
    uint32_t prompt = 1, gen = 1;
    for (uint32_t i = 0; i < job->tests->n; i++) {
        const bench_test *t = &job->tests->test[i];
        uint32_t n_gen = t->steady ? 1 : t->n_gen;
        if (t->n_prompt > prompt) prompt = t->n_prompt;
        if (n_gen > gen) gen = n_gen;
    }
    *longest = prompt > setup->depth ? prompt : setup->depth;
    uint64_t need = (uint64_t)setup->depth + prompt + gen;
    pp->n_output = (int32_t)gen;
    if (pp->n_ctx == 0 && need <= INT32_MAX) pp->n_ctx = (uint32_t)need;
    if (need > INT32_MAX) cli_usage("depth, prompt and generation need a context of %llu", (unsigned long long)need);
    else if (pp->n_ctx < need)
        cli_usage("-c %u is too small: depth, prompt and generation need %llu", pp->n_ctx, (unsigned long long)need);
    else if (count_steps(job) > MOST_TIMES)
        cli_usage("%u repetitions: the times of at most %d tokens of a test are kept", job->options->repetitions, MOST_TIMES);
    else return true;
    return false;
}

/* What a job opens, and the longest prompt of its tests. */
typedef struct bench_opened {
    dctms_model *model;
    dctms_plan *plan;
    uint32_t longest;
} bench_opened;

static void close_planned(bench_opened *b) {
    dctms_plan_free(b->plan);
    dctms_model_free(b->model);
}

/* On failure nothing stays open. */
static int open_planned(const bench_job *job, bench_opened *b) {
    dctms_plan_params pp;
    dctms_error err;
    *b = (bench_opened){0};
    if (!make_bounds(job, &pp, &b->longest)) return DCT_USAGE;
    dctms_status status = dctms_model_open(job->setup.model, &b->model, &err);
    if (status == DCTMS_OK) status = dctms_plan_compile(b->model, &pp, &b->plan, &err);
    if (status == DCTMS_OK) return 0;
    close_planned(b);
    return cli_fail(&err);
}

int bench_plan(const bench_job *job) {
    bench_opened b;
    int code = open_planned(job, &b);
    if (code == 0) close_planned(&b);
    return code;
}

/* The session stands: seal, measure. The prompt lies where a conversation would, which has 16 bytes a token. */
static int measure(bench_run *run, bench_result *result, uint32_t longest) {
    bool enforced;
    run->prompt = (dctms_token *)(void *)dctms_session_conversation(run->session).messages;
    for (uint32_t i = 0; i < longest; i++) run->prompt[i] = token_at(i, dctms_session_n_vocab(run->session));
    int code = cli_seal(run->job->modes, &enforced);
    return code == 0 ? run_tests(run, result) : code;
}

int bench_session(const bench_job *job) {
    bench_opened b;
    int code = open_planned(job, &b);
    if (code != 0) return code;
    dctms_error err;
    dctms_model_info model_info;
    dctms_plan_info plan_info;
    bench_run run = {.job = job};
    run.step_ms = dct_os_map(count_steps(job) * sizeof *run.step_ms);
    if (run.step_ms == NULL) {
        code = cli_no_memory("the times");
    } else if (dctms_model_get_info(b.model, &model_info, &err) != DCTMS_OK ||
               dctms_session_open(b.model, b.plan, &job->modes->session, &run.session, &err) != DCTMS_OK) {
        code = cli_fail(&err);
    } else {
        dctms_plan_get_info(b.plan, &plan_info);
        bench_result result = {.setup = &job->setup, .model = &model_info, .plan = &plan_info, .roofline = job->roofline};
        code = measure(&run, &result, b.longest);
    }
    dctms_session_free(run.session);
    close_planned(&b);
    return code;
}
