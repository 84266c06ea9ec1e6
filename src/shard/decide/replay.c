/* SPDX-License-Identifier: Apache-2.0 */
/* Replays rows: a row gets the machines that it took in the last decision, if everything that the
 * row would read is unchanged. Only rows that were served from their own cluster are replayed.
 *
 * Each cohort that changed, or from which rows took a different number, has a *mark*. A mark is
 * closed when both decisions agree about its cohort. A row that would read a cohort with an open
 * mark is decided in full.
 *
 * Gangs also read acquirable machines when domains are equal otherwise (want.ties). These machines
 * are recorded, and must be the same again. */
#include <math.h>
#include <string.h>

#include "shard/decide/decider.h"

/* --- marks --- */

static struct mark *mark_find(const struct decider *e, uint32_t cohort, uint32_t birth)
{
    uint32_t at = e->cohorts[cohort].mark; /* may be from an earlier decision; checked below */

    if (at >= e->mark_count || e->marks[at].of.cohort != cohort) return NULL;
    while (at != MARK_NONE && e->marks[at].of.birth != birth) at = e->marks[at].older;
    return at == MARK_NONE ? NULL : &e->marks[at];
}

static const struct cohort *mark_cohort(const struct decider *e, uint32_t slot, uint32_t birth)
{
    const struct cohort *c = slot_map_get(&e->inventory->cohort_slots, slot);

    return c && (uint32_t)c->birth == birth ? c : NULL;
}

static void own_mark(struct decider *e, const struct cohort_change *of)
{
    if (of->key == SLOT_NONE) return;
    e->keys[of->key].marked = (uint32_t)e->number;
    e->family_marks[of->family] = (uint32_t)e->number;
}

/* NULL: out of memory. */
static struct mark *mark_add(struct decider *e, const struct cohort_change *of)
{
    struct cluster_note *list = &e->clusters[of->cluster];
    uint32_t known = e->cohorts[of->cohort].mark;
    struct mark *mark;

    if (!decider_grow(e, &e->marks, e->mark_count, &e->mark_cap, sizeof *e->marks)) return NULL;
    if (list->decision != e->number) {
        list->decision = e->number;
        list->first = MARK_NONE;
    }
    if (known >= e->mark_count || e->marks[known].of.cohort != of->cohort) known = MARK_NONE;
    mark = &e->marks[e->mark_count];
    *mark = (struct mark){.of = *of,
                          .live = mark_cohort(e, of->cohort, of->birth),
                          .next = list->first,
                          .older = known};
    list->first = e->cohorts[of->cohort].mark = e->mark_count++;
    own_mark(e, of);
    return mark;
}

void replay_note(struct decider *e, const struct cohort_change *change)
{
    struct mark *mark;

    own_mark(e, change);
    if (change->cohort == SLOT_NONE) return;
    mark = mark_find(e, change->cohort, change->birth);
    if (!mark) mark = mark_add(e, change);
    if (!mark) return;
    mark->members = true;
    mark->change += change->by;
}

/* Counts machines that a row took in this decision (`by` 1) or in the last one (`by` -1). */
static void replay_account(struct decider *e, const struct take *take, int by)
{
    struct mark *mark = mark_find(e, take->cohort, take->birth);

    if (!mark) {
        const struct cohort *c = mark_cohort(e, take->cohort, take->birth);
        struct cohort_change of;
        assert(c); /* the inventory reports every cohort that disappears */
        of = cohort_change_of(e->inventory, c);
        mark = mark_add(e, &of);
    }
    if (mark) mark->ahead += by * (int32_t)take->count;
}

static void replay_account_all(struct decider *e, const struct take *takes, uint32_t count, int by)
{
    for (uint32_t i = 0; i < count; i++) replay_account(e, &takes[i], by);
}

static bool take_is(const struct take *a, const struct take *b)
{
    return a->cohort == b->cohort && a->birth == b->birth && a->count == b->count;
}

