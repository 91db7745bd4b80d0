/* cmd_info.c -- `shingle info`: version, strategies, backends; with --env the settings. */
#include <stdio.h>

#include "args.h"
#include "cli.h"
#include "out.h"

static json_t *pairs(const char *(*name)(int), const char *(*brief)(int))
{
    json_t *const list = json_array();
    for (int i = 0; name(i) != NULL; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", name(i), "brief", brief(i)));
    return list;
}

static json_t *settings(void)
{
    json_t *const list = json_array();
    shingle_env_entry entry;
    for (int i = 0; shingle_env(i, &entry) == SHINGLE_OK; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o}", "name", entry.name, "default", entry.fallback,
                            "meaning", entry.meaning, "value",
                            entry.value != NULL ? out_json_text(entry.value) : json_null()));
    return list;
}

static void print_pairs(const char *title, const char *(*name)(int), const char *(*brief)(int))
{
    printf("\n%s%s%s\n", out_on(OUT_HEAD), title, out_off());
    for (int i = 0; name(i) != NULL; i++) printf("  %-9s %s\n", name(i), brief(i));
}

static void print_settings(void)
{
    out_table *const table = out_table_make("<variable <value <meaning");
    shingle_env_entry entry;
    for (int i = 0; shingle_env(i, &entry) == SHINGLE_OK; i++) {
        out_table_add(table, "%s", entry.name);
        out_table_add(table, "%s", entry.value != NULL ? entry.value : entry.fallback);
        if (entry.value == NULL) out_table_tone(table, OUT_FAINT);
        out_table_add(table, "%s", entry.meaning);
    }
    out_table_print(table, "");
    out_table_free(table);
}

int cmd_info(int argc, char **argv)
{
    bool env = false;
    const args_option options[] = {
        {.name = "env",
         .kind = ARGS_FLAG,
         .value = &env,
         .brief = "the environment variables, their values and meanings"},
    };
    const args_command command = {
        .name = "info",
        .brief = "What this library was built with: strategies, backends, settings.",
        .usage = "[--env]",
        .examples = "  shingle info\n"
                    "  shingle info --env\n",
        .option = options,
        .options = 1,
        .words = "no argument"};
    args a;
    const int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO && a.json) {
        out_json(json_pack("{s:s, s:o, s:o, s:o}", "version", shingle_version(), "strategies",
                           pairs(shingle_strategy_name, shingle_strategy_brief), "backends",
                           pairs(shingle_backend_name, shingle_backend_brief), "env", settings()));
    } else if (code == ARGS_GO && env) {
        print_settings();
    } else if (code == ARGS_GO) {
        printf("%sshingle %s%s\n", out_on(OUT_HEAD), shingle_version(), out_off());
        print_pairs("Strategies", shingle_strategy_name, shingle_strategy_brief);
        print_pairs("Backends", shingle_backend_name, shingle_backend_brief);
        puts("\nshingle info --env prints the settings.");
    }
    args_free(&a);
    return code == ARGS_GO ? CLI_OK : code;
}
