/* SPDX-License-Identifier: Apache-2.0 */
/* Random steps on the key space against a plain list of all writes: reads of the present and the
 * past, ranges, counts, changes, leases, compaction, and views while writing goes on. Restores of
 * views must behave and count like their source. */
#include "store/core/keys.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"

enum { NAMES = 60, STEPS = 700, WORLDS = 40, WRITES_MAX = 8000, LEASES = 4 };

struct write { /* one change in the plain list */
    int name;
    uint64_t mod, create, version, lease, number;
    uint32_t sub;
    char value[24];
};
struct model {
    struct write writes[WRITES_MAX];
    size_t count;
    uint64_t revision, compacted;
};
static char names[NAMES][8];

static struct str name_of(int name)
{
    return str_from(names[name]);
}

static const struct write *model_at(const struct model *model, int name, uint64_t revision)
{
    const struct write *found = NULL;

    for (size_t i = 0; i < model->count; i++)
        if (model->writes[i].name == name && model->writes[i].mod <= revision)
            found = &model->writes[i];
    return found && found->version > 0 ? found : NULL;
}

static void same_value(const char *why, const struct key_value *got, const struct write *want)
{
    CHECK(why, str_equal(got->key, name_of(want->name)) &&
                   str_equal(got->value, str_from(want->value)) && got->mod == want->mod &&
                   got->create == want->create && got->version == want->version &&
                   got->lease == want->lease && got->sub == want->sub);
}

static struct key_range any_range(struct prng *p)
{
    struct key_range range = {name_of((int)prng_below(p, NAMES)), STR_EMPTY};
    uint64_t die = prng_below(p, 3);

    if (die == 0) range.end = str_of("\0", 1);
    if (die == 1) range.end = name_of((int)prng_below(p, NAMES));
    return range;
}

static bool model_in_range(struct key_range range, int name)
{
    struct str key = name_of(name);

    if (range.end.len == 0) return str_equal(key, range.from);
    if (str_compare(key, range.from) < 0) return false;
    return range.end.at[0] == '\0' || str_compare(key, range.end) < 0;
}

static void compare_reads(const struct keys *keys, const struct model *model, struct prng *p)
{
    uint64_t past = model->compacted + prng_below(p, model->revision - model->compacted + 1);
    uint64_t at = prng_chance(p, 500000) || past == 0 ? 0 : past;
    uint64_t revision = at ? at : model->revision, count = 0, attached[LEASES + 1] = {0};
    struct key_range range = any_range(p);
    struct keys_cursor cursor;
    struct key_value value;

    keys_seek(keys, range, at, &cursor);
    for (int name = 0; name < NAMES; name++) {
        const struct write *want = model_at(model, name, revision);
        const struct write *now = model_at(model, name, model->revision);
        bool got = keys_get(keys, name_of(name), at, &value);
        CHECK("get", got == (want != NULL));
        if (got) same_value("what get shows", &value, want);
        if (now) attached[now->lease]++;
        if (!want || !model_in_range(range, name)) continue;
        CHECK("range goes on", keys_next(&cursor, &value));
        same_value("what the range shows", &value, want);
        count++;
    }
    CHECK("range ends", !keys_next(&cursor, &value));
    CHECK("count", keys_count_range(keys, range, at) == count);
    CHECK("revision", keys_revision(keys) == model->revision);
    for (uint64_t lease = 1; lease <= LEASES; lease++)
        CHECK("keys of a lease", keys_of_lease_count(keys, lease) == attached[lease]);
}

static void compare_changes(const struct keys *keys, const struct model *model, struct prng *p)
{
    uint64_t from = model->compacted + prng_below(p, model->revision - model->compacted + 2);
    struct key_changes all = keys_changes(keys);
    uint64_t number = keys_change_seek(keys, from);
    struct key_value change, before;

    if (from == 0) from = 1;
    for (size_t i = 0; i < model->count; i++) {
        const struct write *want = &model->writes[i];
        if (want->mod < from) continue;
        CHECK("changes go on", number < all.end);
        keys_change_at(keys, number++, &change, &before);
        same_value("the change", &change, want);
    }
    CHECK("changes end", number == all.end);
}

/* The previous value of a change is the same with and without open views. */
static void compare_before(const struct keys *keys, const struct keys *other)
{
    struct key_changes mine = keys_changes(keys), theirs = keys_changes(other);
    struct key_value change, before, there;

    CHECK("as many changes", mine.end - mine.first == theirs.end - theirs.first);
    for (uint64_t i = 0; i < mine.end - mine.first; i++) {
        keys_change_at(keys, mine.first + i, &change, &before);
        keys_change_at(other, theirs.first + i, &change, &there);
        CHECK("before", before.mod == there.mod && str_equal(before.value, there.value));
    }
}

struct copy {
    struct keys *into;
};
static void into_copy(void *context, const struct key_value *version)
{
    struct copy *copy = context;

    CHECK_OK("a view restores", keys_restore(copy->into, version));
}

