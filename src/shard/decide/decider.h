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
 *   sold_out.c   capacity pools whose Speculative machines are ignored
 *
 * A *source* is a range of machines of one cohort. Machines are taken from a source in id order, so
 * the taken machines are always a prefix of the source. */
#ifndef SHARD_DECIDE_DECIDER_H
#define SHARD_DECIDE_DECIDER_H
#include "model/penalty.h"
#include "shard/decide/decide.h"
#include "shard/state/cohort.h"

struct supply_source {
    const struct cohort *cohort;
    uint64_t decision;     /* decision in which this source was initialised */
    uint32_t first, count; /* members [first, first + count) of the cohort */
    uint32_t taken;        /* members taken, from the front of the range */
    uint32_t log;          /* number of the newest log entry about this source; LOG_NONE: none */
    uint32_t key;          /* slot of the key that owns these machines; KEY_NONE: none */
    int32_t priority;      /* priority of a victim; a preemptor needs a higher priority */
    bool victim;
    uint32_t passed;          /* number of members before `place` */
    struct machine_row *next; /* member number `passed`; NULL: not read yet */
    struct member_place place;
};
#define KEY_NONE SLOT_NONE
/* Number of the price lists with the sold-out machines, which only the verdicts read. */
#define POOL_SOLD_OUT POOL_COUNT
#define LOG_NONE      UINT32_MAX
struct machine_row *source_next(struct supply_source *s); /* Returns the first member left. */
struct machine_row *source_at(struct supply_source *s, uint32_t number);

/* Machines that a row took from a source. Log entries are in the order of taking. */
struct log_entry {
    struct supply_source *source;
    uint32_t want, from, count; /* want: index of the row; [from, from + count) of the cohort */
    uint32_t earlier;           /* previous entry about this source; LOG_NONE: none */
};
struct log {
    struct log_entry *at;
    uint32_t count, cap;
};

/* Entries are sorted by `first`, then `second`, then the id of the source's next machine. */
struct pool_entry {
    double first, second;
    struct supply_source *source;
};
struct price_list;
struct price_cursor;
struct set_memory;
struct price_lists {        /* see price_lists.h */
    struct price_list **at; /* sorted by type */
    uint32_t count, cap;
    struct price_list **by_outfit; /* hash table; NULL: not made yet */
    uint32_t by_outfit_mask;
};
struct supply_pool {
    struct pool_entry *at;
    uint32_t count, cap;
    uint32_t head; /* number of used-up entries at the front */
    /* Further entries are fetched from the cursors or from `victims` when the pool is read. */
    uint32_t cursor_count;
    struct price_cursor *cursors; /* a heap; the cursor with the next entry is on top */
    struct victim_walk *victims;  /* victim pools only; NULL: no further entries */
    const struct want *want;      /* the Need for which `victims` was made */
    struct set_memory *memory;
};

/* Ranges of machines that Phase 2 may take. */
struct runs {
    struct supply_source *at;
    uint32_t *types; /* slot of the instance type of each range */
    uint32_t count, cap, type_cap;
};
struct victims_at { /* the victims with equal labels and resources, see victims.h */
    struct victim *first;
    uint64_t decision; /* decision that made the list; the list is empty in every other decision */
};
struct victim_lists {
    struct victim_list **at;
    uint32_t count, cap;
};

