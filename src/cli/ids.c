/* The tokens of a text that a verb works with, in pages of their own. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static int fail_ids(void) { return cli_no_memory("the text's ids"); }

static bool make_room(cli_ids *ids, size_t n) {
    ids->map_bytes = n * sizeof *ids->at;
    ids->at = dct_os_map(ids->map_bytes);
    return ids->at != NULL;
}

void cli_ids_drop(cli_ids *ids) {
    if (ids->at != NULL) dct_os_unmap(ids->at, ids->map_bytes);
    *ids = (cli_ids){0};
}

/* Nearly always a token covers at least a byte, but for the ones that are added; a vocabulary may spell a byte in several. */
int cli_ids_tokenize(const dctms_tokenizer *tokenizer, const char *text, size_t n_text, bool add_special, bool parse_special,
                     cli_ids *ids) {
    enum { ADDED = 16 };
    dctms_error err;
    size_t cap = n_text + ADDED;
    for (;;) {
        *ids = (cli_ids){0};
        if (!make_room(ids, cap)) return fail_ids();
        if (dctms_tokenize(tokenizer, text, n_text, add_special, parse_special, ids->at, cap, &ids->n, &err) != DCTMS_OK)
            return cli_fail(&err);
        if (ids->n <= cap) return 0;
        cap = ids->n;
        cli_ids_drop(ids);
    }
}

int cli_ids_parse(const char *path, const char *text, size_t n_text, uint32_t n_vocab, cli_ids *ids) {
    *ids = (cli_ids){0};
    if (!make_room(ids, n_text / 2 + 1)) return fail_ids(); /* a digit and a blank each */
    for (const char *at = text, *end = text + n_text;;) {
        at += strspn(at, " \t\r\n");
        if (at == end) return 0;
        if (*at < '0' || *at > '9') return cli_usage("%s: byte %zu: not a list of token ids", path, (size_t)(at - text));
        char *behind;
        unsigned long id = strtoul(at, &behind, 10);
        if (id >= n_vocab)
            return cli_usage("%s: byte %zu: '%.*s' is no token, there are %u", path, (size_t)(at - text), (int)(behind - at), at,
                             n_vocab);
        ids->at[ids->n++] = (dctms_token)id;
        at = behind;
    }
}
