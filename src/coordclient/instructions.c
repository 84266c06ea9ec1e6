/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the ids of instructions (instructions.h). Pure, one thread. */
#include "coordclient/instructions.h"

#include <stdlib.h>
#include <string.h>

enum err instructions_init(struct instructions *in, uint64_t seed)
{
    *in = (struct instructions){0};
    map_init(&in->by_id, INSTRUCTIONS_REMEMBERED, seed);
    in->done = calloc(INSTRUCTIONS_REMEMBERED, sizeof *in->done);
    return in->done ? ERR_OK : ERR_NOMEM;
}

void instructions_deinit(struct instructions *in)
{
    map_deinit(&in->by_id);
    free(in->done);
    *in = (struct instructions){0};
}

bool instructions_hear(struct instructions *in, int64_t term)
{
    if (term < in->term) return false;
    in->term = term;
    return true;
}

enum instruction_verdict instructions_judge(struct instructions *in, struct str id, int64_t term)
{
    if (id.len == 0 || id.len > INSTRUCTION_ID_MAX) return INSTRUCTION_IGNORE;
    if (map_get(&in->by_id, id)) return INSTRUCTION_DUPLICATE;
    return instructions_hear(in, term) ? INSTRUCTION_TAKE : INSTRUCTION_STALE;
}

static struct str instructions_id_of(const struct done_instruction *done)
{
    return str_of(done->id, done->len);
}

void instructions_done(struct instructions *in, struct str id)
{
    struct done_instruction *slot = &in->done[in->next];

    if (map_get(&in->by_id, id)) return;
    if (in->count == INSTRUCTIONS_REMEMBERED) map_remove(&in->by_id, instructions_id_of(slot));
    memcpy(slot->id, id.at, id.len);
    slot->len = (uint8_t)id.len;
    /* If memory runs out, a repeated instruction is carried out again, which is harmless. */
    (void)map_put(&in->by_id, instructions_id_of(slot), slot);
    in->next = (in->next + 1) % INSTRUCTIONS_REMEMBERED;
    if (in->count < INSTRUCTIONS_REMEMBERED) in->count++;
}
