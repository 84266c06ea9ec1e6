/* SPDX-License-Identifier: Apache-2.0 */
#include "member/ledger/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define MAGIC   0xBEEFC0DEu
#define NO_PAGE UINT64_MAX
enum {
    VERSION = 1,
    PAGE_HEAD = 16,
    NODE_HEAD = 8,
    TABLE_SIZE = 48,
    META_SIZE = 136,
    PAGE_LEAST = 512,
    PAGE_MOST = 65536,
    DEPTH_MAX = 32, /* of LMDB's cursors */
    LEVELS = 2,     /* the main table, and those in it */
    FIRST_PAGE = 2, /* behind the two metas */
    PAGES_MAX = 1 << 28,
};
enum { P_BRANCH = 1, P_LEAF = 2, P_OVERFLOW = 4, P_META = 8 };
enum { F_BIG = 1, F_TABLE = 2 };
enum { T_INTEGER_KEY = 8, T_KIND = 0x0FFF }; /* above: how the file was opened */

struct table {
    uint16_t flags, depth;
    uint64_t root;
};
struct meta {
    uint64_t last_page, transaction;
    struct table free, main;
};
struct checker {
    struct fs *fs;
    struct fs_file *file;
    uint64_t size, last_page;
    size_t page_size;
    uint8_t *seen;                            /* a bit per page */
    uint8_t *buffers[LEVELS * DEPTH_MAX + 1]; /* a page for each level of the walk */
    struct note *note;
};

/* The format is the machine's own. */
static uint16_t u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static uint64_t u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static enum err damaged(const struct checker *c, uint64_t page, const char *what)
{
    note_set(c->note, "page %" PRIu64 ": %s", page, what);
    return ERR_CORRUPT;
}

/* -- pages -- */

static enum err use_page(struct checker *c, uint64_t page)
{
    if (page < FIRST_PAGE || page > c->last_page) return damaged(c, page, "there is no such page");
    if (c->seen[page / 8] & (1u << page % 8)) return damaged(c, page, "is used twice");
    c->seen[page / 8] |= (uint8_t)(1u << page % 8);
    return ERR_OK;
}

static enum err read_bytes(struct checker *c, uint64_t page, uint8_t *into, size_t len)
{
    size_t got = 0;
    enum err err = fs_read_at(c->fs, c->file, page * c->page_size, into, len, &got);

    if (err) {
        note_set(c->note, "page %" PRIu64 ": %s", page, err_text(err));
        return err;
    }
    return got == len ? ERR_OK : damaged(c, page, "is behind the end of the file");
}

static enum err read_page(struct checker *c, uint64_t page, size_t level, uint8_t **ret_bytes)
{
    enum err err = use_page(c, page);

    if (err) return err;
    if (!c->buffers[level]) c->buffers[level] = malloc(c->page_size);
    if (!c->buffers[level]) return ERR_NOMEM;
    err = read_bytes(c, page, c->buffers[level], c->page_size);
    if (!err && u64(c->buffers[level]) != page) err = damaged(c, page, "has another number");
    if (!err) *ret_bytes = c->buffers[level];
    return err;
}

/* The pages of a value that is too large for a leaf; LMDB maps them in one piece. */
static enum err check_overflow(struct checker *c, uint64_t page, uint64_t len)
{
    uint8_t head[PAGE_HEAD];
    uint64_t count;
    enum err err;

    if (page < FIRST_PAGE || page > c->last_page) return damaged(c, page, "there is no such page");
    err = read_bytes(c, page, head, sizeof head);
    if (err) return err;
    count = u32(head + 12);
    if (u64(head) != page || u16(head + 10) != P_OVERFLOW)
        return damaged(c, page, "is no overflow page");
    if (count == 0 || count > c->last_page || count * c->page_size < PAGE_HEAD + len ||
        page * c->page_size + PAGE_HEAD + len > c->size)
        return damaged(c, page, "has no room for its value");
    for (uint64_t i = 0; i < count && !err; i++) err = use_page(c, page + i);
    return err;
}

/* -- tables -- */

static struct table read_table(const uint8_t *at)
{
    return (struct table){.flags = u16(at + 4), .depth = u16(at + 6), .root = u64(at + 40)};
}

/* A list of free pages: how many, then their numbers, falling. */
static enum err check_free(struct checker *c, uint64_t page, const uint8_t *data, uint64_t len)
{
    uint64_t count, before = UINT64_MAX;

