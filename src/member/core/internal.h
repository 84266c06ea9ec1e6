/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of membership, and who owns what among the files. Inside member/core only.
 *
 *   member.c     life, apply                  workers.c   the registry
 *   events.c     what was not emitted yet
 *   partitions.c who owns what                work.c      items
 *   rows.c       rows written and hashed         restore.c    a snapshot read
 *   read.c       for those who look           command.c   commands as bytes
 *   local.c, rounds.c  the leader's half
 *
 * A row that is about to change is announced (row_edit): it leaves the state's hash, and a view
 * that has not written it yet keeps it as it was. When the command ends all edited rows go into the
 * hash again. So no path can forget its half of a pair. */
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
/* Records of a snapshot, by the byte in front of each; rows.c has their order. */
enum member_record {
    RECORD_HEAD = 'H',
    RECORD_WORKER = 'W',
    RECORD_PARTITION = 'P',
    RECORD_ITEM = 'I',
    RECORD_EVENT = 'E',
    RECORD_HASH = 'Z', /* of the whole */
};
struct member_row {
    struct section_row section; /* of a snapshot; kind: enum row_kind */
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
    uint32_t lease_ms, weight, ring_weight; /* ring_weight: it was placed with; 0: it is not */
    int64_t registered_ms, ended_ms;
    uint64_t ended_ns; /* T */
    uint32_t flips;    /* restarts since flips_ns */
    uint64_t flips_ns;
    char *labels; /* NULL: none */
    uint32_t labels_len;
    /* from here on: follows from other rows */
    struct heap_node due;                    /* end of its retention */
    struct list partitions;                  /* OWNED, REVOKING: of this incarnation */
    uint32_t partition_count, fencing_count; /* fencing: of earlier ones */
    struct order running;                    /* items, by id */
    struct list busy, ring_changed;
    uint64_t suspected_at; /* number of the command that says so */
    /* the leader's own */
    struct list touched;
    struct local_worker *local;
    uint32_t id_len;
    char id[];
};

struct partition {
    struct member_row row;
    uint32_t number;
    enum member_partition_state state;
    uint32_t timeouts; /* REVOKING: deadlines that passed */
    struct worker *owner;
    uint64_t owner_incarnation, grant_epoch;
    uint64_t since_ns, deadline_ns; /* T */
    char *checkpoint;               /* NULL: none */
    uint32_t checkpoint_len;
    uint64_t checkpoint_epoch;
    int64_t checkpoint_ms;
    /* from here on: follows from other rows */
    struct worker *target;
    struct heap_node due;
    struct list held;
};

struct item {
    struct member_row row;
    struct member_digest id;
    uint8_t place_key[8]; /* big endian: rows of `pending` are ordered by it */
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
    struct member_event event; /* its texts are behind it */
    char text[];
};

struct assigned {
    size_t op;
    struct item *item;
};

/* What is neither a row nor follows from rows. */
struct member_head {
    struct member_rules rules;
    bool configured, led, dirty;
    uint8_t dirty_cause;
    uint64_t dirty_ns; /* T when the eligible set first differed from the ring */
    uint64_t coord_epoch, term, assignment_epoch, round;
    uint64_t advised_ms, advised_before_ms, advised_before_until_ns;
    uint64_t event_number, emitted, places;
    uint32_t leader_len;
    char leader[MEMBER_ID_MAX];
};

/* An operation. `worker`: of an operation of one incarnation the worker, which is ACTIVE in it; else
 * NULL. */
typedef struct member_result member_op_fn(struct membership *m, const struct member_op *op,
                                          struct worker *worker);

struct member_local;
struct membership {
    struct member_options options;
    struct member_head head;
    uint64_t clock_ns, bytes, hash, work;
    /* of the command being applied */
    uint64_t index, command;
    int64_t wall_ms;
    uint32_t event_n;
    size_t op_number;
    bool place_now, unsettled, all_suspected;
    struct list edited;
    struct assigned *assigned;
    size_t assigned_count, assigned_cap;

