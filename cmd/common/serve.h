/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of a process: status page, live numbers, probes and metrics on one listener. At the
 * address "0" there is none: what is said to it goes nowhere. */
#ifndef COMMON_SERVE_H
#define COMMON_SERVE_H
#include "common/instruments.h"
#include "common/status.h"

struct serve;
struct serve_options {
    struct status_facts facts;                  /* its texts must outlive the listener */
    const char *address, *cert_file, *key_file; /* the same */
    const char *ca_file;                        /* the same; NULL: callers are not asked */
    struct instruments *instruments;
};
/* ERR_BUSY when the address is taken, with a note that says what to do; what http_open answers. */
enum err serve_open(const struct serve_options *options, struct serve **ret_serve,
                    struct note *note);
void serve_close(struct serve *serve); /* NULL is fine */
/* Shows and trusts what the certificate files hold now: as http_reload_tls. */
enum err serve_renew(struct serve *serve, struct note *note);
const char *serve_address(const struct serve *serve);      /* with the real port, or ""; borrowed */
struct http_server *serve_http(const struct serve *serve); /* NULL: it is off; borrowed */
/* As http_publish_as; nothing when there is no HTTP. */
enum err serve_page(struct serve *serve, const char *path, int status, const char *content_type,
                    struct str content);
/* Gives the live page new numbers; `http` in them is filled in here. */
void serve_publish(struct serve *serve, const struct status_numbers *numbers);
#endif
