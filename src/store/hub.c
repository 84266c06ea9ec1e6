/* SPDX-License-Identifier: Apache-2.0 */
#include "store/hub.h"

#include <stdlib.h>

#include "base/list.h"
#include "store/bounds.h"
#include "store/entry.h"
#include "store/interest.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    MESSAGE_BYTES = 256 << 10, /* then a message goes; one more event fits always */
    MESSAGE_MAX = 4 << 20,
    MESSAGE_EVENTS = 1024,
    WALK_MAX = 4096,   /* keys or changes looked at for one message */
    ITEMS_KEPT = 64,   /* room that a watcher keeps when nothing waits */
    LARGE_STEP = 4096, /* changes of one entry; more are not gone through at once */
    TURN_BYTES = 1 << 20,
    TURN_WALK = 4 * WALK_MAX,
    TURN_MESSAGES = 256, /* those that only look, and find nothing, count as well */
    PROGRESS_SECONDS = 10,
    CACHE_SLOTS = 64,
    CACHE_BYTES_MAX = 16 << 10,
};

struct fact { /* who held a claim when it was written */
    uint32_t refs;
    struct store_claim claim;
    char owner[STORE_OWNER_MAX];
};
struct item {
    uint64_t number;
    struct fact *fact; /* or NULL */
    uint64_t bytes;    /* of key and value */
};
static const uint64_t bytes_by_default = 64 << 20, held_by_default = 256 << 20;
enum phase { PHASE_START, PHASE_SNAPSHOT, PHASE_SCAN, PHASE_LIVE };
struct watcher {
    struct list link, ready, in_scope;
    struct hub *hub;
    struct rpc_call *call;
    struct interest_scope *scope;
    enum watch_kind kind;
    enum phase phase;
    bool blocked, resync, needs_leader, told_live;
    bool over;              /* leadership was lost; its turn to be told so comes */
    bool progress;          /* is to be told */
    void *start;            /* PHASE_START */
    enum err failed;        /* its message could not be made or sent: it is to be ended */
    uint64_t from_revision; /* nothing before it is told */
    uint64_t sent_revision; /* everything up to it was */
    bool amid;              /* and a part of the next one */
    /* PHASE_SNAPSHOT */
    uint64_t pinned;
    char at[STORE_KEY_MAX + 1]; /* the next key, or after */
    size_t at_len;
    /* PHASE_SCAN */
    uint64_t cursor;
    /* PHASE_LIVE: a ring */
    struct item *items;
    uint32_t head, count, cap;
    uint64_t bytes; /* of what waits */
};
struct hub {
    struct hub_options options;
    struct list all, ready;
    size_t count;
    struct interest keys, buckets; /* of keys and prefixes; of buckets, each as one key */
    uint64_t walked;               /* rows and changes looked at in this turn */
    uint64_t held;                 /* bytes of items and facts of all watchers */
    struct task pump;
    struct timer next_turn; /* runs while this one has had its share; tasks would run within it */
    uint64_t *expired;      /* revisions that were the end of a lease by its deadline, ascending */
    size_t expired_first, expired_count, expired_cap;
    uint32_t seconds;
    struct buf message, event;
    struct {
        uint64_t number;
        size_t cut;
        struct buf bytes;
        bool used;
    } cache[CACHE_SLOTS];
};

static const struct store *store_of(const struct hub *hub)
{
    return store_machine_store(hub->options.machine);
}

static const struct keys *keys_of(const struct hub *hub)
{
    return store_keys(store_of(hub));
}

static void count(struct counter *counter, uint64_t n)
{
    if (counter && n) counter_add(counter, n);
}

/* -- scopes -- */

static struct interest *interest_of(struct hub *hub, enum watch_kind kind)
{
    return kind == WATCH_BUCKET ? &hub->buckets : &hub->keys;
}

static struct interest_scope *scope_join(struct watcher *watcher, struct str name)
{
    char end[STORE_KEY_MAX + 1];
    struct key_range range = {name, STR_EMPTY};

