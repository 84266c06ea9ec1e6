/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the simulated disk. Each call finds its file, charges its cost, may fail, and then
 * uses sim_fs_data.c and sim_fs_names.c. */
#include "sim/sim_fs.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_fs_int.h"

static const uint32_t MILLION = 1000000;

static struct sim_fs *disk_of(struct fs *fs)
{
    return (struct sim_fs *)fs;
}

/* -- cost and failure of a call -- */

static void pay(struct sim_fs *disk, enum sim_fs_call call, uint64_t bytes)
{
    const struct sim_fs_options *options = &disk->options;
    uint64_t ns = options->call_ns + (bytes + 1023) / 1024 * options->kib_ns;
    if (call == SIM_FS_SYNC)
        ns += prng_between(&disk->prng, options->sync_ns_min, options->sync_ns_max);
    if (prng_chance(&disk->prng, options->stall_per_million)) {
        ns += options->stall_ns;
        disk->stats.stalls++;
    }
    if (options->cost && ns > 0) options->cost(options->context, ns);
}

static uint32_t failure_rate(const struct sim_fs *disk, enum sim_fs_call call)
{
    const uint32_t rates[SIM_FS_CALL_COUNT] = {
        [SIM_FS_READ] = disk->options.read_fails_per_million,
        [SIM_FS_WRITE] = disk->options.write_fails_per_million,
        [SIM_FS_SYNC] = disk->options.sync_fails_per_million,
    };

    return rates[call];
}

static enum err begin(struct sim_fs *disk, enum sim_fs_call call, uint64_t bytes)
{
    enum err err = ERR_OK;
    disk->stats.calls++;
    pay(disk, call, bytes);
    if (disk->once[call].left > 0 && --disk->once[call].left == 0)
        err = disk->once[call].err;
    else if (prng_chance(&disk->prng, failure_rate(disk, call)))
        err = ERR_IO;
    if (err) disk->stats.failures++;
    return err;
}

static bool is_admitted(const struct sim_fs *disk)
{
    return !disk->options.admits || disk->options.admits(disk->options.context);
}

static enum err begin_path(struct sim_fs *disk, enum sim_fs_call call)
{
    return is_admitted(disk) ? begin(disk, call, 0) : ERR_IO;
}

/* -- files -- */

static enum err file_node(struct fs *fs, struct fs_file *file, struct sim_node **ret_node)
{
    if (!is_admitted(disk_of(fs))) return ERR_IO;
    *ret_node = ((struct sim_file *)file)->node;
    return *ret_node ? ERR_OK : ERR_CLOSED;
}

static enum err find_node(struct sim_fs *disk, const char *path, struct sim_node **ret_node)
{
    struct sim_path place;
    enum err err = names_find(disk, path, &place);
    if (!err) err = place_follow(&place);
    if (!err && !place.node) err = ERR_NOT_FOUND;
    if (!err && place_is_misnamed(&place)) err = ERR_INVALID;
    if (!err) *ret_node = place.node;
    return err;
}

static enum err find_dir(struct sim_fs *disk, const char *path, struct sim_node **ret_dir)
{
    struct sim_node *node = NULL;
    enum err err = find_node(disk, path, &node);
    if (!err && node->kind != FS_DIRECTORY) err = ERR_INVALID;
    if (!err) *ret_dir = node;
    return err;
}

static enum err find_or_create(struct sim_fs *disk, const char *path, uint32_t flags, uint32_t mode,
                               struct sim_node **ret_node)
{
    struct sim_path place;
    enum err err = names_find(disk, path, &place);
    if (err) return err;
    if (place.as_dir && (flags & FS_CREATE)) return ERR_INVALID;
    if (!place.node && !(flags & FS_CREATE)) return ERR_NOT_FOUND;
    if (!place.node)
        return names_create(disk, place_dir(&place), place.name, FS_REGULAR, mode, ret_node);
    if (flags & FS_EXCLUSIVE) return ERR_EXISTS;
    if (!(flags & FS_WRITE)) {
        err = place_follow(&place);
        if (err) return err;
        if (!place.node) return ERR_NOT_FOUND;
    }
    if (place.node->kind != FS_REGULAR || place_is_misnamed(&place)) return ERR_INVALID;
    *ret_node = place.node;
    return ERR_OK;
}

