/* SPDX-License-Identifier: Apache-2.0 */
/* Claims on entries and slots of a store that you already have. The interface has create if absent,
 * compare and set, slots for N holders, leases with fencing tokens, and watches. The contract is
 * the same for every store. A URL chooses the store.
 *
 *   mem:                      this process only
 *   file:///var/lib/x         every process of this host
 *   etcd://h1:2379,h2:2379    an etcd cluster       k8s://namespace   Lease objects of a cluster
 *   nats://h1:4222/bucket     NATS JetStream KV     muster://h1,h2    muster's own coordinators
 *
 * Three rules come first:
 *   - A claim is a lease and ends unless it is renewed. coord_keep() renews the lease and calls you
 *     once when the lease is lost. Call the cheap coord_check() before every side effect.
 *   - No lease can guarantee that you still hold it when a side effect takes effect. Send the token
 *     along and let the resource refuse a smaller token (coord_fence_admit).
 *   - A store that cannot enforce a call refuses the call with COORD_UNSUPPORTED and changes
 *     nothing. A call that the store cannot enforce never succeeds.
 *
 * Every call has a deadline (5 s unless said otherwise) and returns a coord_result by value. Calls
 * block. coord_start() runs the same calls asynchronously. Many threads may use one store. After
 * fork() the child cannot use its copy of a store: every call returns COORD_INVALID/handle. */
#ifndef MUSTER_COORD_H
#define MUSTER_COORD_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COORD_VERSION_MAJOR 1
#define COORD_VERSION_MINOR 0

/* -- types ------------------------------------------------------------------------------------- */

typedef struct coord_store coord_store; /* an open store */
typedef struct coord_lease coord_lease; /* reference counted, thread safe; see coord_lease_unref */
typedef struct coord_watch coord_watch; /* a watch with a single reader */

typedef struct coord_id {
    uint8_t b[16];
} coord_id;

/* A borrowed string. It may contain any byte. */
typedef struct coord_str {
    const char *at;
    size_t len;
} coord_str;

enum coord_code {
    COORD_OK = 0,
    COORD_EXISTS = 1,      /* a live entry or a full group prevents the call */
    COORD_CONFLICT = 2,    /* a comparison failed: read again */
    COORD_NOT_FOUND = 3,   /* no such live entry or group */
    COORD_EXPIRED = 4,     /* the lease has ended for good: acquire a new one */
    COORD_INVALID = 5,     /* an argument is invalid; the text names the limit */
    COORD_UNSUPPORTED = 6, /* this store cannot enforce the call; the text names what is missing */
    COORD_UNAVAILABLE = 7, /* no decision now; retry with the same request id */
};

enum coord_reason {
    COORD_R_NONE = 0,
    /* OK */
    COORD_R_CREATED = 1,
    COORD_R_UPDATED = 2,
    COORD_R_DELETED = 3,
    COORD_R_ACQUIRED = 4,
    COORD_R_RENEWED = 5,
    COORD_R_RELEASED = 6, /* also with EXPIRED: this handle released the lease earlier */
    COORD_R_ALREADY = 7,
    COORD_R_REPLAYED = 8, /* this request id was applied before; returns the first result */
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
    COORD_R_LOCAL = 43, /* safe_until has passed on this host's clock, whatever the store says */
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
    /* UNSUPPORTED: the text gives details */
    COORD_R_CAPABILITY = 60,  /* a bit of coord_capabilities is unset */
    COORD_R_SERVER = 61,      /* the server's version or configuration */
    COORD_R_FILE_SYSTEM = 62, /* the type of the file system, or a probe failed */
    COORD_R_SCOPE = 63,       /* require_scope is wider than the store's scope */
    COORD_R_BACKEND = 64,     /* library not installed, or the server lacks the API */
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
    COORD_R_CLOSED = 81, /* the store was closed during the call */
};

/* coord_result.flags */
#define COORD_F_MAYBE_APPLIED 1u /* UNAVAILABLE only: the call may have taken effect */

typedef struct coord_result {
    int code, reason; /* enum coord_code, enum coord_reason */
    uint32_t flags;
    uint32_t slot;          /* acquire; otherwise 0 */
    uint64_t revision;      /* current revision of the entry; 0: absent */
    uint64_t token;         /* of the new grant, or of the holder that prevents the call */
    int64_t granted_ttl_ms; /* of the lease made or renewed; 0: none */
    uint32_t live;          /* slots held; set with EXISTS/full */
    uint32_t slot_count;    /* the slot count stored in the group; 0: unknown */
    int64_t hint_ms;        /* EXISTS: delay after which a retry may succeed; -1: unknown */
    char owner[132];        /* of the holder that prevents the call, NUL-terminated; "": unknown */
    char text[188];         /* for people; never contains a secret */
} coord_result;

