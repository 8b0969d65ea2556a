/* score: how well a model predicts a text: perplexity, and KL divergence from logits saved by another run.
 *
 * The text is tokenized before anything is planned, for its length may be the bound; what stays of it, its ids, lies in planned
 * memory like all else: in the session's room for a conversation. Rows of saved logits pass through a piece of fixed size.
 *
 * A text that is longer than the context is taken in windows that are as long as that, and of each the second half is scored, as
 * llama.cpp's perplexity does it: what is scored has half a context before it. Its ids wait in a file.
 *
 * A file of saved logits: "DCTLOGIT", u32 rows, u32 vocabulary, then f32 rows, little-endian; row i follows token i of the text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

enum { HEAD_BYTES = 16, PIECE = 16 * 1024 };
static const char magic[8] = "DCTLOGIT";

typedef struct scorer {
    dctms_session *session;
    dctms_token *ids;   /* of the text, or of a window of it */
    uint32_t n, n_vocab;
    uint32_t n_rows;    /* ids that are evaluated: of a window all but the last, which is only predicted */
    uint32_t first;     /* the row that is scored first; 0 but in windows */
    uint32_t n_windows; /* 0: the text is there whole */
    bool has_begin;     /* each window begins with the token that all texts begin with */
    dctms_token begin;
    dct_file all_ids;   /* fd -1: none */
    size_t n_all;         /* ids */
    uint64_t n_to_do, n_done; /* rows */
    bool saves;         /* logits to a file, which is not done */
    dct_out save;
    dct_file base;      /* saved logits to compare with; fd -1: none */
    const char *base_path;
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

/* A pass over a saved row, a piece at a time: `take` sees elements first .. first + n. */
typedef void piece_fn(void *sums, const float *piece, uint32_t first, uint32_t n);

static dct_status walk_base(const scorer *s, uint32_t row, piece_fn *take, void *sums, dct_err *err) {
    static float piece[PIECE];
    uint64_t at = HEAD_BYTES + (uint64_t)row * s->n_vocab * sizeof *piece;
    for (uint32_t first = 0, n; first < s->n_vocab; first += n) {
        n = s->n_vocab - first < PIECE ? s->n_vocab - first : PIECE;
        dct_status status = dct_file_read_at(&s->base, at + first * sizeof *piece, piece, n * sizeof *piece, err);
        if (status != DCT_OK) return status;
        take(sums, piece, first, n);
    }
    return DCT_OK;
}

/* Sums over a saved row: first its largest element, then the sum of exp, then the divergence from ours. */
typedef struct base_sums {
    const float *ours;      /* our row of the same position */
    double our_norm;
    double top, sum, norm, kl;
    uint32_t top_at;
} base_sums;

static void take_top(void *ctx, const float *piece, uint32_t first, uint32_t n) {
    base_sums *b = ctx;
    for (uint32_t i = 0; i < n; i++) {
        if (first + i > 0 && piece[i] <= b->top) continue;
        b->top = piece[i];
        b->top_at = first + i;
    }
}

static void take_sum(void *ctx, const float *piece, uint32_t first, uint32_t n) {
    base_sums *b = ctx;
    (void)first;
    for (uint32_t i = 0; i < n; i++) b->sum += exp(piece[i] - b->top);
}

static void take_kl(void *ctx, const float *piece, uint32_t first, uint32_t n) {
    base_sums *b = ctx;
    for (uint32_t i = 0; i < n; i++) {
        double p = piece[i] - b->norm;
        b->kl += exp(p) * (p - (b->ours[first + i] - b->our_norm));
    }
}

/* KL(base || ours) of one position. */
static dct_status compare_row(scorer *s, uint32_t row, const float *ours, double our_norm, dct_err *err) {
    base_sums b = {.ours = ours, .our_norm = our_norm};
    dct_status status = walk_base(s, row, take_top, &b, err);
    if (status == DCT_OK) status = walk_base(s, row, take_sum, &b, err);
    b.norm = b.top + log(b.sum);
    if (status == DCT_OK) status = walk_base(s, row, take_kl, &b, err);
    if (status != DCT_OK) return status;
    s->kl += b.kl;
    s->kl_max = b.kl > s->kl_max ? b.kl : s->kl_max;
    s->n_kl++;
    s->n_same_top += arg_max(ours, s->n_vocab) == b.top_at;
    return DCT_OK;
}