struct spread_domain {
    const struct posting *value;
    uint32_t held;
    uint32_t before, coming; /* Phase 2: machines held at its start; machines that come back */
    bool joined;             /* counts for the minimum; false: only Phase 2 can use the domain */
};
struct spread_state {
    struct spread_domain *at;
    uint32_t count, cap;
    uint32_t least, at_least; /* fewest machines in a joined domain; how many domains have so few */
};
struct strand {             /* machines of one side in one domain; see spread.c */
    uint32_t domain, entry; /* entry: where the next class of the strand begins */
    uint32_t from, count;   /* the class that is read now, as a range of spread_walk.sources */
    uint32_t side;
    double first, second; /* sort keys of that class */
};
struct spread_side { /* Phase 1: a price order and those of its chains that are not opened yet */
    const struct price_order *order;
    struct chains *chains;
    uint32_t *link; /* the field that holds the number of the next unopened chain */
};
struct spread_walk {
    const struct supply_pool *pool; /* Phase 2: the pool to take from; NULL in Phase 1 */
    const struct spread_state *state;
    struct set_memory *memory;
    struct spread_side *sides;
    uint32_t side_count, side_cap;
    uint32_t nearest;       /* side whose next unopened chain starts first; side_count: none */
    uint32_t *heads, *next; /* Phase 2: linked list of entries per domain */
    struct supply_source **sources;
    struct strand *strands;
    uint32_t *heap, *aside; /* strand numbers; aside: strands whose domain must not grow yet */
    uint32_t head_count, source_count, strand_count, heap_count, aside_count;
    uint32_t head_cap, next_cap, source_cap, strand_cap, heap_cap, aside_cap;
    uint32_t least; /* minimum of the spread when `aside` was last checked */
};

/* A row that this decision computes in full. */
struct want {
    const struct demand *demand;
    const struct cohort_cluster *cluster;
    const struct family *family; /* machines bought or kept for this row; NULL: none */
    const struct key *key;       /* a gang's key; NULL: none */
    uint64_t live;               /* bit set of dimensions that still lack something */
    int128 *rem; /* missing amounts by dimension; NULL: the whole aggregate is missing */
    uint32_t claimed, bootstraps, provisions;
    uint32_t own_from, own_to, rest_from, rest_to; /* log entries of parts A (own) and B (rest) */
    bool gang, parked, has_domain, satisfiable;
    /* True if the gang's own machines decide the choice of domain, except between the domains in
     * `ties`: between those, acquirable machines decide. */
    bool secure;
    uint32_t *ties, tie_count;
    const struct posting *domain;
    struct spread_state *spread;
    struct shortage *shortage;
};

/* One requirement: labels that a look must have, or must not have. */
struct match_term {
    const struct word *key; /* NULL: no machine has the key */
    uint32_t from, count;   /* range of set_memory.values */
    uint64_t marks;         /* posting_mark() bits of those values */
    enum match_ask { ASK_ONE_OF, ASK_NONE_OF, ASK_KEY, ASK_NO_KEY } ask;
};

/* Cached results for a requirement set. Valid while the set and all looks are unchanged. */
struct set_memory {
    uint64_t birth, looks_version; /* versions for which the cache is valid; birth 0: empty */
    struct match_term *terms;      /* all requirements except the one on instance types */
    const struct posting **values;
    uint32_t term_count, term_cap, value_count, value_cap;
    uint32_t base_count;     /* number of terms before the NotIn terms */
    uint32_t types[8];       /* slots of the instance types that the set names */
    uint8_t type_count;      /* TYPES_ANY: the set names no type, or too many */
    uint64_t type_bits;      /* includes named types that no machine has */
    struct kept_pool *pools; /* state of pool.c */
    uint64_t pools_of;       /* decision that made the pools */
};
#define TYPES_ANY UINT8_MAX

/* A row that takes all machines of one key and then lacks nothing. */
struct steady {
    uint32_t key;     /* slot; KEY_NONE: the row is not steady */
    uint32_t cluster; /* slot; SLOT_NONE: the cluster has no machine */
    uint32_t machines, configured;
};

/* Cached sums over a row's own machines. Valid while the version of the row's family (gang: key) is
 * unchanged. */
