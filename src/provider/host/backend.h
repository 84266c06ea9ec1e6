/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of the reference provider: creates, joins, drains and removes hosts. Runs on the loop's
 * thread.
 *
 * The host (host.h) owns the book of machines: fencing, repeats, states, revisions, the state file.
 * A backend executes operations and reports how they ended. It calls done() and seen() from a
 * timer, a task or a process end, never from inside a call of the host.
 *
 * Before start() the operation is on disk. After a crash before done(), the next process calls
 * adopt(), then start() with `again` set and the same content. The backend must not do twice what
 * it finds done. At most one operation of a machine is under way. Views (struct str, pointers, the
 * offer) are valid during the call only.
 *
 * The backend ends each successful start() with one done(). Exception: a sighting of the machine as
 * failed, reclaimed or removed also ends the operation. The backend must end an operation that
 * hangs. */
#ifndef PROVIDER_HOST_BACKEND_H
#define PROVIDER_HOST_BACKEND_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "model/machine.h"

/* -- the properties of a machine that do not depend on its state -- */
enum {
    OFFER_RESOURCES_MAX = 16, /* a shard's limit (docs/protocols/provider.md) */
    OFFER_LABELS_MAX = 256,
};
struct offer {
    struct str instance_type, zone; /* the zone may be empty */
    enum capacity_type capacity_type;
    double price_per_hour, interruption_probability;
    const struct label *resources, *allocatable; /* name and quantity, such as "cpu" "16" */
    size_t resource_count, allocatable_count;    /* allocatable_count 0: equal to resources */
    const struct label *labels;
    size_t label_count;
};

/* -- operations -- */
enum operation_kind {
    OPERATION_CREATE,    /* Speculative -> Creating -> Idle: creates a host */
    OPERATION_CONFIGURE, /* Idle -> Configuring -> Configured: joins the cluster */
    OPERATION_DRAIN,     /* Configured -> Draining -> Idle: leaves the cluster */
    /* Idle or Failed -> Deleting -> Speculative: removes the host, keeps the id. A Failed machine
     * may have no host, or only parts of a host. */
    OPERATION_DELETE,
    OPERATION_KINDS,
};
const char *operation_kind_name(enum operation_kind kind); /* such as "create" */

struct backend_machine {
    struct str id;
    enum machine_state state;
    struct str host;           /* from done() of Create; empty: no host */
    struct str cluster;        /* empty: no cluster */
    const struct offer *offer; /* never NULL */
};
/* Identifies an operation in this process; the backend returns it with done(). */
struct operation_ticket {
    uint64_t number; /* the wire has "op-<number>"; never reused; 0: no operation */
    uint32_t place;  /* the machine's slot; only for struct host */
};
struct backend_operation {
    struct operation_ticket ticket;
    enum operation_kind kind;
    struct backend_machine machine;
    bool again;
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
    SEEN_OFFERED,   /* a machine exists, or its offer has changed */
    SEEN_FAILED,    /* the machine becomes Failed with `why` as last_error */
    SEEN_RECLAIMED, /* the host is gone, but can be created again: Speculative */
    SEEN_REMOVED,   /* the machine is gone, and its id will not return */
    SIGHTINGS,
};
struct backend_host {
    /* Ends an operation, unless a sighting has ended it. */
    void (*done)(struct backend_host *host, struct operation_ticket ticket,
                 const struct operation_end *end);
    /* Reports a machine. Only SEEN_OFFERED has an `offer`, and adds an unknown id. `why` is not
     * empty with SEEN_FAILED. After an error nothing has changed.
     *   ERR_INVALID   an id, offer or text that a shard would refuse; the note names the field
     *   ERR_FULL      too many machines
     *   ERR_NOMEM */
    enum err (*seen)(struct backend_host *host, enum sighting what, struct str id,
                     const struct offer *offer, struct str why, struct note *note);
};

/* -- the backend -- */
struct backend;
struct backend_ops {
    const char *name; /* such as "catalogue" */
    /* True if Configure needs the blob, which then stays on disk until Configure is over. */
    bool keeps_blobs;
    bool ignores_offers; /* offers stay empty, which saves time */
    /* Returns whether the backend would execute the operation. Must not change anything. NULL:
     * executes every operation.
     *   ERR_UNSUPPORTED   UNIMPLEMENTED on the wire; the machine is never deleted
     *   ERR_FULL          a quota: RESOURCE_EXHAUSTED on the wire
     *   ERR_UNAVAILABLE
     * For a DELETE, check() is called before all other checks. */
    enum err (*check)(struct backend *backend, enum operation_kind kind,
                      const struct backend_machine *machine, struct note *note);
    /* The operation was accepted; start() follows once that is on disk. A quota counts from here
     * on. May be NULL. */
    void (*accepted)(struct backend *backend, enum operation_kind kind, struct str machine);
    /* An error, with a note, fails the operation, and done() is not called. */
    enum err (*start)(struct backend *backend, const struct backend_operation *operation,
                      struct note *note);
    /* Called first, once for each machine that is not Speculative, in any order. May be NULL. */
    void (*adopt)(struct backend *backend, const struct backend_machine *machine);
    /* All machines were adopted and all operations under way started again. Sightings are allowed
     * from now on. */
    void (*ready)(struct backend *backend);
    /* Reads the configuration again (SIGHUP). After an error the present configuration stays. May
     * be NULL. */
    enum err (*reload)(struct backend *backend, struct note *note);
    /* Frees the backend, which must not call done() or seen() any more. Hosts keep running. */
    void (*close)(struct backend *backend);
};
struct backend {
    const struct backend_ops *ops;
    struct backend_host *host; /* set before adopt() is called; outlives the backend */
};
#endif
