/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain worker: its row, its partitions and the cluster's state. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "ctl/explain.h"
#include "text/rfc3339.h"

enum { SHOWN = 24, EXPLAIN_WORKER_TEXT_CAP = 1024, ROWS_MAX = 65536 };

/* -- saying -- */

static void worker_say_who(struct ctl *ctl, const Muster__V1__Worker *w)
{
    char since[RFC3339_CAP], labels[EXPLAIN_WORKER_TEXT_CAP] = "";
    size_t used = 0;

    wall_text((wall_time){w->registered_at_ms}, since);
    for (size_t i = 0; i < w->n_labels && used < sizeof labels; i++)
        used += (size_t)snprintf(labels + used, sizeof labels - used, "%s%s=%s", i ? ", " : "; ",
                                 w->labels[i]->key, w->labels[i]->value);
    explain_says(ctl, "is",
                 "incarnation %" PRIu64 " of run %s, registered %.19sZ%s%s, weight "
                 "%" PRIu32 "%s",
                 w->incarnation, w->run_id[0] ? w->run_id : "(none)", since,
                 w->address[0] ? " from " : "", w->address, w->weight, labels);
}

static void worker_say_standing(struct ctl *ctl, const Muster__V1__Worker *w)
{
    static const char *const phases[] = {"nothing yet", "init", "ready", "running", "draining"};
    const char *phase = w->phase < ARRAY_LEN(phases) ? phases[w->phase] : "something newer";
    char silent[EXPLAIN_AGE_CAP];

    explain_age(w->silent_ms, silent);
    switch ((int)w->standing) {
    case MUSTER__V1__STANDING__STANDING_ACTIVE:
        if (!w->received_at_ms)
            explain_says(ctl, "standing",
                         "active; this leader has heard no beat of it yet and waits for one");
        else
            explain_says(ctl, "standing",
                         "active: its last beat came %s ago; it says %s, load %.2f "
                         "(%.2f over a minute)",
                         silent, phase, w->load, w->load_average);
        break;
    case MUSTER__V1__STANDING__STANDING_SUSPECTED:
        explain_says(ctl, "standing",
                     "suspected: silent for %s, and its beat is overdue; one beat "
                     "makes it active again, more silence dead",
                     silent);
        break;
    case MUSTER__V1__STANDING__STANDING_DEAD:
        explain_says(ctl, "standing",
                     "dead: %s. This incarnation never comes back; the process "
                     "registers as a new one",
                     w->reason[0] ? w->reason : "no reason was given");
        break;
    case MUSTER__V1__STANDING__STANDING_REMOVED:
        explain_says(ctl, "standing", "removed: %s. Only its tombstone is left",
                     w->reason[0] ? w->reason : "no reason was given");
        break;
    default: explain_says(ctl, "standing", "in a way that this program does not know");
    }
}

static void worker_say_partitions(struct ctl *ctl, const Muster__V1__ListPartitionsResponse *list,
                                  const char *id)
{
    char owned[EXPLAIN_WORKER_TEXT_CAP] = "";
    size_t used = 0, count = 0;

    for (size_t i = 0; i < list->n_partitions; i++) {
        const Muster__V1__Partition *p = list->partitions[i];
        if (strcmp(p->owner, id) != 0 || p->state != MUSTER__V1__PARTITION_STATE__PARTITION_OWNED)
            continue;
        if (count++ < SHOWN)
            used += (size_t)snprintf(owned + used, sizeof owned - used, "%s%" PRIu32,
                                     count > 1 ? ", " : ": ", p->partition);
    }
    explain_says(ctl, "has", "%zu partition%s%s%s", count, count == 1 ? "" : "s", owned,
                 count > SHOWN ? ", ..." : "");
    for (size_t i = 0; i < list->n_partitions; i++) {
        const Muster__V1__Partition *p = list->partitions[i];
        char left[EXPLAIN_AGE_CAP];

        explain_age(p->revoke_deadline_in_ms, left);
        if (p->state == MUSTER__V1__PARTITION_STATE__PARTITION_REVOKING &&
            strcmp(p->owner, id) == 0)
            explain_says(ctl, "gives up",
                         "partition %" PRIu32 "%s%s: it has %s to finish, "
                         "checkpoint and let go",
                         p->partition, p->next_owner[0] ? " to " : "", p->next_owner, left);
        else if (p->state == MUSTER__V1__PARTITION_STATE__PARTITION_FENCING)
            explain_says(ctl, "fenced",
                         "partition %" PRIu32 ": nobody gets it before a process "
                         "that was cut off has stopped by its own clock%s%s",
                         p->partition, p->next_owner[0] ? "; then " : "", p->next_owner);
        else if (strcmp(p->next_owner, id) == 0 && p->owner[0] && strcmp(p->owner, id) != 0)
            explain_says(ctl, "waits for", "partition %" PRIu32 ", which %s still has",
                         p->partition, p->owner);
    }
}

static void worker_say_lag(struct ctl *ctl, const Muster__V1__Worker *w,
                           const Muster__V1__ClusterStatusResponse *s)
{
    if (w->standing != MUSTER__V1__STANDING__STANDING_ACTIVE || w->assignment_epoch == 0 ||
        w->assignment_epoch >= s->assignment_epoch)
        return; /* epoch 0: a worker of rollout, which reports none */
    explain_says(ctl, "behind",
                 "it has applied assignment %" PRIu64 " of %" PRIu64
                 ", and fetches the newer one with its next beat",
                 w->assignment_epoch, s->assignment_epoch);
}

