/* SPDX-License-Identifier: Apache-2.0 */
/* Names on the simulated disk: the tree, and the journal of changes that no sync_dir has covered.
 *
 * The tree has the current state. A power cut selects lost operations and undoes them, newest
 * first. A lost operation also loses the later operations that depend on it (depends_on), so the
 * result is always a tree. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim_fs_int.h"

/* -- nodes and entries -- */

enum err node_open(struct sim_fs *disk, enum fs_kind kind, uint32_t mode,
                   struct sim_node **ret_node)
{
    if (!disk_has_room(disk, SIM_FS_NODE_BYTES)) return ERR_NO_SPACE;
    struct sim_node *node = calloc(1, sizeof *node);
    if (!node) return ERR_NOMEM;
    data_init(node);
    list_init(&node->link);
    list_init(&node->entries);
    list_append(&disk->nodes, &node->link);
    node->kind = kind;
    node->mode = mode;
    node->refs = 1;
    node->number = ++disk->next_number;
    node->modified_ns = disk_now_ns(disk);
    node->charged = SIM_FS_NODE_BYTES;
    disk->used += node->charged;
    *ret_node = node;
    return ERR_OK;
}

void node_ref(struct sim_node *node)
{
    node->refs++;
}

static void entry_free(struct sim_fs *disk, struct sim_entry *entry)
{
    if (!entry) return;
    list_remove(&entry->link);
    node_unref(disk, entry->node);
    free(entry);
}

void node_unref(struct sim_fs *disk, struct sim_node *node)
{
    if (!node) return;
    assert(node->refs > 0);
    if (--node->refs > 0) return;
    /* A directory whose creation a power cut has undone may have entries. */
    LIST_EACH_SAFE(&node->entries, link, following)
    {
        entry_free(disk, CONTAINER_OF(link, struct sim_entry, link));
    }
    list_remove(&node->link);
    data_deinit(disk, node);
    free(node);
}

static struct sim_entry *entry_open(struct str name, struct sim_node *node)
{
    struct sim_entry *entry = malloc(sizeof *entry + name.len + 1);
    if (!entry) return NULL;
    list_init(&entry->link);
    entry->node = node;
    entry->name_len = name.len;
    memcpy(entry->name, name.at, name.len);
    entry->name[name.len] = '\0';
    return entry;
}

struct sim_entry *dir_find(const struct sim_node *dir, struct str name)
{
    LIST_EACH(&dir->entries, link)
    {
        struct sim_entry *entry = CONTAINER_OF(link, struct sim_entry, link);
        if (str_equal(str_of(entry->name, entry->name_len), name)) return entry;
    }
    return NULL;
}

/* -- paths -- */

struct sim_node *place_dir(const struct sim_path *place)
{
    return place->above[place->above_count - 1];
}

bool place_is_below(const struct sim_path *place, const struct sim_node *node)
{
    for (size_t i = 0; i < place->above_count; i++)
        if (place->above[i] == node) return true;
    return false;
}

bool place_is_misnamed(const struct sim_path *place)
{
    return place->as_dir && place->node && place->node->kind != FS_DIRECTORY;
}

enum err place_follow(struct sim_path *place)
{
    if (!place->node || place->node->kind != FS_OTHER) return ERR_OK;
    place->entry = dir_find(place_dir(place), str_of(place->node->live.at, place->node->live.len));
    place->node = place->entry ? place->entry->node : NULL;
    return place->node && place->node->kind == FS_OTHER ? ERR_INVALID : ERR_OK;
}

enum err names_find(struct sim_fs *disk, const char *path, struct sim_path *ret_place)
{
    struct str rest = str_from(path), part;
    struct sim_path place = {.above = {disk->root}, .above_count = 1, .name = STR_EMPTY};
    place.node = disk->root;
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_equal(part, STR("."))) {
            place.as_dir = true;
            continue;
        }
        if (str_equal(part, STR(".."))) return ERR_UNSUPPORTED;
        if (place.name.len > 0) { /* the previous component must be a directory */
            enum err err = place_follow(&place);
            if (err) return err;
            if (!place.node) return ERR_NOT_FOUND;
            if (place.node->kind != FS_DIRECTORY) return ERR_INVALID;
            if (place.above_count > SIM_FS_DEPTH_MAX) return ERR_INVALID;
            place.above[place.above_count++] = place.node;
        }
        if (part.len > FS_NAME_MAX) return ERR_INVALID;
        place.as_dir = false;
        place.name = part;
        place.entry = dir_find(place_dir(&place), part);
        place.node = place.entry ? place.entry->node : NULL;
    }
    *ret_place = place;
    return ERR_OK;
}

