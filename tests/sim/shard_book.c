/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's table: states, marks, revisions, tombstones, and what befalls machines. No I/O: it
 * lives on while the provider's process is dead, as hardware does. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shard_story.h"
#include "wire/pack.h"

enum {
    BYTES_MAX = 1 << 20,
    WAVE_PART = 4,          /* down to one in so many spot machines */
    OTHERS_PART = 4,        /* and of these so many times fewer others */
    SELF_REPAIR_MS = 40000, /* of Failed machines that cannot be deleted */
    /* of Machine */
    FIELD_ID = 1,
    FIELD_STATE = 2,
    FIELD_HOST = 3,
    FIELD_TYPE = 4,
    FIELD_ZONE = 5,
    FIELD_CAPACITY = 6,
    FIELD_PRICE = 7,
    FIELD_INTERRUPTION = 8,
    FIELD_RESOURCES = 9,
    FIELD_ERROR = 12,
    FIELD_CLUSTER = 14,
    /* of MachineList */
    FIELD_MACHINES = 1,
    FIELD_REVISION = 2,
    FIELD_REMOVED = 100,
    FIELD_TOMBSTONES = 101,
    FIELD_MORE = 102,
    FIELD_NEXT_PAGE = 103,
    CAPACITY_BARE = 1,
    CAPACITY_LONG = 2,
    CAPACITY_DEMAND = 3,
    CAPACITY_SPOTTY = 4,
};
const char *const shard_verb_names[VERBS] = {"Create", "Configure", "Drain",
                                             "Delete", "Get",       "List"};
const struct shard_kind shard_kinds[SHARD_KINDS] = {
    {4, {"small", "small-spot"}},
    {8, {"middle", NULL}},
    {16, {"metal", NULL}},
};
static const struct {
    enum shard_state from, passing, final;
} moves[VERB_GET] = {
    [VERB_CREATE] = {STATE_SPECULATIVE, STATE_CREATING, STATE_IDLE},
    [VERB_CONFIGURE] = {STATE_IDLE, STATE_CONFIGURING, STATE_CONFIGURED},
    [VERB_DRAIN] = {STATE_CONFIGURED, STATE_DRAINING, STATE_IDLE},
    [VERB_DELETE] = {STATE_IDLE, STATE_DELETING, STATE_SPECULATIVE},
};

/* -- the table -- */

static void place(struct shard_story *story, struct shard_machine *m, enum shard_state state)
{
    bool bound = state == STATE_CONFIGURING || state == STATE_CONFIGURED ||
                 state == STATE_DRAINING || state == STATE_FAILED;

    bool lost = m->state == STATE_CONFIGURED && state != STATE_DRAINING;

    sim_trace(scenario_sim(story->world), story->provider_host, "machine %s: %d -> %d", m->id,
              (int)m->state, (int)state);
    if (lost) m->lost_by = m->cluster;
    if (lost) m->lost_ms = shard_now_ms(story);
    m->state = state;
    m->since_ms = shard_now_ms(story);
    m->revision = ++story->book.revision;
    m->due_ms = 0;
    if (bound) return;
    m->cluster = -1;
    m->priority = -1;
    buf_clear(&m->metadata);
}

static void add(struct shard_story *story, uint32_t kind, bool spot)
{
    struct shard_book *book = &story->book;
    struct shard_machine *m = &book->machines[book->count];

    if (book->count == SHARD_MACHINES_MAX) return;
    *m = (struct shard_machine){
        .kind = kind, .spot = spot, .cluster = -1, .priority = -1, .lost_by = -1};
    buf_init(&m->metadata, BYTES_MAX);
    m->price =
        (spot ? 0.3 : 1.0) * shard_kinds[kind].cpu / 4 + (double)prng_below(&book->prng, 8) / 16;
    (void)snprintf(m->id, sizeof m->id, "m-%03" PRIu32, book->count);
    book->count++;
    place(story, m, STATE_SPECULATIVE);
}

struct shard_machine *shard_book_find(struct shard_book *book, const char *id)
{
    for (uint32_t i = 0; i < book->count; i++)
        if (!book->machines[i].removed && strcmp(book->machines[i].id, id) == 0)
            return &book->machines[i];
    return NULL;
}