    if (watcher->kind == WATCH_PREFIX) range = interest_prefix(name, end);
    return interest_join(interest_of(watcher->hub, watcher->kind), range, &watcher->in_scope);
}

/* "muster/a/b" is of the bucket "muster/a/". Group records are nobody's. */
static bool bucket_of(struct str key, struct str *ret_bucket)
{
    size_t at = key.len;

    if (!str_starts(key, STR(STORE_CLAIMS))) return false;
    while (key.at[at - 1] != '/') at--;
    *ret_bucket = str_of(key.at, at);
    return !str_equal(str_tail(key, at), STR(".group"));
}

static bool in_scope(const struct watcher *watcher, struct str key)
{
    struct str name = str_of(watcher->scope->name, watcher->scope->len), bucket;

    switch (watcher->kind) {
    case WATCH_KEY: return str_equal(key, name);
    case WATCH_BUCKET: return bucket_of(key, &bucket) && str_equal(bucket, name);
    case WATCH_PREFIX: return str_starts(key, name);
    }
    return false;
}

/* What the caller does not see of a key's front. */
static size_t cut_of(const struct watcher *watcher)
{
    return watcher->kind == WATCH_PREFIX ? 0 : sizeof STORE_CLAIMS - 1;
}

/* -- what waits -- */

static void fact_unref(struct hub *hub, struct fact *fact)
{
    if (!fact || --fact->refs > 0) return;
    hub->held -= sizeof *fact;
    free(fact);
}

static void item_drop(struct watcher *watcher)
{
    struct item *item = &watcher->items[watcher->head];

    fact_unref(watcher->hub, item->fact);
    watcher->bytes -= item->bytes;
    watcher->head = (watcher->head + 1) % watcher->cap;
    watcher->count--;
}

static void items_clear(struct watcher *watcher)
{
    while (watcher->count > 0) item_drop(watcher);
    watcher->hub->held -= watcher->cap * sizeof *watcher->items;
    free(watcher->items);
    watcher->items = NULL;
    watcher->head = watcher->cap = 0;
}

static void wake(struct watcher *watcher)
{
    struct hub *hub = watcher->hub;

    if ((watcher->blocked && !watcher->over) || !list_empty(&watcher->ready)) return;
    list_append(&hub->ready, &watcher->ready);
    loop_defer(hub->options.io->loop, &hub->pump);
}

static void snapshot_begin(struct watcher *watcher)
{
    watcher->phase = PHASE_SNAPSHOT;
    watcher->pinned = keys_revision(keys_of(watcher->hub));
    watcher->at_len = watcher->scope->len;
    memcpy(watcher->at, watcher->scope->name, watcher->at_len);
    watcher->from_revision = 0;
}

static void lose(struct watcher *watcher)
{
    count(watcher->hub->options.resyncs, 1);
    items_clear(watcher);
    watcher->resync = true;
    snapshot_begin(watcher);
    wake(watcher);
}

static bool items_grow(struct watcher *watcher)
{
    uint32_t cap = watcher->cap ? watcher->cap * 2 : 16;
    struct hub *hub = watcher->hub;
    uint64_t more = (cap - watcher->cap) * sizeof *watcher->items;
    struct item *items = NULL;

    if (hub->held + more <= hub->options.held_max) items = malloc(cap * sizeof *items);
    if (!items) return false;
    hub->held += more;
    for (uint32_t i = 0; i < watcher->count; i++)
        items[i] = watcher->items[(watcher->head + i) % watcher->cap];
    free(watcher->items);
    watcher->items = items;
    watcher->head = 0;
    watcher->cap = cap;
    return true;
}

static void items_push(struct watcher *watcher, uint64_t number, uint64_t bytes, struct fact *fact)
{
    const struct hub_options *options = &watcher->hub->options;

    if (watcher->count == options->events_max ||
        (watcher->count > 0 && watcher->bytes + bytes > options->bytes_max) ||
        (watcher->count == watcher->cap && !items_grow(watcher))) {
        lose(watcher);
        return;
    }
    if (fact) fact->refs++;
    watcher->items[(watcher->head + watcher->count++) % watcher->cap] =
        (struct item){number, fact, bytes};
    watcher->bytes += bytes;
    wake(watcher);
}

