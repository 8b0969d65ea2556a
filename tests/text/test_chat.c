/* Chat templates: which are recognised, and what they render. In the expected texts, what people wrote stands in «». */
#include <time.h>

#include "text/chat.h"
#include "text_support.h"

/* Renders a chat; pieces that are not the template's come in «». */
typedef struct render_out { char text[4000]; size_t n; } render_out;

static void add(render_out *out, const char *text, size_t n) {
    assert_true(out->n + n < sizeof out->text);
    memcpy(out->text + out->n, text, n);
    out->n += n;
    out->text[out->n] = '\0';
}

static void take_piece(void *ctx, const char *text, size_t n, bool is_template) {
    render_out *out = ctx;
    assert_true(n > 0);
    if (!is_template) add(out, "«", strlen("«"));
    add(out, text, n);
    if (!is_template) add(out, "»", strlen("»"));
}

static const dct_chat_message one[] = {{"user", " Hi "}};
static const dct_chat_message with_system[] = {{"system", "Be brief."}, {"user", "Hi"}};
static const dct_chat_message turns[] = {{"system", "S"}, {"user", "A"}, {"assistant", " B "}, {"user", "C"}};

static const char qwen25[] =
    "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0]['role'] == 'system' %}\n        {{- messages[0]['content'] }}\n"
    "    {%- else %}\n        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}\n    {%- endif %}\n{%- else %}\n"
    "    {%- if messages[0]['role'] == 'system' %}\n        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
    "    {%- else %}\n        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}\n";
static const char plain_chatml[] = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}";
static const char qwen2vl[] = "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n";
static const char llama3[] = "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' %}{{ bos_token }}";
static const char llama31[] = "{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = \"26 Jul 2024\" %}{%- endif %}"
                              "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}{{- \"Cutting Knowledge Date: December 2023\\n\" }}";
static const char llama2[] = "{% set content = '<<SYS>>\\n' + system_message %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}";
static const char mistral_old[] = "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}";
static const char mistral_v1[] = "{{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}";
static const char mistral_v3[] = "{{- \"[AVAILABLE_TOOLS] [\" }}{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}";
static const char mistral_tekken[] = "{{- \"[AVAILABLE_TOOLS][\" }}{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}";
static const char gemma[] = "{{ bos_token }}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}";
static const char phi3[] = "{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{{ '<|assistant|>\\n' }}";

static const char qwen3[] = "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{{- '<|im_start|>' + message.role + '\\n' + content }}";
/* An answer of the history is opened in the same words; only what follows the last add_generation_prompt counts. */
static const char thinker[] = "{{- '<|im_start|>' + message.role + '\\n' }}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}";
static const char hybrid[] = "{{- '<|im_start|>assistant\\n<think>\\n' }}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
                             "{%- if enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}";
static const char llama3_empty[] = "{%- else %}{%- set system_message = \"\" %}{%- endif %}{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}";
static const dct_chat_message thoughts[] = {{"user", "A"}, {"assistant", "<think>\nx</think> y\n</think>\n\nB"}, {"user", "C</think>D"}};
static const dct_chat_message last_thought[] = {{"user", "A"}, {"assistant", "<think>x</think>B"}};

typedef struct render_case {
    const char *jinja;
    dct_chat_family family;
    const dct_chat_message *messages;
    uint32_t n;
    const char *expected;
} render_case;

