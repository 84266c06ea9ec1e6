/* SPDX-License-Identifier: Apache-2.0 */
/* Writes events and audit records as lines of JSON into their sinks. Loop's thread. */
#include "fleet/journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "obs/field_json.h"
#include "rpc/access.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

enum { LINE_MAX_BYTES = 16 << 10 };

struct fleet_journal {
    struct clock *clock;
    struct events *events, *audit;
    struct buf line;
    char node[];
};

enum err fleet_journal_open(const struct fleet_journal_options *options,
                            struct fleet_journal **ret_journal)
{
    struct str node = str_from(options->node);
    struct fleet_journal *journal = calloc(1, sizeof *journal + node.len + 1);

    if (!journal) return ERR_NOMEM;
    journal->clock = options->clock;
    journal->events = options->events;
    journal->audit = options->audit;
    memcpy(journal->node, node.at, node.len);
    buf_init(&journal->line, LINE_MAX_BYTES);
    *ret_journal = journal;
    return ERR_OK;
}

void fleet_journal_close(struct fleet_journal *journal)
{
    if (!journal) return;
    buf_deinit(&journal->line);
    free(journal);
}

/* A line the sink does not take is the sink's to count, and makes the process not ready. */
static void write_line(struct fleet_journal *journal, struct events *sink, const char *kind,
                       const char *what, const struct str *actor, const struct log_field *fields)
{
    char time[RFC3339_CAP];
    struct ndjson line;

    wall_text(clock_wall(journal->clock), time);
    buf_clear(&journal->line);
    ndjson_begin(&line, &journal->line, NDJSON_LINE);
    ndjson_c_string(&line, STR("timestamp"), time);
    ndjson_c_string(&line, STR("node"), journal->node);
    ndjson_c_string(&line, str_from(kind), what);
    if (actor) ndjson_string(&line, STR("actor"), *actor);
    for (; fields && fields->kind != LOG_KIND_END; fields++) field_json(&line, fields);
    if (ndjson_end(&line)) return;
    (void)events_write(sink, EVENT_KEEP, str_of(journal->line.data, journal->line.len - 1));
}

void fleet_journal_event(struct fleet_journal *journal, const char *event,
                         const struct log_field *fields)
{
    if (journal && journal->events)
        write_line(journal, journal->events, "event", event, NULL, fields);
}

void fleet_journal_audit(struct fleet_journal *journal, const char *what, struct str actor,
                         const struct log_field *fields)
{
    if (journal && journal->audit)
        write_line(journal, journal->audit, "audit", what, &actor, fields);
}

void fleet_actor(const struct rpc_call *call, char actor[FLEET_ACTOR_CAP])
{
    const struct tls_identity *identity = rpc_call_identity(call);
    struct str who = rpc_access_name(identity);

    if (identity)
        snprintf(actor, FLEET_ACTOR_CAP, "%.*s", STR_ARG(who));
    else
        snprintf(actor, FLEET_ACTOR_CAP, "plaintext:%s", rpc_call_peer(call));
}