/* -- what is applied -- */

static bool was_expiry(const struct hub *hub, uint64_t revision)
{
    size_t low = hub->expired_first, high = hub->expired_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hub->expired[middle] == revision) return true;
        if (hub->expired[middle] < revision)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void note_expiry(struct hub *hub, uint64_t revision)
{
    if (hub->expired_count > hub->expired_first && hub->expired[hub->expired_count - 1] >= revision)
        return;
    if (hub->expired_count == hub->expired_cap) {
        size_t kept = hub->expired_count - hub->expired_first;
        size_t cap = kept * 2 > 64 ? kept * 2 : 64;
        uint64_t *expired = malloc(cap * sizeof *expired);
        if (!expired) return; /* then it is told as a deletion */
        if (kept) memcpy(expired, hub->expired + hub->expired_first, kept * sizeof *expired);
        free(hub->expired);
        hub->expired = expired;
        hub->expired_first = 0;
        hub->expired_count = kept;
        hub->expired_cap = cap;
    }
    hub->expired[hub->expired_count++] = revision;
}

/* Whose the key was by this change, if it still is: who gave a claim back may have it again under
 * the same lease, with a token that this change is older than. */
static bool claim_of_change(const struct hub *hub, const struct key_value *change,
                            struct store_claim *ret_claim)
{
    return change->version && change->lease &&
           store_claim_of(store_of(hub), change->key, 0, ret_claim) &&
           store_lease_number(&ret_claim->lease) == change->lease &&
           ret_claim->token <= change->mod;
}

static struct fact *fact_make(struct hub *hub, const struct key_value *change)
{
    struct store_claim claim;
    struct fact *fact;

    if (!claim_of_change(hub, change, &claim)) return NULL;
    fact = calloc(1, sizeof *fact);
    if (!fact) return NULL;
    hub->held += sizeof *fact;
    fact->refs = 1;
    memcpy(fact->owner, claim.owner.at, claim.owner.len);
    fact->claim = claim;
    fact->claim.owner = str_of(fact->owner, claim.owner.len);
    fact->claim.remaining_ms = claim.ttl_ms;
    return fact;
}

struct told_change {
    uint64_t number;
    const struct key_value *change;
    struct fact *fact;
};

static void tell_scope(void *context, struct interest_scope *scope)
{
    const struct told_change *told = context;

    LIST_EACH(&scope->lookers, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, in_scope);

        if (watcher->phase == PHASE_LIVE && told->change->mod >= watcher->from_revision)
            items_push(watcher, told->number, told->change->key.len + told->change->value.len,
                       told->fact);
        else if (watcher->phase == PHASE_SCAN)
            wake(watcher);
    }
}

static void tell_change(struct hub *hub, uint64_t number, const struct key_value *change)
{
    struct told_change told = {number, change, fact_make(hub, change)};
    struct str bucket;

    interest_each(&hub->keys, change->key, tell_scope, &told);
    if (bucket_of(change->key, &bucket)) interest_each(&hub->buckets, bucket, tell_scope, &told);
    fact_unref(hub, told.fact);
}

/* Each finds its own part of it, from where it is, in its own turns. */
static void tell_large(struct hub *hub, uint64_t first)
{
    LIST_EACH(&hub->all, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        if (watcher->phase != PHASE_LIVE) {
            wake(watcher);
            continue;
        }
        watcher->cursor = watcher->count ? watcher->items[watcher->head].number : first;
        watcher->phase = PHASE_SCAN;
        items_clear(watcher);
        wake(watcher);
    }
}

