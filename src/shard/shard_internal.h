/* SPDX-License-Identifier: Apache-2.0 */
/* The shard from the inside: one file for each neighbour.
 *
 *   shard.c      open, close, start, stop
 *   cycle.c      when a cycle begins, List, the decision, calls of the provider
 *   apply_effects.c    effects carried out: what operators are sent, audit, log
 *   audit.c      the audit, for the sink and for people
 *   hold.c       acting ends: paused, or fenced by a newer process
 *   operators.c  what operators say, as jobs
 *   report.c     the view: report, domains, term
 *   inspect.c    ShardRead, and ShardView: one machine
 *   status.c     ShardView: the last cycle, for people */
#ifndef SHARD_SHARD_INTERNAL_H
#define SHARD_SHARD_INTERNAL_H
#include "base/map.h"
#include "shard/decide_thread.h"
#include "shard/metrics.h"
#include "shard/read.h"
#include "shard/sessions.h"
#include "shard/shard.h"

struct cycles; /* cycle.c */

struct provider_calls { /* apply_effects.c */
    struct map blobs;   /* that wait for their Configure, by action */
    size_t blob_bytes, blob_bytes_max;
    uint64_t blobs_refused;
    size_t under_way;
};

enum { AUDIT_KEPT = 40 };
struct audit { /* audit.c */
    struct buf line;
    struct buf kept[AUDIT_KEPT]; /* the newest lines, a ring */
    size_t written;
};

struct hold { /* hold.c: made with the shard, so that it finds memory */
    struct decide_job job;
    enum core_hold why;
    bool begun;
};

/* -- status.c -- */
struct status_cycle {                    /* what a cycle leaves behind for it */
    double seconds, phases[PHASE_COUNT]; /* in seconds, too */
    struct core_counts counts;
    struct buf inventory; /* rows on the wire */
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
    int64_t newest_epoch;   /* fenced: as the provider named it; 0: it named none */
    uint32_t drain_reports; /* that wait for the decide thread */
    bool started, stopping;
    bool scope_owed;    /* the core does not have the domains that are on disk */
    size_t domain_next; /* the domain with which the next report begins */
};

/* Copies the bytes to where there is room for them; of an empty text, which may be NULL, none. */
static inline void put_text(char *to, struct str text)
{
    if (text.len) memcpy(to, text.at, text.len);
}

/* -- cycle.c -- */
enum err cycles_open(struct shard *shard);
void cycles_close(struct shard *shard);
void cycles_start(struct shard *shard);
void cycles_stop(struct shard *shard);
/* Demand changed, or something was held back: one cycle soon, however often it is asked for. */
void cycles_wake(struct shard *shard);
/* Makes the call of an effect. False: it cannot be made now. */
bool call_provider(struct shard *shard, const struct effect *effect);

/* -- apply_effects.c -- */
void provider_calls_open(struct shard *shard);
void provider_calls_close(struct shard *shard);
/* As decide_thread_options wants them; the owner is the shard. */
void effect_prepare(struct effect *effect, struct decide_context *context, struct arena *arena);
bool effect_apply(void *owner, const struct effect *effect);
size_t blob_bytes(const struct shard *shard); /* held, and in the provider's client */
/* The blob that waits for the Configure of this action; empty: none. */
struct str blob_kept(const struct shard *shard, uint64_t action);
void blob_drop(struct shard *shard, uint64_t action);
/* As sessions_events.on_blob wants it. */
void blob_answered(void *owner, struct session_blob *request, enum blob_end end,
                   struct str content);

/* -- audit.c -- */
void audit_open(struct audit *audit);
void audit_close(struct audit *audit);
void audit_write(struct shard *shard, const struct effect *effect); /* of kind EFFECT_AUDIT */
/* The newest lines, whether or not there is a sink: how many, and one of them, 0 the oldest. */
size_t audit_kept(const struct audit *audit);
struct str audit_line(const struct audit *audit, size_t index);

/* -- hold.c -- */
bool shard_holds(const struct shard *shard);            /* acting has ended */
void hold_fenced(struct shard *shard, struct str text); /* a provider's answer */

/* -- report.c -- */
/* Gives the core the domains of this shard. `written`: how their file was, ERR_OK or ERR_UNKNOWN;
 * `left`: the domain that was taken away, done when no machine there serves; its key empty: none.
 * `done` may be NULL. ERR_NOMEM: then it never comes. */
enum err report_scope(struct shard *shard, enum err written, const struct label *left,
                      shard_domain_fn *done, void *context);
void report_scope_owed(struct shard *shard); /* tries it again, if it is owed */

/* -- inspect.c -- */
enum err inspect_open(struct shard *shard);
extern const struct rpc_handler machine_view_handler;

/* -- status.c -- */
void status_open(struct shard *shard);
void status_close(struct shard *shard);
extern const struct rpc_handler status_handler;
bool status_wanted(const struct shard *shard); /* somebody asked not long ago */
/* On the decide thread: writes the inventory into a zeroed one. */
void status_look(struct decide_context *context, bool wanted, struct arena *arena,
                 struct status_cycle *ret_cycle);
/* On the loop: takes over what `own_cycle` holds. */
void status_take(struct shard *shard, struct status_cycle *own_cycle);

/* -- rests.c -- */
/* On the decide thread: the page /rests, as shard_options.on_rests has it. ERR_NOMEM, ERR_FULL:
 * nothing is appended. */
enum { RESTS_BYTES_MAX = 4 << 20 };
const char *resting_why_name(enum resting_why why);
enum err rests_write(struct core *core, mono_time now, struct arena *arena, struct buf *into);

/* -- operators.c -- */
extern const struct sessions_events operators_events;
#endif
