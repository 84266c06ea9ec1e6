/* SPDX-License-Identifier: Apache-2.0 */
/* What the shard's core wants done in the world, in the order it wants it.
 *
 * The core does nothing itself: it appends effects, and the driver (src/shard) carries them out in
 * order on the loop's thread and reports to the core how each ended. Everything an effect points to
 * is in the arena of its list, so that a list can pass from the decide thread to the loop
 * whole, and freed whole. */
#ifndef SHARD_CORE_EFFECTS_H
#define SHARD_CORE_EFFECTS_H
#include "base/arena.h"
#include "model/machine.h"
#include "model/profile.h"
#include "shard/decide/decide.h"

/* How an action ended; the names are the metric's and the audit's. */
enum action_outcome {
    OUTCOME_SUCCESS,
    OUTCOME_CTX_CANCELED, /* a deadline passed: it is unknown what was done, Get is next */
    OUTCOME_FENCED,       /* nothing was done: Get is next */
    OUTCOME_NO_SESSION,
    OUTCOME_RACED_TO_IDLE, /* "transition_raced_to_idle" */
    OUTCOME_TRANSITION_ERROR,
    OUTCOME_BLOB_ERROR,
    OUTCOME_PROVIDER_ERROR,
    OUTCOME_STALE_STATE,
    OUTCOME_INVENTORY_MISS,
    OUTCOME_MISSING_PROFILE,
    OUTCOME_OTHER,
    OUTCOME_SUPPRESSED, /* the kill switch, or fenced; only in the audit */
    OUTCOME_DRYRUN,     /* shadow mode; only in the audit */
    OUTCOME_COUNT
};
const char *action_outcome_name(enum action_outcome outcome);

enum effect_kind {
    /* Provider calls of an action. Each is answered by core_answered() exactly once. */
    EFFECT_CREATE,
    EFFECT_CONFIGURE, /* with the blob that was fetched for this action */
    EFFECT_DRAIN,
    EFFECT_DELETE,
    EFFECT_GET, /* of no action: the answer goes to core_got() */
    /* To an operator. */
    EFFECT_ASK_BLOB,   /* answered by core_blob() exactly once, also when there is no session */
    EFFECT_RECLAIM,    /* fire and forget */
    EFFECT_NODE_STATE, /* coalesced by machine */
    EFFECT_CAPACITY,   /* coalesced by fingerprint */
    /* To people. */
    EFFECT_AUDIT,
    EFFECT_LOG,
    EFFECT_OBSERVE,    /* a duration for a histogram */
    EFFECT_CYCLE_SOON, /* something was held back or dropped and may go now */
};

/* shard.md 18, without their prefix */
enum core_histogram {
    OBSERVE_PROVISIONING_LATENCY, /* provisioning_latency_seconds */
    OBSERVE_CONFIGURE,            /* configure_phase_seconds */
    OBSERVE_BLOB,                 /* request_bootstrap_seconds */
    OBSERVE_DRAIN,                /* drain_phase_seconds */
    OBSERVE_COUNT
};

/* AvailableCapacityUpdate: how sure we are that asking gives machines. The wire's numbers. */
enum confidence {
    CONFIDENCE_NONE = 1,
    CONFIDENCE_LOW = 2,
    CONFIDENCE_MEDIUM = 3,
    CONFIDENCE_HIGH = 4
};

struct capacity_offer {
    const struct profile *profile;
    uint32_t count;
    enum confidence confidence;
    double cost_per_hour; /* 0: not known */
};

enum core_level { CORE_INFO, CORE_WARN, CORE_ERROR };

struct effect {
    enum effect_kind kind;
    uint64_t action;     /* which action it belongs to; 0: none */
    struct str machine;  /* id */
    struct str cluster;  /* whose operator, or the cluster of Configure */
    uint64_t timeout_ms; /* of provider calls and of ASK_BLOB */
    struct str frame;    /* NODE_STATE: as it is sent; the driver's, in the list's arena */
    union {
        struct { /* CONFIGURE: shard_metadata, sorted by key */
            const struct label *metadata;
            size_t metadata_count;
        } configure;
        struct { /* DRAIN, RECLAIM */
            uint64_t grace_ms;
            int32_t preemptor_priority; /* 0: voluntary */
        } drain;
        const struct profile *profile; /* ASK_BLOB: its requirements, in canonical order */
        const struct machine *node;    /* NODE_STATE: as it is now */
        struct capacity_offer capacity;
        struct { /* AUDIT */
            uint64_t cycle;
            enum action_kind kind;
            enum action_outcome outcome;
            uint64_t grace_ms;
            const char *reason; /* "phase1.idle"; static */
            struct str error;   /* why it failed; empty when it did not */
        } audit;
        struct { /* LOG: the texts of shard.md 20, so that alerts find them */
            enum core_level level;
            const char *text;   /* static */
            struct str details; /* "key=value key=value" */
        } log;
        struct { /* OBSERVE */
            enum core_histogram histogram;
            double seconds;
        } observe;
    };
};

struct effects { /* zeroed and effects_init'ed by its owner */
    struct arena arena;
    struct effect *items;
    size_t count, capacity;
    /* What was copied last: most effects of a list are about machines that look alike, bought for
     * the same Needs. */
    struct effects_labels {
        const struct label *at;
        size_t count;
    } labels[2]; /* of a machine, and of a Configure */
    unsigned labels_next;
    const struct profile *profile;
};
void effects_init(struct effects *effects);
void effects_deinit(struct effects *effects);
/* Room for one more, zeroed but for its kind; NULL when out of memory. */
struct effect *effects_add(struct effects *effects, enum effect_kind kind);
void effect_check(const struct effect *effect); /* asserts that it has all that its kind needs */

/* Copies a text to *at, where there is room for it, and moves *at behind it. */
static inline struct str text_put(char **at, struct str text)
{
    struct str copy = str_of(*at, text.len);

    if (text.len) memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}
bool labels_equal(const struct label *a, size_t a_count, const struct label *b, size_t b_count);
enum err text_copy(struct arena *arena, struct str text, struct str *ret_text); /* ERR_NOMEM */
/* A copy of labels and their texts. ERR_NOMEM. */
enum err labels_copy(struct arena *arena, const struct label *labels, size_t count,
                     struct label **ret_copy);

/* Copies that live as long as the list; make them before the effect that shows them. ERR_NOMEM. */
enum err effects_labels(struct effects *effects, const struct label *labels, size_t count,
                        const struct label **ret_labels);
const struct machine *effects_machine(struct effects *effects, const struct machine *machine);
const struct profile *effects_profile(struct effects *effects, const struct profile *profile);

/* A duration; one that finds no memory is let go. */
void effects_observe(struct effects *effects, enum core_histogram histogram, mono_time since,
                     mono_time now);
#endif
