/* Flags: one table, a row each. The spellings are the ones that users of llama.cpp type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/hash.h"
#include "base/os.h"
#include "cli/cli.h"
#include "tools/tools.h"

/* Forms of verbs as bits, so that a row says where it is taken. */
enum {
    V_PLAN = CLI_PLAN | CLI_PLAN_ONNX | CLI_PLAN_GROUP | CLI_PLAN_DIFF | CLI_PLAN_FILES | CLI_PLAN_SAVED,
    V_RUN = CLI_RUN | CLI_RUN_FILE | CLI_RUN_GROUP,
    V_VERIFY = CLI_FORMS_END, V_INSPECT = CLI_FORMS_END << 1, V_TOKENIZE = CLI_FORMS_END << 2, V_SCORE = CLI_FORMS_END << 3,
    V_PACK = CLI_FORMS_END << 4, V_SYNTH = CLI_FORMS_END << 5, V_BENCH = CLI_FORMS_END << 6, V_PROTOCOL = CLI_FORMS_END << 7,
    V_CALIBRATE = CLI_FORMS_END << 8,
    V_COMPILE = CLI_PLAN | CLI_PLAN_GROUP | CLI_PLAN_DIFF | CLI_RUN | CLI_RUN_GROUP, /* what compiles here */
    V_ALONE = CLI_PLAN | CLI_PLAN_DIFF | CLI_RUN,                                    /* one model at a time */
    V_ONE = V_COMPILE | V_SCORE | V_PROTOCOL, /* one plan: one value for each bound */
    V_LONE = V_ALONE | V_SCORE | V_PROTOCOL,
    V_BOUNDS = V_PLAN | V_RUN | V_SCORE | V_PROTOCOL | V_BENCH,
    V_SINGLE = V_SCORE | V_PROTOCOL | V_INSPECT | V_TOKENIZE, /* the only argument is a model */
    V_MODEL = V_BOUNDS | V_INSPECT | V_TOKENIZE               /* the argument is a model */
};

typedef enum opt_kind {
    O_FLAG, O_STR, O_TEXT, O_U32, O_I32, O_OUTPUT, O_U64, O_SEED, O_SIZE, O_F32, O_STOP, O_BIAS, O_LIST, O_ON, O_OFF
} opt_kind; /* O_TEXT: what may be empty, as a name may not; O_OUTPUT: a number of output tokens */

typedef struct opt_row {
    const char *short_name, *long_name, *other_name; /* other_name: a second long spelling, or NULL */
    opt_kind kind;
    int verbs;
    size_t field;
    const char *env, *value, *help;
} opt_row;

#define F(name) offsetof(cli_options, name)

