/* calibrate: what this machine reaches, measured once and kept in a file for --cost-profile. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "tools/tools.h"

/* Makes a folder and its parents; false when one cannot be made. */
static bool make_folders(char *path) {
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL) *at = '\0';
        bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        if (at == NULL || !made) return made;
        *at = '/';
    }
}

/* Where the profile lies when nobody says where: as the XDG base directories have it. Returns the exit code. */
static int default_path(const char **out) {
    static char path[CLI_PATH_BYTES];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache != NULL && cache[0] == '/') n = snprintf(path, sizeof path, "%s/dctms", cache);
    else if (home != NULL && home[0] == '/') n = snprintf(path, sizeof path, "%s/.cache/dctms", home);
    if (n < 0 || (size_t)n > sizeof path - sizeof "/cost-profile")
        return cli_usage("neither XDG_CACHE_HOME nor HOME says where to keep a profile: -o FILE is needed");
    if (!make_folders(path)) {
        cli_note("dctms: %s: %s\n", path, strerror(errno));
        return DCT_SYSTEM;
    }
    *out = strcat(path, "/cost-profile");
    return 0;
}

int cli_calibrate(const cli_options *o) {
    if (o->n_args != 0) return cli_usage("usage: dctms calibrate [-t W] [-o FILE]");
    const char *path = o->output;
    int code = path != NULL ? 0 : default_path(&path);
    if (code == 0) code = cli_check_outputs(&(cli_paths){.out = {path}});
    if (code != 0) return code;
    dct_err err;
    cli_sink sink = {0};
    uint32_t usable = dct_os_usable_cpus(NULL, NULL, 0), most = DCT_CALIBRATE_WORKERS;
    uint32_t workers = o->threads != 0 ? o->threads : usable < most ? usable : most;
    void *progress = (void *)(uintptr_t) "measuring";
    if (dct_calibrate(workers, cli_progress, progress, cli_sink_write, &sink, &err) != DCT_OK) {
        cli_sink_drop(&sink);
        return cli_fail_err(&err);
    }
    cli_out(NULL, sink.bytes, sink.used);
    code = cli_sink_save(&sink, path);
    if (code == 0) cli_note("written to %s; plan and run take it as --cost-profile\n", path);
    return code;
}
