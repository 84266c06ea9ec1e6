/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, while a section is written and read: the view reports it
 * once and stays failed, the rows still change, and nothing leaks. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "section/section.h"

enum { ROWS = 12 };
struct number {
    struct section_row row;
    uint32_t value;
};

static void number_write(const struct section_row *row, struct encoder *out)
{
    encode_u32(out, CONTAINER_OF(row, const struct number, row)->value);
}

static enum err number_read(void *owner, char kind, struct decoder *in)
{
    if (kind == 'A') *(uint64_t *)owner += decode_u32(in);
    return ERR_OK;
}

static enum err view_open(struct section *section, void **ret_view)
{
    struct section_view *view;
    struct encoder *out;
    size_t start;
    enum err err = section_view_open(section, &view);

    if (err) return err;
    out = section_view_encoder(view);
    start = section_record_begin(out, 'H');
    section_record_end(out, start);
    section_view_rows(view);
    section_view_hash(view, 'Z', 7);
    return section_view_ready(view, ERR_OK, ret_view);
}

static enum err write_all(struct section *section, struct number *numbers, struct buf *into)
{
    void *view;
    bool done = false;
    enum err err = view_open(section, &view);

    if (err) return err;
    for (int i = 0; !err && !done; i++) {
        struct number *number = &numbers[(i * 5) % ROWS]; /* before its turn, or after */

        section_row_keep(section, &number->row);
        number->value += 1000;
        err = section_view_next(view, 20, into, &done);
        if (err) CHECK_ERR("for good", section_view_next(view, 20, into, &done), err);
    }
    section_view_close(view);
    return err;
}

static enum err read_all(struct str bytes, uint64_t *ret_sum)
{
    struct section_reader reader;
    struct note note = {""};
    enum err err;

    *ret_sum = 0;
    section_read_begin(&reader, "numbers", "HAZ", number_read, ret_sum);
    err = section_read(&reader, bytes, &note);
    CHECK("a note with every failure", (err != ERR_OK) == (note.text[0] != '\0'));
    if (!err) err = section_read_end(&reader);
    if (!err) CHECK_U64("its hash", reader.hash, 7);
    section_read_close(&reader);
    return err;
}

TEST(a_section_is_written_and_read_whole_or_memory_ran_out)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct number numbers[ROWS];
        struct section section;
        struct buf bytes;
        uint64_t sum = 0;
        enum err err;

        section_init(&section, "A", number_write);
        for (uint32_t i = 0; i < ROWS; i++) {
            numbers[i].value = i;
            section_row_born(&section, &numbers[i].row, 0);
        }
        buf_init(&bytes, 1 << 16);
        err = write_all(&section, numbers, &bytes);
        if (!err) err = read_all(buf_peek(&bytes), &sum);
        if (!err) CHECK_U64("of its moment", sum, ROWS * (ROWS - 1) / 2);
        if (err) CHECK_ERR("nothing but memory", err, ERR_NOMEM);
        CHECK("only a failed allocation is an error", !err || fault_alloc_fired());
        section_close(&section);
        buf_deinit(&bytes);
        turns++;
    }
    CHECK("some failed", turns > 10);
}
