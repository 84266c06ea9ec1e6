/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the engine without a shard: reads or generates a fleet, decides once, and prints sentences.
 *
 * Callers pass texts, not files. A text is one JSON document, {"machines": [...]} or {"clusters":
 * [...]}, or one machine or cluster per line (NDJSON). */
#ifndef SHARD_PLAN_PLAN_H
#define SHARD_PLAN_PLAN_H
#include "shard/decide/decide.h"
#include "shard/plan/generate.h"

enum {
    PLAN_MACHINES_MOST = 8 << 20,
    PLAN_ROWS_MOST = 1 << 20,
    PLAN_DOCUMENT_MAX = 64 << 20, /* bytes of one document; NDJSON has no limit in total */
};
#define PLAN_SCRATCH_MAX ((size_t)8 << 30)

enum plan_form { PLAN_DOCUMENT, PLAN_LINES };

struct planner;                                      /* opaque; one owner */
enum err planner_open(struct planner **ret_planner); /* ERR_NOMEM */
void planner_close(struct planner *planner);         /* NULL is allowed */

/* Errors name the record and field: "machines[3]: state: is missing", "line 4: needs: [0]: ...".
 * Records before the error are kept. */
enum err planner_add_machines(struct planner *planner, struct str text, enum plan_form form,
                              struct note *note);
enum err planner_add_needs(struct planner *planner, struct str text, enum plan_form form,
                           struct note *note);
enum err planner_generate(struct planner *planner, const struct generate_options *options,
                          struct note *note);
/* Prints the generated fleet as lines for planner_add_machines() and planner_add_needs(). Each call
 * of `write` gets one record. An error from `write` stops the output. */
typedef enum err plan_write_fn(void *context, struct str line);
enum err planner_dump_machines(const struct generate_options *options, plan_write_fn *write,
                               void *context);
enum err planner_dump_needs(const struct generate_options *options, plan_write_fn *write,
                            void *context);

enum err planner_decide(struct planner *planner);

struct planner_totals {
    uint32_t machines, needs, clusters, served;
    uint32_t actions[ACTION_DELETE + 1];
};
struct planner_totals planner_totals(const struct planner *planner);
/* Call after planner_decide(). Prints a sentence per action, from number `from` on, at most
 * `count`. *ret_count is the number printed. ERR_FULL, ERR_NOMEM from `out`. */
enum err planner_print_actions(const struct planner *planner, size_t from, size_t count,
                               struct buf *out, size_t *ret_count);
/* Prints a sentence per unsatisfied Need, or per Need (`all`), as planner_print_actions() does. */
enum err planner_print_needs(const struct planner *planner, bool all, size_t from, size_t count,
                             struct buf *out, size_t *ret_count);
enum err planner_transcript(const struct planner *planner, struct buf *out);
#endif
