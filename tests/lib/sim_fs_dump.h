/* SPDX-License-Identifier: Apache-2.0 */
/* A listing of a simulated disk that a person can read. */
#ifndef TESTS_LIB_SIM_FS_DUMP_H
#define TESTS_LIB_SIM_FS_DUMP_H
#include <inttypes.h>

#include "sim/sim_fs_int.h"

static inline struct str sim_dump_name(const struct sim_entry *entry)
{
    return str_of(entry->name, entry->name_len);
}

/* The entry that follows `last` by name; the first for NULL. */
static inline const struct sim_entry *sim_dump_next(const struct sim_node *dir,
                                                    const struct sim_entry *last)
{
    const struct sim_entry *best = NULL;
    LIST_EACH(&dir->entries, link)
    {
        const struct sim_entry *entry = CONTAINER_OF(link, struct sim_entry, link);
        if (last && str_compare(sim_dump_name(entry), sim_dump_name(last)) <= 0) continue;
        if (!best || str_compare(sim_dump_name(entry), sim_dump_name(best)) < 0) best = entry;
    }
    return best;
}

static inline enum err sim_dump_node(const struct sim_node *node, struct str path, struct buf *into)
{
    if (node->kind == FS_DIRECTORY)
        return buf_appendf(into, "%.*s/ mode %03" PRIo32 "\n", STR_ARG(path), node->mode);
    return buf_appendf(
        into, "%.*s size %zu durable %zu pending %" PRIu32 " mode %03" PRIo32 "%s%s\n",
        STR_ARG(path), node->live.len, node->durable.len, node->write_count, node->mode,
        node->locked ? " locked" : "", node->diverged ? " diverged" : "");
}

/* As deep as the tree is; a path of a real call is at most SIM_FS_DEPTH_MAX. */
static inline enum err sim_dump_dir(const struct sim_node *dir, struct buf *path, struct buf *into)
{
    enum err err = sim_dump_node(dir, buf_peek(path), into);
    const struct sim_entry *entry = NULL;
    while (!err && (entry = sim_dump_next(dir, entry))) {
        size_t len = path->len;
        err = buf_appendf(path, "/%s", entry->name);
        if (!err && entry->node->kind == FS_DIRECTORY)
            err = sim_dump_dir(entry->node, path, into);
        else if (!err)
            err = sim_dump_node(entry->node, buf_peek(path), into);
        path->len = len;
    }
    return err;
}

/* One line per file and directory, sorted by path: its content, and the part that is not synced.
 * ERR_FULL, ERR_NOMEM. */
static inline enum err sim_fs_dump(const struct sim_fs *disk, struct buf *into)
{
    struct buf path;
    size_t names = 0;
    buf_init(&path, (size_t)SIM_FS_DEPTH_MAX * (FS_NAME_MAX + 1));
    enum err err = sim_dump_dir(disk->root, &path, into);
    buf_deinit(&path);
    LIST_EACH(&disk->journal, link) names++;
    if (err) return err;
    return buf_appendf(into, "used %" PRIu64 " of %" PRIu64 ", %zu names not synced\n", disk->used,
                       disk->options.capacity, names);
}
#endif
