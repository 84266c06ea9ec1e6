/* SPDX-License-Identifier: Apache-2.0 */
/* What every command that talks to a coordinator does before and after its own few lines: options,
 * connection, output in one of two forms, exit code. */
#ifndef MUSTERCTL_CTL_H
#define MUSTERCTL_CTL_H
#include "conf/command.h"
#include "musterctl/remote.h"
#include "musterctl/table.h"

struct ctl {
    const struct command_call *call;
    const struct conf *conf;
    struct remote *remote; /* NULL: the command needs none */
    struct arena memory;   /* of the answers, until the command ends */
    struct buf out;        /* printed when the command ends, also when it ends badly */
    struct note note;
    bool json;
    const void *errand; /* of ctl_run_errand */
};
typedef enum err ctl_fn(struct ctl *ctl);

/* Whole run of a command; an exit code. */
int ctl_run(void *context, const struct command_call *call, ctl_fn *act);
int ctl_run_offline(void *context, const struct command_call *call, ctl_fn *act);
/* Offline, and `act` finds the errand. */
int ctl_run_errand(void *context, const struct command_call *call, ctl_fn *act, const void *errand);

enum err ctl_call(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, ProtobufCMessage **ret_answer);
/* A list: the answer as it is for programs. */
enum err ctl_json(struct ctl *ctl, const ProtobufCMessage *answer);
/* Calls it and prints a list: its rows under `columns` for people, the answer for programs. */
typedef void ctl_rows_fn(struct table *table, const ProtobufCMessage *answer);
enum err ctl_list(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, const char *const *columns, ctl_rows_fn *rows);
/* Says that a write was done: the line for people; for programs
 * {"result":"done","request_id":...,"request":{...},"response":{...}}. */
enum err ctl_done(struct ctl *ctl, const struct remote_method *method,
                  const ProtobufCMessage *request, const ProtobufCMessage *answer,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Calls it, then says so. */
enum err ctl_write(struct ctl *ctl, const struct remote_method *method,
                   const ProtobufCMessage *request, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A line for people; what it shows of others' text is made printable. */
enum err ctl_line(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* protobuf-c wants its strings writable, and never writes. NULL is the empty text. */
char *ctl_text(const char *text);

/* What all of them can end with. */
#define CTL_EXITS (BIT(1) | BIT(2) | BIT(3) | BIT(6))
#endif
