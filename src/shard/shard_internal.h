/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of the shard, one file for each task.
 *
 *   shard.c      open, close, start, stop
 *   cycle.c      starts cycles; List, decision, provider calls
 *   apply_effects.c    executes effects: messages to operators, audit, log
 *   audit.c      the audit log, for the sink and for people
 *   hold.c       stops acting: paused, or fenced by a newer process
 *   operators.c  events from operators, as jobs
 *   report.c     the coordinator's view: report, domains, term
 *   inspect.c    ShardRead, and ShardView: one machine
 *   machines.c   ShardView: lists of machines
 *   orders.c     ShardControl: cordons and drains, and their list
 *   status.c     ShardView: the last cycle, for people */
#ifndef SHARD_SHARD_INTERNAL_H
#define SHARD_SHARD_INTERNAL_H
#include "base/map.h"
#include "shard/decide_thread.h"
#include "shard/metrics.h"
#include "shard/read.h"
#include "shard/sessions.h"
#include "shard/shard.h"

struct cycles; /* defined in cycle.c */

struct provider_calls { /* state of apply_effects.c */
    struct map blobs;   /* blobs that wait for their Configure call, by action number */
    size_t blob_bytes, blob_bytes_max;
    uint64_t blobs_refused;
    size_t under_way;
};

enum { AUDIT_KEPT = 40 };
struct audit { /* state of audit.c */
    struct buf line;
    struct buf kept[AUDIT_KEPT]; /* ring of the newest lines */
    size_t written;
};

struct hold { /* part of struct shard, so that stopping needs no memory */
    struct decide_job job;
    enum core_hold why;
    bool begun;
};

/* -- status.c -- */
struct status_cycle {                    /* data of one cycle */
    double seconds, phases[PHASE_COUNT]; /* of the whole cycle, and of each phase */
    struct core_counts counts;
    struct buf inventory; /* encoded rows */
    bool left_out;
};
struct status {
    struct status_cycle last;
    wall_time at;
    mono_time wanted_until;
    struct buf answer, row;
};

struct shard {
    struct shard_options options;
    struct log_source log;
    struct io *io;
    char *id, *provider_address;
    struct decide_thread *decide_thread;
    struct sessions *sessions;
    struct inspections *inspections;
    struct shard_metrics *metrics;
    struct audit audit;
    struct status status;
    struct timer metrics_timer;
    struct cycles *cycles;
    struct provider_calls calls;
    struct hold holds[CORE_FENCED + 1];
    bool order_runs;        /* an operator's order is being checked, written or applied */
    bool cordons_owed;      /* the core has not received the cordons on disk */
    int64_t newest_epoch;   /* named in the provider's refusal; 0: none */
    uint32_t drain_reports; /* that wait for the decide thread */
    bool started, stopping;
    bool scope_owed;    /* the core has not received the domains on disk */
    size_t domain_next; /* first domain of the next report */
};

/* `to` has room for the bytes. An empty text may be NULL. */
static inline void put_text(char *to, struct str text)
{
    if (text.len) memcpy(to, text.at, text.len);
}

/* -- cycle.c -- */
enum err cycles_open(struct shard *shard);
void cycles_close(struct shard *shard);
void cycles_start(struct shard *shard);
void cycles_stop(struct shard *shard);
/* Runs one cycle soon, even if called repeatedly. */
void cycles_wake(struct shard *shard);
/* Makes the provider call of the effect. False: not possible now. */
bool call_provider(struct shard *shard, const struct effect *effect);

/* -- apply_effects.c -- */
void provider_calls_open(struct shard *shard);
void provider_calls_close(struct shard *shard);
void effect_prepare(struct effect *effect, struct decide_context *context, struct arena *arena);
bool effect_apply(void *owner, const struct effect *effect);
size_t blob_bytes(const struct shard *shard); /* here and in the provider's client */
/* Returns the blob of the action; empty: none is kept here. */
struct str blob_kept(const struct shard *shard, uint64_t action);
void blob_drop(struct shard *shard, uint64_t action);
/* Callback for sessions_events.on_blob. */
void blob_answered(void *owner, struct session_blob *request, enum blob_end end,
                   struct str content);

/* -- audit.c -- */
void audit_open(struct audit *audit);
void audit_close(struct audit *audit);
/* `effect` is an EFFECT_AUDIT */
void audit_write(struct shard *shard, const struct effect *effect);
/* The newest audit lines. Index 0 is the oldest of them. */
size_t audit_kept(const struct audit *audit);
struct str audit_line(const struct audit *audit, size_t index);

/* Writes the line of an operator's order. */
void audit_order(struct shard *shard, const struct cordon_entry *entry, uint32_t machines,
                 enum err err);

/* -- orders.c -- */
/* Gives the cordons on disk to core_open(). *own_rules must be freed. ERR_NOMEM. */
enum err orders_at_start(const struct shard *shard, struct core_options *options,
                         struct cordon_rule **own_rules);
void orders_owed(struct shard *shard);
extern const struct rpc_handler order_handler, cordons_handler;

/* -- machines.c -- */
extern const struct rpc_handler machines_handler;

/* -- hold.c -- */
bool shard_holds(const struct shard *shard);            /* the shard has stopped acting */
void hold_fenced(struct shard *shard, struct str text); /* `text`: the provider's error */

/* -- report.c -- */
/* Passes the shard's domains to the core. `written`: result of writing the file, ERR_OK or
 * ERR_UNKNOWN. `left`: a removed domain, or an empty key. ERR_BUSY: the core still acts on machines
 * of `left`. `done` may be NULL, and is not called after ERR_NOMEM. */
enum err report_scope(struct shard *shard, enum err written, const struct label *left,
                      shard_domain_fn *done, void *context);
void report_scope_owed(struct shard *shard);

/* -- inspect.c -- */
enum err inspect_open(struct shard *shard);
extern const struct rpc_handler machine_view_handler;

/* -- status.c -- */
void status_open(struct shard *shard);
void status_close(struct shard *shard);
extern const struct rpc_handler status_handler;
bool status_wanted(const struct shard *shard); /* a client recently asked for the status */
/* Writes the inventory into the zeroed `ret_cycle`. Decide thread. */
void status_look(struct decide_context *context, bool wanted, struct arena *arena,
                 struct status_cycle *ret_cycle);
/* Takes ownership of the contents of `own_cycle`. Loop's thread. */
void status_take(struct shard *shard, struct status_cycle *own_cycle);

/* -- rests.c -- */
/* Writes the page /rests on the decide thread. ERR_NOMEM, ERR_FULL: nothing is appended. */
enum { RESTS_BYTES_MAX = 4 << 20 };
const char *resting_why_name(enum resting_why why);
enum err rests_write(struct core *core, mono_time now, struct arena *arena, struct buf *into);

/* -- operators.c -- */
extern const struct sessions_events operators_events;
#endif
