/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions of a coordinator a shard carries out: pure.
 *
 * Two marks, as the wire has them: the highest term ever heard (a lower one is stale), and the ids
 * that were carried out. An id that comes again was acked and the ack was lost: it is acked again
 * and not done again, under whatever term. Ids are remembered up to a bound, the oldest forgotten
 * first; every instruction so far is one that may be done twice. */
#ifndef COORDCLIENT_INSTRUCTIONS_H
#define COORDCLIENT_INSTRUCTIONS_H
#include "base/map.h"

enum { INSTRUCTIONS_REMEMBERED = 4096, INSTRUCTION_ID_MAX = 128 };

struct done_instruction {
    uint8_t len;
    char id[INSTRUCTION_ID_MAX];
};
struct instructions {
    int64_t term; /* the mark; 0 at first */
    struct done_instruction *done;
    size_t next, count; /* a ring */
    struct map by_id;
};
enum instruction_verdict {
    INSTRUCTION_IGNORE,    /* without an id, or one longer than any of ours */
    INSTRUCTION_DUPLICATE, /* ack: accepted, "duplicate-redelivery" */
    INSTRUCTION_STALE,     /* ack: rejected, both terms named */
    INSTRUCTION_TAKE,
};

enum err instructions_init(struct instructions *in, uint64_t seed); /* ERR_NOMEM */
void instructions_deinit(struct instructions *in);                  /* fine on a zeroed one */
/* False: stale, and the mark stays. */
bool instructions_hear(struct instructions *in, int64_t term);
enum instruction_verdict instructions_judge(struct instructions *in, struct str id, int64_t term);
void instructions_done(struct instructions *in, struct str id);
#endif
