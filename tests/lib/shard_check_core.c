/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of running_actions.h by walking. */
#include "lib/shard_check.h"
#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

static bool tasks_check(const struct core *core, struct note *note)
{
    const struct running_actions *h = core->running;
    uint32_t waiting = 0, live = 0, held = 0, blobs = 0;

    for (uint32_t i = 0; i < h->slots.used; i++) {
        const struct machine_task *task = slot_map_get(&h->slots, i);
        if (!task) continue;
        live++;
        waiting += task->step == STEP_WAITING;
        held += task->step == STEP_OPERATOR;
        blobs += task->step == STEP_BLOB;
        if (task_find(core, task->machine) != task) {
            note_set(note, "two tasks of machine %.*s", STR_ARG(task->machine));
            return false;
        }
        if (task->step != STEP_WAITING && !task->work->due.place) {
            note_set(note, "nobody waits for an answer of %.*s", STR_ARG(task->machine));
            return false;
        }
    }
    if (waiting == core->counts.queued && live - waiting - held - blobs == core->counts.inflight &&
        held == core->counts.drains_waiting && blobs == core->counts.blobs_waiting &&
        blobs <= core->options.blobs_max && core->counts.inflight <= core->options.concurrency) {
        return true;
    }
    note_set(note,
             "tasks: %u live, %u waiting, %u with operators, %u for blobs; counted %u queued, %u "
             "running",
             live, waiting, held, blobs, core->counts.queued, core->counts.inflight);
    return false;
}

static bool works_check(const struct core *core, struct note *note)
{
    const struct running_actions *h = core->running;
    uint32_t asking = 0, in_doubt = 0, due = 0;

    for (uint32_t i = 0; i < h->works.bucket_count; i++) {
        for (const struct table_link *link = h->works.buckets[i]; link; link = link->next) {
            const struct machine_work *w = CONTAINER_OF(link, struct machine_work, link);
            struct str id = str_of(w->id, w->id_len);
            asking += w->asked;
            in_doubt += w->kind == WORK_DOUBT;
            bool task = w->task || !list_empty(&w->ended);
            due += w->due.place != 0;
            if ((!w->due.place || !inventory_row(core->inventory, id)) && !task) {
                note_set(note, "work of %.*s that is never due, or of no machine", STR_ARG(id));
                return false;
            }
        }
    }
    if (asking == h->asking && in_doubt == core->counts.in_doubt && h->due.count == due) {
        return true;
    }
    note_set(note, "work: %u ask, counted %u; %zu due of %u", asking, h->asking, h->due.count, due);
    return false;
}

/* A machine in a state that is not stable has a task, and a planned machine has a plan. */
static bool machine_check_care(const struct core *core, const struct machine_row *row,
                               struct note *note)
{
    enum machine_state state = (enum machine_state)row_actual(core->inventory, row)->traits.state;
    const struct machine_task *task = task_find(core, row_id(row));
    const struct machine_work *w = work_find(core, row_id(row));
    char name[MACHINE_NAME_CAP];

    if (row->planned && (!task || task->step != STEP_WAITING)) {
        note_set(note, "machine %.*s is planned for nothing", STR_ARG(row_id(row)));
        return false;
    }
    if (machine_state_stable(state) || task || (w && w->kind != WORK_QUIET)) return true;
    note_set(note, "machine %.*s is %s and nobody cares", STR_ARG(row_id(row)),
             machine_state_name(state, name));
    return false;
}

bool running_check(const struct core *core, struct note *note)
{
    const struct table *rows = &core->inventory->rows;

    if (!tasks_check(core, note) || !works_check(core, note)) return false;
    for (uint32_t i = 0; i < rows->bucket_count; i++) {
        for (struct table_link *link = rows->buckets[i]; link; link = link->next)
            if (!machine_check_care(core, CONTAINER_OF(link, struct machine_row, link), note))
                return false;
    }
    return true;
}