static const opt_row rows[] = {
    {"-m", "--model", NULL, O_STR,
     CLI_PLAN | CLI_PLAN_ONNX | CLI_PLAN_SAVED | CLI_RUN | CLI_RUN_FILE | V_SINGLE | V_VERIFY, F(model),
     "LLAMA_ARG_MODEL", "FILE", "model file (or the first argument; none: the built-in model)"},
    {"-c", "--ctx-size", NULL, O_U32, V_ONE, F(ctx_size), "LLAMA_ARG_CTX_SIZE", "N",
     "context: input and output together (default, and 0: at most 4096)"},
    {"-n", "--n-predict", "--predict", O_OUTPUT, (V_ONE & ~V_SCORE) | CLI_RUN_FILE, F(n_predict), "LLAMA_ARG_N_PREDICT", "M",
     "output tokens, at least 1 (default: at most 512; -1: half the context)"},
    {"-ub", "--ubatch-size", NULL, O_U32, V_ONE, F(ubatch), "LLAMA_ARG_UBATCH", "R",
     "rows of a prefill chunk (default, and 0: 512)"},
    {"-t", "--threads", NULL, O_U32, V_ONE | V_SYNTH | V_CALIBRATE, F(threads), "LLAMA_ARG_THREADS", "W",
     "workers (default, and 0: what affinity and cgroup allow)"},
    {"-ctk", "--cache-type-k", NULL, O_STR, V_ONE, F(type_k), "LLAMA_ARG_CACHE_TYPE_K", "TYPE",
     "f32, f16, bf16 or q8_0 (default f16)"},
    {"-ctv", "--cache-type-v", NULL, O_STR, V_ONE, F(type_v), "LLAMA_ARG_CACHE_TYPE_V", "TYPE",
     "f32, f16, bf16 or q8_0 (default f16)"},
    {NULL, "--memory-budget", NULL, O_SIZE, V_ONE | V_BENCH, F(memory_budget), NULL, "SIZE",
     "largest chunk (powers of two) whose M_max fits; 900M, 2G, bytes"},
    {NULL, "--budget-ctx", NULL, O_U32, V_LONE, F(budget_ctx), NULL, "MIN",
     "with a budget that the context exceeds: the largest one from MIN tokens on that fits"},
    {NULL, "--ctx-steps", NULL, O_STR, V_COMPILE, F(ctx_steps), NULL, "C[:R],..",
     "instead of -c: contexts, smallest first, each with its chunk; a run moves on when one is full"},
    {NULL, "--cost-profile", NULL, O_STR, V_COMPILE, F(cost_profile), NULL, "FILE",
     "schedule by what calibrate measured, not by the built-in profile"},
    {NULL, "--logits", NULL, O_STR, V_COMPILE, F(logits), NULL, "WHICH", "last (default) or all"},
    {"-p", "--prompt", NULL, O_TEXT, V_RUN, F(prompt), NULL, "TEXT", "the prompt; with a chat template, the user's message"},
    {"-p", "--prompt", NULL, O_TEXT, V_TOKENIZE, F(prompt), NULL, "TEXT", "the text"},
    {"-f", "--file", NULL, O_STR, CLI_RUN | CLI_RUN_FILE | V_SCORE, F(prompt_file), NULL, "FILE",
     "read the text from a file or pipe (-: standard input), without a newline at its end"},
    {"-f", "--file", NULL, O_STR, V_TOKENIZE, F(prompt_file), NULL, "FILE",
     "read the text from a file or pipe (-: standard input), as it stands"},
    {"-sys", "--system-prompt", NULL, O_TEXT, V_RUN, F(system), NULL, "TEXT", "system message of a chat"},
    {NULL, "--chat-template", NULL, O_STR, V_RUN, F(chat_template), "LLAMA_ARG_CHAT_TEMPLATE", "NAME",
     "chatml, llama2, llama3, mistral, gemma or phi3, instead of the file's own"},
    {"-cnv", "--conversation", NULL, O_ON, CLI_RUN | CLI_RUN_FILE, F(conversation), NULL, NULL,
     "chat in the terminal (default when there is no prompt)"},
    {"-no-cnv", "--no-conversation", NULL, O_OFF, V_RUN, F(conversation), NULL, NULL,
     "complete the prompt as it stands, without a chat template"},
    {"-st", "--single-turn", NULL, O_FLAG, V_RUN, F(single_turn), NULL, NULL, "one turn, then end"},
    {NULL, "--plan", NULL, O_STR, CLI_RUN_FILE, F(plan_file), NULL, "FILE", "run a plan made earlier; it is verified first"},
    {NULL, "--seal", NULL, O_STR, V_RUN | V_BENCH | V_SCORE, F(seal), NULL, "HOW",
     "on (default), kill (an attempt to get memory ends the process) or off (M_max is not enforced)"},
    {NULL, "--alloc", NULL, O_STR, V_RUN | V_BENCH, F(alloc), NULL, "HOW",
     "planned (default) or dynamic (one malloc and free per tensor, for comparison)"},
    {NULL, "--emit", NULL, O_STR, CLI_PLAN, F(emit), NULL, "FORMAT",
     "a file that runs the plan with M_max as its limit: systemd, docker, kubernetes or nomad"},
    {"-f", "--file", NULL, O_STR, CLI_PLAN, F(prompt_file), NULL, "FILE",
     "of --emit: the prompt that the command reads (default /etc/dctms/prompt.txt)"},
    {NULL, "--mlock", NULL, O_FLAG, CLI_PLAN, F(mlock), "LLAMA_ARG_MLOCK", NULL, "of --emit: the command pins its memory"},
    {NULL, "--mlock", NULL, O_FLAG, V_RUN | V_BENCH | V_SCORE | V_PROTOCOL, F(mlock), "LLAMA_ARG_MLOCK", NULL,
     "pin the memory; failing is fatal"},
    {NULL, "--force", NULL, O_FLAG, V_RUN | V_BENCH | V_SCORE | V_PROTOCOL, F(force), NULL, NULL,
     "start even when M_max exceeds the available memory"},
    {NULL, "--temp", "--temperature", O_F32, V_RUN, F(temp), NULL, "T", "temperature (default 0.8; 0 or less: greedy)"},
    {NULL, "--top-k", NULL, O_I32, V_RUN, F(top_k), "LLAMA_ARG_TOP_K", "K", "default 40; 0 or less: off"},
    {NULL, "--top-p", NULL, O_F32, V_RUN, F(top_p), NULL, "P", "default 0.95; 1: off"},
    {NULL, "--min-p", NULL, O_F32, V_RUN, F(min_p), NULL, "P", "default 0.05; 0: off"},
    {NULL, "--repeat-penalty", NULL, O_F32, V_RUN, F(repeat_penalty), NULL, "X", "default 1: off"},
    {NULL, "--repeat-last-n", NULL, O_I32, V_RUN, F(repeat_last_n), NULL, "N",
     "tokens that penalties look at (default 64; 0: none; -1: all)"},
    {NULL, "--presence-penalty", NULL, O_F32, V_RUN, F(presence_penalty), NULL, "X", "default 0: off"},
    {NULL, "--frequency-penalty", NULL, O_F32, V_RUN, F(frequency_penalty), NULL, "X", "default 0: off"},
    {"-s", "--seed", NULL, O_SEED, V_RUN | V_SYNTH | V_PROTOCOL, F(seed), NULL, "S",
     "default 0; -1: a random one, which is printed"},
    {"-l", "--logit-bias", NULL, O_BIAS, V_RUN, 0, NULL, "ID+B", "add B to a token's logit (15043+1, 15043-1); up to 64 times"},
    {"-r", "--reverse-prompt", "--stop", O_STOP, V_RUN, 0, NULL, "TEXT", "end at this text; up to 16 times"},
    {NULL, "--ignore-eos", NULL, O_FLAG, V_RUN, F(ignore_eos), NULL, NULL, "go on past end tokens, to exactly M tokens"},
    {NULL, "--special", NULL, O_FLAG, V_TOKENIZE, F(special), NULL, NULL,
     "parse special tokens in the text and add those the model wants"},
    {NULL, "--ids", NULL, O_FLAG, V_TOKENIZE, F(ids), NULL, NULL, "ids on one line, nothing else"},
    {"-q", "--quiet", NULL, O_FLAG, V_RUN, F(quiet), NULL, NULL, "the answer only"},
    {"-o", "--output", NULL, O_STR, CLI_PLAN, F(output), NULL, "FILE", "write the plan here, for run --plan and verify"},
    {"-o", "--output", NULL, O_STR, V_CALIBRATE, F(output), NULL, "FILE",
     "write the profile here (default: dctms/cost-profile in XDG_CACHE_HOME or ~/.cache)"},
    {"-o", "--output", NULL, O_STR, V_SYNTH, F(output), NULL, "PATH",
     "write the model here: a file, or the directory of an hf- or mlx- type"},
    {"-o", "--output", NULL, O_STR, V_PACK, F(output), NULL, "FILE",
     "write the problem here, with an offset for each item (a hint is kept, not used)"},
    {"-o", "--output", NULL, O_STR, V_BENCH, F(bench_format), NULL, "FORMAT", "md (default), csv, json or jsonl"},
    {NULL, "--json", NULL, O_FLAG, V_PLAN | V_RUN | V_INSPECT, F(json), NULL, NULL, "one JSON object"},
    {NULL, "--text", NULL, O_FLAG, CLI_PLAN | CLI_PLAN_ONNX | CLI_PLAN_SAVED, F(text), NULL, NULL,
     "the whole plan: items, values, steps, certificate"},
    {NULL, "--paper", NULL, O_FLAG, CLI_PLAN | CLI_PLAN_SAVED,
     F(paper), NULL, NULL, "count tensors and buffers as the paper does"},
    {NULL, "--svg", NULL, O_STR, CLI_PLAN | CLI_PLAN_ONNX | CLI_PLAN_SAVED | V_PACK, F(svg), NULL, "FILE",
     "draw the arena"},
    {NULL, "--exclusive", NULL, O_FLAG, CLI_PLAN_GROUP | CLI_RUN_GROUP, F(exclusive), NULL, NULL,
     "several models, of which one runs at a time: their intermediates share bytes"},
    {NULL, "--concurrent", NULL, O_FLAG, CLI_PLAN_GROUP | CLI_RUN_GROUP, F(concurrent), NULL, NULL,
     "several models, any of which may run at any time"},
    {NULL, "--overlap", NULL, O_FLAG, CLI_PLAN | CLI_PLAN_DIFF, F(overlap), NULL, NULL,
     "room for decode to run while another phase does: their intermediates, inputs and logits are apart"},
    {NULL, "--html", NULL, O_STR, CLI_PLAN | CLI_PLAN_SAVED, F(html), NULL, "FILE",
     "the plan as one page for a browser, which needs nothing else"},
    {NULL, "--diff", NULL, O_FLAG, CLI_PLAN_DIFF | CLI_PLAN_FILES, F(diff), NULL, NULL,
     "what differs between two plans, A and B: plan files or models"},
    {NULL, "--concurrency", NULL, O_FLAG, CLI_PLAN, F(concurrency), NULL, NULL, "which operations may run at the same time"},
    {NULL, "--dim", NULL, O_LIST, CLI_PLAN_ONNX, F(dims), NULL, "NAME=N",
     "of an ONNX file: the size of a dimension that it leaves open; may be repeated"},
    {NULL, "--input", NULL, O_LIST, CLI_PLAN_ONNX, F(inputs), NULL, "NAME=SHAPE",
     "of an ONNX file: the shape of an input, 1x3x224x224; may be repeated"},
    {NULL, "--value", NULL, O_LIST, CLI_PLAN_ONNX, F(values), NULL, "NAME=N",
     "of an ONNX file: what is in an input, where that decides which branch is taken; may be repeated"},
    {NULL, "--keep-order", NULL, O_FLAG, CLI_PLAN_ONNX, F(keep_order), NULL, NULL,
     "of an ONNX file: its order of nodes, where another would need less memory"},
    {NULL, "--phase", NULL, O_STR, CLI_PLAN | CLI_PLAN_SAVED, F(phase), NULL, "PHASE",
     "which phase --svg draws: prefill (default) or decode"},
    {NULL, "--all", NULL, O_FLAG, V_INSPECT, F(all), NULL, NULL, "every array element"},
    {NULL, "--ids-file", NULL, O_STR, V_SCORE, F(ids_file), NULL, "FILE",
     "score token ids (decimal, separated by spaces) instead of a text"},
    {NULL, "--save-logits", NULL, O_STR, V_SCORE, F(save_logits), NULL, "FILE", "save the logits of every position"},
    {NULL, "--kl", NULL, O_STR, V_SCORE, F(kl_base), NULL, "FILE", "KL divergence from logits saved earlier"},
    {NULL, "--header", NULL, O_FLAG, V_SYNTH, F(header_only), NULL, NULL, "without the weights: enough for plan and inspect"},
    {NULL, "--type", NULL, O_STR, V_SYNTH, F(type), NULL, "TYPE", "one of the types below (default Q4_0)"},
    {NULL, "--input", NULL, O_STR, V_PACK, F(problem), NULL, "FILE", "the problem (or the argument; -: standard input)"},
    {NULL, "--capacity", NULL, O_LIST, V_PACK, F(capacities), NULL, "[POOL=]BYTES",
     "fail, and write nothing, unless it fits: every pool, or the named one; may be repeated"},
    {NULL, "--minimize", NULL, O_FLAG, V_PACK, F(minimize), NULL, NULL,
     "the least height, whatever the capacity; without --nodes or --seconds 1,000,000 nodes"},
    {NULL, "--seconds", NULL, O_F32, V_PACK, F(seconds), NULL, "S",
     "end after S seconds with the best so far (0: by nodes alone)"},
    {NULL, "--nodes", NULL, O_U64, V_PACK | CLI_PLAN | CLI_PLAN_ONNX | CLI_PLAN_GROUP | CLI_PLAN_DIFF, F(nodes), NULL,
     "N", "budget of the exact search (0: the default)"},
    /* Of bench: what llama-bench takes. "N,.." is numbers and ranges, 1,2 or 1-4 or 256-1024+256 or 1-8*2, and the flag may be
       repeated. */
    {"-m", "--model", NULL, O_LIST, V_BENCH, F(bench_model), "LLAMA_ARG_MODEL", "FILE",
     "model file (or the arguments; none: the built-in model); repeatable"},
    {"-p", "--n-prompt", NULL, O_LIST, V_BENCH, F(bench_prompt), NULL, "N,..", "prompt sizes (default 512; 0: none)"},
    {"-n", "--n-gen", NULL, O_LIST, V_BENCH, F(bench_gen), NULL, "N,..", "tokens to generate (default 128; 0: none)"},
    {"-pg", "--n-prompt-gen", NULL, O_LIST, V_BENCH, F(bench_both), NULL, "P,N",
     "a prompt and an answer, timed as one; repeatable"},
    {NULL, "--steady", NULL, O_LIST, V_BENCH, F(bench_steady), NULL, "N,..",
     "N tokens one by one at the same depth: the cursor is rewound after each"},
    {"-d", "--n-depth", NULL, O_LIST, V_BENCH, F(bench_depth), NULL, "N,..", "tokens already there (default 0)"},
    {"-ub", "--ubatch-size", NULL, O_LIST, V_BENCH, F(bench_ubatch), "LLAMA_ARG_UBATCH", "R,..",
     "rows of a prefill chunk (default 512)"},
    {"-t", "--threads", NULL, O_LIST, V_BENCH, F(bench_threads), "LLAMA_ARG_THREADS", "W,..",
     "workers (default: what affinity and cgroup allow)"},
    {"-ctk", "--cache-type-k", NULL, O_LIST, V_BENCH, F(bench_type_k), "LLAMA_ARG_CACHE_TYPE_K", "TYPE,..",
     "f32, f16, bf16 or q8_0 (default f16)"},
    {"-ctv", "--cache-type-v", NULL, O_LIST, V_BENCH, F(bench_type_v), "LLAMA_ARG_CACHE_TYPE_V", "TYPE,..",
     "f32, f16, bf16 or q8_0 (default f16)"},
    {"-c", "--ctx-size", NULL, O_U32, V_BENCH, F(ctx_size), NULL, "N", "context (default: what the tests need)"},
    {"-r", "--repetitions", NULL, O_U32, V_BENCH | V_PROTOCOL, F(repetitions), NULL, "R", "default 5"},
    {"-C", "--cpu-mask", NULL, O_STR, V_BENCH, F(cpu_mask), NULL, "HEX",
     "processors to run on, bit 0 the first (default: all that are allowed)"},
    {NULL, "--delay", NULL, O_U32, V_BENCH, F(delay), NULL, "S", "seconds to rest before each test (default 0)"},
    {NULL, "--no-warmup", NULL, O_FLAG, V_BENCH, F(no_warmup), NULL, NULL, "do not run each test once before it is timed"},
    {NULL, "--no-roofline", NULL, O_FLAG, V_BENCH, F(no_roofline), NULL, NULL, "do not measure the machine"},
    /* Of protocol. "NAME,.." is names with commas, and the flag may be repeated. */
    {NULL, "--runs", NULL, O_U32, V_PROTOCOL, F(n_runs), NULL, "K",
     "independent runs, each with processes of its own (default 1)"},
    {NULL, "--prompts", NULL, O_U32, V_PROTOCOL, F(n_prompts), NULL, "K", "prompts of each category, at most 10 (default 1)"},
    {NULL, "--categories", NULL, O_LIST, V_PROTOCOL, F(categories), NULL, "NAME,..", "P1 to P5 (default: all)"},
    {NULL, "--systems", NULL, O_LIST, V_PROTOCOL, F(systems), NULL, "NAME,..",
     "planned, dynamic, llama.cpp (default: all that can be run)"},
    {NULL, "--llama-bench", NULL, O_STR, V_PROTOCOL, F(llama_bench), NULL, "FILE", "the program for the system llama.cpp"},
    {NULL, "--stress", NULL, O_LIST, V_PROTOCOL, F(stresses), NULL, "NAME,..",
     "none (default), cpu, memory, io: what a neighbour process does meanwhile"},
    {NULL, "--stress-memory", NULL, O_SIZE, V_PROTOCOL, F(stress_memory), NULL, "SIZE",
     "what the neighbour of memory takes at most (default: 3/4 of what is left)"},
    {NULL, "--memory-limit", NULL, O_SIZE, V_PROTOCOL, F(memory_limit), NULL, "SIZE",
     "sessions and their neighbour run in a memory cgroup of this limit; refused where none can be made"},
    {"-o", "--output", NULL, O_STR, V_PROTOCOL, F(directory), NULL, "DIR",
     "keep records, tables and charts here; a run that was cut off goes on from them"},
};

