/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl store import and export: copies a key space while it is in use, and verifies the copy.
 *
 * Both sides are read together in key order, the source at one revision. A key that is missing or
 * different at the target is written. Then both sides are read again, counted and hashed. A
 * repeated command continues an interrupted one. Leases are not copied, so leased keys are copied
 * only with --leased. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/store_side.h"
#include "io/clock.h"

enum { PASSES_MAX = 3, PROGRESS_EVERY_MS = 2000 };

struct tally {
    uint64_t keys, hash;
    int64_t revision;
};
struct copy {
    struct ctl *ctl;
    struct store_side *source, *target;
    struct str from, end; /* the range */
    bool leased, replace;
    struct store_change *batch;
    size_t count, contended;
    struct arena bytes;
    size_t batch_bytes;
    struct tally source_tally, target_tally;
    mono_time reported;
    uint64_t read, written, removed, same, skipped, extra;
};

static void store_copy_batch_clear(struct copy *copy)
{
    copy->count = copy->batch_bytes = 0;
    arena_deinit(&copy->bytes);
    arena_init(&copy->bytes, (size_t)4 << 20);
}

static enum err store_copy_flush(struct copy *copy)
{
    bool done = true;
    enum err err = ERR_OK;

    if (copy->count > 0) err = store_side_change(copy->target, copy->batch, copy->count, &done);
    if (err) return err;
    if (!done) copy->contended++;
    for (size_t i = 0; done && i < copy->count; i++)
        *(copy->batch[i].removes ? &copy->removed : &copy->written) += 1;
    store_copy_batch_clear(copy);
    return ERR_OK;
}

static enum err store_copy_add(struct copy *copy, struct str key, struct str value, int64_t seen,
                               bool removes)
{
    const char *key_copy, *value_copy;
    enum err err = ERR_OK;

    if (copy->count == STORE_CHANGES_MAX ||
        (copy->count > 0 && copy->batch_bytes + value.len > STORE_CHANGES_BYTES))
        err = store_copy_flush(copy);
    if (err) return err;
    key_copy = arena_dup(&copy->bytes, key);
    value_copy = arena_dup(&copy->bytes, value);
    if (!key_copy || !value_copy) return ERR_NOMEM;
    copy->batch[copy->count++] = (struct store_change){.key = str_of(key_copy, key.len),
                                                       .value = str_of(value_copy, value.len),
                                                       .seen = seen,
                                                       .removes = removes};
    copy->batch_bytes += key.len + value.len;
    return ERR_OK;
}

/* Prints on stderr, because the result goes to stdout. */
static void store_copy_report_progress(struct copy *copy, struct str key, const char *doing)
{
    mono_time now = clock_mono(clock_real());

    if (mono_elapsed_ms(copy->reported, now) < PROGRESS_EVERY_MS) return;
    copy->reported = now;
    (void)fprintf(stderr,
                  "musterctl: %s: %" PRIu64 " keys read, %" PRIu64 " written, %" PRIu64
                  " there already",
                  doing, copy->read, copy->written, copy->same);
    (void)fputs(", at ", stderr);
    for (size_t i = 0; i < min_size(key.len, 60); i++)
        (void)fputc(key.at[i] >= 0x20 && key.at[i] < 0x7f ? key.at[i] : '.', stderr);
    (void)fputc('\n', stderr);
}

static enum err store_copy_next_source(struct copy *copy, struct store_walk *walk,
                                       const Mvccpb__KeyValue **ret_row)
{
    enum err err;

    do {
        err = store_walk_next(walk, ret_row);
        if (err || !*ret_row) return err;
        copy->skipped += (*ret_row)->lease && !copy->leased;
    } while ((*ret_row)->lease && !copy->leased);
    return ERR_OK;
}

/* A missing row comes last. */
static int store_copy_compare_rows(const Mvccpb__KeyValue *a, const Mvccpb__KeyValue *b)
{
    if (!a || !b) return !a - !b;
    return str_compare(ctl_view(a->key), ctl_view(b->key));
}