static const render_case cases[] = {
    {qwen25, DCT_CHAT_CHATML, one, 1,
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
     "<|im_start|>user\n« Hi »<|im_end|>\n<|im_start|>assistant\n"},
    {qwen25, DCT_CHAT_CHATML, with_system, 2,
     "<|im_start|>system\n«Be brief.»<|im_end|>\n<|im_start|>user\n«Hi»<|im_end|>\n<|im_start|>assistant\n"},
    {qwen2vl, DCT_CHAT_CHATML, one, 1,
     "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n« Hi »<|im_end|>\n<|im_start|>assistant\n"},
    {plain_chatml, DCT_CHAT_CHATML, turns, 4,
     "<|im_start|>system\n«S»<|im_end|>\n<|im_start|>user\n«A»<|im_end|>\n<|im_start|>assistant\n« B »<|im_end|>\n"
     "<|im_start|>user\n«C»<|im_end|>\n<|im_start|>assistant\n"},
    {qwen3, DCT_CHAT_CHATML, thoughts, 3,
     "<|im_start|>user\n«A»<|im_end|>\n<|im_start|>assistant\n«B»<|im_end|>\n<|im_start|>user\n«C</think>D»<|im_end|>\n<|im_start|>assistant\n"},
    {qwen3, DCT_CHAT_CHATML, last_thought, 2,
     "<|im_start|>user\n«A»<|im_end|>\n<|im_start|>assistant\n«<think>x</think>B»<|im_end|>\n<|im_start|>assistant\n"},
    {plain_chatml, DCT_CHAT_CHATML, one, 1, "<|im_start|>user\n« Hi »<|im_end|>\n<|im_start|>assistant\n"},
    {llama3, DCT_CHAT_LLAMA3, turns, 4,
     "<|start_header_id|>system<|end_header_id|>\n\n«S»<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n«A»<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n«B»<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n«C»<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {thinker, DCT_CHAT_CHATML, one, 1, "<|im_start|>user\n« Hi »<|im_end|>\n<|im_start|>assistant\n<think>\n"},
    {hybrid, DCT_CHAT_CHATML, one, 1, "<|im_start|>user\n« Hi »<|im_end|>\n<|im_start|>assistant\n"},
    {llama3_empty, DCT_CHAT_LLAMA3, one, 1,
     "<|start_header_id|>system<|end_header_id|>\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n«Hi»<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {llama31, DCT_CHAT_LLAMA3, one, 1,
     "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\n«Hi»<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {llama2, DCT_CHAT_LLAMA2, turns, 4, "[INST] <<SYS>>\n«S»\n<</SYS>>\n\n«A» [/INST] «B» </s><s>[INST] «C» [/INST]"},
    {llama2, DCT_CHAT_LLAMA2, one, 1, "[INST] «Hi» [/INST]"},
    {mistral_old, DCT_CHAT_MISTRAL, turns, 4, "[INST] «S»\n\n«A» [/INST]« B »</s>[INST] «C» [/INST]"},
    {mistral_v1, DCT_CHAT_MISTRAL, turns, 4, " [INST] «S»\n\n«A» [/INST] « B »</s> [INST] «C» [/INST]"},
    {mistral_v3, DCT_CHAT_MISTRAL, turns, 4, "[INST] «A»[/INST] «B»</s>[INST] «S»\n\n«C»[/INST]"},
    {mistral_tekken, DCT_CHAT_MISTRAL, turns, 4, "[INST]«A»[/INST]« B »</s>[INST]«S»\n\n«C»[/INST]"},
    {gemma, DCT_CHAT_GEMMA, turns, 4,
     "<start_of_turn>user\n«S»\n\n«A»<end_of_turn>\n<start_of_turn>model\n«B»<end_of_turn>\n<start_of_turn>user\n«C»<end_of_turn>\n"
     "<start_of_turn>model\n"},
    {phi3, DCT_CHAT_PHI3, with_system, 2, "<|system|>\n«Be brief.»<|end|>\n<|user|>\n«Hi»<|end|>\n<|assistant|>\n"},
};

static dct_str str_of(const char *z) { return (dct_str){z, strlen(z)}; }

static void test_render(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const render_case *c = &cases[i];
        render_out out = {.n = 0};
        dct_err err = {0};
        assert_int_equal(dct_chat_recognise(str_of(c->jinja)), c->family);
        assert_int_equal(dct_chat_render(c->family, str_of(c->jinja), c->messages, c->n, true, take_piece, &out, &err), DCT_OK);
        assert_string_equal(out.text, c->expected);
    }
}

static void test_without_generation(void **state) {
    (void)state;
    render_out out = {.n = 0};
    dct_err err = {0};
    assert_int_equal(dct_chat_render(DCT_CHAT_CHATML, str_of(plain_chatml), one, 1, false, take_piece, &out, &err), DCT_OK);
    assert_string_equal(out.text, "<|im_start|>user\n« Hi »<|im_end|>\n");
}

/* Openings without an end are gone through once, not again from each of them; the default behind them all is found. */
static void test_default_in_linear_time(void **state) {
    (void)state;
    static const char opening[] = "'<|im_start|>system\n", ending[] = "<|im_end|>";
    const size_t n_opening = strlen(opening), n_rest = strlen(ending) + strlen(qwen25);
#ifdef DCT_SANITIZED
    const size_t n_openings = 20000; /* a sanitizer looks over all that is left of the template at each search */
#else
    const size_t n_openings = 200000;
#endif
    char *jinja = malloc(n_openings * n_opening + n_rest + 1);
    assert_non_null(jinja);
    for (size_t i = 0; i < n_openings; i++) memcpy(jinja + i * n_opening, opening, n_opening);
    snprintf(jinja + n_openings * n_opening, n_rest + 1, "%s%s", ending, qwen25);
    render_out out = {.n = 0};
    dct_err err = {0};
    clock_t from = clock();
    assert_int_equal(dct_chat_render(DCT_CHAT_CHATML, str_of(jinja), one, 1, true, take_piece, &out, &err), DCT_OK);
    double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    assert_string_equal(out.text, cases[0].expected);
    if (seconds > 30) fail_msg("%.1f s for %zu openings", seconds, n_openings); /* of some milliseconds */
    free(jinja);
}

static void test_not_recognised(void **state) {
    (void)state;
    static const char *const others[] = {
        "", "{{ messages }}", "<|im_start|>user<|im_sep|>", "<|im_start|>User: <end_of_utterance>", "[SYSTEM_PROMPT]x[/SYSTEM_PROMPT][INST]",
        "<|user|>\n</s>\n<|assistant|>\n", "<|start_of_role|>user<|end_of_role|>",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_int_equal(dct_chat_recognise(str_of(others[i])), DCT_CHAT_NONE);
    render_out out = {.n = 0};
    dct_err err = {0};
    assert_int_equal(dct_chat_render(DCT_CHAT_NONE, str_of(""), one, 1, true, take_piece, &out, &err), DCT_USAGE);
    assert_non_null(strstr(err.message, "--chat-template"));
}

static void test_refused(void **state) {
    (void)state;
    static const dct_chat_message bad_role[] = {{"use", "x"}};
    static const dct_chat_message late_system[] = {{"user", "x"}, {"system", "y"}};
    static const dct_chat_message only_system[] = {{"system", "y"}};
    const struct { dct_chat_family family; const dct_chat_message *messages; uint32_t n; } refused[] = {
        {DCT_CHAT_CHATML, bad_role, 1}, {DCT_CHAT_GEMMA, late_system, 2}, {DCT_CHAT_LLAMA2, late_system, 2}, {DCT_CHAT_MISTRAL, only_system, 1},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        render_out out = {.n = 0};
        dct_err err = {0};
        assert_int_equal(dct_chat_render(refused[i].family, str_of(""), refused[i].messages, refused[i].n, true, take_piece, &out, &err), DCT_USAGE);
        assert_int_equal(out.n, 0);
    }
}

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"chatml", "llama2", "llama3", "mistral", "gemma", "phi3"};
    for (dct_chat_family family = DCT_CHAT_CHATML; family <= DCT_CHAT_PHI3; family++) {
        dct_chat_family back;
        const char *name = names[family - DCT_CHAT_CHATML];
        assert_true(dct_chat_family_of_name(name, &back));
        assert_int_equal(back, family);
        assert_non_null(strstr(dct_chat_names(), name));
    }
    dct_chat_family none;
    assert_false(dct_chat_family_of_name("none", &none));
    assert_true(dct_chat_writes_bos(str_of(llama3)));
    assert_false(dct_chat_writes_bos(str_of(qwen25)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render),  cmocka_unit_test(test_without_generation), cmocka_unit_test(test_not_recognised),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_names),              cmocka_unit_test(test_default_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
