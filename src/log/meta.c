#include "log/meta.h"

#include "base/bytes.h"

/* A command is u32 kind, u32 argument. */
enum { COMMAND_SIZE = 8 };

void meta_init(struct meta *meta)
{
    *meta = (struct meta){.clock_ns = 0, .level = 1};
}

void meta_advance(struct meta *meta, const struct envelope *envelope)
{
    meta->clock_ns = add_sat_u64(meta->clock_ns, envelope->advance_ns); /* never runs back */
}

enum err meta_level_command(uint32_t level, struct buf *into)
{
    char bytes[COMMAND_SIZE];

    assert(level > 0);
    store_le32(bytes, META_LEVEL);
    store_le32(bytes + 4, level);
    return buf_append(into, str_of(bytes, sizeof bytes));
}

enum err meta_apply(struct meta *meta, struct str command, struct note *note)
{
    uint32_t level;

    if (command.len != COMMAND_SIZE) {
        note_set(note, "command of the log itself: %zu bytes", command.len);
        return ERR_PARSE;
    }
    if (load_le32(command.at) != META_LEVEL) {
        note_set(note, "command of the log itself: kind %u", (unsigned)load_le32(command.at));
        return ERR_PARSE;
    }
    level = load_le32(command.at + 4);
    if (level == 0) {
        note_set(note, "command of the log itself: level 0");
        return ERR_PARSE;
    }
    /* Two leaders may propose in turn; the older entry must not undo the newer. */
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
