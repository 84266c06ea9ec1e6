/* SPDX-License-Identifier: Apache-2.0 */
/* The text protocol of muster-log node: a request a line, an answer a line, in any order; a request
 * may begin with "#TAG ", and its answer then does too. See docs/log.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_node.h"

struct connection {
    struct list link;
    struct log_node *node;
    struct stream *stream; /* NULL: closed; freed when nothing is pending */
    struct buf input;
    size_t pending;
};
struct request {
    struct connection *connection;
    char tag[32];
    struct proposal proposal;
    struct read_ticket ticket;
    struct member_change change;
    struct transfer transfer;
    char key[TRIAL_KEY_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
};

static void release(struct connection *connection)
{
    if (connection->stream || connection->pending) return;
    list_remove(&connection->link);
    log_load_disown(connection->node, connection);
    buf_deinit(&connection->input);
    free(connection);
}

static void say(struct connection *connection, const char *tag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct connection *connection, const char *tag, const char *format, ...)
{
    char text[2048];
    va_list args;
    int len;

    if (!connection->stream) return;
    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct str parts[] = {str_from(tag), str_of(text, min_size((size_t)len, sizeof text - 1)),
                          STR("\n")};
    if (stream_write(connection->stream, parts, ARRAY_LEN(parts)))
        stream_close(connection->stream); /* it does not read its answers */
}

static void say_err(struct connection *connection, const char *tag, enum err err,
                    const struct note *note)
{
    say(connection, tag, "err %s %s", err_name(err),
        note && note->text[0] ? note->text : err_text(err));
}

static void end(struct request *own_request)
{
    struct connection *connection = own_request->connection;

    free(own_request);
    connection->pending--;
    release(connection);
}

/* -- answers -- */

static void on_proposed(struct proposal *proposal, enum err err, struct str bytes)
{
    struct request *request = CONTAINER_OF(proposal, struct request, proposal);
    struct trial_reply reply = {.err = ERR_OK};

    /* The planted bug REPLY_BEFORE_COMMIT answers before the machine has: with nothing. */
    if (!err && bytes.len && trial_reply_parse(bytes, &reply)) err = ERR_INTERNAL;
    if (!err && reply.err)
        say(request->connection, request->tag, "no %s index %" PRIu64 " revision %" PRIu64,
            err_name(reply.err), proposal->index, reply.revision);
    else if (!err)
        say(request->connection, request->tag,
            "ok index %" PRIu64 " revision %" PRIu64 " number %" PRId64, proposal->index,
            reply.revision, reply.number);
    else
        say_err(request->connection, request->tag, err, NULL);
    end(request);
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct request *request = CONTAINER_OF(ticket, struct request, ticket);
    struct log_node *node = request->connection->node;
    uint64_t revision;
    int64_t number;
    struct str value;

    if (err)
        say_err(request->connection, request->tag, err, NULL);
    else if (!trial_get(node->trial, str_from(request->key), &revision, &number, &value))
        say(request->connection, request->tag, "none index %" PRIu64, trial_applied(node->trial));
    else
        say(request->connection, request->tag,
            "ok index %" PRIu64 " revision %" PRIu64 " number %" PRId64 " value %.*s",
            trial_applied(node->trial), revision, number, (int)min_size(value.len, 1024), value.at);
    end(request);
}

static void on_changed(struct member_change *change, enum err err, const struct note *note)
{
    struct request *request = CONTAINER_OF(change, struct request, change);

    if (err)
        say_err(request->connection, request->tag, err, note);
    else
        say(request->connection, request->tag, "ok index %" PRIu64, change->index);
    end(request);
}

static void on_transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    struct request *request = CONTAINER_OF(transfer, struct request, transfer);

    if (err)
        say_err(request->connection, request->tag, err, note);
    else
        say(request->connection, request->tag, "ok");
    end(request);
}

static void on_loaded(void *owner, const struct log_load_figures *f)
{
    struct connection *connection = owner;

    say(connection, "",
        "ok done %" PRIu64 " failed %" PRIu64 " wall_ms %" PRIu64 " p50_us %" PRIu64
        " p99_us %" PRIu64 " max_us %" PRIu64 " cpu_ms %" PRIu64,
        f->done, f->failed, f->wall_ms, f->p50_us, f->p99_us, f->max_us, f->cpu_ms);
}

/* -- requests -- */

static struct request *begin(struct connection *connection, struct str tag)
{
    struct request *request = calloc(1, sizeof *request);

    if (!request) return NULL;
    request->connection = connection;
    snprintf(request->tag, sizeof request->tag, "%.*s", STR_ARG(tag));
    connection->pending++;
    return request;
}

static struct str word(struct str *rest)
{
    struct str part = STR_EMPTY;
    if (rest->at == NULL || !str_split(rest, ' ', &part)) return STR_EMPTY;
    return part;
}

static enum err command_of(struct str verb, struct str *rest, struct trial_command *ret_command)
{
    struct trial_command command = {.key = word(rest)};
    enum err err = ERR_OK;