const char *coord_code_name(int code);     /* "EXISTS"; "?" for an unknown number */
const char *coord_reason_name(int reason); /* "already_holder" */

/* Options of a call. NULL means all defaults. */
typedef struct coord_call {
    int64_t timeout_ms;  /* 1 .. 600,000; 0: 5,000 */
    coord_id request_id; /* zero: the library generates one; a retry with the same id is safe */
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
    COORD_WATCH_POLL = 1, /* coalescing; changes are found by polling */
    COORD_WATCH_COALESCING = 2,
    COORD_WATCH_ORDERED = 3,
    COORD_WATCH_RESUMABLE = 4, /* ordered; survives a reconnect without a resync */
};
enum coord_token_scope {
    COORD_TOKEN_NONE = 0,
    COORD_TOKEN_PROCESS = 1, /* increases within one process only */
    COORD_TOKEN_STORE = 2,
};
enum coord_replay {
    COORD_REPLAY_NONE = 0,
    COORD_REPLAY_LAST = 1,  /* the store remembers the last request of each entry */
    COORD_REPLAY_TABLE = 2, /* the store remembers every recent request of each client */
};
/* coord_caps.bits */
#define COORD_CAP_CREATE          (1u << 0) /* atomic create_if_absent */
#define COORD_CAP_CAS             (1u << 1) /* compare_and_set, delete with a revision */
#define COORD_CAP_TTL             (1u << 2) /* leases: ttl > 0, renew, release */
#define COORD_CAP_SLOTS           (1u << 3)
#define COORD_CAP_SHRINK          (1u << 4) /* resize_group to fewer slots */
#define COORD_CAP_STORE_ORDER     (1u << 5) /* revisions of different keys compare */
#define COORD_CAP_LIST_ATOMIC     (1u << 6) /* list_holders shows the group at one instant */
#define COORD_CAP_COOLDOWN        (1u << 7)
#define COORD_CAP_FIFO_WAIT       (1u << 8)  /* waiters are served in order of arrival */
#define COORD_CAP_MULTI_KEY       (1u << 9)  /* one lease may hold several keys */
#define COORD_CAP_DURABLE         (1u << 10) /* acknowledged ttl=0 writes survive power loss */
#define COORD_CAP_DURABLE_LEASED  (1u << 11) /* acknowledged leased writes survive it, too */
#define COORD_CAP_HA              (1u << 12) /* survives the loss of a machine */
#define COORD_CAP_OBSERVED_EXPIRY (1u << 13) /* no server clock: contenders observe expiry */
#define COORD_CAP_EXACT_OWNER     (1u << 14) /* the same-owner check is exact under races */
#define COORD_CAP_FORCE           (1u << 15) /* delete with COORD_FORCE */
#define COORD_CAP_STALE_READ      (1u << 16) /* COORD_STALE_OK may read older data */
#define COORD_CAP_LATE_RENEWAL    (1u << 17) /* the server accepts late renewals; we refuse */
typedef struct coord_caps {
    uint32_t bits;
    int scope;       /* enum coord_scope */
    int watch;       /* enum coord_watch_kind */
    int token;       /* enum coord_token_scope */
    int replay;      /* enum coord_replay */
    int degraded;    /* 1: a capability was lost while open */
    char server[96]; /* "etcd 3.4.23", "ext4", ... */
    char note[256];  /* guarantees that are weaker in this store, for people; "": none */
} coord_caps;

typedef struct coord_limits {
    uint32_t key_max, owner_max, group_max, depth_max, slot_count_max, keys_per_lease_max;
    uint32_t leases_max;
    uint64_t value_max;
    int64_t ttl_min_ms, ttl_max_ms, ttl_step_ms; /* TTLs are rounded up to ttl_step_ms */
} coord_limits;

