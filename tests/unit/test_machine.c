/* Tests of machine.h: what is printed parses to the same; every kind of mistake is named with its
 * line and column; the shipped files are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/disk.h"
#include "core/machine.h"
#include "core/sched.h"

static char text[4096];

/* The plain machine's text with line NAME replaced by LINE ("" removes it). */
static const char *with_line(const char *name, const char *line)
{
    static char changed[4096];
    sg_machine machine;
    sg_machine_plain(&machine);
    sg_machine_print(&machine, text, sizeof text);
    sg_text t = {changed, sizeof changed, 0};
    changed[0] = '\0';
    char *rest = text;
    for (char *at = strsep(&rest, "\n"); at != NULL; at = strsep(&rest, "\n")) {
        const size_t length = strlen(name);
        const bool hit = strncmp(at, name, length) == 0 && at[length] == ' ';
        if (!hit && at[0] != '\0') sg_text_add(&t, "%s\n", at);
        if (hit && line[0] != '\0') sg_text_add(&t, "%s\n", line);
    }
    return changed;
}

static void expect_error(const char *content, const char *error)
{
    sg_machine machine;
    memset(&machine, 0x55, sizeof machine);
    sg_machine before = machine;
    assert_int_equal(sg_machine_parse(content, "f.machine", &machine), SHINGLE_EINVAL);
    if (strstr(shingle_error(), error) == NULL)
        fail_msg("error is \"%s\", expected \"%s\"", shingle_error(), error);
    assert_memory_equal(&machine, &before, sizeof machine);
}

