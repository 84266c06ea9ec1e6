/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a server's call: every move in server_internal.h is made, and every other move
 * aborts the process. Each move runs in a child. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "rpc/server_internal.h"

enum side { REQUEST, RESPONSE, HANDLER };

static void make_move(enum side side, unsigned from, unsigned to)
{
    static struct rpc_call call;

    switch (side) {
    case REQUEST:
        call.request = from;
        call_request_to(&call, to);
        break;
    case RESPONSE:
        call.response = from;
        call_response_to(&call, to);
        break;
    case HANDLER:
        call.response = RESPONSE_DECIDED; /* or no handler is DONE */
        call.handler = from;
        call_handler_to(&call, to);
        break;
    }
}

/* Runs the move in a child; true when the child made it. */
static bool is_made(enum side side, unsigned from, unsigned to)
{
    const struct rlimit no_core = {0};
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        fclose(stderr);
        make_move(side, from, to);
        _exit(0);
    }
    CHECK("the child ended", child > 0 && waitpid(child, &status, 0) == child);
    CHECK("well, or by an assertion", (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                                          (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    return WIFEXITED(status);
}

/* One row per state, with one letter per next state: 'y' allowed, '-' not. */
static void check_moves(enum side side, const char *const *rows, unsigned states)
{
    for (unsigned from = 0; from < states; from++) {
        for (unsigned to = 0; to < states; to++) {
            char why[64];
            snprintf(why, sizeof why, "side %u: from %u to %u", side, from, to);
            CHECK_U64(why, is_made(side, from, to), rows[from][to] == 'y');
        }
    }
}

TEST(only_the_listed_moves_are_made)
{
    static const char *const request[] = {"-y-", "--y", "---"};
    static const char *const response[] = {"-yy--", "--y--", "---yy", "-----", "-----"};
    static const char *const handler[] = {"-y-y", "--yy", "-y-y", "----"};

    check_moves(REQUEST, request, REQUEST_DELIVERED + 1);
    check_moves(RESPONSE, response, RESPONSE_CANCELLED + 1);
    check_moves(HANDLER, handler, HANDLER_DONE + 1);
}
