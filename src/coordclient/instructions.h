/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which instructions of a coordinator a shard carries out. Pure.
 *
 * An instruction of a lower term than the highest one received is stale. A known id means that the
 * ack was lost: the instruction is acked again, but not carried out again. The oldest id is
 * forgotten first, which is safe, because every instruction may be carried out twice. */
#ifndef COORDCLIENT_INSTRUCTIONS_H
#define COORDCLIENT_INSTRUCTIONS_H
#include "base/map.h"

enum { INSTRUCTIONS_REMEMBERED = 4096, INSTRUCTION_ID_MAX = 128 };

struct done_instruction {
    uint8_t len;
    char id[INSTRUCTION_ID_MAX];
};
struct instructions {
    int64_t term; /* highest term received; 0 at the start */
    struct done_instruction *done;
    size_t next, count; /* positions in a ring */
    struct map by_id;
};
enum instruction_verdict {
    INSTRUCTION_IGNORE,    /* no id, or a longer id than any coordinator sends */
    INSTRUCTION_DUPLICATE, /* ack: accepted, "duplicate-redelivery" */
    INSTRUCTION_STALE,     /* ack: rejected; the text names both terms */
    INSTRUCTION_TAKE,
};

enum err instructions_init(struct instructions *in, uint64_t seed); /* ERR_NOMEM */
void instructions_deinit(struct instructions *in);                  /* zeroed memory is allowed */
/* Records a term. False: the term is stale. */
bool instructions_hear(struct instructions *in, int64_t term);
enum instruction_verdict instructions_judge(struct instructions *in, struct str id, int64_t term);
void instructions_done(struct instructions *in, struct str id);
#endif
