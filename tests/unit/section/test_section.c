/* SPDX-License-Identifier: Apache-2.0 */
#include "section/section.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"

enum { NUMBERS = 60, KINDS = 2 };

/* Rows of two kinds, each a number. */
struct number {
    struct section_row row;
    uint32_t name, value;
};
struct state {
    struct section section;
    struct number *numbers[NUMBERS]; /* by name; NULL: none */
};

static void number_write(const struct section_row *row, struct encoder *out)
{
    const struct number *number = CONTAINER_OF(row, const struct number, row);

    encode_u32(out, number->name);
    encode_u32(out, number->value);
}

static void state_open(struct state *state)
{
    *state = (struct state){0};
    section_init(&state->section, "AB", number_write);
}

static void state_put(struct state *state, uint32_t name, uint32_t value)
{
    struct number *number = state->numbers[name];

    if (number) {
        section_row_keep(&state->section, &number->row);
    } else {
        number = state->numbers[name] = calloc(1, sizeof *number);
        number->name = name;
        section_row_born(&state->section, &number->row, name % KINDS);
    }
    number->value = value;
}

static void state_drop(struct state *state, uint32_t name)
{
    struct number *number = state->numbers[name];

    if (!number) return;
    section_row_keep(&state->section, &number->row);
    section_row_gone(&number->row);
    free(number);
    state->numbers[name] = NULL;
}

static void state_close(struct state *state)
{
    section_close(&state->section);
    for (uint32_t name = 0; name < NUMBERS; name++) state_drop(state, name);
}

static uint64_t state_hash(const struct state *state)
{
    uint64_t hash = 0;

    for (uint32_t name = 0; name < NUMBERS; name++)
        if (state->numbers[name]) hash += ((uint64_t)name << 32 | state->numbers[name]->value) + 1;
    return hash;
}

static void *view_of(struct state *state)
{
    struct section_view *view;
    struct encoder *out;
    size_t start;
    void *ready;

    CHECK_OK("a view", section_view_open(&state->section, &view));
    out = section_view_encoder(view);
    start = section_record_begin(out, 'H');
    encode_text(out, STR("a head"));
    section_record_end(out, start);
    section_view_rows(view);
    section_view_hash(view, 'Z', state_hash(state));
    CHECK_OK("ready", section_view_ready(view, ERR_OK, &ready));
    return ready;
}

static enum err number_read(void *owner, char kind, struct decoder *in)
{
    uint32_t name;

    if (kind == 'H')
        return str_equal(decode_text(in, 10), STR("a head")) && decode_done(in) ? ERR_OK
                                                                                : ERR_CORRUPT;
    name = decode_u32(in);
    if (name >= NUMBERS || kind != "AB"[name % KINDS]) return ERR_CORRUPT;
    state_put(owner, name, decode_u32(in));
    return decode_done(in) ? ERR_OK : ERR_CORRUPT;
}

static enum err state_read(struct state *state, struct str bytes, size_t portion, struct note *note)
{
    struct section_reader reader;
    enum err err = ERR_OK;

    section_read_begin(&reader, "numbers", "HABZ", number_read, state);
    for (; !err && bytes.len > 0; bytes = str_tail(bytes, portion))
        err = section_read(&reader, str_of(bytes.at, min_size(bytes.len, portion)), note);
    if (!err && section_read_any(&reader))
        err = section_read_failed(&reader, section_read_end(&reader), note);
    if (!err && section_read_any(&reader))
        CHECK_U64("as it was written", state_hash(state), reader.hash);
    section_read_close(&reader);
    return err;
}

