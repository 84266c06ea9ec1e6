/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, writes and lists Lease objects (store.h), and keeps the pauses that the server asks
 * for. Any thread; the store's lock guards sights and pause. Every object that was read or
 * written is noted as a sight. */
#include "prim/kube/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "text/ndjson.h"

enum { PAUSE_DEFAULT_MS = 1000, WRITE_SHARE = 3, WRITE_MOST_MS = 60000 };

struct kube_path kube_store_path(const struct kube_store *store, const char *name)
{
    return (struct kube_path){"coordination.k8s.io", "v1", store->namespace_, "leases", name, NULL};
}

coord_result kube_store_err(struct kube_store *store, enum err err,
                            const struct kube_answer *answer, const struct note *note)
{
    /* After 429 or any 5xx, no call sends a request until Retry-After has passed. */
    if (err == ERR_FULL || answer->http_status >= 500) {
        uint64_t ms = answer->retry_after_ms;
        if (!ms && err == ERR_FULL) ms = PAUSE_DEFAULT_MS;
        pthread_mutex_lock(&store->lock);
        int64_t until = store_now(store) + (int64_t)ms * PRIM_NS_PER_MS;
        if (ms && until > store->pause_until_ns) store->pause_until_ns = until;
        pthread_mutex_unlock(&store->lock);
    }
    switch (err) {
    case ERR_INVALID: return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "%s", note->text);
    case ERR_TOO_LARGE: return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "%s", note->text);
    case ERR_UNAUTHENTICATED:
    case ERR_DENIED: return prim_answer(COORD_UNAVAILABLE, COORD_R_FORBIDDEN, "%s", note->text);
    case ERR_UNSUPPORTED: return prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER, "%s", note->text);
    case ERR_FULL: return prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED, "%s", note->text);
    case ERR_TIMEOUT: return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "%s", note->text);
    case ERR_NOMEM: return prim_no_memory();
    case ERR_CORRUPT: return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "%s", note->text);
    case ERR_UNKNOWN: return prim_unclear(COORD_R_STORAGE, "%s", note->text);
    default:
        return prim_answer(COORD_UNAVAILABLE,
                           answer->http_status ? COORD_R_STORAGE : COORD_R_CONNECTION, "%s",
                           note->text);
    }
}

/* -- one call -- */

static int64_t store_left_ms(const struct ask *ask)
{
    return prim_left_ms(&ask->store->base.clock, ask->call->deadline_ns);
}

/* If the deadline comes before the end of the pause, returns UNAVAILABLE/timeout without a
 * pause. */
static coord_result ask_wait(const struct ask *ask, int64_t ms, const char *what)
{
    if (ms >= store_left_ms(ask))
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "%s", what);
    if (ms > 0) prim_thread_pause_ms(ms);
    return prim_ok(COORD_R_NONE);
}

/* Waits for the end of a pause that the server asked for (Q11). Fails if there is no time. */
static coord_result wait_for_server(const struct ask *ask)
{
    pthread_mutex_lock(&ask->store->lock);
    int64_t ms = (ask->store->pause_until_ns - store_now(ask->store)) / PRIM_NS_PER_MS;
    pthread_mutex_unlock(&ask->store->lock);
    if (ms <= 0)
        return store_left_ms(ask) > 0 ? prim_ok(COORD_R_NONE) : ask_wait(ask, 1, "no time left");
    coord_result waited = ask_wait(ask, ms + 1, "the server asked for a pause");
    if (waited.code != COORD_OK) waited.reason = COORD_R_OVERLOADED;
    return waited;
}

/* -- objects -- */

/* OK: the object is an entry of `key`, not only of its hash. */
static coord_result check_doc(struct kube_store *store, const struct json *json, struct str key,
                              struct kube_lease_view *ret_view)
{
    struct note note = {""};
    char name[LEASE_NAME_CAP];
    enum err err = kube_lease_decode(json, store->prefix, ret_view, &note);

    if (err == ERR_NOMEM) return prim_no_memory();
    if (!err && (key.len == 0 || str_equal(ret_view->key, key))) return prim_ok(COORD_R_NONE);
    if (!err) {
        kube_lease_view_deinit(ret_view);
        note_set(&note, "it has another key");
    }
    kube_lease_name(key, name);
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "lease %s: %s", name, note.text);
}

static void note_sight(struct kube_store *store, struct str key, const struct doc *doc)
{
    pthread_mutex_lock(&store->lock);
    if (doc->present)
        kube_sights_note(&store->sights, key, &doc->view, doc->got_ns);
    else
        kube_sights_note_absent(&store->sights, key, doc->got_ns);
    pthread_mutex_unlock(&store->lock);
}

