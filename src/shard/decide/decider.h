/* SPDX-License-Identifier: Apache-2.0 */
/* The engine from the inside: what one decision works on. One file per idea:
 *
 *   decider.c    open, close, the phases in their order        spread.c   strict spread
 *   normalise.c  which gangs fold; the rows in their order     preempt.c  Phase 2
 *   match.c      which looks a requirement set accepts         release.c  Phase 3
 *   pool.c       sources in an order, ties by id               verdict.c  why a Need is unsatisfied
 *   assign.c     Phase 1: own first, then the rest             victims.c  possible victims
 *   gang.c       domains of a gang                             print.c    the transcript
 *   price_lists.c  what can be acquired, in the order it is taken
 *   chains.c     the same by key value
 *   racks.c      what gangs could acquire, by domain
 *   keep_order.c   a cluster's machines in keep order
 *   steady.c     rows that take just their own, decision after decision
 *   replay.c     rows that take what they took in the last decision
 *
 * Nothing here walks machines where cohorts will do. A *source* is a run of members of one cohort
 * of which a prefix is taken: rules pick among equal machines by id, so what is taken of a cohort
 * is always a prefix. Machines are named only where a choice between cohorts comes down to the id,
 * and in actions. */
#ifndef SHARD_DECIDE_DECIDER_H
#define SHARD_DECIDE_DECIDER_H
#include "model/penalty.h"
#include "shard/decide/decide.h"
#include "shard/state/cohort.h"

struct supply_source { /* the fields that every walk reads come first */
    const struct cohort *cohort;
    uint64_t decision;     /* the number of the one it was made for; older: not made yet */
    uint32_t first, count; /* members [first, first + count) of the cohort ... */
    uint32_t taken;        /* ... of which so many, from the front */
    uint32_t log;          /* newest entry of the log that took from here; LOG_NONE */
    uint32_t key;          /* slot of the key whose own it is; KEY_NONE */
    int32_t priority;      /* a victim's: what a preemptor must exceed */
    bool victim;
    uint32_t passed;          /* members of the cohort behind `place`, when `next` is set */
    struct machine_row *next; /* the member number `passed`; NULL: not looked at yet */
    struct member_place place;
};
#define KEY_NONE SLOT_NONE
#define LOG_NONE UINT32_MAX
struct machine_row *source_next(struct supply_source *s); /* the first that is left; there is one */
/* Member `number` of the cohort; going back starts from the front again. */
struct machine_row *source_at(struct supply_source *s, uint32_t number);

/* What each row took, in the order it was taken. */
struct log_entry {
    struct supply_source *source;
    uint32_t want, from, count; /* members [from, from + count) of the source's cohort */
    uint32_t earlier;           /* the entry before it that took from the same source; LOG_NONE */
};
struct log {
    struct log_entry *at;
    uint32_t count, cap;
};

/* Sources in an order: ascending first, then second, then by the id that is next. */
struct pool_entry {
    double first, second;
    struct supply_source *source;
};
struct price_list;
struct price_cursor;
struct set_memory;
struct price_lists {        /* of one pool state: price_lists.h */
    struct price_list **at; /* by type */
    uint32_t count, cap;
    struct price_list **by_outfit; /* hashed; NULL: the lists are not made yet */
    uint32_t by_outfit_mask;
};
struct supply_pool {
    struct pool_entry *at;
    uint32_t count, cap;
    uint32_t head; /* entries before it are used up */
    /* Where more comes from, as it is read. */
    uint32_t cursor_count;        /* 0: that is all */
    struct price_cursor *cursors; /* the one whose entry comes next first: a heap */
    struct victim_walk *victims;  /* likewise; NULL: that is all */
    const struct want *want;      /* the first that asked for these victims */
    struct set_memory *memory;
};

/* Runs of machines that Phase 2 takes from. */
struct runs {
    struct supply_source *at;
    uint32_t *types; /* of each: slot of the posting; so that most need not be fetched */
    uint32_t count, cap, type_cap;
};
struct victims_at { /* of one look: victims.h */
    struct victim *first;
    uint64_t decision; /* the number of the one they were made for; older: none */
};
struct victim_lists {
    struct victim_list **at;
    uint32_t count, cap;
};