struct row_memory {
    uint64_t row;     /* birth of the demand; 0: this record is free */
    uint64_t birth;   /* birth of the family or key; 0: none */
    uint64_t version; /* version of the family or key; if there is none: keys_born */
    uint32_t slot;
    uint32_t key; /* slot of the key that has all own machines; KEY_NONE: several keys have some */
    uint32_t machines; /* own machines that the row takes if no other row takes one */
    uint32_t configured;
    bool takes_all;               /* the row takes all own machines, and then lacks nothing */
    bool domain_known;            /* gang: `domain` is computed */
    const struct posting *domain; /* domain in which the gang's own machines suffice; NULL: none */
};

struct take {
    uint32_t cohort, birth, count; /* birth: lower half of the cohort's birth */
};
struct takes {
    struct take *at;
    uint32_t count, cap;
};

/* The machines of its own cluster that a row took in Phase 1. The record is about the last decision
 * until part A of this decision has served the row. */
enum course_kind { COURSE_NONE, COURSE_STEADY, COURSE_TOOK };
struct course {
    uint8_t kind;       /* enum course_kind; COURSE_NONE: not known */
    bool settled;       /* the row took only machines of its cluster and then lacked nothing */
    bool known;         /* the record of the last decision exists */
    bool again;         /* part A repeated the last decision; part B is still to come */
    bool gang;          /* `own` is the slot of a key; false: of a family */
    bool has_verdict;   /* the row's verdict is valid if the row is steady or replayed */
    uint32_t own, key;  /* own: SLOT_NONE if none. key: KEY_NONE if the family has several keys */
    uint8_t stop_state; /* stop_*: the machine at which part B stopped reading */
    float stop_second;
    double stop_first;
    uint64_t types;   /* type_bits() of the types that part B reads */
    uint32_t cluster; /* slot; SLOT_NONE: the cluster has no machine */
    uint32_t own_from, own_count, rest_from, rest_count; /* in e->takes, parts A and B */
    uint32_t own_configured, rest_configured;
    uint32_t claimed;
    uint32_t tie_from, tie_count; /* gang: range of e->ties */
};

/* Data about a row while its demand exists, in three arrays indexed by demand->memory: steady,
 * states and memories. `steady` is small, because every decision reads all of it. */
struct row_state {
    struct course course;
    bool parked;
    uint32_t place; /* index of the row in e->rows */
    uint64_t made;  /* value of e->rows_made when the row was last in e->rows */
};

/* A cohort that changed since the last decision, or from which rows took a different number of
 * machines. */
struct mark {
    struct cohort_change of;
    const struct cohort *live;
    int32_t change, ahead; /* since the last decision: more members; more of them taken */
    bool members;          /* the members are other machines, perhaps as many as before */
    uint32_t next, older;  /* next mark of the cluster; older mark of the slot */
};
#define MARK_NONE UINT32_MAX

enum keep_state { KEEP_CONFIGURED, KEEP_CONFIGURING, KEEP_STATES };
struct keep_orders { /* see keep_order.c */
    struct keep_order *at;
    uint32_t cap;
};

/* Data about the inventory's keys, cohorts and clusters, indexed by their slots. A field that holds
 * a decision number is valid only if the number is this decision's. */
struct key_note {
    uint32_t steady_row; /* index of the steady row with this key; may be outdated */
    uint32_t marked;     /* decision in which a cohort of this key was last marked */
    uint32_t kept;       /* last decision with an Idle machine kept for this key */
};
struct cohort_note {
    uint32_t emptied;
    uint32_t mark; /* index of the newest mark; may be outdated */
};
struct cluster_note {
    uint64_t decision;
    uint32_t first;  /* first mark; MARK_NONE: none */
    uint32_t others; /* decision in which the set of the cluster's rows changed */
    struct keep_orders keep_orders[KEEP_STATES];
};

struct decider {
    struct decider_options options;
    const struct inventory *inventory;
    struct needs *needs;
    struct arena arena; /* memory of one decision */
    struct decide_input input;
    struct decision decision;
    uint64_t number; /* number of the decision; the first is 1 */
    enum err err;

