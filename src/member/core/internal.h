/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of membership, and the tasks of each file. Inside member/core only.
 *
 *   member.c     open, close, apply          workers.c   registry of workers
 *   events.c     events not emitted yet      work.c      work items
 *   partitions.c owners of partitions        restore.c   reads a snapshot
 *   rows.c       writes and hashes rows      command.c   commands as bytes
 *   read.c       queries                     local.c, rounds.c  the leader's own state
 *
 * Every change of a row begins with row_edit(), which removes the row from the state's hash and
 * saves its old content for an open view. When the command ends, all edited rows are added to the
 * hash again. */
#ifndef MEMBER_CORE_INTERNAL_H
#define MEMBER_CORE_INTERNAL_H
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/order.h"
#include "member/core/member.h"
#include "member/core/ring.h"
#include "section/section.h"

#define MEMBER_NS_PER_MS    1000000ull
#define MEMBER_FENCE_MAX_NS (86400000ull * MEMBER_NS_PER_MS)
enum { MEMBER_ADVISE_MAX_MS = 3600000, MEMBER_FORMAT = 1 };

enum row_kind { ROW_WORKER, ROW_PARTITION, ROW_ITEM, ROW_EVENT, ROW_KINDS };
/* the first byte of each record of a snapshot; rows.c defines the order */
enum member_record {
    RECORD_HEAD = 'H',
    RECORD_WORKER = 'W',
    RECORD_PARTITION = 'P',
    RECORD_ITEM = 'I',
    RECORD_EVENT = 'E',
    RECORD_HASH = 'Z', /* hash of the whole state */
};
struct member_row {
    struct section_row section; /* section.kind is an enum row_kind */
    struct list edited;         /* in membership.edited while a command is applied */
    bool is_edited;
};

struct local_worker;
struct worker {
    struct member_row row;
    enum member_standing standing;
    enum member_removal removal;
    enum member_cause cause;
    bool capable, ready, draining, drain_said, on_ring, failed_reported;
    uint64_t incarnation;
    struct member_instance instance;
    uint32_t lease_ms, weight, ring_weight; /* ring_weight 0: the worker is not on the ring */
    int64_t registered_ms, ended_ms;
    uint64_t ended_ns; /* clock T when the worker became dead or removed */
    uint32_t flips;    /* restarts since flips_ns */
    uint64_t flips_ns;
    char *labels; /* NULL: none */
    uint32_t labels_len;
    /* derived from other rows */
    struct heap_node due;   /* when the retention of a dead worker or tombstone ends */
    struct list partitions; /* OWNED and REVOKING partitions of this incarnation */
    uint32_t partition_count, fencing_count; /* fencing_count: partitions of earlier incarnations */
    struct order running;                    /* RUNNING items, ordered by id */
    struct list busy, ring_changed;
    uint64_t suspected_at; /* number of the command that marked the worker as suspected */
    /* Only on the leader. */
    struct list touched;
    struct local_worker *local;
    uint32_t id_len;
    char id[];
};

struct partition {
    struct member_row row;
    uint32_t number;
    enum member_partition_state state;
    uint32_t timeouts; /* REVOKING: number of deadlines that have passed */
    struct worker *owner;
    uint64_t owner_incarnation, grant_epoch;
    uint64_t since_ns, deadline_ns; /* times of T */
    char *checkpoint;               /* NULL: none */
    uint32_t checkpoint_len;
    uint64_t checkpoint_epoch;
    int64_t checkpoint_ms;
    /* derived from other rows */
    struct worker *target;
    struct heap_node due;
    struct list held;
};

struct item {
    struct member_row row;
    struct member_digest id;
    uint8_t place_key[8]; /* `place` in big endian; orders `pending` */
    enum member_item_state state;
    uint64_t place;
    struct worker *worker; /* RUNNING */
    uint64_t incarnation;
    bool started;
    uint32_t attempts;
    int64_t enqueued_ms, changed_ms;
    char *payload, *result;
    uint32_t payload_len, result_len;
};

