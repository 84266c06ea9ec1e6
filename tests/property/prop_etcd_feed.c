/* SPDX-License-Identifier: Apache-2.0 */
/* Random writes, watches, blocked streams, compactions and restores against a plain list of all
 * changes. Every watch receives exactly the changes of the list, in order, each revision in one
 * response (U01-U06, U08, U09, U13). A progress response never overtakes an event (U11). Only a
 * compaction past a watch cancels it (U03). Created answers keep the order of requests (U07). */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"
#include "sim/sim.h"
#include "store/etcd/feed.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

/* -- requests of clients -- */

struct feed_create {
    struct key_range range; /* `from` is not empty */
    int64_t start_revision, id;
    bool prev_kv, no_put, no_delete, fragment, progress_notify;
};

static ProtobufCBinaryData bytes_from(struct str s)
{
    return (ProtobufCBinaryData){s.len, (uint8_t *)(uintptr_t)s.at};
}

static const char *may_watch(void *, struct key_range)
{
    return NULL;
}

static void feed_create(struct feed_stream *stream, const struct feed_create *create)
{
    Etcdserverpb__WatchCreateRequest__FilterType filters[2];
    Etcdserverpb__WatchCreateRequest m = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;

    m.key = bytes_from(create->range.from);
    m.range_end = bytes_from(create->range.end);
    m.start_revision = create->start_revision;
    m.watch_id = create->id;
    m.prev_kv = create->prev_kv;
    m.fragment = create->fragment;
    m.progress_notify = create->progress_notify;
    m.filters = filters;
    if (create->no_put)
        filters[m.n_filters++] = ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
    if (create->no_delete)
        filters[m.n_filters++] = ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &m;
    feed_request(stream, &request, may_watch, NULL);
}

static void feed_cancel(struct feed_stream *stream, int64_t id)
{
    Etcdserverpb__WatchCancelRequest m = ETCDSERVERPB__WATCH_CANCEL_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;

    m.watch_id = id;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &m;
    feed_request(stream, &request, may_watch, NULL);
}

enum {
    WORLDS = 12,
    STEPS = 2500,
    STREAMS = 6,
    WATCHES = 400, /* of one world, ended ones too */
    CHANGES = 60000,
    KEY_NAMES = 24,
    ASKED = 64,
};

struct made {
    uint64_t revision, prev_mod;
    bool put, had;
    uint32_t key, value, prev_value;
};
struct watching { /* the client's view of a watch */
    bool used, created, over, fragment, prev_kv, no_put, no_delete, was_blocked;
    bool in_fragment; /* the last response was a fragment */
    int64_t id;
    uint64_t start; /* the first revision of which the watch gets events */
    uint64_t asked_start;
    char from[8], end[8];
    size_t at, last_index; /* index in the list: the next change to receive */
};
struct client {
    struct feed_stream stream;
    bool open, blocked;
    struct watching
        *asked[ASKED]; /* watches whose created answers are pending, in order; NULL: refused */
    bool asked_cancel[ASKED];
    int64_t asked_id[ASKED];
    size_t asked_first, asked_count;
    uint64_t progress_asked, progress_received;
};
static struct {
    struct prng p;
    struct sim *sim;
    struct io *io;
    struct store_machine *machine, *twin; /* nobody watches the twin, which is sometimes ahead */
    struct state_machine ops, twin_ops;
    bool lags; /* the machine is not reported */
    bool random_blocks;
    struct watch_engine *engine;
    struct feed *feed;
    uint64_t index, clock_ns, revision, compacted;
    struct made *changes;
    size_t count;
    struct {
        bool there;
        uint32_t value;
        uint64_t mod;
    } keys[KEY_NAMES];
    struct client clients[STREAMS];
    struct watching watches[WATCHES];
    size_t watch_count;
    uint64_t events, fragments, cancels, progresses;
    struct buf command, reply;
} w;

static void key_name(uint32_t key, char name[8])
{
    (void)snprintf(name, 8, "%c%u", (char)('a' + key / 8), (unsigned)(key % 8));
}

/* -- expected events, from the list -- */

static bool in_range(const struct watching *l, uint32_t key)
{
    char name[8];

    key_name(key, name);
    if (l->end[0] == '\0' && l->end[1] == '\0') return strcmp(name, l->from) == 0;
    if (strcmp(name, l->from) < 0) return false;
    return l->end[0] == '\0' || strcmp(name, l->end) < 0; /* "\0x": all from there on */
}

static bool matches(const struct watching *l, const struct made *c)
{
    if (c->revision < l->start || !in_range(l, c->key)) return false;
    return c->put ? !l->no_put : !l->no_delete;
}