TEST(a_view_shows_the_state_of_its_start_in_portions_of_any_size)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int round = 0; round < 200; round++) {
        struct state numbers, copy;
        struct note note = {""};
        struct buf bytes;
        uint64_t hash;
        bool done = false;
        void *view;

        state_open(&numbers);
        state_open(&copy);
        buf_init(&bytes, 1 << 20);
        for (int i = 0; i < 100; i++)
            state_put(&numbers, (uint32_t)prng_below(&p, NUMBERS),
                      (uint32_t)prng_below(&p, UINT32_MAX));
        hash = state_hash(&numbers);
        view = view_of(&numbers);
        while (!done) {
            size_t before = bytes.len;

            for (uint64_t n = prng_below(&p, 8); n > 0; n--)
                if (prng_chance(&p, 300000))
                    state_drop(&numbers, (uint32_t)prng_below(&p, NUMBERS));
                else
                    state_put(&numbers, (uint32_t)prng_below(&p, NUMBERS),
                              (uint32_t)prng_below(&p, UINT32_MAX));
            CHECK_OK("next", section_view_next(view, prng_below(&p, 60), &bytes, &done));
            CHECK("at least one byte", bytes.len > before || done);
        }
        section_view_close(view);
        CHECK_OK(note.text, state_read(&copy, buf_peek(&bytes), 1 + prng_below(&p, 50), &note));
        CHECK_U64("its moment", state_hash(&copy), hash);
        state_close(&numbers);
        state_close(&copy);
        buf_deinit(&bytes);
    }
}

TEST(one_view_at_a_time_and_its_reader_gets_an_error_when_the_state_is_gone)
{
    struct section_view *second;
    struct state numbers;
    struct buf bytes;
    bool done = false;
    void *view;

    state_open(&numbers);
    buf_init(&bytes, 1 << 20);
    state_put(&numbers, 1, 1);
    view = view_of(&numbers);
    CHECK_ERR("one is open", section_view_open(&numbers.section, &second), ERR_FULL);
    CHECK_OK("its first byte", section_view_next(view, 1, &bytes, &done));
    state_close(&numbers);
    CHECK_ERR("gone", section_view_next(view, 1, &bytes, &done), ERR_CLOSED);
    section_view_close(view);
    section_view_close(NULL);
    buf_deinit(&bytes);
}

/* A part that counts its end, and fails when nothing is left. */
struct countdown {
    int left, ended;
    enum err then;
};

static enum err countdown_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct countdown *countdown = opaque;

    (void)budget;
    if (countdown->left == 0) return countdown->then;
    *ret_done = --countdown->left == 0 && !countdown->then;
    return buf_append_byte(into, 'x');
}

static void countdown_end(void *opaque)
{
    ((struct countdown *)opaque)->ended++;
}

TEST(parts_come_in_order_end_once_and_a_failure_is_final)
{
    struct countdown good = {.left = 3}, bad = {.left = 1, .then = ERR_BUSY};
    struct section_view *view;
    struct buf bytes;
    bool done = false;
    void *ready;

    buf_init(&bytes, 100);
    CHECK_OK("without rows", section_view_open(NULL, &view));
    section_view_add(view, (struct section_part){countdown_next, countdown_end, &good});
    encode_u8(section_view_encoder(view), '-');
    encode_u8(section_view_encoder(view), '-');
    section_view_add(view, (struct section_part){countdown_next, countdown_end, &bad});
    CHECK_OK("ready", section_view_ready(view, ERR_OK, &ready));
    CHECK_OK("up to its failure", section_view_next(ready, 6, &bytes, &done));
    CHECK_STR("in order", buf_peek(&bytes), STR("xxx--x"));
    CHECK_ERR("fails", section_view_next(ready, 6, &bytes, &done), ERR_BUSY);
    bad.then = ERR_OK;
    CHECK_ERR("for good", section_view_next(ready, 6, &bytes, &done), ERR_BUSY);
    CHECK("never done", !done);
    section_view_close(ready);
    CHECK_U64("ended once", good.ended, 1);
    CHECK_U64("ended once", bad.ended, 1);

    CHECK_OK("another", section_view_open(NULL, &view));
    section_view_add(view, (struct section_part){countdown_next, countdown_end, &good});
    CHECK_ERR("not made", section_view_ready(view, ERR_NOMEM, &ready), ERR_NOMEM);
    CHECK_U64("the part ends", good.ended, 2);
    buf_deinit(&bytes);
}

