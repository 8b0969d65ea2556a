/* How verbs open sessions: what --alloc, --seal and their kin say, in one place, so that they mean the same everywhere. */
#include <stdlib.h>
#include <string.h>

#include "base/safe_text.h"
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
    bool is_emulated = getenv("DCTMS_EMULATED") != NULL; /* then the emulator's memory is counted as the program's */
    params->whole_process = !is_dynamic && !is_emulated;
    if (!parse_seal(o->seal != NULL ? o->seal : is_dynamic ? "off" : "on", modes)) return false;
    if (modes->seal && is_dynamic) {
        cli_usage("--alloc dynamic gets memory all the time; it runs with --seal off only");
        return false;
    }
    if (!is_dynamic) cli_heap_close();
    return true;
}

void cli_warn_context(const dctms_model *model, const dctms_plan *plan, const cli_options *o) {
    dctms_model_info m;
    dctms_plan_info p;
    dctms_plan_get_info(plan, &p);
    if (o != NULL && o->budget_ctx != 0)
        cli_note("note: a context of %u tokens and a chunk of %u rows fit the budget\n", p.n_ctx, p.ubatch);
    if (dctms_model_get_info(model, &m, NULL) != DCTMS_OK || m.n_ctx_train == 0 || p.n_ctx <= m.n_ctx_train) return;
    dct_safe_text name;
    cli_note("warning: a context of %u tokens, %s was trained for %u: what follows those may be nonsense\n", p.n_ctx,
             m.name[0] != '\0' ? dct_safe(m.name, &name) : "the model", m.n_ctx_train);
}

uint64_t cli_heap_calls(void) {
    cli_heap_figures heap;
    cli_heap_get(&heap);
    return heap.calls;
}

void cli_note_memory(const dctms_memory *m, uint64_t calls) {
    cli_note("M_max %.2f MiB · observed %.2f MiB · mallocs after ready %llu · page faults after ready %llu%s\n",
             cli_mib(m->m_max_bytes), cli_mib(m->vm_hwm_bytes), (unsigned long long)calls,
             (unsigned long long)(m->min_faults + m->maj_faults), m->sealed ? "" : " · not sealed");
    if (m->vm_hwm_bytes > m->m_max_bytes)
        cli_note("warning: the process took %.2f MiB more than M_max\n", cli_mib(m->vm_hwm_bytes - m->m_max_bytes));
}

int cli_seal(const cli_modes *modes, bool *enforced) {
    dctms_error err;
    *enforced = false;
    if (!modes->seal) return 0;
    if (dctms_seal(modes->seal_kills, enforced, &err) != DCTMS_OK) return cli_fail(&err);
    if (*enforced) cli_explain_stops();
    return 0;
}
