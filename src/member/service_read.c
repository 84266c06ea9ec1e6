/* SPDX-License-Identifier: Apache-2.0 */
/* Methods that read lists and counts. Each answer shows one state, after a leadership round. */
#include "member/service_internal.h"

enum { WORKERS_LIMIT = 1000, PARTITIONS_LIMIT = 4096, WORK_LIMIT = 1000, ANSWER_BYTES = 1 << 20 };

/* -- state of a worker, as on all pages -- */

enum member_shown worker_shown(const struct member_service *service,
                               const struct member_worker *worker)
{
    struct member_heartbeat heartbeat;

    if (worker->standing == MEMBER_DEAD) return SHOWN_DEAD;
    if (worker->standing == MEMBER_REMOVED) return SHOWN_REMOVED;
    return service->local && member_local_heartbeat(service->local, worker->id, &heartbeat) &&
                   heartbeat.suspected
               ? SHOWN_SUSPECTED
               : SHOWN_ACTIVE;
}

struct cluster_numbers cluster_numbers(const struct member_service *service)
{
    struct cluster_numbers n = {.counts = member_counts(membership_of(service))};

    n.round = n.counts.checkpoint_round;
    if (service->local) {
        struct member_local_counts local = member_local_counts(service->local);

        n.suspected = local.suspected;
        n.round = max_u64(n.round, local.round);
        n.hold = member_local_holds(service->local, now_ns(service));
    }
    n.active = n.counts.active - min_u64(n.suspected, n.counts.active);
    n.dead = n.counts.dead;
    n.known = n.counts.active + n.counts.dead;
    n.draining = n.counts.draining;
    return n;
}

/* -- ClusterStatus -- */

static void read_status(struct leader_request *request)
{
    struct member_service *service = member_of(request);
    struct cluster_numbers n = cluster_numbers(service);
    const uint32_t *of = n.counts.of_state;
    const uint64_t numbers[] = {/* values of fields 1 to 18 */
                                n.active,
                                n.known,
                                n.counts.total_partitions,
                                n.counts.assignment_epoch,
                                n.counts.coord_epoch,
                                n.suspected,
                                n.dead,
                                n.draining,
                                of[MEMBER_OWNED],
                                of[MEMBER_REVOKING],
                                of[MEMBER_FENCING],
                                of[MEMBER_FREE],
                                n.round,
                                n.hold,
                                n.counts.pending,
                                n.counts.running,
                                n.counts.done,
                                n.counts.failed};
    struct pack answer = pack_begin(&service->answer);
    enum member_health health;

    buf_clear(&service->row);
    (void)member_health_write(service, "", &service->row, &health);
    for (uint32_t i = 0; i < ARRAY_LEN(numbers); i++) pack_u64(&answer, i + 1, numbers[i]);
    pack_text(&answer, 19, str_from(service->run));
    pack_text(&answer, 20, health == MEMBER_HEALTH_OK ? STR("ok") : STR("degraded"));
    pack_text(&answer, 21, str_from(service->name));
    request_reply_packed(request, &answer);
}

/* -- ListWorkers -- */

static const char *reason_of(const struct member_worker *worker)
{
    static const char *const causes[] = {[MEMBER_FAILED] = "failed",
                                         [MEMBER_EVICTED] = "evicted",
                                         [MEMBER_CONFLICT] = "identity_conflict"};
    static const char *const removals[] = {[MEMBER_NOT_REMOVED] = "",
                                           [MEMBER_LEFT] = "left",
                                           [MEMBER_REMOVED_DEAD] = "dead",
                                           [MEMBER_REMOVED_EVICTED] = "evicted"};

    if (worker->standing == MEMBER_DEAD) return causes[worker->cause];
    return worker->standing == MEMBER_REMOVED ? removals[worker->removal] : "";
}

static void pack_instance(struct pack *row, uint32_t field, const struct member_worker *worker)
{
    char text[2 * BEAT_INSTANCE_LEN + 1];

    if (!worker->has_instance) return;
    hex_write(worker->instance.b, sizeof worker->instance.b, text);
    pack_text(row, field, str_from(text));
}

