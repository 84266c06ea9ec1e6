/* SPDX-License-Identifier: Apache-2.0 */
/* What the provider was asked to do, beside what operators have said: see shard_story.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shard_story.h"

enum { STEADY_AFTER_MS = 15000 };

/* -- what an honest shard may believe -- */

/* The first saying that is not known to be superseded for so long. */
static uint32_t first_believed(const struct shard_operator *op, uint64_t for_ms)
{
    uint64_t now = shard_now_ms(op->story);
    uint32_t first = 0;

    for (uint32_t i = 0; i < op->saying_count; i++) {
        uint64_t acked = op->sayings[i].acked_ms;

        if (acked && now - acked > for_ms) first = i;
    }
    return first;
}

/* The most that each of its Needs was, together: what was begun for one does not serve another that
 * came in its place. */
static uint32_t most_wanted(const struct shard_operator *op, uint32_t kind, uint64_t for_ms)
{
    uint32_t sum = 0;

    for (uint32_t n = 0; n < op->need_count; n++) {
        uint32_t most = 0;

        if (op->needs[n].kind != kind) continue;
        for (uint32_t i = first_believed(op, for_ms); i < op->saying_count; i++)
            most = op->sayings[i].units[n] > most ? op->sayings[i].units[n] : most;
        sum += most;
    }
    return sum;
}

static uint32_t least_wanted(const struct shard_operator *op, uint32_t kind)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = first_believed(op, SHARD_BELIEF_MS); i < op->saying_count; i++) {
        uint32_t sum = 0;

        for (uint32_t n = 0; n < op->need_count; n++)
            if (op->needs[n].kind == kind) sum += op->sayings[i].units[n];
        least = sum < least ? sum : least;
    }
    return op->saying_count ? least : 0;
}

/* Somebody may want a machine of this kind with more than this priority. */
static bool is_outbid(const struct shard_story *story, uint32_t kind, int32_t priority)
{
    for (uint32_t c = 0; c < SHARD_OPERATORS; c++) {
        const struct shard_operator *op = &story->operators[c];

        for (uint32_t n = 0; n < op->need_count; n++) {
            if (op->needs[n].kind != kind || op->needs[n].priority <= priority) continue;
            for (uint32_t i = first_believed(op, SHARD_BELIEF_MS); i < op->saying_count; i++)
                if (op->sayings[i].units[n]) return true;
        }
    }
    return false;
}

static bool was_heard_by(const struct shard_operator *op, uint64_t epoch)
{
    for (uint32_t i = op->saying_count; i > 0; i--)
        if (op->sayings[i - 1].epoch == epoch) return true;
    return false;
}

/* -- what there is -- */

static bool is_recent(const struct shard_story *story, uint64_t ms, uint64_t within_ms)
{
    return ms && shard_now_ms(story) - ms <= within_ms;
}

/* A machine the shard certainly knows as what it is. */
static bool is_sure(const struct shard_story *story, const struct shard_machine *m)
{
    return !m->removed && !m->stray && !is_recent(story, m->trouble_ms, SHARD_TROUBLE_MS);
}

static bool serves(const struct shard_machine *m, uint32_t cluster, uint32_t kind)
{
    return !m->removed && m->kind == kind && m->cluster == (int32_t)cluster &&
           (m->state == STATE_CONFIGURING || m->state == STATE_CONFIGURED);
}

static uint32_t serving(const struct shard_story *story, uint32_t cluster, uint32_t kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->book.count; i++)
        count += serves(&story->book.machines[i], cluster, kind);
    return count;
}

/* Those that no shard can take for anything else. One that is too many, or outbid, may have been
 * drained by a call that never came. */
static uint32_t surely_serving(const struct shard_story *story, uint32_t cluster, uint32_t kind)
{
    uint32_t count = 0, least = least_wanted(&story->operators[cluster], kind);

    for (uint32_t i = 0; i < story->book.count; i++) {
        const struct shard_machine *m = &story->book.machines[i];

        count +=
            serves(m, cluster, kind) && is_sure(story, m) && !is_outbid(story, kind, m->priority);
    }
    return count < least ? count : least;
}

/* Taken away by nobody's wish, and perhaps not yet known. */
static uint32_t lost_lately(const struct shard_story *story, uint32_t cluster, uint32_t kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->book.count; i++) {
        const struct shard_machine *m = &story->book.machines[i];

        count += m->kind == kind && m->lost_by == (int32_t)cluster &&
                 is_recent(story, m->lost_ms, SHARD_BELIEF_MS);
    }
    return count;
}

