/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of the reference provider: creates, joins, drains and removes hosts.
 *
 * The host (host.h) owns the book of machines: fencing, repeats, states, revisions, the state file.
 * A backend executes operations and reports how they ended. The backend never sees the book, and
 * can only refuse an operation by its `check`. Everything runs on the loop's thread. Neither side
 * calls the other back from inside a call: done() and seen() are called from a timer, a task or a
 * process end, never from within start().
 *
 * A backend may rely on this:
 *   - Before start() the operation is on disk. If the process is killed between start() and
 *     done(), the next process calls adopt() and start() with `again` set: same number, same
 *     content. The backend must find, by the machine's id, what was done before, and must not do
 *     it twice.
 *   - At most one operation of a machine is under way, in a passing state such as Creating.
 *   - Views (struct str, pointers, the offer) are valid during the call only.
 *
 * The backend promises this:
 *   - Each successful start() is followed by one done(), unless the machine was seen failed,
 *     reclaimed or removed meanwhile. Such a sighting ends the operation, and a later done() is
 *     dropped. The backend ends an operation that hangs, by its own time limit. */
#ifndef PROVIDER_HOST_BACKEND_H
#define PROVIDER_HOST_BACKEND_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "model/machine.h"

/* -- the properties of a machine that do not depend on its state -- */
enum {
    OFFER_RESOURCES_MAX = 16, /* limit of a shard, see docs/protocols/provider.md */
    OFFER_LABELS_MAX = 256,
};
struct offer {
    struct str instance_type, zone; /* texts; the zone may be empty */
    enum capacity_type capacity_type;
    double price_per_hour, interruption_probability;
    const struct label *resources, *allocatable; /* names with quantity texts, such as "cpu" "16" */
    size_t resource_count, allocatable_count;    /* allocatable_count 0: equal to resources */
    const struct label *labels;
    size_t label_count;
};

/* -- operations -- */
enum operation_kind {
    OPERATION_CREATE,    /* Speculative -> Creating -> Idle: the backend creates a host */
    OPERATION_CONFIGURE, /* Idle -> Configuring -> Configured: a ready node joins the cluster */
    OPERATION_DRAIN,     /* Configured -> Draining -> Idle: the node leaves its cluster */
    /* Idle or Failed -> Deleting -> Speculative: removes the host, keeps the id. A Failed machine
     * may have no host, or only parts of a host. */
    OPERATION_DELETE,
    OPERATION_KINDS,
};
const char *operation_kind_name(enum operation_kind kind); /* such as "create" */

struct backend_machine {
    struct str id;
    enum machine_state state;
    struct str host;           /* host name that done() of Create set, or empty without host */
    struct str cluster;        /* empty if the machine has no cluster */
    const struct offer *offer; /* never NULL */
};
/* Identifies an operation in this process; the backend returns it with done(). */
struct operation_ticket {
    uint64_t number; /* the wire has "op-<number>"; never reused; 0 means no operation */
    uint32_t place;  /* slot of the machine; only struct host uses it */
};
struct backend_operation {
    struct operation_ticket ticket;
    enum operation_kind kind;
    struct backend_machine machine;
    bool again;                   /* an earlier process, which has died, accepted the operation */
    struct str blob;              /* only for CONFIGURE, and if the backend `keeps_blobs` */
    const struct label *metadata; /* only for CONFIGURE: shard_metadata; values may contain NUL */
    size_t metadata_count;
    uint64_t grace_ms; /* only for DRAIN: time for pods to end, from the acceptance on */
};
struct operation_end {
    bool failed;
    struct str error; /* only if failed: last_error of the machine, never empty */
    struct str host;  /* only for CREATE: the host's name, at most 253 bytes; empty: "host-<id>" */
};

/* -- functions of the host for its backend -- */
enum sighting {
    SEEN_OFFERED, /* a machine exists (Speculative if it is new), or its offer has changed */
    SEEN_FAILED, /* the machine's host broke: the machine is Failed, and `why` becomes last_error */
    SEEN_RECLAIMED, /* the host is gone, but can be created again: Speculative */
    SEEN_REMOVED,   /* the machine is gone, and its id will not return */
    SIGHTINGS,
};
struct backend_host {
    /* Reports that an operation is over. Ignored if a sighting has already ended the operation. */
    void (*done)(struct backend_host *host, struct operation_ticket ticket,
                 const struct operation_end *end);
    /* `offer` is given only with SEEN_OFFERED. `why` is not empty with SEEN_FAILED. Ignores an
     * unknown id, except with SEEN_OFFERED. Errors change nothing: ERR_INVALID (an id, offer or
     * text that a shard would refuse; the note names the field), ERR_FULL (machines), ERR_NOMEM. */
    enum err (*seen)(struct backend_host *host, enum sighting what, struct str id,
                     const struct offer *offer, struct str why, struct note *note);
};

/* -- the backend -- */
struct backend;
struct backend_ops {
    const char *name; /* such as "catalogue" */
    /* True if Configure needs the blob, which then stays on disk until Configure is over. */
    bool keeps_blobs;
    bool ignores_offers; /* the backend needs no offers, so they stay empty, which saves time */
    /* Returns ERR_OK if the backend would execute the operation. ERR_UNSUPPORTED becomes
     * UNIMPLEMENTED on the wire; such a machine is never deleted. ERR_FULL (a quota) becomes
     * RESOURCE_EXHAUSTED. ERR_UNAVAILABLE is allowed, too; only the book returns ERR_PRECONDITION
     * and ERR_FENCED. A DELETE is asked first of all, other operations after the checks of fence
     * and state. Must not change anything. NULL allows every operation. */
    enum err (*check)(struct backend *backend, enum operation_kind kind,
                      const struct backend_machine *machine, struct note *note);
    /* The operation was accepted; start() follows once that is on disk. A quota counts from here on.
     * May be NULL. */
    void (*accepted)(struct backend *backend, enum operation_kind kind, struct str machine);
    /* Starts an operation. An error, with a note, fails the operation, and done() is not called. */
    enum err (*start)(struct backend *backend, const struct backend_operation *operation,
                      struct note *note);
    /* Called when the provider starts, before all other functions: once for each machine that is
     * not Speculative, in any order. May be NULL. */
    void (*adopt)(struct backend *backend, const struct backend_machine *machine);
    /* Called when all machines were adopted and all operations under way were started again. From
     * now on the backend may report sightings, also of new machines. */
    void (*ready)(struct backend *backend);
    /* Rereads the configuration (SIGHUP). An error keeps the old configuration. May be NULL. */
    enum err (*reload)(struct backend *backend, struct note *note);
    /* Frees the backend when the provider stops. The backend must not call done() or seen() any
     * more. Hosts keep running. */
    void (*close)(struct backend *backend);
};
struct backend { /* first member of every backend's own struct */
    const struct backend_ops *ops;
    struct backend_host *host; /* set before adopt() is called; must outlive the backend */
};
#endif