static enum err store_copy_row(struct copy *copy, const Mvccpb__KeyValue *from,
                               const Mvccpb__KeyValue *at, int order)
{
    if (order > 0) /* only the target has this key */
        return copy->replace
                   ? store_copy_add(copy, ctl_view(at->key), STR_EMPTY, at->mod_revision, true)
                   : ERR_OK;
    store_copy_report_progress(copy, ctl_view(from->key), "copying");
    if (order == 0 && str_equal(ctl_view(from->value), ctl_view(at->value))) {
        copy->same++;
        return ERR_OK;
    }
    return store_copy_add(copy, ctl_view(from->key), ctl_view(from->value),
                          order == 0 ? at->mod_revision : 0, false);
}

/* Walks both sides together in key order, the source at `revision` (0: the newest). */
typedef enum err copy_row_fn(struct copy *copy, const Mvccpb__KeyValue *from,
                             const Mvccpb__KeyValue *at, int order);
static enum err store_copy_walk(struct copy *copy, int64_t revision, copy_row_fn *each)
{
    struct store_walk source, target;
    const Mvccpb__KeyValue *from = NULL, *at = NULL;
    enum err err;

    copy->read = copy->skipped = copy->extra = 0;
    store_walk_open(&source, copy->source, copy->from, copy->end);
    source.revision = revision;
    store_walk_open(&target, copy->target, copy->from, copy->end);
    err = store_copy_next_source(copy, &source, &from);
    if (!err) err = store_walk_next(&target, &at);
    while (!err && (from || at)) {
        int order = store_copy_compare_rows(from, at);

        copy->extra += order > 0;
        copy->read += order <= 0;
        err = each(copy, from, at, order);
        if (!err && order <= 0) err = store_copy_next_source(copy, &source, &from);
        if (!err && order >= 0) err = store_walk_next(&target, &at);
    }
    copy->source_tally.revision = source.revision;
    copy->target_tally.revision = target.revision;
    store_walk_close(&source);
    store_walk_close(&target);
    return err;
}

static enum err store_copy_pass(struct copy *copy)
{
    enum err err;

    copy->same = copy->contended = 0;
    store_copy_batch_clear(copy);
    err = store_copy_walk(copy, 0, store_copy_row);
    return err ? err : store_copy_flush(copy);
}

/* -- the verdict -- */

static void store_copy_count_row(struct tally *tally, const Mvccpb__KeyValue *row)
{
    tally->keys++;
    tally->hash = str_hash(ctl_view(row->key), tally->hash);
    tally->hash = str_hash(ctl_view(row->value), tally->hash);
}

/* A key that only the target has counts only with --replace. */
static enum err store_copy_verify_row(struct copy *copy, const Mvccpb__KeyValue *from,
                                      const Mvccpb__KeyValue *at, int order)
{
    if (order <= 0) {
        store_copy_count_row(&copy->source_tally, from);
        store_copy_report_progress(copy, ctl_view(from->key), "comparing");
    }
    if (order == 0 || (order > 0 && copy->replace)) store_copy_count_row(&copy->target_tally, at);
    return ERR_OK;
}

/* Compares the source at the copied revision with the target now. */
static enum err store_copy_verify(struct copy *copy)
{
    int64_t revision = copy->source_tally.revision;

    copy->source_tally = copy->target_tally = (struct tally){0};
    return store_copy_walk(copy, revision, store_copy_verify_row);
}

