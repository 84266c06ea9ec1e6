/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a connection that record their events, for the tests of the virtual network. */
#ifndef TESTS_UNIT_SIM_NET_PAIR_H
#define TESTS_UNIT_SIM_NET_PAIR_H
#include "base/buf.h"
#include "sim/sim.h"
#include "sim/sim_link.h"

struct end {
    struct stream *stream; /* NULL after on_closed */
    struct buf got;
    bool open, ended, closed, answer_end, close_in_bytes;
    unsigned drained, opens, ends, closes;
    enum err why;
    struct note note;
};
extern const struct stream_events end_events;

struct server {
    struct listener *listener;
    struct end ends[8]; /* in order of accept; more are closed */
    size_t accepted;
    bool answer_end; /* passed to each end: the end closes its side when the peer does */
};

struct pair {
    struct sim *sim;
    struct sim_host *a, *b;
    struct server server; /* on b, port 7000 */
    struct end client;    /* on a */
};

void end_deinit(struct end *end);
enum err end_dial(struct end *end, struct sim_host *host, const struct dial_options *options);
enum err end_write(struct end *end, struct str bytes);
enum err server_listen(struct server *server, struct sim_host *host,
                       const struct listen_options *options);
/* Two hosts, a server on the second; not yet connected. */
void pair_open(struct pair *pair, uint64_t seed);
void pair_connect(struct pair *pair);
void pair_close(struct pair *pair);
/* Runs until the end has so many bytes, or for `ms`. */
bool pair_wait_bytes(struct pair *pair, struct end *end, size_t len, uint64_t ms);
bool pair_wait_closed(struct pair *pair, struct end *end, uint64_t ms);
#endif
