/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of domains while they move, and shards that own the same machines.
 *
 * A domain that was taken from a shard is leaving until the shard acknowledges UnassignDomain.
 * Every leader queues the instruction when the shard reports, and proposes ClearLeaving when the
 * shard has accepted it. A lost proposal is harmless: the next report queues the instruction again.
 *
 * Reports reveal three conflicts that the tables cannot exclude. No conflict stops a shard.
 * - Two processes use one shard id.
 * - A shard without domains works beside other shards of its provider.
 * - After a restore, a shard reports another shard's domain, and must give up the domain. */
#include <stdlib.h>

#include "fleet/service_internal.h"

enum {
    CLEARS_MAX = 4096, /* proposals in flight; shards must repeat further acks */
    ISSUES_LISTED_MAX = 1024,
    SHARDS_LISTED_MAX = 64,
    UNSCOPED_TICKS = 5,
};

/* -- leaving domains -- */

static void clear_done(struct fleet_service *service, enum err err, const struct fleet_result *)
{
    if (err)
        LOG_WARN(&service->log,
                 "could not record that a shard released a domain: asking the shard again",
                 log_err("err", err));
    assert(service->clears > 0);
    service->clears--;
}

static void propose_clear(struct fleet_service *service, const struct fleet_leaving *leaving)
{
    struct fleet_command command = {.kind = FLEET_CLEAR_LEAVING, .clear_leaving = *leaving};

    if (service->clears >= CLEARS_MAX) return;
    service->clears++;
    if (service_propose(service, &command, leaving->shard, clear_done)) service->clears--;
}

void service_take_unassign_ack(struct fleet_service *service, const struct reported_shard *shard,
                               const struct instruction *instruction)
{
    struct str topic = instruction->topic;
    size_t key = str_find(topic, '\0');

    if (instruction->stray && shard->strays == 1)
        SERVICE_LOG_EVENT(service, INFO, "shard gave up the domains of other shards",
                          "domain-conflict-over", log_str("shard", shard->id));
    /* Another process with this shard id may not have acknowledged. */
    if (!instruction->tag || key == topic.len || shard->conflict) return;
    propose_clear(service, &(struct fleet_leaving){.key = str_of(topic.at, key),
                                                   .value = str_tail(topic, key + 1),
                                                   .shard = shard->id,
                                                   .since = instruction->tag});
}

/* True: the shard never had the domain, because the UnassignDomain replaced an unsent AssignDomain.
 * A shard without domains owns all machines, and refuses UnassignDomain. */
static bool was_never_given(const struct reported_shard *shard,
                            const struct instruction *instruction)
{
    return instruction->unsent_before && shard->scope == SCOPE_EVERYTHING && !shard->conflict;
}

bool service_take_unassign_refusal(struct fleet_service *service,
                                   const struct reported_shard *shard,
                                   struct instruction *instruction, struct str reason,
                                   bool *ret_first)
{
    *ret_first = true;
    if (!instruction->tag && !instruction->stray) return false;
    if (was_never_given(shard, instruction)) {
        service_take_unassign_ack(service, shard, instruction);
        *ret_first = false;
        return false;
    }
    *ret_first = reports_refused(service->reports, instruction, reason);
    return true;
}

void service_queue_unassigns(struct fleet_service *service, const struct reported_shard *shard)
{
    struct fleet_walk walk = {0};
    struct fleet_row row;

    /* Only instructions for leaving domains have a tag. */
    if (fleet_count_leaving(service->fleet, shard->id) <= shard->tagged) return;
    if (service->clears > 0) return; /* acknowledged domains are being cleared */
    while (reports_pending(shard) < service->options.limits.pending_max &&
           fleet_next_of(service->fleet, FLEET_LEAVING, &walk, shard->id, &row))
        service_queue_unassign(service, &row.leaving);
}

