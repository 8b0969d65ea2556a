/* No flag is ignored in silence: every verb refuses every flag of the others, and every form of a verb the flags that only its other
 * forms read. What a verb takes is read from its help, what a form takes stands in a table here.
 */
#define WORK DCT_BINARY_DIR "/test_flags."

#include "cli/command_support.h"

enum { MAX_VERBS = 16, MAX_FLAGS = 160, NAME_BYTES = 32 };

/* Flags as a help lists them: "  -c, --ctx-size N    what it does". */
typedef struct flag {
    char short_name[NAME_BYTES], long_name[NAME_BYTES];
    bool takes_value;
} flag;

typedef struct verb {
    char name[NAME_BYTES];
    flag flags[MAX_FLAGS];
    uint32_t n;
} verb;

static verb verbs[MAX_VERBS];
static uint32_t n_verbs;

/* What stands before the explanation, which begins behind two blanks. */
static bool read_flag(const char *line, flag *f) {
    char left[80], word[3][NAME_BYTES] = {"", "", ""};
    const char *end = strstr(line + 2, "  ");
    if (strncmp(line, "  -", 3) != 0) return false;
    size_t n = end != NULL && end < line + 36 ? (size_t)(end - line) : 36;
    snprintf(left, sizeof left, "%.*s", (int)n, line);
    int words = sscanf(left, " %31s %31s %31s", word[0], word[1], word[2]);
    char *comma = strchr(word[0], ',');
    memset(f, 0, sizeof *f);
    if (comma != NULL) *comma = '\0';
    if (comma != NULL) strcpy(f->short_name, word[0]);
    strcpy(f->long_name, word[comma != NULL ? 1 : 0]);
    f->takes_value = words > (comma != NULL ? 2 : 1);
    return true;
}

static void read_help(verb *v) {
    char line[64];
    snprintf(line, sizeof line, "%s --help", v->name);
    child c = start(line);
    expect_code(&c, line, 0);
    for (char *at = strtok(c.text[0], "\n"); at != NULL; at = strtok(NULL, "\n"))
        if (read_flag(at, &v->flags[v->n])) v->n++;
    drop(&c);
}

static int read_verbs(void **state) {
    (void)state;
    begin_files();
    child c = start("--help");
    expect_code(&c, "--help", 0);
    for (const char *at = c.text[0]; n_verbs < MAX_VERBS && (at = strstr(at, "\n  dctms ")) != NULL; at++)
        if (sscanf(at, " dctms %31[a-z]", verbs[n_verbs].name) == 1) n_verbs++;
    drop(&c);
    assert_int_equal(n_verbs, 11);
    for (uint32_t i = 0; i < n_verbs; i++) read_help(&verbs[i]);
    child p = start("plan $M -c 64 -n 16 -o $Wplan");
    expect_code(&p, "plan -o", 0);
    drop(&p);
    return 0;
}

static const verb *verb_of(const char *name) {
    for (uint32_t i = 0; i < n_verbs; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    fail_msg("no verb %s", name);
    return NULL;
}

/* Taken and without effect where others list it: people type it out of habit. */
static bool is_accepted(const char *v, const char *name) {
    static const char *const listed[] = {"plan", "run", "score", "protocol"};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(listed[i], v) == 0 && strcmp(name, "--no-warmup") == 0) return true;
    return false;
}

static bool takes(const verb *v, const char *name) {
    for (uint32_t i = 0; i < v->n; i++)
        if (strcmp(v->flags[i].short_name, name) == 0 || strcmp(v->flags[i].long_name, name) == 0) return true;
    return is_accepted(v->name, name);
}

/* One line on stderr that names the flag, nothing on stdout, the code of a usage error. */
static void expect_refusal(const char *line, const char *name) {
    child c = start(line);
    expect_code(&c, line, 1);
    bool is_line = c.n[0] == 0 && count_of(c.text[1], "\n") == 1 && strncmp(c.text[1], "dctms: ", 7) == 0;
    if (!is_line || strstr(c.text[1], name) == NULL) fail_msg("dctms %s: '%s%s'", line, c.text[0], c.text[1]);
    drop(&c);
}

