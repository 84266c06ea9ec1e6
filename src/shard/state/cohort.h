/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory as the decision engine reads it. A cohort contains all machines with equal planned
 * state, cluster, look, shape, capacity type, price, probability, stamp, promise and occupancy, in id
 * order.
 *
 *   word      a text that is shared               posting   a label and the looks that carry it
 *   cluster   its Configured and Configuring      look      instance type, zone and labels
 *             machines
 *   key       (cluster, fingerprint, group)       shape     amounts
 *   family    (cluster, fingerprint): its keys    stamp     what a machine was bought for
 *   origin    host's provider, last error         promise   the Need a machine is drained for
 *
 * All of these are shared and reference-counted. Pointers are valid until the next change. Slots
 * are reused, so only (slot, birth) identifies an object. */
#ifndef SHARD_STATE_COHORT_H
#define SHARD_STATE_COHORT_H
#include <math.h>

#include "base/order.h"
#include "model/machine.h"
#include "model/penalty.h"
#include "shard/state/inventory.h"
#include "shard/state/table.h"

#define SLOT_NONE UINT32_MAX

struct word {
    struct table_link link;
    uint32_t len;
    char text[];
};
static inline struct str word_text(const struct word *w) /* NULL: the empty text */
{
    return w ? str_of(w->text, w->len) : STR_EMPTY;
}

struct bag_item { /* fields that searches test before they read the cohort */
    struct cohort *cohort;
    uint32_t look, shape, key; /* slots; key: what the cohort was bought for; SLOT_NONE: nothing */
    uint32_t state;            /* enum machine_state */
};
struct bag { /* cohorts in no order; each cohort stores its index in the bag */
    struct bag_item *at;
    uint32_t count, cap;
};

/* The cohorts of one cluster, state and instance type. Most requirements name instance types, so a
 * search skips most cohorts. */
struct type_bag {
    uint32_t type;    /* slot of the type's posting; SLOT_NONE: no instance type */
    uint64_t version; /* changes when a cohort is added or removed */
    struct bag bag;
};
struct type_bags {
    struct type_bag *at;
    uint32_t count, cap;
};

struct cohort_cluster {
    struct table_link link;
    uint32_t slot, len;
    struct type_bags configured, configuring;
    struct bag others;                      /* cohorts of the cluster in any other state */
    uint32_t machines[MACHINE_STATE_COUNT]; /* indexed by planned state */
    char text[];
};
static inline struct str cluster_text(const struct cohort_cluster *c) /* NULL: the empty text */
{
    return c ? str_of(c->text, c->len) : STR_EMPTY;
}

struct key {
    struct table_link link;
    struct family *family;
    struct word *group; /* NULL: no group */
    /* The key's own machines: Configured, Configuring, Creating, and Draining with a promise to the
     * key. */
    struct bag cohorts;
    uint32_t slot, place; /* place: index in family->keys */
    uint64_t birth;
    uint64_t version; /* grows when a machine joins or leaves `cohorts` */
};
struct family {
    struct table_link link; /* referenced by the family's keys */
    struct cohort_cluster *cluster;
    struct word *fingerprint;
    struct key **keys;
    uint32_t count, cap, slot;
    uint64_t birth;
    uint64_t version; /* grows when a key is added, removed or gets a new version */
};

struct stamp { /* a machine_stamp, shared */
    struct table_link link;
    struct word *fingerprint, *group; /* NULL: empty */
    double interruption_dollars, reclamation_dollars;
    int32_t priority;
};
struct promise {
    struct table_link link;
    struct key *key;
    wall_time at;
    /* When the machines became Idle; 0: they are not Idle. */
    uint64_t idle_since_ms;
    int32_t priority;
};
struct machine_shape {
    struct table_link link;
    struct resources resources, allocatable;
    const struct resources *alloc; /* resources or allocatable, whichever counts */
    uint64_t positive;             /* bit set of dimensions above zero */
    uint32_t slot;
};

struct origin { /* data that no decision uses and that few machines have */
    struct table_link link;
    struct word *host_provider, *last_error; /* NULL: empty */
    uint32_t slot;
};

struct posting { /* an attribute: key and value */
    struct table_link link;
    struct word *key;
    uint32_t *looks; /* slots of the looks with this attribute, in no order */
    uint32_t count, cap, slot, value_len;
    char value[];
};
static inline struct str posting_value(const struct posting *p)
{
    return str_of(p->value, p->value_len);
}
enum { LOOK_TYPE, LOOK_ZONE, LOOK_LABELS }; /* attribute indexes; labels follow, sorted by key */
/* States in which machines are searched by look. */
enum pool_state { POOL_IDLE, POOL_SPECULATIVE, POOL_COUNT };
struct look {
    struct table_link link;
    uint32_t slot, attribute_count; /* at least LOOK_LABELS */
    struct bag pools[POOL_COUNT];
    struct posting *postings[]; /* one per attribute, or NULL; the look_places() follow in memory */
};
#define LOOK_HIDDEN UINT32_MAX /* in look_places(): the type or zone hides this label */
/* Indexes of the look in the `looks` of its postings. */
static inline uint32_t *look_places(const struct look *look)
{
    return (uint32_t *)(look->postings + look->attribute_count);
}

