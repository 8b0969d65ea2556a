/* exec/exec: walks the steps of a phase.
 *
 * Memory, from the caller: the record, then for each phase its gates (one a step), its runs (one an op: every address worked
 * out once) and the list of its last steps. Nothing is worked out while running but the number of pieces.
 *
 * A worker walks the steps that name it in the plan's order: wait for the gates that the step names, claim pieces until none
 * is left. Who finishes the last piece runs the tail of the step and closes its gate.
 */
#include "exec/exec.h"

#include <string.h>

#include "base/size.h"
#include "exec/gate.h"
#include "exec/pool.h"

typedef struct exec_phase {
    const dct_phase *phase;
    dct_gate *gates;       /* [n_steps] */
    dct_op_run *runs;      /* [n_ops]; prepare() sets the rest */
    uint64_t *scratch_bytes; /* [n_ops] of one worker */
    uint32_t *last_steps;  /* steps that no other step waits for */
    uint32_t n_last;
    uint32_t run;          /* number of the last run */
} exec_phase;

struct dct_exec {
    const dct_plan *plan;
    dct_bases bases;
    dct_pool *pool;
    uint64_t n_waits;
    exec_phase phases[DCT_PLAN_MAX_PHASES];
};

static uint64_t phase_bytes(const dct_phase *phase) {
    return dct_round_up((uint64_t)phase->n_steps * sizeof(dct_gate), 64) +
           dct_round_up((uint64_t)phase->graph.n_ops * sizeof(dct_op_run), 64) +
           dct_round_up((uint64_t)phase->graph.n_ops * sizeof(uint64_t), 64) +
           dct_round_up((uint64_t)phase->n_steps * sizeof(uint32_t), 64);
}

uint64_t dct_exec_bytes(const dct_plan *plan) {
    uint64_t bytes = dct_round_up(sizeof(dct_exec), 64);
    for (uint32_t i = 0; i < plan->n_phases; i++) bytes += phase_bytes(&plan->phases[i]);
    return bytes;
}

/* Takes bytes from the front of the caller's memory, a whole number of lines. */
static void *take(char **from, uint64_t bytes) {
    void *out = *from;
    *from += dct_round_up(bytes, 64);
    return out;
}

static void *value_address(const dct_exec *exec, const dct_phase *phase, dct_value_id id) {
    if (id == DCT_NONE) return NULL;
    const dct_place place = phase->places[id]; /* in place: that of what it overwrites, as the verifier saw */
    return exec->bases.of[place.region] + place.offset;
}

static void bind_ops(dct_exec *exec, exec_phase *ep, const dct_kernels *kernels) {
    const dct_phase *phase = ep->phase;
    for (uint32_t i = 0; i < phase->graph.n_ops; i++) {
        const dct_op *op = &phase->graph.ops[i];
        dct_op_run *run = &ep->runs[i];
        run->graph = &phase->graph;
        run->op = op;
        run->kernels = kernels;
        for (uint32_t k = 0; k < op->n_in; k++) run->in[k] = value_address(exec, phase, op->in[k]);
        for (uint32_t k = 0; k < op->n_out; k++) run->out[k] = value_address(exec, phase, op->out[k]);
        run->scratch = value_address(exec, phase, phase->scratch[i]);
        if (run->scratch != NULL) ep->scratch_bytes[i] = dct_value_row_bytes(&phase->graph.values[phase->scratch[i]]);
    }
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        for (uint32_t k = 0; k < step->n_ops; k++) ep->runs[step->ops[k]].n_workers = step->n_workers;
    }
}

/* Steps that no later step waits for: when these are complete, all are. A step of one worker is also followed by that worker's
 * later steps, and listing it as well does no harm. */
static void find_last_steps(exec_phase *ep) {
    const dct_phase *phase = ep->phase;
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        bool waited_for = false;
        for (uint32_t w = 0; w < phase->n_waits && !waited_for; w++) waited_for = phase->waits[w] == s;
        if (!waited_for) ep->last_steps[ep->n_last++] = s;
    }
}