static const char *worker_why_none(const Muster__V1__Worker *w,
                                   const Muster__V1__ClusterStatusResponse *s)
{
    if (w->standing != MUSTER__V1__STANDING__STANDING_ACTIVE) return "it is not active";
    if (w->draining || w->phase == 4) return "it drains: what it had goes to others";
    if (!w->grant_capable)
        return "it did not promise to stop by its own clock (fences_itself, an instance), so "
               "nothing is granted to it; a worker whose log says `an answer does not count` has "
               "seen a newer coordinator epoch and does not register: restart it";
    if (s->active > s->total_partitions) return "there are more active workers than partitions";
    return "the ring gave it none; with few partitions for each worker that happens";
}

static const char *worker_change(const Muster__V1__Worker *w,
                                 const Muster__V1__ClusterStatusResponse *s)
{
    if (s->hold)
        return "so many failed at once that no verdict is given: look at the network, then "
               "`musterctl worker release-hold`";
    switch ((int)w->standing) {
    case MUSTER__V1__STANDING__STANDING_SUSPECTED:
        return "a beat within its time; is the process running, and does it reach the "
               "coordinators?";
    case MUSTER__V1__STANDING__STANDING_DEAD:
    case MUSTER__V1__STANDING__STANDING_REMOVED:
        return "a start of the process: it registers anew, as the next incarnation";
    default: break;
    }
    if (w->draining)
        return "it leaves when it has let go of everything; a restart registers it anew";
    if (!w->grant_capable) return "a worker that fences itself: `muster worker run` does";
    return "silence past its time makes it suspected, then dead; `musterctl worker drain` takes it "
           "out in "
           "peace; other workers that come or go move partitions";
}

void explain_worker_say(struct ctl *ctl, const Muster__V1__Worker *w,
                        const Muster__V1__ListPartitionsResponse *partitions,
                        const Muster__V1__ClusterStatusResponse *status)
{
    ctl_line(ctl, "worker %s", w->worker_id);
    worker_say_who(ctl, w);
    worker_say_standing(ctl, w);
    worker_say_partitions(ctl, partitions, w->worker_id);
    worker_say_lag(ctl, w, status);
    if (w->partitions == 0) explain_says(ctl, "why", "%s", worker_why_none(w, status));
    explain_says(ctl, "change", "%s", worker_change(w, status));
}

/* -- asking -- */

/* Finds the worker's row, page by page; NULL: not found. Removed workers are a separate list. */
static const Muster__V1__Worker *worker_find(struct ctl *ctl, bool removed,
                                             struct nearest_names *names, enum err *ret_err)
{
    Muster__V1__ListWorkersRequest request = MUSTER__V1__LIST_WORKERS_REQUEST__INIT;
    const Muster__V1__ListWorkersResponse *list;

    if (removed) request.standing = MUSTER__V1__STANDING__STANDING_REMOVED;
    do {
        list = ctl_ask(ctl, REMOTE_READ_OF(MEMBERSHIP_PATH "ListWorkers", muster__v1__list_workers),
                       &request.base, ret_err);
        for (size_t i = 0; list && i < list->n_workers; i++) {
            nearest_names_offer(names, list->workers[i]->worker_id);
            if (strcmp(list->workers[i]->worker_id, names->wanted) == 0) return list->workers[i];
            request.after = list->workers[i]->worker_id;
        }
    } while (list && list->more && list->n_workers > 0);
    return NULL;
}

static enum err worker_explain_found(struct ctl *ctl, const Muster__V1__Worker *worker,
                                     const Muster__V1__ClusterStatusResponse *status)
{
    Muster__V1__ListPartitionsRequest request = MUSTER__V1__LIST_PARTITIONS_REQUEST__INIT;
    const Muster__V1__ListPartitionsResponse *partitions;
    enum err err;

    request.worker_id = worker->worker_id;
    request.limit = ROWS_MAX;
    partitions =
        ctl_ask(ctl, REMOTE_READ_OF(MEMBERSHIP_PATH "ListPartitions", muster__v1__list_partitions),
                &request.base, &err);
    if (partitions) explain_worker_say(ctl, worker, partitions, status);
    return err;
}

enum err explain_worker(struct ctl *ctl)
{
    struct nearest_names names = {.wanted = conf_argument(ctl->conf, 0)};
    const Muster__V1__Worker *worker = NULL;
    char hint[EXPLAIN_HINT_CAP];
    enum err err;
    const Muster__V1__ClusterStatusResponse *status =
        ctl_ask(ctl, REMOTE_READ_OF(MEMBERSHIP_PATH "ClusterStatus", muster__v1__cluster_status),
                NULL, &err);

    if (status) worker = worker_find(ctl, false, &names, &err);
    if (!err && !worker) worker = worker_find(ctl, true, &names, &err);
    if (err) return err;
    if (worker) return worker_explain_found(ctl, worker, status);
    return ctl_fail(ctl, ERR_NOT_FOUND,
                    "no worker %s is known%s; `musterctl worker list` lists all", names.wanted,
                    nearest_names_hint(&names, hint));
}
