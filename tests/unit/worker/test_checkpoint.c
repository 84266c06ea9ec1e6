/* SPDX-License-Identifier: Apache-2.0 */
/* worker/checkpoint.h over files: cases 148 and 163 of workers.md, and the guarantees to a
 * successor. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"
#include "worker/checkpoint.h"

#define OLD "01JFEAVS7C5DE5XEAEAB91EBT5"
#define NEW "01JFEAVS7C5DE5XEAEAB91EBT6"
enum { PARTITION = 7 };
static const wall_time noon = {1794727489000};

static char dir[64];
static bool yes(void *owner)
{
    (void)owner;
    return true;
}
static bool no(void *owner)
{
    (*(int *)owner)++;
    return false;
}

static struct checkpoint_store *opened(void)
{
    struct checkpoint_store *store;
    char url[96];

    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/muster-checkpoint-XXXXXX");
        CHECK("directory", mkdtemp(dir));
    }
    snprintf(url, sizeof url, "file://%s", dir);
    CHECK_OK("open", checkpoint_store_open(fs_real(), url, &store, NULL));
    return store;
}

static void shell(const char *what) /* $D is the store's directory */
{
    char line[512];

    snprintf(line, sizeof line, "D='%s'; %s", dir, what);
    CHECK_I64(line, system(line), 0);
}

static void done(struct checkpoint_store *store)
{
    checkpoint_store_close(store);
    shell("rm -rf $D");
    dir[0] = '\0';
}

static struct partition_tally *tally_of(uint64_t records)
{
    struct tally_record record = {.key = "k", .key_len = 1, .number = 2};
    struct partition_tally *tally;

    CHECK_OK("tally", tally_open(&tally));
    for (uint64_t i = 0; i < records; i++) CHECK_OK("add", tally_add(tally, &record));
    CHECK_OK("offset", tally_set_offset(tally, STR("in"), records * 4));
    return tally;
}

static enum err commit(struct checkpoint_store *store, struct checkpoint *at, const char *worker,
                       uint64_t records)
{
    struct partition_tally *tally = tally_of(records);
    enum err err = checkpoint_commit(store, at, worker, noon, tally, yes, NULL, NULL);

    tally_close(tally);
    return err;
}

static enum err claim(struct checkpoint_store *store, uint64_t token, const char *worker,
                      struct checkpoint *at, uint64_t *ret_records)
{
    struct partition_tally *tally = tally_of(0);
    enum err err = checkpoint_claim(store, PARTITION, token, worker, noon, tally, at, NULL);

    if (!err) *ret_records = tally->records;
    if (!err) CHECK_U64("offsets too", tally_offset(tally, STR("in")), *ret_records * 4);
    tally_close(tally);
    return err;
}

TEST(a_successor_loads_the_newest_and_shuts_the_old_owner_out) /* 148 */
{
    struct checkpoint_store *store = opened();
    struct checkpoint old, new;
    char reference[CHECKPOINT_REFERENCE_CAP];
    uint64_t records;

    CHECK_OK("claim", claim(store, 3, OLD, &old, &records));
    CHECK_U64("nothing yet", records, 0);
    checkpoint_reference(store, &old, reference);
    CHECK_TEXT("none to be sent", reference, "");
    for (uint64_t n = 10; n <= 50; n += 10) CHECK_OK("commit", commit(store, &old, OLD, n));
    checkpoint_reference(store, &old, reference);
    CHECK_HAS("of the fifth", reference, "/00000007#ckpt-" OLD "-5");
    CHECK_OK("claim", claim(store, 4, NEW, &new, &records));
    CHECK_U64("the newest", records, 50);
    CHECK_ERR("the old owner wakes", commit(store, &old, OLD, 60), ERR_FENCED);
    CHECK_ERR("and tries again", commit(store, &old, OLD, 60), ERR_FENCED);
    CHECK_ERR("nor may it claim", claim(store, 3, OLD, &old, &records), ERR_FENCED);
    CHECK_OK("commit", commit(store, &new, NEW, 70));
    CHECK_OK("a second claim under one token is its own", claim(store, 4, NEW, &new, &records));
    CHECK_U64("records", records, 70);
    CHECK_U64("numbers go on", new.number, 6);
    done(store);
}

