/* Habits: flags and verbs of llama.cpp, Ollama and MLX that are none of ours.
 *
 * What changes nothing here is taken without a word; what asks for another answer, or for something of the machine, is refused
 * with a line that says what to do instead.
 */
#include <string.h>

#include "cli/cli.h"

typedef enum habit_kind {
    H_TAKE,   /* taken */
    H_SWITCH, /* taken, with on, off, auto, 0 or 1 behind it when there is one */
    H_VALUE,  /* taken with its value */
    H_ONLY,   /* taken with a value of `only`, refused with any other */
    H_REFUSE
} habit_kind;

typedef struct habit {
    const char *names; /* words */
    habit_kind kind;
    const char *only, *instead; /* words; what the refusal says */
} habit;

#define GPU "this runs on the processor"
#define TEXT "only text goes in: images and sound do not"
#define FETCH "nothing is downloaded: fetch the file, then name it"
#define ROPE "rotations are those of the file"
#define DRAFT "there are no draft models"
#define GRAMMAR "answers are not held to a grammar"
#define SAMPLERS "samplers are --temp, --top-k, --top-p, --min-p and penalties, in one order"
#define AS_WRITTEN "the answer is shown as the model writes it"
#define SERVER "there is no server: one process answers one user"
#define LOG "everything but the answer goes to standard error: 2>FILE, or -q"

