/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory as the engine reads it: cohorts, what they are made of, and the indexes over them.
 *
 * A cohort is all machines that are equal in planned state, cluster, look, shape, capacity type,
 * price, probability, stamp and promise; its members are in id order. Everything a rule asks of a
 * machine but its id is asked once per cohort.
 *
 *   word      a text that is shared               posting   a label and the looks that carry it
 *   cluster   its Configured and Configuring      look      what requirements are matched against
 *   key       (cluster, fingerprint, group)       shape     amounts
 *   family    (cluster, fingerprint): its keys    stamp     what a machine was bought for
 *   origin    host's provider, last error         promise   the Need it is drained for
 *
 * All are shared, counted, and gone with their last user, so that churn leaves nothing behind. The
 * engine may read all of it and change none of it; pointers are valid until the next change, and
 * (slot, birth) is the identity of an object: a slot alone is used again. */
#ifndef SHARD_STATE_COHORT_H
#define SHARD_STATE_COHORT_H
#include "base/order.h"
#include "model/machine.h"
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

struct bag_item { /* with what a walk asks first, so that most cohorts need not be fetched */
    struct cohort *cohort;
    uint32_t look, shape, key; /* their slots; key: it was bought for it, SLOT_NONE: for none */
    uint32_t state;            /* enum machine_state */
};
struct bag { /* cohorts in no order; a cohort knows its place */
    struct bag_item *at;
    uint32_t count, cap;
};

/* The cohorts of one cluster and state, apart by instance type: most requirements name types, and
 * then most of a cluster need not be walked. */
struct type_bag {
    uint32_t type;    /* slot of the posting; SLOT_NONE: no type */
    uint64_t version; /* another one, never seen before, when a cohort comes or goes */
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
    struct bag others;                      /* bound to it in any other state */
    uint32_t machines[MACHINE_STATE_COUNT]; /* by planned state */
    char text[];
};
static inline struct str cluster_text(const struct cohort_cluster *c) /* NULL: none */
{
    return c ? str_of(c->text, c->len) : STR_EMPTY;
}

struct key {
    struct table_link link;
    struct family *family;
    struct word *group; /* NULL: none */
    /* Its own: Configured, Configuring and Creating; and Draining ones promised to it. Few, so they
     * have their state with them and are in one bag. */
    struct bag cohorts;
    uint32_t slot, place; /* place: in its family */
    uint64_t birth;
    uint64_t version; /* grows with every machine that becomes or ceases to be its own */
};
struct family {
    struct table_link link; /* counted by its keys */
    struct cohort_cluster *cluster;
    struct word *fingerprint;
    struct key **keys;
    uint32_t count, cap, slot;
    uint64_t birth;
    uint64_t version; /* grows with the version of any of its keys, and when one comes or goes */
};

struct stamp { /* all of machine_stamp, shared */
    struct table_link link;
    struct word *fingerprint, *group; /* NULL: empty */
    double interruption_dollars, reclamation_dollars;
    int32_t priority;
};
struct promise {
    struct table_link link;
    struct key *key;
    wall_time at;
    /* Of Idle machines, else 0: so a shield ends for all of a cohort at once. */
    uint64_t idle_since_ms;
    int32_t priority;
};
struct machine_shape {
    struct table_link link;
    struct resources resources, allocatable;
    const struct resources *alloc; /* the one of the two that counts */
    uint64_t positive;             /* dimensions of alloc that are above zero */
    uint32_t slot;
};

struct origin { /* what nobody decides by, and few machines differ in */
    struct table_link link;
    struct word *host_provider, *last_error; /* NULL: empty */
    uint32_t slot;
};