void service_domain_leaving(struct fleet_service *service, const struct machine_entry *entry,
                            const struct fleet_domain *domain, struct str shard)
{
    struct fleet_leaving leaving = {domain->key, domain->value, shard, entry->index};

    if (entry->level < FLEET_LEAVING_LEVEL) {
        struct fleet_domain owned = {domain->key, domain->value, shard};

        service_instruct_owner(service, &owned, false);
        return;
    }
    service_queue_unassign(service, &leaving);
    SERVICE_LOG_EVENT(service, INFO, "domain leaves its shard", "domain-leaving",
                      log_str("key", domain->key), log_str("value", domain->value),
                      log_str("shard", shard), log_str("actor", entry->actor));
}

void service_domain_given_up(struct fleet_service *service, const struct fleet_leaving *leaving)
{
    SERVICE_LOG_EVENT(service, INFO, "shard gave a domain up", "domain-given-up",
                      log_str("key", leaving->key), log_str("value", leaving->value),
                      log_str("shard", leaving->shard));
}

/* -- domains that the tables assign to other shards -- */

static bool is_of_another(const struct fleet_service *service, const struct fleet_domain *domain,
                          struct fleet_row *ret_owner)
{
    return fleet_find(service->fleet, FLEET_DOMAINS, domain->key, domain->value, ret_owner) &&
           !str_equal(ret_owner->domain.shard, domain->shard);
}

void service_compare_domains(struct fleet_service *service, const struct reported_shard *shard,
                             const Bigfleet__V1alpha1__ShardReport *report)
{
    struct fleet_domain domain = {.shard = shard->id}, first = {0};
    bool had_strays = shard->strays > 0;
    struct fleet_row owner;

    for (size_t i = 0;
         i < report->n_domains && reports_pending(shard) < service->options.limits.pending_max;
         i++) {
        domain.key = str_from(report->domains[i]->topology_key);
        domain.value = str_from(report->domains[i]->topology_value);
        if (!is_of_another(service, &domain, &owner)) continue;
        service_queue_stray(service, &domain);
        if (!first.key.len)
            first = (struct fleet_domain){domain.key, domain.value, owner.domain.shard};
    }
    if (had_strays || !shard->strays) return;
    SERVICE_LOG_EVENT(
        service, ERROR, "shard acts on domains of another shard; it is instructed to give them up",
        "domain-conflict", log_str("shard", domain.shard), log_u64("domains", shard->strays),
        log_str("key", first.key), log_str("value", first.value), log_str("owner", first.shard));
}

/* -- two processes with the same shard id -- */

void service_conflict_begun(struct fleet_service *service, const struct reported_shard *shard)
{
    const struct shard_process *at = shard->processes;
    struct log_field fields[2 * REPORTS_PROCESSES_MAX + 2];
    static const char *const addresses[] = {"address", "address2", "address3", "address4"};
    static const char *const epochs[] = {"epoch", "epoch2", "epoch3", "epoch4"};
    size_t n = 0, count = 0;

    static_assert(ARRAY_LEN(addresses) == REPORTS_PROCESSES_MAX, "a name per process");
    fields[n++] = log_str("shard", shard->id);
    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) {
        if (!at[i].used) continue;
        fields[n++] = log_str(addresses[count], at[i].address);
        fields[n++] = log_i64(epochs[count++], at[i].epoch);
    }
    fields[n] = LOG_END;
    assert(count >= 2); /* only reports of different processes can overlap */
    LOG_ERROR(&service->log, "two processes report under one shard id: stop one of them",
              log_str("shard", shard->id), log_u64("processes", count), fields[1], fields[3]);
    service_event(service, "shard-id-conflict", fields);
}

static void conflicts_check_ended(struct fleet_service *service)
{
    const struct reported_shard *shard;

    while ((shard = reports_conflict_over(service->reports, loop_now(service->io->loop))))
        SERVICE_LOG_EVENT(service, INFO, "the shard id is no longer used by two processes",
                          "shard-id-conflict-over", log_str("shard", shard->id));
}

/* -- shards without domains, on a provider that they share with other shards -- */

struct provider_user { /* a shard that uses a provider; shard_reports owns the texts */
    struct str provider, shard;
    bool scoped; /* the shard has domains */
};

