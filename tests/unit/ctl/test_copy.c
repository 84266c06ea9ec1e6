/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/store_side.h: import and export between two key spaces in memory, which replace store_side.c.
 * Tests which keys are written, which are left alone, and when both sides are equal. */
#include <stdio.h>

#include "canned.h"
#include "ctl/store_side.h"

enum { ROWS_MAX = 512 };
struct row {
    char key[16], value[16];
    int64_t revision, lease;
};
struct store_side {
    const char *name;
    struct row rows[ROWS_MAX]; /* in key order */
    size_t count;
    int64_t revision;
    int changes, meddles; /* another client writes before each of the first `meddles` changes */
};
static struct store_side sides[2];
static struct store_side *const etcd = &sides[0], *const ours = &sides[1];
static struct canned canned;

static struct row *side_find(struct store_side *side, struct str key)
{
    for (size_t i = 0; i < side->count; i++)
        if (str_equal(str_from(side->rows[i].key), key)) return &side->rows[i];
    return NULL;
}

static void side_put(struct store_side *side, struct str key, struct str value, int64_t lease)
{
    struct row *row = side_find(side, key);
    size_t at = side->count;

    if (!row) {
        while (at > 0 && str_compare(key, str_from(side->rows[at - 1].key)) < 0) at--;
        memmove(&side->rows[at + 1], &side->rows[at], (side->count - at) * sizeof *row);
        side->count++;
        row = &side->rows[at];
    }
    *row = (struct row){.revision = ++side->revision, .lease = lease};
    snprintf(row->key, sizeof row->key, "%.*s", STR_ARG(key));
    snprintf(row->value, sizeof row->value, "%.*s", STR_ARG(value));
}

/* -- replaces ctl/store_side.c -- */

enum err store_side_open_url(struct ctl *ctl, const char *option, struct store_side **ret_side)
{
    (void)ctl;
    CHECK("an option of the command", strcmp(option, "from") == 0 || strcmp(option, "to") == 0);
    *ret_side = etcd;
    return ERR_OK;
}

enum err store_side_open_coordinators(struct ctl *ctl, struct store_side **ret_side)
{
    (void)ctl;
    *ret_side = ours;
    return ERR_OK;
}

void store_side_close(struct store_side *side)
{
    (void)side;
}

const char *store_side_name(const struct store_side *side)
{
    return side->name;
}

enum err store_prefix_end(struct ctl *ctl, struct str prefix, ProtobufCBinaryData *ret_end)
{
    (void)ctl, (void)prefix;
    *ret_end = ctl_bytes("~"); /* after every key of these tests */
    return ERR_OK;
}

void store_walk_open(struct store_walk *walk, struct store_side *side, struct str from,
                     struct str end)
{
    (void)end;
    *walk = (struct store_walk){.side = side};
    while (walk->at < side->count && str_compare(str_from(side->rows[walk->at].key), from) < 0)
        walk->at++;
}

void store_walk_close(struct store_walk *walk)
{
    (void)walk;
}

enum err store_walk_next(struct store_walk *walk, const Mvccpb__KeyValue **ret_row)
{
    static Mvccpb__KeyValue rows[2];
    Mvccpb__KeyValue *row = &rows[walk->side == ours];
    const struct row *from = &walk->side->rows[walk->at];

    if (!walk->revision) walk->revision = walk->side->revision;
    *ret_row = NULL;
    if (walk->at == walk->side->count) return ERR_OK;
    walk->at++;
    mvccpb__key_value__init(row);
    row->key = ctl_bytes(from->key);
    row->value = ctl_bytes(from->value);
    row->mod_revision = from->revision;
    row->lease = from->lease;
    *ret_row = row;
    return ERR_OK;
}

enum err store_side_change(struct store_side *side, const struct store_change *changes,
                           size_t count, bool *ret_done)
{
    side->changes++;
    CHECK("a change is bounded", count <= STORE_CHANGES_MAX);
    if (side->meddles-- > 0) side_put(side, changes[0].key, STR("theirs"), 0);
    for (size_t i = 0; i < count; i++) {
        const struct row *row = side_find(side, changes[i].key);
        *ret_done = (row ? row->revision : 0) == changes[i].seen;
        if (!*ret_done) return ERR_OK;
    }
    for (size_t i = 0; i < count; i++) {
        struct row *row = side_find(side, changes[i].key);
        if (changes[i].removes)
            memmove(row, row + 1, (size_t)(&side->rows[side->count--] - row - 1) * sizeof *row);
        else
            side_put(side, changes[i].key, changes[i].value, 0);
    }
    return ERR_OK;
}

