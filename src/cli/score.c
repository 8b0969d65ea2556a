/* score: how well a model predicts a text: perplexity, and KL divergence from logits saved by another run.
 *
 * A file of saved logits: "DCTLOGIT", u32 rows, u32 vocabulary, then f32 rows, little-endian; row i follows token i of the text.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/cli.h"

enum { HEAD_BYTES = 16 };
static const char magic[8] = "DCTLOGIT";

typedef struct scorer {
    dctms_session *session;
    const dctms_token *ids;
    uint32_t n, n_vocab;
    int save;           /* file to write logits to, or -1 */
    dct_file base;      /* saved logits to compare with; fd -1: none */
    float *base_row;
    double nll, kl, kl_max;
    uint64_t n_scored, n_kl, n_same_top;
} scorer;

/* log of the sum of exp over a row, in f64. */
static double log_sum_exp(const float *row, uint32_t n) {
    double top = row[0], sum = 0;
    for (uint32_t i = 1; i < n; i++) top = row[i] > top ? row[i] : top;
    for (uint32_t i = 0; i < n; i++) sum += exp(row[i] - top);
    return top + log(sum);
}

static uint32_t arg_max(const float *row, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) best = row[i] > row[best] ? i : best;
    return best;
}

static bool write_whole(int fd, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = write(fd, from, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        from += put;
        n -= (size_t)put;
    }
    return true;
}

/* KL(base || ours) of one position. */
static dct_status compare_row(scorer *s, uint32_t i, const float *row, double ours, dct_err *err) {
    uint64_t row_bytes = (uint64_t)s->n_vocab * sizeof(float);
    dct_status status = dct_file_read_at(&s->base, HEAD_BYTES + i * row_bytes, s->base_row, row_bytes, err);
    if (status != DCT_OK) return status;
    double theirs = log_sum_exp(s->base_row, s->n_vocab), kl = 0;
    for (uint32_t v = 0; v < s->n_vocab; v++) {
        double p = s->base_row[v] - theirs;
        kl += exp(p) * (p - (row[v] - ours));
    }
    s->kl += kl;
    s->kl_max = kl > s->kl_max ? kl : s->kl_max;
    s->n_kl++;
    s->n_same_top += arg_max(row, s->n_vocab) == arg_max(s->base_row, s->n_vocab);
    return DCT_OK;
}

static dct_status take_row(scorer *s, uint32_t i, const float *row, dct_err *err) {
    double norm = log_sum_exp(row, s->n_vocab);
    if (i + 1 < s->n) {
        s->nll += norm - row[s->ids[i + 1]];
        s->n_scored++;
    }
    if (s->save >= 0 && !write_whole(s->save, row, s->n_vocab * sizeof(float))) return dct_fail(err, DCT_SYSTEM, "cannot save logits: %s", strerror(errno));
    return s->base.fd >= 0 ? compare_row(s, i, row, norm, err) : DCT_OK;
}

static int open_files(scorer *s, const cli_options *o) {
    dct_err err;
    if (o->save_logits != NULL) {
        s->save = open(o->save_logits, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        char head[HEAD_BYTES];
        memcpy(head, magic, 8);
        memcpy(head + 8, &s->n, 4);
        memcpy(head + 12, &s->n_vocab, 4);
        if (s->save < 0 || !write_whole(s->save, head, sizeof head)) {
            dct_fail(&err, DCT_SYSTEM, "%s: %s", o->save_logits, strerror(errno));
            return cli_fail_err(&err);
        }
    }
    if (o->kl_base == NULL) return 0;
    char head[HEAD_BYTES];
    uint32_t rows, vocab;
    if (dct_file_open(&s->base, o->kl_base, &err) != DCT_OK || dct_file_read_at(&s->base, 0, head, sizeof head, &err) != DCT_OK) return cli_fail_err(&err);
    memcpy(&rows, head + 8, 4);
    memcpy(&vocab, head + 12, 4);
    if (memcmp(head, magic, 8) != 0 || vocab != s->n_vocab || rows != s->n) {
        dct_fail(&err, DCT_BAD_FILE, "%s: not logits of this text: it has %u rows of %u, the text %u of %u", o->kl_base, rows, vocab, s->n, s->n_vocab);
        return cli_fail_err(&err);
    }
    s->base_row = dct_os_map(s->n_vocab * sizeof(float));
    return s->base_row != NULL ? 0 : cli_no_memory("a row of logits");
}

static int score_text(scorer *s, uint32_t chunk) {
    dctms_error err;
    dct_err io;
    for (uint32_t at = 0; at < s->n; at += chunk) {
        uint32_t rows = s->n - at < chunk ? s->n - at : chunk;
        if (dctms_session_eval(s->session, s->ids + at, rows, &err) != DCTMS_OK) return cli_fail(&err);
        for (uint32_t r = 0; r < rows; r++) {
            if (take_row(s, at + r, dctms_session_logits_row(s->session, r), &io) != DCT_OK) return cli_fail_err(&io);
        }
        cli_progress((void *)(uintptr_t) "scoring", at + rows, s->n);
    }
    cli_print("tokens %u, mean nll %.6f, perplexity %.4f\n", s->n, s->nll / (double)s->n_scored, exp(s->nll / (double)s->n_scored));
    if (s->n_kl > 0) {
        cli_print("KL divergence mean %.8f, max %.8f; same top token %llu of %llu\n", s->kl / (double)s->n_kl, s->kl_max,
                  (unsigned long long)s->n_same_top, (unsigned long long)s->n_kl);
    }
    return 0;
}

/* Decimal ids separated by white space. */
static bool parse_ids(const char *text, dctms_token *ids, size_t cap, size_t *n) {
    *n = 0;
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text == '\0') return true;
        char *end;
        unsigned long id = strtoul(text, &end, 10);
        if (end == text || id > UINT32_MAX || *n == cap) return false;
        ids[(*n)++] = (dctms_token)id;
        text = end;
    }
}

