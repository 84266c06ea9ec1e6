/* SPDX-License-Identifier: Apache-2.0 */
/* Claims over whatever store you already have: create if absent, compare and set, N-holder slots,
 * leases with fencing tokens, watches. One contract; the store is chosen by URL.
 *
 *   mem:                      this process only
 *   file:///var/lib/x         every process of this host
 *   etcd://h1:2379,h2:2379    an etcd cluster       k8s://namespace   Lease objects of a cluster
 *   nats://h1:4222/bucket     NATS JetStream KV     muster://h1,h2    muster's own coordinators
 *
 * Three things to know before anything else:
 *   - A claim is a lease. It ends unless renewed; coord_keep() renews it and calls you once when it
 *     is lost. coord_check() costs nothing: call it before every side effect.
 *   - No lease can make "I hold it" true at the instant a side effect lands. Send the token along
 *     and let the resource refuse a smaller one (coord_fence_admit).
 *   - A store that cannot enforce a call refuses it with COORD_UNSUPPORTED and changes nothing.
 *     Nothing turns an unenforceable call into a success.
 *
 * Every call has a deadline (5 s unless said otherwise) and returns a coord_result by value. Calls
 * block; each has an asynchronous twin through coord_start(). A store may be used from many
 * threads. After fork() the child's copy is dead: every call answers COORD_INVALID/handle. */
#ifndef MUSTER_COORD_H
#define MUSTER_COORD_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COORD_VERSION_MAJOR 1
#define COORD_VERSION_MINOR 0

/* -- words ------------------------------------------------------------------------------------ */

typedef struct coord_store coord_store; /* one open store */
typedef struct coord_lease coord_lease; /* counted, thread safe; see coord_lease_unref */
typedef struct coord_watch coord_watch; /* one reader */

typedef struct coord_id {
    uint8_t b[16];
} coord_id;

/* Bytes somebody else owns; may hold any byte. */
typedef struct coord_str {
    const char *at;
    size_t len;
} coord_str;

enum coord_code {
    COORD_OK = 0,
    COORD_EXISTS = 1,      /* a live entry or a full group is in the way */
    COORD_CONFLICT = 2,    /* a compare failed: read again */
    COORD_NOT_FOUND = 3,   /* no such live entry or group */
    COORD_EXPIRED = 4,     /* your lease is over, for good: acquire anew */
    COORD_INVALID = 5,     /* an argument; the text names the limit */
    COORD_UNSUPPORTED = 6, /* this store cannot enforce it; the text names what is missing */
    COORD_UNAVAILABLE = 7, /* not decided now; try again with the same request id */
};

