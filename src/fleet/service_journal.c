/* SPDX-License-Identifier: Apache-2.0 */
/* Two files for people, with one JSON object per line. Events say what happened to the cluster and
 * its shards. The audit says who changed what.
 *
 * Events:  {"timestamp":"...","node":"n-0","event":"shard-silent","shard":"shard-a",...}
 * Audit:   {"timestamp":"...","node":"n-0","audit":"AssignDomain","actor":"bigfleet://admin",...}
 *
 * Lines are kept while their sink is slow (EVENT_KEEP). If a line has no room, the sink counts the
 * loss, and the process becomes not ready (obs/events.h). Every replica writes a change of the
 * tables at apply, so that a leader's failure loses no line. After a restart, entries that are
 * applied again are written again, with the same `index`. */
#include <stdio.h>

#include "fleet/service_internal.h"
#include "obs/field_json.h"
#include "rpc/access.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

/* If the sink refuses the line, the sink counts the loss and the process becomes not ready. */
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