    if (len < 8 || len % 8) return damaged(c, page, "holds a list of free pages that is none");
    count = u64(data);
    if (count != len / 8 - 1) return damaged(c, page, "holds a list of free pages that is cut");
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t freed = u64(data + 8 * i);
        enum err err = freed < before ? use_page(c, freed) : ERR_CORRUPT;
        if (err) return damaged(c, page, "calls a page free that is not");
        before = freed;
    }
    return ERR_OK;
}

/* What a walk is in. */
struct place {
    size_t level;   /* of the buffers */
    uint16_t depth; /* of the table, at its root */
    bool is_free;   /* the table of free pages */
    bool may_nest;  /* the main table */
};
static enum err walk(struct checker *c, uint64_t page, uint16_t left, const struct place *place);

static enum err walk_table(struct checker *c, const struct table *table, struct place place)
{
    if ((table->flags & T_KIND) != (place.is_free ? T_INTEGER_KEY : 0))
        return damaged(c, table->root, "is the root of a table of an unknown kind");
    if (table->root == NO_PAGE) return ERR_OK;
    if (table->depth == 0 || table->depth > DEPTH_MAX)
        return damaged(c, table->root, "is the root of a table that is too deep");
    place.depth = table->depth;
    return walk(c, table->root, table->depth, &place);
}

/* Large lists of free pages stand on overflow pages. */
static enum err check_big_free(struct checker *c, uint64_t page, uint64_t first, uint64_t len)
{
    uint8_t *data = malloc(len);
    size_t got = 0;
    enum err err;

    if (!data) return ERR_NOMEM;
    err = fs_read_at(c->fs, c->file, first * c->page_size + PAGE_HEAD, data, len, &got);
    if (!err) err = got == len ? check_free(c, page, data, len) : damaged(c, page, "is cut");
    free(data);
    return err;
}

static enum err check_leaf_node(struct checker *c, uint64_t page, const uint8_t *node,
                                const struct place *place)
{
    uint64_t len = u16(node) | (uint64_t)u16(node + 2) << 16;
    uint16_t flags = u16(node + 4), key_len = u16(node + 6);
    const uint8_t *data = node + NODE_HEAD + key_len;
    struct table table;
    struct place inner = {.level = place->level + DEPTH_MAX};
    uint64_t first;
    enum err err;

    if (key_len == 0) return damaged(c, page, "has a node without a key");
    if (flags & ~(F_BIG | F_TABLE) || flags == (F_BIG | F_TABLE))
        return damaged(c, page, "has a node of an unknown kind");
    if (flags & F_BIG) {
        memcpy(&first, data, sizeof first);
        err = check_overflow(c, first, len);
        return err || !place->is_free ? err : check_big_free(c, page, first, len);
    }
    if (flags & F_TABLE) {
        if (!place->may_nest || len != TABLE_SIZE)
            return damaged(c, page, "has a table where none can be");
        table = read_table(data);
        return walk_table(c, &table, inner);
    }
    if (!place->is_free) return ERR_OK;
    return key_len == 8 ? check_free(c, page, data, len)
                        : damaged(c, page, "has a free list without a transaction");
}

static uint64_t child_of(const uint8_t *node)
{
    return u16(node) | (uint64_t)u16(node + 2) << 16 | (uint64_t)u16(node + 4) << 32;
}

/* LMDB moves nodes about by their own lengths, so they must fill what the page calls used, without
 * a gap and without standing on each other. */
static enum err check_room(struct checker *c, uint64_t page, const uint8_t *bytes, size_t count,
                           bool leaf)
{
    uint8_t used[PAGE_MOST / 16] = {0}; /* a bit for two bytes */
    size_t upper = u16(bytes + 14), sum = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = u16(bytes + PAGE_HEAD + 2 * i), size;
        const uint8_t *node = bytes + at;

        if (at < upper || at % 2 || at + NODE_HEAD > c->page_size)
            return damaged(c, page, "has a node outside of it");
        size = NODE_HEAD + (size_t)u16(node + 6);
        if (leaf && u16(node + 4) & F_BIG)
            size += 8;
        else if (leaf)
            size += u16(node) | (size_t)u16(node + 2) << 16;
        if (size > c->page_size - at)
            return damaged(c, page, "has a node that reaches over its end");
        size += size % 2;
        for (size_t j = at / 2; j < (at + size) / 2; j++) {
            if (used[j / 8] & (1u << j % 8)) return damaged(c, page, "has nodes in one place");
            used[j / 8] |= (uint8_t)(1u << j % 8);
        }
        sum += size;
    }
    return sum == c->page_size - upper ? ERR_OK : damaged(c, page, "has room that is nobody's");
}

/* `left`: how many levels of the table there are from here down; a leaf is the last. Recursion is
 * bounded by DEPTH_MAX, once more inside the main table. */
