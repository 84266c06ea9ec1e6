/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a command of the log: refused with a note, or read and written again to the same
 * bytes. The machines then apply the content that they can parse. */
#include <stdlib.h>
#include <string.h>

#include "log/envelope.h"
#include "log/log.h"
#include "log/meta.h"
#include "trial/trial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void apply(const struct log_envelope *envelope)
{
    struct machine_entry entry = {.index = 1, .command = envelope->command};
    struct trial_reply reply;
    struct trial *trial;
    struct meta meta;
    struct buf bytes;

    meta_init(&meta);
    meta_advance(&meta, envelope);
    must(meta.clock_ns == envelope->advance_ns);
    must(meta_apply(&meta, envelope->command, NULL) == ERR_OK || meta.level == 1);
    must(trial_open(4, &trial) == ERR_OK);
    buf_init(&bytes, 100);
    must(trial_ops.apply(trial, &entry, &bytes, NULL) == ERR_OK);
    must(trial_reply_parse(buf_peek(&bytes), &reply) == ERR_OK);
    must(trial_count(trial) <= 1);
    buf_deinit(&bytes);
    trial_close(trial);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str given = str_of(data, size);
    struct log_envelope envelope;
    struct note note = {""};
    struct buf again;

    if (envelope_parse(given, &envelope, &note)) {
        must(note.text[0] != '\0');
        return 0;
    }
    must(note.text[0] == '\0');
    must(envelope_size(&envelope) == size);
    buf_init(&again, size);
    must(envelope_append(&envelope, &again) == ERR_OK);
    must(str_equal(buf_peek(&again), given));
    buf_deinit(&again);
    apply(&envelope);
    return 0;
}