static const habit habits[] = {
    {"--jinja --no-jinja --no-escape --no-warmup --warmup --no-context-shift --no-display-prompt --perf --no-perf "
     "--show-timings --no-show-timings --check-tensors --no-mmproj-auto --no-cont-batching -nocb", H_TAKE, NULL, NULL},
    {"--mmap --no-mmap -mmp -dio --direct-io --no-direct-io -ndio -nr --no-repack --repack --no-host", H_SWITCH, NULL, NULL},
    {"--log-disable --log-prefix --log-timestamps --no-log-prefix --no-log-timestamps --log-verbose --simple-io --offline "
     "-v --verbose --progress", H_TAKE, NULL, NULL},
    {"-fa --flash-attn -co --color --log-colors -kvo --kv-offload -nkvo --no-kv-offload -nopo --op-offload --no-op-offload",
     H_SWITCH, NULL, NULL},
    {"-kvu --kv-unified --swa-full --no-mmproj --mmproj-offload --no-mmproj-offload -cmoe --cpu-moe --nowordwrap", H_TAKE,
     NULL, NULL},
    {"-b --batch-size -dt --defrag-thold -lv --verbosity --log-verbosity -ncmoe --n-cpu-moe --poll --poll-batch -tb "
     "--threads-batch", H_VALUE, NULL, NULL},
    {"-ngl --gpu-layers --n-gpu-layers", H_ONLY, "0 auto", GPU "; only 0 is accepted"},
    {"-dev --device", H_ONLY, "none cpu CPU", GPU},
    {"-sm --split-mode", H_ONLY, "none", GPU},
    {"-mg --main-gpu", H_ONLY, "0", GPU},
    {"-ts --tensor-split -ot --override-tensor --list-devices --rpc", H_REFUSE, NULL, GPU},
    {"-lm --load-mode", H_ONLY, "auto none mmap dio", "use --mlock"},
    {"-np --parallel", H_ONLY, "1 -1", "one conversation at a time"},
    {"-fit --fit", H_ONLY, "off", "use --memory-budget SIZE, and --budget-ctx MIN"},
    {"-fitt --fit-target -fitc --fit-ctx", H_REFUSE, NULL, "use --memory-budget SIZE, and --budget-ctx MIN"},
    {"-cram --cache-ram -ctxcp --ctx-checkpoints --cache-reuse", H_ONLY, "0",
     "no prompt is cached: what is in M_max is all there is"},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro --slot-save-path", H_REFUSE, NULL, "no prompt is kept from run to run"},
    {"--keep", H_ONLY, "0 -1", "the context never shifts, so all of it is kept"},
    {"-gan --grp-attn-n", H_ONLY, "1", "positions are those that the model was trained with"},
    {"-gaw --grp-attn-w", H_REFUSE, NULL, "positions are those that the model was trained with"},
    {"--context-shift", H_REFUSE, NULL, "what is over the bound is refused, never dropped: a larger -c"},
    {"-C --cpu-mask -Cr --cpu-range -Cb --cpu-mask-batch -Crb --cpu-range-batch", H_REFUSE, NULL,
     "use taskset -c 0-3 dctms ..., which is obeyed"},
    {"--numa", H_REFUSE, NULL, "use numactl ... dctms ..., which is obeyed"},
    {"--prio --prio-batch", H_ONLY, "0", "use nice -n N dctms ..., which is obeyed"},
    {"--cpu-strict --cpu-strict-batch", H_ONLY, "0", "use taskset -c 0-3 dctms ..., which is obeyed"},
    {"-embd --embedding --embeddings", H_ONLY, "0", "only text is made, no embeddings"},
    {"--pooling --rerank --reranking", H_REFUSE, NULL, "only text is made, no embeddings"},
    {"-oe --output-err", H_REFUSE, NULL, "-o FORMAT goes to standard output; run it again for another"},
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo", H_REFUSE, NULL, FETCH},
    {"-mm --mmproj -mmu --mmproj-url --image --audio --video --image-min-tokens --image-max-tokens", H_REFUSE, NULL, TEXT},
    {"-md --model-draft -hfd --hf-repo-draft --draft --draft-n --draft-max --draft-n-max --draft-min --draft-n-min --draft-p-min "
     "--draft-p-split --spec-type --spec-draft-model --spec-draft-hf --spec-replace -ngld --gpu-layers-draft "
     "--n-gpu-layers-draft -devd --device-draft -ctkd --cache-type-k-draft -ctvd --cache-type-v-draft -cd --ctx-size-draft -td "
     "--threads-draft -tbd --threads-batch-draft -cmoed --cpu-moe-draft -ncmoed --n-cpu-moe-draft -lcs --lookup-cache-static "
     "-lcd --lookup-cache-dynamic", H_REFUSE, NULL, DRAFT},
    {"--lora --lora-scaled --control-vector --control-vector-scaled", H_REFUSE, NULL,
     "weights are used as the file has them: merge the adapter into it first"},
    {"--override-kv", H_REFUSE, NULL, "metadata are those of the file (dctms inspect shows them)"},
    {"--rope-freq-base --rope-freq-scale --rope-scale --rope-scaling --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor "
     "--yarn-beta-slow --yarn-beta-fast", H_REFUSE, NULL, ROPE},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file --format", H_REFUSE, NULL, GRAMMAR},
    {"--mirostat --dynatemp-range --dry-multiplier --xtc-probability", H_ONLY, "0 0.0", SAMPLERS},
    {"--typical --typical-p --tfs", H_ONLY, "1 1.0", SAMPLERS},
    {"--top-nsigma --top-n-sigma", H_ONLY, "-1 -1.0 0", SAMPLERS},
    {"--samplers --sampler-seq --sampling-seq --mirostat-lr --mirostat-ent --dry-base --dry-allowed-length "
     "--dry-penalty-last-n --dry-sequence-breaker --dynatemp-exp --xtc-threshold --adaptive-target --adaptive-decay -bs "
     "--backend-sampling",
     H_REFUSE, NULL, SAMPLERS},
    {"--chat-template-file --chat-template-kwargs", H_REFUSE, NULL, "use --chat-template NAME, or your own text with -no-cnv"},
    {"-rea --reasoning --reasoning-format --reasoning-budget", H_ONLY, "none auto -1 off", AS_WRITTEN},
    {"--think --hidethinking", H_REFUSE, NULL, AS_WRITTEN},
    {"-sysf --system-prompt-file", H_REFUSE, NULL, "use -sys \"$(cat FILE)\""},
    {"-bf --binary-file --prompt-file", H_REFUSE, NULL, "use -f FILE"},
    {"-e --escape", H_REFUSE, NULL, "a text is taken as it stands; in bash $'a\\nb' holds a newline"},
    {"--display-prompt", H_REFUSE, NULL, "the answer alone is printed"},
    {"-ptc --print-token-count", H_REFUSE, NULL, "the counts stand in the last lines, and in --json"},
    {"-i --interactive -if --interactive-first -mli --multiline-input", H_REFUSE, NULL, "without a prompt it is a chat"},
    {"--in-prefix --in-suffix --in-prefix-bos", H_REFUSE, NULL, "a chat template does that: the file's, or --chat-template NAME"},
    {"--verbose-prompt", H_REFUSE, NULL, "use dctms tokenize -p TEXT"},
    {"-sp --special", H_REFUSE, NULL, "control tokens are not printed; --json has their ids"},
    {"--n-probs -ppl --perplexity", H_REFUSE, NULL, "use dctms score FILE -f TEXT, with --save-logits for every logit"},
    {"--log-file", H_REFUSE, NULL, LOG},
    {"--num-ctx --max-kv-size --max-model-len --n-ctx", H_REFUSE, NULL, "use -c N, the whole context: input and output"},
    {"--num-predict --max-tokens --max-new-tokens", H_REFUSE, NULL, "use -n N"},
    {"--num-thread --num-threads", H_REFUSE, NULL, "use -t N"},
    {"--system", H_REFUSE, NULL, "use -sys TEXT"},
    {"-cb --cont-batching --keepalive --host --port --api-key --metrics --slots --alias -a", H_REFUSE, NULL, SERVER},
    {"--version", H_REFUSE, NULL, "use dctms --version"},
};

