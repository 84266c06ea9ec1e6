/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of the shard as an operator reads it; the machine states in it are kept and reported. */
#include <stddef.h>
#include <stdint.h>

#include "operator/frames.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_node(const struct cluster_node *given)
{
    const struct cluster_node *node;
    struct nodes *nodes;

    if (nodes_open(1, &nodes)) return;
    if (!nodes_report(nodes, given)) {
        node = nodes_find(nodes, given->machine_id);
        assert(node && str_equal(node->machine_id, given->machine_id));
        assert(node->label_count == given->label_count);
    }
    nodes_close(nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const Bigfleet__V1alpha1__ShardMessage *given;
    ProtobufCMessage *message;
    struct blob_request blob;
    struct cluster_node node;
    struct available hint;
    struct note note = {""};
    struct arena arena;
    enum err err;

    arena_init(&arena, 64 << 20);
    err = message_read(&bigfleet__v1alpha1__shard_message__descriptor,
                       str_of((const char *)data, size), NULL, &arena, &message, &note);
    given = err ? NULL : (const void *)message;
    if (given &&
        given->payload_case == BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_BOOTSTRAP_REQUEST)
        err = frames_read_blob(given->bootstrap_request, &arena, &blob, &note);
    if (given &&
        given->payload_case == BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_AVAILABLE_CAPACITY)
        err = frames_read_available(given->available_capacity, &arena, &hint, &note);
    if (given &&
        given->payload_case == BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NODE_STATE_UPDATE) {
        err = frames_read_node(given->node_state_update, &arena, &node, &note);
        if (!err) check_node(&node);
    }
    assert(!err || note.text[0] || err == ERR_NOMEM);
    arena_deinit(&arena);
    return 0;
}
