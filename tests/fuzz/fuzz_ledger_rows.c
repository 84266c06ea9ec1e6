/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the heartbeat ledger: a row that is read is written again to the same bytes, except for
 * the fields that an old row leaves out. */
#include <stddef.h>
#include <stdint.h>

#include "member/ledger/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = str_of((const char *)data, size);
    struct heartbeat_row beat, beat_again;
    struct worker_row worker, worker_again;
    struct buf written;

    buf_init(&written, 2 * ROW_BYTES_MAX);
    if (!heartbeat_row_read(bytes, &beat)) {
        assert(beat.phase >= 1 && beat.phase <= 4 && beat.worker_id.len > 0);
        assert(!heartbeat_row_write(&beat, &written));
        assert(str_equal(buf_peek(&written), bytes));
        assert(!heartbeat_row_read(buf_peek(&written), &beat_again));
    }
    buf_clear(&written);
    if (!worker_row_read(bytes, &worker)) {
        assert(!worker_row_write(&worker, &written));
        assert(str_starts(buf_peek(&written), bytes));
        assert(!worker_row_read(buf_peek(&written), &worker_again));
        assert(worker_again.incarnation == worker.incarnation);
    }
    buf_deinit(&written);
    return 0;
}
