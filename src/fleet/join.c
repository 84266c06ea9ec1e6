/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a replica asks the leader for its place in the cluster. Does no I/O. */
#include "fleet/join.h"

enum err join_ordinal(struct str id, uint64_t *ret_ordinal, struct note *note)
{
    size_t cut = id.len;

    while (cut > 0 && id.at[cut - 1] != '-') cut--;
    if (cut > 0 && cut < id.len && str_to_u64(str_tail(id, cut), ret_ordinal) == ERR_OK)
        return ERR_OK;
    return note_fail(
        note, ERR_INVALID,
        "id '%.*s' has no ordinal: with a join address it must end in '-' and a number, as "
        "node-0",
        STR_ARG(id));
}

enum err join_name(struct str id, struct note *note)
{
    bool plain = id.len > 0 && id.len <= JOIN_NAME_MAX;

    for (size_t i = 0; plain && i < id.len; i++) plain = id.at[i] > ' ' && id.at[i] <= '~';
    if (plain) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "id '%.*s': a name needs 1 to %d visible ASCII characters, as node-0",
                     STR_ARG(str_of(id.at, min_u64(id.len, JOIN_NAME_MAX))), JOIN_NAME_MAX);
}

/* -- joining -- */

static void begin_anew(struct join *join, mono_time now)
{
    join->settled = false;
    join->wait_ms = JOIN_WAIT_FIRST_MS;
    join->ask_at = now;
}

static bool has_place(const struct join_view *view)
{
    return view->leader_known && view->voter && view->in_place;
}

struct join_effects join_step(struct join *join, enum join_event event,
                              const struct join_view *view, mono_time now)
{
    struct join_effects out = {.wake_at = MONO_NEVER};

    if (join->wait_ms == 0) begin_anew(join, now);
    if (event == JOIN_ANSWERED) {
        assert(join->asking);
        join->asking = false;
        join->ask_at = mono_after(now, join->wait_ms);
        join->wait_ms = min_u64(2 * join->wait_ms, JOIN_WAIT_MAX_MS);
    }
    /* A replica that lost its place asks again only if it sees a leader and is still a member. */
    if (join->settled && view->leader_known && view->member && !has_place(view))
        begin_anew(join, now);
    if (!join->settled && has_place(view)) {
        join->settled = out.settled = join->had_place = true;
        join->removed = false;
        return out;
    }
    if (join->had_place && !view->member) {
        out.removed = !join->removed; /* reported once */
        join->removed = join->settled = true;
    }
    if (view->leads && view->ready && !join->led) join->ask_at = now;
    join->led = view->leads && view->ready;
    if (join->settled || join->asking) return out;
    if (!mono_due(join->ask_at, now)) {
        out.wake_at = join->ask_at;
        return out;
    }
    if (view->leads && !view->ready) { /* the view changes when the leader is ready */
        out.wake_at = mono_after(now, JOIN_WAIT_FIRST_MS);
        return out;
    }
    join->asking = true;
    out.fix = view->leads;
    out.ask = !view->leads;
    return out;
}