void hub_applied(struct hub *hub, const struct store_applied *applied)
{
    bool large = applied->changes.end - applied->changes.first > LARGE_STEP;

    for (uint64_t n = applied->changes.first; n < applied->changes.end; n++) {
        struct key_value change, before;

        keys_change_at(keys_of(hub), n, &change, &before);
        if (store_change_expired(applied, &change, &before)) note_expiry(hub, change.mod);
        if (hub->count && !large) tell_change(hub, n, &change);
        /* A revision is one lease's end, or the command's: what its first change is, all are. So
         * of one with a million changes no more than that one is looked at. */
        if (large) n = keys_change_seek(keys_of(hub), change.mod + 1) - 1;
    }
    if (large) tell_large(hub, applied->changes.first);
}

/* Numbers of changes are others now; revisions are the same. Who was told a part of one cannot go
 * on in its middle, and told it from its beginning would hear that part twice. */
void hub_restored(struct hub *hub)
{
    for (size_t i = 0; i < CACHE_SLOTS; i++) hub->cache[i].used = false;
    LIST_EACH(&hub->all, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        items_clear(watcher);
        if (watcher->phase == PHASE_START) continue;
        if (watcher->phase == PHASE_SNAPSHOT || watcher->amid) {
            lose(watcher);
        } else {
            watcher->phase = PHASE_SCAN;
            watcher->cursor = UINT64_MAX; /* to be found by revision */
            wake(watcher);
        }
    }
}

/* -- messages -- */

static void event_pack(struct hub *hub, struct pack *event, const struct key_value *change,
                       size_t cut, const struct store_claim *claim)
{
    char room[2 * STORE_KEY_MAX + 64];
    struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct pack entry = {&small, ERR_OK};

    if (change->version == 0) {
        pack_u64(event, 1,
                 was_expiry(hub, change->mod) ? MUSTER__V1__WATCH_EVENT__TYPE__EXPIRED
                                              : MUSTER__V1__WATCH_EVENT__TYPE__DELETE);
        pack_text(&entry, 1, str_tail(change->key, cut));
        pack_u64(&entry, 3, change->mod);
        if (!event->err) event->err = entry.err;
        pack_bytes(event, 2, buf_peek(&small));
        return;
    }
    struct buf large;
    buf_init(&large, MESSAGE_MAX);
    entry.into = &large;
    store_entry_pack(&entry, change, cut, claim, STORE_ENTRY_WHOLE);
    if (!event->err) event->err = entry.err;
    pack_bytes(event, 2, buf_peek(&large));
    buf_deinit(&large);
}

static void message_begin(struct hub *hub, uint32_t kind, struct pack *ret_pack)
{
    buf_clear(&hub->message);
    *ret_pack = (struct pack){&hub->message, ERR_OK};
    pack_u64(ret_pack, 1, kind);
}

/* Appends the event of a change that is in history. */
static void message_change(struct hub *hub, struct pack *message, uint64_t number,
                           const struct key_value *change, size_t cut,
                           const struct store_claim *claim)
{
    size_t slot = number % CACHE_SLOTS;
    struct pack event = {&hub->event, ERR_OK};

    if (hub->cache[slot].used && hub->cache[slot].number == number && hub->cache[slot].cut == cut) {
        pack_bytes(message, 3, buf_peek(&hub->cache[slot].bytes));
        return;
    }
    buf_clear(&hub->event);
    event_pack(hub, &event, change, cut, claim);
    if (!message->err) message->err = event.err;
    pack_bytes(message, 3, buf_peek(&hub->event));
    if (event.err || hub->event.len > CACHE_BYTES_MAX) return;
    buf_clear(&hub->cache[slot].bytes);
    hub->cache[slot].used = !buf_append(&hub->cache[slot].bytes, buf_peek(&hub->event));
    hub->cache[slot].number = number;
    hub->cache[slot].cut = cut;
}