static enum err disk_open(struct fs *fs, const char *path, uint32_t flags, uint32_t mode,
                          struct fs_file **ret_file)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = begin_path(disk, SIM_FS_OPEN);
    if (err) return err;
    if (disk->files_live >= SIM_FS_HANDLES_MAX) return ERR_FULL;
    struct sim_file *file = calloc(1, sizeof *file);
    if (!file) return ERR_NOMEM;
    err = find_or_create(disk, path, flags, mode, &node);
    if (!err && (flags & FS_TRUNCATE)) err = data_truncate(disk, node, 0);
    if (err) {
        free(file);
        return err;
    }
    node_ref(node);
    file->node = node;
    list_init(&file->link);
    list_append(&disk->files, &file->link);
    disk->files_live++;
    *ret_file = (struct fs_file *)file;
    return ERR_OK;
}

static void file_die(struct sim_fs *disk, struct sim_file *file)
{
    if (!file->node) return;
    node_unref(disk, file->node);
    file->node = NULL;
    disk->files_live--;
}

static void disk_close(struct fs *fs, struct fs_file *base)
{
    struct sim_file *file = (struct sim_file *)base;
    file_die(disk_of(fs), file);
    list_remove(&file->link);
    free(file);
}

/* Damages synced content that is being read. The damage is permanent. */
static void flip_bit(struct sim_fs *disk, struct sim_node *node, uint64_t offset, size_t len)
{
    uint64_t end = min_u64(offset + len, min_size(node->live.len, node->durable.len));
    if (offset >= end) return;
    uint64_t at = prng_between(&disk->prng, offset, end - 1);
    unsigned mask = BIT(prng_below(&disk->prng, 8));
    node->live.at[at] = (char)((unsigned char)node->live.at[at] ^ mask);
    node->durable.at[at] = (char)((unsigned char)node->durable.at[at] ^ mask);
    disk->stats.flips++;
}

static enum err disk_read_at(struct fs *fs, struct fs_file *file, uint64_t offset, void *into,
                             size_t len, size_t *ret_got)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = file_node(fs, file, &node);
    if (err) return err;
    size_t got = offset < node->live.len ? min_size(len, node->live.len - (size_t)offset) : 0;
    err = begin(disk, SIM_FS_READ, got);
    if (err) return err;
    if (prng_chance(&disk->prng, disk->options.read_flips_per_million))
        flip_bit(disk, node, offset, got);
    uint64_t from = offset;
    if (got > 0 && prng_chance(&disk->prng, disk->options.read_misdirected_per_million)) {
        from = prng_below(&disk->prng, node->live.len - got + 1);
        if (from != offset) disk->stats.misdirected++;
    }
    if (got > 0) memcpy(into, node->live.at + from, got);
    *ret_got = got;
    return ERR_OK;
}

static enum err disk_write_at(struct fs *fs, struct fs_file *file, uint64_t offset,
                              struct str bytes)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = file_node(fs, file, &node);
    if (err) return err;
    if (file->flags & FS_APPEND) offset = node->live.len;
    err = begin(disk, SIM_FS_WRITE, bytes.len);
    if (!err) return data_write(disk, node, offset, bytes);
    /* After an error any part may have been written, as fs.h permits. */
    size_t part = (size_t)prng_below(&disk->prng, bytes.len + 1);
    (void)data_write(disk, node, offset, str_of(bytes.at, part));
    return err;
}

static enum err disk_sync(struct fs *fs, struct fs_file *file)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = file_node(fs, file, &node);
    if (err) return err;
    err = begin(disk, SIM_FS_SYNC, 0);
    if (err)
        data_sync_failed(disk, node);
    else
        data_sync(disk, node);
    return err;
}

static enum err disk_truncate(struct fs *fs, struct fs_file *file, uint64_t size)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = file_node(fs, file, &node);
    if (err) return err;
    err = begin(disk, SIM_FS_WRITE, 0);
    return err ? err : data_truncate(disk, node, size);
}

static enum err disk_file_size(struct fs *fs, struct fs_file *file, uint64_t *ret_size)
{
    struct sim_node *node;
    enum err err = file_node(fs, file, &node);
    if (err) return err;
    err = begin(disk_of(fs), SIM_FS_NAME, 0);
    if (!err) *ret_size = node->live.len;
    return err;
}

/* -- names -- */