_Static_assert(sizeof rows / sizeof *rows <= 8 * sizeof(((cli_options *)NULL)->given), "a bit for each row");

static const struct {
    const char *name, *args, *help;
    int bit;
} verbs[] = {
    {"plan", "[MODEL|F.plan]", "what it costs: every byte, before anything is loaded", V_PLAN},
    {"verify", "F.plan [MODEL]", "check a plan independently", V_VERIFY},
    {"run", "[MODEL]", "plan, seal, answer", V_RUN},
    {"bench", "[MODEL]", "tokens per second, in the shape of llama-bench", V_BENCH},
    {"protocol", "[MODEL]", "the paper's experiment: planned against dynamic allocation", V_PROTOCOL},
    {"inspect", "[MODEL]", "what a model file holds", V_INSPECT},
    {"tokenize", "[MODEL]", "ids of a text", V_TOKENIZE},
    {"score", "[MODEL] -f TEXT", "perplexity of a text, in windows with -c N; KL divergence from saved logits", V_SCORE},
    {"pack", "F.csv", "the packer alone, on the public problem format", V_PACK},
    {"synth", "NAME --type T -o F", "write a model of a known shape with random weights", V_SYNTH},
    {"calibrate", "", "measure this machine's bandwidth and rate into a cost profile", V_CALIBRATE},
};