struct event_row {
    struct member_row row;
    struct member_event event; /* its texts are in `text` */
    char text[];
};

struct assigned {
    size_t op;
    struct item *item;
};

/* State that is neither a row nor derived from rows. */
struct member_head {
    struct member_rules rules;
    bool configured, led, dirty;
    uint8_t dirty_cause;
    uint64_t dirty_ns; /* clock T when the eligible workers first differed from the ring */
    uint64_t coord_epoch, term, assignment_epoch, round;
    uint64_t advised_ms, advised_before_ms, advised_before_until_ns;
    uint64_t event_number, emitted, places;
    uint32_t leader_len;
    char leader[MEMBER_ID_MAX];
};

/* `worker`: ACTIVE worker of an operation on one incarnation, else NULL */
typedef struct member_result member_op_fn(struct membership *m, const struct member_op *op,
                                          struct worker *worker);

struct member_local;
struct membership {
    struct member_options options;
    struct member_head head;
    uint64_t clock_ns, bytes, hash, work;
    /* Of the command being applied. */
    uint64_t index, command;
    int64_t wall_ms;
    uint32_t event_n;
    size_t op_number;
    bool place_now, unsettled, all_suspected;
    struct list edited;
    struct assigned *assigned;
    size_t assigned_count, assigned_cap;

    struct order workers, items, pending; /* by id, by id, and by place */
    struct map by_id;                     /* the same workers, to find a heartbeat's worker */
    struct order_kind worker_kind, item_kind, pending_kind;
    uint64_t order_bytes;         /* bytes of trees; not in the quota */
    struct partition *partitions; /* total_partitions elements, once configured */
    struct heap dues, ends;    /* partitions by deadline; workers by the end of their retention */
    struct event_row **events; /* events `emitted` + 1 to event_number, without a gap */
    size_t events_first, events_cap;
    struct list busy, ring_changed;
    struct ring *ring;
    uint32_t of_standing[4], draining, of_partition[4];
    uint64_t of_item[5], event_count;
    struct section section; /* state of an open snapshot */
    struct buf scratch;
    /* Only on the leader. */
    struct member_local *local;
    struct list touched;
};

/* -- allocations: apply ends the process if one fails -- */
void *member_must(void *memory);
/* Replaces *held (a row's own text, or NULL) with a copy of `text`, and counts the bytes. */
void member_text(struct membership *m, char **held, uint32_t *held_len, struct str text);
/* Removes the due nodes from the heap and sorts them with `compare`, which gets pointers to nodes.
 * The order then does not depend on the heap's history. The caller frees *ret_due. */
size_t member_take_due(struct membership *m, struct heap *heap,
                       int (*compare)(const void *a, const void *b), struct heap_node ***ret_due);

/* -- command.c -- */
bool member_is_id(struct str id);
void member_rules_write(struct encoder *out, const struct member_rules *rules);
/* false: a rule is out of bounds */
bool member_rules_read(struct decoder *in, struct member_rules *ret_rules);

/* -- rows.c -- */
void row_born(struct membership *m, struct member_row *row, enum row_kind kind);
void row_edit(struct membership *m, struct member_row *row);
void row_gone(struct membership *m, struct member_row *row);
void rows_settle(struct membership *m); /* at the end of a command */
/* Writes a snapshot record. */
void row_record(const struct section_row *section, struct encoder *out);
/* record types in snapshot order; record type of each row kind */
extern const char member_records[], member_kinds[];
bool member_head_read(struct decoder *in, struct member_head *ret_head);
/* The fields after the worker's id. Returns the labels. */
struct str worker_read(struct decoder *in, struct worker *worker);
void partition_read(struct decoder *in, struct partition *partition, struct str *ret_owner,
                    struct str *ret_reference);
