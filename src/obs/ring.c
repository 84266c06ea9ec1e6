/* SPDX-License-Identifier: Apache-2.0 */
/* Entries are claimed with one atomic addition. Each slot has a stamp: 2n + 1 while entry n is
 * being written, 2n + 2 when entry n is complete. A reader accepts a slot only if the stamp is even
 * and the same before and after reading. Words are stored with release and loaded with acquire, so
 * a reader that sees a word of a newer entry also sees the newer stamp. */
#include "obs/ring.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "obs/line.h"

enum { TEXT_WORDS = RING_TEXT_MAX / 8 };
static_assert(RING_TEXT_MAX % 8 == 0, "text is copied by words");
static_assert((RING_SLOTS & (RING_SLOTS - 1)) == 0, "a slot is found by a mask");

enum { KIND_NUMBERS, KIND_TEXT };
struct slot {
    _Atomic uint64_t stamp;
    _Atomic uint64_t ns;
    _Atomic uint64_t thread_and_kind; /* thread << 16 | kind << 8 | text length */
    _Atomic(const char *) what;
    _Atomic uint64_t words[TEXT_WORDS]; /* the numbers `a` and `b`, or the text */
};
static struct slot slots[RING_SLOTS];
static _Atomic uint64_t next_entry;
static _Atomic(struct clock *) ring_clock;
static _Thread_local uint64_t thread_id;

void ring_use_clock(struct clock *clock)
{
    atomic_store(&ring_clock, clock);
}

static struct slot *begin(uint64_t *ret_entry)
{
    uint64_t entry = atomic_fetch_add_explicit(&next_entry, 1, memory_order_relaxed);
    struct slot *slot = &slots[entry % RING_SLOTS];
    uint64_t stamp = atomic_load_explicit(&slot->stamp, memory_order_relaxed);

    /* Another writer is still in this slot, or the slot has a newer entry: the older entry is
     * dropped. */
    if (stamp % 2 == 1 || stamp > 2 * entry) return NULL;
    if (!atomic_compare_exchange_strong_explicit(&slot->stamp, &stamp, 2 * entry + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return NULL;
    *ret_entry = entry;
    return slot;
}

static void fill(struct slot *slot, uint64_t entry, const char *what, uint64_t kind,
                 const uint64_t *words, size_t count, size_t len)
{
    struct clock *clock = atomic_load_explicit(&ring_clock, memory_order_relaxed);
    if (!thread_id) thread_id = (uint64_t)gettid();
    atomic_store_explicit(&slot->ns, clock ? clock_mono_ns(clock).ns : 0, memory_order_release);
    atomic_store_explicit(&slot->thread_and_kind, thread_id << 16 | kind << 8 | len,
                          memory_order_release);
    atomic_store_explicit(&slot->what, what, memory_order_release);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
    atomic_store_explicit(&slot->stamp, 2 * entry + 2, memory_order_release);
}

void ring_put(const char *what, uint64_t a, uint64_t b)
{
    uint64_t entry;
    struct slot *slot = begin(&entry);
    if (slot) fill(slot, entry, what, KIND_NUMBERS, (const uint64_t[]){a, b}, 2, 0);
}

void ring_put_text(const char *what, struct str text)
{
    uint64_t words[TEXT_WORDS] = {0}, entry;
    size_t len = min_size(text.len, RING_TEXT_MAX);
    struct slot *slot = begin(&entry);
    if (!slot) return;
    if (len > 0) memcpy(words, text.at, len);
    fill(slot, entry, what, KIND_TEXT, words, (len + 7) / 8, len);
}

uint64_t ring_total(void)
{
    return atomic_load(&next_entry);
}

/* -- reading -- */

struct copy {
    uint64_t ns, thread, kind;
    size_t len;
    const char *what;
    union {
        uint64_t words[TEXT_WORDS];
        char text[RING_TEXT_MAX];
    } u;
};

static bool copy_entry(uint64_t entry, struct copy *copy)
{
    struct slot *slot = &slots[entry % RING_SLOTS];
    uint64_t packed;

    if (atomic_load_explicit(&slot->stamp, memory_order_acquire) != 2 * entry + 2) return false;
    copy->ns = atomic_load_explicit(&slot->ns, memory_order_acquire);
    packed = atomic_load_explicit(&slot->thread_and_kind, memory_order_acquire);
    copy->thread = packed >> 16;
    copy->kind = packed >> 8 & 0xff;
    copy->len = min_size(packed & 0xff, RING_TEXT_MAX);
    copy->what = atomic_load_explicit(&slot->what, memory_order_acquire);
    for (size_t i = 0; i < TEXT_WORDS; i++)
        copy->u.words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    return atomic_load_explicit(&slot->stamp, memory_order_acquire) == 2 * entry + 2;
}

/* snprintf is not async-signal-safe; obs/line.h is. */
static void entry_text(const struct copy *copy, struct log_line *line)
{
    uint64_t us = copy->ns / 1000;

    line_add_u64(line, us / 1000000);
    line_add_c(line, ".");
    for (uint64_t unit = 100000; unit > 0; unit /= 10) line_add_u64(line, us / unit % 10);
    line_add_c(line, " ");
    line_add_u64(line, copy->thread);
    line_add_c(line, " ");
    line_add_c(line, copy->what);
    line_add_c(line, " ");
    if (copy->kind == KIND_TEXT) {
        for (size_t i = 0; i < copy->len; i++) {
            char c = copy->u.text[i];
            /* An entry must stay on one line. */
            line_add(line, str_of(c >= ' ' && c != 0x7f ? &c : "?", 1));
        }
    } else {
        line_add_u64(line, copy->u.words[0]);
        line_add_c(line, " ");
        line_add_u64(line, copy->u.words[1]);
    }
    line->cap++; /* room reserved for the line end */
    line_add_c(line, "\n");
}

size_t ring_dump_with(ring_line_fn *put, void *context)
{
    uint64_t end = atomic_load(&next_entry), from = end > RING_SLOTS ? end - RING_SLOTS : 0;
    struct copy copy;
    struct log_line line;
    char room[256];
    size_t count = 0;

    for (uint64_t entry = from; entry < end; entry++) {
        if (!copy_entry(entry, &copy)) continue;
        line_init(&line, room, sizeof room - 1);
        entry_text(&copy, &line);
        if (!put(context, line_peek(&line))) break;
        count++;
    }
    return count;
}

struct into {
    struct buf *buf;
    enum err err;
};

static bool put_buf(void *context, struct str line)
{
    struct into *into = context;
    into->err = buf_append(into->buf, line);
    return !into->err;
}

enum err ring_dump(struct buf *buf)
{
    struct into into = {buf, ERR_OK};
    ring_dump_with(put_buf, &into);
    return into.err;
}