/* Idle for so long that it may be given back: the hosts' clocks may run a little fast. */
static bool hold_is_over(const struct shard_story *story, const struct shard_machine *m)
{
    uint64_t hold = m->spot ? story->settings.hold_spot_ms : story->settings.hold_on_demand_ms;

    return m->kind == 0 && shard_now_ms(story) - m->since_ms >= hold - hold / 10;
}

/* Bought and not yet given to anybody. */
static bool is_coming(const struct shard_story *story, const struct shard_machine *m)
{
    if (m->state == STATE_IDLE) return !m->tried && !hold_is_over(story, m);
    return m->state == STATE_CREATING;
}

/* -- what was asked for -- */

void shard_judge_token(struct shard_story *story, int64_t epoch, int64_t sequence)
{
    int64_t token[2] = {epoch, sequence};
    struct str key = str_of((const char *)token, sizeof token);
    int64_t *kept;

    if (map_get(&story->tokens, key)) {
        shard_wrong(story, "the token %" PRId64 "/%" PRId64 " came twice", epoch, sequence);
        return;
    }
    kept = malloc(sizeof token);
    assert(kept);
    memcpy(kept, token, sizeof token);
    if (map_put(&story->tokens, str_of((const char *)kept, sizeof token), kept)) {
        free(kept);
        shard_wrong(story, "no memory for a token");
    }
}

static void judge_create(struct shard_story *story, const struct shard_machine *machine)
{
    /* What is being created is bound to its Need until it is seen to be Idle. */
    uint64_t for_ms = story->book.complete_ms[VERB_CREATE] + 2 * SHARD_BELIEF_MS;
    uint32_t lacking = 0, coming = 0;

    for (uint32_t c = 0; c < SHARD_OPERATORS; c++) {
        uint32_t most = most_wanted(&story->operators[c], machine->kind, for_ms);
        uint32_t has = surely_serving(story, c, machine->kind);

        lacking += most > has ? most - has : 0;
    }
    for (uint32_t i = 0; i < story->book.count; i++) {
        const struct shard_machine *m = &story->book.machines[i];

        coming += m->kind == machine->kind && is_sure(story, m) && is_coming(story, m);
    }
    if (coming >= lacking)
        shard_wrong(story,
                    "%s is bought: %" PRIu32 " of its kind are lacking, %" PRIu32 " are coming",
                    machine->id, lacking, coming);
}

static void judge_blob(struct shard_story *story, const struct shard_request *r, uint32_t cluster)
{
    struct shard_blob *blob = r->blob ? &story->blobs[r->blob - 1] : NULL;

    if (!blob || r->blob > story->blob_count) {
        shard_wrong(story, "%s is configured with a blob that nobody gave", r->machine);
        return;
    }
    if (blob->used || blob->cluster != cluster)
        shard_wrong(story, "%s is configured for %s with a blob of c%" PRIu32 "%s", r->machine,
                    r->cluster, blob->cluster, blob->used ? " that was used" : "");
    blob->used = true;
}

static void judge_configure(struct shard_story *story, const struct shard_machine *machine,
                            const struct shard_request *r)
{
    uint32_t cluster = (uint32_t)(r->cluster[1] - '0'), has, most;
    const struct shard_operator *op = &story->operators[cluster];
    bool stamped = false;

    if (r->cluster[0] != 'c' || cluster >= SHARD_OPERATORS) {
        shard_wrong(story, "%s is configured for %s", machine->id, r->cluster);
        return;
    }
    judge_blob(story, r, cluster);
    for (uint32_t i = 0; i < op->need_count; i++)
        stamped =
            stamped || (op->needs[i].kind == machine->kind && op->needs[i].priority == r->priority);
    if (!stamped)
        shard_wrong(story, "%s is stamped with the priority %" PRId32 ", which %s never asked for",
                    machine->id, r->priority, op->cluster);
    if (r->stray) return;
    most = most_wanted(op, machine->kind, SHARD_BELIEF_MS);
    has = surely_serving(story, cluster, machine->kind);
    if (has >= most)
        shard_wrong(story, "%s is given to %s, which has %" PRIu32 " of at most %" PRIu32,
                    machine->id, op->cluster, has, most);
}

