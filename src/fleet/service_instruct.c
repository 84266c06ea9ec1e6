/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions to shards: stamped with the leader's term and a number of its own, queued
 * in the shard's reports, sent with every answer to a report until acked. */
#include <inttypes.h>
#include <stdio.h>

#include "fleet/service_internal.h"

typedef Bigfleet__V1alpha1__CoordinatorInstruction instruction_message;
typedef Muster__V1__QueueInstructionRequest queue_message;

enum { SHARDS_AT_ONCE_MAX = 1024 };

/* Term, sequence and, if it has none, an id of 16 hexadecimal digits, which then stands in `id`. */
static void stamp(struct fleet_service *service, instruction_message *instruction,
                  char id[INSTRUCTION_ID_CAP])
{
    instruction->coordinator_term = (int64_t)service->reports->term;
    instruction->sequence_number = (int64_t)++service->reports->sequence;
    if (instruction->instruction_id[0]) return;
    snprintf(id, INSTRUCTION_ID_CAP, "%016" PRIx64, entropy_u64(service->io->entropy));
    instruction->instruction_id = id;
}

/* A stamped one, with the topic, tag and marks of `marks`. Errors as reports_queue. */
static enum err queue_stamped(struct fleet_service *service, struct reported_shard *shard,
                              const struct instruction *marks,
                              const instruction_message *instruction)
{
    struct instruction queued = *marks;
    enum err err;

    queued.id = str_from(instruction->instruction_id);
    queued.term = (uint64_t)instruction->coordinator_term;
    queued.sequence = (uint64_t)instruction->sequence_number;
    buf_clear(&service->row);
    err = message_write(&instruction->base, &service->row, NULL);
    queued.bytes = buf_peek(&service->row);
    if (!err) err = reports_queue(service->reports, shard, &queued);
    if (err) return err;
    service->numbers.queued++;
    return ERR_OK;
}

/* -- domains: the tables' words to the owners -- */

/* The text of a row as a C string, which protobuf-c wants. */
static char *c_text(struct str text, char *into)
{
    memcpy(into, text.at, text.len);
    into[text.len] = '\0';
    return into;
}

enum { TOPIC_CAP = FLEET_LABEL_KEY_MAX + FLEET_LABEL_VALUE_MAX + 2 };

static struct str topic_of(const struct fleet_domain *domain, char topic[TOPIC_CAP])
{
    static_assert((int)TOPIC_CAP <= (int)REPORTS_TOPIC_MAX, "every domain is a topic");
    assert(domain->key.len <= FLEET_LABEL_KEY_MAX && domain->value.len <= FLEET_LABEL_VALUE_MAX);
    c_text(domain->key, topic); /* with its NUL, which no text of a contract holds */
    memcpy(topic + domain->key.len + 1, domain->value.at, domain->value.len);
    return str_of(topic, domain->key.len + 1 + domain->value.len);
}

static void tell_owner(struct fleet_service *service, const struct fleet_domain *domain,
                       bool assigned, const struct instruction *marks)
{
    char id[INSTRUCTION_ID_CAP], key[FLEET_LABEL_KEY_MAX + 1], value[FLEET_LABEL_VALUE_MAX + 1];
    char topic[TOPIC_CAP];
    Bigfleet__V1alpha1__AssignDomain assign = BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN__INIT;
    Bigfleet__V1alpha1__UnassignDomain unassign = BIGFLEET__V1ALPHA1__UNASSIGN_DOMAIN__INIT;
    instruction_message it = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    struct instruction marked = *marks;
    enum err err;

    assign.topology_key = unassign.topology_key = c_text(domain->key, key);
    assign.topology_value = unassign.topology_value = c_text(domain->value, value);
    if (assigned) {
        it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN;
        it.assign_domain = &assign;
    } else {
        it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN;
        it.unassign_domain = &unassign;
    }
    marked.topic = topic_of(domain, topic);
    stamp(service, &it, id);
    err = queue_stamped(service, reports_find(service->reports, domain->shard), &marked, &it);
    if (!err) return;
    service->numbers.dropped[DROP_FULL]++;
    LOG_WARN(&service->log, "the owner of a domain will not be told",
             log_str("shard", domain->shard), log_str("key", domain->key),
             log_str("value", domain->value), log_bool("assigned", assigned), log_err("err", err));
}