/* Uses the server's object. UNAVAILABLE/corrupt: no entry of this store. */
static coord_result doc_take(struct kube_store *store, struct json *own_json, struct str key,
                             int64_t sent_ns, struct doc *ret_doc)
{
    struct doc doc = {
        .present = true, .json = own_json, .sent_ns = sent_ns, .got_ns = store_now(store)};
    coord_result good = check_doc(store, own_json, key, &doc.view);

    if (good.code != COORD_OK) {
        json_close(own_json);
        return good;
    }
    note_sight(store, doc.view.key, &doc);
    *ret_doc = doc;
    return good;
}

coord_result kube_doc_read(struct ask *ask, struct str key, struct doc *ret_doc)
{
    struct kube_store *store = ask->store;
    struct kube_answer answer;
    struct note note = {""};
    char name[LEASE_NAME_CAP];
    coord_result result = wait_for_server(ask);

    if (result.code != COORD_OK) return result;
    kube_lease_name(key, name);
    int64_t sent_ns = store_now(store);
    struct kube_path path = kube_store_path(store, name);
    enum err err = kube_get(store->kube, &path, (uint64_t)store_left_ms(ask), &answer, &note);
    if (!err) {
        struct json *json = answer.object;
        answer.object = NULL;
        result = doc_take(store, json, key, sent_ns, ret_doc);
    } else if (err == ERR_NOT_FOUND) {
        struct doc absent = {.sent_ns = sent_ns, .got_ns = store_now(store)};
        note_sight(store, key, &absent);
        *ret_doc = absent;
    } else {
        result = kube_store_err(store, err, &answer, &note);
    }
    kube_answer_deinit(&answer);
    return result;
}

/* A third of the time is for reading the key after a write without an answer. */
static uint64_t write_limit_ms(const struct ask *ask)
{
    int64_t left = store_left_ms(ask);

    return min_u64((uint64_t)(left - left / WRITE_SHARE), WRITE_MOST_MS);
}

static enum prim_wrote write_body(struct ask *ask, const struct lease_write *write, struct str body,
                                  struct doc *ret_doc, coord_result *ret_why)
{
    struct kube_store *store = ask->store;
    struct kube_answer answer;
    struct note note = {""};
    char name[LEASE_NAME_CAP];
    enum prim_wrote wrote = PRIM_WROTE_NOT;
    enum err err;

    kube_lease_name(write->key, name);
    struct kube_path path = kube_store_path(store, write->over ? name : NULL);
    int64_t sent_ns = store_now(store);
    ask->change->sent_ns = sent_ns;
    err = write->over ? kube_update(store->kube, &path, body, write_limit_ms(ask), &answer, &note)
                      : kube_create(store->kube, &path, body, write_limit_ms(ask), &answer, &note);
    if (!err) {
        struct json *json = answer.object;
        answer.object = NULL;
        *ret_why = doc_take(store, json, write->key, sent_ns, ret_doc);
        if (ret_why->code == COORD_OK)
            wrote = PRIM_WROTE;
        else
            prim_change_doubt(ask->change, sent_ns); /* accepted, whatever this answer contains */
    } else if (err == ERR_UNKNOWN) {
        (void)kube_store_err(store, err, &answer, &note); /* records a pause if the server asks */
        prim_change_doubt(ask->change, sent_ns);
        wrote = PRIM_WROTE_RACE;
    } else if (err == ERR_EXISTS || err == ERR_CONFLICT || (err == ERR_NOT_FOUND && write->over)) {
        /* The object was changed (409) or deleted (404). The next read shows which. */
        wrote = PRIM_WROTE_RACE;
    } else {
        *ret_why = kube_store_err(store, err, &answer, &note);
    }
    kube_answer_deinit(&answer);
    return wrote;
}

enum prim_wrote kube_doc_write(struct ask *ask, const struct lease_write *write,
                               struct doc *ret_doc, coord_result *ret_why)
{
    enum prim_wrote wrote = PRIM_WROTE_NOT;
    struct kube_store *store = ask->store;
    struct buf body;
    enum err err;

    *ret_why = wait_for_server(ask);
    if (ret_why->code == COORD_OK && !write->over) {
        pthread_mutex_lock(&store->lock);
        int64_t ms = kube_sights_create_wait_ms(&store->sights, write->key, store_now(store));
        pthread_mutex_unlock(&store->lock);
        if (ms) *ret_why = ask_wait(ask, ms, "the object was deleted by hand a moment ago");
    }
    if (ret_why->code != COORD_OK) return PRIM_WROTE_NOT;
    buf_init(&body, LEASE_BODY_MAX);
    err = kube_lease_encode(write, &body);
    if (err)
        *ret_why =
            prim_answer(COORD_UNAVAILABLE, err == ERR_NOMEM ? COORD_R_MEMORY : COORD_R_STORAGE,
                        "lease: %s", err_text(err));
    else
        wrote = write_body(ask, write, buf_peek(&body), ret_doc, ret_why);
    buf_deinit(&body);
    return wrote;
}

