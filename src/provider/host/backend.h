/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of the reference provider: creates, joins, drains and removes hosts.
 *
 * The host (host.h) owns the book of machines: fencing, repeats, states, revisions, the state file.
 * A backend executes operations and reports how they ended; it never sees the book, and it decides
 * whether an operation is allowed only in `check`. Everything runs on the loop's thread, and
 * neither side calls the other back from inside a call: done() and the sightings come from a timer,
 * a task or a process that ended, never from within start().
 *
 * A backend may rely on this:
 *  - Before start() the operation is on disk. After kill -9 between start() and done() come adopt()
 *    and start() with `again` set: the same number, the same content. The backend must find, by the
 *    machine's id, what was done before, and must not do it twice.
 *  - At most one operation of a machine is under way, and a machine whose operation is under way is
 *    in its passing state.
 *  - Views (struct str, pointers) are valid during the call only; the offer for as long.
 *
 * What it promises:
 *  - For each start() that took its operation one done(), however long it takes, unless the
 *    machine was seen failed, reclaimed or removed meanwhile: that ends its operation, and a later
 *    done() is dropped. The backend ends an operation that hangs, by its own time limit. */
#ifndef PROVIDER_HOST_BACKEND_H
#define PROVIDER_HOST_BACKEND_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "model/machine.h"

/* -- what a machine is, in whatever state -- */
enum {
    OFFER_RESOURCES_MAX = 16, /* what a shard reads: docs/protocols/provider.md */
    OFFER_LABELS_MAX = 256,
};
struct offer {
    struct str instance_type, zone; /* the zone may be empty */
    enum capacity_type capacity_type;
    double price_per_hour, interruption_probability;
    const struct label *resources, *allocatable; /* name and quantity text: "cpu" "16" */
    size_t resource_count, allocatable_count;    /* no allocatable: the same as resources */
    const struct label *labels;
    size_t label_count;
};

/* -- operations -- */
enum operation_kind {
    OPERATION_CREATE,    /* Speculative, Creating, Idle: a host appears */
    OPERATION_CONFIGURE, /* Idle, Configuring, Configured: its node is ready in its cluster */
    OPERATION_DRAIN,     /* Configured, Draining, Idle: it left its cluster */
    OPERATION_DELETE,    /* Idle or Failed, Deleting, Speculative: the host is gone, the id stays.
                            Of a Failed one there may be nothing left to remove, or a part */
    OPERATION_KINDS,
};
const char *operation_kind_name(enum operation_kind kind); /* "create" */

struct backend_machine {
    struct str id;
    enum machine_state state;
    struct str host;           /* what done() of its Create called it; empty: no host */
    struct str cluster;        /* empty: none */
    const struct offer *offer; /* never NULL */
};
/* Names an operation in this process; done() gives it back. */
struct operation_ticket {
    uint64_t number; /* "op-<number>" on the wire; never given out twice. 0: none */
    uint32_t place;  /* the host's */
};
struct backend_operation {
    struct operation_ticket ticket;
    enum operation_kind kind;
    struct backend_machine machine;
    bool again;                   /* accepted by a process that died since */
    struct str blob;              /* CONFIGURE, of a backend that `keeps_blobs` */
    const struct label *metadata; /* CONFIGURE: shard_metadata; values may hold NUL */
    size_t metadata_count;
    uint64_t grace_ms; /* DRAIN: how long pods may take; counted from acceptance */
};
struct operation_end {
    bool failed;
    struct str error; /* failed: becomes last_error; never empty then */
    struct str host;  /* CREATE: the provider's name of the host, at most 253 bytes of text; empty:
                         "host-" and the id */
};

/* -- what the host offers its backend -- */
enum sighting {
    SEEN_OFFERED,   /* here is a machine, Speculative if it is new; or its offer has changed */
    SEEN_FAILED,    /* its host broke: Failed, `why` becomes last_error */
    SEEN_RECLAIMED, /* the host is gone and could be created anew: Speculative */
    SEEN_REMOVED,   /* gone for good, the id too */
    SIGHTINGS,
};
struct backend_host {
    /* The operation is over. One that a sighting has ended is dropped. */
    void (*done)(struct backend_host *host, struct operation_ticket ticket,
                 const struct operation_end *end);
    /* `offer`: SEEN_OFFERED only. `why`: never empty for SEEN_FAILED. An id the book does not know
     * is dropped, but for SEEN_OFFERED. ERR_INVALID (an id, offer or text that a shard would
     * refuse, named in the note), ERR_FULL (machines), ERR_NOMEM: nothing has changed. */
    enum err (*seen)(struct backend_host *host, enum sighting what, struct str id,
                     const struct offer *offer, struct str why, struct note *note);
};

/* -- the backend -- */
struct backend;
struct backend_ops {
    const char *name; /* "catalogue" */
    bool keeps_blobs; /* wants bootstrap_blob, also after a restart: it is kept on disk until the
                         Configure is over */
    /* Whether it would do it at all: ERR_OK; ERR_UNSUPPORTED (UNIMPLEMENTED on the wire: such a
     * machine is never deleted), ERR_FULL (a quota: RESOURCE_EXHAUSTED), ERR_UNAVAILABLE; never
     * ERR_PRECONDITION or ERR_FENCED, which are the book's. Asked after the fence and the state,
     * and must not change anything. NULL: all is fine. */
    enum err (*check)(struct backend *backend, enum operation_kind kind,
                      const struct backend_machine *machine, struct note *note);
    /* An error, with a note: the operation was not begun and fails; done() never comes. */
    enum err (*start)(struct backend *backend, const struct backend_operation *operation,
                      struct note *note);
    /* At start, before anything else: once for each machine that is not Speculative, in no order.
     * NULL: not interested. */
    void (*adopt)(struct backend *backend, const struct backend_machine *machine);
    /* All were adopted, and all operations under way started again. From here on sightings may
     * come, those of new machines too. */
    void (*ready)(struct backend *backend);
    /* Read the configuration again (SIGHUP). Fails: what was in force stays. May be NULL. */
    enum err (*reload)(struct backend *backend, struct note *note);
    /* The provider stops: neither done() nor a sighting after this. Hosts live on. Frees. */
    void (*close)(struct backend *backend);
};
struct backend { /* first in every backend's own struct */
    const struct backend_ops *ops;
    struct backend_host *host; /* set before adopt(); outlives the backend */
};
#endif