/* -- the journal -- */

static struct name_op *op_of(struct list *link)
{
    return CONTAINER_OF(link, struct name_op, link);
}

static void op_free(struct sim_fs *disk, struct name_op *own_op)
{
    list_remove(&own_op->link);
    disk->names_pending--;
    node_unref(disk, own_op->from);
    node_unref(disk, own_op->to);
    free(own_op);
}

static void op_commit(struct sim_fs *disk, struct name_op *own_op)
{
    entry_free(disk, own_op->gone);
    entry_free(disk, own_op->replaced);
    op_free(disk, own_op);
}

static void op_undo(struct sim_fs *disk, struct name_op *own_op)
{
    entry_free(disk, own_op->made);
    if (own_op->replaced) list_append(&own_op->to->entries, &own_op->replaced->link);
    if (own_op->gone) list_append(&own_op->from->entries, &own_op->gone->link);
    op_free(disk, own_op);
}

static bool touches(const struct name_op *op, const struct sim_node *dir)
{
    return op->from == dir || op->to == dir;
}

static bool names_equal(const struct sim_node *dir_a, const struct sim_entry *a,
                        const struct sim_node *dir_b, const struct sim_entry *b)
{
    return a && b && dir_a == dir_b && a->name_len == b->name_len &&
           memcmp(a->name, b->name, a->name_len) == 0;
}

static bool shares_name(const struct name_op *x, const struct name_op *y)
{
    return names_equal(x->from, x->gone, y->from, y->gone) ||
           names_equal(x->from, x->gone, y->to, y->made) ||
           names_equal(x->to, x->made, y->from, y->gone) ||
           names_equal(x->to, x->made, y->to, y->made);
}

static bool takes_dir(const struct sim_entry *entry)
{
    return entry && entry->node->kind == FS_DIRECTORY;
}

static bool moves_dir(const struct name_op *op)
{
    return op->gone && op->made && takes_dir(op->made);
}

/* True if `later` cannot be on disk without `earlier`:
 *   - both have the same name, or
 *   - `later` removes a directory that `earlier` emptied, or
 *   - both move directories, which could form a cycle if reordered. */
static bool depends_on(const struct name_op *later, const struct name_op *earlier)
{
    if (shares_name(later, earlier)) return true;
    if (!later->made && takes_dir(later->gone) && touches(earlier, later->gone->node)) return true;
    if (takes_dir(later->replaced) && touches(earlier, later->replaced->node)) return true;
    return moves_dir(later) && moves_dir(earlier);
}

static void journal_add(struct sim_fs *disk, struct name_op *own_op)
{
    list_init(&own_op->link);
    if (own_op->from) node_ref(own_op->from);
    if (own_op->to) node_ref(own_op->to);
    list_append(&disk->journal, &own_op->link);
    disk->names_pending++;
    int64_t now = disk_now_ns(disk);
    if (own_op->from) own_op->from->modified_ns = now;
    if (own_op->to) own_op->to->modified_ns = now;
    if (disk->names_pending > SIM_FS_NAMES_PENDING_MAX) op_commit(disk, op_of(disk->journal.next));
}

/* -- changes -- */

enum err names_create(struct sim_fs *disk, struct sim_node *dir, struct str name, enum fs_kind kind,
                      uint32_t mode, struct sim_node **ret_node)
{
    struct sim_node *node = NULL;
    struct name_op *op = calloc(1, sizeof *op);
    enum err err = op ? node_open(disk, kind, mode, &node) : ERR_NOMEM;
    struct sim_entry *entry = err ? NULL : entry_open(name, node);
    if (!err && !entry) err = ERR_NOMEM;
    if (err) {
        node_unref(disk, node);
        free(op);
        return err;
    }
    list_append(&dir->entries, &entry->link);
    op->to = dir;
    op->made = entry;
    journal_add(disk, op);
    if (ret_node) *ret_node = node;
    return ERR_OK;
}

