/* Nodes that speak with each other: connecting, back-off, queues, holding back, moving. */
#include <string.h>

#include "peers_rig.h"

static const struct frame some_vote = {
    .kind = FRAME_VOTE,
    .u.vote = {
        .version = 2, .term = 7, .candidate_id = 1, .last_log_index = 9, .last_log_term = 6}};

static void two_nodes(bool real)
{
    rig_open(real);
    rig_node_open(0, RIG_CLUSTER);
    rig_node_open(1, RIG_CLUSTER);
    rig_node_set(0, 2, 1, 2);
    rig_node_set(1, 2, 1, 2);
}

static bool joined(size_t i, size_t k)
{
    return peers_connected(rig.nodes[i].peers, k + 1) && peers_connected(rig.nodes[k].peers, i + 1);
}

TEST_BOTH(two_nodes_connect_and_a_frame_arrives_as_it_was_sent)
{
    struct node *b = &rig.nodes[1];

    two_nodes(rig.real);
    RIG_UNTIL("they meet", joined(0, 1));
    CHECK_OK("send", peers_send(rig.nodes[0].peers, 2, &some_vote));
    RIG_UNTIL("it arrives", b->frames > 0);
    CHECK_U64("from", b->from, 1);
    CHECK_U64("kind", b->last.kind, FRAME_VOTE);
    CHECK_U64("term", b->last.u.vote.term, 7);
    CHECK_U64("index", b->last.u.vote.last_log_index, 9);
    CHECK_U64("both hellos told", b->hellos, 2);
    CHECK_U64("level", b->last_level, 3);
    CHECK_TEXT("address", b->last_address, rig.nodes[0].address);
    rig_close();
}
