/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's contract as facts that are tested on a running provider (docs/spec/wire.md,
 * sections 3.2, 8 and 9).
 *
 * Reads come first. Then one spare machine lives through all states, and a second one serves for
 * rules about two machines. Only machines that were Speculative or Idle are changed, and are
 * returned to that state. The test stops if a machine shows a foreign cluster. It never deletes an
 * Idle machine.
 *
 * Every call has a fencing token of an unused shard id, so no real shard is fenced. */
#ifndef CTL_PROVIDER_FACTS_H
#define CTL_PROVIDER_FACTS_H
#include "ctl/provider_probe.h"

/* clang-format off */
#define FACT_MAP(X)                                                                                \
    X(LIST,         "B7",  "List can be read to its end; each record is sound, and there once")    \
    X(LIST_MAX,     "B6",  "List with max_results 1 has one machine at most")                      \
    X(LIST_STATES,  "B5",  "List with a state has only machines in that state")                    \
    X(LIST_ODD,     "L1",  "a state that nobody knows is INVALID_ARGUMENT, and 0 matches nothing") \
    X(LIST_CURSOR,  "L2",  "a cursor that it did not give means everything")                       \
    X(LIST_PAGES,   "L3",  "pages are the List, each machine once")                                \
    X(GET,          "L4",  "Get and List return the same machine")                                 \
    X(NO_ID,        "A1",  "a call without a machine is INVALID_ARGUMENT")                         \
    X(GET_UNKNOWN,  "B3",  "Get of an unknown machine is NOT_FOUND")                               \
    X(UNKNOWN,      "B4",  "so are the four changes; Delete may be UNIMPLEMENTED")                 \
    X(SPECULATIVE,  "B9",  "Drain and Configure of a Speculative machine: refused, not fenced")    \
    X(RECORDED,     "F1",  "a token counts, although its call was refused")                        \
    X(ACK,          "A2",  "an answer has an operation and the machine, moving or there")          \
    X(TWICE,        "P1",  "the same token twice is fenced")                                       \
    X(OLD_EPOCH,    "P2",  "an older epoch is fenced, whatever its number")                        \
    X(OLD_NUMBER,   "P3",  "an older number is fenced")                                            \
    X(PER_MACHINE,  "P4",  "the mark is per machine")                                              \
    X(NEW_EPOCH,    "P5",  "in a new epoch any number is new")                                     \
    X(READING,      "P6",  "who is fenced may still read")                                         \
    X(NO_TOKEN,     "F2",  "a call without a shard id has no token, and is not fenced")            \
    X(REPEAT,       "B2",  "the same call again is the same operation, under way and done")        \
    X(CREATE,       "B1a", "Create ends Idle, with a host")                                        \
    X(WAY,          "B11", "only states on the way are seen, and none comes back")                 \
    X(RECORDS,      "B7b", "on the way each record has what its state needs")                      \
    X(REVISION,     "B8",  "a change is a new revision, and is in the List after the old one")     \
    X(DEPOSED,      "P7",  "a deposed shard changes nothing of what its successor did")            \
    X(CONFIGURE,    "B1b", "Configure ends Configured")                                            \
    X(BOUND,        "B13", "cluster and metadata come back as given, at once, by Get and List")    \
    X(CONFIGURED,   "B10", "Delete and Create of a Configured machine: refused, not fenced")       \
    X(DRAIN,        "B1c", "Drain ends Idle")                                                      \
    X(DRAINING,     "D1",  "cluster and metadata stay while Draining")                             \
    X(UNBOUND,      "B14", "both are gone at Idle")                                                \
    X(NEW_LIFE,     "O1",  "another Configure is another operation, with its own metadata only")   \
    X(NO_GRACE,     "B12", "Drain without grace ends Idle, or Failed with an error")               \
    X(DELETE,       "B1d", "Delete ends Speculative; the host is gone, the id stays")              \
    X(READY,        "B16", "Configured only after the node was seen ready")                        \
    X(PUT_BACK,     "Z",   "the machines are as they were")
/* clang-format on */
enum fact {
#define X(name, id, rule) FACT_##name,
    FACT_MAP(X)
#undef X
        FACT_COUNT
};
enum fact_result { FACT_SKIPPED, FACT_PASS, FACT_FAIL, FACT_RESULTS };
struct fact_entry {
    const char *id, *rule;
    enum fact_result result;
    const char *seen; /* what was observed, or why the fact was not tested */
};

enum { SPARES_MAX = 2 };
struct spare {
    char id[SEEN_TEXT_CAP], type[SEEN_TEXT_CAP];
    double price;
    enum machine_state before;
    bool taken; /* our calls may have changed this machine */
    bool lost;  /* somebody else uses this machine; do not change it */
    char after[MACHINE_NAME_CAP];
};
struct provider_facts {
    struct probe *probe;
    struct arena *memory;
    const char *shard;
    bool shard_given; /* `shard` is from the certificate, and calls need a token */
    const char *cluster;
    struct str blob;
    uint64_t wait_ms; /* limit of a transition */
    /* Restrict the choice of spare machines. */
    const struct str *ids; /* only these */
    size_t id_count;
    const char *type; /* NULL: any type */
    struct spare spares[SPARES_MAX];
    size_t spare_count;

    struct probe_listing listing; /* the last List */
    struct fact_entry entries[FACT_COUNT];
    int64_t epoch, sequence;
    uint64_t machines;
    const char *stopped; /* why further facts are not tested; or NULL */
    bool no_delete;
};

/* Set the members above `spares` first. */
void facts_init(struct provider_facts *facts, int64_t epoch);
/* Tests everything that only reads, and chooses spare machines. ERR_UNAVAILABLE with a note: no
 * answer. ERR_NOT_FOUND, ERR_PRECONDITION: the requested machines cannot be used. */
enum err facts_read(struct provider_facts *facts, struct note *note);
void facts_change(struct provider_facts *facts);
void facts_put_back(struct provider_facts *facts);
const char *fact_result_name(enum fact_result result); /* "PASS" */
#endif
