/* SPDX-License-Identifier: Apache-2.0 */
/* operator/kube/chores.h: each request is executed, the newest counts, and no chore runs twice at
 * once. */
#include <stdatomic.h>

#include "io/real.h"
#include "lib/test.h"
#include "operator/kube/chores.h"

enum { ROWS = 40 };

struct row {
    struct chore chore;
    int wanted, prepared,
        seen;           /* wanted by the loop; passed to the thread; last seen by the thread */
    _Atomic int inside; /* runs of this chore at this moment */
    int runs, fails_left;
    size_t turn; /* number of the turn in which it last began */
    bool twice, refuses;
};
static struct real_io *real;
static size_t ended, turns;

static bool prepare(struct chore *chore)
{
    struct row *row = CONTAINER_OF(chore, struct row, chore);

    row->prepared = row->wanted;
    row->turn = ++turns;
    return !row->refuses;
}

static enum err run(struct chore *chore)
{
    struct row *row = CONTAINER_OF(chore, struct row, chore);

    if (atomic_fetch_add(&row->inside, 1) != 0) row->twice = true;
    row->seen = row->prepared;
    row->runs++;
    atomic_fetch_sub(&row->inside, 1);
    return row->fails_left-- > 0 ? ERR_UNAVAILABLE : ERR_OK;
}

static bool on_ended(struct chore *chore, enum err err)
{
    (void)chore;
    if (!err) ended++;
    return false;
}
static const struct chore_ops ops = {prepare, run, on_ended};

static struct chores *opened(struct row *rows, size_t count)
{
    struct chores *chores = NULL;

    ended = turns = 0;
    CHECK_OK("io", real_io_open(&real));
    CHECK_OK("chores", chores_open(real_io_io(real), &chores));
    for (size_t i = 0; i < count; i++) chore_init(&rows[i].chore, chores, &ops);
    return chores;
}

static void closed(struct chores *chores)
{
    chores_close(chores);
    real_io_close(real);
}

TEST(every_row_is_done_and_none_twice_at_once)
{
    static struct row rows[ROWS];
    struct chores *chores = opened(rows, ROWS);
    bool right = false;

    for (int round = 1; round <= 50; round++) {
        for (size_t i = 0; i < ROWS; i++) {
            rows[i].wanted = round;
            chore_want(&rows[i].chore);
        }
        real_io_turn(real, false);
    }
    while (!right) { /* until the newest request of each chore was seen */
        right = true;
        real_io_turn(real, true);
        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].chore.state != CHORE_IDLE || rows[i].seen != 50) right = false;
    }
    for (size_t i = 0; i < ROWS; i++) {
        CHECK("one at a time", !rows[i].twice);
        CHECK("requests are merged", rows[i].runs >= 1 && rows[i].runs <= 50);
    }
    closed(chores);
}

TEST(a_failed_one_comes_again)
{
    static struct row row;
    struct chores *chores;

    row.fails_left = 2;
    chores = opened(&row, 1);
    chore_want(&row.chore);
    while (!ended) real_io_turn(real, true);
    CHECK_I64("two failures and a success", row.runs, 3);
    CHECK_U32("and they are forgotten", row.chore.failures, 0);
    closed(chores);
}

TEST(an_urgent_one_does_not_wait_behind_the_others)
{
    static struct row rows[ROWS];
    struct chores *chores = opened(rows, ROWS);
    struct row *last = &rows[ROWS - 1];

    last->chore.urgent = true;
    for (size_t i = 0; i < ROWS; i++) chore_want(&rows[i].chore);
    while (ended < ROWS) real_io_turn(real, true);
    CHECK_SIZE("right after those that ran already", last->turn, CHORE_THREADS + 1);
    closed(chores);
}

TEST(one_with_nothing_to_do_is_not_run)
{
    static struct row row;
    struct chores *chores;

    row.refuses = true;
    chores = opened(&row, 1);
    chore_want(&row.chore);
    CHECK("idle again", row.chore.state == CHORE_IDLE);
    CHECK_I64("not run", row.runs, 0);
    closed(chores);
}

TEST(a_forgotten_one_is_nowhere)
{
    static struct row row;
    struct chores *chores = opened(&row, 1);

    chore_want_in(&row.chore, 60 * 1000);
    CHECK("pauses", row.chore.state == CHORE_PAUSED);
    CHECK("forgotten", chore_forget(&row.chore));
    CHECK("idle", row.chore.state == CHORE_IDLE);
    closed(chores);
}
