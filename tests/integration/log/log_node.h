/* SPDX-License-Identifier: Apache-2.0 */
/* muster-log node, inside: one replica with the trial machine, and the text protocol by which
 * people and test drivers reach it. docs/log.md has the commands. */
#ifndef TESTS_INTEGRATION_LOG_LOG_NODE_H
#define TESTS_INTEGRATION_LOG_LOG_NODE_H
#include "io/real.h"
#include "log/datadir.h"
#include "log/log.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "trial/trial.h"

enum {
    LOG_NODE_LINE_MAX = TRIAL_VALUE_MAX + 4096,
    LOG_NODE_ASKED_MAX = 4096, /* requests of one connection that are not answered yet */
};
struct log_load;
struct log_node {
    struct real_io *real;
    struct logger *logger;
    struct log_source log;
    struct metrics *metrics;
    struct trial *trial;
    struct replica *replica;
    struct listener *listener;
    struct list connections;
    struct log_load *load; /* of a connection; one at a time */
    uint64_t load_key;     /* where its next one goes on */
    enum err stopped;
    struct note stopped_note;
};
struct command;
extern const struct command log_node_command; /* muster-log node */
/* Listens for drivers. */
enum err log_node_serve(struct log_node *node, const char *address, struct note *note);
void log_node_hang_up(struct log_node *node); /* before the replica is closed */

/* -- load: proposes by itself, as a service in this process would -- */
struct log_load_wish {
    uint32_t in_flight, size;
    uint64_t ms;
    uint64_t keys; /* 0: one register, else so many in turn */
};
struct log_load_figures {
    uint64_t done, failed, p50_us, p99_us, max_us, wall_ms, cpu_ms;
};
typedef void log_load_fn(void *owner, const struct log_load_figures *figures);
/* ERR_BUSY, ERR_INVALID, ERR_NOMEM. done() once, when the time is over and nothing is pending. */
enum err log_load_start(struct log_node *node, const struct log_load_wish *wish, log_load_fn *done,
                        void *owner);
void log_load_disown(struct log_node *node, void *owner); /* done() is not called any more */
void log_load_close(struct log_node *node);               /* after the replica is closed */
#endif
