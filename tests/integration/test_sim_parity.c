/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that run in the simulator run over the operating system unchanged: the very sources
 * of tests/sim/register_*.c, here on kernel sockets, files and threads in real time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/real.h"
#include "lib/test.h"
#include "register.h"

enum { CLIENTS = 2, OPERATIONS = 40, DEADLINE_MS = 60000 };

struct service {
    struct real_io *real;
    struct register_node *nodes[REGISTER_NODES];
    char addresses[REGISTER_NODES][64];
    const char *address_list[REGISTER_NODES];
    char directories[REGISTER_NODES][128];
    struct register_client *clients[CLIENTS];
    struct register_history history;
    unsigned gone, fatal;
};

static void on_fatal(void *context)
{
    ((struct service *)context)->fatal++;
}

static void on_gone(void *context)
{
    ((struct service *)context)->gone++;
}

static void start_nodes(struct service *s)
{
    for (size_t i = 0; i < REGISTER_NODES; i++) {
        struct register_node_options options = {.listen = s->addresses[i],
                                                .directory = s->directories[i],
                                                .on_fatal = on_fatal,
                                                .on_gone = on_gone,
                                                .context = s};
        char address[64];

        if (!s->addresses[i][0]) options.listen = "127.0.0.1:0";
        CHECK_OK("a node", register_node_open(real_io_io(s->real), &options, &s->nodes[i]));
        snprintf(address, sizeof address, "%s", register_node_address(s->nodes[i]));
        memcpy(s->addresses[i], address, sizeof address);
        s->address_list[i] = s->addresses[i];
    }
}

static void start_clients(struct service *s)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct register_client_options options = {.nodes = s->address_list,
                                                        .index = i,
                                                        .registers = CLIENTS,
                                                        .history = &s->history,
                                                        .on_gone = on_gone,
                                                        .context = s};
        CHECK_OK("a client", register_client_open(real_io_io(s->real), &options, &s->clients[i]));
    }
}

static void expired(struct timer *timer)
{
    (void)timer; /* only wakes the loop */
}

static bool worked(const struct service *s, uint64_t operations)
{
    for (size_t i = 0; i < CLIENTS; i++)
        if (s->history.done[i] < operations) return false;
    return true;
}

/* Turns until each client wrote `operations` times, or every closed node and client has ended. */
static bool turn_until(struct service *s, uint64_t operations, unsigned gone)
{
    struct loop *loop = real_io_io(s->real)->loop;
    struct timer deadline;
    bool in_time = true;

    CHECK_OK("a timer", timer_init(&deadline, loop, expired));
    timer_start_in(&deadline, DEADLINE_MS);
    while (in_time && !(gone ? s->gone >= gone : worked(s, operations))) {
        real_io_turn(s->real, true);
        in_time = timer_running(&deadline);
    }
    timer_deinit(&deadline);
    return in_time;
}

static void close_all(struct service *s)
{
    s->gone = 0;
    for (size_t i = 0; i < CLIENTS; i++) register_client_close(s->clients[i]);
    for (size_t i = 0; i < REGISTER_NODES; i++) register_node_close(s->nodes[i]);
    CHECK("everything goes", turn_until(s, 0, CLIENTS + REGISTER_NODES));
}

TEST(the_simulated_processes_run_over_the_operating_system_unchanged)
{
    struct service *s = calloc(1, sizeof *s);

    CHECK("memory", s != NULL);
    CHECK_OK("a loop", real_io_open(&s->real));
    for (size_t i = 0; i < REGISTER_NODES; i++)
        snprintf(s->directories[i], sizeof s->directories[i], "%s/node-%zu", test_dir(), i);
    start_nodes(s);
    start_clients(s);
    CHECK("written and read back", turn_until(s, OPERATIONS, 0));
    close_all(s);
    CHECK("nothing wrong was seen", !s->history.wrong);

    /* A second life, with the values of the first on disk. */
    start_nodes(s);
    start_clients(s);
    CHECK("goes on", turn_until(s, 2 * OPERATIONS, 0));
    close_all(s);
    CHECK("reads never went back, across the restart too", !s->history.wrong);
    for (size_t i = 0; i < CLIENTS; i++)
        CHECK("the second life counted on from the first",
              s->history.registers[i].floor >= 2 * OPERATIONS);
    CHECK_U32("no disk failed", s->fatal, 0);
    real_io_close(s->real);
    free(s);
}
