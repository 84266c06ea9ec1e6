/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, and which states have a host or a binding. Pure. */
#include "provider/host/operation.h"

#include <assert.h>

const struct operation_move operation_moves[OPERATION_KINDS] = {
    [OPERATION_CREATE] = {"create", MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE},
    [OPERATION_CONFIGURE] = {"configure", MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED},
    [OPERATION_DRAIN] = {"drain", MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE},
    [OPERATION_DELETE] = {"delete", MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE},
};

const char *operation_kind_name(enum operation_kind kind)
{
    assert(kind < OPERATION_KINDS);
    return operation_moves[kind].name;
}

enum operation_kind operation_passing(enum machine_state state)
{
    enum operation_kind kind = OPERATION_CREATE;

    while (kind < OPERATION_KINDS && operation_moves[kind].passing != state) kind++;
    return kind;
}

bool state_has_host(enum machine_state state)
{
    return state != MACHINE_SPECULATIVE && state != MACHINE_CREATING;
}

bool state_needs_binding(enum machine_state state)
{
    return state == MACHINE_CONFIGURING || state == MACHINE_CONFIGURED || state == MACHINE_DRAINING;
}
