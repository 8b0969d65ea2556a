/* bench: prompt and generation speed in the shape of llama-bench: pp512, tg128, pp512+tg128, each at a depth.
 *
 * Lists of models, chunk sizes, cache types, threads and depths are multiplied out to setups, in llama-bench's order. This
 * process reads the flags, measures the machine once for each number of workers, and starts a child for each setup (bench.h
 * says why), one after another.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"

/* What the flags say. */
typedef struct bench_request {
    const cli_options *options;
    cli_modes modes;
    bench_tests tests;
    const char *models[BENCH_MAX_VALUES];
    uint32_t n_models;
    bench_numbers ubatch, threads, depth;
    bench_words type_k, type_v;
    bench_sheet sheet;
    dct_roofline rooflines[BENCH_MAX_VALUES]; /* one for each number of workers seen */
    uint32_t n_rooflines;
} bench_request;

_Static_assert((int)CLI_MAX_LIST <= (int)BENCH_MAX_VALUES && (int)CLI_MAX_ARGS <= (int)BENCH_MAX_VALUES, "models fit");

/* ---- reading the flags: each prints its own usage error and returns false ---- */

static bool parse_format(bench_request *r) {
    static const char *const names[] = {[BENCH_MD] = "md", [BENCH_CSV] = "csv", [BENCH_JSON] = "json", [BENCH_JSONL] = "jsonl"};
    const char *name = r->options->bench_format != NULL ? r->options->bench_format : "md";
    for (int i = BENCH_MD; i <= BENCH_JSONL; i++) {
        r->sheet.format = (bench_format)i;
        if (strcmp(name, names[i]) == 0) return true;
    }
    cli_usage("-o: '%s' is none of md, csv, json, jsonl", name);
    return false;
}

static bool parse_models(bench_request *r) {
    const cli_options *o = r->options;
    bool named = o->bench_model.n > 0 && !o->bench_model.from_environment;
    if (named && o->n_args > 0) {
        cli_usage("models are named by -m or by position, not by both");
        return false;
    }
    const char *const *from = o->n_args > 0 ? o->args : o->bench_model.text;
    r->n_models = o->n_args > 0 ? o->n_args : o->bench_model.n;
    for (uint32_t i = 0; i < r->n_models; i++) r->models[i] = from[i];
    if (r->n_models == 0) r->models[r->n_models++] = cli_model_path(o);
    return true;
}

static bool parse_numbers(const char *flag, const cli_list *list, uint32_t least, uint32_t most, uint32_t otherwise,
                          bench_numbers *out) {
    if (!bench_parse_numbers(list, least, most, out)) {
        cli_usage("%s: a list of numbers from %u to %u is expected, at most %d of them", flag, least, most, BENCH_MAX_VALUES);
        return false;
    }
    if (out->n == 0) out->value[out->n++] = otherwise;
    return true;
}

static bool parse_words(const char *flag, const cli_list *list, bench_words *out) {
    if (bench_parse_words(list, out)) return true;
    cli_usage("%s: a list of f32, f16, bf16, q8_0 is expected", flag);
    return false;
}

static bool add_test(bench_request *r, bench_test t) {
    if (t.n_prompt == 0 && t.n_gen == 0) return true;
    if (r->tests.n < BENCH_MAX_TESTS) {
        r->tests.test[r->tests.n++] = t;
        return true;
    }
    cli_usage("at most %d tests", BENCH_MAX_TESTS);
    return false;
}

static bool parse_pairs(bench_request *r) {
    const cli_list *list = &r->options->bench_both;
    for (uint32_t i = 0; i < list->n; i++) {
        bench_test t = {.n_prompt = 0};
        if (!bench_parse_pair(list->text[i], BENCH_MAX_TOKENS, &t.n_prompt, &t.n_gen)) {
            cli_usage("-pg: two numbers as in 512,128 are expected, at most %d", BENCH_MAX_TOKENS);
            return false;
        }
        if (!add_test(r, t)) return false;
    }
    return true;
}

static bool parse_tests(bench_request *r) {
    const cli_options *o = r->options;
    bench_numbers prompt = {.n = 0}, gen = {.n = 0}, steady = {.n = 0};
    if (!parse_numbers("-p", &o->bench_prompt, 0, BENCH_MAX_TOKENS, 512, &prompt) ||
        !parse_numbers("-n", &o->bench_gen, 0, BENCH_MAX_TOKENS, 128, &gen) ||
        !parse_numbers("--steady", &o->bench_steady, 0, BENCH_MAX_TOKENS, 0, &steady)) return false;
    for (uint32_t i = 0; i < prompt.n; i++)
        if (!add_test(r, (bench_test){.n_prompt = prompt.value[i]})) return false;
    for (uint32_t i = 0; i < gen.n; i++)
        if (!add_test(r, (bench_test){.n_gen = gen.value[i]})) return false;
    if (!parse_pairs(r)) return false;
    for (uint32_t i = 0; i < steady.n; i++)
        if (!add_test(r, (bench_test){.n_gen = steady.value[i], .steady = true})) return false;
    if (r->tests.n > 0) return true;
    cli_usage("-p and -n leave nothing to measure");
    return false;
}