static int verb_bit(const char *verb) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, verb) == 0) return verbs[i].bit;
    }
    return 0;
}

static const opt_row *find_row(const char *arg, int bit) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const opt_row *r = &rows[i];
        if ((r->verbs & bit) == 0) continue;
        if (r->short_name != NULL && strcmp(r->short_name, arg) == 0) return r;
        if (strcmp(r->long_name, arg) == 0) return r;
        if (r->other_name != NULL && strcmp(r->other_name, arg) == 0) return r;
    }
    return NULL;
}

/* ---- storing ---- */

/* What a variable said is forgotten when a flag speaks. */
static bool append(cli_list *list, const char *value) {
    if (list->from_environment) *list = (cli_list){.n = 0};
    if (list->n == CLI_MAX_LIST) return false;
    list->text[list->n++] = value;
    return true;
}

static void note_given(cli_options *o, const opt_row *row) {
    size_t i = (size_t)(row - rows);
    dct_bit_set(o->given, i);
}

static bool is_given(const cli_options *o, size_t i) { return dct_bit_is_set(o->given, i); }

/* Stores the value of one flag; false when it is not of the kind the row wants. */
static bool store(const opt_row *row, const char *value, cli_options *o) {
    void *field = (char *)o + row->field;
    int64_t i = 0;
    switch (row->kind) {
    case O_FLAG: *(bool *)field = true; return true;
    case O_ON: *(cli_toggle *)field = CLI_ON; return true;
    case O_OFF: *(cli_toggle *)field = CLI_OFF; return true;
    case O_STR:
        if (*value == '\0') return false;
        *(const char **)field = value;
        return true;
    case O_TEXT: *(const char **)field = value; return true;
    case O_LIST: return append(field, value);
    case O_U32:
        if (!cli_parse_i64(value, 0, INT32_MAX, &i)) return false;
        *(uint32_t *)field = (uint32_t)i;
        return true;
    case O_I32:
        if (!cli_parse_i64(value, INT32_MIN, INT32_MAX, &i)) return false;
        *(int32_t *)field = (int32_t)i;
        return true;
    case O_OUTPUT:
        if (!cli_parse_i64(value, -1, INT32_MAX, &i) || i == 0) return false;
        *(int32_t *)field = (int32_t)i;
        return true;
    case O_U64: return cli_parse_u64(value, field);
    case O_SEED:
        if (strcmp(value, "-1") != 0) return cli_parse_u64(value, field);
        *(uint64_t *)field = dct_hash_mix(dct_os_now_ns() ^ (uint64_t)getpid()) >> 32;
        cli_note("seed %llu\n", (unsigned long long)*(uint64_t *)field);
        return true;
    case O_SIZE: /* 0 says "none" where it is used: room for nothing is asked for as room for a byte is, and does as little */
        if (!cli_parse_size(value, field)) return false;
        if (*(uint64_t *)field == 0) *(uint64_t *)field = 1;
        return true;
    case O_F32: return cli_parse_f32(value, field);
    case O_STOP:
        if (o->n_stop == CLI_MAX_STOP || *value == '\0' || strlen(value) > CLI_MAX_STOP_BYTES) return false;
        o->stop[o->n_stop++] = value;
        return true;
    case O_BIAS:
        if (o->n_bias == CLI_MAX_BIAS || !cli_parse_bias(value, &o->bias[o->n_bias])) return false;
        o->n_bias++;
        return true;
    }
    return false;
}