/* False: not taken; the watcher waits for on_writable, or is about to be gone. */
static bool message_send(struct watcher *watcher, struct pack *message)
{
    enum err err = message->err ? message->err
                                : rpc_send_bytes(watcher->call, buf_peek(&watcher->hub->message));

    if (!err) return true;
    watcher->blocked = true;
    if (err != ERR_FULL && err != ERR_CLOSED) watcher->failed = err;
    return false;
}

/* -- the phases: each sends at most one message; true: there is more to do now -- */

static bool pump_resync(struct watcher *watcher)
{
    struct pack message;

    message_begin(watcher->hub, MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC, &message);
    pack_u64(&message, 2, watcher->pinned);
    if (!message_send(watcher, &message)) return false;
    watcher->resync = false;
    return true;
}

static struct key_range scope_range(const struct watcher *watcher, char end[STORE_KEY_MAX + 1])
{
    struct str at = str_of(watcher->at, watcher->at_len);

    if (watcher->kind == WATCH_KEY) return (struct key_range){at, STR_EMPTY};
    return (struct key_range){
        at, interest_prefix(str_of(watcher->scope->name, watcher->scope->len), end).end};
}

/* Entries of the snapshot from `at` on into the message; true when it is the last. */
static bool snapshot_fill(struct watcher *watcher, struct pack *message,
                          char next[STORE_KEY_MAX + 1], size_t *ret_next_len)
{
    struct hub *hub = watcher->hub;
    char end[STORE_KEY_MAX + 1];
    struct keys_cursor cursor;
    struct key_value value;

    keys_seek(keys_of(hub), scope_range(watcher, end), watcher->pinned, &cursor);
    cursor.rows_left = WALK_MAX;
    while (!message->err && keys_next(&cursor, &value)) {
        struct pack event = {&hub->event, ERR_OK};
        struct store_claim claim;
        bool leased;

        if (hub->message.len > MESSAGE_BYTES) {
            cursor.next = value.key;
            break;
        }
        if (!in_scope(watcher, value.key)) continue;
        leased = claim_of_change(hub, &value, &claim);
        buf_clear(&hub->event);
        event_pack(hub, &event, &value, cut_of(watcher), leased ? &claim : NULL);
        if (event.err) message->err = event.err;
        pack_bytes(message, 3, buf_peek(&hub->event));
    }
    hub->walked += WALK_MAX - cursor.rows_left;
    memcpy(next, cursor.next.at ? cursor.next.at : "", cursor.next.len);
    *ret_next_len = cursor.next.len;
    return cursor.next.len == 0;
}

static bool pump_snapshot(struct watcher *watcher)
{
    struct hub *hub = watcher->hub;
    char next[STORE_KEY_MAX + 1];
    size_t next_len = 0;
    struct pack message;
    bool last;

    if (watcher->pinned < keys_compacted(keys_of(hub))) {
        lose(watcher);
        return true;
    }
    message_begin(hub, MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT, &message);
    pack_u64(&message, 2, watcher->pinned);
    last = snapshot_fill(watcher, &message, next, &next_len);
    pack_u64(&message, 4, !last);
    if (!message_send(watcher, &message)) return false;
    if (!last) {
        memcpy(watcher->at, next, next_len);
        watcher->at_len = next_len;
        return true;
    }
    watcher->sent_revision = watcher->pinned;
    watcher->phase = PHASE_SCAN;
    watcher->cursor = UINT64_MAX;
    return true;
}

static bool tell_progress(struct watcher *watcher)
{
    struct pack message;
    uint64_t revision = keys_revision(keys_of(watcher->hub));

    message_begin(watcher->hub, MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS, &message);
    pack_u64(&message, 2, revision);
    if (!message_send(watcher, &message)) return false;
    watcher->sent_revision = revision;
    return true;
}

