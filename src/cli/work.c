/* pack and synth: the tools. */
#include <string.h>

#include "cli/cli.h"
#include "tools/tools.h"

int cli_pack(const cli_options *o) {
    if (o->n_args != 1) return cli_usage("usage: dctms pack F.csv [--capacity N] [--output F]");
    dct_packfile_params params = {.path = o->args[0], .output = o->output, .capacity = o->capacity, .nodes = o->nodes};
    dct_packfile_result result;
    dct_err err;
    if (dct_packfile(&params, &result, &err) != DCT_OK) return cli_fail_err(&err);
    cli_print("%llu items, load %llu, height %llu (%.4f of load)%s\n", (unsigned long long)result.n_items,
              (unsigned long long)result.load, (unsigned long long)result.height,
              result.load > 0 ? (double)result.height / (double)result.load : 1.0, result.optimal ? ", optimal" : "");
    return 0;
}

int cli_synth(const cli_options *o) {
    if (o->n_args != 1 || o->output == NULL)
        return cli_usage("usage: dctms synth NAME --type T -o F   (NAME: %s)", dct_synth_names());
    dct_synth_params params = {.name = o->args[0],
                               .type = o->type != NULL ? o->type : "Q4_0",
                               .path = o->output,
                               .seed = o->seed,
                               .threads = o->threads,
                               .progress = cli_progress,
                               .progress_ctx = (void *)(uintptr_t) "writing"};
    dct_err err;
    return dct_synth(&params, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}
