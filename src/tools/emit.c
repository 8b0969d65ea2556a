/* tools/emit: a plan as a file for whoever starts processes: the limit of memory is M_max, and the command is the one that was
 * planned, so that a scheduler can place it by arithmetic.
 *
 *     systemd      a unit, one answer and done      MemoryMax      bytes     LimitMEMLOCK
 *     docker       a compose file                   mem_limit      bytes     ulimits: memlock
 *     kubernetes   a pod                            limits.memory  bytes     CAP_IPC_LOCK: it has no such limit
 *     nomad        a batch job                      memory         MiB       ulimit: memlock
 *
 * Kernels count in pages and cut a limit down to whole ones: bytes are rounded up to pages here, MiB to MiB. Swap is off in each:
 * what is planned is memory. Every word is quoted as its format wants it; names that are no text are refused.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "base/size.h"
#include "base/utf8.h"
#include "tools/tools.h"

enum { PAGE = 4096, MIB = 1024 * 1024, LABEL_BYTES = 64 };

typedef struct emitter {
    const dct_emit_params *p;
    uint64_t limit_bytes;     /* M_max in whole pages */
    char label[LABEL_BYTES];  /* "dctms-qwen2-5-1-5b": what every one of them takes for a name */
    char directory[4096];     /* that the model lies in, or is */
} emitter;

static void put_text(const emitter *e, const char *text, size_t n) { e->p->write(e->p->ctx, text, n); }

static void put(const emitter *e, const char *format, ...) DCT_PRINTF(2, 3);
static void put(const emitter *e, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) put_text(e, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* ---- words ---- */

/* In which text a word stands: what begins a substitution there is doubled, to stand for itself. */
typedef enum quoting { IN_UNIT, IN_COMPOSE, IN_POD_COMMAND, IN_POD, IN_HCL } quoting;

static bool is_doubled(quoting where, const char *at) {
    switch (where) {
    case IN_UNIT: return *at == '%' || *at == '$';
    case IN_COMPOSE: case IN_POD_COMMAND: return *at == '$';
    case IN_HCL: return (*at == '$' || *at == '%') && at[1] == '{';
    case IN_POD: break;
    }
    return false;
}

/* Between double quotes, which all of them read alike once quotes and backslashes are escaped. */
static void put_word(const emitter *e, quoting where, const char *word) {
    put(e, "\"");
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') put(e, "\\");
        if (is_doubled(where, at)) put_text(e, at, 1);
        put_text(e, at, 1);
    }
    put(e, "\"");
}

/* ["run", "model.gguf", ...] */
static void put_list(const emitter *e, quoting where) {
    put(e, "[");
    for (uint32_t i = 0; i < e->p->n_words; i++) {
        if (i > 0) put(e, ", ");
        put_word(e, where, e->p->words[i]);
    }
    put(e, "]\n");
}

static void put_line(const emitter *e, const char *before, quoting where, const char *word) {
    put(e, "%s", before);
    put_word(e, where, word);
    put(e, "\n");
}

/* ---- formats ---- */

static void put_systemd(const emitter *e) {
    put(e, "[Unit]\nDescription=%s\n\n[Service]\nType=oneshot\nExecStart=", e->label);
    put_word(e, IN_UNIT, e->p->program);
    for (uint32_t i = 0; i < e->p->n_words; i++) {
        put(e, " ");
        put_word(e, IN_UNIT, e->p->words[i]);
    }
    put(e, "\nMemoryAccounting=yes\nMemoryMax=%" PRIu64 "\nMemorySwapMax=0\n", e->limit_bytes);
    if (e->p->locks) put(e, "LimitMEMLOCK=%" PRIu64 "\n", e->limit_bytes);
    put(e, "NoNewPrivileges=yes\n");
}

static void put_compose_volume(const emitter *e, const char *path) {
    put_line(e, "      - type: bind\n        source: ", IN_COMPOSE, path);
    put_line(e, "        target: ", IN_COMPOSE, path);
    put(e, "        read_only: true\n");
}

static void put_docker(const emitter *e) {
    put(e, "services:\n  %s:\n    image: \"%s\"\n    entrypoint: [\"dctms\"]\n    command: ", e->label, e->p->image);
    put_list(e, IN_COMPOSE);
    put(e, "    mem_limit: \"%" PRIu64 "b\"\n    memswap_limit: \"%" PRIu64 "b\"\n", e->limit_bytes, e->limit_bytes);
    if (e->p->locks) {
        put(e, "    ulimits:\n      memlock:\n        soft: %" PRIu64 "\n        hard: %" PRIu64 "\n", e->limit_bytes,
            e->limit_bytes);
    }
    put(e, "    volumes:\n");
    put_compose_volume(e, e->directory);
    put_compose_volume(e, e->p->prompt);
    put(e, "    restart: \"no\"\n");
}