    if (command.key.len == 0 || command.key.len > TRIAL_KEY_MAX) return ERR_INVALID;
    if (str_equal(verb, STR("set"))) {
        command.op = TRIAL_SET;
    } else if (str_equal(verb, STR("add"))) {
        command.op = TRIAL_ADD;
        err = str_to_i64(word(rest), &command.number);
    } else if (str_equal(verb, STR("cas"))) {
        command.op = TRIAL_CAS;
        err = str_to_i64(word(rest), &command.number);
    } else {
        command.op = TRIAL_DELETE;
    }
    if (command.op == TRIAL_SET || command.op == TRIAL_CAS)
        command.value = rest->at ? *rest : STR_EMPTY;
    *ret_command = command;
    return err;
}

static enum err propose(struct connection *connection, struct str tag, struct str verb,
                        struct str rest)
{
    struct trial_command command;
    struct proposal *batch[1];
    struct request *request;
    struct buf bytes;
    enum err err = command_of(verb, &rest, &command);

    if (err) return err;
    buf_init(&bytes, LOG_NODE_LINE_MAX);
    err = trial_encode(&command, &bytes);
    request = err ? NULL : begin(connection, tag);
    if (request) {
        request->proposal =
            (struct proposal){.machine = TRIAL_MACHINE,
                              .version = 1,
                              .flags = command.op == TRIAL_DELETE ? PROPOSE_FREES : 0,
                              .command = buf_peek(&bytes),
                              .done = on_proposed};
        batch[0] = &request->proposal;
        replica_propose(connection->node->replica, batch, 1);
    } else if (!err) {
        err = ERR_NOMEM;
    }
    buf_deinit(&bytes);
    return err;
}

static enum err get(struct connection *connection, struct str tag, struct str rest)
{
    struct str key = word(&rest);
    struct request *request;

    if (key.len == 0 || key.len > TRIAL_KEY_MAX) return ERR_INVALID;
    request = begin(connection, tag);
    if (!request) return ERR_NOMEM;
    snprintf(request->key, sizeof request->key, "%.*s", STR_ARG(key));
    request->ticket.done = on_read;
    replica_read(connection->node->replica, &request->ticket);
    return ERR_OK;
}

static enum err hex_id(struct str text, uint64_t *ret_id)
{
    char copy[24], *stop;

    if (text.len == 0 || text.len > 16) return ERR_INVALID;
    snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
    *ret_id = strtoull(copy, &stop, 16);
    return *stop ? ERR_INVALID : ERR_OK;
}

static enum err change(struct connection *connection, struct str tag, struct str rest)
{
    static const struct {
        struct str word;
        enum member_change_kind kind;
        bool address;
    } kinds[] = {
        {{"add", 3}, CHANGE_ADD, true},
        {{"promote", 7}, CHANGE_PROMOTE, false},
        {{"remove", 6}, CHANGE_REMOVE, false},
        {{"address", 7}, CHANGE_ADDRESS, true},
    };
    struct str verb = word(&rest), id_text = word(&rest), address = word(&rest);
    struct request *request;
    uint64_t id;
    size_t i = 0;

    while (i < ARRAY_LEN(kinds) && !str_equal(verb, kinds[i].word)) i++;
    if (i == ARRAY_LEN(kinds) || hex_id(id_text, &id) || (address.len > 0) != kinds[i].address ||
        address.len > REPLICA_ADDRESS_MAX)
        return ERR_INVALID;
    request = begin(connection, tag);
    if (!request) return ERR_NOMEM;
    snprintf(request->address, sizeof request->address, "%.*s", STR_ARG(address));
    request->change = (struct member_change){
        .kind = kinds[i].kind, .id = id, .address = request->address, .done = on_changed};
    replica_change(connection->node->replica, &request->change);
    return ERR_OK;
}

static enum err transfer(struct connection *connection, struct str tag, struct str rest)
{
    struct str id_text = word(&rest);
    struct request *request;
    uint64_t id = 0;

    if (id_text.len > 0 && hex_id(id_text, &id)) return ERR_INVALID;
    request = begin(connection, tag);
    if (!request) return ERR_NOMEM;
    request->transfer = (struct transfer){.to = id, .done = on_transferred};
    replica_transfer(connection->node->replica, &request->transfer);
    return ERR_OK;
}

static enum err load(struct connection *connection, struct str rest)
{
    struct log_load_wish wish = {0};
    uint64_t in_flight, size;
    enum err err = str_to_u64(word(&rest), &in_flight);

    if (!err) err = str_to_u64(word(&rest), &size);
    if (!err) err = str_to_u64(word(&rest), &wish.ms);
    if (!err && rest.len > 0) err = str_to_u64(word(&rest), &wish.keys);
    if (err || in_flight > UINT32_MAX || size > UINT32_MAX) return ERR_INVALID;
    wish.in_flight = (uint32_t)in_flight;
    wish.size = (uint32_t)size;
    return log_load_start(connection->node, &wish, on_loaded, connection);
}