enum coord_reason {
    COORD_R_NONE = 0,
    /* OK */
    COORD_R_CREATED = 1,
    COORD_R_UPDATED = 2,
    COORD_R_DELETED = 3,
    COORD_R_ACQUIRED = 4,
    COORD_R_RENEWED = 5,
    COORD_R_RELEASED = 6, /* also EXPIRED: this handle released it earlier */
    COORD_R_ALREADY = 7,
    COORD_R_REPLAYED = 8, /* this request id did it already; the first answer again */
    COORD_R_RESIZED = 9,
    /* EXISTS */
    COORD_R_HELD = 20,
    COORD_R_FULL = 21,
    COORD_R_ALREADY_HOLDER = 22,
    /* CONFLICT */
    COORD_R_REVISION = 30,
    COORD_R_ABSENT = 31,
    COORD_R_PRESENT = 32,
    COORD_R_NOT_OWNER = 33,
    COORD_R_SLOT_COUNT = 34,
    /* EXPIRED */
    COORD_R_DEADLINE = 40,
    COORD_R_SUPERSEDED = 41,
    COORD_R_REVOKED = 42,
    COORD_R_LOCAL = 43, /* safe_until has passed here, whatever the store thinks */
    /* INVALID */
    COORD_R_KEY = 50,
    COORD_R_VALUE_SIZE = 51,
    COORD_R_TTL_RANGE = 52,
    COORD_R_OWNER = 53,
    COORD_R_OTHER_STORE = 54,
    COORD_R_HANDLE = 55,
    COORD_R_GROUP = 56,
    COORD_R_URL = 57,
    COORD_R_ARGUMENT = 58,
    /* UNSUPPORTED: the text says more */
    COORD_R_CAPABILITY = 60,  /* a bit of coord_capabilities is unset */
    COORD_R_SERVER = 61,      /* its version or configuration */
    COORD_R_FILE_SYSTEM = 62, /* its type, or a probe failed */
    COORD_R_SCOPE = 63,       /* require_scope is wider than the store's */
    COORD_R_BACKEND = 64,     /* its library is not installed, or the server does not serve it */
    /* UNAVAILABLE */
    COORD_R_TIMEOUT = 70,
    COORD_R_CONNECTION = 71,
    COORD_R_NO_LEADER = 72,
    COORD_R_OVERLOADED = 73,
    COORD_R_STORAGE = 74,
    COORD_R_CORRUPT = 75,
    COORD_R_FORBIDDEN = 76,
    COORD_R_QUOTA = 77,
    COORD_R_LOCK_VIOLATION = 78,
    COORD_R_DEGRADED = 79, /* a capability was lost while open; UNSUPPORTED for new grants */
    COORD_R_MEMORY = 80,
    COORD_R_CLOSED = 81, /* the store was closed meanwhile */
};

/* coord_result.flags */
#define COORD_F_MAYBE_APPLIED 1u /* UNAVAILABLE only: it may have taken effect */

typedef struct coord_result {
    int code, reason; /* enum coord_code, enum coord_reason */
    uint32_t flags;
    uint32_t slot;          /* acquire; else 0 */
    uint64_t revision;      /* of the entry now; 0: absent */
    uint64_t token;         /* of the grant made, or of the holder in the way */
    int64_t granted_ttl_ms; /* of the lease made or renewed; 0: none */
    uint32_t live;          /* slots held; EXISTS/full */
    uint32_t slot_count;    /* the group's own; 0: unknown */
    int64_t hint_ms;        /* EXISTS: when it may be worth a new try; -1: unknown */
    char owner[132];        /* of the holder in the way, NUL-terminated; "" unknown */
    char text[188];         /* for people; never a secret */
} coord_result;

const char *coord_code_name(int code);     /* "EXISTS"; "?" for a number that is none */
const char *coord_reason_name(int reason); /* "already_holder" */

/* Of each call; NULL: all defaults. */
typedef struct coord_call {
    int64_t timeout_ms;  /* 1 .. 600,000; 0: 5,000 */
    coord_id request_id; /* zero: the library draws one; the same one again makes a safe retry */
} coord_call;

/* -- stores ----------------------------------------------------------------------------------- */

