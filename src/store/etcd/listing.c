/* SPDX-License-Identifier: Apache-2.0 */
/* Sends long ranges and computes hashes in slices, one slice per turn of the event loop.
 *
 * Invariant: all slices of a listing read one revision. If that revision is compacted, a listing of
 * the current revision restarts, unless a part of its response was sent. */
#include "store/etcd/listing.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "store/keyvalue.h"

enum { SLICE_KEYS = 4096, SLICE_BYTES = 256 << 10 };
struct etcd_listing {
    struct query query;
    struct query_best *best; /* the first pairs of a sorted range; otherwise NULL */
    bool hashes;             /* true: HashKV; false: Range */
    uint64_t hash;           /* of the keys read so far */
    bool pinned;             /* the client asked for a fixed revision */
    bool sending;
    struct str next;           /* next key to read, stored in `at` */
    uint64_t left, shown, sum; /* left: pairs within the limit; sum: bytes of the pairs */
    uint64_t count;            /* keys of the range */
    uint64_t revision;         /* at the start, for the header */
    bool more;
    size_t at_len;
    char at[STORE_KEY_MAX];
};

bool listing_suits(const struct keys *keys, const struct query *query)
{
    bool few = query->limit > 0 && query->limit < LISTING_KEYS_MIN;
    uint64_t count;

    if (query->count_only || query->range.end.len == 0) return false;
    if (query_is_sorted(query) && (query->limit <= 0 || query->limit > QUERY_BEST_MAX))
        return false;
    if (few && !query_is_sorted(query) && !query_is_filtered(query)) return false;
    /* exact for the current revision, an estimate for a past one */
    count = keys_count_range(keys, query->range, 0);
    return count >= LISTING_KEYS_MIN;
}

static void listing_seek(struct etcd_listing *l, struct str from)
{
    l->at_len = from.len;
    memcpy(l->at, from.at, from.len);
}

static void listing_restart(struct etcd_api *api, struct etcd_listing *l)
{
    const struct keys *keys = api_keys(api);

    l->revision = keys_revision(keys);
    if (l->pinned) l->query.revision = (int64_t)l->revision;
    l->left = l->query.limit > 0 ? (uint64_t)l->query.limit : UINT64_MAX;
    l->sum = l->shown = 0;
    l->more = false;
    if (l->best) query_best_clear(l->best);
    l->hash = 1;
    listing_seek(l, l->query.range.from);
}

static void listing_start(struct etcd_request *request, const struct query *query, bool hashes)
{
    struct etcd_api *api = api_of(request);
    struct etcd_listing *l = calloc(1, sizeof *l);

    if (l && query_is_sorted(query)) l->best = query_best_open(query);
    if (!l || (query_is_sorted(query) && !l->best)) {
        free(l);
        etcd_refuse(request, ETCD_TOO_MANY_REQUESTS);
        return;
    }
    l->query = *query;
    l->hashes = hashes;
    l->pinned = query->revision <= 0;
    listing_restart(api, l);
    request->listing = l;
    rpc_call_set_waiting(request->base.call);
    request_keep(&request->base, &api->listings);
    timer_start_in(&api->listing_turn, 0);
}

void listing_begin(struct etcd_request *request, const struct query *query)
{
    listing_start(request, query, false);
}

void listing_hash(struct etcd_request *request, int64_t revision)
{
    listing_start(request, &(struct query){.range = {STR("\0"), STR("\0")}, .revision = revision},
                  true);
}

static uint64_t hash_pair(uint64_t seed, const struct key_value *pair)
{
    uint64_t numbers[] = {pair->create, pair->mod, pair->version, pair->lease};

    seed = str_hash(pair->key, seed);
    seed = str_hash(pair->value, seed);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        char bytes[8];

        store_le64(bytes, numbers[i]);
        seed = str_hash(str_of(bytes, sizeof bytes), seed);
    }
    return seed;
}

/* `answer` NULL: only adds the pair's size */
static void listing_take(struct etcd_listing *l, struct key_value *pair, struct pack *answer)
{
    size_t size;

    if (l->query.keys_only) pair->value = STR_EMPTY;
    l->left--;
    if (answer) {
        keyvalue_pack(answer, 2, pair);
        return;
    }
    size = keyvalue_size(pair);
    l->sum += 1 + keyvalue_varint(size) + size;
    l->shown++;
}

/* `answer` NULL: measures, sorts or hashes. Returns false at the end. */
static bool listing_slice(const struct keys *keys, struct etcd_listing *l, struct pack *answer)
{
    struct key_range rest = {str_of(l->at, l->at_len), l->query.range.end};
    uint64_t at = (uint64_t)l->query.revision;
    struct keys_cursor cursor;
    struct key_value pair;

    /* Reading the current revision is cheaper than reading it as a past revision. */
    keys_seek(keys, rest, at == keys_revision(keys) ? 0 : at, &cursor);
    cursor.rows_left = SLICE_KEYS;
    while (keys_next(&cursor, &pair)) {
        if (l->best) {
            query_best_add(l->best, &pair);
        } else if (l->hashes) {
            l->hash = hash_pair(l->hash, &pair);
        } else if (query_passes(&l->query, &pair)) {
            if (l->left == 0 || (answer && answer->into->len >= SLICE_BYTES)) {
                l->more = l->left == 0;
                listing_seek(l, pair.key);
                return !l->more;
            }
            listing_take(l, &pair, answer);
        }
    }
    if (cursor.next.len) listing_seek(l, cursor.next);
    return cursor.next.len > 0;
}

