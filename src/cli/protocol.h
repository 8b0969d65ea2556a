/* cli/protocol: the parts of the verb `protocol`.
 *
 *   protocol.c           what the flags ask for, the order of sessions, what is kept and shown
 *   protocol_session.c   one session of ours: open, seal, answer prompts; and the survey before all of them
 *   protocol_peer.c      one session of llama.cpp, through its llama-bench
 *   protocol_watch.c     what both look like from outside: calls begin and end, RSS is sampled, records are written
 *   protocol_stress.c    the neighbour
 *
 * This process reads the flags and then starts children one after another: a process can be sealed once, and its peak of memory
 * never falls. It holds next to nothing while they run, because a child begins with what its parent has; so what a child finds
 * out for its parent comes through a pipe, and records go to a file at once.
 */
#ifndef DCT_CLI_PROTOCOL_H
#define DCT_CLI_PROTOCOL_H

#include "cli/cli.h"
#include "tools/tools.h"

/* What the model's header and the plan say, and how long the prompts are. */
typedef struct protocol_survey {
    dctms_model_info model;
    dctms_plan_info plan;
    uint32_t n_tokens[DCT_PROTOCOL_PROMPTS];
} protocol_survey;

/* One call that is still to be made. */
typedef struct protocol_todo {
    uint16_t prompt, repetition;
} protocol_todo;

enum { PROTOCOL_MAX_CALLS = DCT_PROTOCOL_PROMPTS * DCT_PROTOCOL_REPETITIONS, PROTOCOL_WARM_TOKENS = 16 };

/* What the flags say. */
typedef struct protocol_request {
    const cli_options *options;
    cli_options bounds; /* the options with this verb's defaults for N and M */
    uint16_t prompts[DCT_PROTOCOL_PROMPTS];
    uint32_t n_prompts;
    dct_system systems[DCT_SYSTEMS];
    dct_stress stresses[DCT_STRESSES];
    uint32_t n_systems, n_stresses;
    protocol_survey survey;
    uint64_t neighbour_bytes; /* what the neighbour of memory takes at most */
    dct_mem_group group;      /* with --memory-limit: where sessions and neighbours run */
    dct_calls_file calls, rss;
    uint32_t n_done, n_all;   /* calls, for the line of progress */
} protocol_request;

/* One session: a system under a condition in a run, and what it has left to do. */
typedef struct protocol_job {
    protocol_request *request;
    dct_session_key key;
    const protocol_todo *todo;
    uint32_t n_todo;
} protocol_job;

/* What a child of ours tells its parent: a pipe carries these whole. Before each call it waits for a byte of the parent, so
 * that nothing else is done while a call is timed. */
typedef enum protocol_event { PROTOCOL_READY, PROTOCOL_BEGAN, PROTOCOL_ENDED } protocol_event;
typedef struct protocol_message {
    protocol_event event;
    uint32_t n_prompt, n_predicted; /* of the call that ended */
    double latency_ms;
} protocol_message;

/* In a child: opens the model and says what is to say; the exit code. */
int protocol_take_survey(const protocol_request *request, int to_parent);

/* In a child: opens the session, warms it up, makes the calls; the exit code. */
int protocol_run_session(const protocol_job *job, int from_parent, int to_parent);

/* In a child: becomes llama-bench, writing to `to_parent`. Returns only when it cannot. */
int protocol_become_peer(const protocol_job *job, int to_parent);

/* Reads one line of llama-bench; false when it is none of its results. */
bool protocol_read_peer_line(const char *line, protocol_message *out);

/* Follows the session in child `pid` until it ends: samples, records, lets calls begin. */
int protocol_watch(const protocol_job *job, pid_t pid, int from_child, int to_child);

/* In a child: enters the memory cgroup where there is one; the exit code. */
int protocol_enter_group(const protocol_request *request);

/* Starts the neighbour of a condition; *pid is 0 where there is none. One that has ended by itself no longer lives: what is
 * measured beside it is worth nothing. */
int protocol_start_neighbour(const protocol_request *request, dct_stress stress, pid_t *pid);
bool protocol_neighbour_lives(pid_t pid);
void protocol_end_neighbour(pid_t pid);

#endif