void service_tell_owner(struct fleet_service *service, const struct fleet_domain *domain,
                        bool assigned)
{
    tell_owner(service, domain, assigned, &(struct instruction){.tag = 0});
}

const struct instruction *service_find_told(const struct fleet_service *service,
                                            const struct fleet_domain *domain)
{
    const struct reported_shard *shard = reports_find(service->reports, domain->shard);
    char topic[TOPIC_CAP];

    return shard ? reports_about(shard, topic_of(domain, topic)) : NULL;
}

/* An AssignDomain that waits is replaced: the domain was taken from the shard after it. */
void service_queue_unassign(struct fleet_service *service, const struct fleet_leaving *leaving)
{
    struct fleet_domain domain = {leaving->key, leaving->value, leaving->shard};
    const struct instruction *waiting = service_find_told(service, &domain);
    struct instruction marks = {.tag = leaving->since};

    if (waiting && waiting->tag == leaving->since) return;
    if (waiting) marks.untold = !waiting->tag && !waiting->stray && waiting->deliveries == 0;
    tell_owner(service, &domain, false, &marks);
}

void service_queue_stray(struct fleet_service *service, const struct fleet_domain *domain)
{
    if (!service_find_told(service, domain))
        tell_owner(service, domain, false, &(struct instruction){.stray = true});
}

void service_tell_domains(struct fleet_service *service, const struct reported_shard *shard)
{
    struct fleet_walk walk = {0};
    struct fleet_row row;

    while (reports_pending(shard) < service->limits.pending_max &&
           fleet_next_of(service->fleet, FLEET_DOMAINS, &walk, shard->id, &row))
        if (!service_find_told(service, &row.domain))
            service_tell_owner(service, &row.domain, true);
}

/* -- QueueInstruction -- */

static bool admit_queue(struct leader_request *request)
{
    const queue_message *m = (const queue_message *)request->message;
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

/* All or none: whether there is room for every one of them is known before the first is queued. */
static bool may_queue(struct leader_request *request, const instruction_message *it)
{
    struct fleet_service *service = service_of(request);
    const queue_message *m = (const queue_message *)request->message;
    struct str shards[SHARDS_AT_ONCE_MAX];
    struct instruction queued = {.id = str_from(it->instruction_id)};
    size_t at = 0;
    enum err err;

    for (size_t i = 0; i < m->n_shard_ids; i++) shards[i] = str_from(m->shard_ids[i]);
    buf_clear(&service->row);
    err = message_write(&it->base, &service->row, NULL);
    queued.bytes = buf_peek(&service->row);
    if (!err) err = reports_may_queue(service->reports, shards, m->n_shard_ids, &queued, &at);
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
    char actor[FLEET_ACTOR_CAP];
    size_t kind = (size_t)it->payload_case -
                  BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN;

    fleet_actor(request->call, actor);
    fleet_journal_audit(service_of(request)->journal, "QueueInstruction", str_from(actor),
                        (const struct log_field[]){log_text("instruction", it->instruction_id),
                                                   log_text("kind", kinds[kind]),
                                                   log_i64("term", it->coordinator_term),
                                                   log_i64("sequence", it->sequence_number),
                                                   log_str("shard", shard), LOG_END});
}

static void queue(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const queue_message *m = (const queue_message *)request->message;
    struct pack pack = {&service->answer, ERR_OK};
    instruction_message it;
    char id[INSTRUCTION_ID_CAP];

    it = *m->instruction;
    stamp(service, &it, id);
    if (!may_queue(request, &it)) return;
    buf_clear(&service->answer);
    pack_text(&pack, 1, str_from(it.instruction_id));
    for (size_t i = 0; i < m->n_shard_ids && !pack.err; i++) {
        struct reported_shard *shard = reports_find(service->reports, str_from(m->shard_ids[i]));
        enum err err = queue_stamped(service, shard, &(struct instruction){.tag = 0}, &it);

        if (err) { /* no memory; what was queued before stays */
            request_refuse(request, err_grpc_status(err), "QueueInstruction: %s: %s",
                           m->shard_ids[i], err_text(err));
            return;
        }
        request->acted = true;
        audit_queued(request, &it, shard->id);
    }
    request_reply_packed(request, &pack);
}

const struct service_method service_instruct_methods[] = {
    SERVICE_METHOD(MUSTER, "QueueInstruction", muster__v1, queue_instruction, .admit = admit_queue,
                   .read = queue),
    {.base = {.path = NULL}},
};
