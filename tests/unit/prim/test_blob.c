/* SPDX-License-Identifier: Apache-2.0 */
/* A lease as bytes, and its use in another process. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "lib/test.h"
#include "prim/answer.h"
#include "prim/blob.h"
#include "unit/prim/fake_backend.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})
#define MS            INT64_C(1000000)

static struct prim_held two_keys[] = {
    {.key = "g/slot-0007", .token = 5, .create_revision = 4, .slot = 7},
    {.key = "b", .token = 6, .create_revision = 6, .slot = COORD_NO_SLOT},
};

static size_t encode(uint8_t *blob, size_t cap)
{
    struct prim_claim claim = {{{1, 2}}, "me", 3000, two_keys, 2};
    coord_id store = {{9}};
    return blob_encode(&store, &claim, blob, cap);
}

TEST(what_is_written_is_read)
{
    uint8_t bytes[256];
    struct blob blob;
    size_t len = encode(NULL, 0);
    CHECK_SIZE("the same size twice", encode(bytes, sizeof bytes), len);
    CHECK_OK("read", blob_decode(str_of(bytes, len), &blob));
    CHECK_I64("ttl", blob.claim.ttl_ms, 3000);
    CHECK_TEXT("owner", blob.claim.owner, "me");
    CHECK_SIZE("keys", blob.claim.count, 2);
    CHECK_TEXT("first", blob.claim.held[0].key, "g/slot-0007");
    CHECK_TEXT("second", blob.claim.held[1].key, "b");
    CHECK_U32("slot", blob.claim.held[0].slot, 7);
    CHECK_U64("token", blob.claim.held[1].token, 6);
    CHECK_U64("created", blob.claim.held[0].create_revision, 4);
    CHECK_U32("ids", (uint32_t)(blob.claim.lease_id.b[1] + blob.store_id.b[0]), 11);
    free(blob.memory);
}

TEST(one_byte_changed_is_no_blob)
{
    uint8_t bytes[256];
    struct blob blob;
    size_t len = encode(bytes, sizeof bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= 0x40;
        CHECK_ERR("damaged", blob_decode(str_of(bytes, len), &blob), ERR_CORRUPT);
        bytes[i] ^= 0x40;
        CHECK_ERR("cut", blob_decode(str_of(bytes, i), &blob), ERR_CORRUPT);
    }
}

/* Changes a field and fixes the checksum. */
static enum err forge(size_t at, uint8_t value)
{
    uint8_t bytes[256];
    struct blob blob;
    size_t len = encode(bytes, sizeof bytes);
    bytes[at] = value;
    store_le32(bytes + len - 4, crc32c(0, bytes, len - 4));
    enum err err = blob_decode(str_of(bytes, len), &blob);
    if (err == ERR_OK) { free(blob.memory); }
    return err;
}

TEST(limits_hold_for_a_blob_with_a_good_checksum)
{
    CHECK_ERR("no keys", forge(12, 0), ERR_CORRUPT);
    CHECK_ERR("a key too many", forge(12, 3), ERR_CORRUPT);
    CHECK_ERR("a key too few", forge(12, 1), ERR_CORRUPT);
    CHECK_ERR("longer owner", forge(14, 200), ERR_CORRUPT);
    CHECK_ERR("a ttl of years", forge(55, 1), ERR_CORRUPT);
    CHECK_ERR("an owner with a blank", forge(56, ' '), ERR_CORRUPT);
    CHECK_ERR("a token of 64 bits", forge(58 + 7, 0x80), ERR_CORRUPT);
    CHECK_ERR("another slot than in the key", forge(58 + 16, 8), ERR_CORRUPT);
    CHECK_ERR("a key with a blank", forge(58 + 22, ' '), ERR_CORRUPT);
    CHECK_ERR("another lease id is another lease", forge(33, 77), ERR_OK);
}

