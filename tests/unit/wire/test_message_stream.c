/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming decoder equals a whole decode at every cut, in constant memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/test.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"

enum { MEMORY = 32 << 20, ELEMENT_MAX = 64 << 10 };

typedef Bigfleet__V1alpha1__Machine machine;
typedef Bigfleet__V1alpha1__MachineList machine_list;
#define LIST       (&bigfleet__v1alpha1__machine_list__descriptor)
#define MACHINE    (&bigfleet__v1alpha1__machine__descriptor)
#define EVERYTHING (&muster__test__v1__everything__descriptor)
#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* Writes every element back as field `tag` of a message, to compare the whole. */
struct collector {
    struct buf bytes;
    struct str tag;
    uint64_t count, fail_at;
    enum err fail_with;
};

static void collect(struct collector *c, const ProtobufCMessage *element)
{
    struct buf one;
    size_t len;

    c->count++;
    buf_init(&one, MEMORY);
    CHECK_OK("written again", message_write(element, &one, NULL));
    buf_append(&c->bytes, c->tag);
    for (len = one.len; len > 0x7f; len >>= 7) buf_append_byte(&c->bytes, (char)(len | 0x80));
    buf_append_byte(&c->bytes, (char)len);
    buf_append(&c->bytes, buf_peek(&one));
    buf_deinit(&one);
}

static enum err decode(void *owner, struct str bytes, size_t len)
{
    struct collector *c = owner;
    ProtobufCMessage *element;
    struct arena arena;

    if (c->fail_with && c->count == c->fail_at) return c->fail_with;
    CHECK_SIZE("all of it", bytes.len, len);
    arena_init(&arena, MEMORY);
    CHECK_OK("an element", message_read(MACHINE, bytes, NULL, &arena, &element, NULL));
    collect(c, element);
    arena_deinit(&arena);
    return ERR_OK;
}

static void collector_init(struct collector *c, struct str tag)
{
    *c = (struct collector){.tag = tag};
    buf_init(&c->bytes, MEMORY);
}

/* -- equal to a whole decode -- */

static void set_text(struct prng *p, struct arena *arena, char **field)
{
    *field = arena_calloc(arena, 1, 64);
    snprintf(*field, 64, "text-%llu", (unsigned long long)(prng_u64(p) >> prng_below(p, 60)));
}

static machine *random_machine(struct prng *p, struct arena *arena)
{
    machine *m = arena_alloc(arena, sizeof *m);

    bigfleet__v1alpha1__machine__init(m);
    if (prng_below(p, 10) == 0) return m; /* an empty element has no payload at all */
    set_text(p, arena, &m->id);
    set_text(p, arena, &m->zone);
    m->state = (Bigfleet__V1alpha1__MachineState)prng_below(p, 12);
    m->price_per_hour = (double)prng_below(p, 1000) / 7;
    m->n_labels = prng_below(p, 5);
    m->labels = arena_calloc(arena, m->n_labels, sizeof *m->labels);
    for (size_t i = 0; i < m->n_labels; i++) {
        m->labels[i] = arena_alloc(arena, sizeof **m->labels);
        bigfleet__v1alpha1__machine__labels_entry__init(m->labels[i]);
        set_text(p, arena, &m->labels[i]->key);
        set_text(p, arena, &m->labels[i]->value);
    }
    return m;
}

/* A list with other fields between its elements: the revision twice, and unknown fields. */
static void random_list(struct prng *p, struct buf *out)
{
    struct arena arena;
    struct collector c;

    arena_init(&arena, MEMORY);
    collector_init(&c, STR("\x0a"));
    for (uint64_t left = prng_below(p, 30); left > 0; left--) {
        if (prng_below(p, 4) == 0)
            buf_append(&c.bytes, STR("\x12\x05"
                                     "older\xc0\x0c\x96\x01"));
        if (prng_below(p, 4) == 0)
            buf_append(&c.bytes, STR("\xc9\x0c"
                                     "12345678\xcd\x0c"
                                     "1234"));
        collect(&c, &random_machine(p, &arena)->base);
    }
    buf_append(&c.bytes, STR("\x12\x03\0r\xff"));
    buf_append(out, buf_peek(&c.bytes));
    buf_deinit(&c.bytes);
    arena_deinit(&arena);
}

