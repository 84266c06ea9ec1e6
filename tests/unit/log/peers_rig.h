/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes with peers and nothing above, over virtual time or real sockets, and a stranger whose every
 * byte the test chooses. The events of each node are recorded. */
#ifndef TESTS_UNIT_LOG_PEERS_RIG_H
#define TESTS_UNIT_LOG_PEERS_RIG_H
#include "io/real.h"
#include "lib/test.h"
#include "log/peers.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

enum {
    RIG_NODES = 4,
    RIG_STRANGERS = 80,
    RIG_CLUSTER = 0xc1,
    RIG_WAIT_MS = 60000,      /* only against a hang; the test measures nothing */
    RIG_IDLE_MS = 900,        /* in virtual time */
    RIG_REAL_IDLE_MS = 30000, /* over sockets: a paused machine ends no connection */
};
struct rig;
struct node {
    struct rig *rig;
    struct io *io;
    struct sim_host *host; /* NULL over real sockets */
    struct peers *peers;
    struct loop_worker *worker;
    struct metrics *metrics;
    struct logger *logger;
    struct log_source log_source;
    struct buf log;
    uint64_t id;
    char address[64];
    bool refuse;           /* answers false to every frame */
    uint64_t refuse_after; /* so many more frames are accepted first */
    bool refuse_cluster;
    bool refuse_snap; /* closes the connection of a snapshot's sender after the start */
    /* received frames */
    uint64_t frames, refused, entries, entry_bytes, hellos, addresses, snaps_lost, snaps_whole,
        clusters;
    uint64_t by_kind[FRAME_KIND_COUNT];
    uint64_t from;          /* of the last frame */
    struct peer_frame last; /* its views are gone */
    uint64_t last_index, last_term, entries_hash;
    uint32_t last_level;
    char last_address[REPLICA_ADDRESS_MAX + 1];
    struct frame_snap_begin snap;
    struct buf snap_bytes;
    uint64_t sent_count, sent_to, sent_id;
    enum err sent_err;
    uint64_t order_errors;
};
/* A connection by hand. */
struct stranger {
    struct rig *rig;
    struct io *io;
    struct stream *stream;
    bool open, closed, ended, deaf;
    enum err why;
    struct buf got;
    size_t got_at;
    struct frame_link in, out;
    uint64_t nonce;
};
struct rig {
    bool real;
    struct real_io *real_io;
    struct timer deadline;
    bool late;
    struct sim *sim;
    struct sim_host *stranger_host;
    const struct tls_identity *identities[RIG_NODES + 1]; /* virtual TLS; the last: strangers */
    bool tls;
    struct tls_context *tls_server, *tls_client, *tls_stranger; /* real TLS */
    size_t queue_bytes;
    uint64_t idle_ms;
    struct node nodes[RIG_NODES];
    struct stranger strangers[RIG_STRANGERS];
};
extern struct rig rig;

/* Set fields of `rig` before, if the defaults do not fit; rig_close resets it. */
void rig_open(bool real);
void rig_close(void);
struct io *rig_io(size_t node);
/* Node i has the id i + 1. `cluster_id` 0: a joiner. */
struct node *rig_node_open(size_t i, uint64_t cluster_id);
struct node *rig_node_open_as(size_t i, uint64_t cluster_id, uint64_t id);
void rig_node_close(size_t i);
void rig_node_set(size_t i, size_t count, ...); /* the ids of existing nodes */
/* Value of muster_log_peer_<family>_total with one label. */
uint64_t rig_node_counter(struct node *node, const char *family, const char *label);
uint64_t rig_refused(struct node *node, const char *reason);
size_t rig_node_log_count(struct node *node, const char *part);
bool rig_turn(void); /* false: the deadline passed */
void rig_run(uint64_t ms);
uint64_t rig_ms(void);                                         /* virtual time */
void rig_write_file(size_t i, const char *path, size_t bytes); /* of a known pattern */
char *rig_path(size_t i, const char *name);                    /* the test's; static */

struct stranger *stranger_dial(size_t i, struct node *to);
void stranger_close(struct stranger *s);
void stranger_write(struct stranger *s, struct str bytes);
void stranger_send(struct stranger *s, const struct peer_frame *frame);
struct peer_frame stranger_hello(uint64_t from, uint64_t to, enum frame_lane lane);
/* Sends hello and reads the answer; "meet" also reads the beat after it. */
void stranger_greet(struct stranger *s, uint64_t from, struct node *to, enum frame_lane lane);
void stranger_meet(struct stranger *s, uint64_t from, struct node *to, enum frame_lane lane);
bool stranger_take(struct stranger *s,
                   struct peer_frame *ret_frame); /* a complete received frame */

#define RIG_UNTIL(why, condition)                                                                  \
    do {                                                                                           \
        rig.late = false;                                                                          \
        while (!(condition) && rig_turn()) continue;                                               \
        CHECK(why, condition);                                                                     \
    } while (0)
/* Runs the test in virtual time and over the kernel's sockets. */
#define TEST_BOTH(name)                                                                            \
    static void name(void);                                                                        \
    TEST(name##_in_virtual_time)                                                                   \
    {                                                                                              \
        rig.real = false;                                                                          \
        name();                                                                                    \
    }                                                                                              \
    TEST(name##_over_sockets)                                                                      \
    {                                                                                              \
        rig.real = true;                                                                           \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)
#endif
