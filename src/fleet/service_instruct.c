/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions to shards. Each gets the leader's term and a sequence number, and is queued in the
 * shard's reports. Every response to a report repeats the instruction until the shard acknowledges
 * it. */
#include <inttypes.h>
#include <stdio.h>

#include "fleet/service_internal.h"

typedef Bigfleet__V1alpha1__CoordinatorInstruction instruction_message;
typedef Muster__V1__QueueInstructionRequest queue_message;

enum { SHARDS_AT_ONCE_MAX = 1024 };

/* A missing id becomes 16 hexadecimal digits, stored in `id`. */
static void instruction_stamp(struct fleet_service *service, struct instruction *it,
                              char id[INSTRUCTION_ID_CAP])
{
    it->term = service->reports->term;
    it->sequence = ++service->reports->sequence;
    if (it->id.len) return;
    snprintf(id, INSTRUCTION_ID_CAP, "%016" PRIx64, entropy_u64(service->io->entropy));
    it->id = str_from(id);
}

static enum err instruction_queue(struct fleet_service *service, struct str shard,
                                  const struct instruction *it)
{
    enum err err = reports_queue(service->reports, reports_find(service->reports, shard), it);

    service->numbers.queued += !err;
    return err;
}

/* -- instructions about domains, from the tables to the owner shards -- */

enum { TOPIC_CAP = FLEET_LABEL_KEY_MAX + FLEET_LABEL_VALUE_MAX + 1 };

/* Joins key and value with a NUL, which neither can contain. */
static struct str topic_of(const struct fleet_domain *domain, char topic[TOPIC_CAP])
{
    static_assert((int)TOPIC_CAP <= (int)REPORTS_TOPIC_MAX, "every domain is a topic");
    assert(domain->key.len <= FLEET_LABEL_KEY_MAX && domain->value.len <= FLEET_LABEL_VALUE_MAX);
    memcpy(topic, domain->key.at, domain->key.len);
    topic[domain->key.len] = '\0';
    memcpy(topic + domain->key.len + 1, domain->value.at, domain->value.len);
    return str_of(topic, domain->key.len + 1 + domain->value.len);
}

/* Queues AssignDomain or UnassignDomain. The caller sets tag and flags of `it`. */
static void instruct_owner(struct fleet_service *service, const struct fleet_domain *domain,
                           bool assigned, struct instruction it)
{
    struct pack content = pack_begin(&service->command), bytes = pack_begin(&service->row);
    char id[INSTRUCTION_ID_CAP], topic[TOPIC_CAP];
    enum err err;

    it.topic = topic_of(domain, topic);
    instruction_stamp(service, &it, id);
    pack_text(&content, 1, domain->key);
    pack_text(&content, 2, domain->value);
    pack_u64(&bytes, 1, it.term);
    pack_u64(&bytes, 2, it.sequence);
    pack_text(&bytes, 3, it.id);
    pack_row(&bytes, assigned ? 4 : 5, &content); /* AssignDomain or UnassignDomain */
    it.bytes = buf_peek(&service->row);
    err = bytes.err ? bytes.err : instruction_queue(service, domain->shard, &it);
    if (!err) return;
    service->numbers.dropped[DROP_FULL]++;
    LOG_WARN(&service->log,
             "a shard's instruction queue is full: it was not notified of a domain change",
             log_str("shard", domain->shard), log_str("key", domain->key),
             log_str("value", domain->value), log_bool("assigned", assigned), log_err("err", err));
}

void service_instruct_owner(struct fleet_service *service, const struct fleet_domain *domain,
                            bool assigned)
{
    instruct_owner(service, domain, assigned, (struct instruction){.tag = 0});
}

const struct instruction *service_find_pending(const struct fleet_service *service,
                                               const struct fleet_domain *domain)
{
    const struct reported_shard *shard = reports_find(service->reports, domain->shard);
    char topic[TOPIC_CAP];

    return shard ? reports_about(shard, topic_of(domain, topic)) : NULL;
}

/* Replaces a pending AssignDomain: the domain was taken from the shard later. */
void service_queue_unassign(struct fleet_service *service, const struct fleet_leaving *leaving)
{
    struct fleet_domain domain = {leaving->key, leaving->value, leaving->shard};
    const struct instruction *waiting = service_find_pending(service, &domain);
    struct instruction marks = {.tag = leaving->since};

    if (waiting && waiting->tag == leaving->since) return;
    if (waiting) marks.unsent_before = !waiting->tag && !waiting->stray && waiting->deliveries == 0;
    instruct_owner(service, &domain, false, marks);
}

void service_queue_stray(struct fleet_service *service, const struct fleet_domain *domain)
{
    if (!service_find_pending(service, domain))
        instruct_owner(service, domain, false, (struct instruction){.stray = true});
}