/* Feeds pieces, each a heap block of its own size; at the end `c` holds elements and rest. */
static enum err feed_in_pieces(struct prng *p, struct str bytes, size_t piece_max,
                               struct collector *c, struct note *note)
{
    struct message_stream *stream = NULL;
    ProtobufCMessage *rest = NULL;
    struct arena arena;
    enum err err;

    arena_init(&arena, MEMORY);
    CHECK_OK("open", message_stream_open_raw(LIST, "machines", ELEMENT_MAX, ELEMENT_MAX, decode, c,
                                             &stream));
    for (err = ERR_OK; !err && bytes.len > 0;) {
        size_t len = min_size(bytes.len, 1 + prng_below(p, piece_max));
        char *piece = malloc(len);
        memcpy(piece, bytes.at, len);
        err = message_stream_feed(stream, str_of(piece, len), note);
        free(piece);
        bytes = str_tail(bytes, len);
    }
    if (!err) err = message_stream_end(stream, &arena, &rest, note);
    if (!err) err = message_write(rest, &c->bytes, NULL);
    message_stream_close(stream);
    arena_deinit(&arena);
    return err;
}

TEST(streamed_elements_and_rest_are_the_whole_however_it_is_cut)
{
    static const size_t pieces[] = {1, 2, 3, 7, 20, 100, 1000, 100000};
    struct prng prng;
    uint64_t seen = 0;

    prng_seed(&prng, test_seed());
    for (size_t turn = 0; turn < 200; turn++) {
        struct buf bytes, want;
        struct collector c;
        struct arena arena;
        struct note note = {""};
        ProtobufCMessage *whole = NULL;

        buf_init(&bytes, MEMORY);
        buf_init(&want, MEMORY);
        arena_init(&arena, MEMORY);
        collector_init(&c, STR("\x0a"));
        random_list(&prng, &bytes);
        CHECK_OK("whole", message_read(LIST, buf_peek(&bytes), NULL, &arena, &whole, &note));
        CHECK_OK("its bytes", message_write(whole, &want, NULL));
        CHECK_OK("streamed", feed_in_pieces(&prng, buf_peek(&bytes),
                                            pieces[turn % ARRAY_LEN(pieces)], &c, &note));
        CHECK_U64("all elements", c.count, ((machine_list *)whole)->n_machines);
        CHECK_STR("the same", buf_peek(&c.bytes), buf_peek(&want));
        seen += c.count;
        buf_deinit(&c.bytes);
        arena_deinit(&arena);
        buf_deinit(&want);
        buf_deinit(&bytes);
    }
    CHECK("elements were seen", seen > 500);
}

/* -- errors -- */

static const struct {
    const char *why;
    struct str bytes;
    enum err want;
    const char *note;
} bad[] = {
    {"cut in a tag", BYTES("\x0a\x00\x8a"), ERR_PARSE, "bigfleet.v1alpha1.MachineList: cut short"},
    {"cut in a length", BYTES("\x0a\x00\x0a\x81"), ERR_PARSE,
     "bigfleet.v1alpha1.MachineList: cut short"},
    {"cut in an element", BYTES("\x0a\x00\x0a\x03\x0a\x01"), ERR_PARSE, "machines[1]: cut short"},
    {"cut before its first byte", BYTES("\x0a\x03"), ERR_PARSE, "machines[0]: cut short"},
    {"cut in another field", BYTES("\x12\x03\x61"), ERR_PARSE,
     "bigfleet.v1alpha1.MachineList: cut short"},
    {"element as a number", BYTES("\x0a\x00\x08\x01"), ERR_PARSE, "machines[1]: wrong wire type"},
    {"group", BYTES("\x0b"), ERR_PARSE, "bigfleet.v1alpha1.MachineList: groups are not supported"},
    {"field 0", BYTES("\x0a\x00\x00\x00"), ERR_PARSE,
     "bigfleet.v1alpha1.MachineList: bad field number"},
    {"other field past the limit", BYTES("\x12\xfd\xff\x03"), ERR_TOO_LARGE,
     "bigfleet.v1alpha1.MachineList: fields beside machines are more than 65536 bytes"},
    {"the rest is read with care, too", BYTES("\x10\x01"), ERR_PARSE, "revision: wrong wire type"},
};