/* Zeroed options mean all defaults. */
typedef struct coord_options {
    int require_scope;       /* enum coord_scope: refuse to open a narrower store; 0: any */
    int64_t open_timeout_ms; /* 0: 10,000 */
    uint32_t async_threads;  /* threads for coord_start() calls; 0: 8, at most 64 */
    uint32_t async_max;      /* calls started and not yet dispatched; 0: 4,096 */
    int keep_on_close;       /* 1: coord_close does not release leases; they expire */
    int no_early_death;      /* 1: leases outlive the process until their deadline. 0: the file
                                store frees the claims of a dead process at once */
    const char *tls_ca_file; /* etcd, nats, muster; NULL: as in the URL */
    const char *tls_cert_file, *tls_key_file;
    /* Returns a time in ns that never decreases. NULL means CLOCK_BOOTTIME. Tests of mem: replace
     * the clock to step time. Other stores use their own clocks and refuse this option. */
    int64_t (*now)(void *now_arg);
    void *now_arg;
} coord_options;

/* Opens the store. If opening fails, the error text says how to fix the cause. */
coord_result coord_open(const char *url, const coord_options *options, coord_store **ret_store);
/* Closes the store and releases its leases (unless keep_on_close). Ends the watches, and ends calls
 * that wait for a slot or a retry with COORD_R_CLOSED. Waits for the store's threads: a call that
 * already waits for a server or a lock ends by its own deadline. Lease handles may be unreferenced
 * later. NULL is allowed. */
void coord_close(coord_store *store);
coord_caps coord_capabilities(coord_store *store);
coord_limits coord_store_limits(coord_store *store);
coord_id coord_store_id(coord_store *store);

/* -- entries ---------------------------------------------------------------------------------- */

typedef struct coord_entry {
    coord_str key, value;
    char owner[132]; /* "" if not leased */
    coord_id lease_id;
    uint64_t revision, create_revision, token;
    int64_t ttl_ms;       /* 0: not leased */
    int64_t remaining_ms; /* a hint; -1: unknown */
} coord_entry;
void coord_entry_free(coord_entry *entry); /* NULL is allowed */

#define COORD_TTL_KEEP ((int64_t)-1)
#define COORD_ANY      UINT64_MAX       /* delete any revision */
#define COORD_FORCE    (UINT64_MAX - 1) /* an entry with any owner; its holder is notified */

/* Creates an entry. With ttl_ms 0 there is no lease, `owner` may be NULL and *ret_lease is
 * unchanged. Otherwise the caller must unref *ret_lease. Returns OK/created, OK/replayed,
 * EXISTS/held. */
coord_result coord_create_if_absent(coord_store *store, const coord_call *call, coord_str key,
                                    coord_str value, int64_t ttl_ms, const char *owner,
                                    coord_lease **ret_lease);
/* Creates an entry under an existing lease; the entry ends with the lease. Needs CAP_MULTI_KEY.
 * Returns the same results as coord_create_if_absent. */
coord_result coord_create_under(coord_lease *lease, const coord_call *call, coord_str key,
                                coord_str value);
/* Replaces the value if the revision is `expected`; 0 means that the entry must be absent. ttl_ms
 * COORD_TTL_KEEP keeps the lease, and 0 removes the lease. A ttl_ms > 0 makes a new lease: either
 * with expected 0 and `owner`, or with `lease`, whose owner stays. `lease` is the caller's lease if
 * the entry is leased. Returns OK/created, OK/updated, OK/replayed,
 * CONFLICT/revision|absent|present|not_owner. */
coord_result coord_compare_and_set(coord_store *store, const coord_call *call, coord_str key,
                                   uint64_t expected, coord_str value, int64_t ttl_ms,
                                   const char *owner, coord_lease *lease, coord_lease **ret_lease);
/* Deletes an entry. `expected` is a revision, COORD_ANY or COORD_FORCE. Returns OK/deleted,
 * OK/already (a retry found the entry deleted), NOT_FOUND, CONFLICT/revision|not_owner. */
coord_result coord_delete(coord_store *store, const coord_call *call, coord_str key,
                          uint64_t expected, coord_lease *lease);
enum coord_consistency { COORD_LATEST = 0, COORD_STALE_OK = 1 };
coord_result coord_get(coord_store *store, const coord_call *call, coord_str key, int consistency,
                       coord_entry **ret_entry);

/* -- slots ------------------------------------------------------------------------------------ */