static void store_copy_say_copied(struct copy *copy)
{
    const struct tally *source = &copy->source_tally, *target = &copy->target_tally;
    struct ctl *ctl = copy->ctl;
    char hash[17];

    (void)snprintf(hash, sizeof hash, "%016" PRIx64, source->hash);
    if (ctl->json) {
        struct ndjson *json = ctl_json_begin(ctl);
        ndjson_c_string(json, STR("result"), "copied");
        ndjson_u64(json, STR("keys"), source->keys);
        ndjson_c_string(json, STR("hash"), hash);
        ndjson_u64(json, STR("source_revision"), (uint64_t)source->revision);
        ndjson_u64(json, STR("target_revision"), (uint64_t)target->revision);
        ndjson_u64(json, STR("written"), copy->written);
        ndjson_u64(json, STR("removed"), copy->removed);
        ndjson_u64(json, STR("leased_left_out"), copy->skipped);
        ndjson_u64(json, STR("beside"), copy->replace ? 0 : copy->extra);
        ctl_json_end(ctl);
        return;
    }
    ctl_line(ctl,
             "%" PRIu64 " keys are the same on both sides, hash %s (%s at revision %" PRId64
             ", %s at %" PRId64 ")",
             source->keys, hash, store_side_name(copy->source), source->revision,
             store_side_name(copy->target), target->revision);
    ctl_line(ctl, "%" PRIu64 " written, %" PRIu64 " removed", copy->written, copy->removed);
    if (copy->skipped)
        ctl_line(ctl, "%" PRIu64 " keys that hang on a lease were left out", copy->skipped);
    if (copy->extra && !copy->replace)
        ctl_line(ctl, "%" PRIu64 " other keys of %s were left alone; --replace would remove them",
                 copy->extra, store_side_name(copy->target));
}

static enum err store_copy_all(struct copy *copy)
{
    const struct tally *source = &copy->source_tally, *target = &copy->target_tally;

    for (int pass = 0; pass < PASSES_MAX; pass++) {
        enum err err = store_copy_pass(copy);
        if (!err && copy->contended) continue; /* the target changed meanwhile: copy again */
        if (!err) err = store_copy_verify(copy);
        if (err) return err;
        if (source->keys == target->keys && source->hash == target->hash) {
            store_copy_say_copied(copy);
            return ERR_OK;
        }
    }
    return ctl_fail(
        copy->ctl, ERR_CONFLICT,
        "the two sides still differ after %d passes (%" PRIu64 " keys of %s, %" PRIu64
        " of %s): somebody else writes these keys of %s. Stop that and run the same command "
        "again",
        PASSES_MAX, source->keys, store_side_name(copy->source), target->keys,
        store_side_name(copy->target), store_side_name(copy->target));
}

static enum err store_copy_fill_range(struct copy *copy)
{
    struct str prefix = str_from(conf_text(copy->ctl->conf, "prefix"));
    ProtobufCBinaryData end;
    enum err err = store_prefix_end(copy->ctl, prefix, &end);

    if (err) return err;
    copy->from = prefix.len ? prefix : str_of("", 1); /* NUL is the first possible key */
    copy->end = ctl_view(end);
    return ERR_OK;
}

static enum err store_copy_run(struct ctl *ctl, const char *option, bool imports)
{
    struct copy copy = {.ctl = ctl,
                        .leased = conf_bool(ctl->conf, "leased"),
                        .replace = conf_bool(ctl->conf, "replace"),
                        .reported = clock_mono(clock_real())};
    struct store_side *etcd = NULL, *ours = NULL;
    enum err err;

    arena_init(&copy.bytes, 1);
    copy.batch = calloc(STORE_CHANGES_MAX, sizeof *copy.batch);
    err = copy.batch ? store_copy_fill_range(&copy) : ERR_NOMEM;
    if (!err) err = store_side_open_url(ctl, option, &etcd);
    if (!err) err = store_side_open_coordinators(ctl, &ours);
    if (!err) {
        copy.source = imports ? etcd : ours;
        copy.target = imports ? ours : etcd;
        err = store_copy_all(&copy);
    }
    store_side_close(etcd);
    store_side_close(ours);
    arena_deinit(&copy.bytes);
    free(copy.batch);
    return err;
}

enum err store_copy_import(struct ctl *ctl)
{
    return store_copy_run(ctl, "from", true);
}

enum err store_copy_export(struct ctl *ctl)
{
    return store_copy_run(ctl, "to", false);
}
