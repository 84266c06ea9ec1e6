/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of `muster plan`: a first byte chooses whether machines (or demand) come first, as a
 * document or as lines; after a NUL, which no JSON contains, follows the other of the two. Accepted
 * input is decided on and printed. */
#include "shard/plan/plan.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(struct planner *planner, struct str text, bool needs, enum plan_form form)
{
    struct note note = {""};
    enum err err = needs ? planner_add_needs(planner, text, form, &note)
                         : planner_add_machines(planner, text, form, &note);

    assert(!err || note.text[0] || err == ERR_NOMEM);
}

static void print_all(const struct planner *planner)
{
    struct buf out;
    size_t count;

    buf_init(&out, 1 << 24);
    assert(planner_print_actions(planner, 0, SIZE_MAX, &out, &count) == ERR_OK);
    assert(planner_print_needs(planner, true, 0, SIZE_MAX, &out, &count) == ERR_OK);
    for (size_t i = 0; i < out.len; i++)
        assert((unsigned char)out.data[i] >= 0x20 || out.data[i] == '\n');
    assert(planner_transcript(planner, &out) == ERR_OK);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct planner *planner;
    struct str rest, first;
    enum plan_form form;

    if (size < 1 || planner_open(&planner)) return 0;
    form = data[0] & 1 ? PLAN_LINES : PLAN_DOCUMENT;
    rest = str_of(data + 1, size - 1);
    if (str_split(&rest, '\0', &first)) add(planner, first, data[0] & 2, form);
    if (rest.len) add(planner, rest, !(data[0] & 2), form);
    assert(planner_decide(planner) == ERR_OK);
    print_all(planner);
    planner_close(planner);
    return 0;
}
