/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on the event loop's thread. Starts at most one round of queries per RIVAL_EVERY_MS. */
#include "fleet/rival.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { RIVAL_EVERY_MS = 2000, RIVAL_CALL_MS = 2000 };

struct rival {
    struct rival_options options;
    struct log_source log;
    struct survey *survey;
    struct task ask;
    char name[REPLICA_NAME_MAX + 1];
    mono_time asked;     /* time of the last round; 0: never */
    uint64_t cluster_id; /* cluster of the replica that connected */
    bool running, was_found;
};

static void rival_ask(struct task *task)
{
    struct rival *r = CONTAINER_OF(task, struct rival, ask);
    Muster__V1__ListReplicasRequest request = MUSTER__V1__LIST_REPLICAS_REQUEST__INIT;

    r->running = survey_begin(r->survey, &request.base) == ERR_OK;
}

void rival_greeted(struct rival *rival, uint64_t cluster_id)
{
    mono_time now;

    if (!rival || rival->running || rival->was_found) return;
    now = loop_now(rival->options.to.io->loop);
    if (rival->asked.ms && mono_elapsed_ms(rival->asked, now) < RIVAL_EVERY_MS) return;
    rival->asked = now;
    rival->cluster_id = cluster_id;
    rival->running = true;
    loop_defer(rival->options.to.io->loop, &rival->ask);
}

static void rival_judge(struct rival *r, const Muster__V1__ListReplicasResponse *list)
{
    struct replica_status status = replica_status(r->options.replica);
    struct note note = {""};

    if (list->cluster_id == 0 || status.cluster_id == 0 || list->cluster_id == status.cluster_id)
        return;
    for (size_t i = 0; i < list->n_replicas && !r->was_found; i++) {
        const Muster__V1__Replica *listed = list->replicas[i];
        /* A learner does not count: the other cluster may have added this replica by mistake. */
        if (!listed->voter) continue;
        if (listed->replica_id != status.id && strcmp(listed->name, r->name) != 0) continue;
        r->was_found = true;
        note_set(&note,
                 "two clusters: cluster %016" PRIx64 " lists %s as its replica %016" PRIx64
                 ", but this is replica %016" PRIx64 " of cluster %016" PRIx64
                 "; it stops serving, lest clients write to both",
                 list->cluster_id, r->name, listed->replica_id, status.id, status.cluster_id);
        r->options.found(r->options.owner, &note);
    }
}

/* `message` is NULL if the asked replica is a follower or did not respond. */
static void rival_on_answered(void *owner, size_t, const struct rpc_client_call *,
                              const struct rpc_outcome *, const ProtobufCMessage *message)
{
    if (message) rival_judge(owner, (const Muster__V1__ListReplicasResponse *)message);
}

static void rival_on_over(void *owner, size_t)
{
    struct rival *r = owner;
    char cluster[17];

    r->running = false;
    if (r->was_found) return;
    snprintf(cluster, sizeof cluster, "%016" PRIx64, r->cluster_id);
    LOG_WARN(&r->log,
             "a replica of another cluster dials this one as its member, but no join address lists "
             "this replica in another cluster",
             log_text("cluster", cluster));
}

enum err rival_open(const struct rival_options *options, struct rival **ret_rival,
                    struct note *note)
{
    struct rival *r = calloc(1, sizeof *r);
    struct survey_options survey = {.to = options->to,
                                    .path = "/muster.v1.Fleet/ListReplicas",
                                    .answer = &muster__v1__list_replicas_response__descriptor,
                                    .timeout_ms = RIVAL_CALL_MS,
                                    .answered = rival_on_answered,
                                    .over = rival_on_over,
                                    .owner = r};
    enum err err;

    if (!r) return ERR_NOMEM;
    r->options = *options;
    if (options->log) r->log = *options->log;
    snprintf(r->name, sizeof r->name, "%s", options->name);
    task_init(&r->ask, rival_ask);
    err = survey_open(&survey, &r->survey, note);
    if (err) {
        free(r);
        return err;
    }
    *ret_rival = r;
    return ERR_OK;
}

void rival_close(struct rival *rival, void (*closed)(void *owner), void *owner)
{
    struct survey *survey = NULL;

    if (rival) {
        task_cancel(&rival->ask);
        survey = rival->survey;
    }
    /* The survey makes no callbacks any more, so `rival` can be freed before the survey. */
    survey_close(survey, closed, owner);
    free(rival);
}
