/* The engine by itself and in small clusters: what drivers rely on. */
#include <string.h>

#include "base/buf.h"
#include "cluster.h"
#include "lib/test.h"

TEST(a_lone_voter_leads_from_the_start_in_a_new_term)
{
    struct cluster *c = cluster_of(1, 1);
    struct node *node = cluster_node(c, 1);

    CHECK_U64("leads", cluster_leader(c), 1);
    CHECK_U64("a new term", node->term, 2);
    CHECK_U64("its own vote", node->vote, 1);
    CHECK_U64("configuration and barrier are applied", node->applied, 2);
    CHECK_OK("takes a command", cluster_submit(c, 1, "x"));
    CHECK_U64("applied at once: its disk is the majority", node->applied, 3);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(three_voters_elect_a_leader_and_apply_what_it_submits)
{
    struct cluster *c = cluster_of(3, 1);

    CHECK_U64("nobody leads yet", cluster_leader(c), 0);
    CHECK("1 is elected", cluster_elect(c, 1));
    for (int i = 0; i < 100; i++) {
        CHECK_OK("taken", cluster_submit(c, 1, "x"));
        cluster_deliver_all(c);
    }
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    for (uint64_t id = 1; id <= 3; id++)
        CHECK_U64("configuration, barrier, commands", cluster_node(c, id)->applied, 102);
    CHECK_U64("followers know it", engine_leader(cluster_node(c, 2)->engine), 1);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}