static void draw_settings(struct shard_book *book)
{
    static const uint64_t creates_ms[] = {0, 2000, 30000, 60000};
    struct prng *prng = &book->prng;

    book->complete_ms[VERB_CREATE] = creates_ms[prng_below(prng, ARRAY_LEN(creates_ms))];
    for (enum shard_verb v = VERB_CONFIGURE; v <= VERB_DELETE; v++)
        book->complete_ms[v] = prng_below(prng, 2) ? prng_below(prng, 10000) : 0;
    book->latency_ms_max = prng_below(prng, 3) * 400;
    book->revisions = prng_below(prng, 4) > 0;
    book->tombstones = prng_below(prng, 4) > 0;
    book->page = prng_below(prng, 3) == 0 ? (uint32_t)prng_between(prng, 3, 12) : 0;
    book->streams_max = prng_below(prng, 4) == 0 ? (uint32_t)prng_between(prng, 1, 4) : 0;
    book->no_delete = prng_below(prng, 12) == 0;
    book->failed_can_be_deleted = prng_below(prng, 4) > 0;
}

/* Each kind of trouble is off in half of the worlds. */
static uint32_t some(struct prng *prng, uint32_t per_million_max)
{
    uint32_t drawn = (uint32_t)prng_below(prng, per_million_max);

    return prng_below(prng, 2) ? drawn : 0;
}

static void draw_faults(struct shard_book *book)
{
    struct prng *prng = &book->prng;

    book->faults = (struct shard_provider_faults){
        .fail = some(prng, 200000),
        .refuse = some(prng, 200000),
        .lose = some(prng, 200000),
        .ignore = some(prng, 200000),
        .unknown = some(prng, 200000),
        .garble = some(prng, 100000),
        .late = some(prng, 100000),
        .list_empty = some(prng, 200000),
        .list_twice = some(prng, 20000),
        .list_garbage = some(prng, 50000),
    };
}

void shard_book_open(struct shard_story *story)
{
    struct shard_book *book = &story->book;

    draw_settings(book);
    draw_faults(book);
    for (uint32_t kind = 0; kind < SHARD_KINDS; kind++) {
        uint64_t many = prng_between(&book->prng, 4, 16);

        for (uint64_t i = 0; i < many; i++) add(story, kind, kind == 0 && i % 2);
    }
}

void shard_book_close(struct shard_book *book)
{
    for (uint32_t i = 0; i < book->count; i++) buf_deinit(&book->machines[i].metadata);
}

/* -- what befalls machines -- */

static bool is_passing(enum shard_state state)
{
    return state == STATE_CREATING || state == STATE_CONFIGURING || state == STATE_DRAINING ||
           state == STATE_DELETING;
}

static void end_passing(struct shard_story *story, struct shard_machine *m)
{
    enum shard_verb verb = VERB_CREATE;

    while (moves[verb].passing != m->state) verb++;
    if (story->bug == SHARD_LOST_MACHINE && verb == VERB_CREATE && m->revision % 4 == 0) return;
    if (verb == VERB_CREATE) m->tried = false;
    place(story, m, m->fails ? STATE_FAILED : moves[verb].final);
}

void shard_book_tick(struct shard_story *story)
{
    struct shard_book *book = &story->book;
    uint64_t now = shard_now_ms(story);

    for (uint32_t i = 0; i < book->count; i++) {
        struct shard_machine *m = &book->machines[i];

        if (m->removed) continue;
        if (is_passing(m->state) && m->due_ms <= now) end_passing(story, m);
        if (m->state == STATE_FAILED && !book->failed_can_be_deleted &&
            now - m->since_ms > SELF_REPAIR_MS)
            place(story, m, STATE_SPECULATIVE);
    }
}

static void change_prices(struct shard_book *book)
{
    for (uint32_t i = 0; i < book->count; i++) {
        if (prng_below(&book->prng, 4)) continue;
        book->machines[i].price += 0.125;
        book->machines[i].revision = ++book->revision;
    }
}

void shard_book_wave(struct shard_story *story)
{
    struct shard_book *book = &story->book;
    uint64_t how = prng_below(&book->prng, 4), part = prng_between(&book->prng, 1, WAVE_PART);
    uint32_t count = book->count;

    change_prices(book);
    for (uint32_t i = 0; i < count; i++) {
        struct shard_machine *m = &book->machines[i];

        if (m->removed || prng_below(&book->prng, part)) continue;
        if (!m->spot && prng_below(&book->prng, OTHERS_PART)) continue;
        if (m->state != STATE_IDLE && m->state != STATE_CONFIGURED) continue;
        if (how == 0) {
            place(story, m, STATE_FAILED);
        } else {
            place(story, m, STATE_SPECULATIVE);
        }
        if (how < 2) continue;
        sim_trace(scenario_sim(story->world), story->provider_host, "machine %s is gone", m->id);
        m->removed = true;
        m->removed_at_revision = m->revision;
        add(story, m->kind, m->spot);
    }
}

void shard_book_heal(struct shard_story *story)
{
    story->book.faults = (struct shard_provider_faults){0};
    for (uint32_t i = 0; i < story->book.count; i++) story->book.machines[i].fails = false;
}

