/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the engine: the data that one decision works on. One file per topic:
 *
 *   decider.c    open, close, the phases in their order        spread.c   strict spread
 *   normalise.c  which gangs fold; the rows in their order     preempt.c  Phase 2
 *   match.c      which looks a requirement set accepts         release.c  Phase 3
 *   pool.c       sources in an order, ties by id               verdict.c  why a Need is unsatisfied
 *   assign.c     Phase 1: own machines first, then the rest    victims.c  possible victims
 *   gang.c       domains of a gang                             print.c    the transcript
 *   price_lists.c  what can be acquired, in the order it is taken
 *   chains.c       what can be acquired, by key value
 *   racks.c        what gangs could acquire, by domain
 *   keep_order.c   a cluster's machines in keep order
 *   steady.c       rows that take exactly their own machines in every decision
 *   replay.c       rows that take the same machines as in the last decision
 *
 * The engine walks cohorts, not machines. A *source* is a range of members of one cohort. Machines
 * are taken from a source in id order, so the taken part is always a prefix. Machine ids are read
 * only to choose between cohorts that are equal otherwise, and to emit actions. */
#ifndef SHARD_DECIDE_DECIDER_H
#define SHARD_DECIDE_DECIDER_H
#include "model/penalty.h"
#include "shard/decide/decide.h"
#include "shard/state/cohort.h"

struct supply_source { /* the first fields are those that every walk reads */
    const struct cohort *cohort;
    uint64_t decision;     /* number of the decision for which this source is initialised */
    uint32_t first, count; /* members [first, first + count) of the cohort */
    uint32_t taken;        /* members taken, from the front of the range */
    uint32_t log;          /* number of the newest log entry with this source; LOG_NONE: none */
    uint32_t key;          /* slot of the key that owns these machines; KEY_NONE: none */
    int32_t priority;      /* the victim's priority; a preemptor's must be higher */
    bool victim;
    uint32_t passed;          /* number of members before `place`, if `next` is set */
    struct machine_row *next; /* member number `passed`; NULL: that member is not read yet */
    struct member_place place;
};
#define KEY_NONE SLOT_NONE
#define LOG_NONE UINT32_MAX
struct machine_row *source_next(struct supply_source *s); /* Returns the first member left. */
/* Returns member `number` of the cohort. Going backwards restarts from the first member. */
struct machine_row *source_at(struct supply_source *s, uint32_t number);

/* Machines that a row took from a source. The log is in the order of taking. */
struct log_entry {
    struct supply_source *source;
    uint32_t want, from, count; /* want: index of the row; cohort members [from, from + count) */
    uint32_t earlier;           /* number of the previous entry with this source; LOG_NONE: none */
};
struct log {
    struct log_entry *at;
    uint32_t count, cap;
};

/* A pool entry. The order is ascending by `first`, then `second`, then the next machine id. */
struct pool_entry {
    double first, second;
    struct supply_source *source;
};
struct price_list;
struct price_cursor;
struct set_memory;
struct price_lists {        /* the price lists of one pool state, see price_lists.h */
    struct price_list **at; /* sorted by type */
    uint32_t count, cap;
    struct price_list **by_outfit; /* hash table; NULL: the lists are not made yet */
    uint32_t by_outfit_mask;
};
struct supply_pool {
    struct pool_entry *at;
    uint32_t count, cap;
    uint32_t head; /* number of entries at the front that are used up */
    /* The sources of further entries, which are fetched as the pool is read. */
    uint32_t cursor_count;        /* 0: no further entries */
    struct price_cursor *cursors; /* a heap: the cursor with the next entry is on top */
    struct victim_walk *victims;  /* source of a victim pool's entries; NULL: no further entries */
    const struct want *want;      /* the first Need that asked for these victims */
    struct set_memory *memory;
};

/* Ranges of machines that Phase 2 takes from. */
struct runs {
    struct supply_source *at;
    uint32_t *types; /* indexed by range: slot of the machines' instance type, for a fast search */
    uint32_t count, cap, type_cap;
};
struct victims_at { /* the victims with one look, see victims.h */
    struct victim *first;
    uint64_t decision; /* number of the decision that made the list; in another: no victims */
};
struct victim_lists {
    struct victim_list **at;
    uint32_t count, cap;
};