/* Says why a value was not stored. */
static dct_status refuse(const opt_row *row, const char *value, const cli_options *o) {
    const char *name = row->long_name;
    bool is_full = row->kind == O_LIST && ((const cli_list *)(const void *)((const char *)o + row->field))->n == CLI_MAX_LIST;
    if (row->kind == O_STOP && o->n_stop == CLI_MAX_STOP) return cli_usage("%s: at most %d may be given", name, CLI_MAX_STOP);
    if (row->kind == O_STOP) return cli_usage("%s: a text of 1 to %d bytes is expected", name, CLI_MAX_STOP_BYTES);
    if (row->kind == O_BIAS && o->n_bias == CLI_MAX_BIAS) return cli_usage("%s: at most %d may be given", name, CLI_MAX_BIAS);
    if (is_full) return cli_usage("%s: at most %d may be given", name, CLI_MAX_LIST);
    if (row->kind == O_OUTPUT) return cli_usage("%s: '%s' is neither a number from 1 nor -1 (half the context)", name, value);
    if (strcmp(name, "--model") == 0) return cli_usage("the model's name is empty");
    if (row->kind == O_SIZE) return cli_usage("%s: '%s' is no size, as 900M, 1.5G or a number of bytes", name, value);
    if (row->kind == O_U32 || row->kind == O_I32 || row->kind == O_U64 || row->kind == O_SEED)
        return cli_usage("%s: '%s' is no whole number that it takes", name, value);
    return cli_usage("%s: '%s' is not a value for it", name, value);
}