struct posting { /* an attribute: key and value */
    struct table_link link;
    struct word *key;
    uint32_t *looks; /* slots of those that carry it, in no order */
    uint32_t count, cap, slot, value_len;
    char value[];
};
static inline struct str posting_value(const struct posting *p)
{
    return str_of(p->value, p->value_len);
}
enum { LOOK_TYPE, LOOK_ZONE, LOOK_LABELS }; /* the first two attributes, then labels by key */
/* The states in which a whole shard's machines are looked for by look. */
enum pool_state { POOL_IDLE, POOL_SPECULATIVE, POOL_COUNT };
struct look {
    struct table_link link;
    uint32_t slot, attribute_count; /* at least LOOK_LABELS */
    struct bag pools[POOL_COUNT];
    struct posting *postings[]; /* of each attribute, NULL: none; then, of each, its place */
};
#define LOOK_HIDDEN UINT32_MAX /* the place of a label that type or zone hide */
static inline uint32_t *look_places(const struct look *look) /* in the lists of its postings */
{
    return (uint32_t *)(look->postings + look->attribute_count);
}

/* What most questions about a look come down to, so that it need not be fetched. Where every
 * machine has a look of its own that is most of what matching costs. */
struct look_brief {
    uint64_t marks;      /* of all it carries: what has no mark here it does not carry */
    uint32_t type, zone; /* slots of the postings under these names; SLOT_NONE: it has none */
};
static inline uint64_t posting_mark(const struct posting *p) /* one of 64 */
{
    return (uint64_t)1 << (p->slot * 2654435761u >> 26);
}

/* An instance type and a shape that cohorts have together: few, so that "is there any machine of
 * these types that could hold this?" is mostly answered without a walk. */
struct outfit {
    struct table_link link; /* counted by cohorts */
    const struct machine_shape *shape;
    uint32_t type, slot; /* type: slot of the posting; SLOT_NONE */
};

