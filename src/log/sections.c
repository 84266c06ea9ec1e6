/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the snapshot sections of several machines one after another. Every opened view is
 * closed, at its end or by sections_end(). */
#include "log/sections.h"

enum err sections_add(struct sections *sections, size_t place, uint64_t index)
{
    const struct state_machine *machine = &sections->machines[place];

    assert(place < sections->count && place <= REPLICA_MACHINES_MAX && !sections->views[place]);
    return machine->ops->snapshot_begin(machine->state, index, &sections->views[place]);
}

enum err sections_next(struct sections *sections, size_t budget, struct buf *into,
                       size_t *ret_place)
{
    size_t before = into->len;

    for (; sections->at < sections->count && into->len == before; sections->at++) {
        const struct machine_ops *ops = sections->machines[sections->at].ops;
        void **view = &sections->views[sections->at];
        bool is_last = false;
        enum err err;

        if (!*view) continue;
        *ret_place = sections->at;
        err = ops->snapshot_next(*view, budget, into, &is_last);
        if (err) return err;
        assert(is_last || into->len > before); /* a call without progress would never end */
        if (!is_last) break;
        ops->snapshot_end(*view);
        *view = NULL;
    }
    return ERR_OK;
}

void sections_end(struct sections *sections)
{
    for (size_t i = 0; i < ARRAY_LEN(sections->views); i++) {
        if (sections->views[i]) sections->machines[i].ops->snapshot_end(sections->views[i]);
        sections->views[i] = NULL;
    }
}