static int user_compare(const void *a, const void *b)
{
    const struct provider_user *left = a, *right = b;
    int order = str_compare(left->provider, right->provider);

    if (!order) order = (int)left->scoped - (int)right->scoped;
    return order ? order : str_compare(left->shard, right->shard);
}

/* True if the shard may use machines of its provider. A shard without domains in the tables does so
 * unless it reports a scope of domains, because its last domain was taken away. */
static bool is_user(const struct fleet_service *service, const struct reported_shard *kept,
                    struct provider_user *ret_user)
{
    struct fleet_row row;

    if (!kept->reported || kept->silent || !kept->provider.len ||
        !fleet_find(service->fleet, FLEET_SHARDS, kept->id, STR_EMPTY, &row))
        return false;
    *ret_user = (struct provider_user){kept->provider, kept->id, row.shard.domains > 0};
    return ret_user->scoped || kept->scope != SCOPE_DOMAINS;
}

/* The index behind the last user of the same provider. */
static size_t users_end(const struct provider_user *list, size_t count, size_t at)
{
    size_t end = at + 1;

    while (end < count && str_equal(list[end].provider, list[at].provider)) end++;
    return end;
}

/* Finds the users of all providers that a shard without domains shares with other shards. The list
 * is sorted by provider, shards without domains first. The caller must free() the list. */
static size_t find_unscoped(const struct fleet_service *service, struct provider_user **ret_list,
                            size_t *ret_unscoped)
{
    size_t count = 0, kept = 0, cursor = 0, end;
    struct provider_user *list = calloc(map_count(&service->reports->shards) + 1, sizeof *list);
    const struct reported_shard *shard;

    *ret_list = list;
    *ret_unscoped = 0;
    if (!list) return 0;
    while ((shard = reports_next(service->reports, &cursor)))
        if (is_user(service, shard, &list[count])) count++;
    if (count > 1) qsort(list, count, sizeof *list, user_compare);
    for (size_t i = 0; i < count; i = end) {
        end = users_end(list, count, i);
        if (end - i < 2 || list[i].scoped) continue;
        for (size_t j = i; j < end; j++) {
            *ret_unscoped += !list[j].scoped;
            list[kept++] = list[j];
        }
    }
    return kept;
}

static void unscoped_check(struct fleet_service *service)
{
    struct provider_user *list = NULL;
    size_t count;

    (void)find_unscoped(service, &list, &count);
    if (count != service->unscoped) {
        struct str provider = count ? list[0].provider : STR_EMPTY;

        if (count)
            LOG_WARN(&service->log,
                     "shards without domains share a provider: each acts on the other's machines",
                     log_u64("shards", count), log_str("provider", provider),
                     log_str("shard", list[0].shard), log_str("shard2", list[1].shard));
        else
            LOG_INFO(&service->log,
                     "provider sharing resolved: shards without domains no longer share one");
        service_event(service, "shards-without-domains",
                      (const struct log_field[]){log_u64("shards", count),
                                                 log_str("provider", provider), LOG_END});
    }
    service->unscoped = count;
    free(list);
}

void service_check_conflicts(struct fleet_service *service)
{
    conflicts_check_ended(service);
    if (++service->unscoped_ticks < UNSCOPED_TICKS) return;
    service->unscoped_ticks = 0;
    unscoped_check(service);
}

/* -- ListOwnershipIssues -- */

static void pack_leaving(struct fleet_service *service, struct pack *answer)
{
    struct fleet_walk walk = {0};
    struct fleet_row found, owner;
    const struct instruction *pending;

    for (size_t i = 0; i < ISSUES_LISTED_MAX && !answer->err &&
                       fleet_next(service->fleet, FLEET_LEAVING, &walk, &found);
         i++) {
        struct fleet_domain domain = {found.leaving.key, found.leaving.value, found.leaving.shard};
        struct pack row = pack_begin(&service->row);

        service_pack_row(service, &row, &found);
        if (fleet_find(service->fleet, FLEET_DOMAINS, domain.key, domain.value, &owner))
            pack_text(&row, 4, owner.domain.shard);
        pack_u64(&row, 5, found.leaving.since);
        if ((pending = service_find_pending(service, &domain))) pack_text(&row, 6, pending->reason);
        pack_row(answer, 1, &row);
    }
    pack_u64(answer, 2, fleet_counts(service->fleet).of[FLEET_LEAVING]);
}