enum err names_remove(struct sim_fs *disk, struct sim_node *dir, struct sim_entry *entry)
{
    struct name_op *op = calloc(1, sizeof *op);
    if (!op) return ERR_NOMEM;
    list_remove(&entry->link);
    op->from = dir;
    op->gone = entry;
    journal_add(disk, op);
    return ERR_OK;
}

enum err names_rename(struct sim_fs *disk, struct sim_node *from, struct sim_entry *entry,
                      struct sim_node *to, struct str name, struct sim_entry *replaced)
{
    struct name_op *op = calloc(1, sizeof *op);
    struct sim_entry *made = op ? entry_open(name, entry->node) : NULL;
    if (!made) {
        free(op);
        return ERR_NOMEM;
    }
    node_ref(made->node);
    list_remove(&entry->link);
    if (replaced) list_remove(&replaced->link);
    list_append(&to->entries, &made->link);
    op->from = from;
    op->gone = entry;
    op->to = to;
    op->made = made;
    op->replaced = replaced;
    journal_add(disk, op);
    return ERR_OK;
}

/* -- sync -- */

/* Without reorder_names: syncs all changes up to the last change in `dir`. */
static void sync_in_order(struct sim_fs *disk, const struct sim_node *dir)
{
    struct list *last = &disk->journal;
    LIST_EACH(&disk->journal, link)
    if (touches(op_of(link), dir)) last = link;
    if (last == &disk->journal) return;
    for (struct list *link = NULL; link != last;) {
        link = disk->journal.next;
        op_commit(disk, op_of(link));
    }
}

static bool wanted_by_later(const struct sim_fs *disk, const struct name_op *op)
{
    for (const struct list *link = op->link.next; link != &disk->journal; link = link->next) {
        const struct name_op *later = CONTAINER_OF(link, struct name_op, link);
        if (later->wanted && depends_on(later, op)) return true;
    }
    return false;
}

/* With reorder_names: syncs only the changes in `dir` and the changes that they depend on. */
static void sync_alone(struct sim_fs *disk, const struct sim_node *dir)
{
    for (struct list *link = disk->journal.prev; link != &disk->journal; link = link->prev) {
        struct name_op *op = op_of(link);
        op->wanted = touches(op, dir) || wanted_by_later(disk, op);
    }
    LIST_EACH_SAFE(&disk->journal, link, following)
    if (op_of(link)->wanted) op_commit(disk, op_of(link));
}

void names_sync_dir(struct sim_fs *disk, struct sim_node *dir)
{
    if (disk->options.reorder_names)
        sync_alone(disk, dir);
    else
        sync_in_order(disk, dir);
}

void names_sync_all(struct sim_fs *disk)
{
    while (!list_empty(&disk->journal)) op_commit(disk, op_of(disk->journal.next));
}

/* -- power cut -- */

static bool builds_on_lost(const struct sim_fs *disk, const struct name_op *op)
{
    for (const struct list *link = disk->journal.next; link != &op->link; link = link->next) {
        const struct name_op *earlier = CONTAINER_OF(link, struct name_op, link);
        if (earlier->lost && depends_on(op, earlier)) return true;
    }
    return false;
}

void names_crash(struct sim_fs *disk)
{
    bool ended = false;
    LIST_EACH(&disk->journal, link)
    {
        struct name_op *op = op_of(link);
        bool lost = prng_chance(&disk->prng, disk->options.name_lost_per_million);
        if (disk->options.reorder_names)
            op->lost = lost || builds_on_lost(disk, op);
        else
            op->lost = ended = ended || lost;
        disk->stats.names_lost += op->lost;
    }
    for (struct list *link = disk->journal.prev, *before; link != &disk->journal; link = before) {
        before = link->prev;
        if (op_of(link)->lost) op_undo(disk, op_of(link));
    }
    names_sync_all(disk);
}