static void status(struct connection *connection, const char *tag)
{
    static const char *const roles[] = {"follower", "candidate", "leader"};
    struct replica_status s = replica_status(connection->node->replica);

    say(connection, tag,
        "ok id %016" PRIx64 " role %s ready %d term %" PRIu64 " leader %016" PRIx64
        " first %" PRIu64 " last %" PRIu64 " durable %" PRIu64 " commit %" PRIu64
        " applied %" PRIu64 " snapshot %" PRIu64 " level %u full %d voter %d member %d "
        "hash %016" PRIx64 " keys %zu cluster %016" PRIx64,
        s.id, roles[s.role], s.ready, s.term, s.leader_id, s.first, s.last, s.durable, s.commit,
        s.applied, s.snapshot, s.level, s.disk_full, s.voter, s.member,
        trial_hash(connection->node->trial), trial_count(connection->node->trial), s.cluster_id);
}

static void members(struct connection *connection, const char *tag)
{
    struct replica_member list[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(connection->node->replica, list);
    char text[1900];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && len < sizeof text - 64; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %016" PRIx64 "=%.80s/%s%s",
                                list[i].id, list[i].address,
                                list[i].role == MEMBER_VOTER ? "voter" : "learner",
                                list[i].leader ? "/leader" : "");
    say(connection, tag, "ok%s", text);
}

static void answer(struct connection *connection, struct str line)
{
    struct str tag = STR_EMPTY, rest = line, verb;
    char tag_text[32];
    enum err err = ERR_OK;

    if (line.len > 0 && line.at[0] == '#') {
        size_t len = str_find(line, ' ');
        tag = str_of(line.at, min_size(len + 1, line.len));
        rest = str_tail(line, len + 1);
    }
    snprintf(tag_text, sizeof tag_text, "%.*s", STR_ARG(tag));
    verb = word(&rest);
    if (connection->pending >= LOG_NODE_ASKED_MAX)
        err = ERR_FULL;
    else if (str_equal(verb, STR("set")) || str_equal(verb, STR("add")) ||
             str_equal(verb, STR("cas")) || str_equal(verb, STR("del")))
        err = propose(connection, tag, verb, rest);
    else if (str_equal(verb, STR("get")))
        err = get(connection, tag, rest);
    else if (str_equal(verb, STR("status")))
        status(connection, tag_text);
    else if (str_equal(verb, STR("members")))
        members(connection, tag_text);
    else if (str_equal(verb, STR("member")))
        err = change(connection, tag, rest);
    else if (str_equal(verb, STR("transfer")))
        err = transfer(connection, tag, rest);
    else if (str_equal(verb, STR("load")))
        err = load(connection, rest);
    else if (str_equal(verb, STR("snapshot"))) {
        err = replica_snapshot(connection->node->replica);
        if (!err) say(connection, tag_text, "ok");
    } else
        err = ERR_UNSUPPORTED;
    if (err) say_err(connection, tag_text, err, NULL);
}

/* -- connections -- */

static void on_bytes(void *owner, struct str bytes)
{
    struct connection *connection = owner;
    size_t used = 0;

    if (buf_append(&connection->input, bytes)) {
        stream_close(connection->stream); /* a line without end */
        return;
    }
    for (;;) {
        struct str left = str_tail(buf_peek(&connection->input), used);
        size_t len = str_find(left, '\n');

        if (len == left.len) break;
        answer(connection, str_trim(str_of(left.at, len)));
        used += len + 1;
    }
    buf_consume(&connection->input, used);
}

static void on_closed(void *owner, enum err why, const struct note *note)
{
    struct connection *connection = owner;

    (void)why;
    (void)note;
    connection->stream = NULL;
    release(connection);
}

static void on_accept(void *owner, struct stream *own_stream)
{
    static const struct stream_events events = {.on_bytes = on_bytes, .on_closed = on_closed};
    struct log_node *node = owner;
    struct connection *connection = calloc(1, sizeof *connection);

    if (!connection) {
        stream_close(own_stream);
        return;
    }
    connection->node = node;
    connection->stream = own_stream;
    buf_init(&connection->input, LOG_NODE_LINE_MAX);
    list_init(&connection->link);
    list_append(&node->connections, &connection->link);
    stream_start(own_stream, &events, connection);
}

enum err log_node_serve(struct log_node *node, const char *address, struct note *note)
{
    struct listen_options options = {
        .address = address, .streams_max = 256, .on_accept = on_accept, .owner = node};

    return net_listen(real_io_io(node->real)->net, &options, &node->listener, note);
}

void log_node_hang_up(struct log_node *node)
{
    listener_close(node->listener);
    node->listener = NULL;
    LIST_EACH(&node->connections, link)
    {
        struct connection *connection = CONTAINER_OF(link, struct connection, link);
        log_load_disown(node, connection);
        if (connection->stream) stream_close(connection->stream);
    }
}
