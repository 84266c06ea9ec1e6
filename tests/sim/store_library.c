/* SPDX-License-Identifier: Apache-2.0 */
/* A process that uses libmuster as a program does: threads that claim, keep, check, release and
 * write, and one that watches, over one handle that is opened and closed repeatedly. The library is
 * the shipped one; its threads are fibers (sim/threads).
 *
 * The process believes to hold a claim while coord_check returns OK, and checks often. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "prim/store.h"
#include "prim/stores.h"
#include "sim/threads/threads.h"
#include "store_odds.h"
#include "store_story.h"

enum {
    PLAIN_KEYS = 3,
    THINK_MS_MAX = 60,
    OPEN_MS = 3000,
    SESSION_OPS_MAX = 40,
    HOLD_MS_MAX = 5000,
    TTL_MS_MIN = 500,
    TTL_MS_MAX = 2000,
    TRIES_MAX = 3,
    SNAPSHOT_MAX = 64,
};

struct library;
struct hand {
    struct library *library;
    size_t believer;
    char owner[16];
    uint64_t revisions[PLAIN_KEYS];
    /* of the claim it has */
    uint32_t lost, left; /* left: no on_lost may be called any more */
};
struct library {
    struct store_actor *actor;
    struct io *io;
    struct sim_threads *threads;
    coord_store *store;
    bool dying, enough; /* enough: the session ends */
    int ops_left;
    struct odds_counts counts;
    struct hand workers[STORE_WORKERS];
};
static const char url[] = "muster://s0:7790,s1:7790,s2:7790,s3:7790";

static uint64_t below(const struct library *l, uint64_t bound)
{
    return entropy_u64(l->io->entropy) % bound;
}

static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

static struct str view(coord_str s)
{
    return str_of(s.at, s.len);
}

/* Results that a dead process sees do not count. */
static bool over(const struct library *l)
{
    return l->dying || l->enough;
}

static void sleep_for(struct library *l, uint64_t ms)
{
    if (!l->dying) sim_thread_sleep(l, ms);
}

/* -- keys -- */
static void draw_value(struct store_story *story, char value[32])
{
    (void)snprintf(value, 32, "L%llu", (unsigned long long)++story->witness.values);
}

static void look_at_write(struct hand *w, uint64_t acked, size_t key, coord_str name,
                          coord_str value, const coord_result *result)
{
    struct store_story *story = w->library->actor->story;

    if (w->library->dying) return;
    if (result->code == COORD_OK)
        store_witness_wrote(story, acked, view(name), view(value), result->revision);
    else if (!(result->flags & COORD_F_MAYBE_APPLIED))
        store_witness_denied(story, view(value));
    else
        story->witness.unclear++;
    if (result->code != COORD_UNAVAILABLE) story->witness.done[w->believer]++;
    if (result->code == COORD_INVALID) store_wrong(story, "refused as invalid: %s", result->text);
    w->revisions[key] = result->revision;
}

/* Sometimes with a request id of its own, which is asked again when the answer is unknown. */
static void write_key(struct hand *w, size_t key, coord_str name, bool create)
{
    struct library *l = w->library;
    struct store_story *story = l->actor->story;
    coord_call call = {.timeout_ms = 200 + (int64_t)below(l, 2500)};
    uint64_t acked = story->witness.acked;
    uint64_t expected = w->revisions[key];
    uint32_t open = 0; /* a write without an answer stays open when a later one has none, too */
    coord_result result;
    char value[32];

    draw_value(story, value);
    if (below(l, 2)) entropy_fill(l->io->entropy, call.request_id.b, sizeof call.request_id.b);
    for (int i = 0; i < TRIES_MAX; i++) {
        result = create ? coord_create_if_absent(l->store, &call, name, text(value), 0, NULL, NULL)
                        : coord_compare_and_set(l->store, &call, name, expected, text(value),
                                                expected ? COORD_TTL_KEEP : 0, NULL, NULL, NULL);
        open |= result.flags & COORD_F_MAYBE_APPLIED;
        if (result.code != COORD_UNAVAILABLE || call.request_id.b[0] == 0 || over(l)) break;
    }
    if (result.code == COORD_UNAVAILABLE) result.flags |= open;
    look_at_write(w, acked, key, name, text(value), &result);
}

static void delete_key(struct hand *w, size_t key, coord_str name)
{
    struct library *l = w->library;
    coord_call call = {.timeout_ms = 200 + (int64_t)below(l, 2500)};
    coord_result result = coord_delete(l->store, &call, name, COORD_ANY, NULL);

    if (l->dying || result.code == COORD_UNAVAILABLE) return;
    l->actor->story->witness.done[w->believer]++;
    w->revisions[key] = 0;
}

