/* text/chat: chat templates of the known families. The file's own template is recognised by its markers; its Jinja is not
 * evaluated here.
 *
 * Rendering goes straight to pieces that say whether special tokens are parsed in them, so what a user writes can never become a
 * control token. Encode all pieces together with dct_tokenizer_encode_parts: one piece at a time would give other tokens at the
 * seams. Pieces of one kind that follow one another may be taken together as one part.
 *
 * BOS stands exactly once at the front: no piece ever begins with it, and encoding with add_special = true adds it when the file
 * says so. When the file says add_bos = false and yet its template writes bos_token (dct_chat_writes_bos), the caller puts
 * special->bos first.
 */
#ifndef DCT_TEXT_CHAT_H
#define DCT_TEXT_CHAT_H

#include "text/tokenizer.h"

typedef enum dct_chat_family {
    DCT_CHAT_NONE, DCT_CHAT_CHATML, DCT_CHAT_LLAMA2, DCT_CHAT_LLAMA3, DCT_CHAT_MISTRAL, DCT_CHAT_GEMMA, DCT_CHAT_PHI3
} dct_chat_family;

/* NONE when the template is not one we know. */
dct_chat_family dct_chat_recognise(dct_str jinja);
/* "chatml", "llama2", "llama3", "mistral", "gemma", "phi3"; false when unknown. */
bool dct_chat_family_of_name(const char *name, dct_chat_family *family);
const char *dct_chat_names(void); /* comma-separated, for messages */

/* Whether the template itself writes the BOS token. */
bool dct_chat_writes_bos(dct_str jinja);

typedef struct dct_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} dct_chat_message;

/* Calls piece(ctx, text, n, is_template) for each part of the rendered chat in order; is_template parts are tokenized with
 * parse_special, the others without. `add_generation`: ends with the opening of the assistant's turn. Where no system
 * message is given, the template's own stands if it has one (Qwen2.5: "You are Qwen, created by Alibaba Cloud. You are a helpful
 * assistant."), found in `jinja`. */
typedef void dct_chat_piece_fn(void *ctx, const char *text, size_t n, bool is_template);
dct_status dct_chat_render(dct_chat_family family, dct_str jinja, const dct_chat_message *messages, uint32_t n,
                           bool add_generation, dct_chat_piece_fn *piece, void *ctx, dct_err *err) DCT_MUST_CHECK;

#endif
