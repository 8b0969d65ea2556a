/* protocol: the paper's experiment. For each run, each condition and each system a session in a process of its own answers
 * the prompts R times, round by round; what each call took is a record; tables are made of the records alone.
 *
 * With --output the records stay, and whatever stands in them already is not measured again: the same command goes on where
 * it was cut off, and a larger one (more runs, repetitions, conditions, systems) adds to what there is. Bounds that make
 * calls incomparable stand in a file beside the records, and others are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safe_text.h"
#include "cli/protocol.h"

enum { DEFAULT_OUTPUT = 256, DEFAULT_CTX = 1280, SETTINGS_BYTES = 512, LEAST_NEIGHBOUR_BYTES = 1024 * 1024 };

/* ---- reading the flags: each prints its own usage error and returns false ---- */

/* The next name of a list with commas, at most 15 bytes of it. */
static bool next_name(const char **at, char name[16]) {
    size_t n = strcspn(*at, ",");
    if (n == 0 || n > 15) return false;
    memcpy(name, *at, n);
    name[n] = '\0';
    *at += n;
    if (**at != ',') return true;
    return *++*at != '\0';
}

/* Calls `take` for every name of the flag; it returns false for one that it does not know. */
static bool parse_names(const char *flag, const cli_list *list, bool (*take)(protocol_request *r, const char *name),
                        protocol_request *r, const char *known) {
    for (uint32_t i = 0; i < list->n; i++) {
        const char *at = list->text[i];
        do {
            char name[16];
            if (next_name(&at, name) && take(r, name)) continue;
            cli_usage("%s: '%s': a list of %s is expected, each once", flag, list->text[i], known);
            return false;
        } while (*at != '\0');
    }
    return true;
}

static bool take_category(protocol_request *r, const char *name) {
    if (name[0] != 'P' || name[1] < '1' || name[1] > '0' + DCT_PROTOCOL_CATEGORIES || name[2] != '\0') return false;
    uint32_t first = (uint32_t)(name[1] - '1') * DCT_PROTOCOL_PER_CATEGORY;
    for (uint32_t i = 0; i < r->n_prompts; i++)
        if (r->prompts[i] == first) return false;
    for (uint32_t i = 0; i < r->options->n_prompts; i++) r->prompts[r->n_prompts++] = (uint16_t)(first + i);
    return true;
}

static bool take_system(protocol_request *r, const char *name) {
    dct_system system;
    if (!dct_system_of_name(name, &system)) return false;
    for (uint32_t i = 0; i < r->n_systems; i++)
        if (r->systems[i] == system) return false;
    r->systems[r->n_systems++] = system;
    return true;
}

static bool has_stress(const protocol_request *r, dct_stress stress) {
    for (uint32_t i = 0; i < r->n_stresses; i++)
        if (r->stresses[i] == stress) return true;
    return false;
}

static bool take_stress(protocol_request *r, const char *name) {
    dct_stress stress;
    if (!dct_stress_of_name(name, &stress)) return false;
    if (has_stress(r, stress)) return false;
    r->stresses[r->n_stresses++] = stress;
    return true;
}

static bool parse_lists(protocol_request *r) {
    const cli_options *o = r->options;
    if (!parse_names("--categories", &o->categories, take_category, r, "P1 to P5") ||
        !parse_names("--systems", &o->systems, take_system, r, "planned, dynamic, llama.cpp") ||
        !parse_names("--stress", &o->stresses, take_stress, r, "none, cpu, memory, io")) return false;
    static const char *const all[] = {"P1", "P2", "P3", "P4", "P5"};
    for (uint32_t i = 0; o->categories.n == 0 && i < DCT_PROTOCOL_CATEGORIES; i++) take_category(r, all[i]);
    if (r->n_stresses == 0) r->stresses[r->n_stresses++] = DCT_STRESS_NONE;
    if (r->n_systems > 0) return true;
    r->systems[r->n_systems++] = DCT_PLANNED;
    r->systems[r->n_systems++] = DCT_DYNAMIC;
    if (o->llama_bench != NULL) r->systems[r->n_systems++] = DCT_LLAMA_CPP;
    return true;
}