/* -- the tests -- */

static void put(struct store_side *side, const char *key, const char *value)
{
    side_put(side, str_from(key), str_from(value), 0);
}

static void empty_sides(const char *const *words)
{
    memset(sides, 0, sizeof sides);
    etcd->name = "etcd";
    ours->name = "the coordinators";
    canned_open(&canned, words);
}

TEST(missing_and_different_keys_are_written_and_the_rest_is_left_alone)
{
    empty_sides(CANNED_WORDS(NULL));
    put(etcd, "a", "1");
    put(etcd, "b", "2");
    put(etcd, "c", "3");
    put(ours, "b", "old");
    put(ours, "c", "3");
    put(ours, "z", "mine");
    CHECK_OK("copied", store_copy_import(&canned.ctl));
    CHECK_HAS("both sides", canned_printed(&canned), "3 keys are the same on both sides, hash ");
    CHECK_HAS("at which revisions", canned.ctl.out.data,
              "(etcd at revision 3, the coordinators at 5)\n2 written, 0 removed\n"
              "1 other keys of the coordinators were left alone; --replace would remove them\n");
    CHECK_TEXT("the new value", side_find(ours, STR("b"))->value, "2");
    CHECK_I64("the same is not touched", side_find(ours, STR("c"))->revision, 2);
    canned_close(&canned);
}

TEST(an_export_goes_the_other_way_and_may_remove)
{
    empty_sides(CANNED_WORDS("--replace", "--json"));
    put(ours, "a", "1");
    put(etcd, "b", "2");
    CHECK_OK("copied", store_copy_export(&canned.ctl));
    CHECK_HAS("for programs", canned_printed(&canned),
              "{\"result\":\"copied\",\"keys\":1,\"hash\":\"");
    CHECK_HAS("the summary", canned.ctl.out.data,
              "\"written\":1,\"removed\":1,\"leased_left_out\":0,\"beside\":0}");
    CHECK("it is gone", side_find(etcd, STR("b")) == NULL);
    canned_close(&canned);
}

TEST(keys_with_a_lease_are_left_out_by_default)
{
    empty_sides(CANNED_WORDS(NULL));
    side_put(etcd, STR("a"), STR("1"), 7);
    CHECK_OK("copied", store_copy_import(&canned.ctl));
    CHECK_HAS("the note", canned_printed(&canned), "1 keys that hang on a lease were left out\n");
    CHECK_SIZE("none", ours->count, 0);
    canned_close(&canned);
    empty_sides(CANNED_WORDS("--leased"));
    side_put(etcd, STR("a"), STR("1"), 7);
    CHECK_OK("copied", store_copy_import(&canned.ctl));
    CHECK_SIZE("one", ours->count, 1);
    canned_close(&canned);
}

TEST(many_keys_go_in_bounded_changes)
{
    char key[16];

    empty_sides(CANNED_WORDS(NULL));
    for (int i = 0; i < 250; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        put(etcd, key, "v");
    }
    CHECK_OK("copied", store_copy_import(&canned.ctl));
    CHECK_SIZE("all", ours->count, 250);
    CHECK_I64("changes", ours->changes, 3);
    canned_close(&canned);
}

TEST(a_write_of_another_is_not_lost_and_the_next_pass_sees_it)
{
    empty_sides(CANNED_WORDS(NULL));
    put(etcd, "a", "1");
    ours->meddles = 1;
    CHECK_OK("copied", store_copy_import(&canned.ctl));
    CHECK_TEXT("in the second pass", side_find(ours, STR("a"))->value, "1");
    CHECK_I64("changes", ours->changes, 2);
    canned_close(&canned);
}

TEST(a_target_that_another_keeps_writing_is_a_conflict)
{
    empty_sides(CANNED_WORDS(NULL));
    put(etcd, "a", "1");
    ours->meddles = 99;
    CHECK_ERR("it differs", store_copy_import(&canned.ctl), ERR_CONFLICT);
    CHECK_HAS("the owner", canned.ctl.note.text, "the two sides still differ after 3 passes");
    CHECK_TEXT("theirs stays", side_find(ours, STR("a"))->value, "theirs");
    canned_close(&canned);
}
