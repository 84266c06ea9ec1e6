/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the files of src/sim.
 *
 *   sim.c           the queue, the hash, running
 *   sim_host.c      turns, start and death of processes
 *   sim_clock.c     the clocks of a host
 *   sim_worker.c    jobs that take virtual time
 *   sim_disk.c      connects a process to its disk: costs, and no effects after death
 *   sim_link.c      packets between hosts, and all their faults
 *   sim_tcp.c       the kernel's side of a connection: bytes from packets
 *   sim_stream.c    the process's side of a connection
 *   sim_net.c       addresses, dialing, listening */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H
#include "io/io.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

#define SIM_WALL_START_NS (1767225600000ull * NS_PER_MS) /* 2026-01-01T00:00:00Z */
enum { SIM_EVENTS_WAITING_MAX = 1 << 22, SIM_BUCKETS = 64, SIM_EPHEMERAL_PORT_FIRST = 32768 };

struct sim {
    struct sim_options options;
    sim_time now;
    struct heap queue;
    size_t events_made, events_room;
    uint64_t events_run, hash, next_connection;
    struct prng net_prng, host_prng; /* two, so that hosts do not change the network's values */
    struct sim_link_faults new_link;
    struct sim_host *hosts[SIM_HOSTS_MAX];
    size_t host_count;
};

/* Work that waits for a turn of the host's process. */
struct sim_ready;
typedef void sim_ready_fn(struct sim_ready *ready);
struct sim_ready {
    struct list link;
    sim_ready_fn *fn;
};

struct sim_link {
    struct sim_link_faults faults;
    struct sim_link_stats stats;
    struct list held;
    sim_time clogged_until, last_arrival, free_at;
    size_t in_flight;
    bool blocked;
};

struct sim_clock {
    struct clock base;
    sim_time since; /* when the next three fields were set */
    uint64_t mono_ns;
    int64_t wall_ns;
    int64_t ppm;
};
struct sim_entropy {
    struct entropy base;
    struct prng prng;
};

struct sim_host {
    struct sim *sim;
    size_t index;
    char name[SIM_NAME_CAP], ip[SIM_NAME_CAP], alpn[SIM_NAME_CAP];
    struct sim_host_options options;
    struct io io;
    struct loop loop;
    struct sim_clock clock;
    struct sim_entropy entropy;
    struct prng cost_prng;
    struct net net;
    struct sim_fs *disk;
    uint64_t disk_calls_left; /* 0: no death is planned */
    enum sim_death disk_death;
    bool powered, loop_open;
    bool paused, frozen;
    bool turning; /* inside a turn: wakes are handled when the turn ends */
    bool dead;    /* actions of the process have no effect */
    bool doomed;  /* died inside a turn, and is destroyed when the turn ends */
    enum sim_death doom;
    bool stop_wanted, drains;
    uint64_t boots;
    const struct sim_process_ops *ops;
    void *context, *state;
    struct sim_event turn;
    sim_time busy_until;
    uint64_t spent_ns; /* time of blocking calls in this turn or job */
    bool in_job;
    struct list ready, posts;
    struct list streams, listeners, workers; /* open objects of the process */
    struct list unsent;                      /* streams with output of this turn */
    struct list sockets[SIM_BUCKETS];        /* the kernel's sockets, hashed by connection */
    size_t socket_count;
    uint16_t next_port;
    struct sim_link links[SIM_HOSTS_MAX];
};

/* -- sim.c -- */
/* Kinds of hashed events; not part of any format. */
enum sim_mark {
    SIM_MARK_TURN = 1,
    SIM_MARK_ARRIVE,
    SIM_MARK_LOSE,
    SIM_MARK_JOB,
    SIM_MARK_BOOT,
    SIM_MARK_DEATH,
    SIM_MARK_PAUSE,
    SIM_MARK_CLOCK,
    SIM_MARK_SOCKET,
    SIM_MARK_CALLER,
    SIM_MARK_LINK,
};
void sim_mark(struct sim *sim, enum sim_mark mark, const struct sim_host *host, uint64_t a,
              uint64_t b);

/* -- sim_clock.c -- */
void sim_clock_boot(struct sim_host *host);
/* first moment at which `due` is reached */
sim_time sim_clock_when(const struct sim_host *host, mono_time due);

/* -- sim_host.c -- */
void sim_host_schedule(struct sim_host *host); /* if there is something to do */
void sim_ready_init(struct sim_ready *ready, sim_ready_fn *fn);
void sim_host_ready(struct sim_host *host, struct sim_ready *ready);
void sim_host_bury_doomed(struct sim_host *host); /* destroys a process that died in a turn */
/* False: the process's actions have no effect. */
static inline bool sim_host_heard(const struct sim_host *host)
{
    return !host->dead && !host->doomed;
}

/* -- sim_worker.c -- */
enum err sim_worker_open(struct loop *loop, const struct worker_options *options,
                         struct loop_worker **ret_worker);
void sim_workers_death(struct sim_host *host); /* running and waiting jobs never continue */
void sim_workers_thaw(struct sim_host *host);  /* call after a pause */
void sim_workers_reclaim(struct sim_host *host);

/* -- sim_disk.c -- */
enum err sim_disk_open(struct sim_host *host);
void sim_disk_death(struct sim_host *host, enum sim_death death);

/* -- sim_link.c -- */
enum sim_packet_kind { SIM_SYN, SIM_SYN_ACK, SIM_DATA, SIM_RESET };
struct sim_packet {
    struct sim_event event;
    struct list link; /* in sim_link.held or in sim_socket.early */
    struct sim_host *from, *to;
    enum sim_packet_kind kind;
    uint64_t connection;
    uint8_t side;                   /* the receiving side: 0 dialed, 1 accepted */
    bool tls, fin, probe;           /* a probe has no data, but requires an answer */
    uint64_t sequence, ack, window; /* the receiver may send `window` bytes after `ack` */
    size_t len;
    char bytes[]; /* for SIM_SYN: the listener's key */
};
/* NULL: no memory; treat the packet as lost. */
struct sim_packet *sim_packet_new(struct sim_host *from, struct sim_host *to,
                                  enum sim_packet_kind kind, struct str bytes);
void sim_packet_free(struct sim_packet *packet); /* accepts NULL */
void sim_packet_send(struct sim_packet *own_packet);
void sim_links_init(struct sim_host *host);
void sim_links_drop(struct sim *sim); /* frees all packets in flight, when the world is closed */
void sim_tcp_receive(struct sim_packet *own_packet);

/* -- sim_net.c and sim_stream.c -- */
void sim_net_init(struct sim_host *host);
void sim_net_flush(struct sim_host *host); /* at the end of a turn */
void sim_net_death(struct sim_host *host, enum sim_death death);
void sim_net_reclaim(struct sim_host *host);
#endif
