/* SPDX-License-Identifier: Apache-2.0 */
/* muster plan: what would the decision engine do with a given fleet, and why? Changes nothing. */
#include <stdio.h>

#include "common/program.h"
#include "io/fs.h"
#include "muster/commands.h"
#include "shard/plan/plan.h"

enum { FILE_TEXT_CAP = 64 << 10 };
#define INPUT_MAX ((size_t)4 << 30)

/* ---- the fleet ---- */

typedef enum err add_fn(struct planner *planner, struct str text, enum plan_form form,
                        struct note *note);

static enum err plan_add_file(struct planner *planner, const char *path, add_fn *add,
                              struct note *note)
{
    enum plan_form form = str_ends(str_from(path), STR(".ndjson")) ? PLAN_LINES : PLAN_DOCUMENT;
    struct buf text;
    enum err err;

    buf_init(&text, INPUT_MAX);
    err = fs_read_whole(fs_real(), path, INPUT_MAX, &text);
    if (err) {
        note_set(note, "%s", err_text(err));
    } else {
        err = add(planner, buf_peek(&text), form, note);
        if (err && err != ERR_NOMEM) err = ERR_INVALID; /* one exit code for mistakes */
    }
    if (err) note_prefix(note, "%s", path);
    buf_deinit(&text);
    return err;
}

static enum err plan_generate_options_of(const struct conf *conf,
                                         struct generate_options *ret_options, struct note *note)
{
    const char *needs = conf_text(conf, "needs");
    uint64_t rows = 0;
    struct generate_options options = {
        .machines = (uint32_t)conf_number(conf, "machines"),
        .clusters = (uint32_t)conf_number(conf, "clusters"),
        .seed = conf_number(conf, "seed"),
        .adversarial = conf_bool(conf, "adversarial"),
    };

    if (needs && (str_to_u64(str_from(needs), &rows) || rows > PLAN_ROWS_MOST))
        return note_fail(note, ERR_INVALID,
                         "--needs: with --generate it is a number of rows, up to %d",
                         PLAN_ROWS_MOST);
    options.needs = needs ? (uint32_t)rows : options.machines / 10;
    *ret_options = options;
    return ERR_OK;
}

/* ---- --dump ---- */

struct dump {
    struct fs_file *file;
    uint64_t offset;
    struct buf pending;
};

static enum err plan_dump_flush(struct dump *dump)
{
    enum err err = fs_write_at(fs_real(), dump->file, dump->offset, buf_peek(&dump->pending));

    if (err) return err;
    dump->offset += dump->pending.len;
    buf_clear(&dump->pending);
    return ERR_OK;
}

static enum err plan_dump_line(void *context, struct str line)
{
    struct dump *dump = context;
    enum err err = buf_append(&dump->pending, line);

    return err || dump->pending.len < FILE_TEXT_CAP ? err : plan_dump_flush(dump);
}

typedef enum err dump_fn(const struct generate_options *options, plan_write_fn *write,
                         void *context);

static enum err plan_dump_file(const char *prefix, const char *name,
                               const struct generate_options *options, dump_fn *make,
                               struct note *note)
{
    struct dump dump = {0};
    char path[FS_PATH_CAP];
    enum err err;

    if ((size_t)snprintf(path, sizeof path, "%s-%s.ndjson", prefix, name) >= sizeof path)
        return note_fail(note, ERR_INVALID, "--dump: the name is too long");
    buf_init(&dump.pending, INPUT_MAX);
    err = fs_open(fs_real(), path, FS_WRITE | FS_CREATE | FS_TRUNCATE, 0644, &dump.file);
    if (!err) {
        err = make(options, plan_dump_line, &dump);
        if (!err) err = plan_dump_flush(&dump);
        fs_close(fs_real(), dump.file);
    }
    buf_deinit(&dump.pending);
    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}