/* Requests that equal the limits: the pod is never the one that others push out. */
static void put_kubernetes(const emitter *e) {
    put(e, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  restartPolicy: Never\n  containers:\n    - name: dctms\n",
        e->label);
    put(e, "      image: \"%s\"\n      command: [\"dctms\"]\n      args: ", e->p->image);
    put_list(e, IN_POD_COMMAND);
    put(e, "      resources:\n");
    static const char *const both[] = {"requests", "limits"};
    for (int i = 0; i < 2; i++) {
        put(e, "        %s:\n          memory: \"%" PRIu64 "\"\n          cpu: \"%u\"\n", both[i], e->limit_bytes,
            e->p->threads);
    }
    if (e->p->locks)
        put(e, "      securityContext: # there is no limit for locked memory to set; this lifts it\n        capabilities:\n"
               "          add: [\"IPC_LOCK\"]\n");
    const char *const paths[] = {e->directory, e->p->prompt}, *const names[] = {"model", "prompt"},
               *const types[] = {"Directory", "File"};
    put(e, "      volumeMounts:\n");
    for (int i = 0; i < 2; i++) {
        put(e, "        - name: %s\n          readOnly: true\n", names[i]);
        put_line(e, "          mountPath: ", IN_POD, paths[i]);
    }
    put(e, "  volumes:\n");
    for (int i = 0; i < 2; i++) {
        put(e, "    - name: %s\n      hostPath:\n", names[i]);
        put_line(e, "        path: ", IN_POD, paths[i]);
        put(e, "        type: %s\n", types[i]);
    }
}

static void put_mount(const emitter *e, const char *path) {
    put(e, "        mount {\n          type     = \"bind\"\n");
    put_line(e, "          source   = ", IN_HCL, path);
    put_line(e, "          target   = ", IN_HCL, path);
    put(e, "          readonly = true\n        }\n");
}

static void put_nomad(const emitter *e) {
    put(e, "job \"%s\" {\n  type = \"batch\"\n\n  group \"dctms\" {\n    task \"dctms\" {\n", e->label);
    put(e, "      driver = \"docker\"\n\n      config {\n        image      = \"%s\"\n", e->p->image);
    put(e, "        entrypoint = [\"dctms\"]\n        args       = ");
    put_list(e, IN_HCL);
    put(e, "\n");
    if (e->p->locks) {
        put(e, "        ulimit {\n          memlock = \"%" PRIu64 ":%" PRIu64 "\"\n        }\n\n", e->limit_bytes,
            e->limit_bytes);
    }
    put_mount(e, e->directory);
    put_mount(e, e->p->prompt);
    put(e, "      }\n\n      resources {\n        cores  = %u\n", e->p->threads);
    put(e, "        memory = %" PRIu64 "\n      }\n", dct_div_up(e->p->m_max_bytes, MIB));
    put(e, "    }\n  }\n}\n");
}

static const struct {
    const char *name;
    void (*put)(const emitter *e);
} formats[] = {{"systemd", put_systemd}, {"docker", put_docker}, {"kubernetes", put_kubernetes}, {"nomad", put_nomad}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* ---- the call ---- */

/* Small letters, digits and single dashes between them: a DNS label. */
static void make_label(const char *name, char label[LABEL_BYTES]) {
    size_t n = (size_t)snprintf(label, LABEL_BYTES, "dctms");
    bool dash = true;
    for (; *name != '\0' && n < LABEL_BYTES - 2; name++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain) {
            dash = true;
            continue;
        }
        if (dash) label[n++] = '-';
        dash = false;
        label[n++] = c;
    }
    label[n] = '\0';
}

static dct_status check_text(const char *what, const char *text, dct_err *err) {
    size_t n = strlen(text);
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t c;
        dct_safe_text safe;
        step = dct_utf8_next(text + at, n - at, &c);
        if (step != 0 && !dct_is_unsafe_char(c)) continue;
        return dct_fail(err, DCT_USAGE, "the %s '%s' cannot be written down: it holds characters that are no text", what,
                        dct_safe(text, &safe));
    }
    return DCT_OK;
}

static dct_status find_directory(emitter *e, dct_err *err) {
    const char *model = e->p->model, *slash = strrchr(model, '/');
    size_t n = e->p->model_is_directory || slash == NULL ? strlen(model) : (size_t)(slash - model);
    if (n == 0) n = 1; /* "/" */
    if (n >= sizeof e->directory) return dct_fail(err, DCT_USAGE, "path too long: %.80s...", model);
    memcpy(e->directory, model, n);
    e->directory[n] = '\0';
    return DCT_OK;
}

bool dct_emit_knows(const char *format) {
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, format) == 0) return true;
    return false;
}

const char *dct_emit_names(void) { return "systemd, docker, kubernetes, nomad"; }

dct_status dct_emit(const dct_emit_params *params, dct_err *err) {
    emitter e = {.p = params};
    if (!dct_align_u64(params->m_max_bytes, PAGE, &e.limit_bytes)) return dct_fail(err, DCT_NO_FIT, "M_max is no size");
    dct_status status = check_text("program", params->program, err);
    for (uint32_t i = 0; status == DCT_OK && i < params->n_words; i++) status = check_text("word", params->words[i], err);
    if (status == DCT_OK) status = find_directory(&e, err);
    if (status != DCT_OK) return status;
    make_label(params->name, e.label);
    for (int i = 0; i < N_FORMATS; i++) {
        if (strcmp(formats[i].name, params->format) != 0) continue;
        put(&e, "# dctms plan --emit %s: M_max %" PRIu64 " bytes\n", params->format, params->m_max_bytes);
        formats[i].put(&e);
        return DCT_OK;
    }
    return dct_fail(err, DCT_USAGE, "'%.40s' is none of %s", params->format, dct_emit_names());
}