static void replay_account_turn(struct decider *e, const struct take *now, uint32_t now_count,
                                const struct take *then, uint32_t then_count)
{
    while (now_count && then_count && take_is(now, then)) {
        now++, then++;
        now_count--, then_count--;
    }
    while (now_count && then_count && take_is(&now[now_count - 1], &then[then_count - 1])) {
        now_count--, then_count--;
    }
    replay_account_all(e, now, now_count, 1);
    replay_account_all(e, then, then_count, -1);
}

/* Counts all machines of a key, as replay_account() does. */
static void replay_account_key(struct decider *e, uint32_t slot, uint32_t cluster, int by)
{
    const struct key *key = slot_map_get(&e->inventory->key_slots, slot);
    const struct cluster_note *list = &e->clusters[cluster];

    for (uint32_t i = 0; key && i < key->cohorts.count; i++) {
        const struct cohort *c = key->cohorts.at[i].cohort;
        const struct mark *mark = mark_find(e, c->slot, (uint32_t)c->birth);
        struct take take = {c->slot, (uint32_t)c->birth, c->count};
        if (key->cohorts.at[i].state == MACHINE_DRAINING) continue;
        if (by < 0 && mark) take.count -= (uint32_t)mark->change;
        if (take.count) replay_account(e, &take, by);
    }
    if (by > 0 || list->decision != e->number) return;
    for (uint32_t i = list->first; i != MARK_NONE; i = e->marks[i].next) {
        struct mark *mark = &e->marks[i];
        if (mark->of.key == slot && !mark->live) mark->ahead += mark->change;
    }
}

static bool mark_is_open(struct decider *e, const struct mark *mark)
{
    if (mark->change != mark->ahead) return true; /* the decisions leave different numbers */
    if (!mark->members) return false;
    return mark->live && source_left(e, source_of(e, mark->live));
}

static void take_add(struct decider *e, struct takes *takes, const struct take *take)
{
    if (kept_room(e, &takes->at, takes->count + 1, &takes->cap, sizeof *take)) {
        takes->at[takes->count++] = *take;
    }
}

/* --- what can be acquired in a gang's domains --- */

/* Records the machines left in the domain. *ret_kept: some are kept for a Need, so the record is
 * not valid in the next decision. */
static void ties_write_rack(struct decider *e, uint32_t slot, bool *ret_kept)
{
    const struct posting *value = slot_map_held(&e->inventory->posting_slots, slot);

    take_add(e, &e->ties, &(struct take){slot, 0, 0});
    for (uint32_t i = 0; i < value->count * POOL_COUNT; i++) {
        const struct look *look = posting_look(e->inventory, value, i / POOL_COUNT);
        const struct bag *bag = &look->pools[i % POOL_COUNT];
        for (uint32_t k = 0; k < bag->count; k++) {
            const struct cohort *c = bag->at[k].cohort;
            struct take left = {c->slot, (uint32_t)c->birth, acquirable_left(e, c)};
            if (cohort_kept(e, c)) *ret_kept = true;
            if (left.count && !cohort_sold_out(e, c)) take_add(e, &e->ties, &left);
        }
    }
}

/* Records the machines in the tied domains. True: they are the same as in the last decision. */
static bool ties_hold(struct decider *e, struct course *c)
{
    const struct take *then = e->ties_before.at + c->tie_from;
    uint32_t from = e->ties.count;
    bool kept = false, hold;

    for (uint32_t i = 0; i < c->tie_count; i++) {
        if (!then[i].count) ties_write_rack(e, then[i].cohort, &kept);
    }
    hold = !kept && e->ties.count - from == c->tie_count;
    for (uint32_t i = 0; hold && i < c->tie_count; i++) {
        hold = take_is(&then[i], &e->ties.at[from + i]);
    }
    c->tie_from = from;
    return hold;
}

bool replay_may_be_kept_for(const struct decider *e, const struct want *w)
{
    if (e->courses_of + 1 != e->number) return true;
    if (!w->key) return false;
    return e->keys[w->key->slot].kept == (uint32_t)e->number - 1 ||
           e->keys[w->key->slot].marked == (uint32_t)e->number;
}

