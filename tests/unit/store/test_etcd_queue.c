/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a lock: the first key, the keys before a key, and invalid answers. */
#include <stdio.h>

#include "lib/test.h"
#include "store/core/txn.h"
#include "store/etcd/queue.h"
#include "store/interest.h"

TEST(keys_are_named_as_etcd_names_them)
{
    static const struct {
        const char *name;
        int64_t lease;
        const char *key;
    } rows[] = {
        {"lock", 255, "lock/ff"},
        {"lock", -255, "lock/-ff"}, /* as Go prints it */
        {"", 1, "/1"},
        {"a/b", 0x7fffffffffffffff, "a/b/7fffffffffffffff"},
        {"a", INT64_MIN, "a/-8000000000000000"},
    };
    char room[8 + QUEUE_LEASE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR("key", queue_key(str_from(rows[i].name), rows[i].lease, room),
                  str_from(rows[i].key));
}

static void put(struct keys *keys, const char *key)
{
    keys_begin(keys);
    keys_put(keys, str_from(key), STR_EMPTY, 0);
    (void)keys_commit(keys);
}

TEST(the_first_and_the_one_before)
{
    struct keys *keys = keys_open();
    char end[8];
    struct key_range range = key_range_of_prefix(STR("n/"), end);
    struct key_value found;

    CHECK("open", keys != NULL);
    CHECK("nobody", queue_first(keys, range, &found) == ERR_NOT_FOUND &&
                        !queue_before(keys, range, 99, &found));
    put(keys, "n");   /* 2: another name's */
    put(keys, "n0");  /* 3: the same */
    put(keys, "n/b"); /* 4 */
    put(keys, "n/c"); /* 5 */
    put(keys, "n/a"); /* 6 */
    put(keys, "n/b"); /* 7: a later write keeps the key's place */
    CHECK("the first came first", !queue_first(keys, range, &found) && found.create == 4);
    CHECK("and has its newest value", found.mod == 7);
    CHECK("nobody before it", !queue_before(keys, range, 4, &found));
    CHECK("the one before, not the first",
          queue_before(keys, range, 6, &found) && found.create == 5);
    CHECK("and the first before that", queue_before(keys, range, 5, &found) && found.create == 4);
    keys_begin(keys);
    CHECK("it goes", keys_delete(keys, STR("n/c")));
    (void)keys_commit(keys);
    CHECK("the one that is left", queue_before(keys, range, 6, &found) && found.create == 4);
    put(keys, "n/c"); /* 9: a key that was deleted and comes back is last */
    CHECK("its place is lost", queue_before(keys, range, 9, &found) && found.create == 6);
    keys_close(keys);
}

TEST(among_more_than_a_transaction_may_look_at_there_is_no_first)
{
    struct keys *keys = keys_open();
    char end[8], name[16];
    struct key_range range = key_range_of_prefix(STR("n/"), end);
    struct key_value found;

    CHECK("open", keys != NULL);
    put(keys, "n/last"); /* created first, but last by name */
    keys_begin(keys);
    for (int i = 1; i < TXN_KEYS_MAX; i++) {
        snprintf(name, sizeof name, "n/%d", i);
        keys_put(keys, str_from(name), STR_EMPTY, 0);
    }
    (void)keys_commit(keys);
    CHECK_OK("as many as may be", queue_first(keys, range, &found));
    CHECK_STR("all are looked at", found.key, STR("n/last"));
    put(keys, "n/one more");
    CHECK_ERR("refused", queue_first(keys, range, &found), ERR_TOO_LARGE);
    put(keys, "o/another");
    CHECK_OK("another name", queue_first(keys, key_range_of_prefix(STR("o/"), end), &found));
    keys_close(keys);
}

/* Answers of another product's leader, or of another release. */
TEST(answers_that_are_none)
{
    Etcdserverpb__TxnResponse answer = ETCDSERVERPB__TXN_RESPONSE__INIT;
    Etcdserverpb__ResponseOp put_op = ETCDSERVERPB__RESPONSE_OP__INIT, range_op = put_op;
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__PutResponse written = ETCDSERVERPB__PUT_RESPONSE__INIT;
    Mvccpb__KeyValue pair = MVCCPB__KEY_VALUE__INIT, *pairs[] = {&pair};
    Etcdserverpb__ResponseOp *ops[] = {&put_op, &range_op};
    struct queue_entry entered;

    CHECK("nothing at all", !queue_entered(&answer, 7, &entered));
    put_op.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    put_op.response_put = &written;
    range_op.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    range_op.response_range = &range;
    answer.responses = ops;
    answer.n_responses = 2;
    answer.succeeded = true;
    CHECK("nobody is first", !queue_entered(&answer, 7, &entered));
    range.kvs = pairs;
    range.n_kvs = 1;
    pair.create_revision = 3;
    CHECK("made", queue_entered(&answer, 7, &entered));
    CHECK("behind another", entered.create == 7 && !entered.first);
    CHECK("by this call", entered.created && entered.mod == 7);
    pair.create_revision = 7;
    CHECK("made first", queue_entered(&answer, 7, &entered) && entered.first);
    answer.succeeded = false;
    CHECK("as it was, and not reported", !queue_entered(&answer, 7, &entered));
    answer.n_responses = 1;
    CHECK("cut short", !queue_entered(&answer, 7, &entered));
}