/* A strict spread: the domains of a Need and how many machines it has in each. */
struct spread_domain {
    const struct posting *value;
    uint32_t held;
    uint32_t before, coming; /* Phase 2: held after Phase 1; machines that come back */
    bool joined; /* it counts; not yet: Phase 2 only could use it */
};
struct spread_state {
    struct spread_domain *at;
    uint32_t count, cap;
    uint32_t least, at_least; /* machines in the emptiest, and how many domains are as empty */
};
struct strand {             /* what one side of a walk has for one domain */
    uint32_t domain, entry; /* entry: where its next class begins */
    uint32_t from, count;   /* the class that is open: among the walk's sources */
    uint32_t side;
    double first, second; /* what the order says of that class */
};
struct spread_side { /* Phase 1: an order to take from, and its chains that are not opened yet */
    const struct price_order *order;
    struct chains *chains;
    uint32_t *link; /* where the number of the next chain is */
};
struct spread_walk {                /* arrays are kept from Need to Need */
    const struct supply_pool *pool; /* Phase 2; NULL: Phase 1 */
    const struct spread_state *state;
    struct set_memory *memory;
    struct spread_side *sides;
    uint32_t side_count, side_cap;
    uint32_t nearest;       /* side whose next chain begins first; side_count: all are opened */
    uint32_t *heads, *next; /* Phase 2, entries: by domain the first, by entry the next */
    struct supply_source **sources;
    struct strand *strands;
    uint32_t *heap, *aside; /* numbers of strands */
    uint32_t head_count, source_count, strand_count, heap_count, aside_count;
    uint32_t head_cap, next_cap, source_cap, strand_cap, heap_cap, aside_cap;
    uint32_t least; /* of the domains when it was last looked at */
};

/* A row of the normalised demand while it is decided in full. */
struct want {
    const struct demand *demand;
    const struct cohort_cluster *cluster; /* in the inventory; NULL: it has no machine there */
    const struct family *family;          /* machines stamped for or promised to it; NULL: none */
    const struct key *key;                /* a gang's, likewise */
    uint64_t live;                        /* dimensions that rem still lacks */
    int128 *rem; /* by ascending dimension of the aggregate's mask; NULL: all */
    uint32_t claimed, bootstraps, provisions;
    uint32_t own_from, own_to, rest_from, rest_to; /* what it claimed, in the log */
    bool gang, parked, has_domain, satisfiable;
    /* A gang: what can be acquired changes nothing about its domain, but for what there is of that
     * in these (values of K, by slot). */
    bool secure;
    uint32_t *ties, tie_count;
    const struct posting *domain;
    struct spread_state *spread;
    struct shortage *shortage;
};

/* A requirement as it is asked of a look: which attributes it may, must or must not carry. */
struct match_term {
    const struct word *key; /* NULL: no machine has it */
    uint32_t from, count;   /* its values that some machine has, in the memory's */
    uint64_t marks;         /* of those */
    enum match_ask { ASK_ONE_OF, ASK_NONE_OF, ASK_KEY, ASK_NO_KEY } ask;
};

/* What is remembered of a requirement set while it and the looks stay. */
struct set_memory {
    uint64_t birth, looks_version; /* when it was made; 0: never */
    struct match_term *terms;      /* but for the types */
    const struct posting **values;
    uint32_t term_count, term_cap, value_count, value_cap;
    uint32_t base_count;     /* of the terms; behind them are those that refuse values (NotIn) */
    uint32_t types[8];       /* postings of the instance types it names; none of another matches */
    uint8_t type_count;      /* TYPES_ANY: it names none, or too many */
    uint64_t type_bits;      /* of the types it names, whether there are any of them or not */
    struct kept_pool *pools; /* pool.c */
    uint64_t pools_of;       /* number of the decision that the pools are of */
};
#define TYPES_ANY UINT8_MAX