TEST(a_bad_stream_is_refused_by_name_however_it_is_cut)
{
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (size_t piece = 1; piece < 10; piece += 4) {
            struct collector c;
            struct note note = {""};

            collector_init(&c, STR("\x0a"));
            CHECK_ERR(bad[i].why, feed_in_pieces(&prng, bad[i].bytes, piece, &c, &note),
                      bad[i].want);
            CHECK_TEXT(bad[i].why, note.text, bad[i].note);
            buf_deinit(&c.bytes);
        }
    }
}

static enum err collect_raw(void *owner, struct str bytes, size_t len)
{
    return buf_appendf(owner, "%.*s/%zu/%zu ", (int)min_size(bytes.len, 4), bytes.at, bytes.len,
                       len);
}

/* Raw elements are not checked, and too long ones are cut off: the next element is complete again.
 * */
TEST(raw_elements_come_unchanged_at_every_cut)
{
    static const struct str list = BYTES("\x0a\x04good\x0a\x0atoolongone\x12\x01r\x0a\x00\x0a\x05"
                                         "\xff\xff\xff\xff\xff\x0a\x02ok");
    for (size_t piece = 1; piece <= list.len; piece++) {
        struct message_stream *stream = NULL;
        struct buf reported;
        ProtobufCMessage *rest = NULL;
        struct arena arena;
        buf_init(&reported, MEMORY);
        arena_init(&arena, MEMORY);
        CHECK_OK("open", message_stream_open_raw(LIST, "machines", 6, 100, collect_raw, &reported,
                                                 &stream));
        for (size_t at = 0; at < list.len; at += piece)
            CHECK_OK("feed",
                     message_stream_feed(
                         stream, str_of(list.at + at, min_size(piece, list.len - at)), NULL));
        CHECK_OK("end", message_stream_end(stream, &arena, &rest, NULL));
        CHECK_STR("elements", buf_peek(&reported),
                  STR("good/4/4 tool/6/10 /0/0 \xff\xff\xff\xff/5/5 ok/2/2 "));
        CHECK_SIZE("the rest", ((machine_list *)rest)->revision.len, 1);
        message_stream_close(stream);
        arena_deinit(&arena);
        buf_deinit(&reported);
    }
}

TEST(other_fields_together_are_bounded)
{
    struct collector c;
    struct message_stream *stream = NULL;
    struct note note = {""};
    enum err err = ERR_OK;
    size_t fed = 0;

    collector_init(&c, STR("\x0a"));
    CHECK_OK("open", message_stream_open_raw(LIST, "machines", 1000, 1000, decode, &c, &stream));
    while (!err && fed < 10000) {
        err = message_stream_feed(stream, STR("\xa0\x06\x01\x0a\x00"), &note);
        fed += 3;
    }
    CHECK_ERR("refused", err, ERR_TOO_LARGE);
    CHECK("at the limit", fed > 1000 && fed < 1010);
    message_stream_close(stream);
    buf_deinit(&c.bytes);
}

TEST(an_error_of_the_reader_ends_the_stream_for_good)
{
    struct collector c;
    struct message_stream *stream = NULL;
    struct note note = {""};
    struct arena arena;
    ProtobufCMessage *rest = NULL;

    arena_init(&arena, MEMORY);
    collector_init(&c, STR("\x0a"));
    c.fail_at = 2;
    c.fail_with = ERR_CONFLICT;
    CHECK_OK("open", message_stream_open_raw(LIST, "machines", ELEMENT_MAX, ELEMENT_MAX, decode, &c,
                                             &stream));
    CHECK_OK("two", message_stream_feed(stream, STR("\x0a\x00\x0a\x00"), &note));
    CHECK_ERR("the third", message_stream_feed(stream, STR("\x0a\x00\x0a\x00"), &note),
              ERR_CONFLICT);
    CHECK_TEXT("named", note.text, "machines[2]: revision does not match");
    CHECK_ERR("for good", message_stream_feed(stream, STR("\x0a\x00"), &note), ERR_CONFLICT);
    CHECK_ERR("at the end", message_stream_end(stream, &arena, &rest, &note), ERR_CONFLICT);
    CHECK("nothing came out", rest == NULL);
    CHECK_U64("not asked again", c.count, 2);
    message_stream_close(stream);
    message_stream_close(NULL);
    buf_deinit(&c.bytes);
    arena_deinit(&arena);
}

