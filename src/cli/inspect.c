/* inspect and tokenize: what a file holds, and what its tokenizer makes of a text. */
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

int cli_inspect(const cli_options *o) {
    dctms_error err;
    dctms_model *model;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    int code = dctms_model_inspect(model, o->json, o->all, cli_out, NULL, &err) == DCTMS_OK ? 0 : cli_fail(&err);
    dctms_model_free(model);
    return code;
}

/* One token a line: id, text with control characters escaped. */
static void print_token(const dctms_tokenizer *tokenizer, dctms_token id) {
    char text[1024];
    size_t n = dctms_token_text(tokenizer, id, true, text, sizeof text);
    cli_print("%6u  '", id);
    for (size_t i = 0; i < n && i < sizeof text; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f) {
            cli_print("\\x%02x", c);
        } else {
            cli_out(NULL, &text[i], 1);
        }
    }
    cli_print("'\n");
}

/* On one line, or a token a line. */
static void print_ids(const dctms_tokenizer *tokenizer, const cli_ids *ids, bool on_a_line) {
    for (size_t i = 0; i < ids->n; i++) {
        if (on_a_line) cli_print("%s%u", i == 0 ? "" : " ", ids->at[i]);
        else print_token(tokenizer, ids->at[i]);
    }
    if (on_a_line) cli_print("\n");
}

int cli_tokenize(const cli_options *o) {
    dctms_error err;
    dct_err io;
    char *text = (char *)(uintptr_t)o->prompt;
    const char *path = o->prompt_file != NULL ? o->prompt_file : "-";
    size_t n_text = o->prompt != NULL ? strlen(o->prompt) : 0, map_bytes;
    if (text == NULL && cli_read_file(path, 1u << 30, &text, &n_text, &map_bytes, &io) != DCT_OK) return cli_fail_err(&io);
    dctms_model *model;
    dctms_tokenizer *tokenizer;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    int code = 0;
    if (dctms_tokenizer_open(model, &tokenizer, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto close_model;
    }
    cli_ids ids;
    code = cli_ids_tokenize(tokenizer, text, n_text, o->special, o->special, &ids);
    if (code == 0) print_ids(tokenizer, &ids, o->ids);
    cli_ids_drop(&ids);
    dctms_tokenizer_free(tokenizer);
close_model:
    dctms_model_free(model);
    return code;
}
