/* SPDX-License-Identifier: Apache-2.0 */
/* Detects that two clusters claim this replica: a replica of another cluster connects to the Raft
 * port.
 *
 * The connection alone proves nothing, because addresses are reused. Therefore the join addresses
 * are asked for their members, at most once per RIVAL_EVERY_MS. If another cluster's leader lists
 * this replica's name, options.rival_found is called: one cluster was bootstrapped by mistake. Runs
 * on the event loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet/service_internal.h"

enum { RIVAL_EVERY_MS = 2000, RIVAL_CALL_MS = 2000 };

static void rival_ask(struct task *task)
{
    struct rival *r = CONTAINER_OF(task, struct rival, ask);
    Muster__V1__ListReplicasRequest request = MUSTER__V1__LIST_REPLICAS_REQUEST__INIT;

    r->running = survey_begin(r->survey, &request.base) == ERR_OK;
}

void fleet_service_greeted(struct fleet_service *service, uint64_t cluster_id)
{
    struct rival *r = &service->quorum->rival;
    mono_time now = loop_now(service->io->loop);

    if (!r->survey || service->quorum->stopping || r->running || r->was_found) return;
    if (r->asked.ms && mono_elapsed_ms(r->asked, now) < RIVAL_EVERY_MS) return;
    r->asked = now;
    r->cluster_id = cluster_id;
    r->running = true;
    loop_defer(service->io->loop, &r->ask);
}

static void rival_judge(struct quorum *q, const Muster__V1__ListReplicasResponse *list)
{
    const struct fleet_service_options *options = &q->service->options;
    struct replica_status status = replica_status(q->service->leader.replica);
    struct note note = {""};

    if (list->cluster_id == 0 || status.cluster_id == 0 || list->cluster_id == status.cluster_id)
        return;
    for (size_t i = 0; i < list->n_replicas && !q->rival.was_found; i++) {
        const Muster__V1__Replica *listed = list->replicas[i];
        /* A learner does not count: the other cluster may have added this replica by mistake. */
        if (!listed->voter) continue;
        if (listed->replica_id != status.id && strcmp(listed->name, q->self.entry.name) != 0)
            continue;
        q->rival.was_found = true;
        note_set(&note,
                 "two clusters: cluster %016" PRIx64 " lists %s as its replica %016" PRIx64
                 ", but this is replica %016" PRIx64 " of cluster %016" PRIx64
                 "; it stops serving, lest clients write to both",
                 list->cluster_id, q->self.entry.name, listed->replica_id, status.id,
                 status.cluster_id);
        options->rival_found(options->owner, &note);
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
    struct quorum *q = owner;
    char cluster[17];

    q->rival.running = false;
    if (q->rival.was_found) return;
    snprintf(cluster, sizeof cluster, "%016" PRIx64, q->rival.cluster_id);
    LOG_WARN(&q->service->log,
             "a replica of another cluster dials this one as its member, but no join address lists "
             "this replica in another cluster",
             log_text("cluster", cluster));
}

enum err rival_open(struct quorum *quorum, const struct survey_to *to, struct note *note)
{
    struct survey_options survey = {.to = *to,
                                    .path = "/muster.v1.Fleet/ListReplicas",
                                    .answer = &muster__v1__list_replicas_response__descriptor,
                                    .timeout_ms = RIVAL_CALL_MS,
                                    .answered = rival_on_answered,
                                    .over = rival_on_over,
                                    .owner = quorum};

    task_init(&quorum->rival.ask, rival_ask);
    if (!quorum->service->options.rival_found || !to->addresses || !to->addresses[0]) return ERR_OK;
    return survey_open(&survey, &quorum->rival.survey, note);
}
