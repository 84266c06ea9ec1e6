/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of the shard as an operator reads it; what it says of a machine is then kept and reported. */
#include <stddef.h>
#include <stdint.h>

#include "operator/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shard_frame frame;
    struct note note = {""};
    struct nodes *nodes;
    const struct cluster_node *node;
    struct arena arena;
    enum err err;

    if (nodes_open(1, &nodes)) return 0;
    arena_init(&arena, 64 << 20);
    err = frames_read(str_of(data, size), &arena, &frame, &note);
    assert(!err || note.text[0] || err == ERR_NOMEM);
    if (!err && frame.word == SHARD_NODE_STATE && !nodes_report(nodes, &frame.node)) {
        node = nodes_find(nodes, frame.node.machine_id);
        assert(node && str_equal(node->machine_id, frame.node.machine_id));
        assert(node->label_count == frame.node.label_count);
    }
    arena_deinit(&arena);
    nodes_close(nodes);
    return 0;
}
