/* SPDX-License-Identifier: Apache-2.0 */
/* The content of files on the simulated disk: the written content, the synced content, and the
 * effect of a power cut on the difference. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim_fs_int.h"

enum { SHRINK_FROM = 64 * 1024 }; /* bytes; a smaller buffer keeps its memory */

void data_init(struct sim_node *node)
{
    list_init(&node->writes);
    node->live = node->durable = (struct content){0};
}

/* -- bytes -- */

static enum err content_reserve(struct content *content, uint64_t size)
{
    if (size <= content->cap) return ERR_OK;
    size_t cap = max_size((size_t)size, content->cap + content->cap / 2);
    char *at = realloc(content->at, cap);
    if (!at) return ERR_NOMEM;
    content->at = at;
    content->cap = cap;
    return ERR_OK;
}

static void content_resize(struct content *content, size_t size)
{
    assert(size <= content->cap); /* the write reserved the room */
    if (size > content->len) memset(content->at + content->len, 0, size - content->len);
    content->len = size;
}

static void content_put(struct content *content, uint64_t offset, const char *bytes, size_t len)
{
    if (len == 0) return;
    if (offset + len > content->len) content_resize(content, (size_t)offset + len);
    memcpy(content->at + offset, bytes, len);
}

/* -- space -- */

static void recharge(struct sim_fs *disk, struct sim_node *node)
{
    disk->used -= node->charged;
    node->charged = SIM_FS_NODE_BYTES + max_size(node->live.len, node->durable.len);
    disk->used += node->charged;
}

static bool fits(const struct sim_fs *disk, uint64_t bytes)
{
    return disk->used <= disk->options.capacity && bytes <= disk->options.capacity - disk->used;
}

bool disk_has_room(struct sim_fs *disk, uint64_t bytes)
{
    if (bytes == 0 || fits(disk, bytes)) return true;
    disk_settle(disk);
    return fits(disk, bytes);
}

int64_t disk_now_ns(struct sim_fs *disk)
{
    if (disk->options.clock) return (int64_t)(clock_wall(disk->options.clock).ms * NS_PER_MS);
    return (int64_t)++disk->ticks;
}

/* -- pending writes -- */

static void sim_fs_data_forget(struct sim_fs *disk, struct sim_node *node,
                               struct pending_write *write)
{
    list_remove(&write->link);
    node->write_count--;
    disk->write_bytes_pending -= write->len;
    free(write);
}

static void make_durable(struct sim_fs *disk, struct sim_node *node, struct pending_write *write)
{
    if (write->truncation)
        content_resize(&node->durable, (size_t)write->offset);
    else if (!write->dropped)
        content_put(&node->durable, write->offset, write->bytes, write->len);
    sim_fs_data_forget(disk, node, write);
}

/* Writes back when much is pending, as a kernel does, which bounds memory. */
static void write_back(struct sim_fs *disk, struct sim_node *node)
{
    LIST_EACH_SAFE(&node->writes, link, following)
    {
        if (node->write_count <= SIM_FS_WRITES_PENDING_MAX &&
            disk->write_bytes_pending <= disk->options.capacity)
            break;
        make_durable(disk, node, CONTAINER_OF(link, struct pending_write, link));
    }
}

static void remember(struct sim_fs *disk, struct sim_node *node, struct pending_write *own_write)
{
    list_init(&own_write->link);
    list_append(&node->writes, &own_write->link);
    node->write_count++;
    disk->write_bytes_pending += own_write->len;
    node->modified_ns = disk_now_ns(disk);
    write_back(disk, node);
    recharge(disk, node);
}

static size_t room_for(struct sim_fs *disk, const struct sim_node *node, uint64_t offset,
                       size_t len)
{
    uint64_t held = max_size(node->live.len, node->durable.len);
    if (offset + len <= held || disk_has_room(disk, offset + len - held)) return len;
    held = max_size(node->live.len, node->durable.len); /* disk_settle() may change both */
    if (offset + len <= held) return len;
    uint64_t free_bytes =
        disk->used < disk->options.capacity ? disk->options.capacity - disk->used : 0;
    uint64_t end = held + free_bytes;
    return end > offset ? (size_t)min_u64(end - offset, len) : 0;
}

/* Allocates a write, and room for `end` bytes in both contents. NULL: no memory. */
static struct pending_write *write_make(struct sim_node *node, uint64_t end, size_t len)
{
    struct pending_write *write = malloc(sizeof *write + len);

    if (!write || content_reserve(&node->live, end) || content_reserve(&node->durable, end)) {
        free(write);
        return NULL;
    }
    return write;
}

enum err data_write(struct sim_fs *disk, struct sim_node *node, uint64_t offset, struct str bytes)
{
    size_t len = room_for(disk, node, offset, bytes.len);
    if (len == 0) return bytes.len == 0 ? ERR_OK : ERR_NO_SPACE;
    struct pending_write *write = write_make(node, offset + len, len);
    if (!write) return ERR_NOMEM;
    *write = (struct pending_write){.offset = offset, .len = len};
    memcpy(write->bytes, bytes.at, len);
    content_put(&node->live, offset, bytes.at, len);
    remember(disk, node, write);
    return len == bytes.len ? ERR_OK : ERR_NO_SPACE;
}

