/* Fuzzes chat templates: any bytes as a template and as messages. What people wrote never comes out as the template's. */
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"

#define REQUIRE(what) ((what) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

typedef struct piece_check { const char *from, *to; } piece_check; /* where the messages' contents lie */

static void take_piece(void *ctx, const char *text, size_t n, bool is_template) {
    const piece_check *check = ctx;
    REQUIRE(n > 0);
    bool is_content = text >= check->from && text + n <= check->to;
    REQUIRE(is_content == !is_template);
}

/* byte 0: family and whether to use the template's own; then lines: role byte and content up to '\n'; after a byte 0, the template. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    dct_chat_message messages[8];
    uint32_t n_messages = 0;
    if (n < 2) return 0;
    char *text = malloc(n + 1);
    memcpy(text, data, n);
    text[n] = '\0';
    size_t n_chat = strnlen(text + 1, n - 1);
    dct_str jinja = {text + 1 + n_chat, n - 1 - n_chat};
    for (char *line = strtok(text + 1, "\n"); line != NULL && n_messages < 8; line = strtok(NULL, "\n"))
        messages[n_messages++] = (dct_chat_message){roles[(uint8_t)line[0] % 4], line + 1};
    dct_chat_family family = dct_chat_recognise(jinja);
    if (text[0] % 8 != 7) family = (dct_chat_family)(text[0] % 8 < 7 ? text[0] % 8 : 0);
    piece_check check = {text + 1, text + 1 + n_chat};
    dct_err err;
    dct_status status = dct_chat_render(family, jinja, messages, n_messages, true, take_piece, &check, &err);
    REQUIRE(status == DCT_OK || status == DCT_USAGE);
    (void)dct_chat_writes_bos(jinja);
    free(text);
    return 0;
}
