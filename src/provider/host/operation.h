/* SPDX-License-Identifier: Apache-2.0 */
/* The four operations as data: the state before, during and after each. */
#ifndef PROVIDER_HOST_OPERATION_H
#define PROVIDER_HOST_OPERATION_H
#include "provider/host/backend.h"

struct operation_move {
    const char *name; /* such as "create" */
    enum machine_state from, passing, final;
};
extern const struct operation_move operation_moves[OPERATION_KINDS];

/* The operation under way in `state`; OPERATION_KINDS: none. */
enum operation_kind operation_passing(enum machine_state state);
/* Whether a machine in this state must have a host, or a binding. A Failed machine may have
 * them. */
bool state_has_host(enum machine_state state);
bool state_needs_binding(enum machine_state state);
static inline bool state_keeps_binding(enum machine_state state)
{
    return state_needs_binding(state) || state == MACHINE_FAILED;
}
#endif
