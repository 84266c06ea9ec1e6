/* SPDX-License-Identifier: Apache-2.0 */
/* The two records a coordinator keeps for people: events (what happened to the cluster and its
 * shards) and the audit (who changed what), one JSON object per line.
 *
 * Events:  {"timestamp":"...","node":"n-0","event":"shard-silent","shard":"shard-a",...}
 * Audit:   {"timestamp":"...","node":"n-0","audit":"AssignDomain","actor":"bigfleet://admin",...}
 *
 * Both are transitions, never samples: kept when the sink is slow (EVENT_KEEP), and a line that
 * finds no room is counted by the sink, which makes the process not ready (obs/events.h). The
 * surprising rule: a change of the tables is written by every replica when it applies it, so that
 * no leader's death loses it; after a restart the lines of the entries that are applied again come
 * again: the same `index` is the same change. */
#ifndef FLEET_JOURNAL_H
#define FLEET_JOURNAL_H
#include "base/buf.h"
#include "io/clock.h"
#include "obs/events.h"
#include "obs/log.h"
#include "rpc/call.h"

struct fleet_journal;
struct fleet_journal_options {
    struct clock *clock;
    struct events *events, *audit; /* borrowed; may be the same; NULL: none */
    const char *node;              /* name of this replica; copied */
};
enum err fleet_journal_open(const struct fleet_journal_options *options,
                            struct fleet_journal **ret_journal); /* ERR_NOMEM */
void fleet_journal_close(struct fleet_journal *journal);         /* NULL is fine */
/* `fields` ends with LOG_END, or is NULL. A NULL journal writes nothing. */
void fleet_journal_event(struct fleet_journal *journal, const char *event,
                         const struct log_field *fields);
void fleet_journal_audit(struct fleet_journal *journal, const char *what, struct str actor,
                         const struct log_field *fields);

/* Who asks, for the audit and the log's envelope: the bigfleet: identity of the certificate, its
 * common name if there is none, "plaintext:<peer>" without TLS. NUL-terminated. */
#define FLEET_ACTOR_CAP 256
void fleet_actor(const struct rpc_call *call, char actor[FLEET_ACTOR_CAP]);
#endif