static void pack_worker(const struct member_service *service, struct pack *row,
                        const struct member_worker *worker)
{
    static const uint32_t standings[] = {[SHOWN_ACTIVE] = MUSTER__V1__STANDING__STANDING_ACTIVE,
                                         [SHOWN_SUSPECTED] =
                                             MUSTER__V1__STANDING__STANDING_SUSPECTED,
                                         [SHOWN_DEAD] = MUSTER__V1__STANDING__STANDING_DEAD,
                                         [SHOWN_REMOVED] = MUSTER__V1__STANDING__STANDING_REMOVED};
    struct member_heartbeat heartbeat = {0};
    bool heard = service->local && member_local_heartbeat(service->local, worker->id, &heartbeat);

    pack_text(row, 1, worker->id);
    pack_text(row, 2, str_from(service->run));
    pack_u64(row, 3, worker->incarnation);
    pack_u64(row, 4, standings[worker_shown(service, worker)]);
    if (heard) pack_u64(row, 5, heartbeat.phase);
    pack_u64(row, 6, worker->draining);
    pack_u64(row, 7, worker->capable);
    pack_u64(row, 8, (uint64_t)worker->registered_ms);
    pack_u64(row, 9, (uint64_t)heartbeat.received_ms);
    pack_u64(row, 10, (uint64_t)heartbeat.due_ms);
    if (heartbeat.has_load) {
        pack_double(row, 11, heartbeat.load);
        pack_double(row, 12, heartbeat.load_mean);
    }
    pack_u64(row, 13, worker->partitions);
    pack_u64(row, 15, worker->weight);
    pack_text(row, 16, str_from(reason_of(worker)));
    if (!row->err) row->err = buf_append(row->into, worker->labels); /* field 17, unchanged */
    pack_instance(row, 18, worker);
    if (heartbeat.received_ms && wall_ms(service) > heartbeat.received_ms)
        pack_u64(row, 20, (uint64_t)(wall_ms(service) - heartbeat.received_ms));
    pack_u64(row, 21, worker->items);
}

static bool is_asked_for(const struct member_service *service, Muster__V1__Standing asked,
                         const struct member_worker *worker)
{
    enum member_shown shown = worker_shown(service, worker);

    return asked == MUSTER__V1__STANDING__STANDING_UNKNOWN
               ? shown != SHOWN_REMOVED
               : (int)asked == (int)shown + MUSTER__V1__STANDING__STANDING_ACTIVE;
}

static void read_workers(struct leader_request *request)
{
    const Muster__V1__ListWorkersRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct member_worker worker;
    struct str after = str_from(m->after);
    uint32_t limit = m->limit ? m->limit : WORKERS_LIMIT, count = 0;

    while (member_next_worker(membership_of(service), after, &worker)) {
        struct pack row;

        after = worker.id;
        if (!is_asked_for(service, m->standing, &worker)) continue;
        if (count == limit || service->answer.len > ANSWER_BYTES) {
            pack_u64(&answer, 2, 1);
            break;
        }
        row = pack_begin(&service->row);
        pack_worker(service, &row, &worker);
        pack_row(&answer, 1, &row);
        count++;
    }
    request_reply_packed(request, &answer);
}

/* -- ListPartitions, ListCheckpoints -- */

static uint64_t in_ms(struct member_service *service, uint64_t deadline_ns)
{
    uint64_t clock = clock_guess(service);

    return deadline_ns > clock ? (deadline_ns - clock) / NS_PER_MS : 0;
}

static void pack_partition(struct member_service *service, struct pack *row,
                           const struct member_partition *partition)
{
    pack_u64(row, 1, partition->number);
    pack_u64(row, 2, partition->state); /* the protobuf enum has the same numbers */
    pack_text(row, 3, partition->owner);
    pack_u64(row, 4, partition->owner_incarnation);
    pack_u64(row, 5, partition->grant_epoch);
    pack_text(row, 6, partition->target);
    if (partition->state == MEMBER_REVOKING || partition->state == MEMBER_FENCING)
        pack_u64(row, 7, in_ms(service, partition->deadline_ns));
    pack_text(row, 8, partition->checkpoint);
}
static_assert((int)MEMBER_FREE == (int)MUSTER__V1__PARTITION_STATE__PARTITION_FREE &&
                  (int)MEMBER_OWNED == (int)MUSTER__V1__PARTITION_STATE__PARTITION_OWNED &&
                  (int)MEMBER_REVOKING == (int)MUSTER__V1__PARTITION_STATE__PARTITION_REVOKING &&
                  (int)MEMBER_FENCING == (int)MUSTER__V1__PARTITION_STATE__PARTITION_FENCING,
              "states go over the wire as they are");

