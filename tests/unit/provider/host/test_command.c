/* SPDX-License-Identifier: Apache-2.0 */
/* The command backend against correct scripts, and scripts that hang, flood, print garbage or do
 * not exist. */
#include "provider/host/command.h"

#include <signal.h>

#include "fake_host.h"
#include "io/process_look.h"
#include "provider/host/script.h"
#include "text/json.h"

static struct fake_host host;

static void open_with(const char *script, struct command_options options)
{
    struct note note = {""};
    struct backend *backend;

    fake_open(&host);
    write_text(in_dir("script"), script, 0700);
    options.io = host.rig.io;
    if (!options.script) options.script = in_dir("script");
    CHECK_OK("a backend", command_backend_open(&options, &backend, &note));
    fake_take(&host, backend);
}

static const struct backend_operation create = {.kind = OPERATION_CREATE};

TEST(a_script_gets_its_task_and_its_answer_is_reported)
{
    static const struct label metadata[] = {{{"group", 5}, {"a\0b", 3}}};
    struct backend_operation configure = {.kind = OPERATION_CONFIGURE,
                                          .again = true,
                                          .blob = STR("\0blob\xff"),
                                          .metadata = metadata,
                                          .metadata_count = 1};
    const struct reported *reported;
    struct str text;
    struct json *json;

    open_with("#!/bin/sh\n"
              "cat > \"$0.$1\"\n"
              "[ $1 = create ] && echo '{\"host\":\"i-123\",\n \"other\": [1]}'\nexit 0\n",
              (struct command_options){0});
    reported = fake_do(&host, create, "m-1");
    CHECK("done", !reported->failed);
    CHECK_TEXT("its host", reported->text, "i-123");
    configure.machine.cluster = STR("prod");
    configure.machine.host = STR("i-123");
    reported = fake_do(&host, configure, "m-1");
    CHECK("nothing printed is fine", !reported->failed);
    text = str_from(read_text(in_dir("script.configure")));
    CHECK("one line", text.len > 0 && str_find(text, '\n') == text.len - 1);
    text = str_trim(text);
    CHECK("the value is written whole", strstr(text.at, "\"group\":\"a\\u0000b\"") != NULL);
    /* muster's own reader refuses NUL in a text; other readers accept it. */
    char *nul = strstr(text.at, "\\u0000");
    memcpy(nul, "------", 6);
    CHECK_OK("JSON", json_open(text, 1 << 20, &json, NULL));
    static const struct {
        const char *path, *want;
    } fields[] = {
        {"operation", "configure"},         {"machine.id", "m-1"},
        {"machine.host", "i-123"},          {"machine.cluster", "prod"},
        {"blob_base64", "AGJsb2L/"},        {"metadata.group", "a------b"},
        {"machine.instance_type", "local"}, {"machine.capacity_type", "OnDemand"},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        CHECK_OK(fields[i].path, json_get_string(json, fields[i].path, &text, NULL));
        CHECK_STR(fields[i].path, text, str_from(fields[i].want));
    }
    bool again;
    CHECK_OK("again", json_get_bool(json, "again", &again, NULL));
    CHECK("it is reported", again);
    json_close(json);
    reported = fake_do(&host, (struct backend_operation){.kind = OPERATION_DRAIN, .grace_ms = 1500},
                       "m-1");
    CHECK("done", !reported->failed);
    CHECK_HAS("its grace", read_text(in_dir("script.drain")), "\"grace_seconds\":1.5");
    fake_close(&host);
}