    /* Kept between decisions, updated where the input changed: */
    struct supply_source *sources; /* indexed by cohort slot */
    uint64_t *key_states;          /* indexed by key slot; see key_state() */
    struct key_note *keys;
    struct cohort_note *cohorts;
    struct cluster_note *clusters;
    uint32_t *family_marks; /* indexed by family slot: decision of the last mark */
    uint32_t source_cap, key_state_cap, key_cap, cohort_cap, cluster_cap, family_cap, set_cap;
    struct set_memory *sets;    /* indexed by set slot */
    struct victims_at *victims; /* indexed by look slot */
    uint64_t *victim_types;     /* indexed by type slot + 1: decision that made the lists */
    uint32_t victims_cap, victim_type_cap;
    uint32_t folded_cap;
    struct steady *steady; /* indexed by demand->memory, like `states` and `memories` */
    struct row_state *states;
    struct row_memory *memories;
    uint32_t state_count, steady_cap, state_cap, memory_cap;
    struct demand **rows; /* the normalised rows in the order of Needs */
    uint32_t row_count, row_cap, folded_rows;
    uint8_t *folded;         /* indexed like needs->order: the gang is folded */
    struct arena rows_arena; /* memory of folded rows */
    uint64_t rows_version;   /* version of the needs table when the rows were made; 0: none */
    uint64_t rows_made;      /* counts how often the rows were made */
    /* positions of the gangs in the needs table */
    uint32_t *gang_places, gang_place_count, gang_place_cap;

    /* Indexed by position of the row; kept while the rows are unchanged (steady.c): */
    uint64_t rows_read, changes_read; /* rows_made and inventory changes that were read */
    uint32_t *slots, slot_cap;        /* index of the row in steady, states and memories */
    struct need_verdict *verdicts, *verdicts_next; /* verdicts_next: new array when rows change */
    uint32_t verdict_cap, verdict_next_cap;
    struct want *wants; /* valid only for rows that are decided in full */
    uint32_t want_cap;
    uint32_t *levels, level_count, level_cap; /* position after the last row of each level */
    uint32_t *gang_rows, gang_row_count, gang_row_cap;
    bool any_parked;
    bool keys_same;        /* no key appeared since the last decision */
    bool nobodys_creating; /* there is a Creating machine without a destination */

    /* replay.c */
    uint64_t courses_of;            /* last successful decision that recorded courses */
    uint64_t keys_born_read;        /* keys_born of the inventory in that decision */
    struct takes takes, before;     /* what rows took in this and in the last decision */
    struct takes ties, ties_before; /* acquirable machines of want.ties: now; last time */

    struct log log; /* of one decision, like the actions; the arrays are kept */
    struct action *actions;
    uint32_t action_count, action_cap;

    /* For one decision; everything below is cleared before the next decision. */
    uint32_t *restless; /* rows decided in full, in the order of Needs */
    uint32_t restless_count, restless_cap;
    struct turn { /* a row's turn in part B */
        uint32_t row, own_from, own_to;
    } * turns;
    uint32_t turn_count, turn_cap;
    struct mark *marks;
    uint32_t mark_count, mark_cap;
    uint32_t *acquired; /* numbers of the log entries that took Idle or Speculative machines */
    uint32_t acquired_count, acquired_cap;
    uint32_t *key_last; /* indexed by key slot: position of the key's last row + 1; 0: none */
    uint32_t *claimed;  /* indexed by cluster slot: claimed Configured machines */
    bool *ready;        /* indexed by cluster slot: the cluster sent a roll-up since the start */
    /* Indexed by cluster slot of the needs table; NULL: no machine. */
    const struct cohort_cluster **cluster_of;
    uint32_t *bucket_of; /* by posting slot: bucket, domain or chain; may be outdated */
    struct price_lists price_lists[POOL_SOLD_OUT + 1];
    struct sold_out *sold_out; /* sorted */
    uint32_t sold_out_count;
    uint64_t sold_out_types; /* bits of their types */
    uint64_t *touched;       /* bit set by cohort slot: machines of the cohort were taken */
    struct racks *racks;
    struct supply_pool own_pool; /* used for one walk */
    struct buckets *buckets;     /* memory for one gang at a time */
    struct supply_source **heap;
    struct spread_walk walks[2];
    struct spread_state *spread_spare; /* memory for the next spread; or NULL */
    struct runs tails;                 /* Configured machines that no row claimed (excess) */
    uint32_t phase1_log;               /* number of log entries of Phase 1 */
    struct victim_lists victim_lists;
    uint32_t heap_cap;
};