/* --- conditions for a replay --- */

static bool replay_own_is_marked(const struct decider *e, const struct course *c)
{
    return (c->gang ? e->keys[c->own].marked : e->family_marks[c->own]) == (uint32_t)e->number;
}

bool replay_expects(const struct decider *e, const struct course *c)
{
    if (c->kind != COURSE_TOOK || !c->settled) return false;
    return c->own == SLOT_NONE ? e->keys_same : !replay_own_is_marked(e, c);
}

static uint32_t mark_first(const struct decider *e, const struct course *c)
{
    if (c->cluster == SLOT_NONE) return MARK_NONE;
    if (e->clusters[c->cluster].decision != e->number) return MARK_NONE;
    return e->clusters[c->cluster].first;
}

static bool replay_own_holds(struct decider *e, uint32_t row, const struct course *c)
{
    const struct row_memory *m;

    if (c->kind != COURSE_TOOK || !c->settled) return false;
    if (c->gang && c->rest_count) { /* part B of a gang also reads acquirable machines */
        return replay_expects(e, c) && !e->nobodys_creating && !row_at(e, row)->parked;
    }
    if (replay_expects(e, c)) return true;
    m = &e->memories[e->slots[row]]; /* the row may have another family or key now */
    if (c->own == SLOT_NONE || !m->birth || m->slot != c->own) return false;
    for (uint32_t i = mark_first(e, c); i != MARK_NONE; i = e->marks[i].next) {
        const struct mark *mark = &e->marks[i];
        if ((c->gang ? mark->of.key : mark->of.family) == c->own && mark_is_open(e, mark))
            return false;
    }
    return true;
}

/* True if part B of the row read cohorts that sort like `of`. */
static bool mark_is_met(const struct course *c, const struct cohort_change *of)
{
    if (of->state == MACHINE_CREATING || !(type_bits(of->type) & c->types)) return false;
    if (of->state != c->stop_state) return of->state == MACHINE_CONFIGURED;
    if (of->keep_first != c->stop_first) return of->keep_first < c->stop_first;
    return of->keep_second <= c->stop_second;
}

/* True if no open mark is a machine that part B read. Part B reads machines in keep order and stops
 * behind the machine that satisfied the row and its equals. */
static bool replay_rest_holds(struct decider *e, const struct course *c)
{
    for (uint32_t i = mark_first(e, c); i != MARK_NONE; i = e->marks[i].next) {
        const struct mark *mark = &e->marks[i];
        if (mark_is_met(c, &mark->of) && mark_is_open(e, mark)) return false;
    }
    return true;
}

/* --- replaying --- */

/* Resets the source of a cohort that is unchanged since the last decision. */
static struct supply_source *source_again(struct decider *e, uint32_t slot)
{
    struct supply_source *s = &e->sources[slot];

    if (s->decision == e->number) return s;
    assert(s->decision == e->number - 1);
    s->decision = e->number;
    s->taken = 0;
    s->log = LOG_NONE;
    s->next = NULL;
    return s;
}

static void replay_take(struct decider *e, uint32_t row, uint32_t *from, uint32_t count)
{
    const struct take *takes = e->before.at + *from;

    *from = e->takes.count;
    for (uint32_t i = 0; i < count; i++) {
        struct supply_source *s = source_again(e, takes[i].cohort);
        source_give(e, row, s, takes[i].cohort, takes[i].count);
        take_add(e, &e->takes, &takes[i]);
    }
}

static void replay_own_write(struct course *c, const struct row_memory *m)
{
    c->own = m->birth ? m->slot : SLOT_NONE;
    c->key = m->key;
}

bool replay_own(struct decider *e, uint32_t row, struct course *c)
{
    if (!replay_own_holds(e, row, c)) return false;
    /* keys may have appeared or disappeared */
    if (c->own == SLOT_NONE || replay_own_is_marked(e, c)) {
        replay_own_write(c, &e->memories[e->slots[row]]);
    }
    replay_take(e, row, &c->own_from, c->own_count);
    if (c->own_configured) e->claimed[c->cluster] += c->own_configured;
    c->known = true;
    c->again = c->rest_count > 0;
    if (!c->again) e->decision.claimed += c->claimed;
    assert(row_at(e, row)->course.has_verdict);
    return true;
}

