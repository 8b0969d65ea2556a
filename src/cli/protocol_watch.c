/* A session of protocol from outside, the same for every system: its resident memory every 10 ms from /proc/PID/statm, the
 * most it ever had from /proc/PID/status, and a record at the end of each call.
 *
 * A sample costs this process some ten microseconds. Files are opened once; between calls, while a child of ours waits for
 * the word to go on, records are written.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/protocol.h"

enum { PERIOD_NS = 10 * 1000 * 1000, MAX_SAMPLES = 1 << 17, LINE_BYTES = 4096 }; /* 131,072 samples: 21 minutes a call */

typedef struct watch {
    const protocol_job *job;
    pid_t pid, neighbour;
    int from_child, to_child, statm;
    uint32_t at;              /* the call that goes on, or comes next */
    bool calling, skip_line;  /* skip_line: the next line of llama-bench is its warm-up */
    uint64_t began_ns, peak;
    dct_rss_sample *samples;  /* of this call */
    uint32_t n_samples;
    char line[LINE_BYTES];    /* of llama-bench, as far as it was read */
    size_t n_line;
    int code;                 /* of the first failure on our side */
} watch;

/* ---- memory of a process ---- */

static int open_proc(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Resident bytes: the second number of statm. 0 when there is no telling. */
static uint64_t resident_bytes(int statm) {
    char text[128];
    ssize_t n = statm < 0 ? -1 : pread(statm, text, sizeof text - 1, 0);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second != NULL ? strtoull(second, NULL, 10) * dct_os_page_bytes() : 0;
}

static uint64_t peak_bytes(pid_t pid) {
    char text[4096];
    int fd = open_proc(pid, "status");
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line != NULL ? strtoull(line + strlen("VmHWM:"), NULL, 10) * 1024 : 0;
}

static void take_sample(watch *w) {
    uint64_t bytes = resident_bytes(w->statm);
    if (!w->calling || bytes == 0) return;
    if (bytes > w->peak) w->peak = bytes;
    if (w->n_samples == MAX_SAMPLES) return;
    w->samples[w->n_samples++] = (dct_rss_sample){(double)(dct_os_now_ns() - w->began_ns) * 1e-6, bytes};
}

/* ---- calls ---- */

static int note_failure(watch *w, int code) {
    if (w->code == 0) w->code = code;
    return code;
}

/* A child that has ended does not hear it; its end is seen where it is read from. */
static void let_go(const watch *w) { (void)!write(w->to_child, "g", 1); }

static int start_neighbour(watch *w) {
    return note_failure(w, protocol_start_neighbour(w->job->request, w->job->key.stress, &w->neighbour));
}

static void begin_call(watch *w) {
    w->calling = true;
    w->began_ns = dct_os_now_ns();
    w->peak = 0;
    w->n_samples = 0;
    take_sample(w);
}

static void show_progress(const watch *w) {
    static char label[64];
    const dct_session_key *key = &w->job->key;
    snprintf(label, sizeof label, "run %u, stress %s, %s: all calls", key->run, dct_stress_name(key->stress),
             dct_system_name(key->system));
    cli_progress(label, w->job->request->n_done, w->job->request->n_all);
}

static int end_call(watch *w, const protocol_message *m) {
    protocol_request *r = w->job->request;
    dct_err err;
    take_sample(w);
    w->calling = false;
    const protocol_todo *todo = &w->job->todo[w->at++];
    uint64_t hwm = peak_bytes(w->pid); /* 0 of a process that has ended meanwhile */
    const dct_call call = {w->job->key, todo->prompt, todo->repetition, m->n_prompt, m->n_predicted, m->latency_ms,
                           w->peak, hwm > w->peak ? hwm : w->peak};
    if (!protocol_neighbour_lives(w->neighbour)) {
        cli_note("dctms: the neighbour process has ended; what is measured without it would not count\n");
        return note_failure(w, DCT_SYSTEM);
    }
    if (dct_rss_append(&r->rss, &call, w->samples, w->n_samples, &err) != DCT_OK ||
        dct_calls_append(&r->calls, &call, &err) != DCT_OK) return note_failure(w, cli_fail_err(&err));
    r->n_done++;
    show_progress(w);
    return 0;
}

/* ---- what children say ---- */

static int obey_message(watch *w, const protocol_message *m) {
    int code = 0;
    switch (m->event) {
    case PROTOCOL_READY:
        code = start_neighbour(w);
        if (code == 0) let_go(w);
        return code;
    case PROTOCOL_BEGAN: begin_call(w); return 0;
    case PROTOCOL_ENDED:
        if (w->at < w->job->n_todo) code = end_call(w, m);
        if (code == 0) let_go(w);
        return code;
    }
    return note_failure(w, DCT_BUG);
}

/* A line of llama-bench ends a call, and the next one begins with it. The first is its warm-up. */
static int obey_line(watch *w) {
    protocol_message m;
    if (!protocol_read_peer_line(w->line, &m)) return 0;
    int code = 0;
    if (w->skip_line) code = start_neighbour(w);
    else if (w->at < w->job->n_todo) code = end_call(w, &m);
    w->skip_line = false;
    if (w->at < w->job->n_todo) begin_call(w);
    return code;
}

static int obey_text(watch *w, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n') {
            if (w->n_line < sizeof w->line - 1) w->line[w->n_line++] = text[i];
            continue;
        }
        w->line[w->n_line] = '\0';
        w->n_line = 0;
        int code = obey_line(w);
        if (code != 0) return code;
    }
    return 0;
}