static size_t next_match(const struct watching *l, size_t at)
{
    while (at < w.count && !matches(l, &w.changes[at])) at++;
    return at;
}

/* The watch has received everything up to the revision. */
static bool received_up_to(const struct watching *l, uint64_t revision)
{
    size_t next = next_match(l, l->at);

    return next == w.count || w.changes[next].revision > revision;
}

/* -- sent messages -- */

static struct watching *watch_of(const struct client *c, int64_t id)
{
    for (size_t i = w.watch_count; i > 0; i--) {
        struct watching *l = &w.watches[i - 1];
        if (l->used && l->created && !l->over && l->id == id &&
            (size_t)(c - w.clients) == l->last_index)
            return l;
    }
    return NULL;
}

static void on_events(struct watching *l, const Etcdserverpb__WatchResponse *m)
{
    uint64_t revision = 0;
    size_t revisions = 0;

    for (size_t i = 0; i < m->n_events; i++) {
        const Mvccpb__Event *e = m->events[i];
        size_t next = next_match(l, l->at);
        char name[8], value[16];

        CHECK("an event that happened", next < w.count);
        const struct made *c = &w.changes[next];
        key_name(c->key, name);
        CHECK_STR("its key", str_of(e->kv->key.data, e->kv->key.len), str_from(name));
        CHECK_I64("its revision", e->kv->mod_revision, (int64_t)c->revision);
        CHECK("its type", (e->type == MVCCPB__EVENT__EVENT_TYPE__PUT) == c->put);
        (void)snprintf(value, sizeof value, "%u", (unsigned)c->value);
        CHECK_STR("its value", str_of(e->kv->value.data, e->kv->value.len),
                  c->put ? str_from(value) : STR_EMPTY);
        CHECK("a put has a version, a deletion none", (e->kv->version > 0) == c->put);
        if (!l->prev_kv || !c->had) {
            CHECK("no pair before", !e->prev_kv);
        } else if (c->revision > w.compacted || e->prev_kv) {
            CHECK("U05 the pair before is there", e->prev_kv != NULL);
            (void)snprintf(value, sizeof value, "%u", (unsigned)c->prev_value);
            CHECK_STR("the value before", str_of(e->prev_kv->value.data, e->prev_kv->value.len),
                      str_from(value));
            CHECK_I64("when it was", e->prev_kv->mod_revision, (int64_t)c->prev_mod);
        }
        revisions += c->revision != revision;
        revision = c->revision;
        l->at = next + 1;
        w.events++;
    }
    CHECK("at most 1,000 revisions", revisions <= 1000);
    CHECK("the header is not behind its events", (uint64_t)m->header->revision >= revision);
    l->in_fragment = m->fragment;
    w.fragments += m->fragment != 0;
    if (m->fragment) {
        CHECK("only a watch that asked for fragments gets them", l->fragment);
        return;
    }
    size_t next = next_match(l, l->at);
    CHECK("a revision is in one response", next == w.count || w.changes[next].revision > revision);
}

static void on_created(struct client *c, const Etcdserverpb__WatchResponse *m)
{
    CHECK("it was asked for", c->asked_count > 0);
    struct watching *l = c->asked[c->asked_first];

    CHECK("in the order asked", !c->asked_cancel[c->asked_first]);
    CHECK("refused or not", (l == NULL) == m->canceled);
    CHECK_I64("the id", m->watch_id, l ? c->asked_id[c->asked_first] : -1);
    if (l) l->created = true;
    if (l) l->id = m->watch_id;
    if (l && !l->asked_start)
        CHECK_I64("from the revision after it", m->header->revision + 1, (int64_t)l->start);
    c->asked_first = (c->asked_first + 1) % ASKED;
    c->asked_count--;
}

static void on_progress(struct client *c, struct watching *one, uint64_t revision)
{
    CHECK("of now", revision == w.revision);
    for (size_t i = 0; i < w.watch_count; i++) {
        const struct watching *l = &w.watches[i];
        if (!l->used || l->over || l->last_index != (size_t)(c - w.clients)) continue;
        if (one && l != one) continue;
        CHECK("U11 progress does not overtake an event", received_up_to(l, revision));
        CHECK("U04 no progress before a start to come", l->asked_start <= revision);
        CHECK("not inside a fragmented revision", !l->in_fragment);
    }
    w.progresses++;
}

static enum err on_send(struct feed_stream *stream, struct str bytes, bool must)
{
    struct client *c = CONTAINER_OF(stream, struct client, stream);
    Etcdserverpb__WatchResponse *m;
    struct watching *l;

