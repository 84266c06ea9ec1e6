/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated world in one thread, from one seed: hosts with clocks, network, disks and worker
 * threads. A process's code runs there unchanged, because it uses only a `struct io`.
 *
 * Events run in the order of virtual time, then of scheduling. Two runs with the same seed and the
 * same calls have the same sim_hash. A host has a machine (power, kernel, disk, clock) and at most
 * one process. The kernel's part of a connection survives a kill of the process, but not a power
 * cut. A turn takes no virtual time while it runs; its cost delays the next turn.
 *
 * sim_process_ops.destroy() frees the memory of a dead process. No action of a dead process reaches
 * the network or the disk, and no timer, hook or job of it runs. destroy() has two choices:
 *   - It calls the close functions as in an orderly stop. Their callbacks run right after destroy()
 *     returns, and the last callback may free the state.
 *   - It frees the memory in this call. Then the world closes the process's streams, listeners and
 *     worker threads without callbacks. No task of the process's loop may be waiting then.
 * A checker must ignore everything that a dead process reports. */
#ifndef SIM_SIM_H
#define SIM_SIM_H
#include "base/heap.h"
#include "base/note.h"
#include "base/prng.h"
#include "io/io.h"
#include "sim/sim_fs.h"

struct sim;
struct sim_host;
typedef struct {
    uint64_t ns;
} sim_time; /* nanoseconds since the world was opened */

#define SIM_NEVER ((sim_time){UINT64_MAX})
enum {
    SIM_HOSTS_MAX = 64,
    SIM_NAME_CAP = 32, /* with the closing NUL */
};

/* -- the world -- */
struct sim_options {
    uint64_t seed;
    uint64_t events_max; /* 0: 200 million */
    uint64_t give_up_ms; /* a connection with unanswered bytes breaks after this time; 0: 20 s */
    void (*trace)(void *context, sim_time now, const char *host, const char *text);
    void *trace_context;
};
enum err sim_open(const struct sim_options *options, struct sim **ret_sim); /* ERR_NOMEM */
void sim_close(struct sim *sim); /* destroys every process first; accepts NULL */
sim_time sim_now(const struct sim *sim);
uint64_t sim_events(const struct sim *sim);
uint64_t sim_hash(const struct sim *sim);
/* Adds a line to the trace and the hash. `host` may be NULL. */
void sim_trace(struct sim *sim, const struct sim_host *host, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -- running -- */
enum sim_end {
    SIM_REACHED, /* the time has passed, or the condition is true */
    SIM_LATE,    /* the time ended before the condition was true */
    SIM_QUIET,
    SIM_EXHAUSTED, /* events_max is reached */
};
bool sim_step(struct sim *sim); /* false: no events, or events_max is reached */
enum sim_end sim_run_for(struct sim *sim, uint64_t ms);
/* Checks `holds` after every event. */
enum sim_end sim_wait(struct sim *sim, bool (*holds)(void *context), void *context, uint64_t ms);

/* -- the caller's own events (faults, workloads), embedded in the caller's struct -- */
struct sim_event;
typedef void sim_event_fn(struct sim_event *event);
struct sim_event {
    struct heap_node node;
    struct sim *sim;
    sim_event_fn *fn;
};
/* Reserves space in the queue, so that scheduling cannot fail. ERR_FULL, ERR_NOMEM. */
enum err sim_event_init(struct sim_event *event, struct sim *sim, sim_event_fn *fn);
void sim_event_deinit(struct sim_event *event);          /* a zeroed event is allowed */
void sim_event_at(struct sim_event *event, sim_time at); /* moves a scheduled event */
void sim_event_in(struct sim_event *event, uint64_t delay_ns);
void sim_event_cancel(struct sim_event *event);

/* -- hosts -- */
struct tls_identity;
struct sim_host_options {
    const char *name; /* letters, digits, '-' and '.'; every host resolves the name */
    /* Shown to peers if both sides of a connection have a TLS context. TLS itself is not
     * simulated. */
    const struct tls_identity *identity; /* borrowed for the life of the host; may be NULL */
    const char *alpn;                    /* negotiated on TLS connections; NULL: "" */
    /* Zeroed options: a disk that keeps everything and never fails. A call costs 3 us plus 1 us per
     * KiB, a sync 50 to 500 us. The host sets the cost function and the clock. */
    struct sim_fs_options disk;
};
/* Adds a host that is on and has no process. The host lives as long as the world. ERR_INVALID,
 * ERR_EXISTS (name), ERR_FULL, ERR_NOMEM. */
enum err sim_host_add(struct sim *sim, const struct sim_host_options *options,
                      struct sim_host **ret_host);
/* Valid for the host's life. The objects in the io are replaced when a process dies. */
struct io *sim_host_io(struct sim_host *host);
struct sim_fs *sim_host_disk(struct sim_host *host); /* to change the disk's fault options */

/* -- processes -- */
struct sim_process_ops {
    /* Called in a turn of the host's loop. After an error start() must have closed everything. */
    enum err (*start)(struct io *io, void *context, void **ret_state);
    void (*stop)(void *state);    /* asks the process to end, in a turn; may be NULL */
    void (*destroy)(void *state); /* see the top of this file */
};
/* For a process with threads (sim/threads), called in start(): the threads must end by themselves.
 * After the process's death its timers fire one after another, without time passing, until none is
 * left. */
void sim_process_drains(struct io *io);
/* The io of the process whose turn or death is being run, or NULL. */
const struct io *sim_io_of_turn(void);
enum sim_death {
    SIM_KILLED,    /* SIGKILL: the kernel closes the connections; files stay */
    SIM_POWER_CUT, /* connections become silent; a peer gets a reset only after the next boot */
};
/* Starts a process; boots the machine if it is off. The host must have no process. Not allowed
 * inside a turn. Returns the result of start(). */
enum err sim_host_start(struct sim_host *host, const struct sim_process_ops *ops, void *context);
enum err sim_host_restart(struct sim_host *host); /* with the arguments of the last start */
void sim_host_stop(struct sim_host *host);        /* calls ops->stop in a turn; does not wait */
/* Kills the process, if there is one. A turn of the host that calls this goes on, but its further
 * actions have no effect. */
void sim_host_die(struct sim_host *host, enum sim_death death);
/* Plans a sim_host_die just before the nth disk call from now. 0 cancels the plan. */
void sim_host_die_at_disk_call(struct sim_host *host, uint64_t nth, enum sim_death death);
enum sim_pause {
    SIM_PAUSE_PROCESS, /* SIGSTOP: no turn or job runs; the kernel still acknowledges data */
    SIM_PAUSE_MACHINE, /* a frozen virtual machine: packets to the host are lost */
};
void sim_host_pause(struct sim_host *host, enum sim_pause pause);
void sim_host_resume(struct sim_host *host);        /* the clock jumps; no effect if not paused */
bool sim_host_running(const struct sim_host *host); /* has a process, maybe paused */
bool sim_host_paused(const struct sim_host *host);

/* -- clocks -- */
/* The host's clocks run `ppm` parts per million faster than simulated time, from -500,000 to
 * 500,000. */
void sim_host_clock_rate(struct sim_host *host, int32_t ppm);
/* Moves only the wall clock. The monotonic clock never jumps. */
void sim_host_clock_step(struct sim_host *host, int64_t ms);
#endif
