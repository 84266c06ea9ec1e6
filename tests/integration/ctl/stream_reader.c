/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a stream of a coordinator through src/ctl's remote.h, for test_ctl_canned.py:
 *   stream_reader [--coordinator A,B] ... [REFUSE]     takes the options of musterctl's commands
 * Prints the size of each chunk of SnapshotSave, then the error's name and its note. With REFUSE it
 * has enough after so many messages. */
#include <stdio.h>

#include "common/program.h"
#include "common/tables.h"
#include "ctl/remote.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"

struct reader {
    uint64_t seen, refuse;
};

static enum err on_chunk(void *owner, const ProtobufCMessage *message, struct note *note)
{
    struct reader *reader = owner;
    const Bigfleet__V1alpha1__SnapshotSaveChunk *chunk = (const void *)message;

    if (++reader->seen == reader->refuse) {
        note_set(note, "enough after %llu", (unsigned long long)reader->seen);
        return ERR_NO_SPACE;
    }
    printf("%zu\n", chunk->data.len);
    return ERR_OK;
}

static int run(void *context, const struct command_call *call)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/SnapshotSave",
        &bigfleet__v1alpha1__snapshot_save_chunk__descriptor, REMOTE_READ, NULL};
    Bigfleet__V1alpha1__SnapshotSaveRequest request =
        BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_REQUEST__INIT;
    struct remote *remote = NULL;
    struct reader reader = {0};
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    if (conf_argument_count(conf) > 0)
        err = str_to_u64(str_from(conf_argument(conf, 0)), &reader.refuse);
    if (!err) err = remote_open(conf, NULL, &remote, &note);
    if (!err) err = remote_stream(remote, &method, &request.base, on_chunk, &reader, &note);
    printf("%s %s\n", err ? err_name(err) : "OK", note.text);
    remote_close(remote);
    conf_close(conf);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct command read_command = {.name = "read",
                                                .summary = "read",
                                                .about = "Reads.",
                                                .options = &ctl_table,
                                                .arguments = "[REFUSE]",
                                                .arguments_max = 1,
                                                .run = run};
    static const struct command *const children[] = {&read_command, NULL};
    static const struct command program = {
        .name = "stream_reader", .summary = "reads", .about = "Reads.", .children = children};

    return program_main(&program, argc, argv);
}
