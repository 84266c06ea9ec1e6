/* SPDX-License-Identifier: Apache-2.0 */
/* Admits the senders of accepted connections.
 *
 * An attacker can replay a recorded hello. Therefore a valid hello only causes an answer with a
 * random number. The sender's next frame, a beat, is salted with this number and proves the
 * sender's identity. */
#include <string.h>

#include "log/peers_internal.h"

/* Closes the sender's older connection on the lane, which is broken: a dialer has one connection
 * per lane. */
static void replace_older(struct incoming *c)
{
    LIST_EACH(&c->peers->incoming, node)
    {
        struct incoming *other = CONTAINER_OF(node, struct incoming, link);
        if (other->from == c->from && other->lane == c->lane) peer_in_hang_up(other);
    }
}

static size_t count_outsiders(const struct peers *peers)
{
    size_t count = 0;

    LIST_EACH(&peers->incoming, node)
    {
        const struct incoming *other = CONTAINER_OF(node, struct incoming, link);
        if (!other->closing && !peers_find(peers, other->from)) count++;
    }
    return count;
}

/* -- the hello -- */

static void report_foreign(struct peers *peers, const struct frame_hello *hello)
{
    if (!peers->events.on_foreign) return;
    peers->calling = true;
    peers->events.on_foreign(peers->events.owner, hello->cluster_id, hello->to);
    peers->calling = false;
}

static bool peers_greet_judge(struct incoming *c, const struct frame_hello *hello)
{
    struct peers *peers = c->peers;
    struct note note = {""};

    if (peers->cluster_id != 0 && hello->cluster_id != peers->cluster_id) {
        bool known = peers_identity_ok(peers, c->stream, hello, &note);
        note_set(&note, "it belongs to cluster %016llx", (unsigned long long)hello->cluster_id);
        peer_in_refuse(c, REFUSED_CLUSTER, note.text);
        if (known) report_foreign(peers, hello);
    } else if (hello->to != peers->id || hello->from == peers->id) {
        /* This replica has no cluster: a member of a cluster takes this replica for an earlier
         * replica at the same address. */
        bool foreign = peers->cluster_id == 0 && hello->cluster_id != 0 &&
                       peers_identity_ok(peers, c->stream, hello, &note);
        note_set(&note, "from %016llx, for %016llx", (unsigned long long)hello->from,
                 (unsigned long long)hello->to);
        peer_in_refuse(c, REFUSED_RECEIVER, note.text);
        if (foreign) report_foreign(peers, hello);
    } else if (!peers_identity_ok(peers, c->stream, hello, &note)) {
        peer_in_refuse(c, REFUSED_IDENTITY, note.text);
    } else {
        return true;
    }
    return false;
}

static void keep_text(char *into, struct str text)
{
    memcpy(into, text.at, text.len);
    into[text.len] = '\0';
}

static void keep_hello(struct incoming *c, const struct frame_hello *hello)
{
    c->lane = hello->lane;
    c->from = hello->from;
    c->cluster_id = hello->cluster_id;
    c->level = hello->level;
    peers_id_text(c->from, c->from_text);
    keep_text(c->name, hello->name);
    keep_text(c->address, hello->address);
}

enum err peer_greet(struct incoming *c, const struct frame_hello *hello)
{
    uint64_t nonce = entropy_u64(c->peers->io->entropy);
    struct peer_frame frame;
    enum err err;

    if (!peers_greet_judge(c, hello)) return ERR_DENIED;
    keep_hello(c, hello);
    frame = peers_hello(c->peers, c->lane, c->from, nonce);
    frame.u.hello.cluster_id = c->cluster_id; /* this replica's cluster, or the cluster to join */
    err = peer_in_answer(c, &frame);
    if (err) peer_in_refuse(c, REFUSED_MEMORY, err_text(err));
    c->in.session = c->out.session = frame_session(hello->nonce, nonce);
    c->greeted = true;
    return err;
}

/* -- the first frame after the hello -- */

static bool adopt_cluster(struct peers *peers, uint64_t cluster_id)
{
    bool taken = false;

    if (peers->cluster_id == cluster_id) return true;
    if (peers->cluster_id == 0 && peers->events.on_cluster) {
        peers->calling = true;
        taken = peers->events.on_cluster(peers->events.owner, cluster_id);
        peers->calling = false;
    }
    if (!taken) return false;
    peers->cluster_id = cluster_id;
    LIST_EACH(&peers->list, node) peer_line_look(&CONTAINER_OF(node, struct peer, link)->control);
    return true;
}

static void introduce(struct incoming *c)
{
    struct peers *peers = c->peers;
    struct peer *peer;

    LOG_INFO(&peers->log, "a replica connected to this one", log_text("replica", c->from_text),
             log_text("name", c->name), log_text("address", c->address),
             log_text("lane", peers_lane_name(c->lane)), log_u64("level", c->level));
    if (peers->events.on_hello) {
        peers->calling = true;
        peers->events.on_hello(peers->events.owner, c->from, c->level, str_from(c->address));
        peers->calling = false;
    }
    peer = peers_find(peers, c->from);
    if (peer) peer_line_hurry(&peer->control);
}

enum err peer_welcome(struct incoming *c, const struct peer_frame *first)
{
    struct peers *peers = c->peers;

    if (first->kind != FRAME_BEAT) {
        peer_in_refuse(c, REFUSED_ORDER, "another frame where a beat was due");
        return ERR_PARSE;
    }
    if (!peers_find(peers, c->from) && count_outsiders(peers) >= OUTSIDERS_MAX) {
        peer_in_refuse(c, REFUSED_FULL, "too many connections of replicas that are no members");
        return ERR_FULL;
    }
    if (!adopt_cluster(peers, c->cluster_id)) {
        peer_in_refuse(c, REFUSED_CLUSTER, "we do not join its cluster");
        return ERR_DENIED;
    }
    replace_older(c);
    peer_in_leave_list(c);
    c->known = true;
    list_append(&peers->incoming, &c->link);
    timer_start_in(&c->timer, peers->idle_ms / BEATS_PER_IDLE);
    introduce(c);
    return ERR_OK;
}
