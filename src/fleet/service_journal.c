/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's two records for people: events (what happened to the cluster and its shards)
 * and the audit (who changed what), one JSON object per line.
 *
 * Events:  {"timestamp":"...","node":"n-0","event":"shard-silent","shard":"shard-a",...}
 * Audit:   {"timestamp":"...","node":"n-0","audit":"AssignDomain","actor":"bigfleet://admin",...}
 *
 * Both record transitions and must not be lost. They are kept when the sink is slow (EVENT_KEEP).
 * The sink counts a line without room, which makes the process not ready (obs/events.h). The
 * surprising rule: every replica writes a change of the tables when it applies the change, so that
 * the failure of a leader loses none. After a restart, entries that are applied again are written
 * again; lines with the same `index` are the same change. */
#include <stdio.h>

#include "fleet/service_internal.h"
#include "obs/field_json.h"
#include "rpc/access.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

/* A line that the sink refuses is counted by the sink and makes the process not ready. */
static void journal_write(struct fleet_service *service, const char *kind, const char *what,
                          const struct str *actor, const struct log_field *fields)
{
    char time[RFC3339_CAP];
    struct ndjson line;

    if (!service->options.events) return;
    wall_text(clock_wall(service->io->clock), time);
    buf_clear(&service->line);
    ndjson_begin(&line, &service->line, NDJSON_LINE);
    ndjson_c_string(&line, STR("timestamp"), time);
    ndjson_c_string(&line, STR("node"), service->options.name);
    ndjson_c_string(&line, str_from(kind), what);
    if (actor) ndjson_string(&line, STR("actor"), *actor);
    for (; fields && fields->kind != LOG_KIND_END; fields++) field_json(&line, fields);
    if (ndjson_end(&line)) return;
    (void)events_write(service->options.events, EVENT_KEEP,
                       str_of(service->line.data, service->line.len - 1));
}

void service_event(struct fleet_service *service, const char *event, const struct log_field *fields)
{
    journal_write(service, "event", event, NULL, fields);
}

void service_audit(struct fleet_service *service, const char *what, struct str actor,
                   const struct log_field *fields)
{
    journal_write(service, "audit", what, &actor, fields);
}

void service_actor(const struct rpc_call *call, char actor[SERVICE_ACTOR_CAP])
{
    const struct tls_identity *identity = rpc_call_identity(call);
    struct str who = rpc_access_name(identity);

    if (identity)
        snprintf(actor, SERVICE_ACTOR_CAP, "%.*s", STR_ARG(who));
    else
        snprintf(actor, SERVICE_ACTOR_CAP, "plaintext:%s", rpc_call_peer(call));
}