/* The state of a key after machines were taken. `all`: a steady row took all of them. */
static inline uint64_t key_state(const struct decider *e, bool all)
{
    return e->number * 2 + all;
}
static inline bool key_all(const struct decider *e, uint32_t slot)
{
    return e->key_states[slot] == key_state(e, true);
}
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

static inline uint32_t acquirable_left(const struct decider *e, const struct cohort *c)
{
    const struct supply_source *s = &e->sources[c->slot];

    return s->decision == e->number ? s->count - s->taken : c->count;
}

/* A capacity pool of input.sold_out by the slots of its postings; SLOT_NONE: no type or zone. */
struct sold_out {
    uint32_t type, zone, capacity_type;
};
void sold_out_read(struct decider *e);
/* True if the machines are Speculative and their pool is sold out. */
bool cohort_sold_out(const struct decider *e, const struct cohort *c);

static inline bool shape_covers(const struct decider *e, uint32_t slot,
                                const struct resources *wanted)
{
    const struct machine_shape *shape = slot_map_held(&e->inventory->shape_slots, slot);

    return resources_covers(shape->alloc, wanted);
}

/* normalise.c */
void normalise(struct decider *e); /* makes e->rows */
/* Valid until the next call. NULL: out of memory. */
struct row_state *row_state_of(struct decider *e, struct demand *demand);
/* Valid until the next call, updated for the present inventory. NULL: out of memory. */
struct row_memory *memory_of(struct decider *e, struct demand *demand);
/* Initialises a want with its row's cluster, family and key. */
void want_find(struct decider *e, struct want *w, struct demand *demand);

/* steady.c */
/* Finds the steady rows of this decision. */
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
void replay_note(struct decider *e, const struct cohort_change *change);
bool replay_expects(const struct decider *e, const struct course *c);
/* Part A: takes the machines of the last decision. False: the row must be decided in full. */
bool replay_own(struct decider *e, uint32_t row, struct course *c);
/* Part A: record what a steady row (replay_steady) or another row (replay_owned) took. */
void replay_steady(struct decider *e, uint32_t row, struct course *c);
void replay_owned(struct decider *e, struct want *w);
/* Part B: takes the machines of the last decision. False: the want is initialised, the row must be
 * decided in full, and then replay_rested() must be called. */
bool replay_rest(struct decider *e, const struct turn *turn);
void replay_rested(struct decider *e, struct want *w);
/* True if Idle machines may be kept for the gang. */
bool replay_may_be_kept_for(const struct decider *e, const struct want *w);
/* `rest`: part B; else part A. */
static inline void replay_fetch(const struct decider *e, const struct course *c, bool rest)
{
    const struct take *takes = e->before.at;

    if (c->kind != COURSE_TOOK || !(rest ? c->again : c->settled)) return;
    for (uint32_t i = 0; i < (rest ? c->rest_count : c->own_count); i++) {
        __builtin_prefetch(&e->sources[takes[(rest ? c->rest_from : c->own_from) + i].cohort], 1);
    }
}
void replay_forget(struct decider *e);

static inline bool cohort_fits(const struct cohort *c, const struct resources *unit)
{
    return resources_covers(c->traits.shape->alloc, unit);
}

