/* SPDX-License-Identifier: Apache-2.0 */
/* Operators for benches: hundreds of clusters in one process that takes next to no CPU, so that a
 * bench shows the shard and not its operators.
 *
 *   operators_stub ADDRESS
 *
 * Each line of its input names a file: for each cluster the length of its name, the name, the
 * length of a frame and the frame (OperatorMessage), lengths in 4 bytes, little end first. A
 * cluster that is new opens a session; every frame is sent; "acked" is printed when all were
 * acknowledged.
 * Every request for a blob is answered at once with 1 KiB. Other frames are read and ignored.
 * Ends with its input. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "bench.h"
#include "io/real.h"
#include "rpc/client.h"
#include "wire/field.h"
#include "wire/pack.h"

enum {
    CLUSTERS_MAX = 10000,
    FRAME_MAX = 64 << 20,
    BLOB = 1024,
    SHARD_ACK = 1,
    SHARD_BLOB_REQUEST = 2,
    OPERATOR_HELLO = 1,
    OPERATOR_BLOB_RESPONSE = 3,
    REQUEST_ID = 1,
    USER_DATA = 2,
};

struct peer {
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    bool greeted; /* the first acknowledgement is that of its Hello */
    struct str name;
    char text[];
};
static struct {
    struct real_io *real;
    const char *address;
    struct map peers;
    uint64_t owed; /* acknowledgements */
    struct buf part, frame;
    char blob[BLOB], path[4096];
    bool ended;
    struct post input;
    sem_t taken;
} stub;

static void put_frame(uint32_t field, struct pack *inner)
{
    struct pack outer = pack_begin(&stub.frame);

    pack_row(&outer, field, inner);
    MUST(!outer.err);
}

static void answer_blob(struct peer *peer, struct str request)
{
    struct field_head head;
    const char *problem;
    struct pack inner = pack_begin(&stub.part);

    MUST(head_read((const uint8_t *)request.at, (const uint8_t *)request.at + request.len, &head,
                   &problem) == HEAD_WHOLE);
    MUST(head.number == REQUEST_ID);
    pack_text(&inner, REQUEST_ID, str_of(request.at + head.len, head.payload));
    pack_text(&inner, USER_DATA, str_of(stub.blob, BLOB));
    put_frame(OPERATOR_BLOB_RESPONSE, &inner);
    MUST(!rpc_call_send(peer->call, buf_peek(&stub.frame)));
}

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct peer *peer = owner;
    struct field_head head;
    const char *problem;

    (void)call;
    MUST(head_read((const uint8_t *)bytes.at, (const uint8_t *)bytes.at + bytes.len, &head,
                   &problem) == HEAD_WHOLE);
    if (head.number == SHARD_BLOB_REQUEST) answer_blob(peer, str_tail(bytes, head.len));
    if (head.number != SHARD_ACK) return;
    if (!peer->greeted) {
        peer->greeted = true;
        return;
    }
    if (--stub.owed) return;
    puts("acked");
    fflush(stdout);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    const struct peer *peer = owner;

    (void)call;
    fprintf(stderr, "%.*s: its session ended: %.*s\n", STR_ARG(peer->name), STR_ARG(outcome->text));
    exit(1);
}

static const struct rpc_call_events events = {on_message, NULL, on_end};

static struct peer *peer_of(struct str name)
{
    const char *addresses[] = {stub.address, NULL};
    struct peer *peer = map_get(&stub.peers, name);
    struct pack hello;

    if (peer) return peer;
    peer = calloc(1, sizeof *peer + name.len);
    MUST(peer);
    memcpy(peer->text, name.at, name.len);
    peer->name = str_of(peer->text, name.len);
    MUST(!map_put(&stub.peers, peer->name, peer));
    MUST(!rpc_channel_open(
        &(struct rpc_channel_options){.io = real_io_io(stub.real), .addresses = addresses},
        &peer->channel, NULL));
    MUST(!rpc_call_start(peer->channel,
                         &(struct rpc_call_options){.path = "/bigfleet.v1alpha1.Shard/Session",
                                                    .wait_for_ready = true,
                                                    .attempts_max = 1},
                         &events, peer, &peer->call));
    hello = pack_begin(&stub.part);
    pack_text(&hello, 1, name);
    put_frame(OPERATOR_HELLO, &hello);
    MUST(!rpc_call_send(peer->call, buf_peek(&stub.frame)));
    return peer;
}

static bool read_text(FILE *file, struct buf *into)
{
    uint32_t len;
    char *room;

    buf_clear(into);
    if (fread(&len, sizeof len, 1, file) != 1) return false;
    MUST(!buf_reserve(into, len, &room));
    MUST(fread(room, 1, len, file) == len);
    buf_commit(into, len);
    return true;
}

static void on_input(struct post *post)
{
    struct buf name, frame;
    FILE *file;

    (void)post;
    if (stub.ended) exit(0);
    file = fopen(stub.path, "rb");
    MUST(file);
    buf_init(&name, FRAME_MAX);
    buf_init(&frame, FRAME_MAX);
    while (read_text(file, &name) && read_text(file, &frame)) {
        stub.owed++;
        MUST(!rpc_call_send(peer_of(buf_peek(&name))->call, buf_peek(&frame)));
    }
    fclose(file);
    buf_deinit(&name);
    buf_deinit(&frame);
    sem_post(&stub.taken);
}

static void *read_input(void *context)
{
    (void)context;
    while (fgets(stub.path, sizeof stub.path, stdin)) {
        stub.path[strcspn(stub.path, "\n")] = '\0';
        loop_post(real_io_io(stub.real)->loop, &stub.input);
        sem_wait(&stub.taken);
    }
    stub.ended = true;
    loop_post(real_io_io(stub.real)->loop, &stub.input);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc != 2) {
        fprintf(stderr, "usage: operators_stub ADDRESS\n");
        return 2;
    }
    stub.address = argv[1];
    MUST(!real_io_open(&stub.real));
    map_init(&stub.peers, CLUSTERS_MAX, 1);
    buf_init(&stub.part, FRAME_MAX);
    buf_init(&stub.frame, FRAME_MAX);
    memset(stub.blob, 'b', BLOB);
    MUST(!sem_init(&stub.taken, 0, 0));
    post_init(&stub.input, on_input);
    MUST(!pthread_create(&thread, NULL, read_input, NULL));
    real_io_run(stub.real);
    return 0;
}