static void read_key(struct hand *w, size_t key, coord_str name)
{
    struct library *l = w->library;
    struct store_story *story = l->actor->story;
    coord_call call = {.timeout_ms = 200 + (int64_t)below(l, 2500)};
    int consistency = below(l, 4) ? COORD_LATEST : COORD_STALE_OK;
    uint64_t acked = story->witness.acked;
    coord_entry *entry = NULL;
    coord_result result = coord_get(l->store, &call, name, consistency, &entry);
    bool found = result.code == COORD_OK;

    if (!l->dying && (found || result.code == COORD_NOT_FOUND)) {
        store_witness_read(story, acked, view(name), found ? view(entry->value) : STR_EMPTY,
                           found ? entry->revision : 0, consistency == COORD_STALE_OK);
        story->witness.done[w->believer]++;
        w->revisions[key] = found ? entry->revision : 0;
    }
    coord_entry_free(entry);
}

static void do_key(struct hand *w)
{
    size_t key = below(w->library, PLAIN_KEYS);
    char name[16];

    (void)snprintf(name, sizeof name, "k/p%zu", key);
    switch (below(w->library, 8)) {
    case 0:
    case 1: write_key(w, key, text(name), true); break;
    case 2:
    case 3:
    case 4: write_key(w, key, text(name), false); break;
    case 5: delete_key(w, key, text(name)); break;
    default: read_key(w, key, text(name)); break;
    }
}

/* -- claims -- */
static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct hand *w = arg;
    struct store_story *story = w->library->actor->story;

    (void)lease;
    if (w->library->dying) return;
    story->witness.lost++;
    if (w->lost++) store_wrong(story, "%s: lost twice", w->owner);
    if (w->left) store_wrong(story, "%s: lost after it was let go", w->owner);
    if (reason == COORD_R_LOCAL)
        store_witness_lets_go(story, w->believer); /* no refusal: the local deadline has passed */
    else
        store_witness_expired(story, w->believer);
}

static bool look_at_claim(struct hand *w, coord_lease *lease, size_t group)
{
    struct library *l = w->library;
    struct store_belief belief = {.on = true,
                                  .group = group,
                                  .slot = coord_lease_slot(lease),
                                  .token = coord_lease_token(lease),
                                  .clock = l->io->clock};
    int64_t left_ms;

    if (l->dying) return false;
    left_ms = coord_safe_for_ms(lease);
    if (coord_check(lease) != COORD_OK || left_ms <= 0) {
        store_witness_lets_go(l->actor->story, w->believer);
        return false;
    }
    belief.until_ns = clock_mono_ns(l->io->clock).ns + (uint64_t)left_ms * NS_PER_MS;
    store_witness_believes(l->actor->story, w->believer, &belief);
    return true;
}

/* One more key under the lease: the key lives as long as the slot. */
static void add_key(struct hand *w, coord_lease *lease)
{
    struct library *l = w->library;
    coord_call call = {.timeout_ms = 500};
    char name[24];

    (void)snprintf(name, sizeof name, "u/%s", w->owner);
    (void)coord_create_under(lease, &call, text(name), text("under"));
    (void)l;
}

static bool was_taken(const coord_result *result)
{
    return result->code == COORD_EXPIRED &&
           (result->reason == COORD_R_DEADLINE || result->reason == COORD_R_SUPERSEDED);
}

static void renew(struct hand *w, coord_lease *lease)
{
    coord_result result = coord_renew(lease, &(coord_call){.timeout_ms = 500});

    if (!w->library->dying && was_taken(&result))
        store_witness_expired(w->library->actor->story, w->believer);
}

static void hold(struct hand *w, coord_lease *lease, size_t group)
{
    struct library *l = w->library;
    mono_time until = mono_after(clock_mono(l->io->clock), below(l, HOLD_MS_MAX));

    while (!over(l) && !mono_due(until, clock_mono(l->io->clock))) {
        if (!look_at_claim(w, lease, group)) return;
        switch (below(l, 40)) {
        case 0: add_key(w, lease); break;
        case 1: renew(w, lease); break;
        case 2: do_key(w); break;
        default: sleep_for(l, 5 + below(l, THINK_MS_MAX)); break;
        }
    }
}

