/* SPDX-License-Identifier: Apache-2.0 */
#include "store_state_text.h"

/* Appends instead of printf, because a story writes hundreds of thousands of lines. */
static void word(struct buf *into, const char *name)
{
    (void)buf_append_c(into, name);
    (void)buf_append_byte(into, ' ');
}

static void number(struct buf *into, const char *name, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    word(into, name);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    (void)buf_append(into, str_of(digits + at, sizeof digits - at));
    (void)buf_append_byte(into, ' ');
}

static void id(struct buf *into, const char *name, const uint8_t *bytes)
{
    static const char digits[] = "0123456789abcdef";
    char text[32];

    word(into, name);
    for (size_t i = 0; bytes && i < 16; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    (void)buf_append(into, bytes ? str_of(text, sizeof text) : STR("-"));
    (void)buf_append_byte(into, ' ');
}

static void text(struct buf *into, const char *name, struct str value)
{
    word(into, name);
    (void)buf_append(into, value);
    (void)buf_append_byte(into, ' ');
}

static void line(struct buf *into)
{
    (void)buf_append_byte(into, '\n');
}

void write_marks(struct buf *into, const struct state_marks *marks)
{
    number(into, "revision", marks->revision);
    number(into, "compacted", marks->compacted);
    number(into, "clock", marks->clock_ns);
    number(into, "due", marks->next_due_ns);
    number(into, "clients", marks->clients);
    id(into, "identity", marks->identity);
    line(into);
}

void write_key(struct buf *into, const struct state_key *key)
{
    text(into, "key", key->name);
    text(into, "value", key->value);
    number(into, "create", key->create);
    number(into, "mod", key->mod);
    number(into, "version", key->version);
    id(into, "lease", key->lease);
    number(into, "token", key->token);
    line(into);
}

void write_lease(struct buf *into, const struct state_lease *lease)
{
    id(into, "lease", lease->id);
    text(into, "owner", lease->owner);
    number(into, "ttl", lease->ttl_ns);
    number(into, "until", lease->deadline_ns);
    number(into, "lost", (uint64_t)lease->lost_reason);
    number(into, "to", lease->lost_token);
    number(into, "waits", lease->waits);
    line(into);
}

void write_group(struct buf *into, struct str name, uint64_t slot_count, uint64_t revision,
                 uint64_t cooldown_ns)
{
    text(into, "group", name);
    number(into, "slots", slot_count);
    number(into, "revision", revision);
    number(into, "cooldown", cooldown_ns);
    line(into);
}

void write_slot(struct buf *into, uint64_t slot, const uint8_t *lease, uint64_t rest_until_ns)
{
    if (!lease && !rest_until_ns) return;
    number(into, "slot", slot);
    id(into, "lease", lease);
    number(into, "rests", rest_until_ns);
    line(into);
}

void write_waiter(struct buf *into, const struct state_waiter *waiter)
{
    id(into, "waiter", waiter->lease);
    id(into, "client", waiter->client);
    number(into, "sequence", waiter->sequence);
    number(into, "prefers", waiter->prefer_slot);
    text(into, "value", waiter->value);
    line(into);
}