/* Initialises the want of a row that is replayed in part A and decided in full in part B. */
static void replay_want_resume(struct decider *e, const struct turn *turn)
{
    const struct course *c = &row_at(e, turn->row)->course;
    struct want *w = &e->wants[turn->row];

    want_begin(e, turn->row);
    want_start(e, w);
    w->own_from = turn->own_from;
    w->own_to = turn->own_to;
    for (uint32_t i = 0; i < c->own_count; i++) {
        const struct take *take = &e->takes.at[c->own_from + i];
        const struct cohort *cohort = slot_map_held(&e->inventory->cohort_slots, take->cohort);
        want_take(w, cohort->traits.shape, take->count);
        w->claimed += take->count;
    }
}

bool replay_rest(struct decider *e, const struct turn *turn)
{
    struct course *c = &row_at(e, turn->row)->course;
    uint32_t count = c->rest_count;

    if (!c->again) return false;
    c->again = false;
    if (c->kind == COURSE_STEADY) { /* a steady row needs no machines from part B */
        c->rest_count = 0;
        replay_account_all(e, e->before.at + c->rest_from, count, -1);
        return true;
    }
    if (!replay_rest_holds(e, c) || (c->tie_count && !ties_hold(e, c))) {
        if (!e->err) replay_want_resume(e, turn);
        return false;
    }
    replay_take(e, turn->row, &c->rest_from, count);
    if (c->rest_configured) e->claimed[c->cluster] += c->rest_configured;
    e->decision.claimed += c->claimed;
    return true;
}

/* --- recording decisions --- */

/* Records which machines of the row's own cluster the log entries [from, to) took. */
static void replay_takes_write(struct decider *e, uint32_t from, uint32_t to, uint32_t *ret_from,
                               uint32_t *ret_count, uint32_t *ret_configured)
{
    *ret_from = e->takes.count;
    *ret_configured = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct log_entry *entry = &e->log.at[i];
        const struct cohort *c = entry->source->cohort;
        if (!c->traits.cluster) continue;
        take_add(e, &e->takes, &(struct take){c->slot, (uint32_t)c->birth, entry->count});
        if (c->traits.state == MACHINE_CONFIGURED) *ret_configured += entry->count;
    }
    *ret_count = e->takes.count - *ret_from;
}

void replay_steady(struct decider *e, uint32_t row, struct course *c)
{
    const struct steady *s = steady_at(e, row);
    struct course then;

    if (c->kind == COURSE_STEADY && c->key == s->key) return;
    if (c->kind == COURSE_NONE) c->own_count = c->rest_count = 0;
    then = *c;
    c->kind = COURSE_STEADY;
    c->key = s->key;
    c->cluster = s->cluster;
    c->own_count = 0;
    c->again = c->rest_count > 0; /* the row took machines in part B of the last decision */
    if (then.kind == COURSE_NONE) return;
    verdict_steady(e, row); /* same machines, same verdict */
    if (then.kind == COURSE_STEADY) replay_account_key(e, then.key, then.cluster, -1);
    replay_account_all(e, e->before.at + then.own_from, then.own_count, -1);
    replay_account_key(e, s->key, s->cluster, 1);
}

void replay_owned(struct decider *e, struct want *w)
{
    struct course *c = &row_at(e, (uint32_t)(w - e->wants))->course, then = *c;

    if (then.kind != COURSE_TOOK) c->rest_count = 0;
    c->known = then.kind != COURSE_NONE;
    c->kind = COURSE_TOOK;
    c->settled = c->again = false;
    replay_takes_write(e, w->own_from, w->own_to, &c->own_from, &c->own_count, &c->own_configured);
    if (!c->known) return;
    if (then.kind == COURSE_TOOK) {
        replay_account_turn(e, e->takes.at + c->own_from, c->own_count,
                            e->before.at + then.own_from, then.own_count);
        return;
    }
    replay_account_key(e, then.key, then.cluster, -1);
    replay_account_all(e, e->takes.at + c->own_from, c->own_count, 1);
}