/* One domain of a strict spread, and how many machines the Need has there. */
struct spread_domain {
    const struct posting *value;
    uint32_t held;
    uint32_t before, coming; /* Phase 2: machines held after Phase 1, and machines that come back */
    bool joined; /* the domain counts for the minimum. False: only Phase 2 could use the domain */
};
struct spread_state {
    struct spread_domain *at;
    uint32_t count, cap;
    uint32_t least, at_least; /* machines in the emptiest domain; number of such domains */
};
struct strand {             /* the machines of one order (side) in one domain; see spread.c */
    uint32_t domain, entry; /* entry: start of the strand's next class */
    uint32_t from, count;   /* the open class, as a range of the walk's sources */
    uint32_t side;
    double first, second; /* sort keys of the open class */
};
struct spread_side { /* Phase 1: an order to take from, with its unopened chains */
    const struct price_order *order;
    struct chains *chains;
    uint32_t *link; /* points to the field that holds the number of the next chain */
};
struct spread_walk {                /* the arrays are reused for the next Need */
    const struct supply_pool *pool; /* the pool in Phase 2; NULL in Phase 1 */
    const struct spread_state *state;
    struct set_memory *memory;
    struct spread_side *sides;
    uint32_t side_count, side_cap;
    uint32_t nearest; /* side whose next chain starts first, or side_count if all chains are open */
    uint32_t *heads, *next; /* Phase 2: entry numbers; `heads` by domain, `next` by entry */
    struct supply_source **sources;
    struct strand *strands;
    uint32_t *heap, *aside; /* numbers of strands; aside: strands whose domain may not grow yet */
    uint32_t head_count, source_count, strand_count, heap_count, aside_count;
    uint32_t head_cap, next_cap, source_cap, strand_cap, heap_cap, aside_cap;
    uint32_t least; /* the spread's minimum when strands were last moved from aside to the heap */
};

/* A row of the normalised demand that is decided in full in this decision. */
struct want {
    const struct demand *demand;
    const struct cohort_cluster *cluster; /* NULL: the cluster has no machine */
    const struct family *family; /* machines stamped for or promised to this row; NULL: none */
    const struct key *key;       /* a gang's key; NULL: none */
    uint64_t live;               /* bit set of the dimensions in which rem is above zero */
    int128 *rem; /* missing amounts, ordered by dimension; NULL: the whole aggregate */
    uint32_t claimed, bootstraps, provisions;
    uint32_t own_from, own_to, rest_from, rest_to; /* log entries of parts A (own) and B (rest) */
    bool gang, parked, has_domain, satisfiable;
    /* True if machines that can be acquired cannot change a gang's choice of the domain, except
     * machines in the domains of `ties` (slots of the values of the topology key). */
    bool secure;
    uint32_t *ties, tie_count;
    const struct posting *domain;
    struct spread_state *spread;
    struct shortage *shortage;
};

/* A requirement, as the attributes that a look must or must not carry. */
struct match_term {
    const struct word *key; /* NULL: no machine has the key */
    uint32_t from, count;   /* values that some machine has, as a range of set_memory.values */
    uint64_t marks;         /* posting_mark() bits of those values */
    enum match_ask { ASK_ONE_OF, ASK_NONE_OF, ASK_KEY, ASK_NO_KEY } ask;
};

/* Cached results for a requirement set, valid while the set and all looks are unchanged. */
struct set_memory {
    uint64_t birth, looks_version; /* the cache is valid for these two values; birth 0: empty */
    struct match_term *terms;      /* the set's terms, except the one on instance types */
    const struct posting **values;
    uint32_t term_count, term_cap, value_count, value_cap;
    uint32_t base_count;     /* number of base terms; the terms after those refuse values (NotIn) */
    uint32_t types[8];       /* postings of the types the set names; other types cannot match */
    uint8_t type_count;      /* number of `types`; TYPES_ANY: the set names none, or too many */
    uint64_t type_bits;      /* type_bits() of the named types, even if no such machine exists */
    struct kept_pool *pools; /* state of pool.c */
    uint64_t pools_of;       /* number of the decision that made the pools */
};
#define TYPES_ANY UINT8_MAX