static enum err disk_stat(struct fs *fs, const char *path, struct fs_info *ret_info)
{
    struct sim_node *node = NULL;
    enum err err = begin_path(disk_of(fs), SIM_FS_NAME);
    if (!err) err = find_node(disk_of(fs), path, &node);
    if (err) return err;
    *ret_info = (struct fs_info){
        .kind = node->kind,
        .size = node->live.len,
        .inode = node->number,
        .modified_ns = node->modified_ns,
        .mode = node->mode,
    };
    return ERR_OK;
}

/* Checks in the order of a kernel. */
static enum err may_rename(const struct sim_path *from, const struct sim_path *to)
{
    if (!from->entry) return from->node ? ERR_BUSY : ERR_NOT_FOUND; /* the root cannot be renamed */
    if (to->node && !to->entry) return ERR_BUSY;
    if (place_is_misnamed(from)) return ERR_INVALID;
    bool dir = from->node->kind == FS_DIRECTORY;
    if (!dir && to->as_dir) return ERR_INVALID;
    if (place_is_below(to, from->node)) return ERR_INVALID;
    if (!to->node) return ERR_OK;
    if (place_is_below(from, to->node)) return ERR_PRECONDITION;
    if (dir != (to->node->kind == FS_DIRECTORY)) return ERR_INVALID;
    return dir && to->node != from->node && !list_empty(&to->node->entries) ? ERR_PRECONDITION
                                                                            : ERR_OK;
}

static enum err disk_rename(struct fs *fs, const char *from_path, const char *to_path)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_path from, to;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (err) return err;
    if ((err = names_find(disk, from_path, &from))) return err;
    if ((err = names_find(disk, to_path, &to))) return err;
    err = may_rename(&from, &to);
    if (err || from.node == to.node) return err;
    return names_rename(disk, place_dir(&from), from.entry, place_dir(&to), to.name, to.entry);
}

static enum err disk_remove(struct fs *fs, const char *path)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_path place;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (!err) err = names_find(disk, path, &place);
    if (err) return err;
    if (!place.entry) return place.node ? ERR_BUSY : ERR_NOT_FOUND;
    if (place_is_misnamed(&place)) return ERR_INVALID;
    if (!list_empty(&place.node->entries)) return ERR_PRECONDITION;
    return names_remove(disk, place_dir(&place), place.entry);
}

static enum err disk_make_dir(struct fs *fs, const char *path, uint32_t mode)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_path place;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (!err) err = names_find(disk, path, &place);
    if (err) return err;
    if (place.node) return ERR_EXISTS;
    return names_create(disk, place_dir(&place), place.name, FS_DIRECTORY, mode, NULL);
}

/* The target of a link is durable with the link's name, as in kernels for short targets. */
static enum err disk_make_link(struct fs *fs, const char *target, const char *path)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_path place;
    struct sim_node *node;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (!err) err = names_find(disk, path, &place);
    if (err) return err;
    if (place.node) return ERR_EXISTS;
    if (place.as_dir) return ERR_NOT_FOUND;
    err = names_create(disk, place_dir(&place), place.name, FS_OTHER, 0777, &node);
    if (err) return err;
    err = data_write(disk, node, 0, str_from(target));
    if (!err)
        data_sync(disk, node);
    else
        (void)names_remove(disk, place_dir(&place), dir_find(place_dir(&place), place.name));
    return err;
}

/* Lists a directory from a random entry on, so that no caller depends on an order. */
static enum err disk_list(struct fs *fs, const char *path, fs_list_fn *each, void *context)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *dir;
    uint64_t count = 0;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (!err) err = find_dir(disk, path, &dir);
    if (err) return err;
    LIST_EACH(&dir->entries, link) count++;
    if (count == 0) return ERR_OK;
    struct list *link = dir->entries.next;
    for (uint64_t skip = prng_below(&disk->prng, count); skip > 0; skip--) link = link->next;
    for (uint64_t i = 0; i < count; i++, link = link->next) {
        if (link == &dir->entries) link = link->next;
        const struct sim_entry *entry = CONTAINER_OF(link, struct sim_entry, link);
        each(context, entry->name, entry->node->kind);
    }
    return ERR_OK;
}

static enum err disk_sync_dir(struct fs *fs, const char *path)
{
    struct sim_node *dir = NULL;
    enum err err = begin_path(disk_of(fs), SIM_FS_SYNC);
    if (!err) err = find_dir(disk_of(fs), path, &dir);
    if (!err) names_sync_dir(disk_of(fs), dir);
    return err;
}