static void printed_machines_parse_to_the_same(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.copy_us = 0.000001;
    machine.mem_gbps = 999999.999999;
    machine.flag_us = 0;
    machine.tile[1].rate = 0.875;
    machine.tile[2].rate = 1;
    machine.tile[2].late = 0.25;
    strcpy(machine.name, "cpu, 2 threads at 1:400");
    const size_t length = sg_machine_print(&machine, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_true(length < SG_MACHINE_TEXT);
    sg_machine parsed;
    assert_int_equal(sg_machine_parse(text, "f", &parsed), SHINGLE_OK);
    char again[4096];
    sg_machine_print(&parsed, again, sizeof again);
    assert_string_equal(again, text);
    assert_true(parsed.copy_us == machine.copy_us);
    assert_true(parsed.mem_gbps == machine.mem_gbps);
    assert_true(parsed.tile[1].rate == 0.875 && parsed.tile[1].late == 1);
    assert_true(parsed.tile[2].rate == 1 && parsed.tile[2].late == 0.25);
    assert_int_equal(parsed.tiles, 3);
}

/* Each of LINES is printed if it stands in the plain machine's file. */
static void expect_kept(const char *lines, sg_machine *machine)
{
    char content[8192];
    char each[64];
    sg_machine_plain(machine);
    sg_machine_print(machine, text, sizeof text);
    snprintf(content, sizeof content, "%s%s", text, lines);
    if (sg_machine_parse(content, "f", machine) != SHINGLE_OK) fail_msg("%s", shingle_error());
    sg_machine_print(machine, text, sizeof text);
    for (const char *at = lines; *at != '\0'; at += strcspn(at, "\n") + 1) {
        snprintf(each, sizeof each, "\n%.*s\n", (int)strcspn(at, "\n"), at);
        if (strstr(text, each) == NULL) fail_msg("\"%s\" is not printed", each);
    }
}

/* Every line that may be left out is printed if it stands there, and only then. */
static void lines_that_may_be_left_out_are_kept(void **state)
{
    (void)state;
    static const char bridges[] =
        "topology pcie\nhost_gbps 30\nnuma_ranks 2\nnuma_gbps 20\nhost_staged 1\n";
    static const char lines[] =
        "topology nodes\nlink_gbps 400\nnode_ranks 8\nnic_gbps 50\n"
        "node_us 3\ncopy_engines 2\npeer_us 1.5\nlocal_gbps 90\n"
        "visit_us 0.75\nadd_us 4\nidle_part 0.2\nsm_gbps 55\nvendor 0.97\nburst 1.1\nburst_us 1500\n"
        "gemm_by_copy 1.03\nvendor_by_copy 1.2\ngemm_by_coll 1.1\ncopy_by_gemm 1.02\n"
        "coll_by_gemm 1.07\npool 2\npack_gbps 5\nunit_us 4\n"
        "work_row 24\nwork_col 8\nwork_element 64\n"
        "coll_curve all_to_all 0.5:10 8:99.5\ncoll_curve all_gather_windows 1:50\n"
        "coll_curve reduce_scatter_windows 2:60 4:70\ncoll_part 4:0.35 24:1\n"
        "more_add_us 2.5\namid_part 1.8\nhere_us 3\nonto_us 0.6\nonto_part 1.25\nlanded_us 1.8\nmem_part 0.14\n"
        "asked_cols 18\nfed_part 0.7\ncourier_gbps 35\nodd_gbps 54\npush_us 1.5\npiece_us 1\nbias_us 2\n"
        "relu_us 1\ngate_us 3\nturn_us 1\nragged_us 9\nragged_gbps 350\n";
    sg_machine machine;
    sg_machine_plain(&machine);
    sg_machine_print(&machine, text, sizeof text);
    assert_null(strstr(text, "topology"));
    assert_null(strstr(text, "pool"));
    expect_kept(bridges, &machine);
    expect_kept(lines, &machine);
    const sg_curve *const curve = &machine.coll_curve[3];
    assert_true(curve->points == 2 && curve->point[0].at == 5e5 && curve->point[1].value == 99.5);
    assert_true(sg_curve_at(curve, 1, -1) == 10 && sg_curve_at(curve, 1e9, -1) == 99.5);
    assert_true(sg_curve_at(curve, 4.25e6, -1) == 54.75);
    assert_true(sg_curve_at(&machine.coll_curve[0], 1, -1) == -1);
    assert_int_equal(sg_machine_curve(&machine, SG_ALL_GATHER, false), SG_ALL_GATHER);
    assert_true(machine.coll_curve[sg_machine_curve(&machine, SG_ALL_GATHER, true)].points == 1);
    assert_true(machine.coll_curve[sg_machine_curve(&machine, SG_REDUCE_SCATTER, true)].points ==
                2);
    assert_int_equal(sg_machine_curve(&machine, SG_ALL_TO_ALL, true), SG_ALL_TO_ALL);
    assert_string_equal(sg_topology_name(machine.topology), "nodes");
    assert_true(sg_machine_link_gbps(&machine) == 400);
    machine.link_gbps = 0;
    assert_true(sg_machine_link_gbps(&machine) == 200); /* its copies' */
}

/* The fewest with three quarters of the rate, if not all are needed for that. */
static void few_sms_keep_most_of_a_collective(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    assert_int_equal(sg_machine_few_coll_sms(&machine), 10);
    machine.coll_sms = 24;
    machine.coll_part = (sg_curve){3, {{4, 0.35}, {8, 0.75}, {24, 1}}};
    assert_int_equal(sg_machine_few_coll_sms(&machine), 8);
    machine.coll_part.point[1].value = 0.74;
    assert_int_equal(sg_machine_few_coll_sms(&machine), 24);
}

static void short_room_cuts_the_text(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    char little[10];
    const size_t length = sg_machine_print(&machine, little, sizeof little);
    assert_true(length > 200);
    assert_string_equal(little, "name plai");
    assert_int_equal(sg_machine_print(&machine, NULL, 0), length);
}

/* "," is the decimal point of many locales; machine files know "." alone. */
static void the_locale_changes_nothing(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL &&
        setlocale(LC_NUMERIC, "fr_FR.UTF-8") == NULL)
        skip();
    sg_machine machine;
    const shingle_status status =
        sg_machine_parse(with_line("flag_us", "flag_us 1.25"), "f", &machine);
    sg_machine_print(&machine, text, sizeof text);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(status, SHINGLE_OK);
    assert_true(machine.flag_us == 1.25);
    assert_non_null(strstr(text, "flag_us 1.25\n"));
}

static void comments_blanks_and_order_do_not_matter(void **state)
{
    (void)state;
    char content[4200];
    snprintf(content, sizeof content, "\n# first\r\n \t\ntile 64x32 0.5 # small\n%s",
             with_line("flag_us", "\t flag_us\t 1.5   # why"));
    sg_machine machine;
    assert_int_equal(sg_machine_parse(content, "f", &machine), SHINGLE_OK);
    assert_string_equal(machine.name, "plain");
    assert_int_equal(sg_machine_parse(with_line("name", "name  a  b \t# c"), "f", &machine),
                     SHINGLE_OK);
    assert_string_equal(machine.name, "a  b");
    for (size_t i = strlen(machine.name); i < sizeof machine.name; i++)
        assert_int_equal(machine.name[i], '\0');
    assert_int_equal(sg_machine_parse(content, "f", &machine), SHINGLE_OK);
    assert_true(machine.flag_us == 1.5);
    assert_int_equal(machine.tiles, 4);
    assert_int_equal(machine.tile[0].m, 64);
    assert_true(machine.tile[0].rate == 0.5);
}

