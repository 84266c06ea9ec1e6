/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the simulated disk share. Nothing outside src/sim/sim_fs*.c includes this.
 *
 * A node is a file, a directory or a link (FS_OTHER), whose content is the name beside it that it
 * leads to. A file has its content twice: `live` is what reads see,
 * `durable` what a power cut would find, and `writes` is what lies between the two, oldest first.
 *
 *   1. Both contents have room for the longer of the two, and for all of `writes`: neither a sync
 *      nor a power cut takes memory, so neither can fail for lack of it.
 *   2. Without writes pending the two are equal, unless a failed sync dropped some (`diverged`).
 *
 * Names exist once, as they are now; the journal remembers how to take each un-synced change back:
 *
 *   3. Operations on the same name are undone newest first and made durable oldest first.
 *   4. An entry is in its directory or held by one pending operation (`gone`, `replaced`), never
 *      both, and owns one reference on its node either way. */
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
    uint64_t offset; /* of a truncation: the new size */
    size_t len;
    bool truncation;
    bool dropped; /* a failed sync lost it: only `live` will ever have it */
    char bytes[];
};

struct sim_node {
    struct list link;    /* in disk->nodes, by age */
    struct list entries; /* of a directory */
    struct list writes;  /* of a file */
    struct content live, durable;
    uint64_t number, charged; /* inode number; bytes counted in disk->used */
    int64_t modified_ns;
    uint32_t mode, refs, write_count;
    enum fs_kind kind;
    bool diverged, locked;
};

struct sim_entry {
    struct list link;
    struct sim_node *node;
    size_t name_len;
    char name[]; /* with a closing NUL */
};

/* A create has `made`, a remove has `gone`, a rename both and perhaps `replaced`. */
struct name_op {
    struct list link;
    struct sim_node *from, *to; /* directories; a reference each; NULL where nothing changed */
    struct sim_entry *gone, *made, *replaced;
    bool lost, wanted; /* scratch of a power cut, of a sync */
};

struct sim_file {
    struct fs_file base;
    struct list link;
    struct sim_node *node; /* NULL: dead */
};
struct fs_lock {
    struct list link;
    struct sim_node *node; /* the LOCK file; NULL: dead */
};

struct sim_fs {
    struct fs fs; /* first */
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
/* ERR_NO_SPACE leaves the part that fits, ERR_NOMEM nothing. */
enum err data_write(struct sim_fs *disk, struct sim_node *node, uint64_t offset, struct str bytes);
enum err data_truncate(struct sim_fs *disk, struct sim_node *node, uint64_t size);
void data_sync(struct sim_fs *disk, struct sim_node *node);
void data_sync_failed(struct sim_fs *disk, struct sim_node *node);
void data_crash(struct sim_fs *disk, struct sim_node *node);
bool disk_has_room(struct sim_fs *disk, uint64_t bytes);
int64_t disk_now_ns(struct sim_fs *disk);

/* -- sim_fs.c -- */
/* Makes room as a kernel does before it says "full": writes back all that is pending. */
void disk_settle(struct sim_fs *disk);

/* -- sim_fs_names.c: the tree and its journal -- */
struct sim_path {
    struct sim_node
        *above[SIM_FS_DEPTH_MAX + 1]; /* directories from the root down to the last one */
    size_t above_count;
    struct str name;         /* empty for the root */
    struct sim_entry *entry; /* NULL: absent */
    struct sim_node *node;   /* NULL: absent */
    bool as_dir;             /* written with a slash at the end */
};
/* ERR_NOT_FOUND when a directory on the way is missing; the last part may be. */
enum err names_find(struct sim_fs *disk, const char *path, struct sim_path *ret_place);
struct sim_node *place_dir(const struct sim_path *place);
/* Where a link leads, one step; what is no link stays. ERR_INVALID: to another link. */
enum err place_follow(struct sim_path *place);
bool place_is_misnamed(const struct sim_path *place); /* a file, with a slash at the end */
bool place_is_below(const struct sim_path *place, const struct sim_node *node);

enum err node_open(struct sim_fs *disk, enum fs_kind kind, uint32_t mode,
                   struct sim_node **ret_node);
void node_ref(struct sim_node *node);
void node_unref(struct sim_fs *disk, struct sim_node *node); /* NULL is fine */
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
