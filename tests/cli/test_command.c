/* The command as users meet it: argv in; exit code, stdout and stderr out.
 *
 *   table of cases     code, the first words of stderr, something that stdout holds
 *   outputs            none destroys an input; what cannot be written is said
 *   JSON               keys and types are the contract of DESIGN §6; regions and items add up
 */
#define WORK DCT_BINARY_DIR "/test_command."
#define STOP_16 "0123456789abcdef"
#define STOP_64 STOP_16 STOP_16 STOP_16 STOP_16
#define STOP_256 STOP_64 STOP_64 STOP_64 STOP_64

#include "cli/command_support.h"
#include "support/emulated.h"

static int make_files(void **state) {
    (void)state;
    begin_files();
    make_texts();
    make_nan_model("nan.gguf");
    make_model("plain.gguf", "tokenizer.chat_template", "tokenizer.chat_wemplate");
    make_model("alien.gguf", "qwen2vl", "qwen9vl");
    make_model("mute.gguf", "tokenizer.ggml.tokens", "tokenizer.ggml.wokens");
    size_t n, at = 0;
    char *bytes = read_whole(MODEL, &n);
    write_whole("cut.gguf", bytes, n / 2);
    write_whole("short.gguf", bytes, 100);
    write_whole("last.gguf", bytes, n - 1);
    while (memcmp(bytes + at, "tokenizer.chat_template", 23) != 0) at++;
    uint64_t n_template;
    memcpy(&n_template, bytes + at + 27, sizeof n_template); /* key, type, length */
    replace_all(bytes + at + 35, n_template, "im_start", "qq_start");
    replace_all(bytes + at + 35, n_template, "im_end", "qq_end");
    write_whole("foreign.gguf", bytes, n);
    free(bytes);
    static const char pools[] =
        "id,lower,upper,size,alias,pool\na,0,3,64,,fast\nb,2,5,64,a,fast\nc,4,9,16,b@48,fast\nd,0,9,80,,slow\n";
    char head[20] = "DCTLOGIT";
    memcpy(head + 8, (uint32_t[2]){10, 1536}, 8);
    write_whole("cut.logits", head, sizeof head);
    write_whole("pools.csv", pools, sizeof pools - 1);
    char *text = malloc(200000);
    memset(text, 'a', 200000);
    write_whole("big.txt", text, 200000);
    free(text);
    return 0;
}

/* ---- the table ---- */

typedef struct command_case {
    const char *line, *input; /* input: standard input */
    int code;
    const char *err, *out;    /* stderr begins with, stdout holds; NULL: nothing at all */
} command_case;