static void listing_pack_end(const struct etcd_listing *l, struct pack *answer)
{
    pack_u64(answer, 3, l->more);
    pack_u64(answer, 4, l->count);
}

static void listing_pack_pair(void *owner, const struct key_value *pair)
{
    keyvalue_pack(owner, 2, pair);
}

static enum err listing_send_best(struct etcd_request *request, struct etcd_listing *l)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);

    etcd_header(api, &answer, l->revision);
    l->more = query_best_give(l->best, listing_pack_pair, &answer);
    l->count = keys_count_range(api_keys(api), l->query.range, (uint64_t)l->query.revision);
    listing_pack_end(l, &answer);
    if (!answer.err) rpc_reply_bytes(request->base.call, buf_peek(&api->answer));
    return answer.err;
}

static enum err listing_send_hash(struct etcd_request *request, const struct etcd_listing *l)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = etcd_answer(api);

    pack_u64(&answer, 2, (uint32_t)(l->hash ^ l->hash >> 32));
    pack_u64(&answer, 3, keys_compacted(api_keys(api)));
    pack_u64(&answer, 4, (uint64_t)l->query.revision);
    if (!answer.err) rpc_reply_bytes(request->base.call, buf_peek(&api->answer));
    return answer.err;
}

/* Call after the whole range was measured. */
static enum err listing_begin_sending(struct etcd_request *request, struct etcd_listing *l)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);
    size_t header;
    enum err err;

    l->count = keys_count_range(api_keys(api), l->query.range, (uint64_t)l->query.revision);
    etcd_header(api, &answer, l->revision);
    header = api->answer.len;
    listing_pack_end(l, &answer);
    if (answer.err) return answer.err;
    err = rpc_reply_begin(request->base.call, api->answer.len + l->sum);
    if (!err) err = rpc_reply_more(request->base.call, str_of(api->answer.data, header));
    l->sending = true;
    l->left = l->shown;
    listing_seek(l, l->query.range.from);
    return err;
}

static enum err listing_send(struct etcd_request *request, struct etcd_listing *l, bool *ret_done)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);
    bool more = l->more; /* decided by the measuring pass */

    *ret_done = !listing_slice(api_keys(api), l, &answer);
    l->more = more;
    if (*ret_done) listing_pack_end(l, &answer);
    return answer.err ? answer.err : rpc_reply_more(request->base.call, buf_peek(&api->answer));
}

static void listing_end(struct etcd_request *request, enum etcd_error error)
{
    request_fail(&request->base, etcd_errors[error].status, "%s", etcd_errors[error].text);
}

static void listing_compacted(struct etcd_request *request, struct etcd_listing *l)
{
    if (!l->pinned)
        listing_end(request, ETCD_COMPACTED);
    else if (l->sending)
        listing_end(request, ETCD_TIMEOUT); /* the caller must retry */
    else
        listing_restart(api_of(request), l);
}

static void listing_step(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct etcd_listing *l = request->listing;
    enum err err = ERR_OK;
    bool done = false;

    if (store_machine_restoring(api->service->machine)) {
        listing_end(request, ETCD_TIMEOUT_APPLIED);
        return;
    }
    if ((uint64_t)l->query.revision < keys_compacted(api_keys(api))) {
        listing_compacted(request, l);
        return;
    }
    if (l->sending) {
        err = listing_send(request, l, &done);
    } else if (!listing_slice(api_keys(api), l, NULL)) {
        done = l->best || l->hashes;
        err = l->best     ? listing_send_best(request, l)
              : l->hashes ? listing_send_hash(request, l)
                          : listing_begin_sending(request, l);
    }
    if (err)
        listing_end(request, ETCD_TOO_MANY_REQUESTS);
    else if (done)
        request_free(&request->base);
}

/* all listings take turns */
static void listing_on_turn(struct timer *timer)
{
    struct etcd_api *api = CONTAINER_OF(timer, struct etcd_api, listing_turn);
    struct etcd_request *request = NULL;

    LIST_EACH(&api->listings, node)
    {
        request = etcd_request_of(CONTAINER_OF(node, struct leader_request, link));
        if (!rpc_reply_waits(request->base.call)) break;
        request = NULL;
    }
    if (!request) return;
    list_remove(&request->base.link);
    list_append(&api->listings, &request->base.link);
    timer_start_in(timer, 0);
    listing_step(request);
}

void listing_writable(struct etcd_request *request)
{
    if (request->listing) timer_start_in(&api_of(request)->listing_turn, 0);
}

void listing_freed(struct etcd_request *request)
{
    if (request->listing) query_best_close(request->listing->best);
    free(request->listing);
    request->listing = NULL;
}

void listing_restored(struct etcd_api *api)
{
    LIST_EACH_SAFE(&api->listings, node, next)
    {
        listing_end(etcd_request_of(CONTAINER_OF(node, struct leader_request, link)), ETCD_TIMEOUT);
    }
}

enum err listing_open(struct etcd_api *api)
{
    list_init(&api->listings);
    return timer_init(&api->listing_turn, api->options.io->loop, listing_on_turn);
}

void listing_close(struct etcd_api *api)
{
    timer_deinit(&api->listing_turn);
}