#define COORD_TAKEOVER_SAME_OWNER 1u /* take over this owner's slot: new lease, larger token */
#define COORD_NO_CREATE           2u /* NOT_FOUND if the group does not exist */
#define COORD_NO_SLOT             UINT32_MAX
typedef struct coord_slot_request { /* start from COORD_SLOT_REQUEST_INIT */
    coord_str group;
    uint32_t slot_count; /* 1 .. 1,024; fixed when the group is created */
    uint32_t flags;
    uint32_t prefer_slot; /* a slot number or COORD_NO_SLOT */
    const char *owner;
    int64_t ttl_ms;
    int64_t wait_ms;     /* wait for a slot, up to a day, beside the timeout; 0: do not wait */
    int64_t cooldown_ms; /* 0 .. 60,000: a slot stays free this long after its lease expired */
    coord_str value;
} coord_slot_request;
#define COORD_SLOT_REQUEST_INIT                                                                    \
    {                                                                                              \
        {"", 0}, 1, 0, COORD_NO_SLOT, NULL, 0, 0, 0,                                               \
        {                                                                                          \
            "", 0                                                                                  \
        }                                                                                          \
    }

/* Acquires a slot of a group. Returns OK/acquired, OK/replayed, EXISTS/full, EXISTS/already_holder,
 * CONFLICT/slot_count, NOT_FOUND. */
coord_result coord_acquire_slot(coord_store *store, const coord_call *call,
                                const coord_slot_request *request, coord_lease **ret_lease);
/* Changes the slot count. `expected` is the group's revision from coord_list_holders. Returns
 * OK/resized, CONFLICT/revision, NOT_FOUND. Shrinking does not evict holders: the group counts as
 * full until the slots above the new count are free. */
coord_result coord_resize_group(coord_store *store, const coord_call *call, coord_str group,
                                uint64_t expected, uint32_t slot_count);

typedef struct coord_holder {
    uint32_t slot;
    char owner[132];
    uint64_t token, revision;
    uint8_t lease_id_prefix[4]; /* enough to distinguish leases, too short to be used as a handle */
    int64_t remaining_ms;       /* a hint; -1: unknown */
    coord_str value;
} coord_holder;
enum coord_certainty { COORD_BY_AUTHORITY = 0, COORD_BY_OBSERVATION = 1 };
typedef struct coord_holders {
    uint32_t slot_count;
    uint64_t revision; /* of the group, for coord_resize_group */
    int64_t cooldown_ms;
    int atomic;    /* 1: all rows are from the same instant */
    int certainty; /* enum coord_certainty */
    size_t count;
    coord_holder *rows; /* ordered by slot */
} coord_holders;
coord_result coord_list_holders(coord_store *store, const coord_call *call, coord_str group,
                                coord_holders **ret_holders);
void coord_holders_free(coord_holders *holders); /* NULL is allowed */

/* -- leases ----------------------------------------------------------------------------------- */

/* Renews the lease. Returns OK/renewed, EXPIRED/deadline|superseded|revoked|released, UNAVAILABLE.
 * EXPIRED is final. */
coord_result coord_renew(coord_lease *lease, const coord_call *call);
/* Releases every key of the lease. Returns OK/released, OK/already, EXPIRED. Never changes an entry
 * of another owner. */
coord_result coord_release(coord_lease *lease, const coord_call *call);
/* Releases one key. The other keys of the lease stay. */
coord_result coord_release_key(coord_lease *lease, const coord_call *call, coord_str key);

/* Returns COORD_OK or COORD_EXPIRED without I/O and without blocking, in about 30 ns. Call it
 * before each side effect. */
int coord_check(const coord_lease *lease);
/* Returns the time until coord_check returns COORD_EXPIRED, by the store's clock; 0 after that. */
int64_t coord_safe_for_ms(const coord_lease *lease);

/* Renews the lease from now on until the lease is released or lost. Calls `on_lost` exactly once if
 * the lease is lost, and never after a release. The call comes before the store can grant the claim
 * to another owner, even while a renewal hangs. `on_lost` runs on a thread that does no I/O: it
 * must return quickly and must not call coord_close. coord_release and the last coord_lease_unref
 * wait for a running `on_lost`. Returns INVALID/handle if the lease is already kept. */
typedef void (*coord_lost_fn)(void *arg, coord_lease *lease, int reason);
coord_result coord_keep(coord_lease *lease, coord_lost_fn on_lost, void *arg);

uint64_t coord_lease_token(const coord_lease *lease);
uint32_t coord_lease_slot(const coord_lease *lease); /* or COORD_NO_SLOT */
coord_id coord_lease_id(const coord_lease *lease);
int64_t coord_lease_ttl_ms(const coord_lease *lease);
coord_lease *coord_lease_ref(coord_lease *lease);
/* Drops a reference. Dropping the last reference does not release the claim: renewals stop and the
 * lease expires. NULL is allowed. */