void service_instruct_domains(struct fleet_service *service, const struct reported_shard *shard)
{
    struct fleet_walk walk = {0};
    struct fleet_row row;

    while (reports_pending(shard) < service->options.limits.pending_max &&
           fleet_next_of(service->fleet, FLEET_DOMAINS, &walk, shard->id, &row))
        if (!service_find_pending(service, &row.domain))
            service_instruct_owner(service, &row.domain, true);
}

/* -- QueueInstruction -- */

static bool queue_admit(struct leader_request *request)
{
    const queue_message *m = (const void *)request->message;
    const char *wrong = NULL;

    if (m->n_shard_ids == 0)
        wrong = "shard_ids required";
    else if (m->n_shard_ids > SHARDS_AT_ONCE_MAX)
        wrong = "more than 1024 shard_ids";
    else if (!m->instruction)
        wrong = "instruction required";
    else if (m->instruction->payload_case ==
             BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD__NOT_SET)
        wrong = "instruction: one of the five payloads required";
    else if (strlen(m->instruction->instruction_id) > REPORTS_ID_MAX)
        wrong = "instruction_id is longer than 128 bytes";
    for (size_t i = 0; !wrong && i < m->n_shard_ids; i++)
        if (!m->shard_ids[i][0]) wrong = "an empty shard_id";
    if (wrong) request_refuse(request, GRPC_INVALID_ARGUMENT, "QueueInstruction: %s", wrong);
    return !wrong;
}

/* Requires room for all shards, because all shards get the instruction, or none. */
static bool queue_has_room(struct leader_request *request, const struct instruction *it)
{
    struct fleet_service *service = service_of(request);
    const queue_message *m = (const void *)request->message;
    struct str shards[SHARDS_AT_ONCE_MAX];
    size_t at = 0;
    enum err err;

    for (size_t i = 0; i < m->n_shard_ids; i++) shards[i] = str_from(m->shard_ids[i]);
    err = reports_may_queue(service->reports, shards, m->n_shard_ids, it, &at);
    if (!err) return true;
    if (err == ERR_NOT_FOUND)
        request_refuse(request, GRPC_NOT_FOUND, "QueueInstruction: shard not found: %s",
                       m->shard_ids[at]);
    else if (err == ERR_FULL)
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED,
                       "QueueInstruction: no room for %s, for which %zu instructions wait; it, or "
                       "others, have to report first",
                       m->shard_ids[at],
                       reports_pending(reports_find(service->reports, shards[at])));
    else
        request_refuse(request, err_grpc_status(err), "QueueInstruction: %s: %s", m->shard_ids[at],
                       err_text(err));
    return false;
}

static void audit_queued(struct leader_request *request, const instruction_message *it,
                         struct str shard)
{
    static const char *const kinds[] = {"AssignDomain", "UnassignDomain", "ReassignSpeculative",
                                        "CrossShardDrain", "TransferOwnership"};
    char actor[SERVICE_ACTOR_CAP];
    size_t kind = (size_t)it->payload_case -
                  BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN;

    service_actor(request->call, actor);
    service_audit(service_of(request), "QueueInstruction", str_from(actor),
                  (const struct log_field[]){
                      log_text("instruction", it->instruction_id), log_text("kind", kinds[kind]),
                      log_i64("term", it->coordinator_term),
                      log_i64("sequence", it->sequence_number), log_str("shard", shard), LOG_END});
}

static void queue_all(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const queue_message *m = (const void *)request->message;
    struct instruction queued = {.id = str_from(m->instruction->instruction_id)};
    instruction_message it = *m->instruction;
    struct pack pack;
    char id[INSTRUCTION_ID_CAP];
    enum err err;

    instruction_stamp(service, &queued, id);
    it.coordinator_term = (int64_t)queued.term;
    it.sequence_number = (int64_t)queued.sequence;
    it.instruction_id = (char *)queued.id.at;
    buf_clear(&service->row);
    err = message_write(&it.base, &service->row, NULL);
    queued.bytes = buf_peek(&service->row);
    if (!err && !queue_has_room(request, &queued)) return;
    pack = pack_begin(&service->answer);
    pack_text(&pack, 1, queued.id);
    for (size_t i = 0; i < m->n_shard_ids && !pack.err; i++) {
        struct str shard = str_from(m->shard_ids[i]);

        if (!err) err = instruction_queue(service, shard, &queued);
        if (err) { /* out of memory; instructions already queued remain */
            request_refuse(request, err_grpc_status(err), "QueueInstruction: %.*s: %s",
                           STR_ARG(shard), err_text(err));
            return;
        }
        request->acted = true;
        audit_queued(request, &it, shard);
    }
    request_reply_packed(request, &pack);
}

const struct service_method service_instruct_methods[] = {
    SERVICE_METHOD(MUSTER, "QueueInstruction", muster__v1, queue_instruction, .admit = queue_admit,
                   .read = queue_all),
    {.base = {.path = NULL}},
};