/* History is walked in portions, and joins what is live when its end is reached. */
static bool pump_scan(struct watcher *watcher)
{
    struct hub *hub = watcher->hub;
    const struct keys *keys = keys_of(hub);
    struct key_changes there = keys_changes(keys);
    struct pack message;
    uint64_t n, last = 0, events = 0, walked = 0;
    bool more = false;

    if (watcher->cursor == UINT64_MAX) {
        uint64_t from = watcher->sent_revision + 1;
        if (from < keys_compacted(keys)) {
            lose(watcher);
            return true;
        }
        watcher->cursor = from > keys_revision(keys) ? there.end : keys_change_seek(keys, from);
    }
    if (watcher->cursor < there.first) {
        lose(watcher);
        return true;
    }
    message_begin(hub, MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES, &message);
    for (n = watcher->cursor; n < there.end; n++) {
        struct key_value change, before;
        struct store_claim claim;
        bool leased;

        keys_change_at(keys, n, &change, &before);
        if (walked >= WALK_MAX || events >= MESSAGE_EVENTS || hub->message.len > MESSAGE_BYTES) {
            more = change.mod == last; /* a revision may be of a million changes */
            break;
        }
        last = change.mod;
        walked++;
        if (change.mod < watcher->from_revision || !in_scope(watcher, change.key)) continue;
        leased = claim_of_change(hub, &change, &claim);
        message_change(hub, &message, n, &change, cut_of(watcher), leased ? &claim : NULL);
        events++;
    }
    hub->walked += walked;
    if (events) {
        pack_u64(&message, 2, last);
        pack_u64(&message, 4, more);
        if (!message_send(watcher, &message)) return false;
        count(hub->options.events, events);
    }
    if (last) watcher->sent_revision = max_u64(watcher->sent_revision, more ? last - 1 : last);
    watcher->amid = more && (events || watcher->amid);
    watcher->cursor = n;
    if (n < there.end) return true;
    watcher->phase = PHASE_LIVE;
    if (watcher->told_live || watcher->from_revision > keys_revision(keys)) return false;
    watcher->told_live = tell_progress(watcher);
    return false;
}

static bool pump_live(struct watcher *watcher)
{
    struct hub *hub = watcher->hub;
    const struct keys *keys = keys_of(hub);
    struct pack message;
    uint64_t last = 0;
    uint32_t taken = 0;
    bool more = false;

    if (watcher->count == 0 && (!watcher->told_live || watcher->progress)) {
        uint64_t revision = keys_revision(keys);
        watcher->progress = false;
        if (watcher->from_revision <= revision &&
            (!watcher->told_live || watcher->sent_revision < revision) && tell_progress(watcher))
            watcher->told_live = true;
    }
    if (watcher->count == 0 || watcher->blocked) return false;
    if (watcher->items[watcher->head].number < keys_changes(keys).first) {
        lose(watcher);
        return true;
    }
    message_begin(hub, MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES, &message);
    for (; taken < watcher->count; taken++) {
        struct item *item = &watcher->items[(watcher->head + taken) % watcher->cap];
        struct key_value change, before;

        keys_change_at(keys, item->number, &change, &before);
        if (taken && (taken >= MESSAGE_EVENTS || hub->message.len > MESSAGE_BYTES)) {
            more = change.mod == last;
            break;
        }
        last = change.mod;
        message_change(hub, &message, item->number, &change, cut_of(watcher),
                       item->fact ? &item->fact->claim : NULL);
    }
    pack_u64(&message, 2, last);
    pack_u64(&message, 4, more);
    if (!message_send(watcher, &message)) return false;
    count(hub->options.events, taken);
    watcher->told_live = true;
    watcher->sent_revision = more ? last - 1 : last;
    watcher->amid = more;
    for (; taken > 0; taken--) item_drop(watcher);
    if (watcher->count == 0 && watcher->cap > ITEMS_KEPT) items_clear(watcher);
    return watcher->count > 0;
}

static bool pump_one(struct watcher *watcher)
{
    if (watcher->resync) return pump_resync(watcher);
    switch (watcher->phase) {
    case PHASE_START: return false;
    case PHASE_SNAPSHOT: return pump_snapshot(watcher);
    case PHASE_SCAN: return pump_scan(watcher);
    case PHASE_LIVE: return pump_live(watcher);
    }
    return false;
}