TEST(a_failing_script_fails_its_operation_with_its_message)
{
    static const struct {
        const char *why, *body, *says;
    } cases[] = {
        {"exit 1, silent", "exit 1", "create: exit status 1"},
        {"the last line of stderr", "echo first >&2; echo no quota >&2; exit 7",
         "create: exit status 7: no quota"},
        {"words of its own", "echo '{\"error\":\"no quota in eu-1a\"}'; exit 1",
         "create: no quota in eu-1a"},
        {"words, and exit 0", "echo '{\"error\":\"no quota\"}'", "create: no quota"},
        {"garbage", "echo 'it works!'", "create: printed what is no JSON object ('it works!')"},
        {"garbage, and exit 1", "echo 'Traceback'; exit 1", "create: exit status 1"},
        {"an array", "echo '[]'", "create: printed what is no JSON object"},
        {"two objects", "echo '{}'; echo '{}'", "create: printed what is no JSON object"},
        {"a host that is none", "echo '{\"host\": 7}'", "create: field 'host'"},
        {"a host too long", "printf '{\"host\":\"%0300d\"}' 1", "create: field 'host'"},
        {"killed", "kill -9 $$", "create: killed by signal 9"},
        {"bytes", "head -c 5000 /dev/urandom | tr '{' x", "create: printed what is no JSON object"},
        {"1 GB on one line", "head -c 1073741824 /dev/zero | tr '\\0' x",
         "create: printed more than"},
        {"1 GB of lines", "yes | head -c 1073741824", "create: printed more than"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char script[400];
        snprintf(script, sizeof script, "#!/bin/sh\n%s\n", cases[i].body);
        open_with(script, (struct command_options){0});
        const struct reported *reported = fake_do(&host, create, "m-1");
        CHECK(cases[i].why, reported->failed);
        CHECK_HAS(cases[i].why, reported->text, cases[i].says);
        CHECK("it is text", str_is_utf8(str_from(reported->text)));
        fake_close(&host);
    }
}

TEST(a_missing_script_fails_its_operations)
{
    const struct reported *reported;

    open_with("", (struct command_options){.script = "/no/such/script"});
    reported = fake_do(&host, create, "m-1");
    CHECK("failed", reported->failed);
    CHECK_HAS("its name", reported->text, "/no/such/script");
    host.backend->ops->ready(host.backend);
    for (int i = 0; i < 3; i++) real_io_turn(host.rig.real, false);
    fake_close(&host);
}

static bool is_gone(pid_t pid)
{
    struct process_name name;
    struct timespec pause = {.tv_nsec = 5000000};

    for (int i = 0; i < 12000; i++) {
        if (process_name_of(pid, &name) == ERR_NOT_FOUND) return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

TEST(a_script_that_hangs_is_killed_with_what_it_started)
{
    const struct reported *reported;

    open_with("#!/bin/sh\ntrap '' TERM\nsleep 300 &\necho $! > \"$0.pid\"\necho stuck >&2\n"
              "for i in $(seq 300); do sleep 1; done\n",
              (struct command_options){.timeout_ms = 300});
    reported = fake_do(&host, create, "m-1");
    CHECK("failed", reported->failed);
    CHECK_HAS("why", reported->text, "create: was not done after 300 ms, and was killed");
    CHECK("its child is gone", is_gone(atoi(read_text(in_dir("script.pid")))));
    fake_close(&host);
}

TEST(so_many_run_at_once_and_the_rest_waits_in_order)
{
    uint64_t first, last = 0;
    const char *lines;

    open_with("#!/bin/sh\nmkdir \"$0.$$\"; ls -d \"$0\".[0-9]* | wc -l >> \"$0.most\"; sleep 0.02\n"
              "rmdir \"$0.$$\"\n",
              (struct command_options){.running_max = 2});
    first = host.number + 1;
    for (int i = 0; i < 9; i++) {
        char id[16];
        snprintf(id, sizeof id, "m-%d", i);
        last = fake_start(&host, create, id);
    }
    for (uint64_t number = first; number <= last; number++)
        CHECK("done", !fake_await(&host, number)->failed);
    lines = read_text(in_dir("script.most"));
    CHECK_SIZE("each ran", strlen(lines), 18);
    CHECK("two at most", strspn(lines, "12\n") == 18);
    fake_close(&host);
    remove(in_dir("script.most"));
}

TEST(scripts_running_when_the_provider_stops_are_killed_and_not_reported)
{
    open_with("#!/bin/sh\necho $$ > \"$0.pid\"; exec sleep 300\n", (struct command_options){0});
    remove(in_dir("script.pid"));
    fake_start(&host, create, "m-1");
    fake_start(&host, create, "m-2");
    FAKE_UNTIL("it runs", &host, strlen(read_text(in_dir("script.pid"))) > 1);
    pid_t pid = atoi(read_text(in_dir("script.pid")));
    size_t reported = host.count;
    fake_close(&host);
    CHECK("gone", is_gone(pid));
    CHECK_SIZE("nothing was reported", host.count, reported);
}

TEST(the_script_lists_the_machines)
{
    const struct reported *reported;

    open_with(
        "#!/bin/sh\n[ \"$1\" = list ] || exit 1\ncat <<END\n"
        "{\"machines\": [\n"
        "  {\"id\": \"a\", \"instance_type\": \"t\", \"zone\": \"z\", \"price_per_hour\": 0.5,\n"
        "   \"capacity_type\": \"Spot\", \"resources\": {\"cpu\": \"2\"}, \"labels\": {\"k\": "
        "\"v\"}},\n"
        "  {\"id\": \"b\", \"instance_type\": \"t\", \"failed\": \"disk\"},\n"
        "  {\"id\": \"c\", \"instance_type\": \"t\", \"lost\": true},\n"
        "  {\"id\": \"bad-1\"}, {\"instance_type\": \"t\"}, 7,\n"
        "  {\"id\": \"bad-2\", \"instance_type\": \"t\", \"capacity_type\": \"spot\"},\n"
        "  {\"id\": \"bad-3\", \"instance_type\": \"t\", \"labels\": {\"k\": 1}},\n"
        "  {\"id\": \"d\", \"instance_type\": \"t2\"}],\n"
        " \"removed\": [\"e\", 7]}\nEND\n",
        (struct command_options){0});
    host.backend->ops->ready(host.backend);
    FAKE_UNTIL("it lists", &host, fake_sighting(&host, "e", SEEN_REMOVED));
    reported = fake_sighting(&host, "a", SEEN_OFFERED);
    CHECK("offered", reported != NULL);
    CHECK_TEXT("its type", reported->type, "t");
    CHECK_TEXT("its label", reported->label, "k=v");
    CHECK("offered", fake_sighting(&host, "d", SEEN_OFFERED) != NULL);
    reported = fake_sighting(&host, "b", SEEN_FAILED);
    CHECK("one that broke", reported != NULL);
    CHECK_TEXT("why", reported->text, "disk");
    CHECK("one with a missing host", fake_sighting(&host, "c", SEEN_RECLAIMED) != NULL);
    for (size_t i = 0; i < host.count; i++)
        CHECK(host.reported[i].id, strncmp(host.reported[i].id, "bad", 3) != 0);
    CHECK_SIZE("and nothing else", host.count, 4 + 1 + 1 + 1);
    fake_close(&host);
}

TEST(a_list_that_fails_changes_nothing_and_is_asked_for_again)
{
    open_with(
        "#!/bin/sh\n"
        "if [ -e \"$0.2\" ]; then echo '{\"machines\":[{\"id\":\"a\",\"instance_type\":\"t\"}]}'\n"
        "elif [ -e \"$0.1\" ]; then > \"$0.2\"; echo garbage\n"
        "else > \"$0.1\"; exit 1; fi\n",
        (struct command_options){.list_every_ms = 10});
    host.backend->ops->ready(host.backend);
    FAKE_UNTIL("the third works", &host, host.count);
    CHECK("and is reported", fake_sighting(&host, "a", SEEN_OFFERED) == &host.reported[0]);
    fake_close(&host);
}

TEST(bare_metal_is_not_deleted)
{
    const struct offer metal = {.capacity_type = CAPACITY_BARE_METAL};
    struct backend_machine machine = {.offer = &metal};
    struct note note = {""};

    open_with("", (struct command_options){0});
    CHECK_ERR("metal", host.backend->ops->check(host.backend, OPERATION_DELETE, &machine, &note),
              ERR_UNSUPPORTED);
    CHECK_OK("drained", host.backend->ops->check(host.backend, OPERATION_DRAIN, &machine, &note));
    machine.offer = &fake_offer;
    CHECK_OK("others", host.backend->ops->check(host.backend, OPERATION_DELETE, &machine, &note));
    fake_close(&host);
    CHECK_ERR("no script", command_backend_open(&(struct command_options){0}, &host.backend, &note),
              ERR_INVALID);
}