/* A row that takes all machines of one key and then lacks nothing. */
struct steady {
    uint32_t key;     /* slot of the key; KEY_NONE: the row is not steady and is decided in full */
    uint32_t cluster; /* slot of the cluster; SLOT_NONE: the cluster has no machine */
    uint32_t machines, configured;
};

/* Cached facts about a row: the sums over its own machines, if no other row takes any of them.
 * Valid while the version of the row's family (for a gang: of its key) is unchanged. */
struct row_memory {
    uint64_t row;     /* birth of the row; 0: this record is free */
    uint64_t birth;   /* birth of the row's family or key; 0: the row has none */
    uint64_t version; /* version of the row's family or key; keys_born if there is none */
    uint32_t slot;    /* slot of the row's family or key */
    uint32_t key; /* slot of the only key that has machines of the row; KEY_NONE: several keys */
    uint32_t machines;   /* number of machines the row takes when it takes all of its own */
    uint32_t configured; /* Configured machines among `machines` */
    bool takes_all;      /* the row takes all of its own machines, and then lacks nothing */
    bool domain_known;   /* gang: `domain` is computed */
    const struct posting *domain; /* domain in which the gang's own machines suffice, or NULL */
};

/* Machines of one cohort that a row took in Phase 1; see replay.c. */
struct take {
    uint32_t cohort, birth, count; /* cohort: slot; birth: lower half of the cohort's birth */
};
struct takes {
    struct take *at;
    uint32_t count, cap;
};

/* What a row took in Phase 1 of the last decision, limited to machines of its cluster. Once the row
 * had its turn in part A, the record describes this decision. */
enum course_kind { COURSE_NONE, COURSE_STEADY, COURSE_TOOK };
struct course {
    uint8_t kind;       /* enum course_kind; COURSE_NONE: not known */
    bool settled;       /* the row took machines of its cluster only, and then lacked nothing */
    bool known;         /* the last decision's course is known, so old and new can be compared */
    bool again;         /* so far this decision repeats the row's last course; part B follows */
    bool gang;          /* true: `own` is the slot of a key; false: of a family */
    bool has_verdict;   /* the row's verdict is valid if the row is steady or replayed */
    uint32_t own, key;  /* own: a slot or SLOT_NONE. key: the family's only key, or KEY_NONE */
    uint8_t stop_state; /* in part B the row read Configured machines up to the stop, or all
                         * Configured machines and the Configuring ones up to the stop */
    float stop_less;
    double stop_price;
    uint64_t types;   /* type_bits() of the instance types that the row reads in part B */
    uint32_t cluster; /* slot of the cluster; SLOT_NONE: the cluster has no machine */
    uint32_t own_from, own_count, rest_from, rest_count; /* in e->takes: parts A (own), B (rest) */
    uint32_t own_configured, rest_configured;            /* Configured machines among them */
    uint32_t claimed;
    uint32_t tie_from, tie_count; /* a gang's range of e->ties: the supply of want.ties */
};

/* What the engine knows about a row while its demand exists is in three arrays indexed by
 * demand->memory: steady, states, memories. The first is small, because every decision reads all of
 * it. */
struct row_state {
    struct course course;
    bool parked;
    uint32_t place; /* index of the row in e->rows */
    uint64_t made;  /* value of e->rows_made when the row was last in e->rows */
};

/* A cohort that differs, or may differ, from its state at the same turn of the last decision. */
struct mark {
    struct cohort_change of;   /* the field `by` is unused */
    const struct cohort *live; /* NULL: the cohort no longer exists */
    int32_t change, ahead;     /* difference to the last decision: members, and members taken */
    bool members;              /* the members themselves are different */
    uint32_t next, older;      /* next mark of the cluster; older mark of the slot; or MARK_NONE */
};
#define MARK_NONE UINT32_MAX

