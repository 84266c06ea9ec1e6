#include "fleet/journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "text/ndjson.h"

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

static void put_field(struct ndjson *line, const struct log_field *field)
{
    struct str key = str_from(field->key);

    switch (field->kind) {
    case LOG_KIND_STR: ndjson_string(line, key, field->u.text); break;
    case LOG_KIND_U64: ndjson_u64(line, key, field->u.u64); break;
    case LOG_KIND_I64: ndjson_i64(line, key, field->u.i64); break;
    case LOG_KIND_F64: ndjson_double(line, key, field->u.f64); break;
    case LOG_KIND_BOOL: ndjson_bool(line, key, field->u.yes); break;
    case LOG_KIND_END: break;
    }
}

/* A line the sink does not take is the sink's to count, and makes the process not ready. */
static void write_line(struct fleet_journal *journal, struct events *sink, const char *kind,
                       const char *what, const struct str *actor, const struct log_field *fields)
{
    char time[WALL_TEXT_CAP];
    struct ndjson line;

    wall_text(clock_wall(journal->clock), time);
    buf_clear(&journal->line);
    ndjson_begin(&line, &journal->line, NDJSON_LINE);
    ndjson_c_string(&line, STR("timestamp"), time);
    ndjson_c_string(&line, STR("node"), journal->node);
    ndjson_c_string(&line, str_from(kind), what);
    if (actor) ndjson_string(&line, STR("actor"), *actor);
    for (; fields && fields->kind != LOG_KIND_END; fields++) put_field(&line, fields);
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
    struct str who;

    if (!identity) {
        snprintf(actor, FLEET_ACTOR_CAP, "plaintext:%s", rpc_call_peer(call));
        return;
    }
    if (tls_identity_uri(identity, STR("bigfleet"), &who)) who = identity->common_name;
    snprintf(actor, FLEET_ACTOR_CAP, "%.*s", STR_ARG(who));
}