/* -- calls -- */

static bool is_newer(const struct shard_machine *m, const struct shard_request *r)
{
    return r->epoch > m->epoch || (r->epoch == m->epoch && r->sequence > m->sequence);
}

static bool may(const struct shard_book *book, const struct shard_machine *m, enum shard_verb verb)
{
    if (verb == VERB_DELETE && m->state == STATE_FAILED) return book->failed_can_be_deleted;
    return m->state == moves[verb].from;
}

static void accept(struct shard_story *story, struct shard_machine *m, struct shard_request *r)
{
    struct shard_book *book = &story->book;
    enum shard_verb verb = r->verb;

    m->operations[verb] = ++book->operations;
    book->accepted[verb]++;
    m->stray = r->stray || (m->stray && verb != VERB_CREATE);
    if (verb == VERB_CONFIGURE) {
        struct buf old = m->metadata;

        m->cluster = r->cluster[1] - '0';
        m->priority = r->priority;
        m->metadata = r->metadata;
        r->metadata = old;
        if (story->bug == SHARD_LOST_METADATA) buf_clear(&m->metadata);
    }
    m->tried = m->tried || verb == VERB_CONFIGURE || verb == VERB_DRAIN;
    m->fails = prng_chance(&book->prng, book->faults.fail);
    place(story, m, moves[verb].passing);
    m->due_ms = m->since_ms + book->complete_ms[verb];
    if (book->complete_ms[verb] == 0) end_passing(story, m);
}

enum shard_take shard_book_take(struct shard_story *story, struct shard_request *r)
{
    struct shard_book *book = &story->book;
    struct shard_machine *m = shard_book_find(book, r->machine);
    enum shard_verb verb = r->verb;
    enum shard_take take = TAKE_ACCEPTED;

    book->calls++;
    r->stray = r->abandoned || (uint64_t)r->epoch < story->epoch;
    shard_judge_token(story, r->epoch, r->sequence);
    if (!m) return TAKE_NOT_FOUND;
    if (!is_newer(m, r) && story->bug != SHARD_NO_FENCES)
        take = TAKE_FENCED;
    else if (verb == VERB_DELETE && book->no_delete)
        take = TAKE_UNSUPPORTED;
    else if (m->operations[verb] &&
             (m->state == moves[verb].passing || m->state == moves[verb].final))
        take = TAKE_REPEATED;
    else if (!may(book, m, verb))
        take = TAKE_WRONG_STATE;
    sim_trace(scenario_sim(story->world), story->provider_host,
              "%s %s %s %" PRId64 "/%" PRId64 ": %d", shard_verb_names[verb], r->machine,
              r->cluster, r->epoch, r->sequence, (int)take);
    if (take == TAKE_ACCEPTED) shard_judge_taken(story, m, r);
    if (take != TAKE_FENCED) {
        m->epoch = r->epoch;
        m->sequence = r->sequence;
    }
    if (take == TAKE_ACCEPTED) accept(story, m, r);
    book->repeated += take == TAKE_REPEATED;
    if (take != TAKE_ACCEPTED && take != TAKE_REPEATED) {
        book->refused++;
        m->trouble_ms = shard_now_ms(story);
    }
    return take;
}

/* -- on the wire -- */

static void pack_amount(struct pack *pack, const char *name, const char *amount,
                        struct buf *scratch)
{
    struct pack entry = pack_begin(scratch);

    pack_text(&entry, 1, str_from(name));
    pack_text(&entry, 2, str_from(amount));
    pack_row(pack, 1, &entry);
}

static uint32_t capacity_of(const struct shard_machine *m)
{
    static const uint32_t kinds[SHARD_KINDS] = {CAPACITY_DEMAND, CAPACITY_LONG, CAPACITY_BARE};

    return m->spot ? CAPACITY_SPOTTY : kinds[m->kind];
}

static bool has_host(enum shard_state state)
{
    return state != STATE_SPECULATIVE && state != STATE_CREATING;
}

