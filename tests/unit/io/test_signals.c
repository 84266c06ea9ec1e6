/* SPDX-License-Identifier: Apache-2.0 */
#include "io/signals.h"
#include "rig.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;
static struct signals *watched;
static int seen[NSIG];
static bool closes;

static void on_signal(void *owner, int number)
{
    CHECK("owner", owner == &rig);
    CHECK("in a turn, on the loop's thread", rig.loop->in_turn);
    seen[number]++;
    if (closes) {
        signals_close(watched);
        watched = NULL;
    }
}

static void open_signals(const int *numbers)
{
    rig_open(&rig);
    memset(seen, 0, sizeof seen);
    closes = false;
    CHECK_OK("open", signals_open(rig.loop, numbers, on_signal, &rig, &watched));
}

TEST(signals_come_as_events)
{
    open_signals((const int[]){SIGHUP, SIGUSR1, 0});
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGUSR1);
    CHECK_I64("not from inside the handler", seen[SIGHUP] + seen[SIGUSR1], 0);
    RIG_UNTIL("both come", &rig, seen[SIGHUP] && seen[SIGUSR1]);
    signals_close(watched);
    signals_close(NULL);
    rig_close(&rig);
}

TEST(signals_may_be_closed_in_their_callback)
{
    open_signals((const int[]){SIGHUP, SIGUSR1, 0});
    closes = true;
    raise(SIGHUP);
    RIG_UNTIL("comes", &rig, seen[SIGHUP]);
    rig_close(&rig);
    CHECK_I64("and no other", seen[SIGUSR1], 0);
}

TEST(a_closed_watch_leaves_the_signal_as_it_was)
{
    struct sigaction action;

    open_signals((const int[]){SIGUSR2, 0});
    signals_close(watched);
    rig_close(&rig);
    sigaction(SIGUSR2, NULL, &action);
    CHECK("default again", action.sa_handler == SIG_DFL);
    sigaction(SIGPIPE, NULL, &action);
    CHECK("SIGPIPE stays ignored", action.sa_handler == SIG_IGN);
}

TEST(a_loop_inside_anothers_program_leaves_its_signals_alone)
{
    struct real_io *real;
    struct sigaction action;

    signal(SIGPIPE, SIG_DFL);
    CHECK_OK("open", real_io_open_within(&real));
    sigaction(SIGPIPE, NULL, &action);
    CHECK("untouched", action.sa_handler == SIG_DFL);
    real_io_close(real);
    CHECK_OK("open", real_io_open(&real));
    sigaction(SIGPIPE, NULL, &action);
    CHECK("a program's own loop ignores it", action.sa_handler == SIG_IGN);
    real_io_close(real);
}

TEST(what_cannot_be_watched_is_refused)
{
    static const int bad[][3] = {{SIGKILL, 0}, {SIGHUP, SIGSTOP, 0}, {NSIG, 0}, {-1, 0}, {5000, 0}};
    struct signals *untouched = (struct signals *)&rig;

    rig_open(&rig);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERR("refused", signals_open(rig.loop, bad[i], on_signal, &rig, &untouched),
                  ERR_INVALID);
    CHECK("output untouched", untouched == (struct signals *)&rig);
    CHECK_OK("none at all is fine",
             signals_open(rig.loop, (const int[]){0}, on_signal, &rig, &watched));
    signals_close(watched);
    watched = NULL; /* so that a leak would show */
    rig_close(&rig);
}

static const struct loop_ops no_ops = {0};
TEST(a_loop_that_is_not_real_has_no_signals)
{
    struct loop loop;
    struct signals *untouched = NULL;

    loop_core_init(&loop, &no_ops, clock_real());
    CHECK_ERR("unsupported",
              signals_open(&loop, (const int[]){SIGHUP, 0}, on_signal, &rig, &untouched),
              ERR_UNSUPPORTED);
    loop_core_deinit(&loop);
}