void item_read(struct decoder *in, struct item *item, struct str *ret_owner, struct str *ret_result,
               struct str *ret_payload);
void event_read(struct decoder *in, struct member_event *event);

/* -- member.c -- */
bool member_has_room(const struct membership *m, uint64_t bytes);
struct member_event *member_event_begin(const struct membership *m, enum member_topic topic,
                                        const struct worker *worker,
                                        struct member_event *ret_event);
void member_event_add(struct membership *m, const struct member_event *event);
static inline struct str worker_id(const struct worker *worker)
{
    return str_of(worker->id, worker->id_len);
}
void member_touch(struct membership *m, struct worker *worker);
static inline struct member_result answer(enum member_status status, const struct worker *worker)
{
    return (struct member_result){.status = status,
                                  .incarnation = worker ? worker->incarnation : 0};
}
static inline bool instance_known(const struct member_instance *instance)
{
    static const struct member_instance none;

    return memcmp(instance, &none, sizeof none) != 0;
}
static inline bool instance_same(const struct member_instance *a, const struct member_instance *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* -- events.c -- */
/* False: the number is out of range. */
bool member_event_put(struct membership *m, const struct member_event *event);
void member_events_drop(struct membership *m, uint64_t through);

/* -- workers.c -- */
enum { WORKER_COST = 512, PARTITION_COST = 192, ITEM_COST = 256, EVENT_COST = 256 };
struct worker *worker_find(const struct membership *m, struct str id);
struct worker *worker_new(struct membership *m, struct str id);
/* True if the worker may own partitions, and so belongs on the ring. */
bool worker_eligible(const struct membership *m, const struct worker *worker);
void worker_end_set(struct membership *m, struct worker *worker);
void workers_expire(struct membership *m);
member_op_fn worker_register, worker_ready, worker_drain, worker_dead, worker_leave;

/* -- partitions.c -- */
enum ring_cause {
    RING_JOIN = 1,
    RING_LEAVE,
    RING_DRAIN,
    RING_RESUME,
    RING_DEATH,
    RING_RESTART,
    RING_WEIGHT,
    RING_CONFIG,
    RING_SEVERAL
};
struct eligibility {
    bool was;
    uint64_t incarnation;
    uint32_t weight;
};
struct eligibility eligibility_of(const struct membership *m, const struct worker *worker);
void eligibility_changed(struct membership *m, struct worker *worker, struct eligibility before,
                         enum ring_cause cause);
member_op_fn partitions_configure, partition_ack, partition_checkpoint;
enum err partitions_make(struct membership *m, uint32_t total);
void partitions_free(struct membership *m);
/* The worker's partitions become free after `fence_ns`; 0: immediately. */
void partitions_let_go(struct membership *m, struct worker *worker, uint64_t fence_ns);
void partitions_expire(struct membership *m);
void partitions_place(struct membership *m); /* rebuilds the ring from the eligible workers */
enum err partitions_target(struct membership *m, uint32_t *ret_moved);
void partitions_settle(struct membership *m);
/* end of the rebalance window; UINT64_MAX: no window is open */
uint64_t partitions_window_ns(const struct membership *m);
void partition_hold(struct partition *partition); /* adds the partition to its owner's list */
void partition_due(struct membership *m, struct partition *partition);

/* -- work.c -- */
struct item *item_find(const struct membership *m, const struct member_digest *id);
struct item *item_new(struct membership *m, const struct member_digest *id);
void item_file(struct membership *m, struct item *item);
/* work_item: WORK_START, SUBMIT and RELEASE */
member_op_fn work_enqueue, work_pull, work_item, work_steal;
/* Call when the worker's incarnation is over. The worker's running items return to the queue. */
void work_let_go(struct membership *m, struct worker *worker, bool died);

/* -- local.c -- */
/* Call before the worker's row is freed. NULL is allowed. */
void local_forget(struct local_worker *local);
#endif
