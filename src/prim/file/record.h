/* SPDX-License-Identifier: Apache-2.0 */
/* The file formats of a file store: heads, lease records, lock records, epoch and floor
 * (docs/formats/filestore.md). Pure. Little endian, with a CRC-32C of all bytes (its own field
 * counts as zero). Each record has one encoding. */
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
    HEAD_GROUP = 16,
    HEAD_DURABLE = 32,
    HEAD_FLAGS = 63,

    HEAD_HEADER = 160,
    HEAD_MAX = HEAD_HEADER + PRIM_KEY_MAX + PRIM_OWNER_MAX + PRIM_VALUE_LARGE_MAX,
    RECORD_MAX = 128, /* lease record; other small records have 64 bytes */
    GROUP_VALUE = 16,
    FORMAT_CAP = 160,
};
#define REVISION_MAX ((uint64_t)INT64_MAX)

/* Identifies a process, so that other processes can prove it dead. A pid is reused, differs
 * between namespaces, and means nothing after a reboot. */
struct who {
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t pid_namespace;
};

struct head {
    uint32_t flags;
    uint64_t revision, token, create_revision, changes;
    int64_t ttl_ms;
    int64_t deadline_ns; /* the lease's first deadline; tombstone: time of the write */
    coord_id boot_id;    /* boot of the host when deadline_ns was set */
    coord_id lease_id;   /* of the entry; tombstone: the lease that ended */
    uint64_t wall_ms;    /* for people */
    struct who who;
    coord_id request_id;
    uint32_t reason;
    struct str key, owner, value; /* borrowed */
};
size_t head_size(const struct head *head);
void head_encode(const struct head *head, char *out);
/* ERR_CORRUPT: damaged, or no head. The strings point into `bytes`. */
enum err head_decode(struct str bytes, struct head *ret_head);

enum lease_state { LEASE_LIVE = 1, LEASE_RELEASED = 2, LEASE_DEAD = 3 };
struct lease_record {
    coord_id lease_id;
    coord_id boot_id;
    int64_t ttl_ms;
    int64_t deadline_ns; /* when the lease ends or, if dead, ended */
    int64_t granted_ns;
    enum lease_state state;
    struct who who;
    uint64_t renew_count;
    /* raised when an entry of the lease is taken away: the holder reads the heads again */
    uint64_t lost_count;
};

/* The holder of a key lock, for people and lock recovery. Grants nothing. */
struct lock_record {
    struct who who;
    coord_id boot_id;
    int64_t locked_ns;
    uint32_t op;
};

struct epoch_record {
    uint64_t epoch; /* below EPOCH_MAX */
    coord_id boot_id;
    coord_id store_id;
    uint64_t format_inode;  /* inode of FORMAT; another inode: this directory is a copy */
    uint32_t format_change; /* seconds xor nanoseconds of FORMAT's change time */
};
#define EPOCH_MAX   (UINT64_C(1) << 22)
#define EPOCH_SHIFT 40

struct floor_record {
    uint64_t floor;
    coord_id store_id;
};

/* One kind of small record. `record` below points to the kind's struct: one of the four above. */
struct shape;
extern const struct shape lease_shape, lock_shape, epoch_shape, floor_shape;
size_t record_encode(const struct shape *shape, const void *record, char out[RECORD_MAX]);
/* ERR_CORRUPT: damaged or another kind; *ret_record is unchanged. */
enum err record_decode(const struct shape *shape, struct str bytes, void *ret_record);

/* The value of a group record. Every slot ever used is below slots_high. */
struct group_value {
    uint32_t slot_count, slots_high;
    int64_t cooldown_ms;
};
void group_value_encode(const struct group_value *group, char out[GROUP_VALUE]);
enum err group_value_decode(struct str bytes, struct group_value *ret_group);

/* Writes the text of the file FORMAT. Returns its length. */
size_t format_encode(const coord_id *store_id, char out[FORMAT_CAP]);
/* ERR_VERSION: a file store of an unsupported version. */
enum err format_decode(struct str bytes, coord_id *ret_store_id);

/* The files of a store, and the encoding of keys as file names.
 *
 *   FORMAT  meta/{epoch,floor,recover.lk}  s/<lease id>  lost/
 *   b/<bucket>/h/<name>  b/<bucket>/l/<name>  b/<bucket>/l/.bucket  b/<bucket>/t/<temp> */
enum {
    LAYOUT_PLAIN_MAX = 180, /* longer encoded names become a hash */
    LAYOUT_NAME_CAP = LAYOUT_PLAIN_MAX + 1,
    LAYOUT_TEMP_CAP = 80,
};
/* Encodes a bucket or a last key segment as one file name. Bytes outside A-Za-z0-9_- become %XX.
 * The empty bucket is "~". A name over 180 bytes becomes "~" and 40 hex digits of its SHA-256. */
void layout_name(struct str raw, char name[LAYOUT_NAME_CAP]);
bool layout_lease_id(const char *name, coord_id *ret_id); /* false: `name` is no lease id */

/* A temporary file name identifies its process, so that other processes can check whether it is
 * dead. */
struct layout_temp {
    uint8_t boot[4];
    uint32_t pid;
    uint64_t start_ticks, number;
};
void layout_temp(const struct layout_temp *temp, char name[LAYOUT_TEMP_CAP]);
bool layout_temp_parse(const char *name, struct layout_temp *ret_temp);
#endif
