/* engine/tokens_api: the tokenizer alone, or a session's. */
#include "base/size.h"
#include "engine/engine.h"

static dct_status open_tables(const dctms_model *m, dctms_tokenizer **out, dct_err *err) {
    dct_arena work;
    dct_arena_init(&work, 0);
    uint64_t bytes, header = dct_round_up(sizeof(dctms_tokenizer), 64);
    dctms_tokenizer *t = NULL;
    dct_status status = dct_tokenizer_measure(&m->model, &work, &bytes, err);
    if (status != DCT_OK) goto out;
    t = dct_os_map((size_t)(header + bytes));
    if (t == NULL) {
        status = dct_os_fail_map("the token tables", header + bytes, err);
        goto out;
    }
    t->map = t;
    t->map_bytes = header + bytes;
    status = dct_tokenizer_build(&m->model, (char *)t + header, bytes, &t->tables, err);
    if (status == DCT_OK) *out = t;
    else dct_os_unmap(t, (size_t)(header + bytes));
out:
    dct_arena_deinit(&work);
    return status;
}

dctms_status dctms_tokenizer_open(const dctms_model *model, dctms_tokenizer **tokenizer, dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_model_need_header(model, &why);
    if (status == DCT_OK) status = open_tables(model, tokenizer, &why);
    return dct_give_of_file(status, model->model.path, &why, err);
}

void dctms_tokenizer_free(dctms_tokenizer *t) {
    if (t != NULL && t->map != NULL) dct_os_unmap(t->map, (size_t)t->map_bytes);
}

dctms_status dctms_tokenize(const dctms_tokenizer *t, const char *text, size_t n_text, bool add_special, bool parse_special,
                            dctms_token *ids, size_t cap, size_t *n, dctms_error *err) {
    dct_err why = {0};
    uint64_t need = dct_tokenizer_scratch_bytes(n_text), n_ids = 0;
    bool is_own = need > t->scratch_bytes, is_shared = !is_own && t->group != NULL;
    void *scratch = is_own ? dct_os_map((size_t)need) : t->scratch;
    if (scratch == NULL) return dct_give(dct_os_fail_map("the tokens of a text", need, &why), &why, err);
    dct_status status = is_shared ? dct_group_take_turn(t->group, &why) : DCT_OK;
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = dct_tokenizer_encode(t->tables, text, n_text, add_special, parse_special, scratch, ids, cap, &n_ids, &why);
    if (is_shared) dct_group_end_turn(t->group);
    if (is_own) dct_os_unmap(scratch, (size_t)need);
    if (status == DCT_OK) *n = (size_t)n_ids;
    return dct_give(status, &why, err);
}

size_t dctms_token_text(const dctms_tokenizer *t, dctms_token id, bool special, char *out, size_t cap) {
    return dct_tokenizer_piece(t->tables, id, special, out, cap);
}
