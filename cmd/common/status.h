/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of a process: one listener for the status page (assets/status.html) with its live
 * numbers, the probes and the metrics. The address "0" turns the listener off and drops all sends.
 *
 * Style and script have their own paths: the Content-Security-Policy forbids both in a page. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H
#include "common/instruments.h"

enum { STATUS_ADDRESS_CAP = 320 };
struct status_facts { /* values for the placeholders of the page */
    const char *command, *version, *commit, *data_dir;
    const char *warning; /* shown at the top of the page; NULL: no warning */
};
struct status_server {
    struct instruments *instruments;
    char address[STATUS_ADDRESS_CAP]; /* "" if HTTP is off */
    struct http_server *http;         /* NULL: HTTP is off */
    struct http_channel *live;
};
/* The texts in `facts` and `http` must outlive the listener. ERR_BUSY: the address is taken. Also
 * errors of http_open. */
enum err status_server_open(struct status_server *server, struct instruments *instruments,
                            const struct status_facts *facts, const struct http_options *http,
                            struct note *note);
void status_server_close(struct status_server *server); /* a zeroed server is fine */
void status_server_send(struct status_server *server, uint64_t uptime_ms, struct loop_stats loop);
#endif