static uint32_t takes_machines(const struct decider *e, uint32_t from, uint32_t count)
{
    uint32_t machines = 0;

    for (uint32_t i = 0; i < count; i++) machines += e->takes.at[from + i].count;
    return machines;
}

static void ties_write(struct decider *e, const struct want *w, struct course *c)
{
    bool kept = false;

    c->tie_from = e->ties.count;
    for (uint32_t i = 0; i < w->tie_count; i++) ties_write_rack(e, w->ties[i], &kept);
    c->tie_count = e->ties.count - c->tie_from;
    if (kept) c->settled = false;
}

/* Stores the sort keys of the last machine taken in part B, which satisfied the row. */
static void replay_stop_write(struct decider *e, const struct want *w, struct course *c)
{
    const struct take *last = &e->takes.at[c->rest_from + c->rest_count - 1];
    const struct cohort *cohort = slot_map_held(&e->inventory->cohort_slots, last->cohort);
    struct keep_rank rank;

    c->types = set_recall(e, w->demand->kind->set)->type_bits;
    if (w->gang) { /* a gang read all machines */
        c->stop_state = MACHINE_CONFIGURING;
        c->stop_first = c->stop_second = INFINITY;
        ties_write(e, w, c);
        return;
    }
    c->stop_state = cohort->traits.state;
    rank = cohort_keep_rank(cohort);
    c->stop_first = rank.first;
    c->stop_second = (float)rank.second;
}

void replay_rested(struct decider *e, struct want *w)
{
    uint32_t row = (uint32_t)(w - e->wants);
    const struct row_memory *m = want_memory(e, w);
    struct course *c = &row_at(e, row)->course, then = *c;

    replay_takes_write(e, w->rest_from, w->rest_to, &c->rest_from, &c->rest_count,
                       &c->rest_configured);
    if (c->known) {
        replay_account_turn(e, e->takes.at + c->rest_from, c->rest_count,
                            e->before.at + then.rest_from, then.rest_count);
    }
    c->gang = w->gang;
    replay_own_write(c, m);
    c->cluster = w->cluster ? w->cluster->slot : SLOT_NONE;
    c->claimed = w->claimed;
    c->tie_count = 0;
    c->settled = !w->live && (!w->gang || w->secure || w->rest_from == w->rest_to) &&
                 w->claimed == takes_machines(e, c->own_from, c->own_count) +
                                   takes_machines(e, c->rest_from, c->rest_count);
    if (!c->settled) return;
    if (c->rest_count) replay_stop_write(e, w, c);
    if (c->rest_count || !m->takes_all || c->claimed != m->machines) return;
    if (steady_at(e, row)->key == KEY_NONE) steady_begin(e, row);
    if (steady_at(e, row)->key == KEY_NONE) return;
    c->kind = COURSE_STEADY;
    c->own_count = 0;
}

/* --- every decision --- */

void replay_start(struct decider *e)
{
    struct takes spare = e->before;
    struct takes spare_ties = e->ties_before;
    bool hold = e->courses_of + 1 == e->number;

    e->before = e->takes;
    e->takes = spare;
    e->takes.count = 0;
    e->ties_before = e->ties;
    e->ties = spare_ties;
    e->ties.count = 0;
    e->keys_same = e->keys_born_read == e->inventory->keys_born;
    e->keys_born_read = e->inventory->keys_born;
    e->nobodys_creating = false;
    for (uint32_t i = 0; i < e->inventory->nobodys.count; i++) {
        const struct bag_item *item = &e->inventory->nobodys.at[i];
        if (item->state == MACHINE_CREATING && item->cohort->count) e->nobodys_creating = true;
    }
    if (!hold) replay_forget(e);
}

void replay_forget(struct decider *e)
{
    for (uint32_t i = 0; i < e->row_count; i++) row_forget(row_at(e, i));
}