int cli_score(const cli_options *o) {
    if ((o->prompt_file == NULL) == (o->ids_file == NULL)) return cli_usage("score needs a text: -f FILE, or --ids-file FILE");
    const char *path = o->prompt_file != NULL ? o->prompt_file : o->ids_file;
    dctms_plan_params pp;
    if (!cli_plan_params(o, &pp)) return DCT_USAGE;
    char *text;
    size_t n_text, n_ids;
    dct_err io;
    if (cli_read_file(path, 1u << 28, &text, &n_text, &io) != DCT_OK) return cli_fail_err(&io);

    dctms_error err;
    dctms_model *model;
    dctms_tokenizer *tokenizer = NULL;
    dctms_plan *plan = NULL;
    dctms_session *session = NULL;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    int code = 0;
    dctms_token *ids = dct_os_map((n_text + 16) * sizeof *ids);
    if (ids == NULL) {
        code = cli_no_memory("the text's ids");
        goto done;
    }
    if (o->ids_file != NULL) {
        if (!parse_ids(text, ids, n_text + 16, &n_ids)) {
            code = cli_usage("%s: not a list of token ids", path);
            goto done;
        }
    } else if (dctms_tokenizer_open(model, &tokenizer, &err) != DCTMS_OK ||
               dctms_tokenize(tokenizer, text, n_text, true, false, ids, n_text + 16, &n_ids, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto done;
    }
    if (n_ids < 2 || n_ids > UINT32_MAX - 2) {
        code = cli_usage("the text has %zu tokens; at least 2 are needed", n_ids);
        goto done;
    }
    if (pp.n_ctx == 0) pp.n_ctx = (uint32_t)n_ids + 1;
    if (pp.n_output == 0) pp.n_output = 1;
    if (pp.ubatch == 0) pp.ubatch = 64;
    pp.logits = DCTMS_LOGITS_ALL;
    dctms_session_params sp = dctms_session_default_params();
    sp.force = o->force;
    sp.progress = cli_progress;
    sp.progress_ctx = (void *)(uintptr_t) "loading";
    dctms_plan_info info;
    if (dctms_plan_compile(model, &pp, &plan, &err) != DCTMS_OK || dctms_session_open(model, plan, &sp, &session, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto done;
    }
    dctms_plan_get_info(plan, &info);
    if (n_ids > info.n_input) {
        dct_fail(&io, DCT_BOUND, "the text has %zu tokens, the bound is %u", n_ids, info.n_input);
        code = cli_fail_err(&io);
        goto done;
    }
    scorer s = {.session = session, .ids = ids, .n = (uint32_t)n_ids, .n_vocab = dctms_session_n_vocab(session), .save = -1, .base = {.fd = -1}};
    code = open_files(&s, o);
    if (code == 0) code = score_text(&s, info.ubatch);
    if (s.save >= 0 && close(s.save) != 0 && code == 0) code = DCT_SYSTEM;
    dct_file_close(&s.base);
done:
    dctms_session_free(session);
    dctms_plan_free(plan);
    dctms_tokenizer_free(tokenizer);
    dctms_model_free(model);
    return code;
}