void shard_book_pack_machine(const struct shard_machine *m, struct buf *into)
{
    const struct shard_kind *kind = &shard_kinds[m->kind];
    struct pack pack = {into, ERR_OK}, part;
    struct buf scratch, row;
    char text[16];

    buf_init(&scratch, BYTES_MAX);
    buf_init(&row, BYTES_MAX);
    pack_text(&pack, FIELD_ID, str_from(m->id));
    pack_u64(&pack, FIELD_STATE, m->state);
    if (has_host(m->state)) {
        part = pack_begin(&row);
        pack_text(&part, 1, STR("world"));
        pack_text(&part, 2, str_from(m->id));
        pack_row(&pack, FIELD_HOST, &part);
    }
    pack_text(&pack, FIELD_TYPE, str_from(kind->types[m->spot]));
    pack_text(&pack, FIELD_ZONE, STR("z1"));
    pack_u64(&pack, FIELD_CAPACITY, capacity_of(m));
    pack_double(&pack, FIELD_PRICE, m->price);
    if (m->spot) pack_double(&pack, FIELD_INTERRUPTION, 0.05);
    part = pack_begin(&row);
    (void)snprintf(text, sizeof text, "%" PRIu32, kind->cpu);
    pack_amount(&part, "cpu", text, &scratch);
    (void)snprintf(text, sizeof text, "%" PRIu32 "Gi", kind->cpu * 4);
    pack_amount(&part, "memory", text, &scratch);
    pack_row(&pack, FIELD_RESOURCES, &part);
    if (m->state == STATE_FAILED) pack_text(&pack, FIELD_ERROR, STR("by order of the world"));
    if (m->cluster >= 0) {
        (void)snprintf(text, sizeof text, "c%" PRId32, m->cluster);
        pack_text(&pack, FIELD_CLUSTER, str_from(text));
    }
    if (!pack.err) pack.err = buf_append(into, buf_peek(&m->metadata));
    assert(!pack.err);
    buf_deinit(&row);
    buf_deinit(&scratch);
}

void shard_book_pack_ack(const struct shard_machine *m, enum shard_verb verb, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    struct buf record;
    char text[24];

    buf_init(&record, BYTES_MAX);
    shard_book_pack_machine(m, &record);
    (void)snprintf(text, sizeof text, "op-%" PRIu64, m->operations[verb]);
    pack_text(&pack, 1, str_from(text));
    pack_bytes(&pack, 2, buf_peek(&record));
    assert(!pack.err);
    buf_deinit(&record);
}

/* The tail of a page: what is gone, and where the next one begins. */
static void pack_tail(const struct shard_book *book, const struct shard_page *page, uint32_t next,
                      struct pack *pack)
{
    char text[64];

    if (next) {
        (void)snprintf(text, sizeof text, "%" PRIu32 " %" PRIu64 " %" PRIu64, next, page->since,
                       page->at);
        pack_u64(pack, FIELD_MORE, 1);
        pack_text(pack, FIELD_NEXT_PAGE, str_from(text));
    }
    if (!book->revisions) return;
    (void)snprintf(text, sizeof text, "%" PRIu64, page->at);
    pack_text(pack, FIELD_REVISION, str_from(text));
    if (!book->tombstones) return;
    pack_u64(pack, FIELD_TOMBSTONES, 1);
    for (uint32_t i = 0; page->since && i < book->count; i++)
        if (book->machines[i].removed && book->machines[i].removed_at_revision > page->since)
            pack_text(pack, FIELD_REMOVED, str_from(book->machines[i].id));
}

/* A price that is none, after the one that is: of a field given twice the last counts. */
static void spoil(struct buf *record)
{
    struct pack pack = {record, ERR_OK};

    pack_double(&pack, FIELD_PRICE, -1);
    assert(!pack.err);
}

static void pack_records(struct shard_story *story, const struct shard_page *page,
                         uint32_t *ret_next, struct pack *pack)
{
    struct shard_book *book = &story->book;
    uint32_t i, in_page = 0;
    struct buf record;

    buf_init(&record, BYTES_MAX);
    for (i = page->from; i < book->count; i++) {
        struct shard_machine *m = &book->machines[i];

        if (m->removed || m->revision <= page->since) continue;
        if (book->page && in_page == book->page) break;
        in_page++;
        buf_clear(&record);
        shard_book_pack_machine(m, &record);
        if (prng_chance(&book->prng, book->faults.list_garbage)) {
            spoil(&record);
            m->trouble_ms = shard_now_ms(story);
        }
        pack_bytes(pack, FIELD_MACHINES, buf_peek(&record));
        if (prng_chance(&book->prng, book->faults.list_twice))
            pack_bytes(pack, FIELD_MACHINES, buf_peek(&record));
    }
    *ret_next = i < book->count ? i : 0;
    buf_deinit(&record);
}

/* A full one may have nothing in it, which is a mistake. */
void shard_book_pack_list(struct shard_story *story, const struct shard_page *page,
                          struct buf *into)
{
    struct shard_book *book = &story->book;
    bool empty = !page->since && !page->from && !book->was_empty &&
                 prng_chance(&book->prng, book->faults.list_empty);
    struct pack pack = {into, ERR_OK};
    uint32_t next = 0;

    if (!empty) pack_records(story, page, &next, &pack);
    pack_tail(book, page, next, &pack);
    if (!page->from) book->was_empty = empty;
    assert(!pack.err);
}