static void a_verb_refuses_flags_of_others(void **state) {
    (void)state;
    uint32_t n = 0;
    for (uint32_t v = 0; v < n_verbs; v++) {
        for (uint32_t k = 0; k < n_verbs; k++) {
            for (uint32_t i = 0; i < verbs[k].n; i++) {
                const char *names[2] = {verbs[k].flags[i].short_name, verbs[k].flags[i].long_name};
                for (int which = 0; which < 2; which++) {
                    char line[128];
                    bool told = false; /* by an earlier verb of the list */
                    for (uint32_t j = 0; j < k; j++) told = told || takes(&verbs[j], names[which]);
                    if (names[which][0] == '\0' || told || takes(&verbs[v], names[which])) continue;
                    snprintf(line, sizeof line, "%s x %s 1", verbs[v].name, names[which]);
                    expect_refusal(line, names[which]);
                    n++;
                }
            }
        }
    }
    assert_true(n > 800);
}

/* ---- forms ---- */

#define BOUNDS "--ctx-size --n-predict --ubatch-size --threads --cache-type-k --cache-type-v --memory-budget --ctx-steps " \
               "--cost-profile --logits "
#define ANSWER "--prompt --system-prompt --chat-template --no-conversation --single-turn --seal --alloc --mlock --force --temp " \
               "--top-k --top-p --min-p --repeat-penalty --repeat-last-n --presence-penalty --frequency-penalty --seed " \
               "--logit-bias --reverse-prompt --ignore-eos --quiet --json "

typedef struct form {
    const char *line, *verb, *takes;
} form;

static const form forms[] = {
    {"plan $M", "plan", BOUNDS "--model --budget-ctx --emit --file --mlock --output --json --text --paper --svg --html --concurrency "
                               "--phase --nodes --overlap "},
    {"plan $Wnone.onnx", "plan", "--model --json --text --svg --dim --input --value --keep-order --nodes "},
    {"plan $M $M --exclusive", "plan", BOUNDS "--exclusive --json --nodes "},
    {"plan --diff $Wplan $M", "plan", BOUNDS "--diff --budget-ctx --json --nodes --overlap "},
    {"plan --diff $Wplan $Wplan", "plan", "--diff --json "},
    {"plan $Wplan", "plan", "--model --json --text --paper --svg --html --phase "},
    {"run $M -p x", "run", BOUNDS ANSWER "--model --budget-ctx --conversation --plan --file "},
    {"run $M -p x --plan $Wplan", "run", ANSWER "--model --n-predict --conversation --plan --file "},
    {"run $M $M --concurrent -p x", "run", BOUNDS ANSWER "--concurrent "},
};

static void a_form_refuses_flags_of_others(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const verb *v = verb_of(forms[f].verb);
        uint32_t n_taken = 0;
        for (uint32_t i = 0; i < v->n; i++) {
            const flag *one = &v->flags[i];
            char line[256], word[NAME_BYTES + 1];
            snprintf(word, sizeof word, "%s ", one->long_name);
            bool taken = strstr(forms[f].takes, word) != NULL;
            n_taken += taken;
            const char *value = !one->takes_value ? "" : strcmp(one->long_name, "--logit-bias") == 0 ? "1+1" : "1";
            snprintf(line, sizeof line, "%s %s %s", forms[f].line, one->long_name, value);
            if (!taken) expect_refusal(line, one->long_name);
        }
        assert_int_equal(n_taken, count_of(forms[f].takes, " ")); /* the table names no flag that there is not */
    }
}

