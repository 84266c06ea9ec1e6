/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the coordinators' answers (reply.h). Pure: no I/O, any thread. */
#include "prim/native/reply.h"

#include <inttypes.h>
#include <stdio.h>

coord_id native_id(ProtobufCBinaryData bytes)
{
    coord_id id = {{0}};

    if (bytes.len == sizeof id.b) memcpy(id.b, bytes.data, sizeof id.b);
    return id;
}

/* -- failures -- */

coord_result native_corrupt(const char *what)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "muster: %s", what);
}

static int native_reply_reason_of_answer(const struct grpc_thread_op *op)
{
    switch (op->status) {
    case GRPC_UNAVAILABLE:
    case GRPC_UNKNOWN:       /* no majority confirmed the call */
    case GRPC_UNIMPLEMENTED: /* an older release; another replica may be newer */
    case GRPC_ABORTED:       /* another call with this request took its place in the queue */
    case GRPC_FAILED_PRECONDITION: return COORD_R_NO_LEADER;
    case GRPC_RESOURCE_EXHAUSTED:
        return strstr(op->text, "disk") ? COORD_R_STORAGE : COORD_R_OVERLOADED;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED: return COORD_R_FORBIDDEN;
    case GRPC_DATA_LOSS: return COORD_R_CORRUPT;
    case GRPC_DEADLINE_EXCEEDED: return COORD_R_TIMEOUT;
    default: return COORD_R_STORAGE;
    }
}

coord_result native_failure(const struct grpc_thread_op *op, bool writes)
{
    int reason = op->answered ? native_reply_reason_of_answer(op) : grpc_op_silence(op);
    /* An earlier attempt may have reached another server. */
    bool doubt = writes && op->err == ERR_UNKNOWN;
    coord_result result;

    if (op->stopped) reason = COORD_R_CLOSED;
    if (op->answered && op->status == GRPC_UNIMPLEMENTED && !doubt)
        return prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER,
                           "muster: this coordinator serves no store: %s", op->text);
    if (op->answered && op->status == GRPC_INVALID_ARGUMENT && !doubt)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "muster: %s", op->text);
    result = prim_answer(COORD_UNAVAILABLE, reason, "muster: %s",
                         op->text[0] ? op->text : err_text(op->err));
    if (doubt) result.flags |= COORD_F_MAYBE_APPLIED;
    return result;
}

/* -- answers -- */

/* Makes a text from the outcome's numbers. The server sends a text only if it says more. */
static void outcome_text(coord_result *result, const Muster__V1__Outcome *o)
{
    char *text = result->text;
    size_t cap = sizeof result->text;

    if (o->text[0]) {
        (void)snprintf(text, cap, "%.180s", o->text);
        return;
    }
    switch (o->reason) {
    case COORD_R_HELD: (void)snprintf(text, cap, "held by \"%.128s\"", o->owner); break;
    case COORD_R_FULL:
        (void)snprintf(text, cap, "%u of %u slots are held", o->live, o->slot_count);
        break;
    case COORD_R_ALREADY_HOLDER:
        (void)snprintf(text, cap, "this owner holds slot %u", o->slot);
        break;
    case COORD_R_REVISION:
        (void)snprintf(text, cap, "it is at revision %" PRIu64 " now", o->revision);
        break;
    case COORD_R_SLOT_COUNT:
        (void)snprintf(text, cap, "the group has %u slots", o->slot_count);
        break;
    case COORD_R_NOT_OWNER: (void)snprintf(text, cap, "it belongs to \"%.128s\"", o->owner); break;
    default: break;
    }
}

coord_result native_outcome(const Muster__V1__Outcome *o)
{
    coord_result result;

    if (o->code < COORD_OK || o->code > COORD_UNAVAILABLE)
        return native_corrupt("an answer with an unknown code");
    result = prim_answer(o->code, o->reason, "%s", "");
    result.revision = o->revision;
    result.token = o->token;
    result.slot = o->slot;
    result.live = o->live;
    result.slot_count = o->slot_count;
    result.hint_ms = o->hint_ms < 0 ? -1 : o->hint_ms;
    if (o->code == COORD_OK) {
        result.granted_ttl_ms = o->granted_ttl_ms;
        return result;
    }
    prim_answer_owner(&result, str_from(o->owner));
    outcome_text(&result, o);
    return result;
}

enum err native_entry(const Muster__V1__Entry *e, bool whole, struct native_entry *ret_entry)
{
    if (!e || e->key.len == 0 || e->revision == 0) return ERR_CORRUPT;
    if (e->lease_id.len != 0 && e->lease_id.len != sizeof(coord_id)) return ERR_CORRUPT;
    if (e->create_revision > e->revision || e->token > e->revision) return ERR_CORRUPT;
    if (whole && e->create_revision == 0) return ERR_CORRUPT;
    if (whole && e->lease_id.len && (e->token == 0 || e->ttl_ms <= 0)) return ERR_CORRUPT;
    *ret_entry = (struct native_entry){
        .key = grpc_str(e->key),
        .value = grpc_str(e->value),
        .owner = str_from(e->owner),
        .lease_id = native_id(e->lease_id),
        .revision = e->revision,
        .create_revision = e->create_revision,
        .token = e->token,
        .ttl_ms = e->lease_id.len ? e->ttl_ms : 0,
        .remaining_ms = e->remaining_ms < 0 ? 0 : e->remaining_ms,
    };
    return ERR_OK;
}
