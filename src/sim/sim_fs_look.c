/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a simulated disk from outside: one number that is equal for equal runs, and a listing
 * a person can read. */
#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"
#include "sim/sim_fs_int.h"

/* -- hash -- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    return str_hash(str_of(bytes, len), hash);
}

static uint64_t mix_u64(uint64_t hash, uint64_t value)
{
    return mix(hash, &value, sizeof value);
}

/* By checksum: a disk holds much, and a run takes its hash often. */
static uint64_t mix_content(uint64_t hash, const void *bytes, size_t len)
{
    return mix_u64(mix_u64(hash, len), len > 0 ? crc32c(0, bytes, len) : 0);
}

static uint64_t mix_entry(uint64_t hash, const struct sim_entry *entry)
{
    if (!entry) return mix_u64(hash, 0);
    return mix_u64(mix(hash, entry->name, entry->name_len), entry->node->number);
}

static uint64_t mix_node(uint64_t hash, const struct sim_node *node)
{
    hash = mix_u64(mix_u64(mix_u64(hash, node->number), node->kind), node->mode);
    hash = mix_u64(mix_u64(mix_u64(hash, node->refs), node->locked), (uint64_t)node->modified_ns);
    hash = mix_content(hash, node->live.at, node->live.len);
    hash = mix_content(hash, node->durable.at, node->durable.len);
    LIST_EACH(&node->writes, link)
    {
        const struct pending_write *write = CONTAINER_OF(link, struct pending_write, link);
        hash = mix_u64(hash, write->offset);
        hash = mix_u64(hash, (uint64_t)write->truncation * 2 + write->dropped);
        hash = mix_content(hash, write->bytes, write->len);
    }
    LIST_EACH(&node->entries, link)
    hash = mix_entry(hash, CONTAINER_OF(link, struct sim_entry, link));
    return hash;
}

uint64_t sim_fs_hash(const struct sim_fs *disk)
{
    uint64_t hash = mix(0, disk->prng.s, sizeof disk->prng.s);
    LIST_EACH(&disk->nodes, link) hash = mix_node(hash, CONTAINER_OF(link, struct sim_node, link));
    LIST_EACH(&disk->journal, link)
    {
        const struct name_op *op = CONTAINER_OF(link, struct name_op, link);
        hash = mix_u64(hash, op->from ? op->from->number : 0);
        hash = mix_u64(hash, op->to ? op->to->number : 0);
        hash = mix_entry(mix_entry(mix_entry(hash, op->gone), op->made), op->replaced);
    }
    return mix_u64(mix_u64(hash, disk->used), disk->stats.calls);
}

/* -- dump -- */

static struct str name_of(const struct sim_entry *entry)
{
    return str_of(entry->name, entry->name_len);
}

/* The entry that follows `last` by name; the first for NULL. */
static const struct sim_entry *next_by_name(const struct sim_node *dir,
                                            const struct sim_entry *last)
{
    const struct sim_entry *best = NULL;
    LIST_EACH(&dir->entries, link)
    {
        const struct sim_entry *entry = CONTAINER_OF(link, struct sim_entry, link);
        if (last && str_compare(name_of(entry), name_of(last)) <= 0) continue;
        if (!best || str_compare(name_of(entry), name_of(best)) < 0) best = entry;
    }
    return best;
}

static enum err dump_node(const struct sim_node *node, struct str path, struct buf *into)
{
    if (node->kind == FS_DIRECTORY)
        return buf_appendf(into, "%.*s/ mode %03" PRIo32 "\n", STR_ARG(path), node->mode);
    return buf_appendf(
        into, "%.*s size %zu durable %zu pending %" PRIu32 " mode %03" PRIo32 "%s%s\n",
        STR_ARG(path), node->live.len, node->durable.len, node->write_count, node->mode,
        node->locked ? " locked" : "", node->diverged ? " diverged" : "");
}

/* As deep as the tree is; a path of a real call is at most SIM_FS_DEPTH_MAX. */
static enum err dump_dir(const struct sim_node *dir, struct buf *path, struct buf *into)
{
    enum err err = dump_node(dir, buf_peek(path), into);
    const struct sim_entry *entry = NULL;
    while (!err && (entry = next_by_name(dir, entry))) {
        size_t len = path->len;
        err = buf_appendf(path, "/%s", entry->name);
        if (!err && entry->node->kind == FS_DIRECTORY)
            err = dump_dir(entry->node, path, into);
        else if (!err)
            err = dump_node(entry->node, buf_peek(path), into);
        path->len = len;
    }
    return err;
}

enum err sim_fs_dump(const struct sim_fs *disk, struct buf *into)
{
    struct buf path;
    size_t names = 0;
    buf_init(&path, (size_t)SIM_FS_DEPTH_MAX * (FS_NAME_MAX + 1));
    enum err err = dump_dir(disk->root, &path, into);
    buf_deinit(&path);
    LIST_EACH(&disk->journal, link) names++;
    if (err) return err;
    return buf_appendf(into, "used %" PRIu64 " of %" PRIu64 ", %zu names not synced\n", disk->used,
                       disk->options.capacity, names);
}