static void pack_process(struct fleet_service *service, struct pack *row,
                         const struct shard_process *process)
{
    struct pack fields = pack_begin(&service->command);

    pack_text(&fields, 1, process->address);
    pack_i64(&fields, 2, process->epoch);
    pack_i64(&fields, 3, process->cycle);
    pack_i64(&fields, 4, process->received_at_ns);
    pack_row(row, 2, &fields);
}

static void pack_duplicates(struct fleet_service *service, struct pack *answer)
{
    const struct reported_shard *shard;
    struct fleet_walk walk = {0};
    size_t listed = 0;

    if (service->reports->conflict_count == 0) return;
    while (!answer->err && listed < ISSUES_LISTED_MAX &&
           (shard = service_next_reported(service, &walk))) {
        struct pack row = pack_begin(&service->row);

        if (!shard->conflict) continue;
        pack_text(&row, 1, shard->id);
        for (size_t i = 0; i < REPORTS_PROCESSES_MAX && !row.err; i++)
            if (shard->processes[i].used) pack_process(service, &row, &shard->processes[i]);
        pack_row(answer, 3, &row);
        listed++;
    }
}

static void pack_unscoped(struct fleet_service *service, struct pack *answer)
{
    struct provider_user *list = NULL;
    size_t unscoped, count = find_unscoped(service, &list, &unscoped), groups = 0, end;

    for (size_t i = 0; i < count && groups < ISSUES_LISTED_MAX && !answer->err; i = end) {
        struct pack row = pack_begin(&service->row);
        size_t listed[2] = {0};

        pack_text(&row, 1, list[i].provider);
        end = users_end(list, count, i);
        for (size_t j = i; j < end; j++)
            if (listed[list[j].scoped]++ < SHARDS_LISTED_MAX)
                pack_text(&row, list[j].scoped ? 3 : 2, list[j].shard);
        pack_row(answer, 4, &row);
        groups++;
    }
    free(list);
}

static void pack_stray(struct fleet_service *service, struct str shard,
                       const struct instruction *pending, struct pack *answer)
{
    struct pack row = pack_begin(&service->row);
    size_t mark = str_find(pending->topic, '\0');
    struct str key = str_of(pending->topic.at, mark), value = str_tail(pending->topic, mark + 1);
    struct fleet_row owner;

    pack_text(&row, 1, key);
    pack_text(&row, 2, value);
    pack_text(&row, 3, shard);
    if (fleet_find(service->fleet, FLEET_DOMAINS, key, value, &owner))
        pack_text(&row, 4, owner.domain.shard);
    pack_text(&row, 5, pending->reason);
    pack_row(answer, 5, &row);
}

static void pack_contested(struct fleet_service *service, struct pack *answer)
{
    size_t listed = 0, count = service->reports->stray_count;
    const struct reported_shard *shard;
    struct fleet_walk walk = {0};

    while (count > 0 && !answer->err && listed < ISSUES_LISTED_MAX &&
           (shard = service_next_reported(service, &walk))) {
        if (!shard->strays) continue;
        LIST_EACH(&shard->queue, node)
        {
            const struct instruction *pending = CONTAINER_OF(node, struct instruction, link);

            if (!pending->stray || listed == ISSUES_LISTED_MAX) continue;
            pack_stray(service, shard->id, pending, answer);
            listed++;
        }
    }
    pack_u64(answer, 6, count);
}

static void list_issues(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);

    pack_leaving(service, &answer);
    pack_duplicates(service, &answer);
    pack_unscoped(service, &answer);
    pack_contested(service, &answer);
    request_reply_packed(request, &answer);
}

const struct service_method service_ownership_methods[] = {
    SERVICE_METHOD(MUSTER, "ListOwnershipIssues", muster__v1, list_ownership_issues,
                   .read = list_issues),
    {.base = {.path = NULL}},
};