static enum err disk_free_bytes(struct fs *fs, const char *path, uint64_t *ret_bytes)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *node;
    enum err err = begin_path(disk, SIM_FS_NAME);
    if (!err) err = find_node(disk, path, &node);
    if (err) return err;
    *ret_bytes = disk->used < disk->options.capacity ? disk->options.capacity - disk->used : 0;
    return ERR_OK;
}

/* -- locks -- */

/* Writes who holds the lock, for people. The lock is valid without this text. */
static void write_holder(struct sim_fs *disk, struct sim_node *file)
{
    char text[FS_LOCK_TEXT_CAP];
    uint64_t pid = disk->options.pid ? disk->options.pid : 1;
    wall_time since = {(uint64_t)disk_now_ns(disk) / NS_PER_MS};
    size_t len = fs_lock_text(pid, since, text);
    if (data_truncate(disk, file, 0) == ERR_OK) (void)data_write(disk, file, 0, str_of(text, len));
}

static enum err disk_lock_dir(struct fs *fs, const char *path, struct fs_lock **ret_lock,
                              struct note *note)
{
    struct sim_fs *disk = disk_of(fs);
    struct sim_node *dir, *file = NULL;
    enum err err = begin_path(disk, SIM_FS_OPEN);
    if (!err) err = find_dir(disk, path, &dir);
    if (err) return err;
    struct fs_lock *lock = calloc(1, sizeof *lock);
    if (!lock) return ERR_NOMEM;
    struct sim_entry *entry = dir_find(dir, STR(FS_LOCK_NAME));
    if (entry)
        file = entry->node;
    else
        err = names_create(disk, dir, STR(FS_LOCK_NAME), FS_REGULAR, 0600, &file);
    if (!err && file->kind != FS_REGULAR) err = ERR_INVALID;
    if (!err && file->locked) {
        fs_lock_busy_note(note, path, str_of(file->live.at, file->live.len));
        err = ERR_BUSY;
    }
    if (err) {
        free(lock);
        return err;
    }
    node_ref(file);
    file->locked = true;
    lock->node = file;
    list_init(&lock->link);
    list_append(&disk->locks, &lock->link);
    write_holder(disk, file);
    *ret_lock = lock;
    return ERR_OK;
}

static void lock_die(struct sim_fs *disk, struct fs_lock *lock)
{
    if (!lock->node) return;
    lock->node->locked = false;
    node_unref(disk, lock->node);
    lock->node = NULL;
}

static void disk_unlock(struct fs *fs, struct fs_lock *lock)
{
    if (lock->node) (void)data_truncate(disk_of(fs), lock->node, 0);
    lock_die(disk_of(fs), lock);
    list_remove(&lock->link);
    free(lock);
}

/* -- open and close a disk -- */

static const struct fs disk_table = {
    .open = disk_open,
    .close = disk_close,
    .read_at = disk_read_at,
    .write_at = disk_write_at,
    .sync = disk_sync,
    .truncate = disk_truncate,
    .file_size = disk_file_size,
    .stat = disk_stat,
    .rename = disk_rename,
    .remove = disk_remove,
    .make_dir = disk_make_dir,
    .make_link = disk_make_link,
    .list = disk_list,
    .sync_dir = disk_sync_dir,
    .free_bytes = disk_free_bytes,
    .lock_dir = disk_lock_dir,
    .unlock = disk_unlock,
};

static bool options_ok(const struct sim_fs_options *options)
{
    return options->write_lost_per_million <= MILLION &&
           options->write_torn_per_million <= MILLION - options->write_lost_per_million &&
           options->name_lost_per_million <= MILLION &&
           options->read_fails_per_million <= MILLION &&
           options->write_fails_per_million <= MILLION &&
           options->sync_fails_per_million <= MILLION &&
           options->failed_sync_drops_per_million <= MILLION &&
           options->read_flips_per_million <= MILLION &&
           options->read_misdirected_per_million <= MILLION &&
           options->stall_per_million <= MILLION && options->sync_ns_min <= options->sync_ns_max;
}

enum err sim_fs_set_options(struct sim_fs *disk, const struct sim_fs_options *options)
{
    if (!options_ok(options)) return ERR_INVALID;
    disk->options = *options;
    if (disk->options.capacity == 0) disk->options.capacity = SIM_FS_CAPACITY_DEFAULT;
    return ERR_OK;
}

