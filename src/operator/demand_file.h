/* SPDX-License-Identifier: Apache-2.0 */
/* Demand as a person or a script writes it: TOML or JSON, with the same keys. No I/O.
 *
 *   [[requests]]
 *   name = "web"                      # unique in the file
 *   count = 12                        # number of units; default 1
 *   resources = {cpu = "4", memory = "16Gi"}          # of one unit; numbers may be unquoted
 *   priority = 1000                   # default 0
 *   interruption-penalty = 0.5        # dollars, or "pinned"; default: unspecified
 *   reclamation-penalty = 8
 *   instance-types = ["m5.large"]     # short for a requirement
 *   zones = ["a", "b"]                # short for a requirement
 *   requirements = [{key = "disk", operator = "In", values = ["ssd"]}]
 *   spread = [{key = "topology.kubernetes.io/zone", max-skew = 1, when = "DoNotSchedule"}]
 *   co-locate = {key = "topology.kubernetes.io/zone", group = "training-7"}
 *
 * A file may also state what machines run, so that the shard takes empty machines back first
 * (occupancy.h). Nothing is known about machines that it does not name:
 *
 *   [[machines]]
 *   machine = "m-7"
 *   evictable = 3                     # pods or jobs that may be moved; default 0
 *   held = 0                          # those that may not
 *   disruption-cost = 3               # of moving them: dollars, or "pinned"; default: evictable
 *   free = {cpu = "2"}
 *   requested = {cpu = "3"}           # by the evictable ones together
 *   largest = {cpu = "1"}             # by one of them, at most
 *
 * A JSON file is {"requests": [{"name": "web", ...}]}, or only the list. One wrong row or unknown
 * key refuses the whole file, because a misspelt key would request the wrong machines. */
#ifndef OPERATOR_DEMAND_FILE_H
#define OPERATOR_DEMAND_FILE_H
#include "base/arena.h"
#include "operator/core/request.h"

enum {
    DEMAND_FILE_BYTES_MAX = 16 << 20,
    DEMAND_FILE_ROWS_MAX = 200 * 1000,
    DEMAND_FILE_MEMORY_MAX = 1 << 30,
};

struct demand_file_row {
    struct str name;
    struct capacity_request request;
    uint32_t line; /* 0 in a JSON file */
};
struct demand_file_machine {
    struct str name;
    uint32_t evictable, held;
    struct request_penalty disruption;
    struct file_amounts { /* names and quantities as text */
        const struct label *pairs;
        size_t count;
    } free, requested, largest;
};
struct demand_file { /* allocated in the caller's arena */
    const struct demand_file_row *rows;
    size_t count;
    const struct demand_file_machine *machines;
    size_t machine_count;
};
/* Reads a demand file. Returns ERR_NOMEM, or ERR_PARSE, ERR_INVALID or ERR_TOO_LARGE with a note
 * that names the line or row, and the key. */
enum err demand_file_read(struct str text, struct arena *arena, struct demand_file *ret_file,
                          struct note *note);
/* True if the text begins like JSON: '{', or '[' followed by '{' or ']'. A '[' of TOML is followed
 * by a name or another '['. */
bool demand_file_is_json(struct str text);
/* Prepends the row to the note: 'line 7: "web"' or 'requests[3] "web"'. An empty note gets the text
 * of `err`. */
void demand_file_where(const struct demand_file_row *row, size_t index, enum err err,
                       struct note *note);
#endif