/* A row that takes all machines of a key and then lacks nothing. */
struct steady {
    uint32_t key;     /* its slot; KEY_NONE: the row is decided in full */
    uint32_t cluster; /* its slot; SLOT_NONE: it has no machine there */
    uint32_t machines, configured;
};

/* What is remembered of a row: what its own machines come to when nobody else took of them. Valid
 * while the version of its family (a gang: its key) is the same. */
struct row_memory {
    uint64_t row;        /* birth of the row; 0: free */
    uint64_t birth;      /* of its family or key; 0: it has none */
    uint64_t version;    /* of its family or key; keys_born when it has none */
    uint32_t slot;       /* of its family or key */
    uint32_t key;        /* slot of the key whose machines are all its own; KEY_NONE: several */
    uint32_t machines;   /* that it takes when it takes all */
    uint32_t configured; /* of those */
    bool takes_all;      /* all of them, and then lacks nothing */
    bool domain_known;   /* a gang: the next one was asked */
    const struct posting *domain; /* under which its own cover it; NULL: none */
};

/* Machines that a row took in Phase 1: replay.c. */
struct take {
    uint32_t cohort, birth, count; /* its slot; the lower half of its birth */
};
struct takes {
    struct take *at;
    uint32_t count, cap;
};

/* How a row fared in Phase 1 of the last decision, as far as its cluster's machines go; from its
 * turn in A on, in this one. */
enum course_kind { COURSE_NONE, COURSE_STEADY, COURSE_TOOK };
struct course {
    uint8_t kind;       /* enum course_kind; NONE: not known */
    bool settled;       /* took machines of its cluster only, and lacks nothing */
    bool known;         /* how it fared then, so the two can be compared */
    bool again;         /* it is not decided in full so far, and its turn in B is to come */
    bool gang;          /* `own` is the slot of a key, else of a family */
    uint32_t own, key;  /* SLOT_NONE: none; key: the only one of the family; KEY_NONE */
    uint8_t stop_state; /* in B it went through Configured ones up to the stop, or through all of
                         * them and Configuring ones up to it */
    float stop_less;
    double stop_price;
    uint64_t types;   /* type_bits() it looks at in B */
    uint32_t cluster; /* its slot; SLOT_NONE: it has no machine there */
    uint32_t own_from, own_count, rest_from, rest_count; /* what it took in A and B: in takes */
    uint32_t own_configured, rest_configured;            /* machines, of those */
    uint32_t claimed;
    uint32_t tie_from, tie_count; /* a gang's in B: what there was in want.ties, in ties */
};

/* All that is known of a row, for as long as its demand stays: by demand->memory. */
struct row_state { /* what every turn reads comes first */
    struct steady steady;
    bool has_verdict; /* the one at its place is right when it is steady or takes what it took */
    bool parked;
    uint32_t place; /* among the rows */
    uint64_t made;  /* rows_made of the rows that it was last among */
    struct course course;
    struct row_memory memory;
};

/* A cohort that is not, or may not be, as it was at the same turn of the last decision. */
struct mark {
    struct cohort_change of;   /* `by` is unused */
    const struct cohort *live; /* NULL: gone */
    int32_t change, ahead;     /* members more than then; more of them taken than then */
    bool members;              /* not the same ones */
    uint32_t next, older;      /* of its cluster; of its slot, with another birth; MARK_NONE */
};
#define MARK_NONE UINT32_MAX

enum keep_state { KEEP_CONFIGURED, KEEP_CONFIGURING, KEEP_STATES };
struct keep_orders { /* of one cluster and state, by type: keep_order.c */
    struct keep_order *at;
    uint32_t cap;
};

/* Beside the inventory's keys, cohorts and clusters, by their slots. What says "decision" is the
 * number of one; an older one: not in this. */