TEST(a_fenced_worker_writes_nothing) /* 91 */
{
    struct checkpoint_store *store = opened();
    struct partition_tally *tally = tally_of(9);
    struct checkpoint at;
    uint64_t records;
    int asked = 0;

    CHECK_OK("claim", claim(store, 1, OLD, &at, &records));
    CHECK_ERR("its clock refuses",
              checkpoint_commit(store, &at, OLD, noon, tally, no, &asked, NULL), ERR_FENCED);
    CHECK_I64("asked", asked, 1);
    CHECK_OK("claim", claim(store, 1, OLD, &at, &records));
    CHECK_U64("nothing was written", records, 0);
    tally_close(tally);
    done(store);
}

TEST(leftovers_and_damaged_files_are_passed_over) /* 163 */
{
    struct checkpoint_store *store = opened();
    struct checkpoint at;
    uint64_t records;

    CHECK_OK("claim", claim(store, 1, OLD, &at, &records));
    CHECK_OK("commit", commit(store, &at, OLD, 5));
    shell("cp $(ls $D/00000007/*.ckpt | tail -1) "
          "$D/00000007/.00000000000000000099.ckpt.0000abcd.tmp");
    CHECK_OK("claim", claim(store, 2, NEW, &at, &records));
    CHECK_U64("as if it were not there", records, 5);
    CHECK_OK("commit", commit(store, &at, NEW, 6));
    shell("f=$(ls $D/00000007/*.ckpt | tail -1); printf x | dd of=$f bs=1 seek=30 conv=notrunc "
          "2>/dev/null");
    CHECK_OK("claim", claim(store, 3, OLD, &at, &records));
    CHECK_U64("the one before", records, 5);
    CHECK_OK("and above its number", commit(store, &at, OLD, 7));
    CHECK_OK("claim", claim(store, 4, OLD, &at, &records));
    CHECK_U64("the newest again", records, 7);
    shell("for f in $D/00000007/*.ckpt; do : >$f; done");
    CHECK_ERR("none is whole", claim(store, 5, OLD, &at, &records), ERR_CORRUPT);
    done(store);
}

/* Processes that compete for one partition, each with its own token: at the end the highest token
 * has the partition, and the count is the last one its owner wrote. */
TEST(of_many_writers_the_highest_token_wins)
{
    enum { WRITERS = 6, ROUNDS = 20 };
    struct checkpoint_store *store = opened();
    struct checkpoint at;
    uint64_t records;

    for (uint64_t n = 1; n <= WRITERS; n++)
        if (fork() == 0) {
            struct checkpoint_store *own = opened();
            uint64_t seen;
            enum err err = claim(own, n, OLD, &at, &seen);
            for (uint64_t i = 1; !err && i <= ROUNDS; i++) err = commit(own, &at, OLD, n * 100 + i);
            _exit(err && err != ERR_FENCED);
        }
    for (int i = 0; i < WRITERS; i++) {
        int status = 1;
        CHECK("ended", wait(&status) > 0);
        CHECK_I64("well, or fenced", status, 0);
    }
    CHECK_OK("claim", claim(store, WRITERS, NEW, &at, &records));
    CHECK_U64("the last of the highest", records, WRITERS * 100 + ROUNDS);
    done(store);
}

TEST(addresses_that_are_none)
{
    static const char *const urls[] = {"", "/var/lib", "file://relative", "s3://", "gs://bucket/x"};
    struct checkpoint_store *store;
    struct note note = {""};

    setenv("AWS_ACCESS_KEY_ID", "a", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "b", 1);
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        CHECK_ERR(urls[i], checkpoint_store_open(fs_real(), urls[i], &store, &note), ERR_INVALID);
        CHECK_HAS("names the kind", note.text, "checkpoint store");
    }
    setenv("AWS_ENDPOINT_URL", "http://203.0.113.9:9000", 1);
    CHECK_ERR("plain to another machine",
              checkpoint_store_open(fs_real(), "s3://b/p", &store, &note), ERR_INVALID);
    CHECK_HAS("the reason", note.text, "plain http");
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    CHECK_ERR("no key", checkpoint_store_open(fs_real(), "s3://b/p", &store, &note), ERR_INVALID);
    CHECK_HAS("names it", note.text, "AWS_SECRET_ACCESS_KEY");
}