enum keep_state { KEEP_CONFIGURED, KEEP_CONFIGURING, KEEP_STATES };
struct keep_orders { /* the keep orders of one cluster and state, by type; see keep_order.c */
    struct keep_order *at;
    uint32_t cap;
};

/* The engine's data about the inventory's keys, cohorts and clusters, in arrays indexed by their
 * slots. Fields named after a decision hold the decision's number; a smaller number means "not in
 * this decision". */
struct key_note {
    uint32_t steady_row; /* the steady row that takes the machines of this key, if there is one */
    uint32_t marked;     /* decision in which a cohort of this key was last marked */
    uint32_t kept;       /* last decision that saw an Idle machine promised to this key */
};
struct cohort_note {
    uint32_t emptied; /* decision in which the cohort's last machine was taken */
    uint32_t mark;    /* index of the cohort's newest mark, if it has one; must be verified */
};
struct cluster_note {
    uint64_t decision; /* decision in which the marks were made */
    uint32_t first;    /* first mark of the cluster; MARK_NONE: none */
    uint32_t others;   /* decision in which the set of the cluster's rows changed */
    struct keep_orders keep_orders[KEEP_STATES];
};

struct decider {
    struct decider_options options;
    const struct inventory *inventory;
    struct needs *needs;
    struct arena arena; /* memory of one decision */
    struct decide_input input;
    struct decision decision;
    uint64_t number; /* number of the decision, from 1 on */
    enum err err;    /* first error of the decision */

    /* The next fields are kept between decisions and rebuilt where the input has changed. */
    struct supply_source *sources; /* indexed by cohort slot */
    uint64_t *key_states; /* indexed by key slot: key_state() when machines were last taken */
    struct key_note *keys;
    struct cohort_note *cohorts;
    struct cluster_note *clusters;
    uint32_t *family_marks; /* indexed by family slot: last decision to mark the family's cohorts */
    uint32_t source_cap, key_state_cap, key_cap, cohort_cap, cluster_cap, family_cap, set_cap;
    struct set_memory *sets;    /* indexed by set slot */
    struct victims_at *victims; /* indexed by look slot: Configured machines that are not excess */
    uint64_t *victim_types; /* indexed by type posting's slot + 1: decision that made the lists */
    uint32_t victims_cap, victim_type_cap;
    uint32_t folded_cap;
    struct steady *steady; /* indexed by demand->memory, like `states` and `memories` */
    struct row_state *states;
    struct row_memory *memories;
    uint32_t state_count, steady_cap, state_cap, memory_cap;
    struct demand **rows; /* the normalised rows in the order of Needs */
    uint32_t row_count, row_cap, folded_rows;
    uint8_t *folded;         /* indexed like needs->order: true if the gang was folded */
    struct arena rows_arena; /* memory of folded rows */
    uint64_t rows_version;   /* version of the needs table that the rows are made from; 0: none */
    uint64_t rows_made;      /* grows when the rows are made again */
    /* places of the gangs in the order of the needs table */
    uint32_t *gang_places, gang_place_count, gang_place_cap;

    /* Arrays indexed by the row's place, kept while the rows stay the same: steady.c. */
    uint64_t rows_read, changes_read; /* rows_made and inventory changes processed by steady.c */
    uint32_t *slots, slot_cap;        /* indexed by row: index in steady, states and memories */
    struct need_verdict *verdicts, *verdicts_next; /* verdicts_next: used when the rows change */
    uint32_t verdict_cap, verdict_next_cap;
    struct want *wants; /* an entry is valid if its row is decided in full */
    uint32_t want_cap;
    uint32_t *levels, level_count, level_cap; /* for each priority level, the row after its last */
    uint32_t *gang_rows, gang_row_count, gang_row_cap;
    bool any_parked;
    bool keys_same;        /* replay.c: no key has appeared since the last decision */
    bool nobodys_creating; /* a Creating machine without a destination exists */