enum coord_scope {
    COORD_SCOPE_PROCESS = 1,
    COORD_SCOPE_MOUNT = 2, /* one container's own file system */
    COORD_SCOPE_HOST = 3,
    COORD_SCOPE_CLUSTER = 4,
};
enum coord_watch_kind {
    COORD_WATCH_NONE = 0,
    COORD_WATCH_POLL = 1, /* coalescing, found by looking again and again */
    COORD_WATCH_COALESCING = 2,
    COORD_WATCH_ORDERED = 3,
    COORD_WATCH_RESUMABLE = 4, /* ordered, and survives a reconnect without a resync */
};
enum coord_token_scope {
    COORD_TOKEN_NONE = 0,
    COORD_TOKEN_PROCESS = 1, /* increases within one process only */
    COORD_TOKEN_STORE = 2,
};
enum coord_replay {
    COORD_REPLAY_NONE = 0,
    COORD_REPLAY_LAST = 1,  /* the last request of each entry is known */
    COORD_REPLAY_TABLE = 2, /* every recent request of each client is known */
};
/* coord_caps.bits */
#define COORD_CAP_CREATE          (1u << 0) /* atomic create_if_absent */
#define COORD_CAP_CAS             (1u << 1) /* compare_and_set, delete with a revision */
#define COORD_CAP_TTL             (1u << 2) /* leases: ttl > 0, renew, release */
#define COORD_CAP_SLOTS           (1u << 3)
#define COORD_CAP_SHRINK          (1u << 4) /* resize_group to fewer slots */
#define COORD_CAP_STORE_ORDER     (1u << 5) /* revisions of different keys compare */
#define COORD_CAP_LIST_ATOMIC     (1u << 6) /* list_holders shows one instant */
#define COORD_CAP_COOLDOWN        (1u << 7)
#define COORD_CAP_FIFO_WAIT       (1u << 8)  /* waiters are served in order of arrival */
#define COORD_CAP_MULTI_KEY       (1u << 9)  /* one lease may hold several keys */
#define COORD_CAP_DURABLE         (1u << 10) /* acknowledged ttl=0 writes survive power loss */
#define COORD_CAP_DURABLE_LEASED  (1u << 11) /* so do leased ones */
#define COORD_CAP_HA              (1u << 12) /* survives the loss of a machine */
#define COORD_CAP_OBSERVED_EXPIRY (1u << 13) /* no authority for time: contenders observe */
#define COORD_CAP_EXACT_OWNER     (1u << 14) /* same-owner check is exact under races */
#define COORD_CAP_FORCE           (1u << 15) /* delete with COORD_FORCE */
#define COORD_CAP_STALE_READ      (1u << 16) /* COORD_STALE_OK differs from latest */
#define COORD_CAP_LATE_RENEWAL    (1u << 17) /* the server would take a late one; we refuse it */
typedef struct coord_caps {
    uint32_t bits;
    int scope;       /* enum coord_scope */
    int watch;       /* enum coord_watch_kind */
    int token;       /* enum coord_token_scope */
    int replay;      /* enum coord_replay */
    int degraded;    /* 1: something was lost while open */
    char server[96]; /* "etcd 3.4.23", "ext4", ... */
    char note[256];  /* what is weaker here than elsewhere, for people; "" nothing */
} coord_caps;

typedef struct coord_limits {
    uint32_t key_max, owner_max, group_max, depth_max, slot_count_max, keys_per_lease_max;
    uint32_t leases_max;
    uint64_t value_max;
    int64_t ttl_min_ms, ttl_max_ms, ttl_step_ms; /* ttl_step_ms: granularity, rounded up */
} coord_limits;

/* Zeroed: all defaults. */
typedef struct coord_options {
    int require_scope;       /* enum coord_scope: refuse to open a narrower store; 0: any */
    int64_t open_timeout_ms; /* 0: 10,000 */
    uint32_t async_threads;  /* that run coord_start() calls; 0: 8, at most 64 */
    uint32_t async_max;      /* started and not yet dispatched; 0: 4,096 */
    int keep_on_close;       /* 1: coord_close leaves own leases to their deadline */
    int no_early_death;      /* 1: own leases live to their deadline though this process dies;
                                file: else gives a dead process's claims away at once */
    const char *tls_ca_file; /* etcd, nats, muster; NULL: as the URL says */
    const char *tls_cert_file, *tls_key_file;
    /* Time in ns since some start, never running back; NULL: CLOCK_BOOTTIME. Tests of mem: step
     * it; other stores have clocks of their own and refuse it. */
    int64_t (*now)(void *now_arg);
    void *now_arg;
} coord_options;

/* The error text of a failed open says how to fix it. */
coord_result coord_open(const char *url, const coord_options *options, coord_store **ret_store);
/* Releases the leases of this store object (unless keep_on_close), ends its watches and the calls
 * that wait for a slot or a retry (COORD_R_CLOSED), and waits for its threads: a call that a server
 * or a lock is being asked for ends by its own deadline. Handles may be unreferenced later. NULL is
 * fine. */