/* A message for each that has something to be told, as many as a turn has room for; who has more,
 * and whoever is left, comes in the next turn of the loop, so nobody holds it. */
static void on_pump(struct task *task)
{
    struct hub *hub = CONTAINER_OF(task, struct hub, pump);
    struct list round, *node;
    size_t bytes = 0, messages = 0;

    hub->walked = 0;
    if (store_machine_restoring(hub->options.machine)) return; /* hub_restored wakes them */
    if (timer_running(&hub->next_turn)) return;
    list_init(&round);
    list_splice(&round, &hub->ready);
    while (bytes < TURN_BYTES && messages++ < TURN_MESSAGES && hub->walked < TURN_WALK &&
           (node = list_pop(&round))) {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, ready);

        buf_clear(&hub->message);
        if (watcher->over) {
            hub_end(watcher, GRPC_UNAVAILABLE,
                    STR("Watch: leadership was lost; go on from the next revision elsewhere"));
            continue;
        }
        if (pump_one(watcher)) wake(watcher);
        bytes += hub->message.len;
        if (watcher->failed)
            hub_end(watcher, err_grpc_status(watcher->failed),
                    STR("Watch: a message could not be sent"));
    }
    list_splice(&round, &hub->ready); /* who waited longest is first */
    list_splice(&hub->ready, &round);
    if (!list_empty(&hub->ready)) timer_start_in(&hub->next_turn, 0);
}

static void on_next_turn(struct timer *timer)
{
    loop_defer(CONTAINER_OF(timer, struct hub, next_turn)->options.io->loop,
               &CONTAINER_OF(timer, struct hub, next_turn)->pump);
}

/* -- life of a watcher -- */

static void watcher_free(struct watcher *watcher)
{
    struct hub *hub = watcher->hub;

    rpc_call_set_data(watcher->call, NULL);
    list_remove(&watcher->link);
    list_remove(&watcher->ready);
    interest_leave(interest_of(hub, watcher->kind), watcher->scope, &watcher->in_scope);
    items_clear(watcher);
    hub->count--;
    free(watcher);
}

void hub_end(struct watcher *watcher, enum grpc_status status, struct str text)
{
    struct rpc_call *call = watcher->call;

    watcher_free(watcher);
    rpc_finish(call, status, text, STR_EMPTY);
}

void hub_gone(struct watcher *watcher)
{
    watcher_free(watcher);
}

void hub_writable(struct watcher *watcher)
{
    watcher->blocked = false;
    wake(watcher);
}

static void say_compacted(struct watcher *watcher)
{
    struct pack message;

    message_begin(watcher->hub, MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED, &message);
    pack_u64(&message, 2, keys_compacted(keys_of(watcher->hub)));
    (void)rpc_send_bytes(watcher->call, buf_peek(&watcher->hub->message));
    hub_end(watcher, GRPC_OK, STR_EMPTY);
}

static struct str full_name(const struct watch_scope *scope, char name[STORE_KEY_MAX + 2])
{
    size_t len = 0;

    if (scope->kind != WATCH_PREFIX) {
        memcpy(name, STORE_CLAIMS, sizeof STORE_CLAIMS - 1);
        len = sizeof STORE_CLAIMS - 1;
    }
    memcpy(name + len, scope->name.at, scope->name.len);
    len += scope->name.len;
    if (scope->kind == WATCH_BUCKET && scope->name.len) name[len++] = '/';
    return str_of(name, len);
}

enum err hub_watch(struct hub *hub, struct rpc_call *call, const struct watch_scope *scope,
                   struct watcher **ret_watcher)
{
    char name[STORE_KEY_MAX + 2];
    struct watcher *watcher;

