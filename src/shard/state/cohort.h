/* SPDX-License-Identifier: Apache-2.0 */
/* The inventory as the decision engine reads it: cohorts, their shared objects, and indexes.
 *
 * A cohort contains all machines that are equal in planned state, cluster, look, shape, capacity
 * type, price, probability, stamp and promise. Its members are in id order. Rules test a whole
 * cohort at once; only the id is tested per machine.
 *
 *   word      a text that is shared               posting   a label and the looks that carry it
 *   cluster   its Configured and Configuring      look      what requirements are matched against
 *             machines
 *   key       (cluster, fingerprint, group)       shape     amounts
 *   family    (cluster, fingerprint): its keys    stamp     what a machine was bought for
 *   origin    host's provider, last error         promise   the Need a machine is drained for
 *
 * All of these are shared and reference-counted. They are freed with their last user, so that churn
 * does not leak memory. The engine reads them and changes nothing. Pointers are valid until the
 * next change. (slot, birth) identifies an object; a slot alone is reused. */
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

struct bag_item { /* fields that searches test first, so that they read few cohorts */
    struct cohort *cohort;
    uint32_t look, shape, key; /* slots; `key` is what the cohort was bought for, or SLOT_NONE */
    uint32_t state;            /* enum machine_state */
};
struct bag { /* cohorts in no order; each cohort stores its index in the bag */
    struct bag_item *at;
    uint32_t count, cap;
};

/* The cohorts of one cluster and state, by instance type. Most requirements name instance types, so
 * a search skips most of a cluster's cohorts. */
struct type_bag {
    uint32_t type;    /* slot of the type's posting; SLOT_NONE: no instance type */
    uint64_t version; /* gets a new, unused value when a cohort is added or removed */
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
    struct bag others;                      /* cohorts bound to the cluster in any other state */
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
    /* The key's own machines: Configured, Configuring and Creating ones, and Draining ones that are
     * promised to the key. They have few cohorts, so one bag holds all states. */
    struct bag cohorts;
    uint32_t slot, place; /* place: index in family->keys */
    uint64_t birth;
    uint64_t version; /* grows when a machine joins or leaves the key's own machines */
};
struct family {
    struct table_link link; /* references are held by the family's keys */
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
    /* When the promise's machines became Idle, or 0. All share the time and expire together. */
    uint64_t idle_since_ms;
    int32_t priority;
};
struct machine_shape {
    struct table_link link;
    struct resources resources, allocatable;
    const struct resources *alloc; /* resources or allocatable, whichever counts */
    uint64_t positive;             /* bit set of the dimensions in which `alloc` is above zero */
    uint32_t slot;
};

struct origin { /* data that no decision uses and in which few machines differ */
    struct table_link link;
    struct word *host_provider, *last_error; /* NULL: empty */
    uint32_t slot;
};

struct posting { /* an attribute: key and value */
    struct table_link link;
    struct word *key;
    uint32_t *looks; /* slots of the looks that have the attribute, in no order */
    uint32_t count, cap, slot, value_len;
    char value[];
};
static inline struct str posting_value(const struct posting *p)
{
    return str_of(p->value, p->value_len);
}
enum { LOOK_TYPE, LOOK_ZONE, LOOK_LABELS }; /* attribute indexes; labels follow, sorted by key */
/* The states whose machines are searched by look in the whole shard. */
enum pool_state { POOL_IDLE, POOL_SPECULATIVE, POOL_COUNT };
struct look {
    struct table_link link;
    uint32_t slot, attribute_count; /* at least LOOK_LABELS */
    struct bag pools[POOL_COUNT];
    struct posting *postings[]; /* one per attribute, or NULL; the look_places() follow in memory */
};
#define LOOK_HIDDEN UINT32_MAX /* in look_places(): the type or zone attribute hides this label */
/* Returns the indexes of the look in the `looks` arrays of its postings. */
static inline uint32_t *look_places(const struct look *look)
{
    return (uint32_t *)(look->postings + look->attribute_count);
}

/* The fields of a look that decide most matches, so that the look itself is not read. If each
 * machine has its own look, reading looks is most of the cost of matching. */
struct look_brief {
    uint64_t marks;      /* bits of all attributes; an attribute without its bit is absent */
    uint32_t type, zone; /* slots of the type's and zone's postings; SLOT_NONE: none */
};
static inline uint64_t posting_mark(const struct posting *p) /* one of 64 bits */
{
    return (uint64_t)1 << (p->slot * 2654435761u >> 26);
}

/* A combination of instance type and shape that some cohort has. Outfits are few, so they quickly
 * show whether any machine of certain types is large enough for a Need. */
struct outfit {
    struct table_link link; /* references are held by cohorts */
    const struct machine_shape *shape;
    uint32_t type, slot; /* type: slot of the type's posting; SLOT_NONE: no instance type */
};