void coord_lease_unref(coord_lease *lease);

/* Writes the lease as a blob. Anyone with the blob holds the claim, so keep it like a password.
 * Returns the size that was or would be written, 0 if the lease is over. NULL only asks for the
 * size. */
size_t coord_lease_export(const coord_lease *lease, void *blob, size_t cap);
/* Makes a lease from an exported blob. Does not extend the lease: renew or keep it afterwards. With
 * k8s: only the host that last renewed the lease can import it, and only since its last boot;
 * otherwise the result is EXPIRED/deadline. Returns OK, EXPIRED/deadline|superseded|revoked
 * (decided by the store), INVALID/handle (not an exported lease), INVALID/other_store. */
coord_result coord_lease_import(coord_store *store, const coord_call *call, const void *blob,
                                size_t len, coord_lease **ret_lease);
/* Checks whether `token` belongs to the current live grant of `key`. Returns OK, NOT_FOUND,
 * CONFLICT/not_owner. The result may be outdated on return, so use it for debugging only and never
 * instead of a fence. */
coord_result coord_assert_token(coord_store *store, const coord_call *call, coord_str key,
                                uint64_t token);

/* The fence of a protected resource. Keep one per resource. Zeroed is valid. */
typedef struct coord_fence {
    uint64_t highest;
} coord_fence;
int coord_fence_admit(coord_fence *fence, uint64_t token); /* 1: admit, 0: refuse; atomic */

/* -- watch ------------------------------------------------------------------------------------ */

enum coord_event_type {
    COORD_SNAPSHOT_BEGIN = 1,
    COORD_ENTRY = 2,
    COORD_SNAPSHOT_END = 3,
    COORD_PUT = 4,
    COORD_DELETE = 5,
    COORD_EXPIRE = 6,
    COORD_RESYNC = 7, /* events may have been lost; keys not in the next snapshot are gone */
    COORD_PROGRESS = 8,
    COORD_CLOSED = 9, /* the last event; `reason` gives the cause */
};
typedef struct coord_event { /* valid until the next coord_watch_next */
    int type;
    int reason;
    uint64_t revision; /* of the entry. SNAPSHOT_END, PROGRESS: of the state, if known */
    uint64_t token;
    coord_str key, value;
    char owner[132];
} coord_event;
#define COORD_WATCH_BUCKET 1u /* `scope` is a bucket: watch its own keys, no deeper ones */
/* Opens a watch: first a snapshot, then every change, without gaps or duplicates. A reader that
 * lags more than 16,384 events gets COORD_RESYNC. */
coord_result coord_watch_open(coord_store *store, const coord_call *call, coord_str scope,
                              uint32_t flags, coord_watch **ret_watch);
/* Returns 1 and sets *ret_event, or returns 0 if no event came within wait_ms (-1: wait without
 * limit). Always returns 0 after COORD_CLOSED. */
int coord_watch_next(coord_watch *watch, int64_t wait_ms, coord_event *ret_event);
int coord_watch_fd(coord_watch *watch);     /* readable while an event waits */
void coord_watch_close(coord_watch *watch); /* NULL is allowed */

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
/* Each operation reads the fields that its blocking call takes, and no others. Strings are
 * copied. */
typedef struct coord_request {
    int op;
    coord_call call;
    coord_str key, value; /* key: also the group */
    const char *owner;
    uint64_t expected;
    int64_t ttl_ms;
    int consistency;
    coord_lease *lease; /* referenced until the call is done */
    coord_slot_request slot;
    uint32_t slot_count; /* coord_resize_group only */
} coord_request;
typedef struct coord_done { /* results of the blocking call; the caller owns all of them */
    coord_result result;
    coord_lease *lease;
    coord_entry *entry;
    coord_holders *holders;
} coord_done;
typedef void (*coord_done_fn)(void *arg, coord_done *done);
/* Starts a call. OK means that done() is called exactly once, from coord_dispatch, or from
 * coord_close if the store closes first. After any other result done() is never called: INVALID,
 * UNAVAILABLE/overloaded, UNAVAILABLE/memory. */
coord_result coord_start(coord_store *store, const coord_request *request, coord_done_fn done,
                         void *arg);
/* Returns a descriptor for poll, epoll or uv_poll. It is readable when coord_dispatch has work. */
int coord_fd(coord_store *store);
size_t coord_dispatch(coord_store *store); /* runs done() of finished calls; returns how many */

#ifdef __cplusplus
}
#endif
#endif
