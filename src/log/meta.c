/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the commands of machine 0. Neither the replicated clock nor the cluster level ever
 * decreases. Loop's thread, inside apply. */
#include "log/meta.h"

#include <string.h>

#include "base/bytes.h"

/* A command is u32 kind, u32 level. META_RECOVER adds an identity and a u64 floor. */
enum { COMMAND_SIZE = 8, IDENTITY = 16, RECOVER_SIZE = COMMAND_SIZE + IDENTITY + 8 };

void meta_init(struct meta *meta)
{
    *meta = (struct meta){.clock_ns = 0, .level = 1};
}

void meta_advance(struct meta *meta, const struct log_envelope *envelope)
{
    meta->clock_ns = add_sat_u64(meta->clock_ns, envelope->advance_ns); /* never decreases */
}

enum err meta_level_command(uint32_t level, struct buf *into)
{
    char bytes[COMMAND_SIZE];

    assert(level > 0);
    store_le32(bytes, META_LEVEL);
    store_le32(bytes + 4, level);
    return buf_append(into, str_of(bytes, sizeof bytes));
}

enum err meta_recover_command(uint32_t level, const struct machine_recovery *recovery,
                              struct buf *into)
{
    char bytes[RECOVER_SIZE];

    assert(level > 0);
    store_le32(bytes, META_RECOVER);
    store_le32(bytes + 4, level);
    store_le64(bytes + COMMAND_SIZE, recovery->floor);
    memcpy(bytes + COMMAND_SIZE + 8, recovery->identity, IDENTITY);
    return buf_append(into, str_of(bytes, sizeof bytes));
}

bool meta_recovery(struct str command, struct machine_recovery *ret_recovery)
{
    if (command.len != RECOVER_SIZE || load_le32(command.at) != META_RECOVER) return false;
    *ret_recovery = (struct machine_recovery){.floor = load_le64(command.at + COMMAND_SIZE)};
    memcpy(ret_recovery->identity, command.at + COMMAND_SIZE + 8, IDENTITY);
    return true;
}

/* 0: unknown kind. */
static size_t size_of_kind(uint32_t kind)
{
    return kind == META_LEVEL ? COMMAND_SIZE : kind == META_RECOVER ? RECOVER_SIZE : 0;
}

enum err meta_apply(struct meta *meta, struct str command, struct note *note)
{
    uint32_t level, kind = command.len >= COMMAND_SIZE ? load_le32(command.at) : META_LEVEL;
    size_t size = size_of_kind(kind);

    if (size == 0)
        return note_fail(note, ERR_PARSE, "command of the log itself: kind %u", (unsigned)kind);
    if (command.len != size)
        return note_fail(note, ERR_PARSE, "command of the log itself: %zu bytes", command.len);
    level = load_le32(command.at + 4);
    if (level == 0) return note_fail(note, ERR_PARSE, "command of the log itself: level 0");
    /* Two leaders may propose levels: a lower level must not undo a higher one. */
    if (level > meta->level) meta->level = level;
    return ERR_OK;
}

uint64_t meta_hash(const struct meta *meta)
{
    char bytes[16];

    store_le64(bytes, meta->clock_ns);
    store_le64(bytes + 8, meta->level);
    return str_hash(str_of(bytes, sizeof bytes), 0);
}
