/* Workers that change seats: one that holds pieces and does not run is given the processor of one that waits, one that runs is left
 * alone, and both may run everywhere again afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "exec/seat.h"
#include "support/emulated.h"

enum { STACK_BYTES = DCT_WORKER_STACK };
static _Alignas(64) char stack[STACK_BYTES];
static dct_seat seats[2]; /* of the test and of the other thread */
static dct_os_cpus first_cpu, second_cpu, at_start;
static _Atomic uint32_t asleep, wake;
static bool spins;        /* the other thread, instead of sleeping */
static bool is_free_again; /* the other thread, in the end */

static bool same(const dct_os_cpus *a, const dct_os_cpus *b) { return memcmp(a, b, sizeof *a) == 0; }

/* The first two processors that we may run on; false when there are not two, or nobody says. */
static bool find_cpus(void) {
    const uint32_t bits = 8 * sizeof *at_start.bits;
    uint32_t found = 0;
    if (!dct_os_cpus_allowed(&at_start)) return false;
    memset(&first_cpu, 0, sizeof first_cpu);
    memset(&second_cpu, 0, sizeof second_cpu);
    for (uint32_t cpu = 0; cpu < 8 * sizeof at_start.bits && found < 2; cpu++) {
        if ((at_start.bits[cpu / bits] >> cpu % bits & 1) == 0) continue;
        (found == 0 ? &first_cpu : &second_cpu)->bits[cpu / bits] = 1ul << cpu % bits;
        found++;
    }
    return found == 2;
}

/* On the second processor, in the middle of its pieces. */
static void other_main(void *arg) {
    (void)arg;
    dct_seat_take(&seats[1]);
    assert_true(dct_os_keep_thread(0, &second_cpu));
    dct_seat_hold(&seats[1]);
    atomic_store(&asleep, 1);
    while (atomic_load(&wake) == 0) {
        if (spins) dct_cpu_relax();
        else dct_os_wait_word(&wake, 0);
    }
    dct_seat_release(&seats[1]);
    dct_os_cpus now;
    is_free_again = dct_os_cpus_allowed(&now) && same(&now, &at_start);
}

static bool is_ready(void) {
    if (find_cpus()) return true;
    print_message("skipped: needs two processors and a system that says which\n");
    return false;
}

static dct_thread start_other(bool spinning) {
    dct_thread thread;
    dct_err err;
    memset(seats, 0, sizeof seats);
    atomic_store(&asleep, 0);
    atomic_store(&wake, 0);
    spins = spinning;
    dct_seat_take(&seats[0]);
    if (dct_thread_start(&thread, other_main, NULL, stack, STACK_BYTES, &err) != DCT_OK) fail_msg("%s", err.message);
    while (atomic_load(&asleep) == 0) dct_os_yield();
    assert_true(dct_os_keep_thread(0, &first_cpu)); /* not before: the other would begin there as well */
    return thread;
}

static void end_other(dct_thread thread) {
    atomic_store(&wake, 1);
    dct_os_wake_word(&wake);
    dct_thread_join(thread);
    dct_seat_hold(&seats[0]);
    dct_seat_release(&seats[0]);
    dct_os_keep_thread(0, &at_start);
}

static void a_stopped_worker_gets_the_processor(void **state) {
    (void)state;
    if (emulated("on which processor a thread runs") || !is_ready()) skip();
    dct_thread thread = start_other(false);
    dct_os_cpus now;
    for (int turn = 0; turn < 1000 && atomic_load(&seats[1].state) == 0; turn++) assert_false(dct_seat_help(&seats[0], &seats[1]));
    assert_int_not_equal(atomic_load(&seats[1].state), 0);
    assert_true(dct_os_cpus_allowed(&now));
    assert_true(same(&now, &second_cpu)); /* the caller sits where the other did */
    dct_seat_leave(&seats[0]);
    assert_true(dct_os_cpus_allowed(&now));
    assert_true(same(&now, &at_start)); /* a caller of the library is given back as it came */
    end_other(thread);
    assert_true(is_free_again);
    assert_true(dct_os_cpus_allowed(&now));
    assert_true(same(&now, &at_start));
}

static void who_runs_is_left_alone(void **state) {
    (void)state;
    if (emulated("on which processor a thread runs") || !is_ready()) skip();
    uint32_t n_left_alone = 0;
    for (int turn = 0; turn < 20; turn++) { /* on a busy machine it is stopped now and then, indeed */
        dct_thread thread = start_other(true);
        (void)dct_seat_help(&seats[0], &seats[1]);
        n_left_alone += atomic_load(&seats[1].state) == 0;
        end_other(thread);
    }
    assert_true(n_left_alone > 0);
}

static void who_holds_nothing_is_not_moved(void **state) {
    (void)state;
    if (emulated("on which processor a thread runs") || !is_ready()) skip();
    dct_thread thread = start_other(false);
    atomic_store(&seats[1].holds, 0);
    for (int turn = 0; turn < 20; turn++) assert_false(dct_seat_help(&seats[0], &seats[1]));
    assert_int_equal(atomic_load(&seats[1].state), 0);
    end_other(thread);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_worker_gets_the_processor),
        cmocka_unit_test(who_runs_is_left_alone),
        cmocka_unit_test(who_holds_nothing_is_not_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