struct machine_row {
    struct table_link link; /* link.refs: number of the last List that named the machine; 0: none */
    uint64_t idle_since_ms;
    uint32_t cohort; /* slot of the cohort that fits the planned state */
    uint32_t actual; /* slot of the real state's cohort; equal to `cohort` if nothing is planned */
    uint32_t origin; /* slot of the origin; SLOT_NONE: no origin */
    uint8_t id_len, host_ref_len, planned;
    uint8_t room; /* bytes reserved for a host_ref behind the id */
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
    struct cohort_cluster *cluster; /* cluster that the machines are bound to or created for */
    struct look *look;
    struct machine_shape *shape;
    struct stamp *stamp;     /* NULL: the machines were never bought for a Need */
    struct promise *promise; /* NULL: none */
    double price, probability;
    uint8_t state;         /* enum machine_state */
    uint8_t capacity_type; /* enum capacity_type */
};
/* Returns the cluster that the machines are bound to; NULL: none. */
static inline struct cohort_cluster *traits_bound(const struct traits *t)
{
    return t->state == MACHINE_CREATING ? NULL : t->cluster;
}
/* Depending on its state, a cohort is in a bag of its look or in a bag of a key, never in both. */
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
    uint32_t own; /* slot of the key that the cohort's machines were bought for; SLOT_NONE: none */
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

/* A change that can affect an engine's caches. Either a machine joined or left a cohort that
 * belongs to a cluster (Configured, Configuring, Creating) or to a key. Or a key, or an Idle
 * machine kept for a key, was added or removed. The change contains all that an engine needs,
 * because the cohort may no longer exist. An engine that has read the first `changes` changes reads
 * only later ones. If more than CHANGES_KEPT were missed, the engine must assume that everything
 * changed. */
struct cohort_change {
    uint32_t key, family;   /* slots of what the machine was bought for; SLOT_NONE: nothing */
    uint32_t cohort, birth; /* birth: lower half; a `cohort` of SLOT_NONE: only the key changed */
    uint32_t cluster;       /* slot of the cluster; SLOT_NONE: no cluster */
    float less_dollars;     /* negated dollars, which the keep order compares after the price */
    double price;
    uint8_t type;  /* type_bit() */
    uint8_t state; /* enum machine_state */
    int8_t by;     /* 1: a machine joined, -1: a machine left */
};
struct inventory;
struct cohort_change cohort_change_of(const struct inventory *inv, const struct cohort *cohort);
enum { CHANGES_KEPT = 1 << 14 };
/* A set of instance types in 64 bits; several types may share a bit. The bit of a type is known
 * before a machine of that type exists. "No instance type" sets every bit. */
enum { TYPE_BIT_ANY = 64 };
static inline uint8_t type_bit(struct str type)
{
    return (uint8_t)(str_hash(type, 0) % 64);
}
static inline uint64_t type_bits(uint8_t bit)
{
    return bit == TYPE_BIT_ANY ? UINT64_MAX : (uint64_t)1 << bit;
}

struct member_place { /* position of a walk over members in id order */
    struct machine_row *const *few;
    uint32_t few_left;
    struct order_place many;
};
struct member_place cohort_begin(const struct cohort *c);
struct machine_row *cohort_next(struct member_place *place); /* NULL at the end */

struct inventory {
    struct inventory_options options;
    uint64_t bytes, births;
    uint64_t label_bytes; /* bytes of looks and postings; not part of `bytes` */
    struct table rows, words, origins, clusters, keys, families, stamps, promises, shapes, postings,
        looks, cohorts, outfits;
    struct slot_map origin_slots, cluster_slots, key_slots, family_slots, posting_slots, look_slots,
        shape_slots, cohort_slots, outfit_slots;
    struct order_kind members_kind;
    struct inventory_counts counts;
    /* Cohorts of Creating machines without a destination and of Draining machines without a
     * promise. A restarted shard finds such machines without knowing their purpose. Other such
     * machines are drained for no Need. */
    struct bag nobodys;
    uint32_t list, listed; /* number of the List under way; number of machines that it has named */
    /* listing.c: machines in the order of the last full List, and of the List under way. */
    struct list_order {
        struct machine_row **at;
        uint32_t count, cap;
    } order, order_next;
    uint32_t order_cursor; /* index of the expected next record; SLOT_NONE: the List is a delta */
    /* Rows of removed machines to which a List order may still refer. `dead_before`: removed before
     * the List under way began. `dead`: removed since then. The rows are linked by their table
     * link, and their cohort is SLOT_NONE. */
    struct table_link *dead_before, *dead;
    uint32_t dead_count;
    uint64_t keys_born;     /* grows with each new key or family; failed look-ups then expire */
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

/* Returns look number `which` of those that carry the posting. */
static inline struct look *posting_look(const struct inventory *inv, const struct posting *p,
                                        uint32_t which)
{
    return slot_map_held(&inv->look_slots, p->looks[which]);
}
/* Returns the attribute of a look under `key`, or NULL. Type and zone come first, then labels. */
const struct posting *look_find(const struct look *look, struct str key);
#endif
