/* dctms_oracle MODEL IDS OUT [FIRST]: logits of a list of tokens by the oracle, for comparison with other engines.
 *
 * IDS is a text file of token ids, separated by blanks, commas or brackets ("-" reads standard input). OUT receives, little-endian:
 * u32 rows, u32 vocabulary, then f32 rows. Rows FIRST (0 unless given) and later are written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle.h"

enum { MAX_IDS = 65536, CHUNK = 64 };

/* The ids of a file; *n of them. NULL when it holds none or something else. */
static int32_t *read_ids(const char *path, uint32_t *n) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (file == NULL) return NULL;
    int32_t *ids = malloc(MAX_IDS * sizeof *ids);
    *n = 0;
    int got = 0;
    while (ids != NULL && *n < MAX_IDS) {
        got = fscanf(file, "%*[][, \t\r\n]"); /* separators, if any */
        got = fscanf(file, "%d", &ids[*n]);
        if (got != 1) break;
        (*n)++;
    }
    if (file != stdin) fclose(file);
    if (got == EOF && *n > 0) return ids;
    free(ids);
    return NULL;
}

static bool write_rows(FILE *out, const float *rows, size_t n) { return fwrite(rows, sizeof *rows, n, out) == n; }

static int fail(const char *what, const char *why) {
    fprintf(stderr, "dctms_oracle: %s: %s\n", what, why);
    return 1;
}

static int run(oracle *o, const int32_t *ids, uint32_t n, uint32_t first, FILE *out) {
    dct_err err;
    uint32_t n_vocab = oracle_hparams(o)->n_vocab, header[2] = {n - first, n_vocab};
    float *logits = malloc((size_t)CHUNK * n_vocab * sizeof *logits);
    if (logits == NULL) return fail("logits", "no memory");
    bool ok = fwrite(header, sizeof *header, 2, out) == 2;
    for (uint32_t at = 0; at < n && ok; at += CHUNK) {
        uint32_t count = n - at < CHUNK ? n - at : CHUNK, skip = first <= at ? 0 : first - at < count ? first - at : count;
        if (oracle_eval(o, ids + at, NULL, count, logits, &err) != DCT_OK) {
            free(logits);
            return fail("run", err.message);
        }
        ok = write_rows(out, logits + (size_t)skip * n_vocab, (size_t)(count - skip) * n_vocab);
        fprintf(stderr, "\r%u of %u positions", at + count, n);
    }
    fprintf(stderr, "\n");
    free(logits);
    return ok ? 0 : fail("output", "cannot be written");
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) return fail("usage", "dctms_oracle MODEL IDS OUT [FIRST]");
    uint32_t n, first = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    int32_t *ids = read_ids(argv[2], &n);
    if (ids == NULL || first >= n) {
        free(ids);
        return fail(argv[2], "no list of token ids, or shorter than FIRST");
    }
    dct_err err;
    int code = 1;
    oracle *o = oracle_open(argv[1], n, &err);
    FILE *out = o != NULL ? fopen(argv[3], "wb") : NULL;
    if (o == NULL) fail(argv[1], err.message);
    else if (out == NULL) fail(argv[3], "cannot be written");
    else code = run(o, ids, n, first, out);
    if (out != NULL && fclose(out) != 0 && code == 0) code = fail(argv[3], "cannot be written");
    oracle_close(o);
    free(ids);
    return code;
}