static void numbers_may_have_a_power_of_ten(void **state)
{
    (void)state;
    static const struct {
        const char *written;
        double value;
    } of[] = {{"1e-3", 0.001},          {"1E3", 1000},       {"12.5e+2", 1250}, {"250e-1", 25},
              {"30e-7", 0.000003},      {"0e99", 0},         {"0e-99999", 0},   {"1e6", 1e6},
              {"1.000001e0", 1.000001}, {"0.000001e12", 1e6}};
    sg_machine machine;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char line[60];
        snprintf(line, sizeof line, "flag_us %s # us", of[i].written);
        const shingle_status status =
            sg_machine_parse(with_line("flag_us", line), "f.machine", &machine);
        if (status != SHINGLE_OK) fail_msg("%s", shingle_error());
        assert_true(machine.flag_us == of[i].value);
    }
    assert_int_equal(sg_machine_parse(with_line("flag_us", "flag_us 1\ncoll_part 4e0:5e-1 1e1:1"),
                                      "f.machine", &machine),
                     SHINGLE_OK);
    assert_true(machine.coll_part.point[0].value == 0.5 && machine.coll_part.point[1].at == 10);
}

static void mistakes_are_named_with_their_place(void **state)
{
    (void)state;
    expect_error("wheels 4\n",
                 "f.machine:1:1: \"wheels\" is no line of a machine file; name, ranks,");
    expect_error("\n\n  wheels 4\n", "f.machine:3:3: ");
    expect_error("ranks four\n",
                 "f.machine:1:7: ranks is \"four\"; a whole number from 1 to 1024 is accepted");
    expect_error("sms 1.5\n",
                 "f.machine:1:5: sms is \"1.5\"; a whole number from 1 to 4096 is accepted");
    expect_error("ranks 4 5\n", "f.machine:1:9: the end of the line or a # comment");
    expect_error("ranks 0\n", "f.machine:1:7: ranks is \"0\"; a whole number from 1 to 1024");
    expect_error("ranks 1025\n", "f.machine:1:7: ranks is \"1025\"");
    expect_error("ranks -1\n", "f.machine:1:7: ranks is \"-1\"; a whole number");
    expect_error("ranks 99999999999999999999\n",
                 "f.machine:1:7: ranks is \"99999999999999999999\"");
    expect_error("ranks 4\nranks 4\n", "f.machine:2:1: ranks stands here a second time");
    expect_error("flag_us 1.2.3\n",
                 "f.machine:1:9: flag_us is \"1.2.3\"; a number from 0 to 1000000 is accepted");
    expect_error("flag_us 1e7 # us\n", "f.machine:1:9: flag_us is \"1e7\"; a number from 0");
    expect_error("flag_us 1e\n", "f.machine:1:9: flag_us is \"1e\"; a number from 0");
    expect_error("flag_us 1e-\n", "f.machine:1:9: flag_us is \"1e-\"; a number from 0");
    expect_error("flag_us 1e3x\n", "f.machine:1:9: flag_us is \"1e3x\"; a number from 0");
    expect_error("flag_us 2e99999999999999999999\n", "f.machine:1:9: flag_us is \"2e9");
    expect_error("flag_us 1.5e-6 # us\n",
                 "f.machine:1:9: flag_us is \"1.5e-6\"; at most 6 digits behind the point count");
    expect_error("ranks 1e1\n", "f.machine:1:7: ranks is \"1e1\"; a whole number from 1 to 1024");
    expect_error("flag_us 1.\n", "f.machine:1:9: flag_us is \"1.\"; a number");
    expect_error("flag_us 1.1234567\n", "f.machine:1:17: at most 6 digits");
    expect_error("flag_us .5\n", "f.machine:1:9: flag_us is \".5\"; a number");
    expect_error("flag_us nan\n", "f.machine:1:9: flag_us is \"nan\"; a number");
    expect_error("run_us 0\n", /* which would read as left out */
                 "f.machine:1:8: run_us is \"0\"; a number from 0.000001 to 1000000 is accepted");
    expect_error("flag_us\n", "f.machine:1:8: flag_us is missing; a number from 0 to 1000000");
    expect_error("copy_gbps 0\n",
                 "f.machine:1:11: copy_gbps is \"0\"; a number from 0.000001 to 1000000");
    expect_error("name\n", "f.machine:1:5: a name");
    expect_error("name a\x01z\n", "f.machine:1:7: printable");
    expect_error("name x\nname y\n", "f.machine:2:1: name stands here a second time");
    expect_error("name 012345678901234567890123456789012345678901234567\n", "f.machine:1:53: ");
    expect_error("tile 128\n", "f.machine:1:9: \"x\"");
    expect_error("tile 128x\n", "f.machine:1:10: a side of a tile is missing; a whole number");
    expect_error("tile 0x8\n",
                 "f.machine:1:6: a side of a tile is \"0x8\"; a whole number from 1 ");
    expect_error("tile 8x8 2.5\n", "f.machine:1:10: the rate of a tile is \"2.5\"; a number from ");
    expect_error("tile 8x8 1 1.5\n", "f.machine:1:12: the part of a tile's addends is \"1.5\"");
    expect_error("tile 8x8 1 1 1\n", "f.machine:1:14: ");
    expect_error("tile 8x8,\n", "f.machine:1:8: a side of a tile is \"8,\"");
    expect_error("topology star\n",
                 "f.machine:1:10: topology is \"star\"; switch, mesh, ring, pcie or nodes is");
    expect_error("topology\n", "f.machine:1:9: topology is \"\"; switch");
    expect_error("topology ring 4\n", "f.machine:1:15: the end of the line");
    expect_error("topology ring\ntopology ring\n", "f.machine:2:1: topology stands here");
    expect_error("link_gbps 0\n", "f.machine:1:11: link_gbps is \"0\"; a number from 0.000001");
    expect_error("host_staged 2\n",
                 "f.machine:1:13: host_staged is \"2\"; a whole number from 0 to 1");
    expect_error("gemm_by_copy 0.9\n",
                 "f.machine:1:14: gemm_by_copy is \"0.9\"; a number from 1 to 100");
    expect_error("pool 0\n", "f.machine:1:6: pool is \"0\"");
    expect_error("coll_curve\n", "f.machine:1:11: coll_curve is \"\"; all_gather, reduce_scatter");
    expect_error("coll_curve gather 1:2\n",
                 "f.machine:1:12: coll_curve is \"gather\"; all_gather,");
    expect_error("coll_curve all_gather\n", "f.machine:1:22: a point of the curve is missing");
    expect_error("coll_curve all_gather 1\n", "f.machine:1:24: \":\" and the value");
    expect_error("coll_curve all_gather 1:\n", "f.machine:1:25: a value of the curve is missing");
    expect_error("coll_curve all_gather 1:0\n", "f.machine:1:25: a value of the curve");
    expect_error("coll_curve all_gather 2:5 1:4\n", "f.machine:1:27: points in ascending order");
    expect_error("coll_curve all_gather 1:5,2:4\n",
                 "f.machine:1:25: a value of the curve is \"5,2:4\"");
    expect_error("coll_curve all_gather 1:5\ncoll_curve all_gather 1:5\n",
                 "f.machine:2:23: this curve stands here a second time");
    expect_error("coll_part 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1\n",
                 "f.machine:1:52: at most 10 points");
    expect_error("coll_part 4:1.5\n",
                 "f.machine:1:13: a value of the curve is \"1.5\"; a number from 0.01 to 1 is");
    expect_error("tile 1x1\ntile 1x1\ntile 1x1\ntile 1x1\ntile 1x1\ntile 1x1\ntile 1x1\ntile 1x1\n"
                 "tile 1x1\n",
                 "f.machine:9:6: at most 8");
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"name",      "ranks",   "sms",        "gemm_tflops_f32",
                                        "mem_gbps",  "copy_us", "coll_gbps",  "coll_sms",
                                        "launch_us", "join_us", "epilogue_us"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "the line \"%s VALUE\" is missing", names[i]);
        expect_error(with_line(names[i], ""), wanted);
    }
    expect_error(with_line("tile", ""), "the line \"tile VALUE\" is missing");
    expect_error("", "f.machine:1:1: the line");
    expect_error(with_line("coll_sms", "coll_sms 100"), "coll_sms is 100; less than sms 100");
    expect_error(with_line("flag_us", "flag_us 1\ntopology mesh"),
                 "the line \"link_gbps VALUE\" is missing, which topology mesh needs");
    expect_error(with_line("flag_us", "flag_us 1\ntopology nodes\nnic_gbps 5"),
                 "the line \"node_ranks VALUE\" is missing, which topology nodes needs");
    expect_error(with_line("flag_us", "flag_us 1\ntopology nodes\nnode_ranks 8"),
                 "the line \"nic_gbps VALUE\" is missing, which topology nodes needs");
    expect_error(with_line("flag_us", "flag_us 1\ntopology ring\nlink_gbps 5"),
                 "a ring of 1024 ranks; at most 64");
}