void coord_close(coord_store *store);
coord_caps coord_capabilities(coord_store *store);
coord_limits coord_store_limits(coord_store *store);
coord_id coord_store_id(coord_store *store);

/* -- entries ---------------------------------------------------------------------------------- */

typedef struct coord_entry {
    coord_str key, value;
    char owner[132]; /* "" when not leased */
    coord_id lease_id;
    uint64_t revision, create_revision, token;
    int64_t ttl_ms;       /* 0: not leased */
    int64_t remaining_ms; /* a hint; -1: unknown */
} coord_entry;
void coord_entry_free(coord_entry *entry); /* NULL is fine */

#define COORD_TTL_KEEP ((int64_t)-1)
#define COORD_ANY      UINT64_MAX       /* delete whatever revision is there */
#define COORD_FORCE    (UINT64_MAX - 1) /* even another's leased entry; its holder is notified */

/* OK/created, OK/replayed, EXISTS/held. ttl_ms 0: no lease, `owner` may be NULL and ret_lease is
 * left alone. Else *ret_lease is yours to unref. */
coord_result coord_create_if_absent(coord_store *store, const coord_call *call, coord_str key,
                                    coord_str value, int64_t ttl_ms, const char *owner,
                                    coord_lease **ret_lease);
/* The same under a lease you have: one more key that ends with it. CAP_MULTI_KEY. */
coord_result coord_create_under(coord_lease *lease, const coord_call *call, coord_str key,
                                coord_str value);
/* expected 0: must be absent. ttl_ms: COORD_TTL_KEEP; 0 drops the lease; > 0 a new lease, with
 * expected 0 (needs `owner`) or with `lease` (keeps its owner). `lease`: yours, when the entry is
 * leased. OK/created, OK/updated, OK/replayed, CONFLICT/revision|absent|present|not_owner. */
coord_result coord_compare_and_set(coord_store *store, const coord_call *call, coord_str key,
                                   uint64_t expected, coord_str value, int64_t ttl_ms,
                                   const char *owner, coord_lease *lease, coord_lease **ret_lease);
/* expected: a revision, COORD_ANY or COORD_FORCE. OK/deleted, OK/already (a retry found it done),
 * NOT_FOUND, CONFLICT/revision|not_owner. */
coord_result coord_delete(coord_store *store, const coord_call *call, coord_str key,
                          uint64_t expected, coord_lease *lease);
enum coord_consistency { COORD_LATEST = 0, COORD_STALE_OK = 1 };
coord_result coord_get(coord_store *store, const coord_call *call, coord_str key, int consistency,
                       coord_entry **ret_entry);

/* -- slots ------------------------------------------------------------------------------------ */

#define COORD_TAKEOVER_SAME_OWNER 1u /* this owner's slot, new lease, larger token */
#define COORD_NO_CREATE           2u /* NOT_FOUND when the group does not exist */
#define COORD_NO_SLOT             UINT32_MAX
typedef struct coord_slot_request { /* COORD_SLOT_REQUEST_INIT, then fill in */
    coord_str group;
    uint32_t slot_count; /* 1 .. 1,024; fixed by who creates the group */
    uint32_t flags;
    uint32_t prefer_slot; /* or COORD_NO_SLOT */
    const char *owner;
    int64_t ttl_ms;
    int64_t wait_ms;     /* 0: answer at once; up to a day, beside the call's own timeout */
    int64_t cooldown_ms; /* 0 .. 60,000: a slot rests that long after an expiry */
    coord_str value;
} coord_slot_request;
#define COORD_SLOT_REQUEST_INIT                                                                    \
    {                                                                                              \
        {"", 0}, 1, 0, COORD_NO_SLOT, NULL, 0, 0, 0,                                               \
        {                                                                                          \
            "", 0                                                                                  \
        }                                                                                          \
    }

/* OK/acquired, OK/replayed, EXISTS/full, EXISTS/already_holder, CONFLICT/slot_count, NOT_FOUND. */
coord_result coord_acquire_slot(coord_store *store, const coord_call *call,
                                const coord_slot_request *request, coord_lease **ret_lease);