static void write_step(struct keys *keys, struct model *model, struct prng *p)
{
    bool written[NAMES] = {false};
    size_t changes = prng_below(p, 4);
    uint32_t sub = 0;

    keys_begin(keys);
    for (size_t i = 0; i < changes && model->count < WRITES_MAX; i++) {
        int name = (int)prng_below(p, NAMES);
        const struct write *now = model_at(model, name, model->revision);
        struct write *write = &model->writes[model->count];
        if (written[name]) continue;
        written[name] = true;
        if (prng_chance(p, 350000)) {
            CHECK("delete reports", keys_delete(keys, name_of(name)) == (now != NULL));
            if (!now) continue;
            *write = (struct write){.name = name, .mod = model->revision + 1, .sub = sub++};
        } else {
            *write = (struct write){.name = name,
                                    .mod = model->revision + 1,
                                    .create = now ? now->create : model->revision + 1,
                                    .version = now ? now->version + 1 : 1,
                                    .lease = prng_below(p, LEASES + 1),
                                    .sub = sub++};
            (void)snprintf(write->value, sizeof write->value, "%llu",
                           (unsigned long long)prng_u64(p));
            keys_put(keys, name_of(name), str_from(write->value), write->lease);
        }
        model->count++;
    }
    if (sub > 0) model->revision++;
    CHECK("commit", keys_commit(keys) == model->revision);
}

/* Two key spaces take every step, one with views always open, one without views: memory held for a
 * view must not change any count. */
static void run(uint64_t seed)
{
    static struct model model;
    struct keys *keys = keys_open(), *other = keys_open();
    struct keys_view *view = NULL;
    struct copy copy = {NULL};
    struct keys *frozen = NULL; /* a copy of the state that the view shows */
    struct prng p, twin;

    prng_seed(&p, seed);
    model.count = 0;
    model.revision = 1;
    model.compacted = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t die = prng_below(&p, 100);
        if (die < 80) {
            size_t count = model.count;
            uint64_t revision = model.revision;
            twin = p;
            write_step(keys, &model, &p);
            model.count = count;
            model.revision = revision;
            write_step(other, &model, &twin);
        } else if (die < 84 && model.revision > model.compacted + 1) {
            model.compacted += 1 + prng_below(&p, model.revision - model.compacted);
            keys_compact(keys, model.compacted);
            keys_compact(other, model.compacted);
        } else if (die < 88 && !view) {
            struct copy now = {keys_open()};
            struct keys_view *quick = keys_view_open(other);
            view = keys_view_open(keys);
            CHECK("a view opens", view != NULL && quick != NULL);
            copy.into = keys_open();
            while (keys_view_next(quick, SIZE_MAX - 1, into_copy, &now)) {}
            CHECK_OK("marks", keys_restore_done(now.into, keys_view_marks(quick)));
            keys_view_close(quick);
            frozen = now.into;
        } else if (view && !keys_view_next(view, prng_below(&p, 600), into_copy, &copy)) {
            CHECK_OK("marks", keys_restore_done(copy.into, keys_view_marks(view)));
            keys_view_close(view);
            view = NULL;
            CHECK("the view is of its moment",
                  keys_revision(copy.into) == keys_revision(frozen) &&
                      keys_bytes(copy.into) == keys_bytes(frozen) &&
                      keys_count(copy.into) == keys_count(frozen) &&
                      keys_changes(copy.into).end == keys_changes(frozen).end);
            keys_close(frozen);
            keys_close(copy.into);
            frozen = copy.into = NULL;
        }
        uint32_t budget = (uint32_t)prng_below(&p, 6);
        CHECK("prune alike", keys_prune(keys, budget) == keys_prune(other, budget));
        CHECK("bytes alike", keys_bytes(keys) == keys_bytes(other));
        CHECK("hash alike", keys_hash(keys) == keys_hash(other));
        if (step % 7 == 0) {
            compare_reads(keys, &model, &p);
            compare_changes(keys, &model, &p);
            compare_reads(other, &model, &p);
            compare_before(keys, other);
        }
        if (step % 150 == 149) { /* continue with a restored key space */
            struct copy fresh = {keys_open()};
            struct keys_view *whole = keys_view_open(other);
            while (keys_view_next(whole, 100, into_copy, &fresh)) {}
            CHECK_OK("marks", keys_restore_done(fresh.into, keys_view_marks(whole)));
            keys_view_close(whole);
            CHECK("as many bytes", keys_bytes(fresh.into) == keys_bytes(other));
            CHECK("the same hash", keys_hash(fresh.into) == keys_hash(other));
            keys_close(other);
            other = fresh.into;
        }
    }
    if (view) keys_view_close(view);
    keys_close(frozen);
    keys_close(copy.into);
    keys_close(keys);
    keys_close(other);
}

TEST(the_key_space_equals_a_list_of_all_writes)
{
    struct prng worlds;

    for (int i = 0; i < NAMES; i++) (void)snprintf(names[i], sizeof names[i], "k%02d", i % 100);
    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}