    if (hub->count >= hub->options.watchers_max) return ERR_FULL;
    watcher = calloc(1, sizeof *watcher);
    if (!watcher) return ERR_NOMEM;
    watcher->hub = hub;
    watcher->call = call;
    watcher->kind = scope->kind;
    watcher->needs_leader = scope->needs_leader;
    list_init(&watcher->link);
    list_init(&watcher->ready);
    list_init(&watcher->in_scope);
    watcher->scope = scope_join(watcher, full_name(scope, name));
    if (!watcher->scope) {
        free(watcher);
        return ERR_NOMEM;
    }
    list_append(&hub->all, &watcher->link);
    hub->count++;
    watcher->from_revision = scope->start_revision;
    *ret_watcher = watcher;
    rpc_call_set_data(call, watcher);
    return ERR_OK;
}

void hub_set_start(struct watcher *watcher, void *start)
{
    watcher->start = start;
}

void *hub_start(const struct watcher *watcher)
{
    return watcher->start;
}

void hub_begin(struct watcher *watcher)
{
    assert(watcher->phase == PHASE_START && !watcher->start);
    if (watcher->from_revision == 0) {
        snapshot_begin(watcher);
    } else if (watcher->from_revision < keys_compacted(keys_of(watcher->hub))) {
        say_compacted(watcher);
        return;
    } else {
        watcher->phase = PHASE_SCAN;
        watcher->sent_revision = watcher->from_revision - 1;
        watcher->cursor = UINT64_MAX;
    }
    wake(watcher);
}

void hub_leadership_lost(struct hub *hub)
{
    LIST_EACH(&hub->all, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        if (!watcher->needs_leader || watcher->start) continue; /* a start hears of it by itself */
        watcher->over = true;
        wake(watcher);
    }
}

void hub_second(struct hub *hub)
{
    uint64_t compacted = keys_compacted(keys_of(hub)), revision = keys_revision(keys_of(hub));

    while (hub->expired_first < hub->expired_count && hub->expired[hub->expired_first] < compacted)
        hub->expired_first++;
    if (++hub->seconds % PROGRESS_SECONDS) return;
    LIST_EACH(&hub->all, node)
    {
        struct watcher *watcher = CONTAINER_OF(node, struct watcher, link);

        if (watcher->phase != PHASE_LIVE || watcher->count > 0 || watcher->blocked ||
            watcher->sent_revision >= revision || watcher->from_revision > revision)
            continue;
        watcher->progress = true;
        wake(watcher);
    }
}

/* -- life -- */

enum err hub_open(const struct hub_options *options, struct hub **ret_hub)
{
    struct hub *hub = calloc(1, sizeof *hub);

    if (!hub) return ERR_NOMEM;
    hub->options = *options;
    if (!hub->options.bytes_max) hub->options.bytes_max = bytes_by_default;
    if (!hub->options.held_max) hub->options.held_max = held_by_default;
    list_init(&hub->all);
    list_init(&hub->ready);
    interest_init(&hub->keys, entropy_u64(options->io->entropy));
    interest_init(&hub->buckets, entropy_u64(options->io->entropy));
    task_init(&hub->pump, on_pump);
    if (timer_init(&hub->next_turn, options->io->loop, on_next_turn)) {
        free(hub);
        return ERR_FULL;
    }
    buf_init(&hub->message, MESSAGE_MAX);
    buf_init(&hub->event, MESSAGE_MAX);
    for (size_t i = 0; i < CACHE_SLOTS; i++) buf_init(&hub->cache[i].bytes, CACHE_BYTES_MAX);
    *ret_hub = hub;
    return ERR_OK;
}

void hub_close(struct hub *hub)
{
    if (!hub) return;
    assert(hub->count == 0 && list_empty(&hub->all));
    task_cancel(&hub->pump);
    timer_deinit(&hub->next_turn);
    interest_deinit(&hub->keys);
    interest_deinit(&hub->buckets);
    for (size_t i = 0; i < CACHE_SLOTS; i++) buf_deinit(&hub->cache[i].bytes);
    buf_deinit(&hub->message);
    buf_deinit(&hub->event);
    free(hub->expired);
    free(hub);
}

size_t hub_count(const struct hub *hub)
{
    return hub->count;
}