/* match.c */
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
/* A walk over the cohorts of some types that match the set and cover `wanted`. */
struct type_walk {
    const struct type_bags *types;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, item;
    uint32_t shape; /* slot of the shape that `covers` is about; SLOT_NONE: none */
    bool covers;    /* the shape covers the wanted amounts */
};
const struct bag_item *type_walk_next(struct decider *e, struct type_walk *walk);
/* Counts machines that match the set and cover `wanted`, up to `most`. */
uint64_t type_bags_count(struct decider *e, const struct type_bags *types,
                         const struct set_memory *memory, const struct resources *wanted,
                         uint64_t most);
/* The *base* of a set is the set without NotIn. Many sets have equal bases. */
bool set_base_equal(const struct set_memory *a, const struct set_memory *b);
bool set_base_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look);
/* Returns a value that the set excludes by NotIn and the look has; NULL: none. */
const struct posting *set_refusal(const struct set_memory *memory, const struct look *look);

/* decider.c */
/* The engine keeps the first error of a decision in e->err. After an error, the functions below
 * return NULL or false, and results may be incomplete. Incomplete results are never stored in data
 * that is kept between decisions. */
void decider_note(struct decider *e, enum err err);                /* ERR_OK is allowed */
void *decider_alloc(struct decider *e, size_t count, size_t size); /* zeroed memory */
void *decider_room(struct decider *e, size_t count, size_t size);  /* memory that is not zeroed */
/* Makes room for item number `count`. The array lives until the decision ends. */
bool decider_grow(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap,
                  size_t size);
void action_add(struct decider *e, const struct action *action);
/* Makes room for `count` items. The array is kept between decisions; new items are zeroed. */
bool kept_room(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap, size_t size);
struct kept_array { /* the arguments of kept_room() */
    void *items_pointer;
    uint32_t count, *cap;
    size_t size;
};
bool kept_arrays_reserve(struct decider *e, const struct kept_array *arrays, size_t count);

/* want.c */
/* Computes what the row lacks. Call first. */
void want_start(struct decider *e, struct want *w);
void want_take(struct want *w, const struct machine_shape *shape, uint32_t count);
/* Returns how many machines of this shape the row can use, at most `most`. */
uint32_t want_needs(const struct want *w, const struct machine_shape *shape, uint32_t most);
struct amounts want_rest(struct decider *e, const struct want *w);
static inline bool want_helped(const struct want *w, const struct machine_shape *shape)
{
    return (w->live & shape->positive) != 0;
}
bool want_has_key(const struct want *w, const struct key *key);
/* source_take() takes and logs machines. want_claim() also counts them as claimed. */
void source_give(struct decider *e, uint32_t want, struct supply_source *s, uint32_t slot,
                 uint32_t count); /* only logs; `slot` is the cohort's */
typedef void pool_take(struct decider *e, struct want *w, struct supply_source *s, uint32_t count);
pool_take source_take, want_claim;
bool cohort_kept(const struct decider *e, const struct cohort *c); /* Idle, and kept for a Need */
bool source_open(const struct decider *e, const struct want *w,
                 const struct cohort *c); /* false: the cohort is kept for another Need */
/* Always true if the Need has no domain. */
bool source_in_domain(const struct want *w, const struct cohort *c);

/* keep_order.c */
/* Claims machines of the Need's cluster in keep order. */
void keep_order_credit(struct decider *e, struct want *w, enum keep_state state);
void keep_order_fetch(const struct decider *e);
void keep_orders_free(struct decider *e);