/* Two flags of one form, or more arguments than it reads. */
static const struct {
    const char *line, *named;
} pairs[] = {
    {"plan $M --json --text", "--text does not go with --json"},
    {"plan $M --text --paper", "--paper does not go with --text"},
    {"plan $M --paper --concurrency", "--concurrency does not go with --paper"},
    {"plan $M --emit docker --json", "--emit does not go with --json"},
    {"plan $M --phase decode", "--phase says something about --svg"},
    {"plan $M -f /x", "--file says something about --emit"},
    {"plan $M --mlock", "--mlock says something about --emit"},
    {"plan --diff $Wplan $Wplan -c 64", "--ctx-size does not go with --diff of two plan files"},
    {"plan $Wplan -c 64", "--ctx-size does not go with a plan file"},
    {"plan $Wplan --json --text", "--text does not go with --json"},
    {"run $M -p x -f $Wplan", "--file does not go with --prompt"},
    {"run $M -p x -sys y -no-cnv", "--system-prompt does not go with --no-conversation"},
    {"run $M -p x --chat-template chatml -no-cnv", "--chat-template does not go with --no-conversation"},
    {"tokenize $M -p x -f $Wplan", "--file does not go with --prompt"},
    {"score $M -f x --ids-file y", "--ids-file does not go with --file"},
    {"inspect $M $Wplan", "inspect takes one model: '" WORK "plan' is one too many"},
    {"inspect -m $M $Wplan", "inspect takes one model"},
    {"tokenize $M $Wplan -p x", "tokenize takes one model"},
    {"score $M $Wplan -f x", "score takes one model"},
    {"protocol $M $Wplan", "protocol takes one model"},
    {"protocol $M --stress cpu --stress-memory 1M", "--stress-memory says something about --stress memory"},
    {"protocol $M --systems planned --llama-bench /bin/true", "--llama-bench: the system llama.cpp is not among"},
};

static void what_does_not_go_together_is_said(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) expect_refusal(pairs[i].line, pairs[i].named);
}

/* A variable says what is meant where no flag and no argument does. */
static void flags_beat_variables(void **state) {
    (void)state;
    setenv("LLAMA_ARG_MODEL", "/nonexistent", 1);
    setenv("LLAMA_ARG_CTX_SIZE", "100", 1);
    setenv("LLAMA_ARG_THREADS", "3", 1);
    static const char *const lines[] = {
        "plan $M -n 16", "plan $M $M --exclusive -n 16", "plan $M -n 16 --ctx-steps 32,64", "inspect $M", "tokenize $M -p x",
        "verify $Wplan $M", "run $M --plan $Wplan -p x --temp 0 -q", "plan --diff $Wplan $Wplan",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        child c = start(lines[i]);
        expect_code(&c, lines[i], 0);
        drop(&c);
    }
    expect_refusal("plan $M -n 16 --ctx-steps 32,64 -c 100", "a context of 100 tokens is not the last of the steps");
    unsetenv("LLAMA_ARG_MODEL");
    unsetenv("LLAMA_ARG_CTX_SIZE");
    unsetenv("LLAMA_ARG_THREADS");
}

/* A flag without a value is given or not; a variable can say either. */
static void switches_are_on_or_off(void **state) {
    (void)state;
    static const struct { const char *value; bool is_on; } cases[] = {{"1", true}, {"on", true}, {"0", false}, {"false", false}};
    expect_refusal("run $M -p x --mlock=0", "--mlock takes no value");
    expect_refusal("run $M -p x --force=", "--force takes no value");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("LLAMA_ARG_MLOCK", cases[i].value, 1);
        child c = start("plan $M -n 16 --emit systemd");
        expect_code(&c, cases[i].value, 0);
        assert_int_equal(strstr(c.text[0], "--mlock") != NULL, cases[i].is_on);
        drop(&c);
    }
    setenv("LLAMA_ARG_MLOCK", "no", 1);
    expect_refusal("plan $M -n 16 --emit systemd", "LLAMA_ARG_MLOCK: 'no' is neither 1 nor 0");
    unsetenv("LLAMA_ARG_MLOCK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verb_refuses_flags_of_others),
        cmocka_unit_test(a_form_refuses_flags_of_others),
        cmocka_unit_test(what_does_not_go_together_is_said),
        cmocka_unit_test(flags_beat_variables),
        cmocka_unit_test(switches_are_on_or_off),
    };
    return cmocka_run_group_tests(tests, read_verbs, remove_files);
}