/* The fields of a look that decide most matches, so that the look itself is rarely read. */
struct look_brief {
    uint64_t marks;      /* bits of all attributes; an attribute without its bit is absent */
    uint32_t type, zone; /* slots of the postings; SLOT_NONE: none */
};
static inline uint64_t posting_mark(const struct posting *p) /* one of 64 bits */
{
    return (uint64_t)1 << (p->slot * 2654435761u >> 26);
}

/* A combination of instance type and shape that some cohort has. The few outfits show quickly
 * whether any machine is large enough for a Need. */
struct outfit {
    struct table_link link; /* referenced by cohorts */
    const struct machine_shape *shape;
    uint32_t type, slot; /* type: slot of the type's posting; SLOT_NONE: none */
};

struct machine_row {
    struct table_link link; /* link.refs: number of the last List with the machine; 0: none */
    uint64_t idle_since_ms;
    uint32_t cohort; /* slot of the cohort of the planned state */
    uint32_t actual; /* slot of the cohort of the real state */
    uint32_t origin; /* slot; SLOT_NONE: none */
    uint8_t id_len, host_ref_len, planned;
    uint8_t room; /* bytes for a host_ref behind the id */
    char id[];    /* followed by the host_ref */
};
static_assert(ID_MAX <= UINT8_MAX, "machine_row keeps lengths of ids in a byte");
static_assert(offsetof(struct machine_row, id) == sizeof(struct machine_row), "no padding");
static inline struct str row_id(const struct machine_row *r)
{
    return str_of(r->id, r->id_len);
}
static inline struct str row_host_ref(const struct machine_row *r)
{
    return str_of(r->id + r->id_len, r->host_ref_len);
}

struct traits { /* Compared bytewise: -0 is stored as 0, and padding is only at the end. */
    struct cohort_cluster *cluster; /* has the machines, or gets them after their creation */
    struct look *look;
    struct machine_shape *shape;
    struct stamp *stamp;     /* NULL: never bought for a Need */
    struct promise *promise; /* NULL: none */
    double price, probability;
    uint8_t state;         /* enum machine_state */
    uint8_t capacity_type; /* enum capacity_type */
    uint8_t occupancy;     /* enum occupancy */
    uint8_t disruption;    /* penalty bucket of an evictable machine */
};
/* The cluster that the machines are bound to; NULL: none. */
static inline struct cohort_cluster *traits_bound(const struct traits *t)
{
    return t->state == MACHINE_CREATING ? NULL : t->cluster;
}
/* A cohort is in a bag of its look or of a key, never in both. */
enum cohort_bag { BAG_CLUSTER, BAG_LOOK, BAG_KEY, BAG_COUNT };
enum { PLACE_CLUSTER, PLACE_LOOK_OR_KEY, PLACE_COUNT };
enum members_form { MEMBERS_ONE, MEMBERS_FEW, MEMBERS_MANY };
struct cohort {
    struct table_link link; /* referenced by members, and by planned rows with this real state */
    struct traits traits;
    uint32_t places[PLACE_COUNT]; /* indexes of the cohort in its bags */
    uint32_t slot, count; /* count: members; may be 0 while planned rows refer to the cohort */
    uint64_t birth;
    union {
        struct machine_row *one; /* NULL: no member */
        struct machine_row **few;
        struct order *many;
    } members;
    uint32_t own; /* slot of the key that the machines were bought for; SLOT_NONE: none */
    uint8_t members_form, few_cap;
};
static inline int32_t cohort_stamped_priority(const struct cohort *c)
{
    return c->traits.stamp ? c->traits.stamp->priority : 0;
}
static inline double cohort_reclamation_dollars(const struct cohort *c)
{
    return c->traits.stamp ? c->traits.stamp->reclamation_dollars : 0;
}

/* The keep order (decision.md) sorts by two numbers, then by id. Held machines are before, and empty
 * machines behind all others. */
struct keep_rank {
    double first, second;
};
static inline struct keep_rank cohort_keep_rank(const struct cohort *c)
{
    const struct traits *t = &c->traits;

    switch ((enum occupancy)t->occupancy) {
    case OCCUPANCY_HELD: return (struct keep_rank){-HUGE_VAL, t->price};
    case OCCUPANCY_EMPTY: return (struct keep_rank){HUGE_VAL, t->price};
    case OCCUPANCY_EVICTABLE: return (struct keep_rank){t->price, -penalty_dollars(t->disruption)};
    case OCCUPANCY_UNKNOWN: break;
    }
    return (struct keep_rank){t->price, -cohort_reclamation_dollars(c)};
}