    if (w.random_blocks && prng_chance(&w.p, 30000)) c->blocked = true;
    if (c->blocked && !must) return ERR_FULL;
    m = etcdserverpb__watch_response__unpack(NULL, bytes.len, (const uint8_t *)bytes.at);
    CHECK("it can be read", m && m->header);
    l = m->created ? NULL : watch_of(c, m->watch_id);
    if (m->created) {
        on_created(c, m);
    } else if (m->canceled && c->asked_count && c->asked_cancel[c->asked_first] &&
               c->asked_id[c->asked_first] == m->watch_id && !m->compact_revision) {
        c->asked_first = (c->asked_first + 1) % ASKED;
        c->asked_count--;
    } else if (m->canceled) {
        CHECK("of a watch", l != NULL);
        CHECK_I64("up to the compacted revision", m->compact_revision, (int64_t)w.compacted);
        CHECK("without a reason", !m->cancel_reason[0]);
        CHECK("U03 compaction passed it",
              !received_up_to(l, w.compacted - 1) || l->start < w.compacted || l->was_blocked);
        l->over = true;
        w.cancels++;
    } else if (m->n_events) {
        CHECK("events of a watch that is there", l != NULL);
        on_events(l, m);
    } else if (m->watch_id == -1) {
        CHECK("it was asked for", c->progress_received < c->progress_asked);
        c->progress_received = c->progress_asked;
        on_progress(c, NULL, (uint64_t)m->header->revision);
    } else {
        CHECK("of a watch", l != NULL);
        on_progress(c, l, (uint64_t)m->header->revision);
    }
    etcdserverpb__watch_response__free_unpacked(m, NULL);
    return ERR_OK;
}

static void on_broken(struct feed_stream *stream, enum err err)
{
    (void)stream;
    CHECK_OK("no stream breaks", err);
}

static void header(void *owner, struct pack *into, uint64_t revision)
{
    char room[32];
    struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct pack head = {&small, ERR_OK};

    (void)owner;
    pack_u64(&head, 3, revision);
    pack_row(into, 1, &head);
}

/* -- the store -- */

static void on_applied(void *owner, struct key_changes changes)
{
    (void)owner;
    watch_engine_applied(w.engine, changes);
}

static void on_restored(void *owner)
{
    (void)owner;
    watch_engine_restored(w.engine);
}

static void note_change(uint32_t key, bool put, uint32_t value, uint64_t revision)
{
    CHECK("room in the list", w.count < CHANGES);
    w.changes[w.count++] = (struct made){.revision = revision,
                                         .put = put,
                                         .key = key,
                                         .value = value,
                                         .had = w.keys[key].there,
                                         .prev_value = w.keys[key].value,
                                         .prev_mod = w.keys[key].mod};
    w.keys[key].there = put;
    w.keys[key].value = value;
    w.keys[key].mod = revision;
}

/* Applies the first part of a command that has several parts. */
static void apply_begin(const struct store_command *command)
{
    buf_clear(&w.command);
    buf_clear(&w.reply);
    CHECK_OK("write", store_command_write(command, &w.command));
    struct machine_entry entry = {.index = ++w.index,
                                  .term = 1,
                                  .clock_ns = ++w.clock_ns,
                                  .version = 1,
                                  .level = 1,
                                  .command = buf_peek(&w.command)};
    if (w.twin) CHECK_OK("known", w.twin_ops.ops->apply(w.twin_ops.state, &entry, &w.reply, NULL));
    while (w.twin && w.twin_ops.ops->apply_more(w.twin_ops.state, &w.reply)) {}
    if (w.lags) return;
    CHECK_OK("known", w.ops.ops->apply(w.ops.state, &entry, &w.reply, NULL));
}

static void apply(const struct store_command *command)
{
    apply_begin(command);
    if (w.lags) return;
    while (w.ops.ops->apply_more(w.ops.state, &w.reply)) {}
    CHECK_U64("the store's revision", keys_revision(store_keys(store_machine_store(w.machine))),
              w.revision);
}

static void do_put(void)
{
    uint32_t key = (uint32_t)prng_below(&w.p, KEY_NAMES), value = (uint32_t)prng_u64(&w.p);
    char name[8], text[16];

    key_name(key, name);
    (void)snprintf(text, sizeof text, "%u", (unsigned)value);
    note_change(key, true, value, ++w.revision);
    apply(
        &(struct store_command){.kind = STORE_PUT, .key = str_from(name), .value = str_from(text)});
}

static void do_delete(void)
{
    uint32_t a = (uint32_t)prng_below(&w.p, KEY_NAMES), b = (uint32_t)prng_below(&w.p, KEY_NAMES);
    char from[8], end[8];
    bool some = false;

    if (a >= b) return;
    for (uint32_t i = a; i < b; i++) some = some || w.keys[i].there;
    w.revision += some;
    for (uint32_t i = a; i < b; i++)
        if (w.keys[i].there) note_change(i, false, 0, w.revision);
    key_name(a, from);
    key_name(b, end);
    apply(&(struct store_command){
        .kind = STORE_DELETE_RANGE, .key = str_from(from), .range_end = str_from(end)});
}