/* Machines that may be on their way to anybody, as far as the shard knows. */
static uint32_t hoped_for(const struct shard_story *story, uint32_t kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->book.count; i++) {
        const struct shard_machine *m = &story->book.machines[i];

        count += !m->removed && m->kind == kind && (!is_sure(story, m) || is_coming(story, m));
    }
    return count;
}

/* Blobs that were asked for: a machine each that may come. */
static uint32_t asked_lately(const struct shard_operator *op)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SHARD_ASKED_KEPT; i++)
        count += is_recent(op->story, op->asked_ms[i], SHARD_BELIEF_MS);
    return count;
}

/* Its operator has the reclaim of this start, heard nothing else since, and is still at it. */
static bool is_drained_too_early(struct shard_story *story, struct shard_operator *op,
                                 const struct shard_machine *machine, const struct shard_request *r)
{
    const struct shard_reclaim *sent = &op->reclaims[machine - story->book.machines];

    shard_operator_look(op);
    return story->talk.reports_drains && sent->sent_ms && sent->epoch == (uint64_t)r->epoch &&
           op->cut_ms < sent->sent_ms && !sent->drained &&
           shard_now_ms(story) < sent->sent_ms + sent->grace_ms;
}

static void judge_drain(struct shard_story *story, const struct shard_machine *machine,
                        const struct shard_request *r)
{
    uint32_t cluster = (uint32_t)machine->cluster, kind = machine->kind, has;
    struct shard_operator *op = &story->operators[cluster];

    if (is_drained_too_early(story, op, machine, r))
        shard_wrong(story, "%s is drained before %s has drained it", machine->id, op->cluster);
    if (is_outbid(story, kind, machine->priority)) return;
    if (!was_heard_by(op, (uint64_t)r->epoch))
        shard_wrong(story, "%s is drained of %s, which the start %" PRId64 " has not heard",
                    machine->id, op->cluster, r->epoch);
    if (is_recent(story, op->cut_ms, SHARD_BELIEF_MS)) return; /* who knows what it was asked */
    has = serving(story, cluster, kind) + lost_lately(story, cluster, kind) +
          hoped_for(story, kind) + asked_lately(op);
    if (has <= least_wanted(op, kind))
        shard_wrong(story,
                    "%s is drained of %s, which has %" PRIu32 " at most and wants %" PRIu32
                    " at least, and nobody outbids %" PRId32,
                    machine->id, op->cluster, has, least_wanted(op, kind), machine->priority);
}

static void judge_delete(struct shard_story *story, const struct shard_machine *machine)
{
    if (machine->state == STATE_IDLE && !hold_is_over(story, machine))
        shard_wrong(story, "%s is given back after %" PRIu64 " ms", machine->id,
                    shard_now_ms(story) - machine->since_ms);
}

void shard_judge_taken(struct shard_story *story, const struct shard_machine *machine,
                       const struct shard_request *r)
{
    if (r->epoch < machine->epoch ||
        (r->epoch == machine->epoch && r->sequence <= machine->sequence))
        shard_wrong(story, "%s: %" PRId64 "/%" PRId64 " was let through after %" PRId64 "/%" PRId64,
                    machine->id, r->epoch, r->sequence, machine->epoch, machine->sequence);
    if (story->settings.paused)
        shard_wrong(story, "%s of %s while it is paused", shard_verb_names[r->verb], machine->id);
    if (story->steady)
        shard_wrong(story, "%s of %s, when everything was as it should be",
                    shard_verb_names[r->verb], machine->id);
    if (r->verb == VERB_CONFIGURE) judge_configure(story, machine, r);
    if (r->stray) return;
    if (r->verb == VERB_CREATE) judge_create(story, machine);
    if (machine->stray) return; /* what another did to it may be a surprise */
    if (r->verb == VERB_DRAIN) judge_drain(story, machine, r);
    if (r->verb == VERB_DELETE) judge_delete(story, machine);
}

/* -- the end -- */

struct standing { /* of one kind of machine */
    uint32_t kind, supply;
    uint32_t has[SHARD_OPERATORS], wants[SHARD_OPERATORS];
};

/* Units of its Needs with at least this priority. */
static uint32_t wanted_from(const struct shard_operator *op, uint32_t kind, int32_t priority)
{
    uint32_t units = 0;

    for (uint32_t i = 0; i < op->need_count; i++)
        if (op->needs[i].kind == kind && op->needs[i].priority >= priority)
            units += op->needs[i].units;
    return units;
}