dct_status dct_exec_init(void *memory, const dct_checked_plan *checked, const dct_bases *bases, const dct_kernels *kernels,
                         dct_pool *pool, dct_exec **out, dct_err *err) {
    const dct_plan *plan = dct_checked_plan_get(checked);
    if (plan->bounds.threads != dct_pool_workers(pool))
        return dct_fail(err, DCT_BUG, "the plan is for %u workers, the pool has %u", plan->bounds.threads,
                        dct_pool_workers(pool));
    memset(memory, 0, (size_t)dct_exec_bytes(plan));
    char *free_memory = memory;
    dct_exec *exec = take(&free_memory, sizeof *exec);
    exec->plan = plan;
    exec->bases = *bases;
    exec->pool = pool;
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        exec_phase *ep = &exec->phases[i];
        const dct_phase *phase = &plan->phases[i];
        ep->phase = phase;
        ep->gates = take(&free_memory, (uint64_t)phase->n_steps * sizeof(dct_gate));
        ep->runs = take(&free_memory, (uint64_t)phase->graph.n_ops * sizeof(dct_op_run));
        ep->scratch_bytes = take(&free_memory, (uint64_t)phase->graph.n_ops * sizeof(uint64_t));
        ep->last_steps = take(&free_memory, (uint64_t)phase->n_steps * sizeof(uint32_t));
        bind_ops(exec, ep, kernels);
        find_last_steps(ep);
    }
    *out = exec;
    return DCT_OK;
}

/* What a walk needs to know of this run; worker_in_step counts from the step's first worker. */
typedef struct walk {
    const exec_phase *ep;
    uint32_t n, pos0, run, worker_in_step;
} walk;

static dct_op_run prepare(const walk *w, dct_op_id op) {
    dct_op_run run = w->ep->runs[op];
    run.n = w->n;
    run.pos0 = w->pos0;
    if (run.scratch != NULL) run.scratch = (char *)run.scratch + w->worker_in_step * w->ep->scratch_bytes[op];
    dct_op_cut(&run);
    return run;
}

static void run_tail(const walk *w, const dct_step *step) {
    for (uint32_t i = 1; i < step->n_ops; i++) {
        dct_op_run run = prepare(w, step->ops[i]);
        for (uint32_t piece = 0; piece < run.n_pieces; piece++) dct_op_piece(&run, piece);
    }
}

/* first: the step's first op, prepared; its pieces are what workers share. */
static void run_step(const walk *w, const dct_step *step, const dct_op_run *first, dct_gate *gate, dct_seat *seat) {
    uint32_t piece;
    dct_seat_hold(seat);
    while (dct_gate_claim(gate, w->run, first->n_pieces, &piece)) {
        dct_op_piece(first, piece);
        if (!dct_gate_finish(gate, first->n_pieces)) continue;
        run_tail(w, step);
        dct_gate_close(gate, w->run);
    }
    dct_seat_release(seat);
}

/* arg: phase number, run, n, pos0. */
static void walk_steps(const dct_job *job, uint32_t worker) {
    const dct_exec *exec = job->ctx;
    const exec_phase *ep = &exec->phases[job->arg[0]];
    const dct_phase *phase = ep->phase;
    walk w = {ep, job->arg[2], job->arg[3], job->arg[1], 0};
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        if (worker < step->worker_first || worker - step->worker_first >= step->n_workers) continue;
        w.worker_in_step = worker - step->worker_first;
        dct_op_run first = prepare(&w, step->ops[0]);
        dct_op_expect(&first, w.worker_in_step);
        for (uint32_t i = 0; i < step->n_waits; i++)
            dct_pool_wait(exec->pool, worker, &ep->gates[phase->waits[step->wait_begin + i]], w.run);
        run_step(&w, step, &first, &ep->gates[s], dct_pool_seat(exec->pool, worker));
    }
}

static uint32_t phase_number(const dct_exec *exec, dct_phase_kind kind) {
    uint32_t i = 0;
    while (exec->plan->phases[i].kind != kind) i++;
    return i;
}

void dct_exec_run(dct_exec *exec, dct_phase_kind kind, uint32_t n, uint32_t pos0) {
    uint32_t number = phase_number(exec, kind);
    exec_phase *ep = &exec->phases[number];
    dct_job job = {walk_steps, exec, {number, ++ep->run, n, pos0}};
    dct_pool_enter(exec->pool);
    dct_pool_post(exec->pool, &job);
    walk_steps(&job, 0);
    for (uint32_t i = 0; i < ep->n_last; i++) dct_pool_wait(exec->pool, 0, &ep->gates[ep->last_steps[i]], ep->run);
    dct_pool_leave(exec->pool);
    exec->n_waits += ep->phase->n_waits;
}

void *dct_exec_value(dct_exec *exec, dct_phase_kind kind, dct_value_id id) {
    return value_address(exec, exec->phases[phase_number(exec, kind)].phase, id);
}

uint64_t dct_exec_waits(const dct_exec *exec) { return exec->n_waits; }
