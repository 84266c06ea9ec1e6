/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a provider one question at a time, and waits for each answer. Uses the client and readers of
 * src/provider, as a shard does, but with the caller's fencing tokens.
 *
 * SIGINT and SIGTERM do not end the program while a probe is open. The caller must check for them
 * and stop, because it may have to restore machines first. */
#ifndef CTL_PROVIDER_PROBE_H
#define CTL_PROVIDER_PROBE_H
#include "base/arena.h"
#include "base/map.h"
#include "model/machine.h"
#include "provider/client.h"

struct probe; /* used by one thread; owns its loop */
struct probe_options {
    const char *address, *shard;
    struct tls_context *tls; /* NULL: plaintext; held by reference */
    uint64_t timeout_ms;
    uint64_t dial_timeout_ms;
};
/* ERR_INVALID with a note (the address), ERR_NOMEM, ERR_IO. */
enum err probe_open(const struct probe_options *options, struct probe **ret_probe,
                    struct note *note);
void probe_close(struct probe *probe); /* NULL is fine */
bool probe_interrupted(const struct probe *probe);
void probe_forget_interrupt(struct probe *probe);
void probe_pause(struct probe *probe, uint64_t ms); /* ends early when interrupted */

enum { SEEN_TEXT_CAP = 256 };
struct machine_seen {
    enum machine_state state;
    bool host;
    double price;
    size_t metadata_count;
    uint64_t metadata; /* metadata_hash */
    char id[SEEN_TEXT_CAP], type[SEEN_TEXT_CAP], cluster[SEEN_TEXT_CAP];
    struct note last_error;
    struct note fault; /* why a shard would refuse this record, or empty */
};
/* The pairs must be sorted by key. */
uint64_t metadata_hash(const struct label *metadata, size_t count);

struct probe_answer {
    enum provider_end end; /* also UNKNOWN for an unreadable answer */
    enum grpc_status status;
    struct note text;              /* the provider's error text, or our own */
    char operation[SEEN_TEXT_CAP]; /* set when a call that changes something is DONE */
    struct machine_seen machine;   /* set when the call is DONE */
};
void probe_call(struct probe *probe, const struct provider_request *request,
                struct probe_answer *ret_answer);

/* The result of a List: one page, or all pages. */
struct probe_listing {
    struct arena memory;
    struct map ids;
    struct str watched; /* the machine id for `seen`, set by the caller */
    struct machine_seen seen;
    /* May be NULL. */
    void (*each)(void *context, const struct machine_seen *machine);
    void *context;

    struct probe_answer end;
    uint64_t machines, states[MACHINE_STATE_COUNT];
    uint64_t faults, repeated;
    struct note fault; /* the first */
    uint32_t pages;
    bool tombstones, more;          /* from here on of the last page only */
    struct str revision, next_page; /* in `memory` */
};
void probe_listing_init(struct probe_listing *listing);
void probe_listing_deinit(struct probe_listing *listing);
/* Adds pages to the listing. */
void probe_list(struct probe *probe, const struct provider_fetch_request *request,
                struct probe_listing *listing);
#endif