static const struct {
    const char *names, *instead;
} verb_habits[] = {
    {"chat cli generate complete completion simple main llama-cli llama-simple", "dctms run FILE: a chat, or with -p an answer"},
    {"show info dump metadata", "dctms inspect FILE"},
    {"perplexity ppl evaluate", "dctms score FILE -f TEXT"},
    {"fit estimate memory", "dctms plan FILE"},
    {"benchmark llama-bench", "dctms bench FILE"},
    {"serve server", SERVER},
    {"pull list ls ps rm cp push create stop download", "models are files that you have: dctms run FILE.gguf"},
    {"quantize convert", "a file runs in the type it has: quantise it with llama.cpp, or fetch it in another"},
};

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0) return true;
        at += length;
    }
    return false;
}

static bool is_switch(const char *value) {
    return value != NULL && (has_word("on off auto true false", value) || strspn(value, "01,") == strlen(value));
}

cli_habit cli_take_habit(const char *flag, const char *value, bool is_joined) {
    const habit *h = habits, *end = habits + sizeof habits / sizeof *habits;
    while (h < end && !has_word(h->names, flag)) h++;
    if (h == end) return CLI_HABIT_NONE;
    bool wants_value = h->kind == H_VALUE || h->kind == H_ONLY;
    if (wants_value && value == NULL) {
        cli_usage("%s needs a value", flag);
        return CLI_HABIT_REFUSED;
    }
    if (h->kind == H_REFUSE || (h->kind == H_ONLY && !has_word(h->only, value))) {
        cli_usage("%s%s%s: %s", flag, wants_value ? " " : "", wants_value ? value : "", h->instead);
        return CLI_HABIT_REFUSED;
    }
    bool takes_next = !is_joined && (wants_value || (h->kind == H_SWITCH && is_switch(value)));
    return takes_next ? CLI_HABIT_TAKEN_WITH_VALUE : CLI_HABIT_TAKEN;
}

static bool is_model(const char *word) {
    static const char *const ends[] = {".gguf", ".onnx", ".safetensors"};
    size_t n = strlen(word);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(ends[i]);
        if (n > length && strcmp(word + n - length, ends[i]) == 0) return true;
    }
    return strchr(word, '/') != NULL;
}

int cli_unknown_verb(const char *verb) {
    if (verb[0] == '-' || is_model(verb)) return cli_usage("a verb comes first: dctms run %s ... (dctms --help)", verb);
    for (size_t i = 0; i < sizeof verb_habits / sizeof *verb_habits; i++)
        if (has_word(verb_habits[i].names, verb)) return cli_usage("unknown verb '%s': %s", verb, verb_habits[i].instead);
    return cli_usage("unknown verb '%s' (dctms --help lists them)", verb);
}