static enum err plan_make_fleet(struct planner *planner, const struct conf *conf, struct note *note)
{
    struct generate_options options;
    const char *prefix = conf_text(conf, "dump");
    enum err err = plan_generate_options_of(conf, &options, note);

    if (!err && prefix)
        err = plan_dump_file(prefix, "inventory", &options, planner_dump_machines, note);
    if (!err && prefix) err = plan_dump_file(prefix, "needs", &options, planner_dump_needs, note);
    return err ? err : planner_generate(planner, &options, note);
}

static enum err plan_load_fleet(struct planner *planner, const struct conf *conf, struct note *note)
{
    enum err err;

    if (conf_bool(conf, "generate")) {
        if (!conf_is_set(conf, "inventory")) return plan_make_fleet(planner, conf, note);
        return note_fail(note, ERR_INVALID,
                         "--generate makes a fleet, --inventory reads one: give one of the two");
    }
    if (!conf_is_set(conf, "inventory") || !conf_is_set(conf, "needs"))
        return note_fail(note, ERR_INVALID,
                         "give --inventory FILE and --needs FILE, or --generate");
    if (conf_is_set(conf, "dump"))
        return note_fail(note, ERR_INVALID, "--dump writes what --generate makes");
    err = plan_add_file(planner, conf_text(conf, "needs"), planner_add_needs, note);
    return err ? err
               : plan_add_file(planner, conf_text(conf, "inventory"), planner_add_machines, note);
}

/* ---- the answer ---- */

static const char *plan_plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static enum err plan_print_totals(const struct planner *planner, struct buf *out)
{
    struct planner_totals t = planner_totals(planner);
    enum err err = buf_appendf(out, "%u machine%s, %u need%s of %u cluster%s: %u served, %u not\n",
                               t.machines, plan_plural(t.machines), t.needs, plan_plural(t.needs),
                               t.clusters, plan_plural(t.clusters), t.served, t.needs - t.served);

    for (int kind = 0; !err && kind <= ACTION_DELETE; kind++)
        err = buf_appendf(out, "%s%u %s", kind ? ", " : "", t.actions[kind],
                          action_kind_name((enum action_kind)kind));
    return err ? err : buf_append_byte(out, '\n');
}

static enum err plan_print_rest(size_t shown, size_t all, struct buf *out)
{
    if (shown == all) return ERR_OK;
    return buf_appendf(out, "... and %zu more (--limit 0 shows all)\n", all - shown);
}

static enum err plan_print(const struct planner *planner, const struct conf *conf, struct buf *out)
{
    struct planner_totals t = planner_totals(planner);
    size_t limit = conf_number(conf, "limit"), shown, actions = 0;
    bool all = conf_bool(conf, "all");
    enum err err = plan_print_totals(planner, out);

    if (limit == 0) limit = SIZE_MAX;
    for (int kind = 0; kind <= ACTION_DELETE; kind++) actions += t.actions[kind];
    if (!err && actions) err = buf_append_c(out, "\nactions\n");
    if (!err) err = planner_print_actions(planner, 0, limit, out, &shown);
    if (!err) err = plan_print_rest(shown, actions, out);
    if (!err && (all || t.served < t.needs))
        err = buf_append_c(out, all ? "\nneeds\n" : "\nneeds that are not served\n");
    if (!err) err = planner_print_needs(planner, all, 0, limit, out, &shown);
    return err ? err : plan_print_rest(shown, all ? t.needs : t.needs - t.served, out);
}

enum err plan_act(struct program_run *run)
{
    struct planner *planner = NULL;
    enum err err = planner_open(&planner);

    if (!err) err = plan_load_fleet(planner, run->conf, &run->note);
    if (!err) err = planner_decide(planner);
    if (!err)
        err = conf_bool(run->conf, "transcript") ? planner_transcript(planner, &run->out)
                                                 : plan_print(planner, run->conf, &run->out);
    planner_close(planner);
    return err;
}