static dct_status take_row(scorer *s, uint32_t i, const float *row, dct_err *err) {
    double norm = log_sum_exp(row, s->n_vocab);
    if (i + 1 < s->n) {
        s->nll += norm - row[s->ids[i + 1]];
        s->n_scored++;
    }
    dct_status status = s->saves ? dct_out_write(&s->save, row, s->n_vocab * sizeof(float), err) : DCT_OK;
    if (status != DCT_OK) return status;
    return s->base.fd >= 0 ? compare_row(s, i, row, norm, err) : DCT_OK;
}

/* Saved logits of the same text. */
static int open_base(scorer *s, const char *path) {
    dct_err err;
    char head[HEAD_BYTES];
    uint32_t rows, vocab;
    if (dct_file_open(&s->base, path, &err) != DCT_OK) return cli_fail_err(&err);
    if (dct_file_read_at(&s->base, 0, head, sizeof head, &err) != DCT_OK) return cli_fail_file(path, &err);
    memcpy(&rows, head + 8, 4);
    memcpy(&vocab, head + 12, 4);
    s->base_path = path;
    uint64_t needed = HEAD_BYTES + (uint64_t)s->n * s->n_vocab * sizeof(float);
    bool is_ours = memcmp(head, magic, 8) == 0 && vocab == s->n_vocab && rows == s->n;
    if (is_ours && s->base.bytes >= needed) return 0;
    if (is_ours)
        dct_fail(&err, DCT_BAD_FILE, "the file is cut off: it has %llu bytes, %llu are needed", (unsigned long long)s->base.bytes,
                 (unsigned long long)needed);
    else if (memcmp(head, magic, 8) != 0) dct_fail(&err, DCT_BAD_FILE, "no file of saved logits");
    else
        dct_fail(&err, DCT_BAD_FILE, "logits of another text: it has %u rows of %u, this one %u of %u", rows, vocab, s->n,
                 s->n_vocab);
    return cli_fail_file(path, &err);
}