static void do_compact(void)
{
    if (w.revision - w.compacted < 2) return;
    w.compacted += 1 + prng_below(&w.p, w.revision - w.compacted);
    apply(&(struct store_command){.kind = STORE_COMPACT, .expected = w.compacted});
}

/* Restores a snapshot of another replica, which may be ahead of this one. */
static void do_restore(void)
{
    struct state_machine from = w.twin ? w.twin_ops : w.ops;
    struct note note = {""};
    struct buf bytes;
    void *view;
    bool done = false;

    buf_init(&bytes, 64 << 20);
    w.lags = w.twin != NULL;
    for (uint64_t i = w.twin ? prng_below(&w.p, 12) : 0; i > 0; i--)
        if (prng_chance(&w.p, 800000))
            do_put();
        else
            do_delete();
    w.lags = false;
    CHECK_OK("a snapshot", from.ops->snapshot_begin(from.state, w.index, &view));
    while (!done) CHECK_OK("more", from.ops->snapshot_next(view, 1 << 20, &bytes, &done));
    from.ops->snapshot_end(view);
    CHECK_OK("restore", w.ops.ops->restore_begin(w.ops.state, w.index, &note));
    CHECK_OK("restore", w.ops.ops->restore_next(w.ops.state, buf_peek(&bytes), &note));
    CHECK_OK("restore", w.ops.ops->restore_end(w.ops.state, &note));
    buf_deinit(&bytes);
}

/* -- the clients -- */

static struct client *any_client(void)
{
    struct client *c = &w.clients[prng_below(&w.p, STREAMS)];

    if (c->open) return c;
    memset(c, 0, sizeof *c);
    feed_stream_init(w.feed, &c->stream);
    c->open = true;
    return c;
}

static void ask(struct client *c, struct watching *l, bool cancel, int64_t id)
{
    size_t at = (c->asked_first + c->asked_count++) % ASKED;

    CHECK("room for the request", c->asked_count <= ASKED);
    c->asked[at] = l;
    c->asked_cancel[at] = cancel;
    c->asked_id[at] = id;
}

static bool in_use(const struct client *c, int64_t id)
{
    for (size_t i = 0; i < w.watch_count; i++)
        if (w.watches[i].used && !w.watches[i].over && w.watches[i].id == id &&
            w.watches[i].last_index == (size_t)(c - w.clients))
            return true;
    return false;
}

static void do_watch(void)
{
    struct client *c = any_client();
    uint64_t die = prng_below(&w.p, 100), start = 0;
    struct watching *l = &w.watches[w.watch_count];
    struct feed_create create = {0};
    uint32_t a = (uint32_t)prng_below(&w.p, KEY_NAMES);
    bool refused = false;

    if (w.watch_count == WATCHES || c->asked_count + 4 > ASKED) return;
    memset(l, 0, sizeof *l);
    key_name(a, l->from);
    if (die < 20) { /* one key */
        create.range = (struct key_range){str_from(l->from), STR_EMPTY};
    } else if (die < 50) { /* a front */
        l->from[1] = '\0';
        l->end[0] = (char)(l->from[0] + 1);
        create.range = (struct key_range){str_from(l->from), str_from(l->end)};
    } else if (die < 65) { /* everything from there on */
        l->end[1] = 'x';
        create.range = (struct key_range){str_from(l->from), str_of("", 1)};
    } else { /* any two ends, sometimes in reverse order */
        key_name((uint32_t)prng_below(&w.p, KEY_NAMES), l->end);
        refused = strcmp(l->from, l->end) >= 0;
        create.range = (struct key_range){str_from(l->from), str_from(l->end)};
    }
    if (prng_chance(&w.p, 600000)) start = 1 + prng_below(&w.p, w.revision + 8);
    if (prng_chance(&w.p, 20000)) create.start_revision = INT64_MIN;
    refused = refused || create.start_revision < 0;
    if (!refused) create.start_revision = (int64_t)start;
    l->asked_start = start;
    l->start = start ? start : w.revision + 1;
    l->prev_kv = create.prev_kv = prng_chance(&w.p, 500000);
    l->no_put = create.no_put = prng_chance(&w.p, 100000);
    l->no_delete = create.no_delete = prng_chance(&w.p, 100000);
    l->fragment = create.fragment = prng_chance(&w.p, 300000);
    create.progress_notify = prng_chance(&w.p, 300000);
    if (prng_chance(&w.p, 300000)) create.id = (int64_t)prng_below(&w.p, 8) - 9;
    refused = refused || (create.id && in_use(c, create.id));
    l->last_index = (size_t)(c - w.clients); /* index of its client */
    if (!refused) {
        int64_t id = create.id, next = c->stream.next_id;

        while (!create.id && in_use(c, next)) next++;
        if (!create.id) id = next;
        l->used = true;
        l->id = id;
        w.watch_count++;
        ask(c, l, false, id);
    } else {
        ask(c, NULL, false, -1);
    }
    feed_create(&c->stream, &create);
}