static const command_case cases[] = {
    /* 0 */
    {"pack $Wpools.csv --capacity 1K --capacity slow=80", "", 0, NULL, "4 items, load 144, height 144 (1.0000 of load), optimal"},
    {"--help", "", 0, NULL, "Exit codes"},
    {"--version", "", 0, NULL, "dctms "},
    {"run --help", "", 0, NULL, "--seal HOW"},
    {"plan $M -c 256 -n 16", "", 0, NULL, "M_max"},
    {"plan $M -c 256 -n 16 -o $Wplan --svg $Wsvg --html $Whtml", "", 0, NULL, "M_max"},
    {"plan $M -c 256 -n 16 --concurrency", "", 0, NULL, "linear blk.*.q | linear blk.*.k | linear blk.*.v\n"},
    {"plan --diff $Wplan $M -c 256 -n 16", "", 0, NULL, "the same plan, byte for byte"},
    {"plan --diff $Wplan $M -c 512 -n 16", "", 0, NULL, "            256 ->            512           +256  ctx\n"},
    {"plan --diff $Wplan $M -c 512 -n 16 --json", "", 0, NULL, "\"differences\": ["},
    {"plan $Wplan", "", 0, NULL, "M_max"},
    {"plan $M -c 256 -n 16 -o $Wplan.onnx", "", 0, NULL, "M_max"},
    {"plan -m $Wplan --paper --svg $Wsvg --phase decode --html $Whtml", "", 0, NULL, "buffers"},
    {"plan $Wplan.onnx", "", 0, NULL, "M_max"},
    {"plan $Wplan --concurrency", "", 1, "dctms: --concurrency does not go with a plan file", NULL},
    {"plan $Wplan --svg $Wplan", "", 1, "dctms: " WORK "plan would be written over", NULL},
    {"verify $Wplan", "", 0, NULL, "verified (alone"},
    {"verify $Wplan $M", "", 0, NULL, "verified\n"},
    {"run $M --plan $Wplan -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"plan $M -c 256 -n 16 --overlap -o $Woverlap --svg $Wsvg --html $Whtml", "", 0, NULL, "\ntogether  "},
    {"plan $M -c 256 -n 16 --overlap --text", "", 0, NULL, "\ncertificate of both together: load "},
    {"plan $M -c 256 -n 16 --overlap --json", "", 0, NULL, "\"overlap\": true"},
    {"plan --diff $Wplan $Woverlap", "", 0, NULL, "             no ->            yes                 overlap\n"},
    {"plan --diff $Woverlap $M -c 256 -n 16 --overlap", "", 0, NULL, "the same plan, byte for byte"},
    {"verify $Woverlap $M", "", 0, NULL, "verified\n"},
    {"run $M --plan $Woverlap -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"plan $M --overlap --emit docker", "", 1, "dctms: --emit with --overlap: run has no such flag", NULL},
    {"inspect $M", "", 0, NULL, "qwen2vl"},
    {"run --usage", "", 0, NULL, "--ctx-size"},
    {"synth tiny-qwen2 --header -o $Wheader.gguf", "", 0, NULL, ""},
    {"plan $Wheader.gguf -c 256 -n 16", "", 0, "note: the data of " WORK "header.gguf is missing", "M_max"},
    {"plan $M --ctx-steps 64:32,256:16,1024:4 -n 16 -o $Wfamily", "", 0, NULL, "in the envelope"},
    {"plan $Wfamily --text", "", 0, NULL, "---- context 64 = 48 in + 16 out, ubatch 32 ----\n"},
    {"verify $Wfamily", "", 0, NULL, "verified (alone"},
    {"verify $Wfamily $M", "", 0, NULL, "verified\n"},
    {"verify $Wfamily $Wplain.gguf", "", 2, "dctms: " WORK "family: MODEL_MISMATCH", NULL},
    {"run $M --plan $Wfamily -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"plan $M --ctx-steps 64:32,256 -ub 4 -n 16 --text", "", 0, NULL, "---- context 64 = 48 in + 16 out, ubatch 32 ----\n"},
    {"plan $M --ctx-steps 64:32,256 -ub 4 -n 16 --json", "", 0, NULL, "\"family\": ["},
    {"plan $M --ctx-steps 64:32,256:8 -n 16 --emit systemd", "", 0, NULL, "\"--ctx-steps\" \"64:32,256:8\" \"-n\" \"16\""},
    {"plan $M --ctx-steps 64,256 -n 16 --memory-budget 100M", "", 0, NULL, "in the envelope"},
    {"plan $M --ctx-steps 64,256 -n 16 --memory-budget 1M", "", 3, "dctms: needs at least", NULL},
    {"plan $M --ctx-steps 256,64", "", 1, "dctms: context steps ascend: 64 after 256", NULL},
    {"plan $M --ctx-steps 64,256 -c 512", "", 1, "dctms: a context of 512 tokens is not the last of the steps, 256", NULL},
    {"plan $M --ctx-steps 64:0,256", "", 1, "dctms: --ctx-steps: '64:0,256' is no list of at most 8 contexts", NULL},
    {"plan $M --ctx-steps 64,", "", 1, "dctms: --ctx-steps: '64,' is no list", NULL},
    {"plan $M --ctx-steps 99999999999", "", 1, "dctms: --ctx-steps: '99999999999' is no list", NULL},
    {"plan $M --ctx-steps 1,2,3,4,5,6,7,8,9", "", 1, "dctms: --ctx-steps: ", NULL},
    {"plan $M --ctx-steps 64:32,256:4 -n 16 --svg $Wfamily.svg --html $Wfamily.html --paper", "", 0, NULL, "while the context is at most 64: N = 48, M = 16\n"},
    {"plan $M --ctx-steps 64:32,256:4 -n 16 --concurrency", "", 0, NULL, "\n---- context 64 ----\n"},
    {"plan --diff $Wfamily $M --ctx-steps 64:16,256:16,1024:4 -n 16", "", 0, NULL, "context 64: bounds\n             32 ->             16            -16  ubatch\n"},
    {"plan --diff $Wfamily $M --ctx-steps 64:32,1024:4 -n 16", "", 0, NULL, "              3 ->              2             -1  members\n"},
    {"plan $M $Wplain.gguf --exclusive --ctx-steps 64:32,256:4 -n 16", "", 0, NULL, "  context 64, ubatch 32  "},
    {"plan $M $Wplain.gguf --concurrent --ctx-steps 64:32,256:4 -n 16 --json", "", 0, NULL, "\"family\": ["},
    {"run $M $Wplain.gguf --exclusive --ctx-steps 8:4,16:4,256:2 -n 64 --ignore-eos --temp 0 --json -p hello", "", 0, NULL, "\"finish_reason\": \"length\""},
    {"run $M --ctx-steps 64,256 --plan $Wfamily -p x", "", 1, "dctms: --ctx-steps does not go with --plan", NULL},
    {"plan $M $Wplain.gguf --exclusive -c 256 -n 16", "", 0, NULL, "together"},
    {"plan $M $Wplain.gguf --concurrent -c 256 -n 16 --json", "", 0, NULL, "\"mode\": \"concurrent\""},
    {"plan $M $M --exclusive -c 256 -n 16 --memory-budget 1M", "", 3, "dctms: needs at least ", NULL},
    {"run $M $M --exclusive -c 256 -n 16 -p x --memory-budget 1M", "", 3, "dctms: needs ", NULL},
    {"run $M $M --exclusive -c 256 -n 16 -p x -f $Wfew.txt", "", 1, "dctms: --file does not go with several models", NULL},
    {"plan $M $M -c 256", "", 1, "dctms: several models: say --exclusive", NULL},
    {"plan $M $M -c 256 --exclusive --concurrent", "", 1, "dctms: several models: say --exclusive", NULL},
    {"plan $M --exclusive", "", 1, "dctms: --exclusive and --concurrent are about several models", NULL},
    {"plan $M $M --exclusive -o $Wnew", "", 1, "dctms: --output does not go with several models", NULL},
    {"plan $M $Wshort.gguf --exclusive", "", 2, "dctms: ", NULL},
    {"run $M $Wplain.gguf --exclusive -c 256 -n 4 --temp 0 -q -p hello", "", 0, NULL, "\n"},
    {"run $M $Wplain.gguf --exclusive -c 256 -n 4 -p hello", "", 0, "sampling: temp 0.8", "\n"},
    {"run $M $M --concurrent -c 256 -n 4 --temp 0 --json -p hello", "", 0, NULL, "\"mallocs_after_ready\": 0"},
    {"run $M $Wcut.gguf --exclusive -c 256 -p hello", "", 2, "dctms: ", NULL},
    {"run $M What is up", "", 1, "dctms: What: no such file; a prompt is given with -p", NULL},
    {"run $M $M --exclusive", "hello", 1, "dctms: several models answer one prompt", NULL},
    {"tokenize $M -p hello --ids", "", 0, NULL, "\n"},
    {"score $M -f $Wfew.txt", "", 0, "M_max ", "perplexity"},
    {"score $M -f -", "0123456789", 0, "M_max ", "tokens 10,"},
    {"score $M -f $Wfew.txt --save-logits $Wlogits", "", 0, "M_max ", "tokens 10,"},
    {"score $M -f $Wline.txt --kl $Wlogits", "", 0, "M_max ", "mean 0.00000000, max 0.00000000; same top token 10 of 10"}, /* but for a newline the same */
    {"tokenize $M -f $Wline.txt --ids", "", 0, NULL, " 24 198\n"},
    {"plan $M -c 2048", "", 0, NULL, "fits     yes"},
    {"plan $M -n 64 --memory-budget 17M --budget-ctx 64", "", 0, "note: a context of 976 tokens", "fits     yes"},
    {"plan $M -c 2049", "", 0, "warning: a context of 2049 tokens, Tiny VL was trained for 2048", "fits     yes"},
    {"run $M -c 2049 -n 2 -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"run $M -c 2049 -n 2 -p hello --temp 0", "", 0, "warning: a context of 2049 tokens", "\n"},
    {"run $M -c 256 -n 4 --temp 0 -p hello", "", 0, "the answer is cut off at 4 tokens, its bound: -n\n", "\n"},
    {"score $M -n 4 -f -", "0123456789", 1, "dctms: ", NULL},
    {"bench $M -p 0 -n 2000 -r 100", "", 1, "dctms: 100 repetitions: the times of at most 131072 tokens", NULL},
    {"run $M -c 256 -n 4 --temp 0 -q", "hello", 0, NULL, "\n"}, /* the prompt from standard input */
    {"run $Wplain.gguf -c 256 -n 4 --temp 0 -q -p hello", "", 0, NULL, "\n"}, /* no template: completed as it stands */
    {"run $Wforeign.gguf -c 256 -n 4 --temp 0 -q -p hello -no-cnv", "", 0, NULL, "\n"},
    {"run $Wforeign.gguf -c 256 -n 4 --temp 0 -q -p hello --chat-template chatml", "", 0, NULL, "\n"},
    {"run $M -c 256 -n 4 --temp 0 -q -p hello --alloc dynamic", "", 0, NULL, "\n"},
    /* what changes nothing here is taken out of habit, with its value, and nothing else is swallowed */
    {"run $M -c 256 -n 4 --temperature 0 -q -p hello -ngl 0 --jinja -fa on -fa --no-mmap -b 512 -tb 2 --color --poll 50 -np 1", "",
     0, NULL, "\n"},
    {"run -fa $M -c 256 -n 4 --temp 0 -q -p hello --n-gpu-layers=0 --flash-attn=off --fit off", "", 0, NULL, "\n"},
    {"plan $M -c 256 -n 16 --log-verbose --no-log-prefix -kvo 1 --draft", "", 1, "dctms: --draft: there are no draft models", NULL},
    {"plan $M -c 256 -n 16 -gan 1 --show-timings --poll-batch 1 -rea off", "", 0, NULL, "M_max"},
    {"bench -m $M -p 8 -n 0 -r 1 --no-roofline -fa 0,1 -mmp 0 -nkvo 0 -nopo 1 -v -embd 0", "", 0, NULL, "pp8"},
    {"plan $M -c 256 -n 16 -b 512 --no-warmup -dev none", "", 0, NULL, "M_max"},
    /* 1 */
    {"", "", 1, NULL, "dctms run"},
    {"fly", "", 1, "dctms: unknown verb 'fly'", NULL},
    {"run --fly", "", 1, "dctms: --fly: no such flag", NULL},
    {"run --a-flag-that-is-far-longer-than-any-flag-of-ours-could-ever-be-in-good-taste=1", "", 1, "dctms: --a-flag", NULL},
    {"run -c", "", 1, "dctms: -c needs a value", NULL},
    {"run -c ten", "", 1, "dctms: --ctx-size: 'ten'", NULL},
    {"run $M -p x -c 16 -n 16", "", 1, "dctms: a context of 16 tokens leaves no room", NULL},
    {"run $M -p x --alloc bogus", "", 1, "dctms: --alloc: 'bogus'", NULL},
    {"run $M -p x --seal onn", "", 1, "dctms: --seal: 'onn'", NULL},
    {"run $M -p x --alloc dynamic --seal on", "", 1, "dctms: --alloc dynamic", NULL},
    {"run $M -ngl 99 -p x", "", 1, "dctms: -ngl 99: this runs on the processor; only 0 is accepted", NULL},
    {"run $M --gpu-layers=99 -p x", "", 1, "dctms: --gpu-layers 99: this runs on the processor", NULL},
    {"run $M -p x -ngl", "", 1, "dctms: -ngl needs a value", NULL},
    {"run $M -p x --image cat.png", "", 1, "dctms: --image: only text goes in", NULL},
    {"run $M -p x --max-tokens 9", "", 1, "dctms: --max-tokens: use -n N", NULL},
    {"run -hf owner/name", "", 1, "dctms: -hf: nothing is downloaded", NULL},
    {"plan $M --temp 0", "", 1, "dctms: --temp: no such flag for 'plan'; it is one of run (", NULL},
    {"inspect $M -c 8", "", 1, "dctms: -c: no such flag for 'inspect'; it is one of plan, run, bench, protocol, score (", NULL},
    {"inspect $M -ngl 0", "", 1, "dctms: -ngl: no such flag for 'inspect' (", NULL},
    {"-m $M -p hello", "", 1, "dctms: a verb comes first: dctms run -m ...", NULL},
    {"$M", "", 1, "dctms: a verb comes first: dctms run ", NULL},
    {"pull llama3", "", 1, "dctms: unknown verb 'pull': models are files that you have", NULL},
    {"run $M -p x --memory-budget much", "", 1, "dctms: --memory-budget: 'much' is no size", NULL},
    {"run $M -ctk q4_0 -p x", "", 1, "dctms: 'q4_0' is no type", NULL},
    {"run $M -cnv --json", "", 1, "dctms: --json shows one answer", NULL},
    {"run $M -c 256 -n 4 -p x --chat-template zz", "", 1, "dctms: unknown chat template zz; name one of chatml", NULL},
    {"run $Wforeign.gguf -c 256 -n 4 -p x", "", 1, "dctms: the file's chat template is not one we know; name one of", NULL},
    {"run $Wplain.gguf -c 256 -n 4 -cnv", "", 1, "dctms: the file has no chat template; name one of", NULL},
    {"run $Wplain.gguf -c 256 -n 4 -cnv -p x", "", 1, "dctms: the file has no chat template; name one of", NULL},
    {"score $M", "", 1, "dctms: score needs a text", NULL},
    {"score $M -f $Wfew.txt --seal onn", "", 1, "dctms: --seal: 'onn'", NULL},
    {"plan --diff $Wplan", "", 1, "dctms: usage: dctms plan --diff A B", NULL},
    {"plan --diff $Wplan /nonexistent", "", 2, "dctms: /nonexistent", NULL},
    {"plan $M --phase decoding --svg $Wsvg", "", 1, "dctms: --phase: 'decoding' is neither prefill nor decode", NULL},
    {"run $Wplain.gguf -p x -sys y", "", 1, "dctms: --system-prompt is a chat's, and the file has no chat template", NULL},
    {"run $M -p x -c 64 -n 0", "", 1, "dctms: --n-predict: '0' is neither a number from 1 nor -1", NULL},
    {"run $M -p x --plan $Wplan -n -5", "", 1, "dctms: --n-predict: '-5' is neither", NULL},
    {"plan $0", "", 1, "dctms: the model's name is empty", NULL},
    {"run -m $0 -p x", "", 1, "dctms: the model's name is empty", NULL},
    {"verify $0", "", 1, "dctms: a file's name is empty", NULL},
    {"plan $M -ctk $0", "", 1, "dctms: --cache-type-k: '' is not a value", NULL},
    {"run $M -p x --chat-template=", "", 1, "dctms: --chat-template: '' is not a value", NULL},
    {"run $M -p x -r $0", "", 1, "dctms: --reverse-prompt: a text of 1 to 255 bytes is expected", NULL},
    {"run $M -p x -r " STOP_256, "", 1, "dctms: --reverse-prompt: a text of 1 to 255 bytes is expected", NULL},
    {"run $Wcut.gguf -p x -l 1536+1", "", 1, "dctms: --logit-bias: there is no token 1536, the vocabulary has 1536", NULL}, /* seen before the weights */
    {"plan $M --budget-ctx 256", "", 1, "dctms: a least context of 256 tokens says what a budget may take", NULL},
    {"plan $M -c 200 --memory-budget 17M --budget-ctx 256", "", 1, "dctms: a least context of 256 tokens is more than the context of 200", NULL},
    {"run $M --plan $Wplan -p x --budget-ctx 64", "", 1, "dctms: --budget-ctx does not go with --plan", NULL},
    {"pack $Wpools.csv --capacity fast=x", "", 1, "dctms: --capacity: 'fast=x' is not a value for it", NULL},
    {"pack $Wpools.csv --capacity medium=1K", "", 1, "dctms: a capacity for 'medium', which is no pool", NULL},
    {"pack $Wfew.txt --seconds -1", "", 1, "dctms: --seconds -1", NULL},
    /* 2 */
    {"run $Wnan.gguf -c 64 -n 4 -p x", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"run $Wnan.gguf -c 64 -n 4 -p x --alloc dynamic", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"score $Wnan.gguf -f $Wfew.txt", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"plan $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"plan llama3:8b", "", 2, "dctms: llama3:8b: no such file or directory, and nothing is downloaded", NULL},
    {"plan https://host/a.gguf", "", 2, "dctms: https://host/a.gguf: no such file or directory, and nothing is downloaded", NULL},
    {"plan /", "", 2, "dctms: /: no config.json in this directory; of GGUF files name one", NULL},
    {"plan $Wshort.gguf", "", 2, "dctms: " WORK "short.gguf: ", NULL},
    {"run $Wcut.gguf -p x", "", 2, "dctms: " WORK "cut.gguf: the weights are cut off in tensor '", NULL},
    {"run $Wheader.gguf -p x", "", 2, "dctms: " WORK "header.gguf: the weights are cut off in tensor '", NULL},
    {"run $Wlast.gguf -p x", "", 2, "dctms: " WORK "last.gguf: the weights are cut off in tensor 'output_norm.weight' (bytes 5569504 to 5570528): the file has 5570527 bytes, 5570528 are needed", NULL},
    {"score $Wcut.gguf -f $Wfew.txt", "", 2, "dctms: " WORK "cut.gguf: ", NULL},
    {"plan $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"inspect $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"tokenize $Wbig.txt -p x", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"bench $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"plan $Walien.gguf", "", 2, "dctms: " WORK "alien.gguf: unsupported architecture", NULL},
    {"tokenize $Wmute.gguf -p x", "", 2, "dctms: " WORK "mute.gguf: ", NULL},
    {"plan $Wmute.gguf", "", 2, "dctms: " WORK "mute.gguf: ", NULL},
    {"verify $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a plan file", NULL},
    {"verify $Wplan $Wplain.gguf", "", 2, "dctms: " WORK "plan: MODEL_MISMATCH: the plan was made for another model (", NULL},
    {"run $Wplain.gguf -p x --plan $Wplan", "", 2, "dctms: " WORK "plan: the plan was made for another model", NULL},
    {"run $M -p x --plan $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a plan file", NULL},
    {"run $M -f $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"run $M -f /", "", 2, "dctms: /: ", NULL},
    {"score $M -f $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"score $M -f $Wfew.txt --kl $Wbig.txt", "", 2, "dctms: " WORK "big.txt: no file of saved logits", NULL},
    {"score $M -f $Wfew.txt --kl $Wshort.gguf", "", 2, "dctms: " WORK "short.gguf: ", NULL},
    {"score $M -f $Wfew.txt --kl $Wcut.logits", "", 2, "dctms: " WORK "cut.logits: the file is cut off: it has 20 bytes, 61456 are needed", NULL},
    {"pack $Wbig.txt", "", 2, "dctms: " WORK "big.txt: ", NULL},
    /* 3 */
    {"pack $Wpools.csv --capacity 1K --capacity slow=79", "", 3, "dctms: pool 'slow': the capacity is 79", "pool 'fast': 3 items, load 64"},
    {"plan $M --memory-budget 1M", "", 3, "dctms: ", NULL},
    {"run $M -p x --memory-budget 1M", "", 3, "dctms: ", NULL},
    {"plan $M --memory-budget 0", "", 3, "dctms: needs at least ", NULL},
    {"plan $M --memory-budget 1M --budget-ctx 256", "", 3, "dctms: needs at least ", NULL},
    {"plan $M -c 2048 -n 64 --memory-budget 17M", "", 3, "dctms: needs at least ", NULL},
    {"run $M -p x --memory-budget 0K", "", 3, "dctms: needs at least ", NULL},
    /* 4 */
    {"run $M -c 2 -n 1 -no-cnv -q -p how-are-you-and-how-is-everybody-over-there-in-Spain", "", 4, "dctms: the prompt has 33 tokens, the bound is 1 (a context of 2 less 1 of output)", NULL},
    {"run $M -c 2 -n 1 -q -p how-are-you-and-how-is-everybody-over-there-in-Spain", "", 4, "dctms: the prompt has 41 tokens, the bound is 1", NULL},
    {"run $M -c 64 -n 16 --temp 0 -no-cnv -f $Wlong.txt", "", 4, "dctms: the prompt has at least 438 tokens, the bound is 48", NULL},
    {"run $M -c 64 -n 16 --temp 0 -f $Wlong.txt", "", 4, "dctms: the prompt has at least 438 tokens, the bound is 48", NULL},
    {"run $M -c 2048 -n 16 --temp 0 -no-cnv -q -f $Wlong.txt", "", 4, "dctms: the prompt has 3903 tokens, the bound is 2032", NULL},
    {"run $M -c 4096 -n 16 --temp 0 -q -f $Wbig.txt", "", 4, "dctms: the prompt has at least 12500 tokens, the bound is 4080", NULL},
};

/* Where the system has no filter the first line of a run says so. */
static const char *behind_seal(const char *text) {
    static const char line[] = "seal: a promise only on this system\n";
    return text + (strncmp(text, line, sizeof line - 1) == 0 ? sizeof line - 1 : 0);
}

static void check_case(const command_case *k) {
    child c = start(k->line);
    signal(SIGPIPE, SIG_IGN);
    (void)!write(c.in, k->input, strlen(k->input));
    expect_code(&c, k->line, k->code);
    if (k->err == NULL ? c.n[1] != 0 : strncmp(behind_seal(c.text[1]), k->err, strlen(k->err)) != 0) fail_msg("dctms %s: stderr is '%s'", k->line, c.text[1]);
    if (k->out == NULL ? c.n[0] != 0 : strstr(c.text[0], k->out) == NULL) fail_msg("dctms %s: stdout is '%s'", k->line, c.text[0]);
    drop(&c);
}

static void every_command_answers_as_stated(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* ---- lists that are full ---- */

static void refuse_one_more(const char *flag, const char *value, int most, const char *message) {
    char line[4096];
    int n = snprintf(line, sizeof line, "run $M -c 64 -n 2 -q --temp 0 -p x");
    for (int i = 0; i < most; i++) n += snprintf(line + n, sizeof line - (size_t)n, " %s %s", flag, value);
    child c = start(line);
    expect_code(&c, line, 0);
    drop(&c);
    snprintf(line + n, sizeof line - (size_t)n, " %s %s", flag, value);
    c = start(line);
    expect_code(&c, line, 1);
    assert_string_equal(c.text[1], message);
    drop(&c);
}

static void a_full_list_says_how_many(void **state) {
    (void)state;
    refuse_one_more("-l", "7+0", 64, "dctms: --logit-bias: at most 64 may be given\n");
    refuse_one_more("-r", "zebra", 16, "dctms: --reverse-prompt: at most 16 may be given\n");
}

/* ---- outputs ---- */

/* An output that is an input under any name is refused, and the input is as it was. */
static void no_output_destroys_an_input(void **state) {
    (void)state;
    static const char *const lines[] = {
        "plan $Wmine -o $Wmine", "plan $Wmine --svg $Wsymbolic", "plan $Wsymbolic -o $Wmine", "plan $Wmine -o $Whard", "plan -m $Wmine -o $Wmine",
        "plan $M -o $Wnew --svg $Wnew", "plan $M -o $Wnew --svg " DCT_BINARY_DIR "/./test_command.new", "plan $M -o -", "plan $M --svg -",
        "plan $Wmine --html $Whard", "plan $M --svg $Wnew --html $Wnew",
        "plan $Wpart-00001-of-00002.gguf -o $Wpart-00002-of-00002.gguf",
        "score $Wmine -f $Wfew.txt --save-logits $Wmine", "score $M -f $Wmine --save-logits $Whard", "score $M --ids-file $Wmine --save-logits $Wmine",
        "score $M -f $Wfew.txt --kl $Wmine --save-logits $Wsymbolic", "pack $Wmine -o $Wmine", "pack $Wmine --svg $Whard",
        "pack $Wfew.txt -o $Wnew --svg $Wnew", "synth tiny-qwen2 -o -",
    };
    static const char *const names[] = {"mine", "symbolic", "hard", "new", "part-00001-of-00002.gguf", "part-00002-of-00002.gguf"};
    size_t n_before, n_after;
    char *before = read_whole(MODEL, &n_before);
    write_whole("mine", before, n_before);
    write_whole("part-00001-of-00002.gguf", before, n_before);
    write_whole("part-00002-of-00002.gguf", before, n_before);
    unlink(WORK "symbolic");
    unlink(WORK "hard");
    assert_true(symlink(WORK "mine", WORK "symbolic") == 0 && link(WORK "mine", WORK "hard") == 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        child c = start(lines[i]);
        expect_code(&c, lines[i], 1);
        assert_int_equal(count_of(c.text[1], "\n"), 1);
        drop(&c);
        for (size_t k = 0; k < 2; k++) {
            char *after = read_whole(k == 0 ? WORK "mine" : WORK "part-00002-of-00002.gguf", &n_after);
            if (n_after != n_before || memcmp(before, after, n_before) != 0) fail_msg("dctms %s: the input is gone", lines[i]);
            free(after);
        }
        assert_int_not_equal(access(WORK "new", F_OK), 0);
    }
    child c = start("plan $M -c 64 -n 4 -o /dev/null --svg /dev/null"); /* which nothing destroys */
    expect_code(&c, "two outputs that are a device", 0);
    drop(&c);
    char shell[1024];
    snprintf(shell, sizeof shell, "'%s' plan '%s' -c 64 -n 4 --svg /dev/stdout > '%snew' 2>&1", COMMAND, MODEL, WORK);
    assert_int_equal(WEXITSTATUS(system(shell)), 1); /* which would be replaced while it is written */
    unlink(WORK "new");
    unlink(WORK "symbolic");
    assert_int_equal(symlink(WORK "new", WORK "symbolic"), 0);
    c = start("plan $M -c 64 -n 4 -o $Wsymbolic");
    expect_code(&c, "an output that is a link to nothing", 5);
    assert_non_null(strstr(c.text[1], "the file that this link names: No such file or directory"));
    drop(&c);
    struct stat link_itself;
    assert_true(lstat(WORK "symbolic", &link_itself) == 0 && S_ISLNK(link_itself.st_mode) && access(WORK "new", F_OK) != 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", WORK, names[i]);
        unlink(path);
    }
    free(before);
}

/* 5: what cannot be written. */
static void a_full_disk_is_reported(void **state) {
    (void)state;
    int code = system(COMMAND " --help >/dev/full 2>/dev/null");
    assert_int_equal(WEXITSTATUS(code), 5);
}

/* 141: a reader that has gone ends any verb the same way, and without a word. */
static void a_closed_pipe_ends_quietly(void **state) {
    (void)state;
    static const char *const lines[] = {"plan $M", "inspect $M", "run $M -p hi -c 128 -n 4 -q", "score $M -f $Wfew.txt",
                                        "bench $M -p 8,16 -n 4 -r 1 --no-roofline", "--help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        nobody_reads = true;
        child c = start(lines[i]);
        nobody_reads = false;
        expect_code(&c, lines[i], 141);
        if (strstr(c.text[1], "dctms:") != NULL) fail_msg("dctms %s: stderr is '%s'", lines[i], c.text[1]);
        drop(&c);
    }
}

/* ---- JSON ---- */

/* "s:name" a string, i an integer, r any number, b a boolean, a an array, o an object; exactly these. */
static void expect_keys(const json_t *object, const char *spec) {
    char copy[1024];
    size_t n = 0;
    assert_true(json_is_object(object));
    snprintf(copy, sizeof copy, "%s", spec);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "), n++) {
        const json_t *v = json_object_get(object, word + 2);
        if (v == NULL) fail_msg("no key '%s'", word + 2);
        bool fits = word[0] == 's' ? json_is_string(v) : word[0] == 'i' ? json_is_integer(v) : word[0] == 'r' ? json_is_number(v) :
                    word[0] == 'b' ? json_is_boolean(v) : word[0] == 'a' ? json_is_array(v) : json_is_object(v);
        if (!fits) fail_msg("'%s' has another type", word + 2);
    }
    assert_int_equal(json_object_size(object), n);
}

static void a_run_in_json(void **state) {
    (void)state;
    json_t *root = json_of("run $M -c 256 -n 12 -p hello --temp 0 --ignore-eos --json");
    expect_keys(root, "s:text a:tokens s:finish_reason o:timings o:memory");
    expect_keys(json_object_get(root, "timings"), "i:prompt_n r:prompt_ms r:prompt_per_second i:predicted_n r:predicted_ms r:predicted_per_second");
    const json_t *memory = json_object_get(root, "memory");
    expect_keys(memory, "i:m_max_bytes i:vm_hwm_bytes i:rss_anon_bytes i:mallocs_after_ready i:minflt_after_ready i:majflt_after_ready b:sealed");
    assert_int_equal(json_array_size(json_object_get(root, "tokens")), 12);
    assert_int_equal(int_of(json_object_get(root, "timings"), "predicted_n"), 12);
    assert_string_equal(json_string_value(json_object_get(root, "finish_reason")), "length");
#ifndef DCT_SANITIZED
    assert_int_equal(int_of(memory, "mallocs_after_ready"), 0);
    if (!emulated("memory and faults of a run: they are the emulator's")) {
        assert_int_equal(int_of(memory, "minflt_after_ready") + int_of(memory, "majflt_after_ready"), 0);
        assert_in_range(int_of(memory, "vm_hwm_bytes"), 1, int_of(memory, "m_max_bytes"));
    }
#endif
    json_decref(root);
}

static void a_plan_adds_up(void **state) {
    (void)state;
    static const char *const regions[] = {"weights", "kv", "persistent", "intermediate", "runtime"};
    json_t *root = json_of("plan $M -c 512 -n 64 -t 2 --json");
    expect_keys(root, "o:model o:bounds o:envelope o:compile a:phases o:schedule");
    expect_keys(json_object_get(root, "bounds"), "i:ctx i:max_input i:max_output i:ubatch i:slots i:threads s:type_k s:type_v i:image_max_tokens s:logits b:overlap");
    const json_t *e = json_object_get(root, "envelope");
    expect_keys(e, "i:m_max_bytes i:weights_bytes i:kv_bytes i:persistent_bytes i:intermediate_bytes i:runtime_bytes i:m_hw_bytes i:m_free_bytes b:fits s:source o:loading a:items");
    json_int_t total = 0;
    for (size_t r = 0; r < 5; r++) {
        char key[64];
        json_int_t sum = 0;
        size_t i;
        json_t *item;
        snprintf(key, sizeof key, "%s_bytes", regions[r]);
        json_array_foreach(json_object_get(e, "items"), i, item)
            if (strcmp(json_string_value(json_object_get(item, "region")), regions[r]) == 0) sum += int_of(item, "bytes");
        if (sum != int_of(e, key)) fail_msg("the items of %s are %lld bytes, the region has %lld", regions[r], (long long)sum, (long long)int_of(e, key));
        total += sum;
    }
    assert_int_equal(total, int_of(e, "m_max_bytes"));
    json_decref(root);
}

/* A directory that is there, empty or half written, is written into; a file is not written over one. */
static void synth_writes_into_a_directory(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"};
    const char *lines[] = {"synth tiny-qwen2 --type mlx-4bit -o $Wdirectory", "synth tiny-qwen2 -o $Wdirectory"};
    assert_int_equal(mkdir(WORK "directory", 0777), 0);
    for (int i = 0; i < 3; i++) {
        child c = start(lines[i / 2]);
        expect_code(&c, lines[i / 2], i < 2 ? 0 : 5);
        drop(&c);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", WORK "directory", files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(WORK "directory"), 0);
}

/* Chunks that context steps name become smaller too: the search ends. */
static void a_family_group_keeps_to_a_budget(void **state) {
    (void)state;
    const char *line = "plan $M $M --exclusive --ctx-steps 128:64,1024:512 -n 16 -t 1 --memory-budget 1M";
    child c = start(line);
    expect_code(&c, line, 3);
    if (strstr(c.text[1], "needs at least ") == NULL) fail_msg("%s", c.text[1]);
    drop(&c);
}

static unsigned long long least_of_group(const char *steps) {
    unsigned long long least = 0;
    char line[256];
    snprintf(line, sizeof line, "plan $M $M --exclusive --ctx-steps %s -n 16 -t 1 --memory-budget 1M", steps);
    child c = start(line);
    expect_code(&c, line, 3);
    assert_int_equal(sscanf(c.text[1], "dctms: needs at least %llu bytes", &least), 1);
    drop(&c);
    return least;
}

/* The longest chunk may be that of a shorter context. */
static void a_group_shortens_every_chunk(void **state) {
    (void)state;
    assert_int_equal(least_of_group("64:64,128:1"), least_of_group("64:1,128:1"));
}

/* What a variable says of run's bounds is nothing to a plan file, which has its own, or to a score, whose text says how long. */
static void a_length_is_asked_for_or_not(void **state) {
    (void)state;
    static const struct { const char *line, *input, *has; int code; } asked[] = {
        {"run $M --plan $Wplan -p x --temp 0 -q", "", "", 0},
        {"run $M --plan $Wplan -p x -n 100000", "", "dctms: 100000 output tokens are wanted, the bound is ", 4},
        {"run $M --plan $Wplan -p x -n -1", "", "dctms: -n -1 does not go with --plan", 1},
        {"score $M -f -", "0123456789", "M_max ", 0},
    };
    setenv("LLAMA_ARG_N_PREDICT", "100000", 1);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        child c = start(asked[i].line);
        say(&c, asked[i].input);
        expect_code(&c, asked[i].line, asked[i].code);
        if (strncmp(c.text[1], asked[i].has, strlen(asked[i].has)) != 0) fail_msg("%s: %s", asked[i].line, c.text[1]);
        drop(&c);
    }
    unsetenv("LLAMA_ARG_N_PREDICT");
}

/* A path is bytes, and JSON is text. */
static void a_path_that_is_no_text_is_shown_in_json(void **state) {
    (void)state;
    assert_int_equal(symlink(MODEL, WORK "mod\xe8le.gguf"), 0);
    child c = start("bench $Wmod\xe8le.gguf -p 4 -n 0 -r 1 --no-warmup --no-roofline -o json");
    expect_code(&c, "bench", 0);
    json_t *root = json_loads(c.text[0], 0, NULL);
    assert_non_null(root);
    json_decref(root);
    drop(&c);
    assert_int_equal(unlink(WORK "mod\xe8le.gguf"), 0);
}

/* A budget for a group: the chunk that fits is found, and the least that is named is enough. */
static void a_group_keeps_to_a_budget(void **state) {
    (void)state;
    unsigned long long least;
    char line[256];
    child c = start("plan $M $M --concurrent -c 1024 -n 16 -t 2 --memory-budget 1M");
    expect_code(&c, "a budget for two", 3);
    assert_int_equal(sscanf(c.text[1], "dctms: needs at least %llu bytes", &least), 1);
    drop(&c);
    for (int less = 0; less < 2; less++) {
        snprintf(line, sizeof line, "plan $M $M --concurrent -c 1024 -n 16 -t 2 --memory-budget %llu --json", least - (unsigned)less);
        c = start(line);
        expect_code(&c, line, less ? 3 : 0);
        json_t *root = less ? NULL : json_loads(c.text[0], 0, NULL);
        if (!less) assert_int_equal(int_of(json_object_get(root, "envelope"), "m_max_bytes"), least);
        json_decref(root);
        drop(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_answers_as_stated),
        cmocka_unit_test(a_full_list_says_how_many),
        cmocka_unit_test(no_output_destroys_an_input),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(a_closed_pipe_ends_quietly),
        cmocka_unit_test(a_run_in_json),
        cmocka_unit_test(a_plan_adds_up),
        cmocka_unit_test(synth_writes_into_a_directory),
        cmocka_unit_test(a_group_keeps_to_a_budget), cmocka_unit_test(a_group_shortens_every_chunk), cmocka_unit_test(a_length_is_asked_for_or_not),
        cmocka_unit_test(a_path_that_is_no_text_is_shown_in_json),
        cmocka_unit_test(a_family_group_keeps_to_a_budget),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