bool kube_doc_is_live(struct kube_store *store, const struct doc *doc, int64_t *ret_left_ms)
{
    *ret_left_ms = -1;
    if (!doc->present || kube_lease_is_tombstone(&doc->view)) return false;
    if (!kube_lease_is_leased(&doc->view)) return true;
    pthread_mutex_lock(&store->lock);
    *ret_left_ms = kube_sights_left_ms(&store->sights, doc->view.key, &doc->view, doc->sent_ns);
    pthread_mutex_unlock(&store->lock);
    return *ret_left_ms != 0;
}

/* -- lists -- */

void kube_docs_deinit(struct docs *docs)
{
    for (size_t i = 0; i < docs->count; i++) kube_lease_view_deinit(&docs->at[i].view);
    for (size_t i = 0; i < docs->page_count; i++) json_close(docs->pages[i]);
    free(docs->at);
    free(docs->pages);
    *docs = (struct docs){0};
}

/* *ret_continue points into the page. */
static coord_result add_page(struct kube_store *store, struct json *own_page, int64_t sent_ns,
                             struct docs *docs, struct str *ret_continue)
{
    struct kube_list_head head;
    struct note note = {""};
    size_t items;
    void *grown;

    if (!(grown = realloc(docs->pages, (docs->page_count + 1) * sizeof(struct json *)))) {
        json_close(own_page);
        return prim_no_memory();
    }
    docs->pages = grown;
    docs->pages[docs->page_count++] = own_page;
    if (kube_list_decode(own_page, &head, &note))
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "list: %s", note.text);
    items = json_count(head.items);
    if (!(grown = realloc(docs->at, (docs->count + items + 1) * sizeof(struct doc))))
        return prim_no_memory();
    docs->at = grown;
    for (size_t i = 0; i < items; i++) {
        struct doc doc = {.present = true, .sent_ns = sent_ns, .got_ns = store_now(store)};
        coord_result good = check_doc(store, json_item(head.items, i), STR_EMPTY, &doc.view);
        if (good.code != COORD_OK) return good;
        note_sight(store, doc.view.key, &doc);
        docs->at[docs->count++] = doc;
    }
    memcpy(docs->version, head.resource_version, sizeof docs->version);
    *ret_continue = head.continue_;
    return prim_ok(COORD_R_NONE);
}

static coord_result list_once(struct ask *ask, const char *selector, struct docs *docs,
                              bool *ret_too_old)
{
    struct kube_store *store = ask->store;
    struct kube_path path = kube_store_path(store, NULL);
    struct kube_list_options options = {.label_selector = selector, .limit = STORE_PAGE};
    coord_result result;

    do {
        struct kube_answer answer;
        struct note note = {""};
        result = wait_for_server(ask);
        if (result.code != COORD_OK) return result;
        int64_t sent_ns = store_now(store);
        enum err err =
            kube_list(store->kube, &path, &options, (uint64_t)store_left_ms(ask), &answer, &note);
        *ret_too_old = err == ERR_PRECONDITION;
        if (err) {
            result = kube_store_err(store, err, &answer, &note);
        } else {
            struct json *page = answer.object;
            answer.object = NULL;
            result = add_page(store, page, sent_ns, docs, &options.continue_);
        }
        kube_answer_deinit(&answer);
    } while (result.code == COORD_OK && options.continue_.len);
    return result;
}

coord_result kube_docs_list(struct ask *ask, struct str bucket, struct docs *ret_docs)
{
    char hash[LEASE_HASH_CAP], selector[LEASE_PREFIX_MAX + LEASE_HASH_CAP + 16];
    struct docs docs = {0};
    bool too_old = true;
    coord_result result = prim_ok(COORD_R_NONE);

    kube_lease_hash(bucket, hash);
    (void)snprintf(selector, sizeof selector, "%s/bucket=%s", ask->store->prefix, hash);
    /* A list that expired between two pages starts again, at most twice. */
    for (int turn = 0; turn < 3 && too_old; turn++) {
        kube_docs_deinit(&docs);
        result = list_once(ask, selector, &docs, &too_old);
    }
    if (result.code != COORD_OK) {
        kube_docs_deinit(&docs);
        return result;
    }
    *ret_docs = docs;
    return result;
}

/* -- leases of this process -- */

bool kube_held_take(struct kube_store *store, struct str key, const coord_id *lease_id,
                    struct doc *ret_doc)
{
    pthread_mutex_lock(&store->lock);
    bool held = kube_sights_take(&store->sights, key, lease_id, ret_doc);
    pthread_mutex_unlock(&store->lock);
    return held;
}

void kube_held_put(struct kube_store *store, struct str key, struct doc *own_doc)
{
    pthread_mutex_lock(&store->lock);
    kube_sights_keep(&store->sights, key, own_doc);
    pthread_mutex_unlock(&store->lock);
}
