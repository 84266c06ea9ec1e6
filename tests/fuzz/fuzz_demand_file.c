/* SPDX-License-Identifier: Apache-2.0 */
/* The demand file of `muster operator run`: its rows are put, and every row is then either
 * in the demand or refused with a reason. */
#include <stddef.h>
#include <stdint.h>

#include "operator/core/demand.h"
#include "operator/demand_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_all(const struct demand_file *file)
{
    struct demand *demand;
    size_t taken = 0, cursor = 0, requests = 0;
    const struct rollup_row *row;

    if (demand_open(1, &demand)) return;
    demand_list_begin(demand);
    for (size_t i = 0; i < file->count; i++) {
        struct note note = {""};
        enum err err = demand_put(demand, file->rows[i].name, &file->rows[i].request, NULL, &note);
        assert(!err || note.text[0] || err == ERR_NOMEM);
        taken += !err;
    }
    demand_list_end(demand);
    while ((row = demand_next(demand, &cursor))) requests += row->requests;
    assert(requests == taken && demand_requests(demand) == taken);
    demand_close(demand);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct demand_file file;
    struct note note = {""};
    struct arena arena;
    enum err err;

    arena_init(&arena, 64 << 20);
    err = demand_file_read(str_of(data, size), &arena, &file, &note);
    assert(!err || note.text[0] || err == ERR_NOMEM);
    if (!err) put_all(&file);
    arena_deinit(&arena);
    return 0;
}
