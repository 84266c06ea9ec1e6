/* SPDX-License-Identifier: Apache-2.0 */
/* Effects: what the shard's core (core.h) asks its driver (src/shard) to do.
 *
 * The core appends effects to a list. The driver executes them in order on the loop's thread and
 * reports each result to the core. The list's arena owns everything that an effect points to, so a
 * list can be passed to another thread and freed as a whole. */
#ifndef SHARD_CORE_EFFECTS_H
#define SHARD_CORE_EFFECTS_H
#include "base/arena.h"
#include "model/machine.h"
#include "model/profile.h"
#include "shard/decide/decide.h"

/* The names are those of the metric and the audit log. */
enum action_outcome {
    OUTCOME_SUCCESS,
    OUTCOME_CTX_CANCELED, /* no answer in time; the outcome is unknown, and a Get follows */
    OUTCOME_FENCED,       /* not executed; a Get follows */
    OUTCOME_NO_SESSION,
    OUTCOME_RACED_TO_IDLE, /* in metrics: "transition_raced_to_idle" */
    OUTCOME_TRANSITION_ERROR,
    OUTCOME_BLOB_ERROR,
    OUTCOME_PROVIDER_ERROR,
    OUTCOME_STALE_STATE,
    OUTCOME_INVENTORY_MISS,
    OUTCOME_MISSING_PROFILE,
    OUTCOME_OTHER,
    OUTCOME_SUPPRESSED, /* by the kill switch or a newer process; only in the audit log */
    OUTCOME_DRYRUN,     /* shadow mode; only in the audit log */
    OUTCOME_COUNT
};
const char *action_outcome_name(enum action_outcome outcome);

enum effect_kind {
    /* Provider calls. Each is answered by core_answered() exactly once. */
    EFFECT_CREATE,
    EFFECT_CONFIGURE, /* sent with the blob of this action */
    EFFECT_DRAIN,
    EFFECT_DELETE,
    EFFECT_GET, /* belongs to no action; answered by core_got() */
    /* Messages to an operator. */
    EFFECT_ASK_BLOB, /* answered by core_blob() exactly once, even without a session */
    EFFECT_RECLAIM,
    EFFECT_NODE_STATE,  /* replaces a waiting NODE_STATE of the same machine */
    EFFECT_CAPACITY,    /* replaces a waiting CAPACITY of the same fingerprint */
    EFFECT_NEED_STATUS, /* replaces a waiting NEED_STATUS of the same Need */
    /* For people. */
    EFFECT_AUDIT,
    EFFECT_LOG,
    EFFECT_OBSERVE,
    EFFECT_CYCLE_SOON, /* requests an early cycle, because held or dropped work may now proceed */
};

/* Histograms of shard.md, section 18, without their prefix. */
enum core_histogram {
    OBSERVE_PROVISIONING_LATENCY, /* provisioning_latency_seconds */
    OBSERVE_CONFIGURE,            /* configure_phase_seconds */
    OBSERVE_BLOB,                 /* request_bootstrap_seconds */
    OBSERVE_DRAIN,                /* drain_phase_seconds */
    OBSERVE_COUNT
};

/* The numbers are those of AvailableCapacityUpdate. */
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
    double cost_per_hour; /* 0: unknown */
};

/* What a Need got in the last cycle. All zero: the Need has no verdict of its own any more. */
struct need_status {
    struct str fingerprint, group;
    bool satisfied;
    uint32_t ready, coming, lacking; /* machines, machines, units */
    enum verdict_reason reason;
    wall_time since; /* when `satisfied` changed */
};

enum core_level { CORE_INFO, CORE_WARN, CORE_ERROR };

struct effect {
    enum effect_kind kind;
    uint64_t action;     /* 0: none */
    struct str machine;  /* machine id */
    struct str cluster;  /* the operator's cluster, or the cluster of Configure */
    uint64_t timeout_ms; /* provider calls and ASK_BLOB */
    struct str frame;    /* NODE_STATE: the encoded frame, in the list's arena */
    union {
        struct { /* CONFIGURE; the metadata is shard_metadata, sorted by key */
            const struct label *metadata;
            size_t metadata_count;
        } configure;
        struct { /* fields of DRAIN and RECLAIM */
            uint64_t grace_ms;
            int32_t preemptor_priority; /* 0: a Reclaim */
        } drain;
        const struct profile *profile; /* ASK_BLOB */
        const struct machine *node;    /* NODE_STATE */
        struct capacity_offer capacity;
        struct need_status status; /* NEED_STATUS */
        struct {                   /* fields of AUDIT */
            uint64_t cycle;
            enum action_kind kind;
            enum action_outcome outcome;
            uint64_t grace_ms;
            const char *reason; /* for example "phase1.idle"; static */
            struct str error;   /* empty on success */
        } audit;
        struct { /* LOG: the texts of shard.md, section 20; alerts search for them */
            enum core_level level;
            const char *text;   /* static text */
            struct str details; /* "key=value key=value" */
        } log;
        struct { /* fields of OBSERVE */
            enum core_histogram histogram;
            double seconds;
        } observe;
    };
};

struct effects { /* the owner zeroes the struct and calls effects_init() */
    struct arena arena;
    struct effect *items;
    size_t count, capacity;
    /* The labels and the profile that were copied last. Later effects share these copies. */
    struct effects_labels {
        const struct label *at;
        size_t count;
    } labels[2];
    unsigned labels_next;
    const struct profile *profile;
};
void effects_init(struct effects *effects);
void effects_deinit(struct effects *effects);
/* The effect is zero except for its kind. NULL: out of memory. */
struct effect *effects_add(struct effects *effects, enum effect_kind kind);
void effect_check(const struct effect *effect); /* asserts that all fields of its kind are set */

/* Copies the text to *at, which must have room, and moves *at behind the copy. */
static inline struct str text_put(char **at, struct str text)
{
    struct str copy = str_of(*at, text.len);

    if (text.len) memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}
bool labels_equal(const struct label *a, size_t a_count, const struct label *b, size_t b_count);
enum err text_copy(struct arena *arena, struct str text, struct str *ret_text); /* ERR_NOMEM */
/* ERR_NOMEM. */
enum err labels_copy(struct arena *arena, const struct label *labels, size_t count,
                     struct label **ret_copy);

/* Return copies that live as long as the list. Call before adding the effect that uses them.
 * ERR_NOMEM or NULL. */
enum err effects_labels(struct effects *effects, const struct label *labels, size_t count,
                        const struct label **ret_labels);
const struct machine *effects_machine(struct effects *effects, const struct machine *machine);
const struct profile *effects_profile(struct effects *effects, const struct profile *profile);

/* If memory runs out, the duration is dropped. */
void effects_observe(struct effects *effects, enum core_histogram histogram, mono_time since,
                     mono_time now);
#endif