    struct order workers, items, pending; /* by id, by id, by place */
    struct map by_id;                     /* the workers again: a beat is looked up, never walked */
    struct order_kind worker_kind, item_kind, pending_kind;
    uint64_t order_bytes;         /* shaped by history, so no part of the quota */
    struct partition *partitions; /* total_partitions of them, once configured */
    struct heap dues, ends;       /* partitions, workers */
    struct event_row **events;    /* numbers emitted + 1 to event_number, without a gap */
    size_t events_first, events_cap;
    struct list busy, ring_changed;
    struct ring *ring;
    uint32_t of_standing[4], draining, of_partition[4];
    uint64_t of_item[5], event_count;
    struct section section; /* of a snapshot */
    struct buf scratch;
    /* the leader's own */
    struct member_local *local;
    struct list touched;
};

/* -- memory that apply may not do without -- */
void *member_must(void *memory);
/* Puts a copy of `text` in the place of a text that a row owns (NULL: none), and counts its bytes. */
void member_text(struct membership *m, char **held, uint32_t *held_len, struct str text);
/* Takes what is due by now out of the heap, in the order of `compare`, which gets pointers to heap
 * nodes: a function of the rows, not of the heap's history. free() the list. */
size_t member_take_due(struct membership *m, struct heap *heap,
                       int (*compare)(const void *a, const void *b), struct heap_node ***ret_due);

/* -- command.c -- */
bool member_is_id(struct str id);
void member_rules_write(struct encoder *out, const struct member_rules *rules);
/* False: out of bounds. */
bool member_rules_read(struct decoder *in, struct member_rules *ret_rules);

/* -- rows.c -- */
void row_born(struct membership *m, struct member_row *row, enum row_kind kind);
void row_edit(struct membership *m, struct member_row *row);
void row_gone(struct membership *m, struct member_row *row);
void rows_settle(struct membership *m);                                  /* the command is over */
void row_record(const struct section_row *section, struct encoder *out); /* of a snapshot */
extern const char member_records[], member_kinds[]; /* of all records in order; by kind of row */
bool member_head_read(struct decoder *in, struct member_head *ret_head);
struct str worker_read(struct decoder *in, struct worker *worker); /* behind its id; its labels */
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
/* Puts it where its number says; false: it cannot be there. */
bool member_event_put(struct membership *m, const struct member_event *event);
void member_events_drop(struct membership *m, uint64_t through);

/* -- workers.c -- */
enum { WORKER_COST = 512, PARTITION_COST = 192, ITEM_COST = 256, EVENT_COST = 256 };
struct worker *worker_find(const struct membership *m, struct str id);
struct worker *worker_new(struct membership *m, struct str id);
/* May own partitions, and therefore belongs on the ring. */
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
struct eligibility { /* before an operation, for comparison after it */
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
/* The worker's incarnation holds nothing any more: free at once, or when `fence_ns` are over. */
void partitions_let_go(struct membership *m, struct worker *worker, uint64_t fence_ns);
void partitions_expire(struct membership *m);
void partitions_place(struct membership *m); /* the ring is that of the eligible from now on */
enum err partitions_target(struct membership *m, uint32_t *ret_moved);
void partitions_settle(struct membership *m);              /* moves what may move */
uint64_t partitions_window_ns(const struct membership *m); /* when it closes; UINT64_MAX: none */
void partition_hold(struct partition *partition);          /* into its owner's list */
void partition_due(struct membership *m, struct partition *partition);

/* -- work.c -- */
struct item *item_find(const struct membership *m, const struct member_digest *id);
struct item *item_new(struct membership *m, const struct member_digest *id);
void item_file(struct membership *m, struct item *item); /* by its state */
/* work_item: WORK_START, SUBMIT, RELEASE. */
member_op_fn work_enqueue, work_pull, work_item, work_steal;
/* The worker's incarnation is over: what it ran waits again. */
void work_let_go(struct membership *m, struct worker *worker, bool died);

/* -- local.c -- */
void local_forget(struct local_worker *local); /* its row goes; NULL is fine */
#endif