/* Says of a flag that the verb does not know which verbs do. */
static dct_status refuse_flag(const char *flag, const char *verb) {
    char others[160] = "";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (find_row(flag, verbs[i].bit) == NULL) continue;
        size_t n = strlen(others);
        snprintf(others + n, sizeof others - n, "%s%s", n > 0 ? ", " : "; it is one of ", verbs[i].name);
    }
    return cli_usage("%s: no such flag for '%s'%s (dctms %s --help lists them)", flag, verb, others, verb);
}

static bool takes_value(opt_kind kind) { return kind != O_FLAG && kind != O_ON && kind != O_OFF; }

/* A flag that takes no value, as a variable of the environment. */
static bool parse_switch(const char *value, bool *is_on) {
    static const char *const words[2][4] = {{"0", "false", "off", "disabled"}, {"1", "true", "on", "enabled"}};
    for (int on = 0; on < 2; on++) {
        for (size_t i = 0; i < 4; i++) {
            if (strcmp(value, words[on][i]) != 0) continue;
            *is_on = on;
            return true;
        }
    }
    return false;
}

static void set_defaults(cli_options *o) {
    dctms_gen_params gen = dctms_gen_default_params();
    *o = (cli_options){.temp = gen.temperature, .top_p = gen.top_p, .min_p = gen.min_p, .top_k = gen.top_k,
                       .repeat_penalty = gen.repeat_penalty, .repeat_last_n = gen.repeat_last_n, .repetitions = 5,
                       .n_runs = 1, .n_prompts = 1};
}

static dct_status read_environment(int bit, cli_options *o) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const opt_row *r = &rows[i];
        if (r->env == NULL || (r->verbs & bit) == 0) continue;
        const char *value = getenv(r->env);
        if (value == NULL || *value == '\0') continue;
        bool is_on = true;
        if (!takes_value(r->kind) && !parse_switch(value, &is_on))
            return cli_usage("%s: '%s' is neither 1 nor 0", r->env, value);
        if (!is_on) continue;
        if (!store(r, value, o)) return cli_usage("%s: '%s' is not a value for %s", r->env, value, r->long_name);
        if (r->kind == O_LIST) ((cli_list *)(void *)((char *)o + r->field))->from_environment = true;
    }
    return DCT_OK;
}