/* Something can be read; false at the end, or when it makes no sense to go on. */
static bool hear(watch *w) {
    union { protocol_message message; char text[2048]; } heard;
    bool is_ours = w->job->key.system != DCT_LLAMA_CPP;
    ssize_t n = read(w->from_child, &heard, is_ours ? sizeof heard.message : sizeof heard.text);
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) return false;
    if (!is_ours) return obey_text(w, heard.text, (size_t)n) == 0;
    if (n != sizeof heard.message) return false;
    return obey_message(w, &heard.message) == 0;
}

/* Sleeps until something can be read or the next sample is due; samples that were missed are not made up for. */
static void follow(watch *w) {
    uint64_t due = dct_os_now_ns();
    for (;;) {
        struct pollfd input = {.fd = w->from_child, .events = POLLIN};
        uint64_t now = dct_os_now_ns(), left = due > now ? due - now : 0;
        int ready = ppoll(&input, 1, &(struct timespec){.tv_nsec = (long)left}, NULL);
        if (ready > 0 && !hear(w)) return;
        now = dct_os_now_ns();
        if (now < due) continue;
        take_sample(w);
        due += (1 + (now - due) / PERIOD_NS) * PERIOD_NS;
    }
}

/* The child's own word on why it ended comes first, unless it was ended from here. Another program has none that we hear, and its
 * codes are not ours, but for those of a signal that was meant for us all. */
static int judge(const watch *w, int child_code) {
    const dct_system system = w->job->key.system;
    const bool is_stopped = child_code == 128 + SIGINT || child_code == 128 + SIGTERM || child_code == 128 + SIGHUP;
    if (w->code != 0) return w->code;
    if (child_code != 0 && (system != DCT_LLAMA_CPP || is_stopped)) return child_code;
    if (child_code == 0 && w->at == w->job->n_todo) return 0;
    cli_note("dctms: %s ended with code %d after %u of %u calls\n", dct_system_name(system), child_code, w->at, w->job->n_todo);
    return DCT_SYSTEM;
}

int protocol_watch(const protocol_job *job, pid_t pid, int from_child, int to_child) {
    static watch w;
    w = (watch){.job = job, .pid = pid, .from_child = from_child, .to_child = to_child, .skip_line = true};
    w.samples = dct_os_map(MAX_SAMPLES * sizeof *w.samples);
    w.statm = open_proc(pid, "statm");
    if (w.samples != NULL) follow(&w);
    else note_failure(&w, cli_no_memory("the series of samples"));
    if (w.code != 0) kill(pid, SIGKILL);
    if (w.to_child >= 0) close(w.to_child);
    close(w.from_child);
    int status_code = w.code != 0 ? (waitpid(pid, NULL, 0), 0) : cli_wait_child(pid, "the session");
    protocol_end_neighbour(w.neighbour);
    if (w.statm >= 0) close(w.statm);
    if (w.samples != NULL) dct_os_unmap(w.samples, MAX_SAMPLES * sizeof *w.samples);
    return judge(&w, status_code);
}
