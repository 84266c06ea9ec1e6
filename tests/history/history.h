/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of a store did and saw, from a recorded file: README.md has the format.
 *
 * The value that a call writes is its id: a read that found 17 found what call 17 wrote. All times
 * are of one clock. */
#ifndef TESTS_HISTORY_HISTORY_H
#define TESTS_HISTORY_HISTORY_H
#include <muster/coord.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/note.h"

enum hist_op {
    HIST_CREATE,
    HIST_CAS,
    HIST_DELETE,
    HIST_GET,   /* latest */
    HIST_STALE, /* a serializable read of one replica */
    HIST_ACQUIRE,
    HIST_RENEW,
    HIST_RELEASE,
    HIST_HOLDERS,
    HIST_CHECK, /* local: does it still hold? */
    HIST_OP_COUNT
};
enum { HIST_SLOTS_MAX = 8, HIST_NEVER = 0 };
#define HIST_OPEN INT64_MAX /* no answer: the call may take effect at any time */

struct hist_call {
    uint64_t id; /* from 1 */
    uint32_t client;
    uint32_t key; /* of hist.keys; a group, too */
    enum hist_op op;
    int64_t called_ns, ended_ns; /* HIST_OPEN: unknown whether it was done */
    uint64_t expected;           /* CAS, DELETE; COORD_ANY */
    int64_t ttl_ms;              /* requested; after the answer: granted */
    uint64_t lease;              /* id of the call that made it; RENEW, RELEASE, CHECK */
    uint32_t slots;              /* ACQUIRE: of the group */
    bool waits;                  /* ACQUIRE: until one is free */
    uint32_t session; /* STALE: number of the replica; reads of one session must not go back */
    int code, reason;
    uint64_t revision, token;
    uint32_t slot;
    bool seen;      /* ACQUIRE without an answer: another call saw it in `slot` */
    bool named;     /* ACQUIRE: other calls use its lease */
    uint64_t found; /* GET, STALE: id of the call that wrote it; 0: absent */
    uint64_t holders[HIST_SLOTS_MAX];
};
struct hist_event { /* reported by a watch */
    uint32_t watch, key;
    int type; /* enum coord_event_type */
    int64_t at_ns;
    uint64_t revision, token, value;
    uint64_t order; /* number of the line: the events of a watch are in order */
};
struct hist_fault { /* a replica's process ended: later reads are of another process */
    int64_t at_ns;
    uint32_t replica;
};
struct hist {
    struct hist_call *calls; /* by time of call */
    size_t call_count, call_cap;
    struct hist_event *events; /* by watch, in order */
    size_t event_count, event_cap;
    struct hist_fault *faults;
    size_t fault_count, fault_cap;
    char **keys;
    size_t key_count, key_cap;
    struct map by_key, by_id; /* name -> index + 1; id -> call, once it is sealed */
};

void hist_init(struct hist *h);
void hist_deinit(struct hist *h);
/* Adds lines of NDJSON; ERR_PARSE with the number of the line. */
enum err hist_read(struct hist *h, struct str text, struct note *note);
enum err hist_load(struct hist *h, const char *path, struct note *note);
/* Sorts, after the last line; ERR_INVALID when ids are not unique. */
enum err hist_seal(struct hist *h, struct note *note);
const struct hist_call *hist_call(const struct hist *h, uint64_t id); /* NULL: none */
const char *hist_op_name(enum hist_op op);
/* "get of k/3 by 4 (17, 1.250-1.260 s): OK, 12 at 31". */
void hist_describe(const struct hist *h, const struct hist_call *call, struct note *ret_text);

/* Whether the call may have changed something that no answer reported: no answer came, or an
 * acquire waited and may have got a slot too late for the answer. */
bool hist_in_doubt(const struct hist_call *call);
/* Whether the call changed something, or may have. */
bool hist_may_change(const struct hist_call *call);
#endif