/* Machines of a cluster whose stamp does not protect them from this priority. */
static uint32_t exposed(const struct shard_story *story, uint32_t cluster, uint32_t kind,
                        int32_t priority)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->book.count; i++) {
        const struct shard_machine *m = &story->book.machines[i];

        count += serves(m, cluster, kind) && m->priority < priority;
    }
    return count;
}

/* A Need that lacks something, while others keep more machines of less priority than they have
 * Needs of as much: one of these is claimed by less and stamped with less. */
static bool is_priority_respected(const struct shard_story *story, const struct standing *s,
                                  struct note *why)
{
    for (uint32_t c = 0; c < SHARD_OPERATORS; c++)
        for (uint32_t n = 0; n < story->operators[c].need_count; n++) {
            const struct shard_need *need = &story->operators[c].needs[n];

            if (need->kind != s->kind || !need->units) continue;
            if (s->has[c] >= wanted_from(&story->operators[c], s->kind, need->priority)) continue;
            for (uint32_t d = 0; d < SHARD_OPERATORS; d++) {
                if (d == c || exposed(story, d, s->kind, need->priority) <=
                                  wanted_from(&story->operators[d], s->kind, need->priority))
                    continue;
                note_set(why,
                         "c%" PRIu32 " lacks machines at priority %" PRId32 ", and c%" PRIu32
                         " keeps some for less",
                         c, need->priority, d);
                return false;
            }
        }
    return true;
}

static bool is_in_place(const struct shard_story *story, uint32_t number, struct standing *s,
                        struct note *why)
{
    const struct shard_machine *m = &story->book.machines[number];
    bool may_rest = s->kind > 0 || story->book.no_delete;
    bool helpless = story->book.no_delete && story->book.failed_can_be_deleted;

    if (m->removed || m->kind != s->kind) return true;
    if (m->state == STATE_FAILED && helpless) return true;
    s->supply++;
    if (m->state == STATE_CONFIGURED) {
        s->has[m->cluster]++;
        if (story->operators[m->cluster].heard_states[number] == STATE_CONFIGURED) return true;
        note_set(why, "c%" PRId32 " did not hear of %s", m->cluster, m->id);
        return false;
    }
    if (m->state == STATE_SPECULATIVE || (m->state == STATE_IDLE && may_rest)) return true;
    note_set(why, "%s is %d", m->id, (int)m->state);
    return false;
}

static bool kind_is_settled(const struct shard_story *story, uint32_t kind, struct note *why)
{
    struct standing s = {.kind = kind};
    uint32_t all_has = 0, all_wants = 0;

    for (uint32_t i = 0; i < story->book.count; i++)
        if (!is_in_place(story, i, &s, why)) return false;
    for (uint32_t c = 0; c < SHARD_OPERATORS; c++) {
        s.wants[c] = wanted_from(&story->operators[c], kind, INT32_MIN);
        all_has += s.has[c];
        all_wants += s.wants[c];
        if (s.has[c] <= s.wants[c]) continue;
        note_set(why, "c%" PRIu32 " has %" PRIu32 " of kind %" PRIu32 " and wants %" PRIu32, c,
                 s.has[c], kind, s.wants[c]);
        return false;
    }
    if (all_has != (all_wants < s.supply ? all_wants : s.supply)) {
        note_set(why,
                 "%" PRIu32 " machines of kind %" PRIu32 " serve, of %" PRIu32
                 " that are wanted and %" PRIu32 " that there are",
                 all_has, kind, all_wants, s.supply);
        return false;
    }
    return is_priority_respected(story, &s, why);
}

bool shard_judge_is_over(struct shard_story *story)
{
    uint64_t now = shard_now_ms(story);
    struct note why = {""};
    bool settled = true;

    for (uint32_t kind = 0; settled && kind < SHARD_KINDS; kind++)
        settled = kind_is_settled(story, kind, &why);
    if (!settled) {
        story->why_not = why;
        story->settled_ms = 0;
        if (story->steady) shard_wrong(story, "it was as it should be, and then: %s", why.text);
        return false;
    }
    if (!story->settled_ms) story->settled_ms = now;
    story->steady = now - story->settled_ms > STEADY_AFTER_MS;
    return now - story->settled_ms > SHARD_STEADY_MS;
}