static void do_cancel(void)
{
    struct client *c = any_client();
    struct watching *l = w.watch_count ? &w.watches[prng_below(&w.p, w.watch_count)] : NULL;

    if (c->asked_count + 4 > ASKED) return;
    if (!l || l->over || l->last_index != (size_t)(c - w.clients)) {
        feed_cancel(&c->stream, 12345); /* silence */
        return;
    }
    ask(c, NULL, true, l->id);
    /* A pending created answer is sent before the answer to this cancel. */
    l->over = true;
    feed_cancel(&c->stream, l->id);
}

static void unblock(struct client *c)
{
    c->blocked = false;
    watch_stream_writable(&c->stream.base);
}

static void do_stream(void)
{
    struct client *c = &w.clients[prng_below(&w.p, STREAMS)];

    if (!c->open) return;
    if (prng_chance(&w.p, 50000)) {
        for (size_t i = 0; i < w.watch_count; i++)
            if (w.watches[i].last_index == (size_t)(c - w.clients)) w.watches[i].over = true;
        feed_stream_deinit(&c->stream);
        c->open = false;
    } else if (c->stream.base.blocked && prng_chance(&w.p, 500000)) {
        unblock(c);
    } else if (prng_chance(&w.p, 500000)) {
        c->blocked = true;
    } else {
        c->progress_asked++;
        watch_stream_ask(&c->stream.base);
    }
}

static void note_blocked(void)
{
    for (size_t i = 0; i < w.watch_count; i++)
        if (w.clients[w.watches[i].last_index].blocked) w.watches[i].was_blocked = true;
}

static bool all_received(void)
{
    for (size_t i = 0; i < STREAMS; i++)
        if (w.clients[i].open && (w.clients[i].blocked || w.clients[i].asked_count)) return false;
    for (size_t i = 0; i < w.watch_count; i++)
        if (!w.watches[i].over && !received_up_to(&w.watches[i], w.revision)) return false;
    return true;
}

/* Unblocks every stream until nothing is pending. */
static void drain(void)
{
    for (int i = 0; i < 10000; i++) {
        for (size_t k = 0; k < STREAMS; k++)
            if (w.clients[k].open && w.clients[k].stream.base.blocked)
                unblock(&w.clients[k]);
            else
                w.clients[k].blocked = false;
        (void)sim_run_for(w.sim, 1);
        if (all_received()) break;
    }
    CHECK("everything is reported in the end", all_received());
    for (size_t i = 0; i < w.watch_count; i++) w.watches[i].was_blocked = false;
}

static void open_world(uint64_t seed, enum err (*send)(struct feed_stream *, struct str, bool))
{
    struct sim_host *host;

    memset(&w, 0, sizeof w);
    prng_seed(&w.p, seed);
    w.revision = 1;
    w.changes = calloc(CHANGES, sizeof *w.changes);
    buf_init(&w.command, 1 << 20);
    buf_init(&w.reply, 1 << 20);
    CHECK_OK("world",
             sim_open(&(struct sim_options){.seed = seed, .events_max = 20000000}, &w.sim));
    CHECK_OK("host", sim_host_add(w.sim, &(struct sim_host_options){.name = "h"}, &host));
    w.io = sim_host_io(host);
    CHECK_OK("machine", store_machine_open(&(struct store_machine_options){.applied = on_applied,
                                                                           .restored = on_restored},
                                           &w.machine));
    w.ops = store_machine_registration(w.machine);
    CHECK_OK("engine",
             watch_engine_open(&(struct watch_engine_options){.io = w.io, .machine = w.machine},
                               &w.engine));
    CHECK_OK("feed", feed_open(&(struct feed_options){.io = w.io,
                                                      .engine = w.engine,
                                                      .watches_max = 1000,
                                                      .progress_ms = 20,
                                                      .send = send,
                                                      .broken = on_broken,
                                                      .header = header},
                               &w.feed));
}

static void close_world(void)
{
    for (size_t k = 0; k < STREAMS; k++)
        if (w.clients[k].open) feed_stream_deinit(&w.clients[k].stream);
    if (w.feed) CHECK_SIZE("nobody is left", feed_count(w.feed), 0);
    feed_close(w.feed);
    watch_engine_close(w.engine);
    store_machine_close(w.machine);
    store_machine_close(w.twin);
    sim_close(w.sim);
    buf_deinit(&w.command);
    buf_deinit(&w.reply);
    free(w.changes);
}