/* It has its name when it is whole. */
static int begin_save(scorer *s, const char *path) {
    dct_err err;
    char head[HEAD_BYTES];
    memcpy(head, magic, 8);
    memcpy(head + 8, &s->n, 4);
    memcpy(head + 12, &s->n_vocab, 4);
    if (dct_out_open(&s->save, path, &err) != DCT_OK) return cli_fail_err(&err);
    s->saves = true;
    return dct_out_write(&s->save, head, sizeof head, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

static int finish_save(scorer *s) {
    dct_err err;
    if (!s->saves) return 0;
    s->saves = false;
    return dct_out_commit(&s->save, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

static int open_files(scorer *s, const cli_options *o) {
    int code = o->kl_base != NULL ? open_base(s, o->kl_base) : 0;
    return code == 0 && o->save_logits != NULL ? begin_save(s, o->save_logits) : code;
}

static int score_ids(scorer *s, uint32_t chunk) {
    dctms_error err;
    dct_err io;
    for (uint32_t at = 0; at < s->n_rows; at += chunk) {
        uint32_t rows = s->n_rows - at < chunk ? s->n_rows - at : chunk;
        if (dctms_session_eval(s->session, s->ids + at, rows, &err) != DCTMS_OK) return cli_fail(&err);
        for (uint32_t r = 0; r < rows; r++) {
            if (at + r < s->first || take_row(s, at + r, dctms_session_logits_row(s->session, r), &io) == DCT_OK) continue;
            return io.code == DCT_BAD_FILE ? cli_fail_file(s->base_path, &io) : cli_fail_err(&io);
        }
        s->n_done += rows;
        cli_progress((void *)(uintptr_t) "scoring", s->n_done, s->n_to_do);
    }
    return 0;
}

/* What is left over at the end, less than a window, is not scored. */
static int score_windows(scorer *s, uint32_t chunk) {
    const uint64_t bytes = s->n * sizeof *s->ids;
    for (uint32_t i = 0; i < s->n_windows; i++) {
        dct_err io;
        dctms_error err;
        if (dct_file_read_at(&s->all_ids, i * bytes, s->ids, bytes, &io) != DCT_OK) return cli_fail_err(&io);
        if (s->has_begin) s->ids[0] = s->begin;
        if (dctms_session_rewind(s->session, 0, &err) != DCTMS_OK) return cli_fail(&err);
        int code = score_ids(s, chunk);
        if (code != 0) return code;
    }
    return 0;
}

static void print_scores(const scorer *s) {
    cli_print("tokens %zu, ", s->n_all);
    if (s->n_windows > 0) {
        cli_print("%u windows of %u, the second half of each scored: %llu tokens, ", s->n_windows, s->n,
                  (unsigned long long)s->n_scored);
    }
    cli_print("mean nll %.6f, perplexity %.4f\n", s->nll / (double)s->n_scored, exp(s->nll / (double)s->n_scored));
    if (s->n_kl > 0) {
        cli_print("KL divergence mean %.8f, max %.8f; same top token %llu of %llu\n", s->kl / (double)s->n_kl, s->kl_max,
                  (unsigned long long)s->n_same_top, (unsigned long long)s->n_kl);
    }
    cli_flush();
}

/* ---- ids ---- */

static int tokenize(const dctms_model *model, const char *text, size_t n_text, cli_ids *ids) {
    dctms_error err;
    dctms_tokenizer *tokenizer;
    if (dctms_tokenizer_open(model, &tokenizer, &err) != DCTMS_OK) return cli_fail(&err);
    int code = cli_ids_tokenize(tokenizer, text, n_text, true, false, ids);
    dctms_tokenizer_free(tokenizer);
    return code;
}

static int parse_ids(const dctms_model *model, const char *path, const char *text, size_t n_text, cli_ids *ids) {
    dctms_error err;
    dctms_model_info info;
    if (dctms_model_get_info(model, &info, &err) != DCTMS_OK) return cli_fail(&err);
    return cli_ids_parse(path, text, n_text, info.n_vocab, ids);
}

/* The text is gone afterwards. */
static int read_ids(const cli_options *o, const dctms_model *model, cli_ids *ids) {
    const char *path = o->prompt_file != NULL ? o->prompt_file : o->ids_file;
    char *text;
    size_t n_text, map_bytes;
    dct_err io;
    if (cli_read_file(path, 1u << 28, &text, &n_text, &map_bytes, &io) != DCT_OK) return cli_fail_err(&io);
    if (o->prompt_file != NULL) cli_drop_newline(text, &n_text);
    int code = o->prompt_file != NULL ? tokenize(model, text, n_text, ids) : parse_ids(model, path, text, n_text, ids);
    dct_os_unmap(text, map_bytes);
    if (code == 0 && (ids->n < 2 || ids->n > UINT32_MAX - 2))
        code = cli_usage("%s: %zu tokens; at least 2 are needed", path, ids->n);
    return code;
}

/* ---- the verb ---- */

/* The bounds that the text has, where flags leave them open. */
static bool score_params(const cli_options *o, size_t n_ids, dctms_plan_params *p) {
    if (!cli_plan_params(o, p)) return false;
    if (p->n_ctx == 0) p->n_ctx = (uint32_t)n_ids + 1;
    p->n_output = 1;
    if (p->ubatch == 0) p->ubatch = 64;
    p->logits = DCTMS_LOGITS_ALL;
    return true;
}

/* For a text that is longer than the context: its ids go into a file. */
static int begin_windows(const cli_options *o, const dctms_plan_info *info, const cli_ids *ids, scorer *s) {
    dct_err err;
    if (o->save_logits != NULL || o->kl_base != NULL || info->n_input < 3) {
        dct_fail(&err, DCT_BOUND, "the text has %zu tokens, the bound is %u%s; without -c the context is as long as the text",
                 ids->n, info->n_input, info->n_input < 3 ? "" : ", and logits are of a text that fits");
        return cli_fail_err(&err);
    }
    s->n = info->n_input + 1;
    s->n_rows = info->n_input;
    s->first = s->n / 2;
    s->n_windows = (uint32_t)(ids->n / s->n);
    return dct_file_make_unnamed(&s->all_ids, ids->at, ids->n * sizeof *ids->at, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

/* Each window has the beginning that the text has. */
static int find_begin(scorer *s, dctms_token first) {
    dctms_error err;
    size_t n;
    if (dctms_tokenize(dctms_session_tokenizer(s->session), "", 0, true, false, &s->begin, 1, &n, &err) != DCTMS_OK)
        return cli_fail(&err);
    s->has_begin = n > 0 && s->begin == first;
    return 0;
}

/* Plans for the text and opens a session, with the ids in its memory or in a file, and nowhere else. */
static int open_session(const cli_options *o, const cli_modes *modes, dctms_model *model, cli_ids *ids, scorer *s,
                        dctms_plan_info *info) {
    dctms_error err;
    dctms_plan_params params;
    dctms_plan *plan;
    if (!score_params(o, ids->n, &params)) return DCT_USAGE;
    if (dctms_plan_compile(model, &params, &plan, &err) != DCTMS_OK) return cli_fail(&err);
    dctms_plan_get_info(plan, info);
    s->n = s->n_rows = (uint32_t)ids->n;
    s->n_all = ids->n;
    const dctms_token first = ids->at[0];
    int code = ids->n > info->n_input ? begin_windows(o, info, ids, s) : 0;
    if (s->n_windows > 0) cli_ids_drop(ids);
    if (code == 0) cli_warn_context(model, plan, o);
    if (code == 0 && dctms_session_open(model, plan, &modes->session, &s->session, &err) != DCTMS_OK) code = cli_fail(&err);
    dctms_plan_free(plan);
    if (code != 0) return code;
    s->n_vocab = dctms_session_n_vocab(s->session);
    s->ids = (dctms_token *)(void *)dctms_session_conversation(s->session).messages; /* which alone has 16 bytes a token */
    if (s->n_windows > 0) return find_begin(s, first);
    memcpy(s->ids, ids->at, ids->n * sizeof *ids->at);
    cli_ids_drop(ids);
    return 0;
}

/* Seals, scores, and tells what it took. */
static int run_sealed(scorer *s, const cli_options *o, const cli_modes *modes, uint32_t chunk) {
    bool enforced;
    dctms_memory memory;
    int code = open_files(s, o);
    if (code == 0) code = cli_seal(modes, &enforced);
    if (code != 0) return code;
    uint64_t calls = cli_heap_calls();
    dctms_session_mark_ready(s->session);
    s->n_to_do = (uint64_t)s->n_rows * (s->n_windows > 0 ? s->n_windows : 1);
    code = s->n_windows > 0 ? score_windows(s, chunk) : score_ids(s, chunk);
    if (code == 0) code = finish_save(s);
    calls = cli_heap_calls() - calls;
    dctms_session_memory(s->session, &memory);
    if (code != 0) return code;
    print_scores(s);
    cli_note_memory(&memory, calls);
    return 0;
}

int cli_score(const cli_options *o) {
    if ((o->prompt_file == NULL) == (o->ids_file == NULL)) return cli_usage("score needs a text: -f FILE, or --ids-file FILE");
    cli_paths paths = {.in = {cli_model_path(o)}, .out = {o->save_logits}};
    cli_add_path(paths.in, o->prompt_file);
    cli_add_path(paths.in, o->ids_file);
    cli_add_path(paths.in, o->kl_base);
    int code = cli_check_outputs(&paths);
    if (code != 0) return code;
    cli_modes modes;
    if (!cli_parse_modes(o, &modes)) return DCT_USAGE;
    dctms_error err;
    dctms_model *model;
    dctms_plan_info info;
    cli_ids ids = {0};
    scorer s = {.base = {.fd = -1}, .all_ids = {.fd = -1}};
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    code = read_ids(o, model, &ids);
    if (code == 0) code = open_session(o, &modes, model, &ids, &s, &info);
    if (code == 0) code = run_sealed(&s, o, &modes, info.ubatch);
    if (s.saves) dct_out_discard(&s.save);
    dct_file_close(&s.base);
    dct_file_close(&s.all_ids);
    dctms_session_free(s.session);
    cli_ids_drop(&ids);
    dctms_model_free(model);
    return code;
}