    /* replay.c */
    uint64_t courses_of;        /* the last decision that recorded courses, if it succeeded */
    uint64_t keys_born_read;    /* the inventory's keys_born in the decision `courses_of` */
    struct takes takes, before; /* what rows took in this decision, and in the last one (before) */
    struct takes ties, ties_before; /* supply of tied domains, in this and the last decision */

    struct log log; /* of one decision, like the actions; the arrays are kept */
    struct action *actions;
    uint32_t action_count, action_cap;

    /* For one decision; everything below is cleared before the next decision. */
    uint32_t *restless; /* rows decided in full, in the order of Needs */
    uint32_t restless_count, restless_cap;
    struct turn { /* turns of rows in part B of one priority level */
        uint32_t row, own_from, own_to;
    } * turns;
    uint32_t turn_count, turn_cap;
    struct mark *marks;
    uint32_t mark_count, mark_cap;
    uint32_t *acquired; /* numbers of the log entries that took Idle or Speculative machines */
    uint32_t acquired_count, acquired_cap;
    uint32_t *key_last; /* indexed by key slot: the key's last row + 1; 0: no row has the key */
    uint32_t *claimed;  /* indexed by cluster slot: number of claimed Configured machines */
    bool *ready;        /* indexed by cluster slot: the cluster reported since the start */
    /* Indexed by the needs table's cluster slot; NULL: no machine. */
    const struct cohort_cluster **cluster_of;
    uint32_t *bucket_of; /* indexed by posting slot: bucket, domain or chain; must be verified */
    struct price_lists price_lists[POOL_COUNT];
    uint64_t *touched;   /* bit set indexed by cohort slot: machines of the cohort were taken */
    struct racks *racks; /* a linked list, see racks.h */
    struct supply_pool own_pool; /* used for one walk */
    struct buckets *buckets;     /* memory for one gang at a time, see gang.c */
    struct supply_source **heap; /* used for one class */
    struct spread_walk walks[2];
    struct spread_state *spread_spare; /* the spread of a finished Need, for reuse; or NULL */
    struct runs tails;                 /* excess: Configured machines that no row claimed */
    uint32_t phase1_log;               /* index behind the last log entry of Phase 1 */
    struct victim_lists victim_lists;
    uint32_t heap_cap;
};

/* Returns the state of a key whose machines were taken. `all`: a steady row took all its machines,
 * so no other Need can take any in this decision. */
static inline uint64_t key_state(const struct decider *e, bool all)
{
    return e->number * 2 + all;
}
static inline bool key_all(const struct decider *e, uint32_t slot)
{
    return e->key_states[slot] == key_state(e, true);
}
/* Returns true if some or all machines of the key were taken in this decision. */
static inline bool key_touched(const struct decider *e, uint32_t slot)
{
    return e->key_states[slot] >= key_state(e, false);
}

static inline uint32_t source_left(const struct decider *e, const struct supply_source *s)
{
    return s->key != KEY_NONE && key_all(e, s->key) ? 0 : s->count - s->taken;
}
struct supply_source *source_make(struct decider *e, const struct cohort *c);
static inline struct supply_source *source_of(struct decider *e, const struct cohort *c)
{
    struct supply_source *s = &e->sources[c->slot];

    return s->decision == e->number ? s : source_make(e, c);
}

/* Returns how many machines of an Idle or Speculative cohort are left. */
static inline uint32_t acquirable_left(const struct decider *e, const struct cohort *c)
{
    const struct supply_source *s = &e->sources[c->slot];

    return s->decision == e->number ? s->count - s->taken : c->count;
}

static inline bool shape_covers(const struct decider *e, uint32_t slot,
                                const struct resources *wanted)
{
    const struct machine_shape *shape = slot_map_held(&e->inventory->shape_slots, slot);

    return resources_covers(shape->alloc, wanted);
}

