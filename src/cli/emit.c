/* plan --emit: the command that runs the plan, in the words that lead to the same bounds wherever it is started. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tools/tools.h"

enum { MAX_WORDS = 24 };

#define DEFAULT_PROMPT "/etc/dctms/prompt.txt"

typedef struct command {
    const char *words[MAX_WORDS];
    uint32_t n;
    char numbers[4][16], steps[DCTMS_MAX_CTX_STEPS * 24];
    uint32_t n_numbers;
} command;

static void add_pair(command *c, const char *flag, const char *value) {
    c->words[c->n++] = flag;
    c->words[c->n++] = value;
}

static void add_number(command *c, const char *flag, uint32_t value) {
    char *text = c->numbers[c->n_numbers++];
    snprintf(text, sizeof c->numbers[0], "%u", value);
    add_pair(c, flag, text);
}

/* Every bound is spelled out: what the machine has, variables of the environment and defaults must not change them. */
static void spell(command *c, const dctms_plan_info *info, const cli_options *o, const char *model, const char *prompt) {
    *c = (command){.words = {"run", model}, .n = 2};
    if (info->n_ctx_steps > 0) {
        add_pair(c, "--ctx-steps", c->steps);
        for (uint32_t i = 0, at = 0; i < info->n_ctx_steps; i++)
            at += (uint32_t)snprintf(c->steps + at, sizeof c->steps - at, "%s%u:%u", i == 0 ? "" : ",", info->ctx_steps[i].n_ctx,
                                     info->ctx_steps[i].ubatch);
    } else {
        add_number(c, "-c", info->n_ctx);
        add_number(c, "-ub", info->ubatch);
    }
    add_number(c, "-n", info->n_output);
    add_number(c, "-t", info->threads);
    add_pair(c, "-ctk", cli_cache_type(o->type_k));
    add_pair(c, "-ctv", cli_cache_type(o->type_v));
    if (o->logits != NULL) add_pair(c, "--logits", o->logits);
    if (o->mlock) c->words[c->n++] = "--mlock";
    add_pair(c, "-f", prompt);
}

bool cli_check_emit(const cli_options *o) {
    if (o->emit == NULL) return true;
    if (!dct_emit_knows(o->emit)) cli_usage("--emit: '%s' is none of %s", o->emit, dct_emit_names());
    else if (o->nodes != 0) cli_usage("--emit with --nodes: run has no such flag, and its plan would be another");
    else if (o->overlap) cli_usage("--emit with --overlap: run has no such flag, and its plan would be another");
    else if (o->cost_profile != NULL)
        cli_usage("--emit with --cost-profile: the file of a machine is not where the command will run");
    else if (o->prompt_file != NULL && o->prompt_file[0] != '/')
        cli_usage("--emit: -f %s: a path from / is needed", o->prompt_file);
    else return true;
    return false;
}

/* The path of the model from / on, under the name that was given: a link's own name says what its target's does not, as in the
 * caches of Hugging Face. */
static bool find_model(const char *given, char path[CLI_PATH_BYTES]) {
    char parent[CLI_PATH_BYTES];
    const char *slash = strrchr(given, '/'), *name = slash != NULL ? slash + 1 : given;
    if (dct_os_is_directory(given) || strlen(given) >= sizeof parent) return realpath(given, path) != NULL;
    snprintf(parent, sizeof parent, "%.*s", (int)(slash != NULL ? slash - given + 1 : 1), slash != NULL ? given : ".");
    if (realpath(parent, path) == NULL) return false;
    size_t n = strlen(path);
    int more = snprintf(path + n, CLI_PATH_BYTES - n, "%s%s", n > 1 ? "/" : "", name);
    return more >= 0 && (size_t)more < CLI_PATH_BYTES - n;
}

static bool leads_out(const char *file, const char *directory, size_t n_directory) {
    static char target[CLI_PATH_BYTES];
    return realpath(file, target) != NULL && (strncmp(target, directory, n_directory) != 0 || target[n_directory] != '/');
}

/* What is read of a directory. */
static bool is_of_a_model(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".json") == 0 || strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".jinja") == 0);
}

/* The first by name in the model's directory that leads out of it. */
static bool find_way_out_of(const char *directory, char way_out[CLI_PATH_BYTES]) {
    static char file[CLI_PATH_BYTES];
    size_t n = strlen(directory);
    bool found = false;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (!is_of_a_model(entry->d_name)) continue;
        int bytes = snprintf(file, sizeof file, "%s/%s", directory, entry->d_name);
        if (bytes < 0 || (size_t)bytes >= sizeof file || !leads_out(file, directory, n)) continue;
        if (!found || strcmp(file, way_out) < 0) memcpy(way_out, file, (size_t)bytes + 1);
        found = true;
    }
    if (entries != NULL) closedir(entries);
    return found;
}

/* A container sees the model's directory alone: whether a link there leads out of it, and which. */
static bool find_way_out(const char *model, bool is_directory, char way_out[CLI_PATH_BYTES]) {
    if (is_directory) return find_way_out_of(model, way_out);
    size_t n = (size_t)(strrchr(model, '/') - model);
    snprintf(way_out, CLI_PATH_BYTES, "%s", model);
    if (leads_out(way_out, model, n)) return true;
    for (unsigned i = 1; cli_model_part(model, i, way_out); i++) {
        if (leads_out(way_out, model, n)) return true;
    }
    return false;
}

int cli_emit(const dctms_plan *plan, const char *name, const cli_options *o) {
    static char model[CLI_PATH_BYTES], program[CLI_PATH_BYTES], way_out[CLI_PATH_BYTES];
    const char *given = cli_model_path(o), *prompt = o->prompt_file != NULL ? o->prompt_file : DEFAULT_PROMPT;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) program[n] = '\0';
    if (!find_model(given, model)) return cli_usage("%s: its place cannot be found", given);
    bool is_directory = dct_os_is_directory(model);
    if (strcmp(o->emit, "systemd") != 0 && find_way_out(model, is_directory, way_out))
        return cli_usage("--emit %s: %s is a link out of its directory, and a container has that alone; name the place of the "
                         "files themselves", o->emit, way_out);
    dctms_plan_info info;
    dctms_plan_get_info(plan, &info);
    command c;
    spell(&c, &info, o, model, prompt);
    dct_emit_params params = {.format = o->emit,
                              .name = name,
                              .program = n > 0 ? program : "/usr/bin/dctms",
                              .image = "dctms",
                              .model = model,
                              .model_is_directory = is_directory,
                              .prompt = prompt,
                              .words = c.words,
                              .n_words = c.n,
                              .threads = info.threads,
                              .m_max_bytes = info.m_max_bytes,
                              .locks = o->mlock,
                              .write = cli_out};
    dct_err err;
    return dct_emit(&params, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}
