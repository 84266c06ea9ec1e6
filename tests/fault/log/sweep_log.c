/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in the parts of the log that only use memory. After each
 * failure the call returns out of memory once, the same call then succeeds, and nothing leaks
 * (AddressSanitizer counts). */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "log/entries.h"
#include "log/envelope.h"
#include "log/meta.h"
#include "trial/trial.h"

static unsigned reported;

/* Once more if memory failed. */
static enum err again(enum err err, bool *ret_repeat)
{
    *ret_repeat = err == ERR_NOMEM;
    reported += *ret_repeat;
    return err;
}
#define TRY(why, call)                                                                             \
    do {                                                                                           \
        bool repeat;                                                                               \
        enum err tried;                                                                            \
        do tried = again((call), &repeat);                                                         \
        while (repeat);                                                                            \
        CHECK_OK(why, tried);                                                                      \
    } while (0)

static void check_reported(void)
{
    CHECK_U64("each failed allocation is reported, once", reported, fault_alloc_fired() ? 1 : 0);
}

TEST(entries_report_a_failed_allocation_and_go_on)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct entries *e = NULL;
        struct entry entry = {.term = 1, .kind = ENTRY_COMMAND, .bytes = STR("bytes")};
        struct wal_found found = {.place = {.sequence = 1, .offset = 4096, .size = 56}};

        reported = 0;
        TRY("open", entries_open(20, 1, &e));
        for (uint64_t i = 1; i <= 30; i++) {
            entry.index = i <= 20 ? i : i - 10; /* some replace */
            TRY("append", entries_append(e, &entry));
            CHECK_U64("it is the last", entries_last(e), entry.index);
        }
        entries_forget_to(e, 5);
        found.entry = entry;
        for (uint64_t i = 21; i < 30; i++) {
            found.entry.index = i;
            TRY("found", entries_found(e, &found));
        }
        CHECK_U64("all are there", entries_last(e) + 1 - entries_first(e), 24);
        entries_close(e);
        check_reported();
        turns = k;
    }
    CHECK("many places", turns > 30);
}

TEST(bytes_are_written_whole_or_not_at_all)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct log_envelope envelope = {.version = 1, .level = 1, .command = STR("a command")};
        struct trial_command command = {.op = TRIAL_SET, .key = STR("key"), .value = STR("value")};
        struct buf bytes;

        reported = 0;
        buf_init(&bytes, 1000);
        TRY("envelope", envelope_append(&envelope, &bytes));
        CHECK_SIZE("once", bytes.len, envelope_size(&envelope));
        buf_deinit(&bytes);
        buf_init(&bytes, 1000);
        TRY("level", meta_level_command(2, &bytes));
        buf_deinit(&bytes);
        buf_init(&bytes, 1000);
        TRY("command", trial_encode(&command, &bytes));
        CHECK_SIZE("once", bytes.len, 24);
        buf_deinit(&bytes);
        check_reported();
        turns = k;
    }
    CHECK("each of them", turns >= 3);
}

static void apply(struct trial *trial, enum trial_op op, const char *key)
{
    struct trial_command command = {.op = op, .key = str_from(key), .number = 1};
    struct buf bytes, reply;
    struct machine_entry entry = {.index = trial_applied(trial) + 1};

    buf_init(&bytes, 1000);
    buf_init(&reply, 1000);
    CHECK_OK("encode", trial_encode(&command, &bytes));
    entry.command = buf_peek(&bytes);
    CHECK_OK("room", buf_append_c(&reply, "room for an answer, taken before memory fails"));
    buf_clear(&reply);
    fault_alloc_arm(op == TRIAL_ADD ? 1 : 0);
    (void)trial_ops.apply(trial, &entry, &reply, NULL);
    fault_alloc_arm(0);
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

TEST(without_memory_to_put_a_register_aside_the_snapshot_fails_and_applying_does_not)
{
    struct trial *trial = NULL;
    struct buf bytes;
    void *view;
    bool done;

    CHECK_OK("open", trial_open(10, &trial));
    apply(trial, TRIAL_SET, "a");
    CHECK_OK("begin", trial_ops.snapshot_begin(trial, 1, &view));
    apply(trial, TRIAL_ADD, "a");
    buf_init(&bytes, 1000);
    CHECK_ERR("the snapshot", trial_ops.snapshot_next(view, 100, &bytes, &done), ERR_NOMEM);
    trial_ops.snapshot_end(view);
    uint64_t revision = 0;
    int64_t number = 0;
    struct str value;
    CHECK("the register", trial_get(trial, STR("a"), &revision, &number, &value));
    CHECK_U64("was changed all the same", revision, 2);
    buf_deinit(&bytes);
    trial_close(trial);
}

TEST(views_and_restores_report_a_failed_allocation)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct trial *trial = NULL;
        void *view = NULL;
        bool done = false;
        struct buf bytes;

        reported = 0;
        buf_init(&bytes, 1000);
        TRY("open", trial_open(10, &trial));
        TRY("begin", trial_ops.snapshot_begin(trial, 0, &view));
        TRY("next", trial_ops.snapshot_next(view, 100, &bytes, &done));
        trial_ops.snapshot_end(view);
        TRY("restore", trial_ops.restore_begin(trial, 0, NULL));
        TRY("restore", trial_ops.restore_next(trial, buf_peek(&bytes), NULL));
        TRY("restore", trial_ops.restore_end(trial, NULL));
        trial_close(trial);
        buf_deinit(&bytes);
        check_reported();
    }
}