/* ---- which flags go together ---- */

/* What is said of a flag that the form has not: "... does not go with". */
static const struct {
    cli_form form;
    const char *name;
} forms[] = {
    {CLI_PLAN, "a model that is no ONNX file"},
    {CLI_PLAN_ONNX, "an ONNX file, which has no bounds: --dim, --input, --value, --keep-order, --nodes, --json, --text and "
                    "--svg do"},
    {CLI_PLAN_GROUP, "several models: they are shown as a table or with --json; plan one for the rest"},
    {CLI_PLAN_DIFF, "--diff, which takes --json and bounds"},
    {CLI_PLAN_FILES, "--diff of two plan files, which have their bounds; --json does"},
    {CLI_PLAN_SAVED, "a plan file, which has its bounds: --json, --text, --paper, --svg and --html do"},
    {CLI_RUN_FILE, "--plan: its bounds are those of the file"},
    {CLI_RUN_GROUP, "several models, which are planned here and answer one prompt each (-p)"},
};

/* Flags of which at most one may be given. */
static const struct {
    int forms;
    const char *names[6];
} alternatives[] = {
    {CLI_PLAN | CLI_PLAN_SAVED, {"--json", "--text", "--paper", "--concurrency", "--emit"}},
    {V_RUN | V_TOKENIZE, {"--prompt", "--file"}},
    {V_SCORE, {"--file", "--ids-file"}},
    {V_RUN, {"--no-conversation", "--system-prompt"}},
    {V_RUN, {"--no-conversation", "--chat-template"}},
};

/* Flags that say something about another. */
static const struct {
    int forms;
    const char *name, *needed;
} companions[] = {
    {CLI_PLAN | CLI_PLAN_SAVED, "--phase", "--svg"},
    {CLI_PLAN, "--file", "--emit"},
    {CLI_PLAN, "--mlock", "--emit"},
};

bool cli_is_given(const cli_options *o, const char *long_name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_given(o, i) && strcmp(rows[i].long_name, long_name) == 0) return true;
    return false;
}

/* Whether at most one of these names was given. */
static bool is_one(const cli_options *o, const char *const *names) {
    const char *first = NULL;
    for (; *names != NULL; names++) {
        if (!cli_is_given(o, *names)) continue;
        if (first != NULL) {
            cli_usage("%s does not go with %s", *names, first);
            return false;
        }
        first = *names;
    }
    return true;
}

static bool check_together(const cli_options *o, int form) {
    for (size_t i = 0; i < sizeof alternatives / sizeof *alternatives; i++)
        if ((alternatives[i].forms & form) != 0 && !is_one(o, alternatives[i].names)) return false;
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
        const char *name = companions[i].name, *needed = companions[i].needed;
        if ((companions[i].forms & form) == 0 || !cli_is_given(o, name) || cli_is_given(o, needed)) continue;
        cli_usage("%s says something about %s, which is not given", name, needed);
        return false;
    }
    return true;
}

bool cli_check_form(const cli_options *o, cli_form form) {
    const char *what = o->verb;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].form == form) what = forms[i].name;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!is_given(o, i) || (rows[i].verbs & (int)form) != 0) continue;
        cli_usage("%s does not go with %s", rows[i].long_name, what);
        return false;
    }
    return check_together(o, (int)form);
}

/* Arguments beat the variable that names a model; and one model is all that some verbs take. */
static dct_status take_arguments(int bit, cli_options *o) {
    bool named = cli_is_given(o, "--model");
    uint32_t before = bit == V_VERIFY ? 1 : 0; /* arguments before the model */
    if (!named && o->n_args > before) o->model = NULL;
    if ((bit & V_SINGLE) == 0 || o->n_args <= (named ? 0u : 1u)) return DCT_OK;
    return cli_usage("%s takes one model: '%s' is one too many", o->verb, o->args[o->n_args - 1]);
}

static dct_status take_argument(int bit, const char *arg, cli_options *o) {
    if (*arg == '\0') return cli_usage(bit & V_MODEL ? "the model's name is empty" : "a file's name is empty");
    if (o->n_args == CLI_MAX_ARGS) return cli_usage("too many arguments at '%s'", arg);
    o->args[o->n_args++] = arg;
    return DCT_OK;
}

/* A flag as it stands on the command line: "--name=value", or a name whose value may be the next word. */
typedef struct flag_word {
    char name[64];     /* what is longer is no flag */
    const char *value; /* NULL: there is none */
    bool is_joined;
} flag_word;

static flag_word read_flag(const char *arg, const char *next) {
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    flag_word f = {.value = equals != NULL ? equals + 1 : next, .is_joined = equals != NULL};
    size_t n = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    if (n < sizeof f.name) memcpy(f.name, arg, n);
    return f;
}

