/* A session of llama.cpp in protocol, through llama-bench: the one program of it that times a prompt and an answer of given
 * lengths as one and loads the model once for all of them. Every call is a test of its own (-pg P,G with one repetition), so
 * that calls come in the same order as ours, and each ends with a line.
 *
 * What is the same: numbers of tokens, threads, chunk, cache types, and the evaluations: P of the prompt and G = M - 1 of
 * generated tokens, as our last token needs none. What is not: its tokens are random, no text is tokenized and no token
 * chosen, and its context is made for each test with as many positions as that needs. All of this is in its favour.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/protocol.h"

enum { MAX_WORDS = 24 + 2 * (PROTOCOL_MAX_CALLS + 1), PAIR_BYTES = 24 };

typedef struct words {
    const char **at;
    uint32_t n;
} words;

static void add_flag(words *w, const char *flag, const char *value) {
    w->at[w->n++] = flag;
    if (value != NULL) w->at[w->n++] = value;
}

static void add_test(words *w, char *pair, uint32_t n_prompt, uint32_t n_gen) {
    snprintf(pair, PAIR_BYTES, "%u,%u", n_prompt, n_gen);
    add_flag(w, "-pg", pair);
}

static void add_tests(words *w, const protocol_job *job, char (*pairs)[PAIR_BYTES]) {
    const protocol_survey *s = &job->request->survey;
    uint32_t n_gen = s->plan.n_output > 1 ? s->plan.n_output - 1 : 1;
    uint32_t n_warm = n_gen < PROTOCOL_WARM_TOKENS ? n_gen : PROTOCOL_WARM_TOKENS;
    add_test(w, pairs[0], s->n_tokens[job->todo[0].prompt], n_warm);
    for (uint32_t i = 0; i < job->n_todo; i++) add_test(w, pairs[i + 1], s->n_tokens[job->todo[i].prompt], n_gen);
}

static bool redirect(int to_parent) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return nowhere >= 0 && dup2(to_parent, 1) == 1 && dup2(nowhere, 2) == 2;
}

int protocol_become_peer(const protocol_job *job, int to_parent) {
    const protocol_request *r = job->request;
    char threads[16], ubatch[16];
    words w = {.at = dct_os_map(MAX_WORDS * sizeof *w.at)};
    char (*pairs)[PAIR_BYTES] = dct_os_map((job->n_todo + 1) * sizeof *pairs);
    if (w.at == NULL || pairs == NULL) return cli_no_memory("the arguments of llama-bench");
    snprintf(threads, sizeof threads, "%u", r->survey.plan.threads);
    snprintf(ubatch, sizeof ubatch, "%u", r->survey.plan.ubatch);
    add_flag(&w, r->options->llama_bench, NULL);
    add_flag(&w, "-m", cli_model_path(r->options));
    add_flag(&w, "-t", threads);
    add_flag(&w, "-ub", ubatch);
    if (r->bounds.type_k != NULL) add_flag(&w, "-ctk", r->bounds.type_k);
    if (r->bounds.type_v != NULL) add_flag(&w, "-ctv", r->bounds.type_v);
    add_flag(&w, "-r", "1");
    add_flag(&w, "-p", "0");
    add_flag(&w, "-n", "0");
    add_flag(&w, "-o", "jsonl");
    add_flag(&w, "--no-warmup", NULL);
    add_tests(&w, job, pairs);
    int messages = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (!redirect(to_parent)) return DCT_SYSTEM;
    execv(w.at[0], (char *const *)(uintptr_t)w.at);
    int why = errno;
    if (messages >= 0 && dup2(messages, 2) == 2) cli_note("dctms: %s: %s\n", dct_show_path(w.at[0]).text, strerror(why));
    return DCT_SYSTEM;
}

/* The number behind "name": in a line of JSON; false when there is none. */
static bool find_number(const char *line, const char *name, double *out) {
    char key[32], *end;
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    if (at == NULL) return false;
    at += strlen(key);
    at += strspn(at, " [");
    *out = strtod(at, &end);
    return end != at && *out >= 0 && *out < 1e18;
}

bool protocol_read_peer_line(const char *line, protocol_message *out) {
    double ns, n_prompt, n_gen;
    if (!find_number(line, "samples_ns", &ns) || !find_number(line, "n_prompt", &n_prompt) ||
        !find_number(line, "n_gen", &n_gen) || ns < 1 || n_prompt < 1 || n_prompt > 1e9 || n_gen > 1e9) return false;
    *out = (protocol_message){PROTOCOL_ENDED, (uint32_t)n_prompt, (uint32_t)n_gen + 1, ns * 1e-6};
    return true;
}