/* state of pool.c */
enum pool_kind {
    POOL_OF_IDLE,        /* sorted by price */
    POOL_OF_SPECULATIVE, /* sorted by effective cost */
    POOL_OF_EXCESS,      /* sorted by price */
    POOL_OF_VICTIMS,     /* sorted by score */
    POOL_OF_CREATING,    /* without a destination; unsorted */
    POOL_OF_DRAINING,    /* without a destination; unsorted */
};
static inline uint32_t pool_bucket(enum pool_kind kind, const struct want *w)
{
    return kind == POOL_OF_IDLE ? 0 : w->demand->profile->interruption_bucket;
}
static inline enum pool_state pool_state_of(enum pool_kind kind)
{
    return kind == POOL_OF_IDLE ? POOL_IDLE : POOL_SPECULATIVE;
}
/* Returns the pool of all sources that match and fit. Idle and Speculative pools are filled only as
 * far as they are read. */
struct supply_pool *pool_of(struct decider *e, enum pool_kind kind, const struct want *w);
void pool_add(struct decider *e, struct supply_pool *pool, struct supply_source *source,
              double first, double second);
void pool_add_in_order(struct decider *e, struct supply_pool *pool, enum pool_kind kind,
                       const struct want *w, struct supply_source *s);
/* Adds cohorts that are in the state, match and fit: Configured and Configuring cohorts in keep
 * order, others by id. */
void pool_add_bag(struct decider *e, const struct want *w, const struct bag *bag,
                  enum machine_state state, struct supply_pool *pool);
void pool_sort(struct supply_pool *pool, uint32_t from);
/* Fills the pool completely. */
void pool_fetch(struct decider *e, struct supply_pool *pool);
/* Takes machines in the pool's order until the Need lacks nothing. Skips machines that do not help,
 * are kept for other Needs or are outside the Need's domain. */
void pool_take_all(struct decider *e, struct want *w, struct supply_pool *pool, pool_take *take);
/* Heap of sources, ordered by the id of their next machine. First call source_next() on each
 * source. */
/* arguments: pointers to pointers */
bool source_before(const void *, const void *left, const void *right);
void source_sink(struct supply_source **heap, uint32_t count, uint32_t at);

/* assign.c */
void assign(struct decider *e);
struct supply_pool *own_pool_begin(struct decider *e); /* the pool for one walk, emptied */
/* The states in which a Need owns machines, in the order of crediting. */
enum { OWN_STATES = 3 };
extern const enum machine_state own_states[OWN_STATES];
/* Adds own machines that match and fit. Draining: machines that are drained for the Need. */
void own_add(struct decider *e, const struct want *w, enum machine_state state,
             struct supply_pool *pool);
void own_claim(struct decider *e, struct want *w);
void credit(struct decider *e, struct want *w);

/* gang.c */
/* Returns the domain in which the gang's own machines suffice; NULL: none. */
const struct posting *gang_served(struct decider *e, const struct want *w);
void gang_own_first(struct decider *e, struct want *w);
void gang_assign(struct decider *e, struct want *w);

/* spread.c */
void spread_acquire(struct decider *e, struct want *w);
/* Phase 2: call before and after counting machines that come back from a drain. After
 * spread_coming_end() these machines count in their domains, but not for the minimum. */
void spread_coming_begin(struct want *w);
void spread_coming_end(struct want *w);
/* Phase 2: takes machines in the pool's order, as far as the spread permits. */
void spread_take(struct decider *e, struct want *w, const struct supply_pool *pool);

/* preempt.c */
void preempt(struct decider *e);
/* Adds excess machines that match, fit and are not taken. */
void tails_add(struct decider *e, const struct want *w, const struct set_memory *memory,
               struct supply_pool *pool);
double victim_score(const struct victim_weights *weights, int32_t preemptor,
                    const struct supply_source *victim);
void action_for(struct action *action, const struct want *w);
/* True if the Need preempts an excess machine of the cohort, instead of waiting for a Reclaim. */
bool excess_is_preempted(const struct want *w, const struct cohort *c);

/* release.c */
void emit_phase1(struct decider *e);
void release(struct decider *e);

/* verdict.c */
void shortage_start(struct decider *e, struct want *w);
void verdict_steady(struct decider *e, uint32_t row);
void verdicts_make(struct decider *e);
#endif
