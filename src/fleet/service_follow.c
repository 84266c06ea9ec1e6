/* SPDX-License-Identifier: Apache-2.0 */
/* Follows applied commands. Every replica writes the audit. The leader also updates its soft state,
 * instructs the owners of domains, and logs new and removed shards. This happens at apply, so that
 * a change has its effects even if the caller has disconnected. */
#include "fleet/service_internal.h"

/* -- the audit -- */

enum { AUDIT_FIELDS = 13 };

/* Names of the texts of each command, for the audit. */
static const char *const text_names[FLEET_KIND_LAST + 1][FLEET_TEXTS_MAX] = {
    [FLEET_ADD_SHARD] = {"shard", "address"},
    [FLEET_REMOVE_SHARD] = {"shard"},
    [FLEET_BIND_CLUSTER] = {"cluster", "shard"},
    [FLEET_ASSIGN_DOMAIN] = {"key", "value", "shard"},
    [FLEET_UNASSIGN_DOMAIN] = {"key", "value"},
    [FLEET_SET_QUOTA] = {"provider", "region"},
    [FLEET_UPSERT_PROVIDER] = {"provider", "address", "region"},
    [FLEET_CLEAR_LEAVING] = {"key", "value", "shard"},
};

static size_t audit_put_command(struct log_field *f, const struct fleet_command *command)
{
    size_t n = 0;

    for (; n < fleet_kind_texts(command->kind); n++)
        f[n] = log_str(text_names[command->kind][n], command->texts[n]);
    if (command->force) f[n++] = log_bool("force", true);
    if (command->kind == FLEET_SET_QUOTA)
        f[n++] = log_u64("slices", command->set_quota.slice_count);
    if (command->kind == FLEET_CLEAR_LEAVING)
        f[n++] = log_u64("since", command->clear_leaving.since);
    return n;
}

static void follow_audit(struct fleet_service *service, const struct machine_entry *entry,
                         const struct fleet_command *command, const struct fleet_result *result)
{
    struct log_field fields[AUDIT_FIELDS];
    size_t n = 0;

    fields[n++] = log_u64("index", entry->index);
    fields[n++] = log_u64("term", entry->term);
    if (entry->request_id.len) fields[n++] = log_str("request_id", entry->request_id);
    if (command) n += audit_put_command(fields + n, command);
    if (result->holder.len) fields[n++] = log_str("holder", result->holder);
    fields[n++] = log_text("result", fleet_status_text(result->status));
    fields[n++] = log_bool("changed", result->changed);
    fields[n++] = LOG_END;
    assert(n <= AUDIT_FIELDS);
    service_audit(service, command ? fleet_kind_name(command->kind) : "?", entry->actor, fields);
}

/* -- the leader's soft state -- */

static void add_to_reports(struct fleet_service *service, struct str shard)
{
    enum err err = reports_add(service->reports, shard, loop_now(service->io->loop));

    /* The next report of the shard tries again to add the shard. The response then has the
     * reason. */
    if (err)
        LOG_WARN(&service->log, "a shard's reports cannot be recorded", log_str("shard", shard),
                 log_err("err", err));
}

static void shard_added(struct fleet_service *service, const struct machine_entry *entry,
                        const struct fleet_shard *shard)
{
    add_to_reports(service, shard->id);
    SERVICE_LOG_EVENT(service, INFO, "shard registered", "shard-first-seen",
                      log_str("shard", shard->id), log_str("address", shard->address),
                      log_str("actor", entry->actor));
}

static void shard_removed(struct fleet_service *service, const struct machine_entry *entry,
                          struct str shard, const struct fleet_result *result)
{
    const struct reported_shard *reported = reports_find(service->reports, shard);
    size_t pending = reported ? reports_pending(reported) : 0;

    service->numbers.dropped[DROP_SHARD] += pending;
    reports_remove(service->reports, shard);
    LOG_INFO(&service->log, "shard removed", log_str("shard", shard),
             log_u64("clusters", result->clusters_freed), log_u64("domains", result->domains_freed),
             log_u64("instructions", pending), log_str("actor", entry->actor));
    service_event(service, "shard-removed",
                  (const struct log_field[]){log_str("shard", shard),
                                             log_u64("clusters", result->clusters_freed),
                                             log_u64("domains", result->domains_freed),
                                             log_str("actor", entry->actor), LOG_END});
}

/* The owner is instructed even if the assignment did not change, because the old leader may not
 * have sent the instruction. An administrator can repeat the assignment. */
static void follow_command(struct fleet_service *service, const struct machine_entry *entry,
                           const struct fleet_command *command, const struct fleet_result *result)
{
    switch (command->kind) {
    case FLEET_ADD_SHARD: shard_added(service, entry, &command->add_shard); break;
    case FLEET_REMOVE_SHARD: shard_removed(service, entry, command->remove_shard, result); break;
    case FLEET_ASSIGN_DOMAIN: service_instruct_owner(service, &command->assign_domain, true); break;
    case FLEET_UNASSIGN_DOMAIN:
        if (result->holder.len)
            service_domain_leaving(service, entry, &command->unassign_domain, result->holder);
        break;
    case FLEET_CLEAR_LEAVING:
        if (result->changed) service_domain_given_up(service, &command->clear_leaving);
        break;
    case FLEET_BIND_CLUSTER:
    case FLEET_SET_QUOTA:
    case FLEET_UPSERT_PROVIDER: break;
    }
}

void service_applied(void *owner, const struct machine_entry *entry,
                     const struct fleet_command *command, const struct fleet_result *result)
{
    struct fleet_service *service = owner;

    follow_audit(service, entry, command, result);
    if (service->leader.led && command && result->status == FLEET_DONE)
        follow_command(service, entry, command, result);
}

/* -- terms -- */

void service_begin_term(struct fleet_service *service, uint64_t term)
{
    struct fleet_walk walk = {0};
    struct fleet_row row;

    reports_begin(service->reports, term);
    service->led_since = loop_now(service->io->loop);
    service->unscoped = 0;
    fleet_heartbeats_clear(service->fleet);
    while (fleet_next(service->fleet, FLEET_SHARDS, &walk, &row))
        add_to_reports(service, row.shard.id);
}

void service_end_term(struct fleet_service *service)
{
    const struct reported_shard *shard;
    size_t cursor = 0;

    while ((shard = reports_next(service->reports, &cursor)))
        service->numbers.dropped[DROP_TERM] += reports_pending(shard);
    reports_begin(service->reports, 0);
}

/* Unexpected on a leader, which needs no snapshots. */
void service_restored(void *owner)
{
    struct fleet_service *service = owner;

    if (service->leader.led) service_begin_term(service, service->leader.term);
}

/* -- silence -- */

void service_check_silence(struct fleet_service *service)
{
    mono_time now = loop_now(service->io->loop);
    const struct reported_shard *shard;

    while ((shard = reports_silent(service->reports, now))) {
        uint64_t silent_ms = mono_elapsed_ms(shard->heard_at, now);

        SERVICE_LOG_EVENT(service, WARN, "shard is silent", "shard-silent",
                          log_str("shard", shard->id), log_u64("silent_ms", silent_ms),
                          log_bool("reported", shard->reported),
                          log_u64("pending", reports_pending(shard)));
    }
}