static void let_go(struct hand *w, coord_lease *lease)
{
    struct library *l = w->library;
    struct store_story *story = l->actor->story;
    struct store_belief held;
    coord_result result;

    if (l->dying) return;
    held = story->witness.beliefs[w->believer];
    store_witness_lets_go(story, w->believer);
    if (below(l, 8) == 0) return; /* the lease is left to expire */
    result = coord_release(lease, &(coord_call){.timeout_ms = 300 + (int64_t)below(l, 2000)});
    if (result.code == COORD_OK) w->left = 1;
    if (!l->dying && was_taken(&result) && held.on &&
        clock_mono_ns(l->io->clock).ns < held.until_ns)
        store_wrong(story, "%s: what is let go was over before its time", w->owner);
    if (!l->dying && result.code == COORD_INVALID)
        store_wrong(story, "%s: a release is invalid: %s", w->owner, result.text);
}

static void do_claim(struct hand *w)
{
    struct library *l = w->library;
    struct store_story *story = l->actor->story;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_call call = {.timeout_ms = 300 + (int64_t)below(l, 2500)};
    size_t group = below(l, STORE_GROUPS);
    coord_lease *lease = NULL;
    coord_result result;
    char name[8], value[32];

    (void)snprintf(name, sizeof name, "g%zu", group);
    draw_value(story, value);
    request.group = text(name);
    request.slot_count = (uint32_t)group + 1;
    request.owner = w->owner;
    request.ttl_ms = TTL_MS_MIN + (int64_t)below(l, TTL_MS_MAX - TTL_MS_MIN);
    request.wait_ms = below(l, 3) ? 200 + (int64_t)below(l, 3000) : 0;
    request.value = text(value);
    result = coord_acquire_slot(l->store, &call, &request, &lease);
    if (!l->dying && result.code != COORD_UNAVAILABLE) story->witness.done[w->believer]++;
    if (!l->dying && result.code == COORD_INVALID)
        store_wrong(story, "refused as invalid: %s", result.text);
    if (!lease) return;
    w->lost = w->left = 0;
    story->witness.grants++;
    story->witness.waited += request.wait_ms > 0;
    if (below(l, 8) == 0 || coord_keep(lease, on_lost, w).code == COORD_OK) {
        story->witness.kept++;
        hold(w, lease, group);
    }
    let_go(w, lease);
    coord_lease_unref(lease);
    if (!l->dying) store_witness_lets_go(story, w->believer);
}

static void *work(void *arg)
{
    struct hand *w = arg;
    struct library *l = w->library;

    while (!over(l)) {
        sleep_for(l, 1 + below(l, THINK_MS_MAX));
        if (over(l) || l->actor->story->quiet) continue;
        if (below(l, 4) == 0)
            do_claim(w);
        else
            do_key(w);
        if (l->ops_left-- <= 0) l->enough = true;
    }
    return NULL;
}

/* Takes over slots of its own owner only. */
static void *tinker(void *arg)
{
    struct library *l = arg;
    char owner[16];
    struct odds odds = {
        .story = l->actor->story, .io = l->io, .owner = owner, .counts = &l->counts};

    (void)snprintf(owner, sizeof owner, "o%zu", l->actor->number);
    while (!over(l)) {
        sleep_for(l, 1 + below(l, 4 * THINK_MS_MAX));
        if (!over(l) && !l->actor->story->quiet) odds_step(&odds, l->store, &l->dying);
    }
    odds_end(&odds);
    return NULL;
}

/* -- watching -- */
struct watcher {
    struct library *library;
    uint64_t bucket;
    size_t cursor;
    struct store_seen_key keys[SNAPSHOT_MAX];
    size_t key_count;
    bool in_snapshot, live;
};

static void on_event(struct watcher *w, const coord_event *event)
{
    struct store_story *story = w->library->actor->story;

    switch (event->type) {
    case COORD_SNAPSHOT_BEGIN:
        w->in_snapshot = true;
        w->key_count = 0;
        break;
    case COORD_ENTRY:
        if (!w->in_snapshot || w->key_count == SNAPSHOT_MAX)
            store_wrong(story, "an entry outside of a snapshot");
        else
            w->keys[w->key_count++] =
                (struct store_seen_key){store_hash_of_key(view(event->key)), event->revision};
        break;
    case COORD_SNAPSHOT_END:
        store_witness_snapshot(story, w->bucket, event->revision, w->keys, w->key_count);
        w->cursor = store_witness_after(story, event->revision);
        w->in_snapshot = false;
        w->live = true;
        break;
    case COORD_PUT:
    case COORD_DELETE:
    case COORD_EXPIRE:
        if (!w->live) store_wrong(story, "a change before a snapshot");
        store_witness_change(story, w->bucket, &w->cursor, view(event->key), event->revision,
                             event->type != COORD_PUT);
        story->witness.library_events[w->library->actor->number]++;
        break;
    case COORD_CLOSED:
        if (!story->upgrades) store_wrong(story, "a watch was closed (%d)", event->reason);
        w->live = false;
        break;
    case COORD_RESYNC:
        w->live = false;
        story->witness.resyncs++;
        break;
    default: break;
    }
}

