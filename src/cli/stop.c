/* What the kernel stops in a sealed process is said in a line, and the command ends as for any bug of its own.
 *
 * The main stack that has reached its planned size is a SIGSEGV right below it; a system call that obtains memory is, under
 * `--seal kill`, a SIGSYS. Handlers run on a stack of their own, since the main one may be full; a worker's SIGSYS runs on the
 * worker's.
 */
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

enum { HANDLER_STACK = 32 * 1024, STACK_REACH = 8 * 1024 * 1024 };

static _Alignas(16) char handler_stack[HANDLER_STACK];
static uintptr_t stack_begin; /* an address in the main stack, high up */

/* Any other fault goes on to what it would have been: the instruction runs again, without a handler. */
static void on_fault(int number, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)number, (void)context;
    if (at >= stack_begin || stack_begin - at > STACK_REACH) return;
    cli_note("dctms: the main stack has reached its planned size, and the process is sealed\n");
    _exit(DCT_BUG);
}

static void on_refusal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
#if defined(__linux__)
    const char *name = dct_os_sealed_call(info->si_syscall);
#else
    const char *name = info != NULL ? "a system call" : "";
#endif
    cli_note("dctms: the seal stopped %s, which obtains memory\n", name);
    _exit(DCT_BUG);
}

void cli_explain_stops(void) {
    char here;
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    struct sigaction refusal = {.sa_sigaction = on_refusal, .sa_flags = SA_SIGINFO};
    stack_begin = (uintptr_t)&here;
    sigaltstack(&(stack_t){.ss_sp = handler_stack, .ss_size = sizeof handler_stack}, NULL);
    sigemptyset(&fault.sa_mask);
    sigemptyset(&refusal.sa_mask);
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGSYS, &refusal, NULL);
}