TEST(only_a_repeated_message_can_be_streamed)
{
    static const char *const fields[] = {"revision", "nothing", "child", "strings", "a_int32"};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        struct message_stream *stream = NULL;
        CHECK_ERR(
            fields[i],
            message_stream_open_raw(i ? EVERYTHING : LIST, fields[i], 1, 1, decode, NULL, &stream),
            ERR_INVALID);
        CHECK("nothing came out", stream == NULL);
    }
}

/* -- flat memory -- */

static size_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    if (statm && fscanf(statm, "%lu %lu", &total, &resident) != 2) resident = 0;
    if (statm) fclose(statm);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

struct tally {
    struct arena arena;
    uint64_t count, labels;
    bool bad;
};

static enum err count_one(void *owner, struct str bytes, size_t len)
{
    struct tally *t = owner;
    ProtobufCMessage *element;
    const machine *m;
    char want[32];

    CHECK_SIZE("all of it", bytes.len, len);
    CHECK_OK("a machine", message_read(MACHINE, bytes, NULL, &t->arena, &element, NULL));
    m = (const machine *)element;
    snprintf(want, sizeof want, "machine-%08llu", (unsigned long long)t->count);
    t->bad = t->bad || strcmp(m->id, want) != 0;
    t->count++;
    t->labels += m->n_labels;
    arena_reset(&t->arena);
    return ERR_OK;
}

TEST(five_hundred_thousand_machines_pass_in_flat_memory)
{
    enum { COUNT = 500000, CHUNK = 16 << 10, GROWTH_MAX = 2 << 20 };
    struct prng prng;
    struct arena arena, rest_arena;
    struct collector c;
    struct message_stream *stream = NULL;
    struct tally tally = {0};
    struct note note = {""};
    ProtobufCMessage *rest = NULL;
    uint64_t fed = 0;
    size_t before, after, number_at;
    machine *m;

    prng_seed(&prng, 1);
    arena_init(&arena, MEMORY);
    collector_init(&c, STR("\x0a"));
    do m = random_machine(&prng, &arena);
    while (m->n_labels < 4);
    m->id = (char *)(uintptr_t) "machine-00000000";
    collect(&c, &m->base);
    for (number_at = 0; memcmp(c.bytes.data + number_at, "machine-", 8) != 0;) number_at++;
    number_at += 8;
    CHECK_OK("open", message_stream_open_raw(LIST, "machines", ELEMENT_MAX, ELEMENT_MAX, count_one,
                                             &tally, &stream));
    arena_init(&tally.arena, MEMORY);
    before = resident_bytes();
    for (uint64_t i = 0; i < COUNT; i++) {
        char number[16];
        struct str one = buf_peek(&c.bytes);
        snprintf(number, sizeof number, "%08llu", (unsigned long long)i);
        memcpy(c.bytes.data + number_at, number, 8);
        /* Cut at a moving position, so that most elements have to be collected. */
        size_t cut = (size_t)(i * 37 % one.len);
        CHECK_OK("first part", message_stream_feed(stream, str_of(one.at, cut), &note));
        CHECK_OK("second part", message_stream_feed(stream, str_tail(one, cut), &note));
        fed += one.len;
    }
    CHECK_OK("revision", message_stream_feed(stream, STR("\x12\x01r"), &note));
    after = resident_bytes();
    print_message("# %llu MB streamed, resident memory grew by %lld KiB\n",
                  (unsigned long long)fed / 1000000, ((long long)after - (long long)before) / 1024);
    CHECK_U64("all were seen", tally.count, COUNT);
    CHECK("in order", !tally.bad);
    CHECK_U64("with all their labels", tally.labels, COUNT * 4);
    CHECK("memory stayed flat", after < before + GROWTH_MAX);
    arena_init(&rest_arena, MEMORY);
    CHECK_OK("end", message_stream_end(stream, &rest_arena, &rest, &note));
    CHECK_SIZE("the revision", ((machine_list *)rest)->revision.len, 1);
    CHECK_SIZE("no machines in it", ((machine_list *)rest)->n_machines, 0);
    message_stream_close(stream);
    arena_deinit(&tally.arena);
    arena_deinit(&rest_arena);
    arena_deinit(&arena);
    buf_deinit(&c.bytes);
}