struct machine_row {
    struct table_link link; /* refs: the last List that named it; 0: none yet */
    uint64_t idle_since_ms;
    uint32_t cohort; /* slot: where it counts, as planned */
    uint32_t actual; /* slot: what it really is; the same when nothing is planned */
    uint32_t origin; /* slot; SLOT_NONE: nothing */
    uint8_t id_len, host_ref_len, planned;
    uint8_t room; /* bytes for a host_ref behind the id */
    char id[];    /* and the host_ref */
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

struct traits { /* -0 is 0; no padding but behind the last: cohorts are compared by the bytes */
    struct cohort_cluster *cluster; /* bound to; Creating: created for; NULL: none */
    struct look *look;
    struct machine_shape *shape;
    struct stamp *stamp;     /* NULL: never bought for anything */
    struct promise *promise; /* NULL: none */
    double price, probability;
    uint8_t state;         /* enum machine_state */
    uint8_t capacity_type; /* enum capacity_type */
};
/* The cluster it is bound to; NULL: none. */
static inline struct cohort_cluster *traits_bound(const struct traits *t)
{
    return t->state == MACHINE_CREATING ? NULL : t->cluster;
}
/* By state a cohort is in a bag of its look or of a key, never in both. */
enum cohort_bag { BAG_CLUSTER, BAG_LOOK, BAG_KEY, BAG_COUNT };
enum { PLACE_CLUSTER, PLACE_LOOK_OR_KEY, PLACE_COUNT };
enum members_form { MEMBERS_ONE, MEMBERS_FEW, MEMBERS_MANY };
struct cohort {
    struct table_link link; /* refs: its members, and rows whose real state it is while planned */
    struct traits traits;
    uint32_t places[PLACE_COUNT]; /* in its bags */
    uint32_t slot, count;         /* count: members; may be 0 while a plan holds it */
    uint64_t birth;
    union {
        struct machine_row *one; /* NULL: none at all */
        struct machine_row **few;
        struct order *many;
    } members;
    uint32_t own; /* slot of the key its machines were bought for; SLOT_NONE: none */
    uint8_t members_form, few_cap;
};
static inline double cohort_reclamation_dollars(const struct cohort *c)
{
    return c->traits.stamp ? c->traits.stamp->reclamation_dollars : 0;
}

/* A machine came to a cohort or left it that is a cluster's (Configured, Configuring, Creating for
 * it) or somebody's own; or a key came or went, or an Idle machine that is kept for it did. With
 * all that an engine asks of the cohort, because it may be gone by then. An engine that has read up
 * to number `changes` asks only after what changed since; one that was away for longer than the
 * ring is long asks after all. */
struct cohort_change {
    uint32_t key, family;   /* slots of what it was bought for; SLOT_NONE: nothing */
    uint32_t cohort, birth; /* birth: its lower half; cohort SLOT_NONE: of the key only */
    uint32_t cluster;       /* its slot; SLOT_NONE: none */
    float less_dollars;     /* what keep order looks at: the price, then the dollars negated */
    double price;
    uint8_t type;  /* type_bit() */
    uint8_t state; /* enum machine_state */
    int8_t by;     /* 1: came, -1: left */
};
struct inventory;
struct cohort_change cohort_change_of(const struct inventory *inv, const struct cohort *cohort);
enum { CHANGES_KEPT = 1 << 14 };
/* Instance types as a set of 64 bits, where several may share one: the bit of a type is known before
 * there is a machine of it. No type at all has every bit. */
enum { TYPE_BIT_ANY = 64 };
static inline uint8_t type_bit(struct str type)
{
    return (uint8_t)(str_hash(type, 0) % 64);
}
static inline uint64_t type_bits(uint8_t bit)
{
    return bit == TYPE_BIT_ANY ? UINT64_MAX : (uint64_t)1 << bit;
}

struct member_place { /* a walk over members in id order */
    struct machine_row *const *few;
    uint32_t few_left;
    struct order_place many;
};
struct member_place cohort_begin(const struct cohort *c);
struct machine_row *cohort_next(struct member_place *place); /* NULL at the end */

struct inventory {
    struct inventory_options options;
    uint64_t bytes, births;
    uint64_t label_bytes; /* of looks and postings; not in `bytes` */
    struct table rows, words, origins, clusters, keys, families, stamps, promises, shapes, postings,
        looks, cohorts, outfits;
    struct rooms origin_slots, cluster_slots, key_slots, family_slots, posting_slots, look_slots,
        shape_slots, cohort_slots, outfit_slots;
    struct order_kind members_kind;
    struct inventory_counts counts;
    /* Creating ones without a destination and Draining ones without a promise: what a shard that
     * began anew finds under way and knows no purpose of, and what is simply let go. */
    struct bag nobodys;
    uint32_t list, listed; /* number of the List under way; machines it has named */
    /* listing.c: machines in the order of the last full List, and of the one under way. */
    struct list_order {
        struct machine_row **at;
        uint32_t count, cap;
    } order, order_next;
    uint32_t order_cursor; /* the record that is next, if it is as last time; SLOT_NONE: a delta */
    /* Rows that are no machine's any more and may be in an order: since before the List under
     * way began, and since then. Linked through their table link; their cohort is SLOT_NONE. */
    struct table_link *dead_before, *dead;
    uint32_t dead_count;
    uint64_t keys_born; /* grows when a key or family appears: a miss remembered is then stale */
    uint64_t looks_version;                     /* grows when a look appears or goes */
    uint64_t changes;                           /* so many so far */
    struct cohort_change changed[CHANGES_KEPT]; /* by number of the change: a ring */
    struct look_brief *look_briefs;             /* by slot of the look */
    uint32_t look_briefs_cap;
};

struct machine_row *inventory_row(const struct inventory *inventory, struct str id); /* or NULL */
static inline struct cohort *row_cohort(const struct inventory *inv, const struct machine_row *r)
{
    return rooms_held(&inv->cohort_slots, r->cohort);
}
static inline struct cohort *row_actual(const struct inventory *inv, const struct machine_row *r)
{
    return rooms_held(&inv->cohort_slots, r->actual);
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

/* The which-th of the looks that carry it. */
static inline struct look *posting_look(const struct inventory *inv, const struct posting *p,
                                        uint32_t which)
{
    return rooms_held(&inv->look_slots, p->looks[which]);
}
/* The attribute of a look under `key`, or NULL: type and zone first, then labels. */
const struct posting *look_find(const struct look *look, struct str key);
#endif