/* normalise.c */
void normalise(struct decider *e); /* makes e->rows */
/* Returns the row's state; valid until the next call. NULL if memory ran out. */
struct row_state *row_state_of(struct decider *e, struct demand *demand);
/* Returns the row's cached facts for the present inventory, valid until the next call; or NULL. */
struct row_memory *memory_of(struct decider *e, struct demand *demand);
/* Initialises a want with the row's objects in the inventory. */
void want_find(struct decider *e, struct want *w, struct demand *demand);

/* steady.c */
/* Determines which rows are steady in the present inventory, and updates the other rows. */
void steady_refresh(struct decider *e);
/* Lets the row take its key if it is steady. False: the row must be decided in full. */
bool steady_takes(struct decider *e, uint32_t row, const struct row_state *state);
/* Makes the row steady if it takes all of its own machines and lacks nothing. */
void steady_begin(struct decider *e, uint32_t row);
void want_begin(struct decider *e, uint32_t row); /* starts to decide a row in full */
static inline struct row_state *row_at(const struct decider *e, uint32_t row)
{
    return &e->states[e->slots[row]];
}
static inline struct steady *steady_at(const struct decider *e, uint32_t row)
{
    return &e->steady[e->slots[row]];
}
static inline void row_forget(struct row_state *state) /* forgets course and verdict */
{
    state->course.kind = COURSE_NONE;
    state->course.has_verdict = false;
}
static inline struct row_memory *want_memory(const struct decider *e, const struct want *w)
{
    return &e->memories[e->slots[w - e->wants]];
}

/* replay.c */
void replay_start(struct decider *e);
/* Marks a cohort that changed since the last decision. */
void replay_note(struct decider *e, const struct cohort_change *change);
/* True if the row lacked nothing in the last decision and its own machines have not changed. */
bool replay_expects(const struct decider *e, const struct course *c);
/* Part A: takes the row's machines of the last decision. False: decide the row in full. */
bool replay_own(struct decider *e, uint32_t row, struct course *c);
/* Part A: replay_steady() records a steady row, replay_owned() a row that was decided in full. */
void replay_steady(struct decider *e, uint32_t row, struct course *c);
void replay_owned(struct decider *e, struct want *w);
/* Part B: replay_rest() replays a turn, or initialises the want and returns false. Then the row
 * must be decided in full, and replay_rested() records it. */
bool replay_rest(struct decider *e, const struct turn *turn);
void replay_rested(struct decider *e, struct want *w);
/* Returns true if Idle machines could be kept for the gang, even if they were taken. */
bool replay_may_be_kept_for(const struct decider *e, const struct want *w);
/* Prefetches the memory that a turn in part A or part B (`rest`) reads if it is replayed. */
static inline void replay_fetch(const struct decider *e, const struct course *c, bool rest)
{
    const struct take *takes = e->before.at;

    if (c->kind != COURSE_TOOK || !(rest ? c->again : c->settled)) return;
    for (uint32_t i = 0; i < (rest ? c->rest_count : c->own_count); i++) {
        __builtin_prefetch(&e->sources[takes[(rest ? c->rest_from : c->own_from) + i].cohort], 1);
    }
}
void replay_forget(struct decider *e); /* drops all data about the last decision */

static inline bool cohort_fits(const struct cohort *c, const struct resources *unit)
{
    return resources_covers(c->traits.shape->alloc, unit);
}

/* match.c */
/* Returns the cached results of the set, brought up to date. */
struct set_memory *set_recall(struct decider *e, const struct requirement_set *set);
bool set_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look);
static inline bool set_names_type(const struct set_memory *memory, uint32_t type)
{
    if (memory->type_count == TYPES_ANY) return true;
    for (uint32_t i = 0; i < memory->type_count; i++)
        if (memory->types[i] == type) return true;
    return false;
}
static inline bool set_matches(const struct decider *e, const struct set_memory *memory,
                               uint32_t look)
{
    return set_names_type(memory, e->inventory->look_briefs[look].type) &&
           set_accepts(e, memory, look);
}
/* A walk over the cohorts of some types that match the set and cover the wanted amounts. */
struct type_walk {
    const struct type_bags *types;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, item; /* position of the next item */
    uint32_t shape;      /* slot of the last item's shape, which most items share; or SLOT_NONE */
    bool covers;         /* this shape covers the wanted amounts */
};
/* Returns the next cohort; NULL at the end. */
const struct bag_item *type_walk_next(struct decider *e, struct type_walk *walk);
/* Counts machines of some types that match the set and cover `wanted`, up to `most`. */
uint64_t type_bags_count(struct decider *e, const struct type_bags *types,
                         const struct set_memory *memory, const struct resources *wanted,
                         uint64_t most);
