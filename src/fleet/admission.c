/* SPDX-License-Identifier: Apache-2.0 */
/* Admits replicas to the cluster: asks fleet/admit.h for the next step, has the Raft log execute
 * the step, and repeats until done or timed out. An admission stores only the request, so a new
 * leader can continue. Event loop's thread. */
#include <stdlib.h>
#include <string.h>

#include "fleet/service_internal.h"

enum { ADMISSIONS_MAX = 64, ADMISSION_AGAIN_MS = 100 };

struct admission {
    struct list link;
    struct quorum *quorum;
    struct admit_request request;
    char actor[REPLICA_ACTOR_MAX + 1];
    mono_time until;
    admission_fn *done;
    void *owner;
    struct timer timer;
    struct proposal proposal;
    struct member_change change;
    bool busy;           /* the Raft log executes a step */
    struct note waiting; /* what the admission waits for */
};

static void admission_end(struct admission *a, enum err err, const struct note *note)
{
    struct quorum *q = a->quorum;

    assert(!a->busy);
    list_remove(&a->link);
    q->admission_count--;
    if (a->done) a->done(a->owner, err, note);
    timer_deinit(&a->timer);
    free(a);
}

static void admission_wait(struct admission *a, const struct note *why)
{
    mono_time now = loop_now(a->quorum->service->io->loop);

    a->waiting = *why;
    if (mono_due(a->until, now))
        admission_end(a, ERR_NOT_READY, &a->waiting);
    else
        timer_start_in(&a->timer, ADMISSION_AGAIN_MS);
}

/* -- results of the Raft log -- */

static void admission_answered(struct admission *a, enum err err, const struct note *note)
{
    a->busy = false;
    if (a->quorum->stopping) { /* end now: the event loop may not run a timer again */
        admission_end(a, err ? err : ERR_CLOSED, note);
        return;
    }
    switch (err) {
    case ERR_OK:
    case ERR_EXISTS:
    case ERR_NOT_FOUND: /* another request made the change: take the next step */
        timer_start_in(&a->timer, 0);
        break;
    case ERR_NOT_READY:
    case ERR_BUSY:
    case ERR_FULL:
    case ERR_NO_SPACE: admission_wait(a, note); break;
    default: admission_end(a, err, note); break;
    }
}

static void admission_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    struct admission *a = CONTAINER_OF(proposal, struct admission, proposal);
    struct note note = {""};

    if (!err) err = roster_reply(reply);
    if (err) note_set(&note, "roster: %s", err_text(err));
    admission_answered(a, err, &note);
}

static void admission_changed(struct member_change *change, enum err err, const struct note *note)
{
    struct admission *a = CONTAINER_OF(change, struct admission, change);
    admission_answered(a, err, note);
}

/* -- the next step -- */

static void admission_propose(struct admission *a, const struct roster_command *command)
{
    struct proposal *const one = &a->proposal;
    char room[ROSTER_COMMAND_MAX];
    struct buf bytes = {.data = room, .cap = sizeof room, .max = sizeof room};
    enum err err = roster_encode(command, &bytes);

    assert(!err); /* admit_next has validated the entry */
    a->proposal = (struct proposal){.machine = ROSTER_MACHINE_ID,
                                    .version = roster_command_version(command),
                                    .flags = command->op == ROSTER_FORGET ? PROPOSE_FREES : 0,
                                    .actor = str_from(a->actor),
                                    .command = buf_peek(&bytes),
                                    .done = admission_proposed};
    a->busy = true;
    replica_propose(a->quorum->service->leader.replica, &one, 1);
}

static void admission_change(struct admission *a, const struct admit_step *step)
{
    a->change = (struct member_change){.kind = step->change,
                                       .id = step->id,
                                       .address = a->request.raft,
                                       .done = admission_changed};
    a->busy = true;
    replica_change(a->quorum->service->leader.replica, &a->change);
}

static void admission_next(struct admission *a)
{
    struct quorum *q = a->quorum;
    struct replica_member members[REPLICA_MEMBERS_MAX];
    struct replica_status status = replica_status(q->service->leader.replica);
    struct admit_view view = {.cluster_id = status.cluster_id,
                              .commit = status.commit,
                              .leading_ms = quorum_leading_ms(q),
                              .members = members,
                              .roster = q->service->options.roster};
    struct admit_request request = a->request;
    struct roster_command command = {.op = ROSTER_PUT};
    struct note note = {""};
    struct admit_step step;

    if (status.role != REPLICA_LEADER) {
        admission_end(a, ERR_NOT_LEADER, &note);
        return;
    }
    if (!status.ready) {
        note_set(&note, "the leader is not ready yet");
        admission_wait(a, &note);
        return;
    }
    view.member_count = replica_members(q->service->leader.replica, members);
    request.entry = command.entry = roster_entry_at(&a->request.entry, status.level);
    step = admit_next(&view, &request);
    switch (step.kind) {
    case ADMIT_DONE: admission_end(a, ERR_OK, &step.note); break;
    case ADMIT_ENTER: admission_propose(a, &command); break;
    case ADMIT_FORGET:
        command = (struct roster_command){.op = ROSTER_FORGET, .entry = {.id = step.id}};
        admission_propose(a, &command);
        break;
    case ADMIT_CHANGE: admission_change(a, &step); break;
    case ADMIT_WAIT: admission_wait(a, &step.note); break;
    case ADMIT_REFUSE: admission_end(a, step.err, &step.note); break;
    default: assert(false);
    }
}

static void admission_on_timer(struct timer *timer)
{
    struct admission *a = CONTAINER_OF(timer, struct admission, timer);

    if (mono_due(a->until, loop_now(a->quorum->service->io->loop)))
        admission_end(a, ERR_NOT_READY, &a->waiting);
    else
        admission_next(a);
}

/* -- life -- */

enum err quorum_admit(struct quorum *quorum, const struct admit_request *request, struct str actor,
                      mono_time until, admission_fn *done, void *owner,
                      struct admission **ret_admission)
{
    struct admission *a;
    enum err err;

    if (quorum->stopping) return ERR_CLOSED;
    if (quorum->admission_count >= ADMISSIONS_MAX) return ERR_FULL;
    a = calloc(1, sizeof *a);
    if (!a) return ERR_NOMEM;
    err = timer_init(&a->timer, quorum->service->io->loop, admission_on_timer);
    if (err) {
        free(a);
        return err;
    }
    a->quorum = quorum;
    a->request = *request;
    a->until = until;
    a->done = done;
    a->owner = owner;
    memcpy(a->actor, actor.at, min_size(actor.len, REPLICA_ACTOR_MAX));
    list_init(&a->link);
    list_append(&quorum->admissions, &a->link);
    quorum->admission_count++;
    timer_start_in(&a->timer, 0);
    *ret_admission = a;
    return ERR_OK;
}

void admission_forget(struct admission *admission)
{
    admission->done = NULL;
}

void admissions_stop(struct quorum *quorum)
{
    LIST_EACH_SAFE(&quorum->admissions, node, following)
    {
        struct admission *a = CONTAINER_OF(node, struct admission, link);
        if (!a->busy) admission_end(a, ERR_CLOSED, &a->waiting);
    }
}
