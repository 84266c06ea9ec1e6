/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses free ports below the kernel's ephemeral range and keeps them in a file, one number a
 * line. Adds ports that an older release's file lacks. Runs before the processes start. */
#include "muster/dev_ports.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "io/fs.h"

enum {
    APART = 10, /* between the ports of two coordinators */
    DEV_PORTS_FILE_MAX = 4096,
    FIRST_DRAWN = 24000,
    DRAWN = 8000, /* how many ports may be the first one */
    TRIES = 512,
    COUNT = sizeof(struct dev_ports) / sizeof(uint16_t),
};
static_assert(COUNT == 4 * DEV_REPLICAS_MAX + 2 + 2 * DEV_SHARDS_MAX + DEV_OPERATORS,
              "nothing but ports");

void dev_ports_usual(struct dev_ports *ports)
{
    *ports = (struct dev_ports){.provider_grpc = 7770,
                                .provider_http = 8771,
                                .shards = {{7780, 8780}, {7781, 8781}},
                                .operator_http = {8770, 8772, 8773}};
    for (uint16_t i = 0; i < DEV_REPLICAS_MAX; i++) {
        ports->replicas[i].grpc = (uint16_t)(7790 + APART * i);
        ports->replicas[i].raft = (uint16_t)(7791 + APART * i);
        ports->replicas[i].http = (uint16_t)(8790 + APART * i);
        ports->workers[i] = (uint16_t)(50051 + APART * i);
    }
}

static void ports_refuse(void *, struct stream *stream)
{
    stream_close(stream);
}

/* Any program could take an ephemeral port before its process listens, so ports are below that
 * range. All stay open until the last is chosen, so that all differ. */
static enum err ports_draw(struct io *io, uint16_t *ports, size_t count, struct note *note)
{
    struct listener *held[COUNT] = {NULL};
    char address[32];
    struct listen_options options = {.address = address, .on_accept = ports_refuse};
    uint64_t port = FIRST_DRAWN + entropy_u64(io->entropy) % DRAWN;
    enum err err = ERR_OK;
    size_t drawn = 0;

    for (size_t tries = 0; drawn < count && tries < TRIES; tries++, port++) {
        snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
        err = net_listen(io->net, &options, &held[drawn], note);
        if (!err) ports[drawn++] = (uint16_t)port;
    }
    for (size_t i = 0; i < drawn; i++) listener_close(held[i]);
    return drawn == count ? ERR_OK : err;
}

/* The file may be from an earlier release, with fewer ports. */
static enum err ports_parse(struct str text, uint16_t *ports, size_t *ret_count)
{
    struct str line;
    uint64_t port;

    *ret_count = 0;
    while (*ret_count < COUNT && str_split(&text, '\n', &line) && line.len) {
        if (str_to_u64(line, &port) || port > UINT16_MAX) return ERR_PARSE;
        ports[(*ret_count)++] = (uint16_t)port;
    }
    return ERR_OK;
}

enum err dev_ports_free(struct io *io, const char *dir, struct dev_ports *ports, struct note *note)
{
    uint16_t *all = (uint16_t *)(void *)ports;
    size_t known = 0;
    char path[4096];
    struct buf text;
    enum err err;

    if (snprintf(path, sizeof path, "%s/ports", dir) >= (int)sizeof path) return ERR_TOO_LARGE;
    buf_init(&text, DEV_PORTS_FILE_MAX);
    err = fs_read_whole(io->fs, path, DEV_PORTS_FILE_MAX, &text);
    if (!err) {
        err = ports_parse(buf_peek(&text), all, &known);
        if (err) note_set(note, "%s: no list of ports", path);
    } else if (err == ERR_NOT_FOUND) {
        err = ERR_OK;
    }
    if (!err && known < COUNT) {
        err = ports_draw(io, all + known, COUNT - known, note);
        buf_clear(&text);
        for (size_t i = 0; !err && i < COUNT; i++) err = buf_appendf(&text, "%u\n", all[i]);
        if (!err) err = fs_publish(io->fs, path, buf_peek(&text), 0644, entropy_u64(io->entropy));
    }
    buf_deinit(&text);
    return err;
}