/* The *base* of a set is the set without its refused values (NotIn). Many sets have equal bases. */
bool set_base_equal(const struct set_memory *a, const struct set_memory *b);
bool set_base_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look);
/* Returns the first value that the set refuses and the look carries; NULL if there is none. */
const struct posting *set_refusal(const struct set_memory *memory, const struct look *look);

/* decider.c */
/* Memory. The engine keeps the first error of a decision in e->err. After an error, the functions
 * below return NULL or false, results may be incomplete, loops over rows end, and no later step
 * starts. Incomplete results are never written to data that is kept between decisions. */
void decider_note(struct decider *e, enum err err);                /* ERR_OK is allowed */
void *decider_alloc(struct decider *e, size_t count, size_t size); /* zeroed memory */
void *decider_room(struct decider *e, size_t count, size_t size);  /* memory that is not zeroed */
/* Makes room for item number `count` in an array that is kept for one decision. */
bool decider_grow(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap,
                  size_t size);
void action_add(struct decider *e, const struct action *action);
/* Makes room for `count` items in an array that is kept between decisions. New items are zeroed. */
bool kept_room(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap, size_t size);
struct kept_array { /* the arguments of kept_room() */
    void *items_pointer;
    uint32_t count, *cap;
    size_t size;
};
bool kept_arrays_reserve(struct decider *e, const struct kept_array *arrays, size_t count);

/* want.c */
/* Computes what the row lacks. Must be called before the functions below. */
void want_start(struct decider *e, struct want *w);
void want_take(struct want *w, const struct machine_shape *shape, uint32_t count);
/* Returns how many machines of this shape the row can use, at most `most`. 0: none helps. */
uint32_t want_needs(const struct want *w, const struct machine_shape *shape, uint32_t most);
struct amounts want_rest(struct decider *e, const struct want *w); /* what the row lacks now */
static inline bool want_helped(const struct want *w, const struct machine_shape *shape)
{
    return (w->live & shape->positive) != 0;
}
bool want_has_key(const struct want *w, const struct key *key);
/* source_take() takes machines for the Need and logs them. want_claim() also counts them. */
void source_give(struct decider *e, uint32_t want, struct supply_source *s, uint32_t slot,
                 uint32_t count); /* writes only the log entry; `slot` is the cohort's */
typedef void pool_take(struct decider *e, struct want *w, struct supply_source *s, uint32_t count);
pool_take source_take, want_claim;
bool cohort_kept(const struct decider *e, const struct cohort *c); /* Idle, and kept for a Need */
bool source_open(const struct decider *e, const struct want *w,
                 const struct cohort *c); /* the shield permits the Need to take from the cohort */
/* Returns true if the cohort is in the Need's domain, or the Need has no domain. */
bool source_in_domain(const struct want *w, const struct cohort *c);

/* keep_order.c */
/* Claims machines of the Need's cluster in state `state`, in keep order. */
void keep_order_credit(struct decider *e, struct want *w, enum keep_state state);
void keep_order_fetch(const struct decider *e);
void keep_orders_free(struct decider *e);