static enum err walk(struct checker *c, uint64_t page, uint16_t left, const struct place *place)
{
    size_t level = place->level + (size_t)(place->depth - left), count;
    uint8_t *bytes = NULL;
    uint16_t flags, lower, upper;
    enum err err = read_page(c, page, level, &bytes);

    if (err) return err;
    flags = u16(bytes + 10);
    lower = u16(bytes + 12);
    upper = u16(bytes + 14);
    if (flags != (left > 1 ? P_BRANCH : P_LEAF)) return damaged(c, page, "is of another kind");
    if (lower < PAGE_HEAD || lower % 2 || lower > upper || upper > c->page_size)
        return damaged(c, page, "has bounds that are none");
    count = (size_t)(lower - PAGE_HEAD) / 2;
    if (count < (left > 1 ? 2 : 1)) return damaged(c, page, "is too empty");
    err = check_room(c, page, bytes, count, left == 1);
    for (size_t i = 0; i < count && !err; i++) {
        const uint8_t *node = bytes + u16(bytes + PAGE_HEAD + 2 * i);
        err = left > 1 ? walk(c, child_of(node), (uint16_t)(left - 1), place)
                       : check_leaf_node(c, page, node, place);
    }
    return err;
}

/* -- the file -- */

static enum err read_meta(struct checker *c, uint64_t page, struct meta *ret_meta)
{
    uint8_t bytes[PAGE_HEAD + META_SIZE];
    const uint8_t *meta = bytes + PAGE_HEAD;
    enum err err = read_bytes(c, page, bytes, sizeof bytes);

    if (err) return err;
    if (u64(bytes) != page || u16(bytes + 10) != P_META || u32(meta) != MAGIC ||
        u32(meta + 4) != VERSION)
        return damaged(c, page, "is no meta page");
    if (u32(meta + 24) != c->page_size) return damaged(c, page, "has another page size");
    ret_meta->free = read_table(meta + 24);
    ret_meta->main = read_table(meta + 24 + TABLE_SIZE);
    ret_meta->last_page = u64(meta + 120);
    ret_meta->transaction = u64(meta + 128);
    if (ret_meta->last_page < 1 || ret_meta->last_page > PAGES_MAX)
        return damaged(c, page, "tells of pages that cannot be");
    return ERR_OK;
}

/* Whose file it is. Nothing that is not LMDB's is ever called damaged. */
static enum err read_size(struct checker *c, const char *path)
{
    uint8_t bytes[PAGE_HEAD + META_SIZE];
    const uint8_t *meta = bytes + PAGE_HEAD;
    size_t got = 0;
    enum err err = fs_read_at(c->fs, c->file, 0, bytes, sizeof bytes, &got);
    uint32_t size;

    if (err) return err;
    if (got == 0) return ERR_NOT_FOUND;
    if (got < sizeof bytes || u32(meta) != MAGIC || u32(meta + 4) != VERSION) {
        note_set(c->note, "%s is there and is no file of LMDB's; it is not touched", path);
        return ERR_CONFLICT;
    }
    size = u32(meta + 24);
    if (size < PAGE_LEAST || size > PAGE_MOST || (size & (size - 1)))
        return damaged(c, 0, "has a page size that is none");
    c->page_size = size;
    return ERR_OK;
}

static enum err check_pages(struct checker *c)
{
    struct meta metas[2], *newest;
    struct place main_place = {.may_nest = true}, free_place = {.is_free = true};
    enum err err = read_meta(c, 0, &metas[0]);

    if (!err) err = read_meta(c, 1, &metas[1]);
    if (err) return err;
    newest = &metas[metas[0].transaction < metas[1].transaction];
    c->last_page = newest->last_page;
    c->seen = calloc(c->last_page / 8 + 1, 1);
    if (!c->seen) return ERR_NOMEM;
    err = walk_table(c, &newest->main, main_place);
    return err ? err : walk_table(c, &newest->free, free_place);
}

enum err ledger_check(struct fs *fs, const char *path, struct note *note)
{
    struct checker c = {.fs = fs, .note = note};
    enum err err = fs_open(fs, path, FS_READ, 0, &c.file);

    if (err == ERR_NOT_FOUND) return err;
    if (err) {
        note_set(note, "%s: %s", path, err_text(err));
        return err;
    }
    err = fs_file_size(fs, c.file, &c.size);
    if (!err) err = read_size(&c, path);
    if (!err) {
        err = check_pages(&c);
        if (err) note_prefix(note, "%s", path);
    }
    for (size_t i = 0; i < ARRAY_LEN(c.buffers); i++) free(c.buffers[i]);
    free(c.seen);
    fs_close(fs, c.file);
    return err;
}