static void run(uint64_t seed)
{
    open_world(seed, on_send);
    w.random_blocks = true;
    CHECK_OK("twin", store_machine_open(&(struct store_machine_options){0}, &w.twin));
    w.twin_ops = store_machine_registration(w.twin);
    for (int step = 0; step < STEPS; step++) {
        uint64_t die = prng_below(&w.p, 1000);

        if (die < 500)
            do_put();
        else if (die < 600)
            do_delete();
        else if (die < 605)
            do_compact();
        else if (die < 610)
            do_restore();
        else if (die < 700)
            do_watch();
        else if (die < 740)
            do_cancel();
        else if (die < 800)
            do_stream();
        else
            (void)sim_run_for(w.sim, prng_below(&w.p, 4));
        note_blocked();
        if (step % 500 == 499) drain();
    }
    drain();
    close_world();
}

TEST(watches_report_what_a_list_of_all_changes_says)
{
    uint64_t events = 0, cancels = 0, progresses = 0;
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) {
        run(prng_u64(&worlds));
        events += w.events;
        cancels += w.cancels;
        progresses += w.progresses;
    }
    CHECK("there were events", events > 10000);
    CHECK("some were passed by compaction", cancels > 0);
    CHECK("progress was notified", progresses > 10);
}

/* -- one watch on all keys of the list -- */
static struct client *watch_all(uint64_t start)
{
    struct client *c = any_client();
    struct watching *l = &w.watches[w.watch_count++];

    *l = (struct watching){.used = true,
                           .start = start ? start : w.revision + 1,
                           .asked_start = start,
                           .from = "a",
                           .end = "m",
                           .last_index = (size_t)(c - w.clients)};
    ask(c, l, false, c->stream.next_id);
    feed_create(&c->stream, &(struct feed_create){.range = {STR("a"), STR("m")},
                                                  .start_revision = (int64_t)start,
                                                  .progress_notify = true});
    return c;
}

TEST(u02_u11_a_long_history_is_sent_in_portions_and_progress_waits_for_its_end)
{
    struct client *c;

    open_world(1, on_send);
    for (int i = 0; i < 10000; i++) do_put();
    c = watch_all(1);
    c->progress_asked++;
    watch_stream_ask(&c->stream.base);
    for (int i = 0; i < 1000 && c->progress_received == 0; i++) {
        (void)sim_step(w.sim);
        if (i % 3 == 0) do_put(); /* writes go on meanwhile */
    }
    (void)sim_run_for(w.sim, 10);
    CHECK("in the end it is reported", c->progress_received == 1);
    CHECK("after everything", received_up_to(&w.watches[0], w.revision));
    close_world();
}

TEST(u04_u10_a_future_start_gets_nothing_before_it_and_progress_after)
{
    struct client *c;

    open_world(1, on_send);
    c = watch_all(6);
    c->progress_asked++;
    watch_stream_ask(&c->stream.base);
    for (int i = 0; i < 4; i++) {
        (void)sim_run_for(w.sim, 100);
        do_put(); /* revisions 2 to 5 */
    }
    (void)sim_run_for(w.sim, 100);
    CHECK_U64("no event and no progress before it", w.events + w.progresses, 0);
    do_put();
    (void)sim_run_for(w.sim, 1);
    CHECK_U64("the first event", w.events, 1);
    CHECK_U64("the pending progress request is answered now", c->progress_received, 1);
    CHECK_U64("and once", w.progresses, 1);
    (void)sim_run_for(w.sim, 100);
    CHECK("quiet is reported", w.progresses > 2);
    close_world();
}

/* A lease ends, then the command of the same entry is applied in parts. Between the parts, one
 * watch catches up, one watch begins, and one client asks for progress. */