/* state of pool.c */
enum pool_kind {
    POOL_OF_IDLE,        /* sorted by price */
    POOL_OF_SPECULATIVE, /* sorted by effective cost */
    POOL_OF_EXCESS,      /* sorted by price */
    POOL_OF_VICTIMS,     /* sorted by score */
    POOL_OF_CREATING,    /* machines without a destination, in no order */
    POOL_OF_DRAINING,    /* machines without a destination, in no order */
};
/* Returns the penalty bucket of the price orders that fill a pool of this kind. */
static inline uint32_t pool_bucket(enum pool_kind kind, const struct want *w)
{
    return kind == POOL_OF_IDLE ? 0 : w->demand->profile->interruption_bucket;
}
/* Returns the state of the machines in a pool of Idle or Speculative machines. */
static inline enum pool_state pool_state_of(enum pool_kind kind)
{
    return kind == POOL_OF_IDLE ? POOL_IDLE : POOL_SPECULATIVE;
}
/* Returns the pool of all sources of a kind that match and fit, made once per decision. A pool of
 * Idle or Speculative machines may contain only the first sources: pool_take_all() fetches more. */
struct supply_pool *pool_of(struct decider *e, enum pool_kind kind, const struct want *w);
void pool_add(struct decider *e, struct supply_pool *pool, struct supply_source *source,
              double first, double second);
/* Adds a source with the sort keys of this kind of pool. */
void pool_add_in_order(struct decider *e, struct supply_pool *pool, enum pool_kind kind,
                       const struct want *w, struct supply_source *s);
/* Adds the cohorts of a bag that are in the state, match and fit. Configured and Configuring
 * cohorts are added in keep order, others by id. */
void pool_add_bag(struct decider *e, const struct want *w, const struct bag *bag,
                  enum machine_state state, struct supply_pool *pool);
void pool_sort(struct supply_pool *pool, uint32_t from); /* sorts the entries from `from` on */
/* Fetches all entries of a pool, which are otherwise fetched as they are read. */
void pool_fetch(struct decider *e, struct supply_pool *pool);
/* Takes machines in the pool's order until the Need lacks nothing. Takes only machines that help,
 * are open to the Need and are in the Need's domain, if it has one. */
void pool_take_all(struct decider *e, struct want *w, struct supply_pool *pool, pool_take *take);
/* Comparison and sift-down for a heap of sources, ordered by their next id. Call source_next() on
 * each source first. */
/* left and right point to pointers */
bool source_before(const void *, const void *left, const void *right);
void source_sink(struct supply_source **heap, uint32_t count, uint32_t at);

/* assign.c */
void assign(struct decider *e);
struct supply_pool *own_pool_begin(struct decider *e); /* the pool for one walk, emptied */
/* The states whose machines are credited to the Need that owns them, in order. */
enum { OWN_STATES = 3 };
extern const enum machine_state own_states[OWN_STATES];
/* Adds the Need's own machines in a state (Draining: drained for the Need) that match and fit. */
void own_add(struct decider *e, const struct want *w, enum machine_state state,
             struct supply_pool *pool);
void own_claim(struct decider *e, struct want *w);
void credit(struct decider *e, struct want *w);

/* gang.c */
/* Returns the domain in which the gang's own machines alone cover the gang, or NULL. */
const struct posting *gang_served(struct decider *e, const struct want *w);
void gang_own_first(struct decider *e, struct want *w);
void gang_assign(struct decider *e, struct want *w);

/* spread.c */
void spread_acquire(struct decider *e, struct want *w);
/* Phase 2: call before and after counting the machines that come back. After spread_coming_end()
 * these machines still count in their domains, but not for the minimum over the domains. */
void spread_coming_begin(struct want *w);
void spread_coming_end(struct want *w);
/* Phase 2: repeatedly takes the first machine of the pool that the spread allows at that moment. */
void spread_take(struct decider *e, struct want *w, const struct supply_pool *pool);

/* preempt.c */
void preempt(struct decider *e);
/* Adds the excess machines that match, fit and are left. */
void tails_add(struct decider *e, const struct want *w, const struct set_memory *memory,
               struct supply_pool *pool);
double victim_score(const struct victim_weights *weights, int32_t preemptor,
                    const struct supply_source *victim);
void action_for(struct action *action, const struct want *w);

/* release.c */
void emit_phase1(struct decider *e);
void release(struct decider *e);

/* verdict.c */
void shortage_start(struct decider *e, struct want *w);
void verdict_steady(struct decider *e, uint32_t row);
void verdicts_make(struct decider *e);
#endif
