/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a command: refused by name, or read, and the bytes written from it are read to the
 * same; the tables apply it or refuse it with an error other than lack of memory. */
#include <stdlib.h>

#include "fleet/format/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fleet_command command, again;
    struct fleet_result result;
    struct fleet *fleet;
    struct buf text, second;
    struct arena arena;
    struct note note = {""};
    enum err err;

    arena_init(&arena, (size_t)64 << 20);
    buf_init(&text, (size_t)64 << 20);
    buf_init(&second, (size_t)64 << 20);
    must(fleet_open(&fleet) == ERR_OK);
    err = fleet_command_decode(str_of(data, size), &arena, &command, &result, &note);
    must(err == ERR_OK || err == ERR_INVALID);
    if (err) {
        fleet_result_text(NULL, &result, &note);
    } else {
        must(fleet_command_encode(&command, &text) == ERR_OK);
        must(fleet_command_decode(buf_peek(&text), &arena, &again, &result, NULL) == ERR_OK);
        must(fleet_command_encode(&again, &second) == ERR_OK);
        must(str_equal(buf_peek(&text), buf_peek(&second)));
        result = fleet_apply(fleet, &command);
        must(result.status != FLEET_NO_MEMORY && result.status != FLEET_NOT_TEXT);
        fleet_result_text(&command, &result, &note);
        result = fleet_apply_entry(fleet, &command,
                                   (struct fleet_entry){.index = 2, .level = FLEET_LEAVING_LEVEL});
        must(result.status != FLEET_NO_MEMORY && result.status != FLEET_NOT_TEXT);
        fleet_result_text(&command, &result, &note);
    }
    fleet_close(fleet);
    buf_deinit(&text);
    buf_deinit(&second);
    arena_deinit(&arena);
    return 0;
}