static bool parse_counts(const cli_options *o) {
    const uint32_t most_repetitions = DCT_PROTOCOL_REPETITIONS, most_runs = DCT_PROTOCOL_RUNS;
    const uint32_t most_prompts = DCT_PROTOCOL_PER_CATEGORY;
    if (o->repetitions < 1 || o->repetitions > most_repetitions) cli_usage("-r: 1 to %u", most_repetitions);
    else if (o->n_runs < 1 || o->n_runs > most_runs) cli_usage("--runs: 1 to %u", most_runs);
    else if (o->n_prompts < 1 || o->n_prompts > most_prompts) cli_usage("--prompts: 1 to %u", most_prompts);
    else return true;
    return false;
}

/* A program that cannot be run is refused before anything is measured. */
static bool check_peer(const protocol_request *r) {
    bool wanted = false;
    for (uint32_t i = 0; i < r->n_systems; i++) wanted = wanted || r->systems[i] == DCT_LLAMA_CPP;
    const char *program = r->options->llama_bench;
    if (!wanted && program == NULL) return true;
    if (!wanted) cli_usage("--llama-bench: the system llama.cpp is not among those of --systems");
    else if (program == NULL) cli_usage("the system llama.cpp needs its llama-bench: --llama-bench FILE");
    else if (access(program, X_OK) != 0) cli_usage("--llama-bench %.400s: %s", program, strerror(errno));
    else if (dct_os_is_directory(program)) cli_usage("--llama-bench %.400s: a directory", program);
    else if (r->bounds.n_predict == 1) cli_usage("-n 1: llama-bench evaluates a token behind the prompt; 2 or more");
    else return true;
    return false;
}

static bool check_stress_memory(const protocol_request *r) {
    bool wanted = r->options->stress_memory == 0 || has_stress(r, DCT_STRESS_MEMORY);
    if (!wanted) cli_usage("--stress-memory says something about --stress memory, which is not given");
    return wanted;
}

static bool parse(const cli_options *o, protocol_request *r) {
    *r = (protocol_request){.options = o, .bounds = *o, .calls = {.fd = -1}, .rss = {.fd = -1}};
    /* Not what a variable said: two experiments would silently differ. */
    if (!cli_is_given(o, "--n-predict") || o->n_predict == 0) r->bounds.n_predict = DEFAULT_OUTPUT;
    if (!cli_is_given(o, "--ctx-size") || o->ctx_size == 0) r->bounds.ctx_size = DEFAULT_CTX;
    return parse_counts(o) && parse_lists(r) && check_peer(r) && check_stress_memory(r);
}

/* ---- children ---- */

typedef struct pipes {
    int to_parent[2], to_child[2]; /* read, write */
} pipes;

static int fail_start(void) {
    cli_note("dctms: cannot start a process: %s\n", strerror(errno));
    return DCT_SYSTEM;
}

static bool open_pipes(pipes *p) {
    if (pipe2(p->to_parent, O_CLOEXEC) != 0) return false;
    if (pipe2(p->to_child, O_CLOEXEC) == 0) return true;
    close(p->to_parent[0]);
    close(p->to_parent[1]);
    return false;
}