/* `expected`: the group's revision, as coord_list_holders returns it. OK/resized, CONFLICT/revision,
 * NOT_FOUND. Shrinking evicts nobody: the group is full until the slots above are free. */
coord_result coord_resize_group(coord_store *store, const coord_call *call, coord_str group,
                                uint64_t expected, uint32_t slot_count);

typedef struct coord_holder {
    uint32_t slot;
    char owner[132];
    uint64_t token, revision;
    uint8_t lease_id_prefix[4]; /* enough to distinguish two, not enough to act with */
    int64_t remaining_ms;       /* a hint; -1: unknown */
    coord_str value;
} coord_holder;
enum coord_certainty { COORD_BY_AUTHORITY = 0, COORD_BY_OBSERVATION = 1 };
typedef struct coord_holders {
    uint32_t slot_count;
    uint64_t revision; /* of the group, for coord_resize_group */
    int64_t cooldown_ms;
    int atomic;    /* 1: all rows belong to one instant */
    int certainty; /* enum coord_certainty */
    size_t count;
    coord_holder *rows; /* by slot */
} coord_holders;
coord_result coord_list_holders(coord_store *store, const coord_call *call, coord_str group,
                                coord_holders **ret_holders);
void coord_holders_free(coord_holders *holders); /* NULL is fine */

/* -- leases ----------------------------------------------------------------------------------- */

/* OK/renewed, EXPIRED/deadline|superseded|revoked|released, UNAVAILABLE. EXPIRED is final. */
coord_result coord_renew(coord_lease *lease, const coord_call *call);
/* Every key of it. OK/released, OK/already, EXPIRED. Another's entry is never touched. */
coord_result coord_release(coord_lease *lease, const coord_call *call);
/* One key; the others live on. */
coord_result coord_release_key(coord_lease *lease, const coord_call *call, coord_str key);

/* No I/O, never blocks, ~30 ns. COORD_OK or COORD_EXPIRED. Call it before each side effect. */
int coord_check(const coord_lease *lease);
/* Time until coord_check turns, by the store's clock; 0 when it has. */
int64_t coord_safe_for_ms(const coord_lease *lease);

/* Renews from now on, until released or lost. `on_lost` comes exactly once when the lease is lost,
 * never after a release, before the store would give the claim to another, also while a renewal
 * hangs; from a thread that does no I/O: be quick, do not call coord_close from it. coord_release
 * and the last coord_lease_unref wait for one that is running. INVALID/handle when it is kept
 * already. */
typedef void (*coord_lost_fn)(void *arg, coord_lease *lease, int reason);
coord_result coord_keep(coord_lease *lease, coord_lost_fn on_lost, void *arg);

uint64_t coord_lease_token(const coord_lease *lease);
uint32_t coord_lease_slot(const coord_lease *lease); /* or COORD_NO_SLOT */
coord_id coord_lease_id(const coord_lease *lease);
int64_t coord_lease_ttl_ms(const coord_lease *lease);
coord_lease *coord_lease_ref(coord_lease *lease);
/* The last one does not release the claim: it stops its keeper, and the lease runs out. */
void coord_lease_unref(coord_lease *lease); /* NULL is fine */

/* A blob that is the handle: keep it like a password. Call with NULL to learn the size; returns
 * what was or would be written, 0 when the lease is over. */
size_t coord_lease_export(const coord_lease *lease, void *blob, size_t cap);
/* OK, EXPIRED/deadline|superseded|revoked (asked of the store), INVALID/handle (no blob of ours),
 * INVALID/other_store. Extends nothing: renew or keep it. k8s: only on the host that renewed it
 * last, since its last boot; elsewhere EXPIRED/deadline. */
coord_result coord_lease_import(coord_store *store, const coord_call *call, const void *blob,
                                size_t len, coord_lease **ret_lease);
