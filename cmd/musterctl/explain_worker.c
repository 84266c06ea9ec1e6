/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain worker: its row, its partitions and how the whole stands, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "musterctl/explain.h"

enum { SHOWN = 24, TEXT_CAP = 1024, ROWS_MAX = 65536 };

/* -- asking -- */

static enum err ask_status(struct ctl *ctl, const Muster__V1__ClusterStatusResponse **ret_status)
{
    static const struct remote_method method = {"/muster.v1.Membership/ClusterStatus",
                                                &muster__v1__cluster_status_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__ClusterStatusRequest request = MUSTER__V1__CLUSTER_STATUS_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err = ctl_call(ctl, &method, &request.base, &answer);

    if (!err) *ret_status = (const void *)answer;
    return err;
}

/* The row of the worker, page by page; NULL when there is none. Tombstones are a list of their
 * own. */
static enum err find_worker(struct ctl *ctl, const char *id, bool removed,
                            struct nearest_names *names, const Muster__V1__Worker **ret_worker)
{
    static const struct remote_method method = {"/muster.v1.Membership/ListWorkers",
                                                &muster__v1__list_workers_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__ListWorkersRequest request = MUSTER__V1__LIST_WORKERS_REQUEST__INIT;
    bool more = true;

    *ret_worker = NULL;
    if (removed) request.standing = MUSTER__V1__STANDING__STANDING_REMOVED;
    while (more) {
        const Muster__V1__ListWorkersResponse *list;
        ProtobufCMessage *answer;
        enum err err = ctl_call(ctl, &method, &request.base, &answer);

        if (err) return err;
        list = (const void *)answer;
        for (size_t i = 0; i < list->n_workers; i++) {
            nearest_names_offer(names, list->workers[i]->worker_id);
            if (strcmp(list->workers[i]->worker_id, id) == 0) *ret_worker = list->workers[i];
        }
        more = list->more && list->n_workers > 0 && !*ret_worker;
        if (more) request.after = list->workers[list->n_workers - 1]->worker_id;
    }
    return ERR_OK;
}

static enum err ask_partitions(struct ctl *ctl, const char *id,
                               const Muster__V1__ListPartitionsResponse **ret_list)
{
    static const struct remote_method method = {"/muster.v1.Membership/ListPartitions",
                                                &muster__v1__list_partitions_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__ListPartitionsRequest request = MUSTER__V1__LIST_PARTITIONS_REQUEST__INIT;
    ProtobufCMessage *answer;
    enum err err;

    request.worker_id = ctl_text(id);
    request.limit = ROWS_MAX;
    err = ctl_call(ctl, &method, &request.base, &answer);
    if (!err) *ret_list = (const void *)answer;
    return err;
}

/* -- saying -- */

static enum err say_who(struct ctl *ctl, const Muster__V1__Worker *w)
{
    char since[WALL_TEXT_CAP], labels[TEXT_CAP] = "";
    size_t used = 0;

    wall_text((wall_time){w->registered_at_ms}, since);
    for (size_t i = 0; i < w->n_labels && used < sizeof labels; i++)
        used += (size_t)snprintf(labels + used, sizeof labels - used, "%s%s=%s", i ? ", " : "; ",
                                 w->labels[i]->key, w->labels[i]->value);
    return explain_says(ctl, "is",
                        "incarnation %" PRIu64 " of run %s, registered %.19sZ%s%s, weight "
                        "%" PRIu32 "%s",
                        w->incarnation, w->run_id[0] ? w->run_id : "(none)", since,
                        w->address[0] ? " from " : "", w->address, w->weight, labels);
}

static enum err say_standing(struct ctl *ctl, const Muster__V1__Worker *w)
{
    static const char *const phases[] = {"nothing yet", "init", "ready", "running", "draining"};
    const char *phase = w->phase < ARRAY_LEN(phases) ? phases[w->phase] : "something newer";
    char silent[EXPLAIN_AGE_CAP];

    explain_age(w->silent_ms, silent);
    switch ((int)w->standing) {
    case MUSTER__V1__STANDING__STANDING_ACTIVE:
        if (!w->received_at_ms)
            return explain_says(ctl, "stands",
                                "active; this leader has heard no beat of it yet and "
                                "waits for one");
        return explain_says(ctl, "stands",
                            "active: its last beat came %s ago; it says %s, load %.2f "
                            "(%.2f over a minute)",
                            silent, phase, w->load, w->load_average);
    case MUSTER__V1__STANDING__STANDING_SUSPECTED:
        return explain_says(ctl, "stands",
                            "suspected: silent for %s, and its beat is overdue; one beat "
                            "makes it active again, more silence dead",
                            silent);
    case MUSTER__V1__STANDING__STANDING_DEAD:
        return explain_says(ctl, "stands",
                            "dead: %s. This incarnation never comes back; the process "
                            "registers as a new one",
                            w->reason[0] ? w->reason : "no reason was told");
    case MUSTER__V1__STANDING__STANDING_REMOVED:
        return explain_says(ctl, "stands", "removed: %s. Only its tombstone is left",
                            w->reason[0] ? w->reason : "no reason was told");
    default: return explain_says(ctl, "stands", "in a way that this program does not know");
    }
}

static enum err say_partitions(struct ctl *ctl, const Muster__V1__ListPartitionsResponse *list,
                               const char *id)
{
    char owned[TEXT_CAP] = "";
    size_t used = 0, count = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; i < list->n_partitions; i++) {
        const Muster__V1__Partition *p = list->partitions[i];
        if (strcmp(p->owner, id) != 0 || p->state != MUSTER__V1__PARTITION_STATE__PARTITION_OWNED)
            continue;
        if (count++ < SHOWN)
            used += (size_t)snprintf(owned + used, sizeof owned - used, "%s%" PRIu32,
                                     count > 1 ? ", " : ": ", p->partition);
    }
    err = explain_says(ctl, "has", "%zu partition%s%s%s", count, count == 1 ? "" : "s", owned,
                       count > SHOWN ? ", ..." : "");
    for (size_t i = 0; i < list->n_partitions && !err; i++) {
        const Muster__V1__Partition *p = list->partitions[i];
        char left[EXPLAIN_AGE_CAP];

        explain_age(p->revoke_deadline_in_ms, left);
        if (p->state == MUSTER__V1__PARTITION_STATE__PARTITION_REVOKING &&
            strcmp(p->owner, id) == 0)
            err = explain_says(ctl, "gives up",
                               "partition %" PRIu32 "%s%s: it has %s to finish, "
                               "checkpoint and let go",
                               p->partition, p->next_owner[0] ? " to " : "", p->next_owner, left);
        else if (p->state == MUSTER__V1__PARTITION_STATE__PARTITION_FENCING)
            err = explain_says(ctl, "fenced",
                               "partition %" PRIu32 ": nobody gets it before a process "
                               "that was cut off has stopped by its own clock%s%s",
                               p->partition, p->next_owner[0] ? "; then " : "", p->next_owner);
        else if (strcmp(p->next_owner, id) == 0 && p->owner[0] && strcmp(p->owner, id) != 0)
            err = explain_says(ctl, "waits for", "partition %" PRIu32 ", which %s still has",
                               p->partition, p->owner);
    }
    return err;
}

static enum err say_lag(struct ctl *ctl, const Muster__V1__Worker *w,
                        const Muster__V1__ClusterStatusResponse *s)
{
    if (w->standing != MUSTER__V1__STANDING__STANDING_ACTIVE || w->assignment_epoch == 0 ||
        w->assignment_epoch >= s->assignment_epoch)
        return ERR_OK; /* 0: it did not say, as workers of the original do not */
    return explain_says(ctl, "behind",
                        "it has applied assignment %" PRIu64 " of %" PRIu64
                        ", and fetches the newer one with its next beat",
                        w->assignment_epoch, s->assignment_epoch);
}

static const char *why_none(const Muster__V1__Worker *w, const Muster__V1__ClusterStatusResponse *s)
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

static const char *what_would_change(const Muster__V1__Worker *w,
                                     const Muster__V1__ClusterStatusResponse *s)
{
    if (s->hold)
        return "so many failed at once that no verdict is given: look at the network, then "
               "`musterctl "
               "release-hold`";
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
    return "silence past its time makes it suspected, then dead; `musterctl drain` takes it out in "
           "peace; other workers that come or go move partitions";
}

static enum err say_worker(struct ctl *ctl, const Muster__V1__Worker *w,
                           const Muster__V1__ClusterStatusResponse *s)
{
    const Muster__V1__ListPartitionsResponse *list = NULL;
    enum err err = ask_partitions(ctl, w->worker_id, &list);

    if (!err) err = ctl_line(ctl, "worker %s", w->worker_id);
    if (!err) err = say_who(ctl, w);
    if (!err) err = say_standing(ctl, w);
    if (!err) err = say_partitions(ctl, list, w->worker_id);
    if (!err) err = say_lag(ctl, w, s);
    if (!err && w->partitions == 0) err = explain_says(ctl, "why", "%s", why_none(w, s));
    return err ? err : explain_says(ctl, "change", "%s", what_would_change(w, s));
}

enum err explain_worker(struct ctl *ctl)
{
    const char *id = conf_argument(ctl->conf, 0);
    struct nearest_names names = {.wanted = id};
    const Muster__V1__ClusterStatusResponse *status = NULL;
    const Muster__V1__Worker *worker = NULL;
    char hint[EXPLAIN_HINT_CAP];
    enum err err = ask_status(ctl, &status);

    if (!err) err = find_worker(ctl, id, false, &names, &worker);
    if (!err && !worker) err = find_worker(ctl, id, true, &names, &worker);
    if (err) return err;
    if (worker) return say_worker(ctl, worker, status);
    note_set(&ctl->note, "no worker %s is known%s; `musterctl workers` lists all", id,
             nearest_names_hint(&names, hint));
    return ERR_NOT_FOUND;
}
