/* Processes that a verb starts: none outlives it, and how each ended is an exit code. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "cli/cli.h"

void cli_follow_parent(pid_t parent) {
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(DCT_SYSTEM);
}

int cli_wait_child(pid_t pid, const char *what) {
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return DCT_SYSTEM;
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP) return 128 + number;
    cli_note("dctms: %s was ended by signal %d\n", what, number);
    return DCT_SYSTEM;
}
