/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a history and checks, rule by rule, whether a store that keeps its contract could have
 * answered like this. Reports only what is impossible: overlapping calls have no order, and a call
 * without an answer may have been done at any later time, or never.
 *
 *   grants   no more live holders than slots and one in each; tokens grow; no revision twice or
 *            falling; EXPIRED is final (tests/conformance/checker.h)
 *   early    no lease ends before its TTL after its last answered renewal was sent: neither in an
 *            answer nor in a watch
 *   check    check() returns yes only within that time; keys and slots check that it was true then,
 *            so holders that obey it are never too many
 *   keys     the calls on each key have an order (linear.h, models.h), reads of `latest` among them
 *   slots    the same for the calls on each group, with lists of holders
 *   watches  each reports a snapshot and then every change of its bucket once, in order, none left
 *            out, over any number of reconnects; watches agree with each other and with clients
 *   stale    a serializable read finds a past state; reads from one process of one replica never
 *            go back, over all keys
 *
 * A group is a key that was acquired; the keys of its slots are <group>/slot-0000 and so on. */
#ifndef TESTS_HISTORY_JUDGE_H
#define TESTS_HISTORY_JUDGE_H
#include "history.h"

enum judge_rule {
    JUDGE_GRANTS,
    JUDGE_EARLY,
    JUDGE_CHECK,
    JUDGE_KEYS,
    JUDGE_SLOTS,
    JUDGE_WATCHES,
    JUDGE_STALE,
    JUDGE_RULE_COUNT
};
enum judge_verdict {
    JUDGE_GOOD,
    JUDGE_BAD,
    JUDGE_GAVE_UP, /* the search for an order took too many steps */
};
struct judge_result {
    enum judge_verdict verdict;
    size_t looked_at; /* calls or events that the rule checked */
    uint64_t steps;   /* of a search */
    struct note why;
};
enum { JUDGE_STEPS_MAX = 2 * 1000 * 1000 };
const char *judge_rule_name(enum judge_rule rule);
/* Fills in the revisions and slots of calls without an answer, where another call or a watch saw
 * what they wrote. Call it once, after hist_seal and before the rules. */
void judge_learn(struct hist *h);
void judge_run(const struct hist *h, enum judge_rule rule, uint64_t steps_max,
               struct judge_result *ret_result);

/* -- the rules' own -- */
void judge_bad(struct judge_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* the first complaint stays */
void judge_grants(const struct hist *h, struct judge_result *result);
void judge_early(const struct hist *h, struct judge_result *result);
void judge_check(const struct hist *h, struct judge_result *result);
void judge_orders(const struct hist *h, bool groups, uint64_t steps_max,
                  struct judge_result *result);
void judge_watches(const struct hist *h, struct judge_result *result);
void judge_stale(const struct hist *h, struct judge_result *result);
#endif
