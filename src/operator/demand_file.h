/* SPDX-License-Identifier: Apache-2.0 */
/* Demand as a person or a script writes it: TOML or JSON, the same keys.
 *
 *   [[requests]]
 *   name = "web"                      # unique in the file
 *   count = 12                        # so many units; default 1
 *   resources = {cpu = "4", memory = "16Gi"}          # of one unit; numbers may go without quotes
 *   priority = 1000                   # default 0
 *   interruption-penalty = 0.5        # dollars, or "pinned"; default: not said
 *   reclamation-penalty = 8
 *   instance-types = ["m5.large"]     # short for a requirement
 *   zones = ["a", "b"]                # likewise
 *   requirements = [{key = "disk", operator = "In", values = ["ssd"]}]
 *   spread = [{key = "topology.kubernetes.io/zone", max-skew = 1, when = "DoNotSchedule"}]
 *   co-locate = {key = "topology.kubernetes.io/zone", group = "training-7"}
 *
 * JSON: {"requests": [{"name": "web", ...}]}, or the list alone. A key that is none of these is
 * refused: a misspelt one would be demand that nobody asked for. Everything is taken or nothing;
 * what a row means is checked by who puts it (demand.h). Pure. */
#ifndef OPERATOR_DEMAND_FILE_H
#define OPERATOR_DEMAND_FILE_H
#include "base/arena.h"
#include "operator/core/request.h"

enum {
    DEMAND_FILE_BYTES_MAX = 16 << 20,
    DEMAND_FILE_ROWS_MAX = 200 * 1000,
    DEMAND_FILE_MEMORY_MAX = 1 << 30, /* of what is made of it, rows and text; freed with it */
};

struct demand_file_row {
    struct str name;
    struct capacity_request request;
    uint32_t line; /* of a TOML file; 0: JSON */
};
struct demand_file { /* in the arena it was read into */
    const struct demand_file_row *rows;
    size_t count;
};
/* JSON when the first byte that is no blank is '{' or '[' and it is JSON-like, TOML otherwise: see
 * demand_file_is_json. ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE with a note that names the line or the
 * row and the key; ERR_NOMEM. */
enum err demand_file_read(struct str text, struct arena *arena, struct demand_file *ret_file,
                          struct note *note);
/* A TOML file begins with '[' only as a table header: "[[requests]]", "[x]"; a JSON list holds
 * objects, so '[' is followed by '{', by ']' or by blanks and one of these. */
bool demand_file_is_json(struct str text);
/* Puts the row before the note, 'line 7: "web"' or 'requests[3] "web"', and what `err` means where
 * the note says nothing. */
void demand_file_where(const struct demand_file_row *row, size_t index, enum err err,
                       struct note *note);
#endif