struct key_note {
    uint64_t state;      /* key_state() of when something was taken of it */
    uint32_t steady_row; /* the steady row that takes it, if there is one */
    uint32_t marked;     /* the decision in which a mark of it was made */
    uint32_t kept;       /* the decision that last saw an Idle machine promised to it */
};
struct cohort_note {
    uint32_t emptied; /* the decision that took the last of it */
    uint32_t mark;    /* where its newest mark may be */
};
struct cluster_note {
    uint64_t decision; /* that its marks are of */
    uint32_t first;    /* mark; MARK_NONE */
    uint32_t others;   /* the decision before which its rows became others */
    struct keep_orders keep_orders[KEEP_STATES];
};

struct decider {
    struct decider_options options;
    const struct inventory *inventory;
    struct needs *needs;
    struct arena arena; /* of one decision */
    struct decide_input input;
    struct decision decision;
    uint64_t number; /* of the decision, from 1 */
    enum err err;    /* the first one of the decision */

    /* Kept between decisions; made anew where what it depends on has changed. */
    struct supply_source *sources; /* by slot of the cohort */
    struct key_note *keys;
    struct cohort_note *cohorts;
    struct cluster_note *clusters;
    uint32_t *family_marks; /* by slot: the decision in which a mark of it was made */
    uint32_t source_cap, key_cap, cohort_cap, cluster_cap, family_cap, set_cap;
    struct set_memory *sets;    /* by slot of the set */
    struct victims_at *victims; /* by slot of the look: Configured machines that are no excess */
    uint64_t *victim_types;     /* by slot of the posting + 1: the decision they were made for */
    uint32_t victims_cap, victim_type_cap;
    uint32_t folded_cap;
    struct row_state *states; /* by demand->memory */
    uint32_t state_count, state_cap;
    struct demand **rows; /* the normalised rows in their order */
    uint32_t row_count, row_cap, folded_rows;
    uint8_t *folded;         /* by place in the order of the needs table: it was folded */
    struct arena rows_arena; /* of folded rows */
    uint64_t rows_version;   /* of the needs table that rows were made from; 0: never */
    uint64_t rows_made;      /* grows when rows are made anew */
    uint32_t *gang_places, gang_place_count, gang_place_cap; /* in the order of the needs table */

    /* By place of the row, for as long as the rows stay: steady.c. */
    uint64_t rows_read, changes_read;              /* of rows_made; of the inventory's changes */
    uint32_t *slots, slot_cap;                     /* of their states */
    struct need_verdict *verdicts, *verdicts_next; /* next: for when the rows change */
    uint32_t verdict_cap, verdict_next_cap;
    struct want *wants; /* set when the row is decided in full */
    uint32_t want_cap;
    uint32_t *levels, level_count, level_cap; /* where each ends */
    uint32_t *gang_rows, gang_row_count, gang_row_cap;
    bool any_parked;
    bool keys_same;        /* replay.c: none appeared since the last decision */
    bool nobodys_creating; /* there are such machines */

    /* replay.c */
    uint64_t courses_of;            /* the decision that the courses are of, when it was one */
    uint64_t keys_born_read;        /* keys_born of then */
    struct takes takes, before;     /* of this decision, and of the last */
    struct takes ties, ties_before; /* what could be acquired, likewise */

    /* Of one decision: what follows is cleared before the next. */
    uint32_t *restless; /* rows decided in full, in the order of Needs */
    uint32_t restless_count, restless_cap;
    struct turn { /* in B, of one level */
        uint32_t row, own_from, own_to;
    } * turns;
    uint32_t turn_count, turn_cap;
    struct mark *marks;
    uint32_t mark_count, mark_cap;
    struct log log;
    uint32_t *acquired; /* numbers of entries that took Idle or Speculative machines */
    uint32_t acquired_count, acquired_cap;
    uint32_t *key_last; /* by slot of the key: its last row + 1; 0: not in the demand */
    uint32_t *claimed;  /* by slot of the cluster: Configured machines claimed */
    bool *ready;        /* by slot of the cluster */
    const struct cohort_cluster *
        *cluster_of;     /* by slot in the needs table; NULL: it has no machine */
    uint32_t *bucket_of; /* by slot of the posting: where a gang's bucket may be */
    struct price_lists price_lists[POOL_COUNT];
    uint64_t *touched;           /* by slot of the cohort, a bit each: something of it was taken */
    struct racks *racks;         /* a list: racks.h */
    struct supply_pool own_pool; /* for one walk */
    struct buckets *buckets;     /* for one gang: gang.c */
    struct supply_source **heap; /* for one class */
    struct spread_walk walks[2];
    struct spread_state *spread_spare; /* of a Need that does not need it any more; NULL */
    struct runs tails;                 /* excess: Configured machines that nobody claimed */
    uint32_t phase1_log;               /* entries of Phase 1 end here */
    struct victim_lists victim_lists;
    struct action *actions;
    uint32_t action_count, action_cap, heap_cap;
};