/* Flags of other programs, which the bounds of a model go with. */
static dct_status take_foreign_flag(int bit, const char *arg, const flag_word *f, cli_options *o, bool *used_next) {
    cli_habit habit = (bit & V_BOUNDS) != 0 ? cli_take_habit(f->name, f->value, f->is_joined) : CLI_HABIT_NONE;
    *used_next = habit == CLI_HABIT_TAKEN_WITH_VALUE;
    if (habit == CLI_HABIT_NONE) return refuse_flag(arg, o->verb);
    return habit == CLI_HABIT_REFUSED ? DCT_USAGE : DCT_OK;
}

static dct_status take_flag(int bit, const char *arg, const char *next, cli_options *o, bool *used_next) {
    const flag_word f = read_flag(arg, next);
    const opt_row *row = find_row(f.name, bit);
    if (row == NULL) return take_foreign_flag(bit, arg, &f, o, used_next);
    const bool needs_value = takes_value(row->kind);
    if (!needs_value && f.is_joined) return cli_usage("%s takes no value", f.name);
    if (needs_value && f.value == NULL) return cli_usage("%s needs a value", arg);
    *used_next = needs_value && !f.is_joined;
    if (!store(row, f.value, o)) return refuse(row, f.value, o);
    note_given(o, row);
    return DCT_OK;
}

static bool asks_for_help(const char *arg) {
    return strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0 || strcmp(arg, "--usage") == 0;
}

static dct_status read_command_line(int bit, int argc, char **argv, cli_options *o, bool *help) {
    bool flags_end = false;
    for (int i = 2; i < argc; i++) {
        const char *arg = argv[i];
        dct_status status = DCT_OK;
        bool used_next = false;
        if (flags_end || arg[0] != '-' || arg[1] == '\0') status = take_argument(bit, arg, o);
        else if (strcmp(arg, "--") == 0) flags_end = true;
        else if (asks_for_help(arg)) *help = true;
        else status = take_flag(bit, arg, argv[i + 1], o, &used_next);
        if (status != DCT_OK || *help) return status;
        i += used_next;
    }
    return DCT_OK;
}

dct_status cli_parse(int argc, char **argv, cli_options *o, bool *help) {
    set_defaults(o);
    *help = false;
    o->verb = argv[1];
    int bit = verb_bit(argv[1]);
    if (bit == 0) return cli_unknown_verb(argv[1]);
    dct_status status = read_environment(bit, o);
    if (status == DCT_OK) status = read_command_line(bit, argc, argv, o, help);
    if (status != DCT_OK || *help) return status;
    bool is_one_form = bit >= CLI_FORMS_END; /* the other verbs find out which it is */
    if (is_one_form && !cli_check_form(o, (cli_form)bit)) return DCT_USAGE;
    return take_arguments(bit, o);
}

/* Columns of the terminal that is standard output; 0: it is none, and nothing is broken into lines. */
static size_t output_columns(void) {
    struct winsize size;
    return isatty(1) && ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* A flag and what it does: beside it, or below it where columns are few. */
static void print_row(const char *flag, const char *help, size_t columns) {
    bool is_narrow = columns > 0 && columns < 80;
    size_t indent = is_narrow ? 6 : 37, at = indent;
    cli_print(is_narrow ? "  %s\n%6s" : "  %-34s%s", flag, is_narrow ? "" : " ");
    for (const char *word = help; *word != '\0'; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        bool breaks = columns > 0 && at > indent && at + 1 + n > columns;
        if (breaks) cli_print("\n%*s", (int)indent, "");
        else if (at > indent) cli_print(" ");
        cli_print("%.*s", (int)n, word);
        at = (breaks ? indent : at + (at > indent)) + n;
        word += n;
    }
    cli_print("\n");
}

void cli_help(const char *verb) {
    int bit = verb == NULL ? 0 : verb_bit(verb);
    if (bit == 0) {
        cli_print("dctms %s: transformer inference whose memory is known before it starts\n\n", dctms_version());
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
            cli_print("  dctms %-9s%-20s %s\n", verbs[i].name, verbs[i].args, verbs[i].help);
        }
        cli_print(
            "\n  dctms VERB --help lists the flags of a verb. No MODEL: the built-in one.\n"
            "  Exit codes: 0 done, 1 usage, 2 bad file, 3 does not fit, 4 a bound was exceeded, 5 the system refused, 70 bug,\n"
            "  128 + N after signal N (141: nobody reads the output).\n");
        return;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (verbs[i].bit == bit) cli_print("dctms %s %s\n  %s\n\n", verbs[i].name, verbs[i].args, verbs[i].help);
    }
    size_t columns = output_columns();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const opt_row *r = &rows[i];
        if ((r->verbs & bit) == 0) continue;
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", r->short_name != NULL ? r->short_name : "", r->short_name != NULL ? ", " : "",
                 r->long_name, r->value != NULL ? " " : "", r->value != NULL ? r->value : "");
        print_row(left, r->help, columns);
    }
    if (bit == V_PROTOCOL) cli_print("\n  Without -c and -n: 1280 and 256, the paper's bounds.\n");
    if (bit == V_SYNTH) cli_print("\n  NAME is one of %s.\n  TYPE is one of %s.\n", dct_synth_names(), dct_synth_mix_names());
}