static void record_put(struct buf *into, char kind, struct str content)
{
    struct encoder out = {into, ERR_OK};
    size_t start = section_record_begin(&out, kind);

    encode_bytes(&out, content.at, content.len);
    section_record_end(&out, start);
    CHECK_OK("put", out.err);
}

TEST(what_is_no_section_is_refused_with_its_place)
{
    static const char head[] = "\6\0\0\0a head", row[] = "\2\0\0\0\7\0\0\0", hash[8];
#define BYTES(text) str_of(text, sizeof text - 1)
    struct str contents[128] = {0};
    static const struct {
        const char *kinds, *note;
        enum err err;
    } cases[] = {
        {"", "", ERR_OK},
        {"A", "record 'H' at byte 0", ERR_CORRUPT},
        {"HH", "record 'H' at byte 15", ERR_CORRUPT},
        {"H", "record 'H' at byte 15", ERR_CORRUPT},
        {"HA", "record 'A' at byte 28", ERR_CORRUPT},
        {"HAA", "record 'A' at byte 41", ERR_CORRUPT},
        {"HB", "record 'B' at byte 15", ERR_CORRUPT}, /* a row of the wrong kind */
        {"HZ", "", ERR_OK},
        {"HZA", "record 'Z' at byte 28", ERR_CORRUPT},
        {"HZZ", "record 'Z' at byte 28", ERR_CORRUPT},
        {"HX", "record 'H' at byte 15", ERR_CORRUPT},
    };

    contents['H'] = BYTES(head);
    contents['A'] = contents['B'] = BYTES(row);
    contents['Z'] = str_of(hash, sizeof hash);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        struct state numbers;
        struct buf bytes;

        state_open(&numbers);
        buf_init(&bytes, 1000);
        for (const char *kind = cases[i].kinds; *kind; kind++)
            record_put(&bytes, *kind, contents[(unsigned char)*kind]);
        CHECK_ERR(cases[i].kinds, state_read(&numbers, buf_peek(&bytes), 1000, &note),
                  cases[i].err);
        CHECK_HAS(cases[i].kinds, note.text, cases[i].note);
        state_close(&numbers);
        buf_deinit(&bytes);
    }
}

TEST(a_record_larger_than_any_is_refused_by_its_length_alone)
{
    struct note note = {""};
    struct state numbers;
    char bytes[SECTION_RECORD_HEAD] = "H";

    state_open(&numbers);
    store_le32(bytes + 1, SECTION_RECORD_MAX + 1);
    CHECK_ERR("too large", state_read(&numbers, str_of(bytes, sizeof bytes), 1, &note),
              ERR_CORRUPT);
    CHECK_HAS("where", note.text, "numbers section: record 'H' at byte 0");
    store_le32(bytes + 1, SECTION_RECORD_MAX);
    CHECK_ERR("cut short", state_read(&numbers, str_of(bytes, sizeof bytes), 1, &note),
              ERR_CORRUPT);
    state_close(&numbers);
}

/* -- feeding -- */
static enum err take_pairs(void *owner, struct str bytes, size_t *ret_taken, struct note *note)
{
    size_t whole = bytes.len / 2 * 2;

    (void)note;
    CHECK_OK("taken", buf_append(owner, str_of(bytes.at, whole)));
    *ret_taken = whole;
    return ERR_OK;
}

static enum err take_nothing(void *owner, struct str bytes, size_t *ret_taken, struct note *note)
{
    (void)owner;
    (void)bytes;
    (void)note;
    *ret_taken = 0;
    return ERR_OK;
}

TEST(input_is_consumed_completely_and_endless_input_reaches_the_limit)
{
    struct buf rest, got;

    buf_init(&rest, 3);
    buf_init(&got, 100);
    CHECK_OK("fed", section_feed(&rest, STR("abcdefg"), take_pairs, &got, NULL));
    CHECK_STR("taken", buf_peek(&got), STR("abcdef"));
    CHECK_STR("left", buf_peek(&rest), STR("g"));
    CHECK_ERR("no end", section_feed(&rest, STR("hij"), take_nothing, NULL, NULL), ERR_FULL);
    buf_deinit(&rest);
    buf_deinit(&got);
}