/* A steady row takes all of a key of which nothing was taken; no other Need takes of it after
 * that. */
static inline uint64_t key_state(const struct decider *e, bool all)
{
    return e->number * 2 + all;
}
static inline bool key_all(const struct decider *e, uint32_t slot)
{
    return e->keys[slot].state == key_state(e, true);
}
static inline bool key_touched(const struct decider *e, uint32_t slot) /* some or all */
{
    return e->keys[slot].state >= key_state(e, false);
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

/* What is left of an Idle or Speculative cohort. */
static inline uint32_t acquirable_left(const struct decider *e, const struct cohort *c)
{
    const struct supply_source *s = &e->sources[c->slot];

    return s->decision == e->number ? s->count - s->taken : c->count;
}

static inline bool shape_covers(const struct decider *e, uint32_t slot,
                                const struct resources *wanted)
{
    const struct machine_shape *shape = rooms_held(&e->inventory->shape_slots, slot);

    return resources_covers(shape->alloc, wanted);
}

/* normalise.c */
void normalise(struct decider *e); /* the rows in their order */
/* What is known of the row; until another is asked. NULL: full. */
struct row_state *row_state_of(struct decider *e, struct demand *demand);
/* What is remembered of the row, as of the inventory now; likewise. */
struct row_memory *memory_of(struct decider *e, struct demand *demand);
/* Sets out a want with what it has in the inventory. */
void want_find(struct decider *e, struct want *w, struct demand *demand);

/* steady.c */
/* Which rows are steady and what the others have, as of the inventory now. */
void steady_refresh(struct decider *e);
/* The row's turn: it is steady and takes its key. False: it is to be decided in full. */
bool steady_takes(struct decider *e, uint32_t row, const struct row_state *state);
/* A row becomes steady if it takes all of its own and lacks nothing. */
void steady_begin(struct decider *e, uint32_t row);
void want_begin(struct decider *e, uint32_t row); /* a row is decided in full */
static inline struct row_state *row_at(const struct decider *e, uint32_t row)
{
    return &e->states[e->slots[row]];
}
static inline void row_forget(struct row_state *state) /* what it took, and its verdict */
{
    state->course.kind = COURSE_NONE;
    state->has_verdict = false;
}
static inline struct row_memory *want_memory(const struct decider *e, const struct want *w)
{
    return &row_at(e, (uint32_t)(w - e->wants))->memory;
}

/* replay.c */
void replay_start(struct decider *e);
void replay_note(struct decider *e, const struct cohort_change *change); /* since then */
/* Its own machines are those it had then, and it need not be asked what else it could do. */
bool replay_expects(const struct decider *e, const struct row_state *state);
/* A: takes what it took. False: it is to be decided anew. */
bool replay_own(struct decider *e, uint32_t row, struct row_state *state);
/* A: it was steady, or was decided in full. */
void replay_steady(struct decider *e, uint32_t row, struct row_state *state);
void replay_owned(struct decider *e, struct want *w);
/* B, likewise; the former sets the want out when it is to be decided anew. */
bool replay_rest(struct decider *e, const struct turn *turn);
void replay_rested(struct decider *e, struct want *w);
/* There may be Idle machines that are kept for the gang, taken or not. */
bool replay_may_be_kept_for(const struct decider *e, const struct want *w);
/* Asks for what a turn, in B or in A, will read if it is replayed. */
static inline void replay_fetch(const struct decider *e, const struct course *c, bool rest)
{
    const struct take *takes = e->before.at;

    if (c->kind != COURSE_TOOK || !(rest ? c->again : c->settled)) return;
    for (uint32_t i = 0; i < (rest ? c->rest_count : c->own_count); i++) {
        __builtin_prefetch(&e->sources[takes[(rest ? c->rest_from : c->own_from) + i].cohort], 1);
    }
}
void replay_forget(struct decider *e); /* nothing is known of the last decision */

static inline bool cohort_fits(const struct cohort *c, const struct resources *unit)
{
    return resources_covers(c->traits.shape->alloc, unit);
}

/* match.c */
/* What is remembered of the set, brought up to date. */
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
/* The cohorts of some types that match and cover. */
struct type_walk {
    const struct type_bags *types;
    const struct set_memory *memory;
    const struct resources *wanted;
    uint32_t type, item; /* that is next */
};
const struct bag_item *type_walk_next(struct decider *e, struct type_walk *walk); /* NULL: end */
/* Machines of some types that match and cover; counted up to `most`. */
uint64_t type_bags_count(struct decider *e, const struct type_bags *types,
                         const struct set_memory *memory, const struct resources *wanted,
                         uint64_t most);
/* A set without the values it refuses (NotIn) is its *base*: many that differ have one base. */
bool set_base_equal(const struct set_memory *a, const struct set_memory *b);
bool set_base_accepts(const struct decider *e, const struct set_memory *memory, uint32_t look);
/* The first value that the set refuses and the look carries; NULL: none. */
const struct posting *set_refusal(const struct set_memory *memory, const struct look *look);

/* decider.c */
/* Memory. The engine keeps the first error of a decision (e->err), as a writer of lines does: what
 * is asked for after it may be missing, and the functions here do without. A loop over rows ends
 * there, and no later step begins. Nothing that is kept between decisions is written from what is
 * missing. NULL and false: there is no more. */
void decider_note(struct decider *e, enum err err);                /* ERR_OK is fine */
void *decider_alloc(struct decider *e, size_t count, size_t size); /* cleared */
void *decider_room(struct decider *e, size_t count, size_t size);  /* not cleared */
/* Room for item number `count` in an array of the decision's. */
bool decider_grow(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap,
                  size_t size);
void action_add(struct decider *e, const struct action *action);
/* Room for `count` items in an array that is kept between decisions; new ones are cleared. */
bool kept_room(struct decider *e, void *items_pointer, uint32_t count, uint32_t *cap, size_t size);
struct kept_array { /* the arguments of that */
    void *items_pointer;
    uint32_t count, *cap;
    size_t size;
};
bool kept_rooms(struct decider *e, const struct kept_array *arrays, size_t count);

/* want.c */
/* Sets out what it lacks; the rest of this file wants that done. */
void want_start(struct decider *e, struct want *w);
void want_take(struct want *w, const struct machine_shape *shape, uint32_t count);
/* How many machines of this shape it takes until they help no more, at most `most`; 0: they do not
 * help. */
uint32_t want_needs(const struct want *w, const struct machine_shape *shape, uint32_t most);
struct amounts want_rest(struct decider *e, const struct want *w); /* what it lacks now */
static inline bool want_helped(const struct want *w, const struct machine_shape *shape)
{
    return (w->live & shape->positive) != 0;
}
bool want_has_key(const struct want *w, const struct key *key);
/* Takes `count` for the Need and writes it down; want_claim also counts it as claimed. */
void source_give(struct decider *e, uint32_t want, struct supply_source *s, uint32_t slot,
                 uint32_t count); /* writes it down only; slot: of the cohort */
typedef void pool_take(struct decider *e, struct want *w, struct supply_source *s, uint32_t count);
pool_take source_take, want_claim;
bool cohort_kept(const struct decider *e, const struct cohort *c); /* Idle, and for a Need */
bool source_open(const struct decider *e, const struct want *w,
                 const struct cohort *c);                            /* shield */
bool source_in_domain(const struct want *w, const struct cohort *c); /* if it has one */

/* keep_order.c */
/* Claims machines of the Need's cluster in that state, in keep order. */
void keep_order_credit(struct decider *e, struct want *w, enum keep_state state);
void keep_order_fetch(const struct decider *e);
void keep_orders_free(struct decider *e);

/* pool.c */
enum pool_kind {
    POOL_OF_IDLE,        /* by price */
    POOL_OF_SPECULATIVE, /* by effective cost */
    POOL_OF_EXCESS,      /* by price */
    POOL_OF_VICTIMS,     /* by score */
};
static inline uint32_t pool_bucket(enum pool_kind kind, const struct want *w) /* likewise */
{
    return kind == POOL_OF_IDLE ? 0 : w->demand->profile->interruption_bucket;
}
static inline enum pool_state pool_state_of(enum pool_kind kind) /* of what can be acquired */
{
    return kind == POOL_OF_IDLE ? POOL_IDLE : POOL_SPECULATIVE;
}
/* Every source of that kind that matches and fits; made once per decision. Of what can be acquired
 * it may hold the first ones only: pool_take_all() fetches more. */
struct supply_pool *pool_of(struct decider *e, enum pool_kind kind, const struct want *w);
void pool_add(struct decider *e, struct supply_pool *pool, struct supply_source *source,
              double first, double second);
/* Adds under what the order of that kind looks at. */
void pool_add_in_order(struct decider *e, struct supply_pool *pool, enum pool_kind kind,
                       const struct want *w, struct supply_source *s);
/* Adds the cohorts of a bag that are in the state, match and fit: Configured and Configuring ones
 * in keep order, others by id. */
void pool_add_bag(struct decider *e, const struct want *w, const struct bag *bag,
                  enum machine_state state, struct supply_pool *pool);
void pool_sort(struct supply_pool *pool, uint32_t from);      /* the entries from there on */
void pool_fetch(struct decider *e, struct supply_pool *pool); /* all that is filled as read */
/* Takes in the pool's order until nothing lacks: what helps, is open to the Need and lies in its
 * domain, if it has one. */
void pool_take_all(struct decider *e, struct want *w, struct supply_pool *pool, pool_take *take);
/* Sources by their next id, for heaps of them; source_next() was called on each. */
bool source_before(const void *, const void *left, const void *right); /* of two pointers */
void source_sink(struct supply_source **heap, uint32_t count, uint32_t at);

/* assign.c */
void assign(struct decider *e);
/* The states in which machines are credited to the Need whose own they are, in their order. */
enum { OWN_STATES = 3 };
extern const enum machine_state own_states[OWN_STATES];
/* The Need's own machines in one state, or those drained for it, that match and fit, into `pool`. */
void own_add(struct decider *e, const struct want *w, enum machine_state state,
             struct supply_pool *pool);
void own_claim(struct decider *e, struct want *w);
void credit(struct decider *e, struct want *w);

/* gang.c */
/* The value of K under which its own machines alone cover it; NULL: none. */
const struct posting *gang_served(struct decider *e, const struct want *w);
void gang_own_first(struct decider *e, struct want *w);
void gang_assign(struct decider *e, struct want *w);

/* spread.c */
void spread_acquire(struct decider *e, struct want *w);
/* Phase 2, around the machines that come back: afterwards they count where they will be, but no more
 * for the emptiest domain. */
void spread_coming_begin(struct want *w);
void spread_coming_end(struct want *w);
/* Phase 2: takes, again and again, the first of the pool that its spread allows now. */
void spread_take(struct decider *e, struct want *w, const struct supply_pool *pool);

/* preempt.c */
void preempt(struct decider *e);
/* Adds the excess that matches, fits and is left. */
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