TEST(an_imported_lease_goes_on_with_what_is_left)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL, *taken = NULL;
    uint8_t bytes[256];
    struct turned_clock clock = {1000 * MS};
    coord_options options = {.now = turned_clock_now, .now_arg = &clock};
    fake_init(&fake);
    (void)fake_open(&fake, &options, &store);
    (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 1000, "me", &lease);
    (void)coord_create_under(lease, NULL, TEXT("b"), TEXT(""));
    size_t len = coord_lease_export(lease, bytes, sizeof bytes);
    CHECK_SIZE("the size without a place", coord_lease_export(lease, NULL, 0), len);
    fake.left_ms = 400;
    coord_result result = coord_lease_import(store, NULL, bytes, len, &taken);
    CHECK_I64("taken up", result.code, COORD_OK);
    CHECK_U64("the same token", coord_lease_token(taken), coord_lease_token(lease));
    CHECK_I64("the remaining time less the margin", coord_safe_for_ms(taken), 300);
    CHECK_SIZE("all keys were checked", fake.claim_count, 2);
    CHECK_I64("nothing was extended", fake_calls(&fake, FAULT_RENEW), 0);
    coord_lease_unref(taken);
    fake.left_ms = -1; /* the store does not know */
    taken = NULL;
    CHECK_I64("taken up", coord_lease_import(store, NULL, bytes, len, &taken).code, COORD_OK);
    CHECK_I64("so it was renewed", fake_calls(&fake, FAULT_RENEW), 1);
    CHECK_I64("from now", coord_safe_for_ms(taken), 900);
    coord_lease_unref(taken);
    bytes[20] ^= 1;
    CHECK_I64("damaged", coord_lease_import(store, NULL, bytes, len, &taken).reason,
              COORD_R_HANDLE);
    bytes[20] ^= 1;
    coord_close(store);
    fake.base.id = prim_id_random();
    (void)fake_open(&fake, &options, &store);
    result = coord_lease_import(store, NULL, bytes, len, &taken);
    CHECK_I64("of another store", result.reason, COORD_R_OTHER_STORE);
    result = coord_compare_and_set(store, NULL, TEXT("a"), 5, TEXT(""), COORD_TTL_KEEP, NULL, lease,
                                   NULL);
    CHECK("a handle too", result.reason == COORD_R_OTHER_STORE);
    coord_lease_unref(lease);
    coord_close(store);
}

static coord_result replays(struct fake *fake, enum fault_op op, const struct prim_call *call)
{
    (void)fake;
    (void)call;
    return prim_ok(op == FAULT_CREATE ? COORD_R_REPLAYED : COORD_R_NONE);
}

TEST(a_replay_of_an_old_request_counts_from_a_renewal_not_from_now)
{
    struct fake fake;
    coord_store *store;
    coord_lease *lease = NULL;
    fake_init(&fake);
    fake.act = replays;
    (void)fake_open(&fake, NULL, &store);
    coord_call call = {.request_id = {{7}}};
    coord_result result =
        coord_create_if_absent(store, &call, TEXT("a"), TEXT(""), 60000, "me", &lease);
    CHECK_I64("the first answer again", result.reason, COORD_R_REPLAYED);
    CHECK_I64("and the store was asked whether it lives", fake_calls(&fake, FAULT_RENEW), 1);
    coord_lease_unref(lease);
    (void)coord_create_if_absent(store, NULL, TEXT("a"), TEXT(""), 60000, "me", &lease);
    CHECK_I64("an id of our own is no older than the call", fake_calls(&fake, FAULT_RENEW), 1);
    coord_lease_unref(lease);
    coord_close(store);
}

TEST(a_token_is_compared_with_the_grant_that_is_there)
{
    struct fake fake;
    coord_store *store;
    fake_init(&fake);
    (void)fake_open(&fake, NULL, &store);
    CHECK_I64("it is", coord_assert_token(store, NULL, TEXT("a"), 5).code, COORD_OK);
    coord_result result = coord_assert_token(store, NULL, TEXT("a"), 4);
    CHECK_I64("it is not", result.reason, COORD_R_NOT_OWNER);
    CHECK_U64("but this", result.token, 5);
    CHECK_TEXT("of", result.owner, "somebody");
    coord_close(store);
}

TEST(a_fence_admits_the_newest_and_refuses_the_older)
{
    coord_fence fence = {0};
    CHECK_I64("none", coord_fence_admit(&fence, 0), 0);
    CHECK_I64("first", coord_fence_admit(&fence, 7), 1);
    CHECK_I64("again", coord_fence_admit(&fence, 7), 1);
    CHECK_I64("newer", coord_fence_admit(&fence, 9), 1);
    CHECK_I64("older", coord_fence_admit(&fence, 7), 0);
}

static void *climb(void *arg)
{
    coord_fence *fence = arg;
    uint64_t highest = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t token = (uint64_t)prim_random_below(1000) + 1;
        int admitted = coord_fence_admit(fence, token);
        if (admitted && token < highest) { return arg; }
        if (admitted) { highest = token; }
    }
    return NULL;
}

TEST(a_fence_is_atomic)
{
    coord_fence fence = {0};
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        (void)pthread_create(&threads[i], NULL, climb, &fence);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *wrong = NULL;
        (void)pthread_join(threads[i], &wrong);
        CHECK("never back", wrong == NULL);
    }
    CHECK_U64("the largest stays", fence.highest, 1000);
}
