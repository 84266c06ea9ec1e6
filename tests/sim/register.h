/* SPDX-License-Identifier: Apache-2.0 */
/* A small durable register service on struct io alone. It tests the virtual world.
 *
 * Three nodes each keep a few registers, (stamp, value) pairs; they do not know each other. A write
 * is done when a majority stored it. A read asks a majority, takes the highest stamp and stores
 * that with a majority before it answers. Each client writes its own register only, with values 1,
 * 2, 3, ..., and reads all. Invariant: a read never returns a smaller value than one that was
 * acknowledged or read before the read began.
 *
 * Frames on the wire, little-endian:
 *   u32 length of what follows | u8 kind | u64 request | u32 register | u64 stamp | filler |
 *   u64 value | filler
 * The value is in the middle of the filler, so that a torn frame easily loses it. Register and
 * value determine the bytes of the filler, so that damage shows. */
#ifndef TESTS_SIM_REGISTER_H
#define TESTS_SIM_REGISTER_H
#include "base/buf.h"
#include "io/io.h"

enum {
    REGISTER_NODES = 3,
    REGISTER_MAJORITY = 2,
    REGISTERS_MAX = 8,
    REGISTER_FILLER_MAX = 3000,
    REGISTER_FRAME_HEAD = 4,
    REGISTER_BODY_MIN = 1 + 8 + 4 + 8 + 8,
    REGISTER_BODY_MAX = REGISTER_BODY_MIN + REGISTER_FILLER_MAX,
};

/* Planted bugs, one at a time; test_register_bugs.c must find each. */
enum register_bug {
    REGISTER_NO_BUG,
    REGISTER_ACK_BEFORE_SYNC,     /* the node answers when the bytes are written, not synced */
    REGISTER_NO_DIRECTORY_SYNC,   /* the log's content is synced, its name is not */
    REGISTER_TRUST_THE_TAIL,      /* recovery accepts the log's torn end without checksums */
    REGISTER_TRUST_THE_CACHE,     /* recovery assumes that cached data is on the disk */
    REGISTER_ACK_A_PENDING_TWIN,  /* a repeated write is acknowledged while the first one syncs */
    REGISTER_IGNORE_HALF_CLOSE,   /* the node never ends its side */
    REGISTER_NO_WRITE_BACK,       /* the reader does not store the value that it read */
    REGISTER_COUNT_A_NODE_TWICE,  /* the client counts answers, not nodes */
    REGISTER_STAMP_BY_WALL_CLOCK, /* the client orders its writes by the wall clock */
    REGISTER_BUG_COUNT
};
extern const char *const register_bug_names[]; /* from REGISTER_ACK_BEFORE_SYNC on, then NULL */

/* -- frames -- */
enum register_kind {
    REGISTER_READ = 1,
    REGISTER_WRITE,
    REGISTER_VALUE,
    REGISTER_STORED,
    REGISTER_REFUSED
};
struct register_frame {
    enum register_kind kind;
    uint64_t request;
    uint32_t index; /* of the register */
    uint64_t stamp, value;
};
/* Appends a whole frame; kinds with a value get its filler. */
enum err register_frame_put(struct buf *into, const struct register_frame *frame);
/* Reads one frame from the front. ERR_OK with *ret_len 0: incomplete. ERR_PARSE, ERR_CORRUPT
 * (filler). */
enum err register_frame_take(struct str bytes, struct register_frame *ret_frame, size_t *ret_len);

/* -- node -- */
struct register_node;
struct register_node_options {
    const char *listen, *directory;
    enum register_bug bug;
    /* The disk has failed; the node wants to be killed and started again. */
    void (*on_fatal)(void *context);
    /* All memory was freed, after register_node_close; or NULL. */
    void (*on_gone)(void *context);
    void *context;
};
enum err register_node_open(struct io *io, const struct register_node_options *options,
                            struct register_node **ret_node);
void register_node_close(struct register_node *node);
const char *register_node_address(const struct register_node *node); /* borrowed */

/* -- history: outlives the processes, and no node reads it -- */
struct register_history {
    struct {
        uint64_t issued, floor;
    } registers[REGISTERS_MAX];
    uint64_t done[REGISTERS_MAX]; /* operations, by client */
    bool wrong;
    struct note why;
};
void register_history_issue(struct register_history *h, uint32_t index, uint64_t value);
void register_history_written(struct register_history *h, uint32_t index, uint64_t value);
uint64_t register_history_begin_read(const struct register_history *h, uint32_t index);
void register_history_read(struct register_history *h, uint32_t index, uint64_t value,
                           uint64_t floor);
void register_history_damage(struct register_history *h, const char *what);

/* -- client -- */
struct register_client;
struct register_client_options {
    const char *const *nodes; /* REGISTER_NODES addresses; borrowed */
    uint32_t index;           /* its own register */
    uint32_t registers;       /* how many there are */
    enum register_bug bug;
    struct register_history *history;
    void (*on_gone)(void *context);
    void *context;
};
enum err register_client_open(struct io *io, const struct register_client_options *options,
                              struct register_client **ret_client);
void register_client_close(struct register_client *client);
#endif