int protocol_enter_group(const protocol_request *r) {
    dct_err err;
    if (r->options->memory_limit == 0) return 0;
    return dct_os_mem_group_enter(&r->group, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

static int be_session(const protocol_job *job, const pipes *p) {
    int code = protocol_enter_group(job->request);
    if (code != 0) return code;
    if (job->key.system == DCT_LLAMA_CPP) return protocol_become_peer(job, p->to_parent[1]);
    return protocol_run_session(job, p->to_child[0], p->to_parent[1]);
}

static int run_session(const protocol_job *job) {
    pipes p;
    cli_flush();
    if (!open_pipes(&p)) return fail_start();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        cli_follow_parent(parent);
        close(p.to_parent[0]);
        close(p.to_child[1]);
        int code = be_session(job, &p);
        cli_flush();
        _exit(code);
    }
    close(p.to_parent[1]);
    close(p.to_child[0]);
    if (child > 0) return protocol_watch(job, child, p.to_parent[0], p.to_child[1]);
    close(p.to_parent[0]);
    close(p.to_child[1]);
    return fail_start();
}

static int hear_survey(protocol_request *r, pid_t child, int from_child) {
    size_t n = 0;
    while (n < sizeof r->survey) {
        ssize_t got = read(from_child, (char *)&r->survey + n, sizeof r->survey - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    int code = cli_wait_child(child, "the survey");
    return code != 0 || n == sizeof r->survey ? code : DCT_SYSTEM;
}

static int take_survey(protocol_request *r) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_start();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        cli_follow_parent(parent);
        close(ends[0]);
        _exit(protocol_take_survey(r, ends[1]));
    }
    close(ends[1]);
    int code = child > 0 ? hear_survey(r, child, ends[0]) : fail_start();
    close(ends[0]);
    return code;
}

/* Before anything is measured. */
static int check_lengths(const protocol_request *r) {
    const protocol_survey *s = &r->survey;
    for (uint32_t i = 0; i < r->n_prompts; i++) {
        uint32_t prompt = r->prompts[i], n = s->n_tokens[prompt];
        if (n <= s->plan.n_input) continue;
        cli_note("dctms: prompt %u of P%u (%s) has %u tokens, N is %u; -c %u would hold it\n",
                 prompt % DCT_PROTOCOL_PER_CATEGORY + 1, dct_protocol_category_of(prompt) + 1,
                 dct_protocol_category(dct_protocol_category_of(prompt)), n, s->plan.n_input, n + s->plan.n_output);
        return DCT_BOUND;
    }
    return 0;
}

/* ---- what is kept ---- */

static const char *path_in(const protocol_request *r, const char *name, char path[CLI_PATH_BYTES]) {
    snprintf(path, CLI_PATH_BYTES, "%s/%s", r->options->directory, name);
    return path;
}

/* All that calls must have in common to be compared. */
static void describe_settings(const protocol_request *r, char text[SETTINGS_BYTES]) {
    const protocol_survey *s = &r->survey;
    const cli_options *b = &r->bounds;
    snprintf(text, SETTINGS_BYTES,
             "{\"format\": 2, \"fingerprint\": \"%016" PRIx64 "\", \"file_bytes\": %" PRIu64 ", \"n_input\": %u, "
             "\"n_output\": %u, \"ubatch\": %u, \"threads\": %u, \"type_k\": \"%.8s\", \"type_v\": \"%.8s\", "
             "\"kernels\": \"%s\", \"memory_limit\": %" PRIu64 ", "
             "\"stress_memory\": %" PRIu64 ", \"mlock\": %s}\n",
             s->model.fingerprint, s->model.file_bytes, s->plan.n_input, s->plan.n_output, s->plan.ubatch, s->plan.threads,
             cli_cache_type(b->type_k), cli_cache_type(b->type_v), dctms_kernels_name(),
             b->memory_limit, b->stress_memory, b->mlock ? "true" : "false");
}

static int check_settings(const protocol_request *r) {
    char path[CLI_PATH_BYTES], wanted[SETTINGS_BYTES], found[SETTINGS_BYTES] = "";
    dct_file file;
    dct_err err;
    path_in(r, "settings.json", path);
    describe_settings(r, wanted);
    if (!dct_os_exists(path))
        return dct_file_write_whole(path, wanted, strlen(wanted), &err) == DCT_OK ? 0 : cli_fail_err(&err);
    dct_status status = dct_file_open(&file, path, &err);
    if (status != DCT_OK) return cli_fail_err(&err);
    if (file.bytes < sizeof found) status = dct_file_read_at(&file, 0, found, file.bytes, &err); /* ours are no longer */
    dct_file_close(&file);
    if (status != DCT_OK) return cli_fail_file(path, &err);
    return strcmp(found, wanted) == 0
               ? 0
               : cli_usage("%s is of an experiment with other settings; name another directory", dct_show_path(path).text);
}

static int open_records(protocol_request *r) {
    char path[CLI_PATH_BYTES];
    dct_err err;
    bool kept = r->options->directory != NULL;
    if (kept && strlen(r->options->directory) > CLI_PATH_BYTES - 64) return cli_usage("the name of the directory is too long");
    if (kept && mkdir(r->options->directory, 0777) != 0 && errno != EEXIST) {
        cli_note("dctms: %s: %s\n", r->options->directory, strerror(errno));
        return DCT_SYSTEM;
    }
    int code = kept ? check_settings(r) : 0;
    if (code != 0) return code;
    if (dct_calls_open(&r->calls, kept ? path_in(r, "calls.csv", path) : NULL, &err) != DCT_OK) return cli_fail_err(&err);
    if (dct_rss_open(&r->rss, kept ? path_in(r, "rss.csv", path) : NULL, &err) != DCT_OK) return cli_fail_err(&err);
    return dct_rss_drop_unfinished(&r->rss, &r->calls, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

/* ---- the order of things ---- */

static bool is_key(const dct_session_key *a, const dct_session_key *b) {
    return a->run == b->run && a->stress == b->stress && a->system == b->system;
}

/* What is left of a session, round by round. */
static int find_todo(const protocol_request *r, const dct_session_key *key, protocol_todo *todo, uint32_t *n) {
    static uint8_t done[DCT_PROTOCOL_PROMPTS][DCT_PROTOCOL_REPETITIONS + 1];
    dct_arena arena;
    dct_call *calls;
    uint32_t n_calls;
    dct_err err;
    memset(done, 0, sizeof done);
    dct_arena_init(&arena, 0);
    dct_status status = dct_calls_load(&r->calls, &arena, &calls, &n_calls, &err);
    for (uint32_t i = 0; status == DCT_OK && i < n_calls; i++)
        if (is_key(&calls[i].key, key)) done[calls[i].prompt][calls[i].repetition] = 1;
    dct_arena_deinit(&arena);
    if (status != DCT_OK) return cli_fail_err(&err);
    *n = 0;
    for (uint32_t repetition = 1; repetition <= r->options->repetitions; repetition++) {
        for (uint32_t i = 0; i < r->n_prompts; i++)
            if (!done[r->prompts[i]][repetition]) todo[(*n)++] = (protocol_todo){r->prompts[i], (uint16_t)repetition};
    }
    return 0;
}

/* Session number i of all. The systems change places from run to run, so that none always comes first. */
static dct_session_key key_at(const protocol_request *r, uint32_t i) {
    uint32_t system = i % r->n_systems, stress = i / r->n_systems % r->n_stresses, run = i / r->n_systems / r->n_stresses;
    return (dct_session_key){run + 1, r->stresses[stress], r->systems[(system + run) % r->n_systems]};
}

static int run_all(protocol_request *r) {
    static protocol_todo todo[PROTOCOL_MAX_CALLS];
    uint32_t n_sessions = r->options->n_runs * r->n_stresses * r->n_systems, n_a_session = r->n_prompts * r->options->repetitions;
    r->n_all = n_sessions * n_a_session;
    for (uint32_t i = 0; i < n_sessions; i++) {
        protocol_job job = {.request = r, .key = key_at(r, i), .todo = todo};
        int code = find_todo(r, &job.key, todo, &job.n_todo);
        r->n_done += n_a_session - job.n_todo;
        if (code == 0 && job.n_todo > 0) code = run_session(&job);
        if (code != 0) return code;
        if (job.n_todo == 0) continue;
        cli_note("run %u, stress %s, %s: %u calls made, %u of %u in all\n", job.key.run, dct_stress_name(job.key.stress),
                 dct_system_name(job.key.system), job.n_todo, r->n_done, r->n_all);
    }
    return 0;
}

/* ---- the report ---- */

/* Texts of the report that stand nowhere else. */
typedef struct texts {
    char label[96], types[32], limit[64];
} texts;

static void describe(const protocol_request *r, texts *t, dct_protocol *p) {
    const protocol_survey *s = &r->survey;
    const dctms_plan_info *plan = &s->plan;
    uint64_t limit = r->options->memory_limit;
    bool is_limited = limit != 0 && limit < plan->available_bytes;
    snprintf(t->label, sizeof t->label, "%s %s", s->model.arch, s->model.type_name);
    snprintf(t->limit, sizeof t->limit, "in a memory cgroup of %.1f MiB", cli_mib(limit));
    snprintf(t->types, sizeof t->types, "%.8s/%.8s", cli_cache_type(r->bounds.type_k), cli_cache_type(r->bounds.type_v));
    *p = (dct_protocol){.model = cli_model_path(r->options),
                        .label = t->label,
                        .n_input = plan->n_input,
                        .n_output = plan->n_output,
                        .ubatch = plan->ubatch,
                        .threads = plan->threads,
                        .repetitions = r->options->repetitions,
                        .cache_types = t->types,
                        .kernels = dctms_kernels_name(),
                        .peer = r->options->llama_bench,
                        .logical_tensors = plan->logical_tensors,
                        .physical_buffers = plan->physical_buffers,
                        .m_max = plan->m_max_bytes,
                        .weights = plan->weights_bytes,
                        .kv = plan->kv_bytes,
                        .persistent = plan->persistent_bytes,
                        .intermediate = plan->intermediate_bytes,
                        .runtime = plan->runtime_bytes,
                        .available = is_limited ? limit : plan->available_bytes,
                        .available_source = is_limited ? "--memory-limit" : plan->available_source,
                        .limit = limit != 0 ? t->limit : NULL,
                        .seed = r->options->seed};
}

static dct_status draw_latency(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) {
    (void)err;
    dct_protocol_latency_svg(p, write, ctx);
    return DCT_OK;
}

static dct_status draw_memory(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) {
    (void)err;
    dct_protocol_memory_svg(p, write, ctx);
    return DCT_OK;
}

static int save_reports(const protocol_request *r, const dct_protocol *p) {
    static const struct {
        const char *name;
        dct_status (*build)(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err);
    } reports[] = {{"report.md", dct_protocol_tables}, {"summary.json", dct_protocol_json}, {"summary.csv", dct_protocol_csv},
                   {"latency.svg", draw_latency},      {"memory.svg", draw_memory}};
    int code = 0;
    for (size_t i = 0; code == 0 && r->options->directory != NULL && i < sizeof reports / sizeof *reports; i++) {
        char path[CLI_PATH_BYTES];
        cli_sink sink = {0};
        dct_err err;
        bool built = reports[i].build(p, cli_sink_write, &sink, &err) == DCT_OK;
        code = built ? cli_sink_save(&sink, path_in(r, reports[i].name, path)) : cli_fail_err(&err);
        cli_sink_drop(&sink);
    }
    return code;
}

static int report(const protocol_request *r) {
    texts t;
    dct_protocol p;
    dct_arena arena;
    dct_call *calls;
    dct_rss_record *samples;
    dct_err err;
    describe(r, &t, &p);
    dct_arena_init(&arena, 0);
    dct_status status = dct_calls_load(&r->calls, &arena, &calls, &p.n_calls, &err);
    if (status == DCT_OK) status = dct_rss_load(&r->rss, &arena, &samples, &p.n_rss, &err);
    int code = status == DCT_OK ? 0 : cli_fail_err(&err);
    if (code == 0) {
        p.calls = calls;
        p.rss = samples;
        code = save_reports(r, &p); /* files come before anything is printed */
    }
    if (code == 0 && dct_protocol_tables(&p, cli_out, NULL, &err) != DCT_OK) code = cli_fail_err(&err);
    dct_arena_deinit(&arena);
    return code;
}

/* Dirtying less than a megabyte again and again takes a processor's time and no memory worth the name. */
static int check_neighbour(const protocol_request *r) {
    if (!has_stress(r, DCT_STRESS_MEMORY) || r->neighbour_bytes >= LEAST_NEIGHBOUR_BYTES) return 0;
    cli_note("dctms: --stress memory: %.2f MiB are left for the neighbour process beside M_max, at least %.0f are needed\n",
             cli_mib(r->neighbour_bytes), cli_mib(LEAST_NEIGHBOUR_BYTES));
    return DCT_NO_FIT;
}

/* What the neighbour of memory may take: the same beside every system. */
static uint64_t neighbour_bytes(const protocol_request *r) {
    const dctms_plan_info *plan = &r->survey.plan;
    if (r->options->stress_memory != 0) return r->options->stress_memory;
    uint64_t limit = r->options->memory_limit, available = plan->available_bytes;
    if (limit != 0 && limit < available) available = limit;
    uint64_t left = available > plan->m_max_bytes ? available - plan->m_max_bytes : 0;
    return left / 4 * 3;
}

/* The group is there while sessions run; one that a killed command left behind is taken over by the next. */
static int run_in_group(protocol_request *r) {
    dct_err err;
    uint64_t limit = r->options->memory_limit;
    if (limit == 0) return run_all(r);
    if (dct_os_mem_group_make("dctms-protocol", limit, &r->group, &err) != DCT_OK) return cli_fail_err(&err);
    int code = run_all(r);
    dct_os_mem_group_remove(&r->group);
    return code;
}

int cli_protocol(const cli_options *o) {
    static protocol_request r;
    if (!parse(o, &r)) return DCT_USAGE;
    int code = take_survey(&r);
    if (code == 0) code = check_lengths(&r);
    r.neighbour_bytes = neighbour_bytes(&r);
    if (code == 0) code = check_neighbour(&r);
    if (code == 0) code = open_records(&r);
    if (code == 0) code = run_in_group(&r);
    if (code == 0) code = report(&r);
    dct_calls_close(&r.calls);
    dct_calls_close(&r.rss);
    return code;
}