static bool parse_setups(bench_request *r) {
    const cli_options *o = r->options;
    return parse_models(r) && parse_numbers("-ub", &o->bench_ubatch, 1, BENCH_MAX_TOKENS, 0, &r->ubatch) &&
           parse_words("-ctk", &o->bench_type_k, &r->type_k) && parse_words("-ctv", &o->bench_type_v, &r->type_v) &&
           parse_numbers("-t", &o->bench_threads, 1, DCT_ROOFLINE_WORKERS, 0, &r->threads) &&
           parse_numbers("-d", &o->bench_depth, 0, BENCH_MAX_TOKENS, 0, &r->depth);
}

static bool parse(const cli_options *o, bench_request *r) {
    *r = (bench_request){.options = o};
    r->sheet.first = true;
    if (!parse_format(r) || !parse_setups(r) || !parse_tests(r)) return false;
    r->sheet.show_ubatch = o->bench_ubatch.n > 0;
    r->sheet.show_type_k = o->bench_type_k.n > 0;
    r->sheet.show_type_v = o->bench_type_v.n > 0;
    if (o->repetitions >= 1 && o->repetitions <= BENCH_MAX_REPETITIONS) return cli_parse_modes(o, &r->modes);
    cli_usage("-r: 1 to %d", BENCH_MAX_REPETITIONS);
    return false;
}

/* ---- running ---- */

static int obey_mask(const char *text) {
    uint64_t mask;
    dct_err err;
    if (text == NULL) return 0;
    if (!bench_parse_mask(text, &mask)) return cli_usage("-C: '%s' is no mask of at most 64 processors in hexadecimal", text);
    return dct_os_use_cpus(mask, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

/* The ceilings with so many workers, measured when they are first asked for. */
static int find_roofline(bench_request *r, uint32_t n_workers, const dct_roofline **out) {
    *out = NULL;
    if (r->options->no_roofline) return 0;
    if (n_workers == 0) n_workers = dct_os_usable_cpus(NULL, NULL, 0);
    for (uint32_t i = 0; i < r->n_rooflines && *out == NULL; i++)
        if (r->rooflines[i].n_workers == n_workers) *out = &r->rooflines[i];
    if (*out != NULL) return 0;
    dct_err err;
    dct_roofline *fresh = &r->rooflines[r->n_rooflines];
    if (dct_roofline_measure(n_workers, fresh, &err) != DCT_OK) return cli_fail_err(&err);
    r->n_rooflines++;
    *out = fresh;
    return 0;
}

/* A part of the job in a process of its own. */
static int run_child(const bench_job *job, int (*part)(const bench_job *)) {
    cli_flush();
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        cli_note("dctms: cannot start a process for the session: %s\n", strerror(errno));
        return DCT_SYSTEM;
    }
    if (child == 0) {
        cli_follow_parent(parent);
        int code = part(job);
        cli_flush();
        _exit(code);
    }
    return cli_wait_child(child, "the session");
}

static bench_job job_of(bench_request *r, const bench_setup *setup) {
    return (bench_job){.options = r->options, .modes = &r->modes, .tests = &r->tests, .setup = *setup, .sheet = &r->sheet};
}

static int run_setup(bench_request *r, const bench_setup *setup) {
    bench_job job = job_of(r, setup);
    int code = find_roofline(r, setup->threads, &job.roofline);
    if (code == 0) code = run_child(&job, bench_session);
    if (code == 0) r->sheet.first = false; /* the child's copy said so */
    return code;
}

/* Setup number i, the depth moving fastest; false when there are no more. */
static bool setup_at(const bench_request *r, uint64_t i, bench_setup *out) {
    uint32_t n_k = r->type_k.n > 0 ? r->type_k.n : 1, n_v = r->type_v.n > 0 ? r->type_v.n : 1;
    out->depth = r->depth.value[i % r->depth.n];
    i /= r->depth.n;
    out->threads = r->threads.value[i % r->threads.n];
    i /= r->threads.n;
    out->type_v = r->type_v.n > 0 ? r->type_v.text[i % n_v] : NULL;
    i /= n_v;
    out->type_k = r->type_k.n > 0 ? r->type_k.text[i % n_k] : NULL;
    i /= n_k;
    out->ubatch = r->ubatch.value[i % r->ubatch.n];
    i /= r->ubatch.n;
    if (i >= r->n_models) return false;
    out->model = r->models[i];
    return true;
}

/* Nothing is measured when one setup cannot be planned; of those that do not fit each says what it takes. */
static int plan_setups(bench_request *r) {
    int code = 0;
    bench_setup setup;
    for (uint64_t i = 0; (code == 0 || code == DCT_NO_FIT) && setup_at(r, i, &setup); i++) {
        bench_job job = job_of(r, &setup);
        int own = run_child(&job, bench_plan);
        if (own != 0) code = own;
    }
    return code;
}

int cli_bench(const cli_options *o) {
    static bench_request r;
    if (!parse(o, &r)) return DCT_USAGE;
    int code = obey_mask(o->cpu_mask);
    if (code == 0) code = plan_setups(&r);
    if (code != 0) return code;
    bench_print_begin(&r.sheet);
    dct_os_cpu_name(r.sheet.cpu_name, sizeof r.sheet.cpu_name);
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts); /* what it reads about time zones it reads before any child is sealed */
    bench_setup setup;
    for (uint64_t i = 0; code == 0 && setup_at(&r, i, &setup); i++) code = run_setup(&r, &setup);
    if (code == 0) bench_print_end(&r.sheet, r.rooflines, r.n_rooflines);
    else bench_print_cut(&r.sheet);
    return code;
}
