/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of a process: the status page (assets/status.html) with its live numbers, probes
 * and metrics on one listener. At the address "0" there is none: what is sent to it is dropped.
 *
 * The surprising rule: the server forbids inline style and script (Content-Security-Policy), so
 * both are served at paths of their own, and the page holds neither. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H
#include "common/instruments.h"

enum { STATUS_ADDRESS_CAP = 320 };
struct status_facts { /* what the page shows for {command} and its like */
    const char *command, *version, *commit, *data_dir;
    const char *warning; /* shown on top; NULL: none */
};
struct status_server {
    struct instruments *instruments;
    char address[STATUS_ADDRESS_CAP]; /* with the real port; "": it is off */
    struct http_server *http;         /* NULL: it is off */
    struct http_channel *live;
};
/* The texts of both must outlive the listener. ERR_BUSY when the address is taken, with a note that
 * says what to do; what http_open answers. */
enum err status_server_open(struct status_server *server, struct instruments *instruments,
                            const struct status_facts *facts, const struct http_options *http,
                            struct note *note);
void status_server_close(struct status_server *server); /* fine on a zeroed one */
/* Sends the live page new numbers. */
void status_server_send(struct status_server *server, uint64_t uptime_ms, struct loop_stats loop);
#endif
