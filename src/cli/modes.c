/* How verbs open sessions: what --alloc, --seal and their kin say, in one place, so that they mean the same everywhere. */
#include <string.h>

#include "cli/cli.h"

static bool parse_seal(const char *how, cli_modes *modes) {
    modes->seal = strcmp(how, "off") != 0;
    modes->seal_kills = strcmp(how, "kill") == 0;
    if (!modes->seal || modes->seal_kills || strcmp(how, "on") == 0) return true;
    cli_usage("--seal: '%s' is none of on, kill, off", how);
    return false;
}

bool cli_parse_modes(const cli_options *o, cli_modes *modes) {
    dctms_session_params *params = &modes->session;
    *params = dctms_session_default_params();
    params->mlock = o->mlock;
    params->force = o->force;
    params->progress = cli_progress;
    params->progress_ctx = (void *)(uintptr_t) "loading";
    if (o->alloc != NULL && strcmp(o->alloc, "dynamic") == 0) {
        params->alloc = DCTMS_ALLOC_DYNAMIC;
    } else if (o->alloc != NULL && strcmp(o->alloc, "planned") != 0) {
        cli_usage("--alloc: '%s' is neither planned nor dynamic", o->alloc);
        return false;
    }
    bool is_dynamic = params->alloc == DCTMS_ALLOC_DYNAMIC;
    params->whole_process = !is_dynamic;
    if (!parse_seal(o->seal != NULL ? o->seal : is_dynamic ? "off" : "on", modes)) return false;
    if (modes->seal && is_dynamic) {
        cli_usage("--alloc dynamic gets memory all the time; it runs with --seal off only");
        return false;
    }
    if (!is_dynamic) cli_heap_close();
    return true;
}

int cli_seal(const cli_modes *modes, bool *enforced) {
    dctms_error err;
    *enforced = false;
    if (!modes->seal || dctms_seal(modes->seal_kills, enforced, &err) == DCTMS_OK) return 0;
    return cli_fail(&err);
}
