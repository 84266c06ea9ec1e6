/* SPDX-License-Identifier: Apache-2.0 */
/* The options of every musterctl command that calls a coordinator; they are last in its table. The
 * three TLS files have the names that every BigFleet program uses. */
#ifndef COMMON_TABLES_CTL_H
#define COMMON_TABLES_CTL_H
#include "common/option_texts.h"
#include "conf/option.h"

extern const char *const plain_outputs[], *const ctl_outputs[]; /* of enum ctl_output */
enum ctl_output {
    CTL_OUTPUT_TABLE,
    CTL_OUTPUT_JSON,
    CTL_OUTPUT_YAML,
    CTL_OUTPUT_WIDE, /* a table with a column for every scalar field */
    CTL_OUTPUT_NAME, /* only the first column of a table */
};

#define OPTION_OUTPUT                                                                              \
    FLAG("output", ENUM, .also = "-o", .choices = plain_outputs, .fallback = "table",              \
         .help = H_OUTPUT)
#define OPTIONS_OUTPUT                                                                             \
    FLAG("output", ENUM, .also = "-o", .choices = ctl_outputs, .fallback = "table",                \
         .help = H_OUTPUT_OUTPUT),                                                                 \
        FLAG_SWITCH("no-headers", H_NO_HEADERS)
/* `who`: the kind of this client's certificate. `whose`: the server, of the same authority. */
#define OPTIONS_CTL_TLS(who, whose)                                                                \
    OPTIONS_ROLE_TLS(who,                                                                          \
                     "certificate to show, as `musterctl cert issue " who                          \
                     "` makes it; all three TLS files, or none for plaintext",                     \
                     "the authority " whose " certificate comes from")
/* The coordinators' addresses and the client's certificate. `wait` is the default of --timeout. */
#define CTL_CONNECTION_OPTIONS(wait)                                                               \
    OPTION("coordinator", LIST, .fallback = "127.0.0.1:7790", .placeholder = "ADDRESS,...",        \
           .example = "c1.example:7790,c2.example:7790,c3.example:7790", .help = H_COORDINATOR),   \
        NUMBER("timeout", DURATION, (wait), 1, DAY_MS, H_CTL_TIMEOUT),                             \
        OPTIONS_CTL_TLS("admin", "the coordinator's")
#define CTL_OPTIONS OPTIONS_OUTPUT, CTL_CONNECTION_OPTIONS("10s")
#define OPTIONS_WATCH                                                                              \
    FLAG("watch", BOOL, .also = "-w", .help = H_WATCH),                                            \
        FLAG_NUMBER("count", U64, "0", 0, 0, H_WATCH_COUNT)
#define OPTION_YES        FLAG("yes", BOOL, .also = "-y", .alias = "--force", .help = H_YES_YES)
#define OPTION_REQUEST_ID FLAG("request-id", STRING, .placeholder = "ID", .help = H_REQUEST_ID)
#endif
