/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations agrees with model/machine.h, and a minimal backend works. */
#include <string.h>

#include "lib/test.h"
#include "provider/host/operation.h"

TEST(every_operation_walks_two_edges_of_the_diagram)
{
    for (enum operation_kind kind = OPERATION_CREATE; kind < OPERATION_KINDS; kind++) {
        const struct operation_move *move = &operation_moves[kind];

        CHECK("ends are stable",
              machine_state_stable(move->from) && machine_state_stable(move->final));
        CHECK("begins", machine_edge(move->from, move->passing) == EDGE_DRIVEN);
        CHECK("ends", machine_edge(move->passing, move->final) == EDGE_DRIVEN);
        CHECK("may fail", machine_edge(move->passing, MACHINE_FAILED) == EDGE_DRIVEN);
        CHECK_U32(move->name, operation_passing(move->passing), kind);
        CHECK_U32("stable", operation_passing(move->from), OPERATION_KINDS);
        CHECK_TEXT("its name", operation_kind_name(kind), move->name);
    }
    CHECK_U32("stuck", operation_passing(MACHINE_FAILED), OPERATION_KINDS);
}

/* The smallest backend: it refuses nothing, and completes every operation as soon as the test
 * allows. */
struct eager {
    struct backend backend;
    struct operation_ticket waiting;
};

static enum err eager_start(struct backend *backend, const struct backend_operation *operation,
                            struct note *note)
{
    struct eager *e = CONTAINER_OF(backend, struct eager, backend);
    (void)note;
    e->waiting = operation->ticket;
    return ERR_OK;
}

static void eager_turn(struct eager *e)
{
    const struct operation_end end = {.host = STR("i-1")};
    e->backend.host->done(e->backend.host, e->waiting, &end);
}

struct listener {
    struct backend_host host;
    uint64_t number;
    bool failed;
};

static void on_done(struct backend_host *host, struct operation_ticket ticket,
                    const struct operation_end *end)
{
    struct listener *l = CONTAINER_OF(host, struct listener, host);

    l->number = ticket.number;
    l->failed = end->failed;
}

TEST(a_backend_gets_an_operation_and_reports_its_end)
{
    static const struct backend_ops ops = {.name = "eager", .start = eager_start};
    struct listener listener = {.host = {.done = on_done}, .failed = true};
    struct eager eager = {.backend = {&ops, &listener.host}};
    const struct offer offer = {.instance_type = STR("m5.large")};
    const struct backend_operation operation = {
        .ticket = {.number = 7},
        .kind = OPERATION_CREATE,
        .machine = {.id = STR("m-1"), .state = MACHINE_CREATING, .offer = &offer},
    };

    CHECK_OK("taken", eager.backend.ops->start(&eager.backend, &operation, NULL));
    CHECK_U64("not from inside", listener.number, 0);
    eager_turn(&eager);
    CHECK_U64("reported", listener.number, 7);
    CHECK("well", !listener.failed);
}