/* Links that the topology does not have. */
static void lines_of_other_topologies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *topology, *other;
    } lines[] = {{"host_gbps 30", "pcie", "nodes"},  {"numa_ranks 2", "pcie", "switch"},
                 {"numa_gbps 20", "pcie", "ring"},   {"host_staged 1", "pcie", "switch"},
                 {"node_ranks 8", "nodes", "mesh"},  {"nic_gbps 50", "nodes", "pcie"},
                 {"node_us 3", "nodes", "switch"},   {"host_staged 1", "pcie", "nodes"},
                 {"numa_ranks 1024", "pcie", "mesh"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const int length = (int)strcspn(lines[i].line, " ");
        char added[200], wanted[200];
        /* The line first: order does not matter. */
        snprintf(added, sizeof added, "ranks 8\n  %s\ntopology %s\nlink_gbps 5%s", lines[i].line,
                 lines[i].other,
                 strcmp(lines[i].other, "nodes") == 0 ? "\nnode_ranks 8\nnic_gbps 5" : "");
        snprintf(wanted, sizeof wanted,
                 "f.machine:3:3: topology %s has no %.*s; topology %s is accepted with it",
                 lines[i].other, length, lines[i].line, lines[i].topology);
        expect_error(with_line("ranks", added), wanted);
    }
    /* A switch is the default. */
    expect_error(with_line("flag_us", "flag_us 1\nnode_us 3"), "topology switch has no node_us; ");
    /* 0 is as if the line were left out. */
    sg_machine machine;
    assert_int_equal(sg_machine_parse(with_line("flag_us", "flag_us 1\nnode_us 0\nhost_staged 0"),
                                      "f.machine", &machine),
                     SHINGLE_OK);
}