TEST(a_lease_that_ended_before_a_step_in_parts_is_reported_once_to_new_watches)
{
    enum { WIDE = 3 * STORE_SWEEP_KEYS };
    struct client *c;
    char name[16];

    open_world(1, on_send);
    apply(&(struct store_command){
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(8), .ttl_ms = 1000});
    note_change(0, true, 5, ++w.revision);
    apply(&(struct store_command){
        .kind = STORE_PUT, .key = STR("a0"), .value = STR("5"), .held = store_plain_lease(8)});
    for (uint32_t i = 0; i < WIDE; i++) {
        (void)snprintf(name, sizeof name, "many/%05u", (unsigned)i % 100000u);
        w.revision++;
        apply(&(struct store_command){.kind = STORE_PUT, .key = str_from(name)});
    }
    (void)watch_all(0);
    (void)sim_run_for(w.sim, 1);
    w.clock_ns += 1000 * NS_PER_MS;
    note_change(0, false, 0, ++w.revision);
    apply_begin(&(struct store_command){
        .kind = STORE_DELETE_RANGE, .key = STR("many/"), .range_end = STR("many0")});
    (void)watch_all(1);
    c = watch_all(0);
    c->progress_asked++;
    watch_stream_ask(&c->stream.base);
    (void)sim_run_for(w.sim, 1);
    CHECK_U64("the old watch and the one that catches up", w.events, 1 + 2);
    CHECK_U64("progress is of now", c->progress_received, 1);
    CHECK("a step was in progress", w.ops.ops->apply_more(w.ops.state, &w.reply));
    (void)sim_run_for(w.sim, 1);
    while (w.ops.ops->apply_more(w.ops.state, &w.reply)) {}
    w.revision++;
    (void)sim_run_for(w.sim, 10);
    CHECK_U64("nobody is reported it again", w.events, 1 + 2);
    close_world();
}

/* -- a revision that takes more than one turn to send -- */
enum { MANY = 10000, MANY_VALUE = 600 };

struct taker {
    struct feed_stream stream;
    bool blocked, whole, in_fragment;
    size_t events, responses, largest;
    uint64_t ended; /* revisions that were received completely */
};
static struct taker takers[4];

static enum err on_large(struct feed_stream *stream, struct str bytes, bool must)
{
    struct taker *t = CONTAINER_OF(stream, struct taker, stream);
    Etcdserverpb__WatchResponse *m;

    if (prng_chance(&w.p, 200000)) t->blocked = true;
    if (t->blocked && !must) return ERR_FULL;
    m = etcdserverpb__watch_response__unpack(NULL, bytes.len, (const uint8_t *)bytes.at);
    CHECK("it can be read", m != NULL);
    if (!m->created) {
        for (size_t i = 0; i < m->n_events; i++) {
            char name[16];

            (void)snprintf(name, sizeof name, "many/%05u", (unsigned)((t->events + i) % MANY));
            CHECK_STR("in key order, none twice",
                      str_of(m->events[i]->kv->key.data, m->events[i]->kv->key.len),
                      str_from(name));
            CHECK("with the pair before",
                  m->events[i]->prev_kv && m->events[i]->prev_kv->value.len == MANY_VALUE);
        }
        CHECK("fragments only on request", !m->fragment || !t->whole);
        t->events += m->n_events;
        t->responses++;
        t->largest = bytes.len > t->largest ? bytes.len : t->largest;
        t->in_fragment = m->fragment;
        if (!m->fragment) t->ended++;
        if (!m->fragment) CHECK_SIZE("a response ends with its revision", t->events % MANY, 0);
    }
    etcdserverpb__watch_response__free_unpacked(m, NULL);
    return ERR_OK;
}

static bool all_took(uint64_t revisions)
{
    for (size_t i = 0; i < ARRAY_LEN(takers); i++)
        if (takers[i].ended < revisions) return false;
    return true;
}

TEST(u12_a_revision_of_10000_keys_is_one_response_or_fragments_that_join_to_it)
{
    static char value[MANY_VALUE];

    memset(takers, 0, sizeof takers);
    memset(value, 'v', sizeof value);
    open_world(test_seed(), on_large);
    for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
        feed_stream_init(w.feed, &takers[i].stream);
        takers[i].whole = i % 2;
        feed_create(&takers[i].stream, &(struct feed_create){.range = {STR("many/"), STR("many0")},
                                                             .no_put = true,
                                                             .prev_kv = true,
                                                             .fragment = !takers[i].whole});
    }
    for (uint64_t round = 1; round <= 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            char name[16];

            (void)snprintf(name, sizeof name, "many/%05u", (unsigned)i % 100000u);
            w.revision++;
            apply(&(struct store_command){
                .kind = STORE_PUT, .key = str_from(name), .value = str_of(value, sizeof value)});
            if (i % 1000 == 0) (void)sim_run_for(w.sim, 1);
        }
        w.revision++;
        struct taker closing = {.whole = true};
        feed_stream_init(w.feed, &closing.stream);
        feed_create(&closing.stream,
                    &(struct feed_create){.range = {STR("many/"), STR("many0")}, .no_put = true});
        apply(&(struct store_command){
            .kind = STORE_DELETE_RANGE, .key = STR("many/"), .range_end = STR("many0")});
        for (uint64_t i = 0; i < round; i++) (void)sim_step(w.sim);
        feed_stream_deinit(&closing.stream); /* closed while its response is being built */
        for (int i = 0; i < 20000 && !all_took(round); i++) {
            for (size_t k = 0; k < ARRAY_LEN(takers); k++)
                if (takers[k].blocked) {
                    takers[k].blocked = false;
                    watch_stream_writable(&takers[k].stream.base);
                }
            /* A restore renumbers the changes; a watch in the middle of a revision continues by its
             * position. */
            if (round == 2 && (takers[0].in_fragment || takers[2].in_fragment) &&
                prng_chance(&w.p, 500000))
                do_restore();
            (void)sim_run_for(w.sim, 1);
        }
        CHECK("every watch got everything", all_took(round));
    }
    for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
        CHECK_SIZE("each event once", takers[i].events, 3 * MANY);
        CHECK_SIZE("one response, or several", takers[i].responses > 3, !takers[i].whole);
        if (!takers[i].whole) CHECK("below the limit", takers[i].largest < 2 << 20);
        feed_stream_deinit(&takers[i].stream);
    }
    close_world();
}