static void *watch(void *arg)
{
    static const char *const scopes[] = {"k", "k", "g0", "g1"};
    struct library *l = arg;
    const char *scope = scopes[below(l, ARRAY_LEN(scopes))];
    struct watcher w = {.library = l, .bucket = store_hash_of_bucket(str_from(scope))};
    coord_watch *reader = NULL;
    coord_event event;

    while (!over(l)) {
        if (!reader) {
            (void)coord_watch_open(l->store, &(coord_call){.timeout_ms = 2000}, text(scope),
                                   COORD_WATCH_BUCKET, &reader);
            if (!reader) sleep_for(l, 50);
            continue;
        }
        if (!coord_watch_next(reader, 20 + (int64_t)below(l, 100), &event) || l->dying) continue;
        on_event(&w, &event);
        if (event.type != COORD_CLOSED) continue;
        coord_watch_close(reader); /* an older release refused the watch; a newer one serves it */
        reader = NULL;
    }
    coord_watch_close(reader);
    return NULL;
}

/* -- life -- */
/* coord_open, restricted to the stores of this world. */
static coord_result open_store(struct library *l)
{
    const coord_options options = {.open_timeout_ms = OPEN_MS, .keep_on_close = (int)below(l, 2)};
    struct prim_url parsed;
    coord_result result = prim_url_parse(url, &parsed);

    if (result.code != COORD_OK) return result;
    result = prim_store_open(prim_native_open, &parsed, &options, &l->store);
    prim_url_deinit(&parsed);
    return result;
}

static void session(struct library *l)
{
    pthread_t threads[STORE_WORKERS + 2];

    l->actor->story->witness.sessions++;
    l->enough = false;
    l->ops_left = 5 + (int)below(l, SESSION_OPS_MAX);
    for (size_t i = 0; i < STORE_WORKERS; i++)
        (void)pthread_create(&threads[i], NULL, work, &l->workers[i]);
    (void)pthread_create(&threads[STORE_WORKERS], NULL, watch, l);
    (void)pthread_create(&threads[STORE_WORKERS + 1], NULL, tinker, l);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) (void)pthread_join(threads[i], NULL);
}

static void *live(void *arg)
{
    struct library *l = arg;

    while (!l->dying) {
        coord_result result = open_store(l);
        if (result.code != COORD_OK) {
            /* An older release says that it has no store: later. */
            bool later = result.code == COORD_UNAVAILABLE ||
                         (result.code == COORD_UNSUPPORTED && l->actor->story->upgrades);
            if (!later && !l->dying) store_wrong(l->actor->story, "cannot open: %s", result.text);
            sleep_for(l, 50 + below(l, 500));
            continue;
        }
        session(l);
        coord_close(l->store);
        if (!l->dying && l->counts.done != l->counts.started)
            store_wrong(l->actor->story, "%llu calls begun, %llu done",
                        (unsigned long long)l->counts.started, (unsigned long long)l->counts.done);
    }
    return NULL;
}

static void ended(void *owner)
{
    struct library *l = owner;

    sim_threads_free(l->threads);
    free(l);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct store_actor *actor = context;
    struct library *l = calloc(1, sizeof *l);

    if (!l) return ERR_NOMEM;
    l->actor = actor;
    l->io = io;
    for (size_t i = 0; i < STORE_WORKERS; i++) {
        struct hand *w = &l->workers[i];
        w->library = l;
        w->believer = STORE_CLIENTS + actor->number * STORE_WORKERS + i;
        (void)snprintf(w->owner, sizeof w->owner, "l%zu.%zu", actor->number, i);
    }
    l->threads = sim_threads_open(io, ended, l);
    sim_threads_start(l->threads, live, l);
    *ret_state = l;
    return ERR_OK;
}

static void destroy(void *state)
{
    struct library *l = state;

    l->dying = true;
    for (size_t i = 0; i < STORE_WORKERS; i++)
        store_witness_lets_go(l->actor->story, l->workers[i].believer);
    sim_thread_wake(l);
}

const struct sim_process_ops store_library_ops = {start, NULL, destroy};
