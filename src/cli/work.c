/* pack and synth: the tools. */
#include <string.h>

#include "cli/cli.h"
#include "tools/tools.h"

static void print_packing(const dct_packfile_result *r) {
    const char *proof = r->height == r->load ? ", optimal" : r->optimal ? ", optimal (proven by search)" : "";
    cli_print("%llu items, load %llu, height %llu (%.4f of load)%s; ", (unsigned long long)r->n_items,
              (unsigned long long)r->load, (unsigned long long)r->height,
              r->load > 0 ? (double)r->height / (double)r->load : 1.0, proof);
    if (!r->optimal) cli_print("at least %llu; ", (unsigned long long)r->bound);
    cli_print("%llu nodes", (unsigned long long)r->nodes);
}

static void print_pool(void *ctx, const char *name, const dct_packfile_result *r) {
    (void)ctx;
    cli_print("pool '%s': ", name);
    print_packing(r);
    cli_print("\n");
}

/* N, or NAME=N; `room` holds the name. */
static bool parse_capacity(const char *text, char *room, size_t size, dct_packfile_capacity *out) {
    const char *equals = strrchr(text, '='), *number = equals != NULL ? equals + 1 : text;
    size_t n = (size_t)(number - text);
    if (n > size) return false;
    memcpy(room, text, n);
    if (n > 0) room[n - 1] = '\0';
    out->pool = n > 0 ? room : NULL;
    if (!cli_parse_size(number, &out->bytes)) return false;
    if (out->bytes == 0) out->bytes = 1; /* as O_SIZE has it */
    return true;
}

int cli_pack(const cli_options *o) {
    if (o->n_args + (o->problem != NULL) != 1)
        return cli_usage("usage: dctms pack F.csv|--input F [--capacity [POOL=]N]... [--minimize] [--nodes N|--seconds S] "
                         "[--output F] [--svg F]");
    if (o->seconds < 0) return cli_usage("--seconds %g: a time is expected (0: no end)", (double)o->seconds);
    dct_packfile_capacity capacities[CLI_MAX_LIST];
    char names[CLI_MAX_LIST][256];
    for (uint32_t i = 0; i < o->capacities.n; i++) {
        const char *text = o->capacities.text[i];
        if (!parse_capacity(text, names[i], sizeof names[i], &capacities[i]))
            return cli_usage("--capacity: '%s' is not a value for it", text);
    }
    const char *path = o->problem != NULL ? o->problem : o->args[0];
    cli_paths paths = {.in = {path}};
    cli_add_path(paths.out, o->output);
    cli_add_path(paths.out, o->svg);
    int code = cli_check_outputs(&paths);
    if (code != 0) return code;
    dct_packfile_params params = {.path = path,
                                  .output = o->output,
                                  .svg = o->svg,
                                  .capacities = capacities,
                                  .n_capacities = o->capacities.n,
                                  .nodes = o->nodes,
                                  .seconds = o->seconds,
                                  .minimize = o->minimize,
                                  .pool = print_pool};
    dct_packfile_result r;
    dct_err err;
    char *text;
    size_t n_text, map_bytes;
    if (strcmp(path, "-") == 0) { /* to the end of the process */
        if (cli_read_file(path, DCT_PACKFILE_MAX_BYTES, &text, &n_text, &map_bytes, &err) != DCT_OK) return cli_fail_err(&err);
        params.path = "standard input";
        params.text = text;
        params.n_text = n_text;
    }
    if (dct_packfile(&params, &r, &err) != DCT_OK) return cli_fail_err(&err);
    print_packing(&r);
    cli_print(", %.1f ms\n", r.ms);
    return 0;
}

int cli_synth(const cli_options *o) {
    if (o->n_args != 1 || o->output == NULL)
        return cli_usage("usage: dctms synth NAME --type T -o F   (NAME: %s)", dct_synth_names());
    int code = cli_check_outputs(&(cli_paths){.out = {o->output}, .into_directories = true});
    if (code != 0) return code;
    dct_synth_params params = {.name = o->args[0],
                               .type = o->type != NULL ? o->type : "Q4_0",
                               .path = o->output,
                               .seed = o->seed,
                               .threads = o->threads,
                               .header_only = o->header_only,
                               .progress = cli_progress,
                               .progress_ctx = (void *)(uintptr_t) "writing"};
    dct_err err;
    return dct_synth(&params, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}