enum err data_truncate(struct sim_fs *disk, struct sim_node *node, uint64_t size)
{
    if (size == node->live.len) return ERR_OK;
    uint64_t held = max_size(node->live.len, node->durable.len);
    if (size > held && !disk_has_room(disk, size - held)) return ERR_NO_SPACE;
    struct pending_write *write = write_make(node, size, 0);
    if (!write) return ERR_NOMEM;
    *write = (struct pending_write){.offset = size, .truncation = true};
    content_resize(&node->live, (size_t)size);
    remember(disk, node, write);
    return ERR_OK;
}

/* -- sync -- */

/* Frees memory of a file that became much shorter. Without memory nothing changes. */
static void content_shrink(struct content *content, size_t want)
{
    if (content->cap < SHRINK_FROM || content->cap / 4 <= want) return;
    char *at = realloc(content->at, want + 1);
    if (!at) return;
    content->at = at;
    content->cap = want + 1;
}

void data_sync(struct sim_fs *disk, struct sim_node *node)
{
    LIST_EACH_SAFE(&node->writes, link, following)
    {
        make_durable(disk, node, CONTAINER_OF(link, struct pending_write, link));
    }
    if (!node->diverged) assert(node->live.len == node->durable.len);
    size_t want = max_size(node->live.len, node->durable.len);
    content_shrink(&node->live, want);
    content_shrink(&node->durable, want);
    recharge(disk, node);
}

void data_sync_failed(struct sim_fs *disk, struct sim_node *node)
{
    LIST_EACH(&node->writes, link)
    {
        struct pending_write *write = CONTAINER_OF(link, struct pending_write, link);
        if (write->truncation || write->dropped) continue;
        if (!prng_chance(&disk->prng, disk->options.failed_sync_drops_per_million)) continue;
        write->dropped = node->diverged = true;
        disk->stats.writes_dropped++;
    }
}

/* -- power cut -- */

enum fate { KEPT, LOST, TORN };

static enum fate draw_fate(struct sim_fs *disk, const struct pending_write *write)
{
    if (write->dropped) return LOST;
    uint64_t draw = prng_below(&disk->prng, 1000000);
    if (draw < disk->options.write_lost_per_million) return LOST;
    draw -= disk->options.write_lost_per_million;
    if (draw >= disk->options.write_torn_per_million) return KEPT;
    return write->truncation ? LOST : TORN; /* a size cannot be torn */
}

static uint64_t sector_end(uint64_t offset)
{
    return (offset / SIM_FS_SECTOR + 1) * SIM_FS_SECTOR;
}

/* Keeps a prefix of bytes, a prefix of sectors, or any subset of the sectors. */
static void tear(struct sim_fs *disk, struct sim_node *node, const struct pending_write *write)
{
    uint64_t way = prng_below(&disk->prng, 3);
    size_t cut = (size_t)prng_below(&disk->prng, write->len + 1);
    if (way == 1) {
        uint64_t whole = (write->offset + cut) / SIM_FS_SECTOR * SIM_FS_SECTOR;
        cut = whole > write->offset ? (size_t)(whole - write->offset) : 0;
    }
    if (way < 2) {
        content_put(&node->durable, write->offset, write->bytes, cut);
        return;
    }
    for (uint64_t at = write->offset, end = at + write->len; at < end;) {
        uint64_t next = min_u64(sector_end(at), end);
        if (prng_below(&disk->prng, 2))
            content_put(&node->durable, at, write->bytes + (at - write->offset),
                        (size_t)(next - at));
        at = next;
    }
}

/* In the journal's order, a lost truncation also loses later writes beyond its size. */
void data_crash(struct sim_fs *disk, struct sim_node *node)
{
    uint64_t limit = UINT64_MAX;
    bool wrote = !list_empty(&node->writes);

    LIST_EACH_SAFE(&node->writes, link, following)
    {
        struct pending_write *write = CONTAINER_OF(link, struct pending_write, link);
        enum fate fate = draw_fate(disk, write);
        bool ordered = !disk->options.reorder_names;
        if (ordered && write->truncation && limit != UINT64_MAX) fate = LOST;
        if (ordered && write->truncation && fate == LOST) limit = min_u64(limit, write->offset);
        if (ordered && !write->truncation && write->offset + write->len > limit) fate = LOST;
        if (fate == TORN) tear(disk, node, write);
        if (fate == KEPT)
            make_durable(disk, node, write);
        else
            sim_fs_data_forget(disk, node, write);
    }
    if (!wrote && !node->diverged) return; /* both contents are equal */
    assert(node->durable.len <= node->live.cap);
    node->live.len = node->durable.len;
    if (node->live.len > 0) memcpy(node->live.at, node->durable.at, node->live.len);
    node->diverged = false;
    recharge(disk, node);
}

void data_deinit(struct sim_fs *disk, struct sim_node *node)
{
    LIST_EACH_SAFE(&node->writes, link, following)
    {
        sim_fs_data_forget(disk, node, CONTAINER_OF(link, struct pending_write, link));
    }
    free(node->live.at);
    free(node->durable.at);
    disk->used -= node->charged;
}