enum err sim_fs_open(const struct sim_fs_options *options, struct prng *prng,
                     struct sim_fs **ret_disk)
{
    struct sim_fs *disk = calloc(1, sizeof *disk);
    if (!disk) return ERR_NOMEM;
    disk->fs = disk_table;
    list_init(&disk->nodes);
    list_init(&disk->journal);
    list_init(&disk->files);
    list_init(&disk->locks);
    enum err err = sim_fs_set_options(disk, options);
    if (!err) err = node_open(disk, FS_DIRECTORY, 0755, &disk->root);
    if (err) {
        free(disk);
        return err;
    }
    prng_fork(prng, &disk->prng);
    *ret_disk = disk;
    return ERR_OK;
}

void sim_fs_close(struct sim_fs *disk)
{
    if (!disk) return;
    sim_fs_process_died(disk);
    sim_fs_reclaim(disk);
    names_sync_all(disk);
    node_unref(disk, disk->root);
    assert(list_empty(&disk->nodes)); /* the tree held all nodes, and is freed */
    free(disk);
}

struct fs *sim_fs_fs(struct sim_fs *disk)
{
    return &disk->fs;
}

struct sim_fs_options sim_fs_options(const struct sim_fs *disk)
{
    return disk->options;
}

struct sim_fs_stats sim_fs_stats(const struct sim_fs *disk)
{
    return disk->stats;
}

void sim_fs_fail_once(struct sim_fs *disk, enum sim_fs_call call, uint64_t nth, enum err err)
{
    assert(call < SIM_FS_CALL_COUNT && (err || nth == 0));
    disk->once[call].left = nth;
    disk->once[call].err = err;
}

void sim_fs_process_died(struct sim_fs *disk)
{
    LIST_EACH(&disk->files, link) file_die(disk, CONTAINER_OF(link, struct sim_file, link));
    LIST_EACH(&disk->locks, link) lock_die(disk, CONTAINER_OF(link, struct fs_lock, link));
}

void sim_fs_reclaim(struct sim_fs *disk)
{
    LIST_EACH_SAFE(&disk->files, link, following)
    {
        struct sim_file *file = CONTAINER_OF(link, struct sim_file, link);
        if (!file->node) disk_close(&disk->fs, &file->base);
    }
    LIST_EACH_SAFE(&disk->locks, link, following)
    {
        struct fs_lock *lock = CONTAINER_OF(link, struct fs_lock, link);
        if (!lock->node) disk_unlock(&disk->fs, lock);
    }
}

void disk_settle(struct sim_fs *disk)
{
    names_sync_all(disk);
    LIST_EACH(&disk->nodes, link) data_sync(disk, CONTAINER_OF(link, struct sim_node, link));
}

void sim_fs_crash(struct sim_fs *disk)
{
    disk->stats.crashes++;
    sim_fs_process_died(disk);
    names_crash(disk);
    LIST_EACH(&disk->nodes, link) data_crash(disk, CONTAINER_OF(link, struct sim_node, link));
}

/* Half of the seeds get 0: a fault that always occurs hides bugs that need a fault at one
 * moment. */
static uint32_t draw_rate(struct prng *prng, uint32_t max)
{
    if (prng_below(prng, 2)) return 0;
    for (uint64_t shrink = prng_below(prng, 4); shrink > 0 && max > 10; shrink--) max /= 10;
    return (uint32_t)prng_between(prng, 1, max);
}

void sim_fs_draw_faults(struct prng *prng, struct sim_fs_options *options)
{
    options->write_lost_per_million = (uint32_t)prng_below(prng, MILLION / 2);
    options->write_torn_per_million = (uint32_t)prng_below(prng, MILLION / 2);
    options->name_lost_per_million = (uint32_t)prng_below(prng, MILLION);
    options->reorder_names = prng_below(prng, 2);
    options->read_fails_per_million = draw_rate(prng, 10000);
    options->write_fails_per_million = draw_rate(prng, 10000);
    options->sync_fails_per_million = draw_rate(prng, 10000);
    options->failed_sync_drops_per_million = (uint32_t)prng_below(prng, MILLION + 1);
    options->stall_per_million = draw_rate(prng, 100000);
}