static inline int keep_rank_compare(struct keep_rank a, struct keep_rank b)
{
    if (a.first != b.first) return a.first < b.first ? -1 : 1;
    if (a.second != b.second) return a.second < b.second ? -1 : 1;
    return 0; /* ids are compared only when needed */
}

/* A change that can affect an engine's caches: a machine joined or left a cohort of a cluster or
 * key; a key appeared or disappeared; or an Idle machine was kept for a key or is no longer kept.
 * An engine that missed more than CHANGES_KEPT changes must assume that everything changed. */
struct cohort_change {
    uint32_t key, family;   /* slots of what the machine was bought for; SLOT_NONE: nothing */
    uint32_t cohort, birth; /* birth: lower half; cohort SLOT_NONE: only the key changed */
    uint32_t cluster;       /* SLOT_NONE: no cluster */
    float keep_second;      /* keep_rank, the second number rounded */
    double keep_first;
    uint8_t type;  /* type_bit() */
    uint8_t state; /* enum machine_state */
    int8_t by;     /* 1: joined, -1: left */
};
struct inventory;
struct cohort_change cohort_change_of(const struct inventory *inv, const struct cohort *cohort);
enum { CHANGES_KEPT = 1 << 14 };
/* A set of instance types in 64 bits. Several types may share a bit. "No instance type" sets every
 * bit. */
enum { TYPE_BIT_ANY = 64 };
static inline uint8_t type_bit(struct str type)
{
    return (uint8_t)(str_hash(type, 0) % 64);
}
static inline uint64_t type_bits(uint8_t bit)
{
    return bit == TYPE_BIT_ANY ? UINT64_MAX : (uint64_t)1 << bit;
}

struct member_place {
    struct machine_row *const *few;
    uint32_t few_left;
    struct order_place many;
};
struct member_place cohort_begin(const struct cohort *c);
struct machine_row *cohort_next(struct member_place *place); /* NULL at the end */

struct inventory {
    struct inventory_options options;
    uint64_t bytes, births;
    uint64_t label_bytes; /* of looks and postings; not part of `bytes` */
    struct table rows, words, origins, clusters, keys, families, stamps, promises, shapes, postings,
        looks, cohorts, outfits;
    struct slot_map origin_slots, cluster_slots, key_slots, family_slots, posting_slots, look_slots,
        shape_slots, cohort_slots, outfit_slots;
    struct order_kind members_kind;
    struct inventory_counts counts;
    /* Creating machines without a destination, and Draining machines without a promise. */
    struct bag nobodys;
    uint32_t list, listed; /* number of the current List; number of machines in it so far */
    /* Machines in the order of the last full List (order) and of the current one (order_next);
     * listing.c. */
    struct list_order {
        struct machine_row **at;
        uint32_t count, cap;
    } order, order_next;
    uint32_t order_cursor; /* index of the expected next record; SLOT_NONE: the List is a delta */
    /* Removed rows to which a List order may still refer: `dead_before` before the current List
     * began, `dead` since then. Linked by their table link. */
    struct table_link *dead_before, *dead;
    uint32_t dead_count;
    uint64_t keys_born;     /* grows with each new key or family, so that failed look-ups expire */
    uint64_t looks_version; /* grows when a look appears or disappears */
    uint64_t changes;       /* number of changes so far */
    struct cohort_change changed[CHANGES_KEPT]; /* a ring, indexed by change number */
    struct look_brief *look_briefs;             /* indexed by look slot */
    uint32_t look_briefs_cap;
};

/* NULL: no such machine */
struct machine_row *inventory_row(const struct inventory *inventory, struct str id);
static inline struct cohort *row_cohort(const struct inventory *inv, const struct machine_row *r)
{
    return slot_map_held(&inv->cohort_slots, r->cohort);
}
static inline struct cohort *row_actual(const struct inventory *inv, const struct machine_row *r)
{
    return slot_map_held(&inv->cohort_slots, r->actual);
}
const struct cohort_cluster *inventory_cluster(const struct inventory *inventory,
                                               struct str cluster);
const struct family *inventory_family(const struct inventory *inventory, struct str cluster,
                                      struct str fingerprint);
const struct key *inventory_key(const struct inventory *inventory, struct str cluster,
                                struct str fingerprint, struct str group);
const struct word *inventory_word(const struct inventory *inventory, struct str text);
const struct posting *inventory_posting(const struct inventory *inventory, struct str key,
                                        struct str value);

static inline struct look *posting_look(const struct inventory *inv, const struct posting *p,
                                        uint32_t which)
{
    return slot_map_held(&inv->look_slots, p->looks[which]);
}
/* Type and zone come before labels. NULL: no such attribute. */
const struct posting *look_find(const struct look *look, struct str key);
#endif