/* Is `token` the present live grant of `key`? OK, NOT_FOUND, CONFLICT/not_owner. Out of date when
 * it returns; for debugging, not instead of a fence. */
coord_result coord_assert_token(coord_store *store, const coord_call *call, coord_str key,
                                uint64_t token);

/* The resource's side: keep one per protected thing. Zeroed is valid. */
typedef struct coord_fence {
    uint64_t highest;
} coord_fence;
int coord_fence_admit(coord_fence *fence, uint64_t token); /* 1 admit, 0 refuse; atomic */

/* -- watch ------------------------------------------------------------------------------------ */

enum coord_event_type {
    COORD_SNAPSHOT_BEGIN = 1,
    COORD_ENTRY = 2,
    COORD_SNAPSHOT_END = 3,
    COORD_PUT = 4,
    COORD_DELETE = 5,
    COORD_EXPIRE = 6,
    COORD_RESYNC = 7, /* events may have been lost; a snapshot follows, what it lacks is gone */
    COORD_PROGRESS = 8,
    COORD_CLOSED = 9, /* the last one; `reason` says why */
};
typedef struct coord_event { /* borrowed until the next coord_watch_next */
    int type;
    int reason;
    uint64_t revision; /* of the entry; of SNAPSHOT_END and PROGRESS: as of, where known */
    uint64_t token;
    coord_str key, value;
    char owner[132];
} coord_event;
#define COORD_WATCH_BUCKET 1u /* `scope` is a bucket: its own keys, not those of deeper ones */
/* First a snapshot, then every change; no gap, nothing twice. Bounded: a reader that lags more than
 * 16,384 events gets COORD_RESYNC. */
coord_result coord_watch_open(coord_store *store, const coord_call *call, coord_str scope,
                              uint32_t flags, coord_watch **ret_watch);
/* 1: *ret_event is set. 0: nothing within wait_ms (-1: for ever). After COORD_CLOSED: always 0. */
int coord_watch_next(coord_watch *watch, int64_t wait_ms, coord_event *ret_event);
int coord_watch_fd(coord_watch *watch);     /* readable while an event waits */
void coord_watch_close(coord_watch *watch); /* NULL is fine */

/* -- asynchronous ----------------------------------------------------------------------------- */

enum coord_op {
    COORD_OP_CREATE = 1,
    COORD_OP_CREATE_UNDER,
    COORD_OP_CAS,
    COORD_OP_DELETE,
    COORD_OP_GET,
    COORD_OP_ACQUIRE,
    COORD_OP_RESIZE,
    COORD_OP_HOLDERS,
    COORD_OP_RENEW,
    COORD_OP_RELEASE,
    COORD_OP_RELEASE_KEY,
};
/* The fields an operation reads are those its blocking twin takes; the rest is ignored. Strings
 * are copied. */
typedef struct coord_request {
    int op;
    coord_call call;
    coord_str key, value; /* key: the group, too */
    const char *owner;
    uint64_t expected;
    int64_t ttl_ms;
    int consistency;
    coord_lease *lease; /* referenced until done */
    coord_slot_request slot;
    uint32_t slot_count; /* resize */
} coord_request;
typedef struct coord_done { /* what the twin would have returned; the owner of each is you */
    coord_result result;
    coord_lease *lease;
    coord_entry *entry;
    coord_holders *holders;
} coord_done;
typedef void (*coord_done_fn)(void *arg, coord_done *done);
/* OK: taken; done() comes exactly once, from coord_dispatch, also when the store closes (then from
 * coord_close). Else it never comes: INVALID, UNAVAILABLE/overloaded, UNAVAILABLE/memory. */
coord_result coord_start(coord_store *store, const coord_request *request, coord_done_fn done,
                         void *arg);
/* Readable when coord_dispatch has something to do: put it into your poll, epoll, uv_poll. */
int coord_fd(coord_store *store);
size_t coord_dispatch(coord_store *store); /* runs done() of what is finished; how many */

#ifdef __cplusplus
}
#endif
#endif