static void files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    sg_machine machine;
    assert_int_equal(sg_machine_read("/nowhere/x.machine", &machine), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), "/nowhere/x.machine"));
    char path[] = "/tmp/shingle-machine-XXXXXX";
    const int file = mkstemp(path);
    FILE *const stream = fdopen(file, "w");
    fwrite("ranks 4\n\0sms 3\n", 1, 15, stream);
    fclose(stream);
    assert_int_equal(sg_machine_read(path, &machine), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "a byte of value 0"));
    const char marked[] = "\xef\xbb\xbfname x\n";
    assert_int_equal(sg_disk_replace(path, marked, sizeof marked - 1), SHINGLE_OK);
    assert_int_equal(sg_machine_read(path, &machine), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "a byte order mark at its start"));
    remove(path);
    shingle_machine *handle = NULL;
    assert_int_equal(shingle_machine_load(NULL, &handle), SHINGLE_EINVAL);
    assert_int_equal(shingle_machine_load("", &handle), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "no path"));
    assert_null(handle);
    shingle_machine_free(NULL);
    assert_string_equal(shingle_machine_text(NULL), "");
}

static void shipped_files_are_right(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob("machines/*.machine", 0, NULL, &found), 0); /* in the source folder */
    for (size_t i = 0; i < found.gl_pathc; i++) {
        shingle_machine *machine = NULL;
        const char *const path = found.gl_pathv[i];
        if (shingle_machine_load(path, &machine) != SHINGLE_OK) fail_msg("%s", shingle_error());
        char stem[80];
        snprintf(stem, sizeof stem, "machines/%s.machine", machine->numbers.name);
        assert_string_equal(path, stem);
        assert_true(machine->numbers.coll_gbps < machine->numbers.mem_gbps);
        assert_true(machine->numbers.gemm_tflops[SG_F32] <= machine->numbers.gemm_tflops[SG_BF16]);
        sg_machine again;
        assert_int_equal(sg_machine_parse(shingle_machine_text(machine), path, &again), SHINGLE_OK);
        shingle_machine_free(machine);
    }
    assert_true(found.gl_pathc >= 5);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_machines_parse_to_the_same),
        cmocka_unit_test(lines_that_may_be_left_out_are_kept),
        cmocka_unit_test(few_sms_keep_most_of_a_collective),
        cmocka_unit_test(short_room_cuts_the_text),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(comments_blanks_and_order_do_not_matter),
        cmocka_unit_test(numbers_may_have_a_power_of_ten),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(lines_of_other_topologies_are_refused),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(shipped_files_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
