/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of worker membership: all pages of one, as a table or as one JSON document, once or again
 * with every change. */
#ifndef MUSTERCTL_MEMBER_H
#define MUSTERCTL_MEMBER_H
#include "musterctl/ctl.h"

/* The answer's first field is the rows; it has `more`. */
struct listing {
    struct remote_method method;
    const char *const *columns;
    ctl_rows_fn *rows;
    /* Makes `request` ask for what is behind `last`. */
    void (*advance)(ProtobufCMessage *request, const ProtobufCMessage *last);
};
/* Every page, as if it were one answer. Pages are not of one moment. */
enum err listing_fetch(struct ctl *ctl, const struct listing *listing, ProtobufCMessage *request,
                       ProtobufCMessage **ret_answer);
enum err listing_print(struct ctl *ctl, const struct listing *listing,
                       const ProtobufCMessage *answer);

/* Calls `show` once; with --watch, again with every change, --count times or until somebody
 * interrupts it. `show` appends to ctl->out. */
enum err member_show(struct ctl *ctl, ctl_fn *show);
#endif
