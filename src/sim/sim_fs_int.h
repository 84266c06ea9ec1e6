/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the simulated disk, for src/sim/sim_fs*.c.
 *
 * A node is a file, a directory or a link (FS_OTHER). The content of a link is its target, a name
 * in the same directory. A file has two contents: reads see `live`; `durable` is what a power cut
 * preserves. `writes` contains the difference, oldest first. The journal records how to undo each
 * unsynced change of names. Invariants:
 *
 *   1. The buffers of both contents can hold the longer content and all of `writes`, so neither a
 *      sync nor a power cut allocates memory.
 *   2. Without pending writes both contents are equal, unless `diverged`.
 *   3. Operations on the same name are undone newest first and made durable oldest first.
 *   4. An entry is either in its directory or held by one pending operation (`gone`, `replaced`),
 *      never both. Either way it owns one reference to its node. */
#ifndef SIM_SIM_FS_INT_H
#define SIM_SIM_FS_INT_H
#include "base/list.h"
#include "sim/sim_fs.h"

struct content {
    char *at;
    size_t len, cap;
};

struct pending_write {
    struct list link;
    uint64_t offset; /* for a truncation: the new size */
    size_t len;
    bool truncation;
    bool dropped; /* a failed sync dropped the write: only `live` has it */
    char bytes[];
};

struct sim_node {
    struct list link;
    struct list entries;
    struct list writes;
    struct content live, durable;
    uint64_t number, charged; /* the inode number, and the bytes counted in disk->used */
    int64_t modified_ns;
    uint32_t mode, refs, write_count;
    enum fs_kind kind;
    bool diverged, locked;
};

struct sim_entry {
    struct list link;
    struct sim_node *node;
    size_t name_len;
    char name[];
};

/* A create has `made`, a remove has `gone`. A rename has both, and `replaced` for an old target. */
struct name_op {
    struct list link;
    struct sim_node *from, *to; /* each with a reference; NULL: not involved */
    struct sim_entry *gone, *made, *replaced;
    bool lost, wanted; /* marks during a power cut, and during a sync */
};

struct sim_file {
    struct fs_file base;
    struct list link;
    struct sim_node *node; /* NULL: the handle is invalid */
};
struct fs_lock {
    struct list link;
    struct sim_node *node; /* the LOCK file; NULL: the lock is invalid */
};

struct sim_fs {
    struct fs fs; /* must be the first field */
    struct sim_fs_options options;
    struct prng prng;
    struct sim_node *root;
    struct list nodes, journal, files, locks;
    size_t files_live, names_pending;
    uint64_t used, write_bytes_pending, next_number, ticks;
    struct {
        uint64_t left;
        enum err err;
    } once[SIM_FS_CALL_COUNT];
    struct sim_fs_stats stats;
};

/* -- sim_fs_data.c: content -- */
void data_init(struct sim_node *node);
void data_deinit(struct sim_fs *disk, struct sim_node *node);
/* ERR_NO_SPACE: the part that fits was written. ERR_NOMEM: nothing was written. */
enum err data_write(struct sim_fs *disk, struct sim_node *node, uint64_t offset, struct str bytes);
enum err data_truncate(struct sim_fs *disk, struct sim_node *node, uint64_t size);
void data_sync(struct sim_fs *disk, struct sim_node *node);
void data_sync_failed(struct sim_fs *disk, struct sim_node *node);
void data_crash(struct sim_fs *disk, struct sim_node *node);
bool disk_has_room(struct sim_fs *disk, uint64_t bytes);
int64_t disk_now_ns(struct sim_fs *disk);

/* -- sim_fs.c -- */
/* Writes back all pending data to gain space, as a kernel does before ERR_NO_SPACE. */
void disk_settle(struct sim_fs *disk);

/* -- sim_fs_names.c: the tree and its journal -- */
struct sim_path {
    struct sim_node
        /* directories from the root down */
        *above[SIM_FS_DEPTH_MAX + 1];
    size_t above_count;
    struct str name;
    struct sim_entry *entry;
    struct sim_node *node;
    bool as_dir;
};
/* ERR_NOT_FOUND: a directory of the path is missing. The last name need not exist. */
enum err names_find(struct sim_fs *disk, const char *path, struct sim_path *ret_place);
struct sim_node *place_dir(const struct sim_path *place);
/* Follows a link one step; other nodes stay. ERR_INVALID: the target is also a link. */
enum err place_follow(struct sim_path *place);
bool place_is_misnamed(const struct sim_path *place); /* a file's path ends with a slash */
bool place_is_below(const struct sim_path *place, const struct sim_node *node);

enum err node_open(struct sim_fs *disk, enum fs_kind kind, uint32_t mode,
                   struct sim_node **ret_node);
void node_ref(struct sim_node *node);
void node_unref(struct sim_fs *disk, struct sim_node *node); /* accepts NULL */
struct sim_entry *dir_find(const struct sim_node *dir, struct str name);
enum err names_create(struct sim_fs *disk, struct sim_node *dir, struct str name, enum fs_kind kind,
                      uint32_t mode, struct sim_node **ret_node);
enum err names_remove(struct sim_fs *disk, struct sim_node *dir, struct sim_entry *entry);
enum err names_rename(struct sim_fs *disk, struct sim_node *from, struct sim_entry *entry,
                      struct sim_node *to, struct str name, struct sim_entry *replaced);
void names_sync_dir(struct sim_fs *disk, struct sim_node *dir);
void names_sync_all(struct sim_fs *disk);
void names_crash(struct sim_fs *disk);
#endif
