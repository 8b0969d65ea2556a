/* dctms: the command. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const struct {
    const char *name;
    int (*run)(const cli_options *o);
} verbs[] = {
    {"plan", cli_plan},         {"verify", cli_verify}, {"run", cli_run},   {"inspect", cli_inspect}, {"tokenize", cli_tokenize},
    {"score", cli_score},       {"pack", cli_pack},     {"synth", cli_synth}, {"bench", cli_bench},
    {"protocol", cli_protocol}, {"calibrate", cli_calibrate},
};

/* The built-in model lies beside the program: installed in ../share/dctms, in a build tree in ../models. */
static const char *builtin_model(void) {
    static char path[4352];
    static const char *const places[] = {"../share/dctms/models/tiny-vl", "../models/tiny-vl", "../../models/tiny-vl"};
    const char *dir = getenv("DCTMS_MODELS");
    if (dir != NULL) {
        snprintf(path, sizeof path, "%s/tiny-vl-f16.gguf", dir);
        return path;
    }
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash != NULL) {
        *slash = '\0';
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s/%s/tiny-vl-f16.gguf", self, places[i]);
            if (access(path, R_OK) == 0) return path;
        }
    }
    cli_usage("the built-in model is not beside the program: name a MODEL, or its directory in DCTMS_MODELS");
    _exit(DCT_BAD_FILE);
}

const char *cli_model_path(const cli_options *o) {
    if (o->model != NULL) return o->model;
    return o->n_args > 0 ? o->args[0] : builtin_model();
}

/* A number from 1 on; *at goes behind it. */
static bool take_number(const char **at, uint32_t *out) {
    char *end;
    if (**at < '1' || **at > '9') return false;
    unsigned long number = strtoul(*at, &end, 10);
    *at = end;
    *out = (uint32_t)number;
    return number <= INT32_MAX;
}

/* "1280:512,4096:256,16384": contexts, and chunks where they are said. */
static bool parse_steps(const char *text, dctms_plan_params *p) {
    const char *at = text;
    while (p->n_ctx_steps < DCTMS_MAX_CTX_STEPS) {
        dctms_ctx_step *step = &p->ctx_steps[p->n_ctx_steps++];
        if (!take_number(&at, &step->n_ctx)) break;
        if (*at == ':' && (at++, !take_number(&at, &step->ubatch))) break;
        if (*at == '\0') return true;
        if (*at++ != ',') break;
    }
    cli_usage("--ctx-steps: '%s' is no list of at most %d contexts like 1280:512,4096:256", text, DCTMS_MAX_CTX_STEPS);
    return false;
}

bool cli_plan_params(const cli_options *o, dctms_plan_params *p) {
    *p = dctms_plan_default_params();
    p->n_ctx = o->ctx_steps == NULL || cli_is_given(o, "--ctx-size") ? o->ctx_size : 0; /* not what a variable said */
    p->n_output = o->n_predict;
    p->ubatch = o->ubatch;
    p->threads = o->threads;
    p->memory_budget = o->memory_budget;
    p->budget_ctx = o->budget_ctx;
    p->pack_nodes = o->nodes;
    p->cost_profile = o->cost_profile;
    p->overlap = o->overlap;
    if (o->ctx_steps != NULL && !parse_steps(o->ctx_steps, p)) return false;
    const char *types[2] = {o->type_k, o->type_v};
    char *into[2] = {p->type_k, p->type_v};
    for (int i = 0; i < 2; i++) {
        if (types[i] == NULL) continue;
        if (strlen(types[i]) >= sizeof p->type_k) {
            cli_usage("--cache-type-%c %s: f32, f16, bf16 and q8_0 are supported", i == 0 ? 'k' : 'v', types[i]);
            return false;
        }
        strcpy(into[i], types[i]);
    }
    if (o->logits == NULL || strcmp(o->logits, "last") == 0) {
        p->logits = DCTMS_LOGITS_LAST;
    } else if (strcmp(o->logits, "all") == 0) {
        p->logits = DCTMS_LOGITS_ALL;
    } else {
        cli_usage("--logits: '%s' is neither last nor all", o->logits);
        return false;
    }
    return true;
}

/* ---- signals ---- */

/* Ends the process as the signal does, but no file half written stays behind. */
static void end_by_signal(int number) {
    dct_out_abandon();
    raise(number); /* its action is the default again */
}

/* A pipe that nobody reads and a file that may not grow are errors of write, which say what they are. A signal that is ignored
 * (nohup, a shell's background) stays so. */
static void set_signals(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        action = (struct sigaction){.sa_handler = end_by_signal, .sa_flags = SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        sigaction(ends[i], &action, NULL);
    }
}

/* A standard stream that is closed is kept open the wrong way round: whoever uses it is refused as before, but no file that is
 * opened later takes its number, so that messages could end up in it. */
static void hold_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    }
}

static int obey(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        cli_help(argc > 2 ? argv[2] : NULL);
        cli_flush();
        return argc < 2 ? DCT_USAGE : DCT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        cli_print("dctms %s (%s)\n", dctms_version(), dctms_kernels_name()); /* the set that DCTMS_ISA and the processor led to */
        cli_flush();
        return DCT_OK;
    }
    cli_options options;
    bool help;
    dct_status status = cli_parse(argc, argv, &options, &help);
    if (status != DCT_OK) return status;
    if (help) {
        cli_help(options.verb);
        cli_flush();
        return DCT_OK;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, options.verb) != 0) continue;
        int code = verbs[i].run(&options);
        cli_flush();
        return code;
    }
    return DCT_BUG;
}

/* The least that any verb needs; sessions ask for more when they open. Before anything has a large frame. */
int main(int argc, char **argv) {
    dct_err err;
    hold_streams();
    set_signals();
    return dct_os_check_stack(0, &err) == DCT_OK ? obey(argc, argv) : cli_fail_err(&err);
}