static void pack_checkpoint(struct member_service *, struct pack *row,
                            const struct member_partition *partition)
{
    pack_u64(row, 1, partition->number);
    pack_text(row, 2, partition->checkpoint);
    pack_u64(row, 3, partition->checkpoint_epoch);
    pack_u64(row, 4, (uint64_t)partition->checkpoint_ms);
    pack_text(row, 5, partition->owner);
}

struct pages {
    uint32_t from, limit;
    struct str owner;     /* empty: any owner */
    bool with_checkpoint; /* only partitions with a checkpoint */
    void (*pack)(struct member_service *service, struct pack *row,
                 const struct member_partition *partition);
};

static void pack_pages(struct member_service *service, struct pack *answer,
                       const struct pages *pages)
{
    struct member_partition partition;
    uint32_t limit = pages->limit ? pages->limit : PARTITIONS_LIMIT, count = 0;

    for (uint32_t i = pages->from; member_find_partition(membership_of(service), i, &partition);
         i++) {
        struct pack row;

        if (pages->owner.len && !str_equal(pages->owner, partition.owner)) continue;
        if (pages->with_checkpoint && partition.checkpoint.len == 0) continue;
        if (count == limit || service->answer.len > ANSWER_BYTES) {
            pack_u64(answer, 2, 1);
            return;
        }
        row = pack_begin(&service->row);
        pages->pack(service, &row, &partition);
        pack_row(answer, 1, &row);
        count++;
    }
}

static void read_partitions(struct leader_request *request)
{
    const Muster__V1__ListPartitionsRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    char room[MEMBER_ID_MAX];

    pack_pages(service, &answer,
               &(struct pages){.from = m->from,
                               .limit = m->limit,
                               .owner = worker_name(m->worker_id, room),
                               .pack = pack_partition});
    request_reply_packed(request, &answer);
}

static void read_checkpoints(struct leader_request *request)
{
    const Muster__V1__ListCheckpointsRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);

    pack_pages(
        service, &answer,
        &(struct pages){
            .from = m->from, .limit = m->limit, .with_checkpoint = true, .pack = pack_checkpoint});
    pack_u64(&answer, 3, cluster_numbers(service).round);
    request_reply_packed(request, &answer);
}

/* -- ListWork -- */

static void pack_item(struct pack *row, const struct member_item *item)
{
    pack_bytes(row, 1, str_of(item->id.b, sizeof item->id.b));
    pack_u64(row, 2, item->state - MEMBER_ITEM_PENDING); /* protobuf: same order, from 0 */
    pack_text(row, 3, item->worker);
    if (item->state == MEMBER_ITEM_RUNNING) pack_u64(row, 4, (uint64_t)item->changed_ms);
    pack_u64(row, 5, item->attempts);
    pack_u64(row, 6, item->payload.len);
    pack_text(row, item->state == MEMBER_ITEM_FAILED ? 8 : 7, item->result);
}

static void read_work(struct leader_request *request)
{
    const Muster__V1__ListWorkRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    uint32_t limit = m->limit ? m->limit : WORK_LIMIT, count = 0;
    struct member_digest after;
    bool has_after = m->after.len == sizeof after.b;
    struct member_item item;

    if (has_after) memcpy(after.b, m->after.data, sizeof after.b);
    while (member_next_item(membership_of(service), has_after ? &after : NULL, &item)) {
        struct pack row;

        after = item.id;
        has_after = true;
        if (m->unfinished && item.state >= MEMBER_ITEM_DONE) continue;
        if (count == limit || service->answer.len > ANSWER_BYTES) {
            pack_u64(&answer, 2, 1);
            break;
        }
        row = pack_begin(&service->row);
        pack_item(&row, &item);
        pack_row(&answer, 1, &row);
        count++;
    }
    request_reply_packed(request, &answer);
}

const struct member_method member_read_methods[] = {
    MEMBER_METHOD("ClusterStatus", cluster_status, 0, .read = read_status, .tools = true),
    MEMBER_METHOD("ListWorkers", list_workers, MEMBER_ANSWER_MAX, .read = read_workers,
                  .tools = true),
    MEMBER_METHOD("ListPartitions", list_partitions, MEMBER_ANSWER_MAX, .read = read_partitions,
                  .tools = true),
    MEMBER_METHOD("ListCheckpoints", list_checkpoints, MEMBER_ANSWER_MAX, .read = read_checkpoints,
                  .tools = true),
    MEMBER_METHOD("ListWork", list_work, MEMBER_ANSWER_MAX, .read = read_work, .tools = true),
    {.base = {.path = NULL}},
};
