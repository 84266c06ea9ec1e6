/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of a process: status page, live numbers, probes and metrics on one listener. At the
 * address "0" there is none: what is said to it goes nowhere. */
#ifndef COMMON_SERVE_H
#define COMMON_SERVE_H
#include "common/instruments.h"
#include "common/status.h"

enum { SERVE_ADDRESS_CAP = 320 };
struct serve {
    struct instruments *instruments;
    char address[SERVE_ADDRESS_CAP]; /* with the real port; "": it is off */
    struct http_server *http;        /* NULL: it is off */
    struct http_channel *live;
};
/* The texts of both must outlive the listener. ERR_BUSY when the address is taken, with a note that
 * says what to do; what http_open answers. */
enum err serve_open(struct serve *serve, struct instruments *instruments,
                    const struct status_facts *facts, const struct http_options *http,
                    struct note *note);
void serve_close(struct serve *serve); /* fine on a zeroed one */
/* Gives the live page new numbers; `http` in them is filled in here. */
void serve_publish(struct serve *serve, const struct status_numbers *numbers);
#endif
