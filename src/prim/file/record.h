/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file store: heads, lease records, lock records, epoch and floor.
 *
 * Pure: bytes to structs and back. Layout, byte by byte: docs/formats/filestore.md. Everything is
 * little endian with a CRC-32C of all its bytes (its own field zero), and there is one way to write
 * each record: what decodes encodes to the same bytes. */
#ifndef PRIM_FILE_RECORD_H
#define PRIM_FILE_RECORD_H
#include <muster/coord.h>

#include "base/str.h"
#include "prim/names.h"

enum {
    HEAD_LIVE = 1,
    HEAD_TOMBSTONE = 2,
    HEAD_LEASED = 4,
    HEAD_SLOT = 8,
    HEAD_GROUP = 16, /* the value is a group record */
    HEAD_DURABLE = 32,
    HEAD_FLAGS = 63,

    HEAD_HEADER = 160,
    HEAD_MAX = HEAD_HEADER + PRIM_KEY_MAX + PRIM_OWNER_MAX + PRIM_VALUE_LARGE_MAX,
    RECORD_MAX = 128, /* a lease record; the other small ones have 64 bytes */
    GROUP_VALUE = 16,
    FORMAT_CAP = 160,
};
#define REVISION_MAX ((uint64_t)INT64_MAX)

/* Who a process is, so that another can prove it dead: a pid alone is used again, means something
 * else in another namespace, and nothing after a reboot. */
struct who {
    uint32_t pid;
    uint64_t start_ticks; /* field 22 of its stat record */
    uint64_t pid_namespace;
};

struct head {
    uint32_t flags;
    uint64_t revision, token, create_revision, changes;
    int64_t ttl_ms;
    int64_t deadline_ns; /* the first one; of a tombstone: when it was written */
    coord_id boot_id;    /* of that time */
    coord_id lease_id;   /* of a tombstone: of the lease that ended */
    uint64_t wall_ms;    /* for people */
    struct who who;
    coord_id request_id;
    uint32_t reason;
    struct str key, owner, value; /* borrowed */
};
size_t head_size(const struct head *head);
void head_encode(const struct head *head, char *out); /* head_size() bytes */
/* ERR_CORRUPT: not one of ours, or damaged. The strings point into `bytes`. */
enum err head_decode(struct str bytes, struct head *ret_head);

enum lease_state { LEASE_LIVE = 1, LEASE_RELEASED = 2, LEASE_DEAD = 3 };
struct lease_record {
    coord_id lease_id;
    coord_id boot_id;
    int64_t ttl_ms;
    int64_t deadline_ns; /* of a dead one: when it ended */
    int64_t granted_ns;
    enum lease_state state;
    struct who who;
    uint64_t renew_count;
    uint64_t lost_count; /* changed: somebody took an entry of this lease; read the heads again */
};

/* The holder of a key lock. It grants nothing; it is for people and for the recovery of a lock. */
struct lock_record {
    struct who who;
    coord_id boot_id;
    int64_t locked_ns;
    uint32_t op; /* enum file_op */
};

struct epoch_record {
    uint64_t epoch; /* below EPOCH_MAX */
    coord_id boot_id;
    coord_id store_id;
    uint64_t format_inode;  /* another: this directory is a copy */
    uint32_t format_change; /* seconds xor nanoseconds of its change time */
};
#define EPOCH_MAX   (UINT64_C(1) << 22)
#define EPOCH_SHIFT 40

struct floor_record {
    uint64_t floor;
    coord_id store_id;
};

/* A kind of small record: the four above. `record` is its struct. */
struct shape;
extern const struct shape lease_shape, lock_shape, epoch_shape, floor_shape;
size_t record_encode(const struct shape *shape, const void *record, char out[RECORD_MAX]);
/* ERR_CORRUPT: not of this kind, or damaged; nothing is written then. */
enum err record_decode(const struct shape *shape, struct str bytes, void *ret_record);

/* The value of a group record. `slots_high`: no slot at or above it was ever
 * used. */
struct group_value {
    uint32_t slot_count, slots_high;
    int64_t cooldown_ms;
};
void group_value_encode(const struct group_value *group, char out[GROUP_VALUE]);
enum err group_value_decode(struct str bytes, struct group_value *ret_group);

/* The text file FORMAT. Returns its length. */
size_t format_encode(const coord_id *store_id, char out[FORMAT_CAP]);
/* ERR_VERSION: a musterfs, but not one we read. */
enum err format_decode(struct str bytes, coord_id *ret_store_id);

/* Where the files are below the root of the store, and how keys become file names.
 *
 *   FORMAT  meta/{epoch,floor,recover.lk}  s/<lease id>  lost/
 *   b/<bucket>/h/<name>  b/<bucket>/l/<name>  b/<bucket>/l/.bucket  b/<bucket>/t/<temp> */
enum {
    LAYOUT_PLAIN_MAX = 180, /* longer when encoded: replaced by a hash */
    LAYOUT_NAME_CAP = LAYOUT_PLAIN_MAX + 1,
    LAYOUT_TEMP_CAP = 80,
};
/* A bucket or a last segment as one file name: bytes outside A-Za-z0-9_- become %XX; the empty
 * bucket is "~"; what gets longer than 180 bytes is "~" and 40 hex digits of its SHA-256. */
void layout_name(struct str raw, char name[LAYOUT_NAME_CAP]);
bool layout_lease_id(const char *name, coord_id *ret_id); /* of s/<lease id>; false: none */

/* Temporary files name their process, so that any process can see when they have none. */
struct layout_temp {
    uint8_t boot[4]; /* the first bytes of the boot id */
    uint32_t pid;
    uint64_t start_ticks, number;
};
void layout_temp(const struct layout_temp *temp, char name[LAYOUT_TEMP_CAP]);
bool layout_temp_parse(const char *name, struct layout_temp *ret_temp);
#endif
