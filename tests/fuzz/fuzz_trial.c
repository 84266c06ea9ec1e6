/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot of the trial machine, cut at the first byte: refused with a note, or
 * restored, and a snapshot of the restored machine is restored to the same. */
#include <stdlib.h>

#include "trial/trial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err restore(struct trial *trial, uint64_t index, struct str bytes, size_t cut,
                        struct note *note)
{
    enum err err = trial_ops.restore_begin(trial, index, note), end;

    while (!err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        err = trial_ops.restore_next(trial, str_of(bytes.at, piece), note);
        bytes = str_tail(bytes, piece);
    }
    end = trial_ops.restore_end(trial, note);
    return err ? err : end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trial *trial, *again;
    struct note note = {""};
    struct buf bytes;
    bool done = false;
    void *view;

    if (size == 0) return 0;
    must(trial_open(1000, &trial) == ERR_OK);
    must(trial_open(1000, &again) == ERR_OK);
    buf_init(&bytes, size + 100);
    if (restore(trial, 7, str_of(data + 1, size - 1), (size_t)data[0] + 1, &note)) {
        must(note.text[0] != '\0');
        goto done;
    }
    must(trial_ops.snapshot_begin(trial, 7, &view) == ERR_OK);
    while (!done) must(trial_ops.snapshot_next(view, 64, &bytes, &done) == ERR_OK);
    trial_ops.snapshot_end(view);
    must(restore(again, 7, buf_peek(&bytes), 1000, &note) == ERR_OK);
    must(trial_hash(again) == trial_hash(trial));
    must(trial_count(again) == trial_count(trial));
done:
    buf_deinit(&bytes);
    trial_close(trial);
    trial_close(again);
    return 0;
}