/* -- a stream with many watches ends -- */

static struct {
    struct feed_stream stream;
    uint64_t responses, freed;
    bool closed;
} crowd;

static enum err on_crowd(struct feed_stream *stream, struct str bytes, bool)
{
    (void)bytes;
    CHECK("of this stream", stream == &crowd.stream);
    CHECK("nothing is sent once it is closed", !crowd.closed);
    crowd.responses++;
    return ERR_OK;
}

static void on_crowd_freed(struct feed_stream *stream)
{
    CHECK("of this stream", stream == &crowd.stream);
    CHECK_SIZE("the last watch is gone", map_count(&stream->watches), 0);
    crowd.freed++;
}

TEST(the_watches_of_a_stream_that_ends_are_freed_in_slices)
{
    enum { CROWD = 3 * FEED_FREES_PER_TURN + 7 };
    size_t before;
    unsigned slices = 0;

    memset(&crowd, 0, sizeof crowd);
    open_world(1, on_crowd);
    feed_stream_init(w.feed, &crowd.stream);
    for (size_t i = 0; i < CROWD; i++)
        feed_create(&crowd.stream, &(struct feed_create){.range = {STR("a"), STR("z")}});
    CHECK_U64("each is answered", crowd.responses, CROWD);
    do_put();
    (void)sim_step(w.sim); /* some events are sent, others are queued */
    crowd.closed = true;
    feed_stream_close(&crowd.stream, on_crowd_freed);
    CHECK_SIZE("not at once", feed_count(w.feed), CROWD);
    do_put(); /* no watch reports it */
    for (before = feed_count(w.feed); crowd.freed == 0; before = feed_count(w.feed)) {
        uint64_t turns = loop_stats(w.io->loop).turns;
        CHECK("it goes on", sim_step(w.sim));
        if (before - feed_count(w.feed) == 0) continue;
        slices++;
        CHECK("one slice in a turn", loop_stats(w.io->loop).turns <= turns + 1);
        CHECK("of so many at most", before - feed_count(w.feed) <= FEED_FREES_PER_TURN);
    }
    CHECK_U64("in slices", slices, 4);
    CHECK_U64("reported once", crowd.freed, 1);
    CHECK_SIZE("nobody is left", feed_count(w.feed), 0);
    close_world();
}

TEST(a_feed_that_closes_frees_the_watches_of_streams_that_were_ending)
{
    enum { CROWD = 3 * FEED_FREES_PER_TURN };

    memset(&crowd, 0, sizeof crowd);
    open_world(1, on_crowd);
    feed_stream_init(w.feed, &crowd.stream);
    for (size_t i = 0; i < CROWD; i++)
        feed_create(&crowd.stream, &(struct feed_create){.range = {STR("a"), STR("z")}});
    crowd.closed = true;
    feed_stream_close(&crowd.stream, on_crowd_freed);
    feed_close(w.feed);
    w.feed = NULL;
    CHECK_U64("all of them", crowd.freed, 1);
    close_world();
}

/* Cancelling one watch must not visit the stream's other watches; it costs as much as a progress
 * response. */
TEST(progress_is_sent_when_the_watch_with_the_last_start_is_cancelled)
{
    struct client *c;

    open_world(1, on_send);
    c = watch_all(1000000);
    c->progress_asked++;
    watch_stream_ask(&c->stream.base);
    do_put();
    (void)sim_run_for(w.sim, 100);
    CHECK_U64("it waits for a start that is to come", c->progress_received, 0);
    w.watches[w.watch_count - 1].over = true;
    ask(c, NULL, true, w.watches[w.watch_count - 1].id);
    feed_cancel(&c->stream, w.watches[w.watch_count - 1].id);
    (void)sim_run_for(w.sim, 100);
    CHECK_U64("then it is reported", c->progress_received, 1);
    close_world();
}
