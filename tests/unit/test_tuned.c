/* Tests of tuned plans: the file keeps what it does not understand, loses nothing to
 * several writers and fails with a text; groups take what was tuned for them and for
 * nearby m, and nothing else.  What times decide is in test_tuned_kept.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/disk.h"
#include "core/tuned_file.h"
#include "plans_folder.h"

static int drop_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void write_file(const char *text, size_t bytes)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static char *read_file(void)
{
    char *text = NULL;
    size_t bytes = 0;
    if (sg_disk_read(path, 1 << 24, &text, &bytes) != SHINGLE_OK) fail_msg("%s", shingle_error());
    return text;
}

/* STRATEGY's plan for PROBLEM, with a measured time. */
static shingle_plan *plan_of(const char *problem, const char *strategy, double us)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = strategy};
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    plan->measured_us = us;
    return plan;
}

static void put(const char *signature, const char *problem, const char *strategy, double us)
{
    shingle_plan *const plan = plan_of(problem, strategy, us);
    if (sg_tuned_file_put(path, signature, plan) != SHINGLE_OK) fail_msg("%s", shingle_error());
    sg_plan_free(plan);
}

static sg_tuned_list read_list(const char *signature)
{
    sg_tuned_list list = {NULL, 0, 0};
    if (sg_tuned_file_read(path, signature, &list) != SHINGLE_OK) fail_msg("%s", shingle_error());
    return list;
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) lines += *text == '\n';
    return lines;
}

/* ---- The file -------------------------------------------------------------------------------- */

static void what_is_put_is_read(void **state)
{
    (void)state;
    assert_int_equal(read_list("here").lines, 0); /* no file yet */
    put("here", "gemm_rs:f32:512x512x512:r4", "serial", 12.34);
    put("here", "ag_gemm:f32:512x512x512:r4", "serial", 99);
    put("there", "gemm_rs:f32:512x512x512:r4", "serial", 1);
    put("here", "gemm_rs:f32:512x512x512:r4", sg_strategy_at(1)->name, 10);
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 2);
    assert_string_equal(list.line[0].plan->strategy->name, "serial");
    assert_true(list.line[0].plan->measured_us == 99);
    assert_ptr_equal(list.line[1].plan->strategy, sg_strategy_at(1));
    assert_true(list.line[1].plan->measured_us == 10);
    sg_tuned_list_free(&list);
    list = read_list("there");
    assert_int_equal(list.lines, 1);
    sg_tuned_list_free(&list);
    char *const text = read_file();
    assert_int_equal(lines_of(text), 4);
    assert_int_equal(strncmp(text, "# ", 2), 0);
    free(text);
}

static void lines_that_nobody_understands_are_kept(void **state)
{
    (void)state;
    static const char strange[] =
        "# plans of shingle tune, as another version says it\n"
        "# a comment\n"
        "\n"
        "   \t\n"
        "one\n"
        "one two\n"
        "here 12.5\n"
        "here 12.5 gemm_rs:f32:64x64:r4 serial{} #0\n"
        "here -1 gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here nan gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here 1e5 gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here 0 gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here 1.2.3 gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here 99999999999999999999999 gemm:f32:4x4x4:r1 serial #0123456789abcdef\n"
        "here 5 gemm:f32:4x4x4:r1 nobody{x=1} #0123456789abcdef\n"
        "here 5 gemm:f32:4x4x4:r1 serial{tile_m=128,tile_n=256} #0123456789abcdef\n"
        "there/other/r8 5 what an older version wrote\n"
        "\xff\xfe\x01 \x02 \x03\n"
        "no newline at the end";
    write_file(strange, sizeof strange - 1);
    assert_int_equal(read_list("here").lines, 0);
    put("here", "gemm_rs:f32:512x512x512:r4", "serial", 7);
    char *const text = read_file();
    assert_int_equal(strncmp(text, strange, sizeof strange - 1), 0);
    assert_int_equal(text[sizeof strange - 1], '\n');
    free(text);
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 1);
    sg_tuned_list_free(&list);
}

/* Lines whose plan is right in all but its time, or whose signature is a part of the one that is
 * asked for (as version 0.1.1 is of 0.1.10), or has that as a part. */
static void times_and_signatures_are_whole(void **state)
{
    (void)state;
    static const struct {
        const char *begin;
        int lines;
    } line[] = {{"here 5", 1},  {"  here\t0.1", 1}, {"here 0", 0},   {"here 0.0", 0},
                {"here -1", 0}, {"here nan", 0},    {"here 1e5", 0}, {"here 1.2.3", 0},
                {"her 5", 0},   {"h 5", 0},         {"here.1 5", 0}};
    char text[300];
    shingle_plan *const plan = plan_of("gemm:f32:4x4x4:r1", "serial", 5);
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        const int bytes = snprintf(text, sizeof text, "%s %s\n", line[i].begin, plan->text);
        write_file(text, (size_t)bytes);
        sg_tuned_list list = read_list("here");
        if (list.lines != line[i].lines) fail_msg("%d of %s", list.lines, text);
        sg_tuned_list_free(&list);
    }
    sg_plan_free(plan);
}

static bool holds_only(const char *bytes, size_t size)
{
    char *text = NULL;
    size_t there = 0;
    assert_int_equal(sg_disk_read(path, 1 << 20, &text, &there), SHINGLE_OK);
    const bool same = there == size && memcmp(text, bytes, size) == 0;
    free(text);
    return same;
}

static void what_is_no_file_of_plans_is_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        shingle_status status;
    } file[] = {
        {"\x93NUMPY\1\0 # a comment\n", 22, SHINGLE_EINVAL},
        {"chapter 1 begins here\n", 22, SHINGLE_EINVAL},
        {"here 1.5 gemm:f32:4x4x4:r1 serial #0123456789abcdef", 51, SHINGLE_EINVAL},
        {"a/b 1.5 gemm:f32:4x4x4:r1 serial #0123456789abcde", 49, SHINGLE_EINVAL},
        {"here 1.5 plan\n\0", 15, SHINGLE_EINVAL},
        {"", 0, SHINGLE_OK},
        {" \n\t\n", 4, SHINGLE_OK},
        {"one\n  # mine\n", 13, SHINGLE_EINVAL},
        {"# one\na/b 1.5 one two #0123456789abcdef\n", 40, SHINGLE_EINVAL},
        {"# of H200\nranks 4 # here\n", 25, SHINGLE_EINVAL},
        {"# mine\n  # and yours\n", 21, SHINGLE_OK},
        {"# mine\na/b 1.5 gemm:f32:4x4x4:r1 serial #0123456789abcdef\none\n", 62, SHINGLE_OK},
        {"a/b\t2 new:er plan{x} #0123456789abcdef \r", 40, SHINGLE_OK}};
    shingle_plan *const plan = plan_of("gemm_rs:f32:512x512x512:r4", "serial", 5);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        write_file(file[i].text, file[i].bytes);
        assert_int_equal(sg_tuned_file_check(path), file[i].status);
        assert_int_equal(sg_tuned_file_put(path, "here", plan), file[i].status);
        assert_int_equal(holds_only(file[i].text, file[i].bytes), file[i].status != SHINGLE_OK);
    }
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(sg_tuned_file_check(path), SHINGLE_EIO); /* before anything is timed */
    assert_int_equal(sg_tuned_file_put(path, "there", plan), SHINGLE_EIO);
    assert_int_equal(chmod(path, 0644), 0);
    sg_plan_free(plan);
}

/* A problem that begins as another does is another; times are kept in tenths. */
static void lines_of_one_problem_alone_are_replaced(void **state)
{
    (void)state;
    put("here", "gemm_rs:f32:512x512x512:r4:relu", "serial", 12.34);
    put("here", "gemm_rs:f32:512x512x512:r4", "serial", 0.02); /* 0 would be no time */
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 2);
    assert_true(list.line[0].plan->measured_us == 12.3);
    assert_true(list.line[1].plan->measured_us == 0.1);
    sg_tuned_list_free(&list);
    put("here", "gemm_rs:f32:512x512x512:r4:relu", "serial", 99.96);
    list = read_list("here");
    assert_int_equal(list.lines, 2);
    assert_true(list.line[1].plan->measured_us == 100);
    sg_tuned_list_free(&list);
}

static void signatures_have_eight_digits_of_the_hash(void **state)
{
    (void)state;
    char text[SG_SIGNATURE];
    char end[60];
    sg_tuned_signature("cpu", "A  Machine_", UINT64_C(0x123456780abcdef1), 8, text, sizeof text);
    snprintf(end, sizeof end, "/a-machine-0abcdef1/r8/%s", shingle_version());
    assert_true(strlen(text) > strlen(end) + 4);
    assert_string_equal(text + strlen(text) - strlen(end), end);
    assert_int_equal(strncmp(text, "cpu/", 4), 0);
}

/* Any bytes: nothing crashes, nothing of another line is lost. */
static void any_bytes_are_survived(void **state)
{
    (void)state;
    shingle_plan *const plan = plan_of("gemm_rs:f32:512x512x512:r4", "serial", 5);
    shingle_plan *const other = plan_of("ag_gemm:f32:64x64x64:r4", "serial", 6);
    sg_random random = {7};
    for (int round = 0; round < 300; round++) {
        char line[400];
        const int length = snprintf(line, sizeof line, "a/b 12.5 %s\n", plan->text);
        const int changes = 1 + (int)sg_random_below(&random, 6);
        for (int i = 0; i < changes; i++) {
            static const char letters[] = "\n \t\0#:{}=,.x0987-\xff";
            const int64_t at = sg_random_below(&random, length);
            line[at] = letters[sg_random_below(&random, (int64_t)sizeof letters - 1)];
        }
        write_file(line, (size_t)length);
        sg_tuned_list list = read_list("a/b");
        for (int32_t i = 0; i < list.lines; i++) assert_true(list.line[i].plan->measured_us > 0);
        sg_tuned_list_free(&list);
        if (round % 10 != 0) continue;
        const shingle_status status = sg_tuned_file_check(path);
        assert_int_equal(sg_tuned_file_put(path, "a/b", other), status);
        if (status != SHINGLE_OK) {
            assert_true(holds_only(line, (size_t)length));
            continue;
        }
        char *text = NULL;
        size_t bytes = 0;
        assert_int_equal(sg_disk_read(path, 1 << 20, &text, &bytes), SHINGLE_OK);
        assert_true(bytes > (size_t)length);
        assert_memory_equal(text, line, (size_t)length);
        free(text);
    }
    sg_plan_free(plan);
    sg_plan_free(other);
}

static void expect_failure(const char *where, shingle_status status, const char *error)
{
    shingle_plan *const plan = plan_of("gemm_rs:f32:512x512x512:r4", "serial", 5);
    assert_int_equal(sg_tuned_file_put(where, "here", plan), status);
    if (strstr(shingle_error(), error) == NULL)
        fail_msg("error is \"%s\", expected \"%s\"", shingle_error(), error);
    sg_plan_free(plan);
}

static void places_that_cannot_be_written_are_named(void **state)
{
    (void)state;
    char where[5000];
    snprintf(where, sizeof where, "%s/nowhere/plans", folder);
    expect_failure(where, SHINGLE_EIO, "nowhere/plans.lock: No such file");
    expect_failure(folder, SHINGLE_EIO, folder);
    expect_failure("/dev/null/plans", SHINGLE_EIO, "/dev/null/plans");
    memset(where, 'x', sizeof where - 1);
    where[sizeof where - 1] = '\0';
    expect_failure(where, SHINGLE_EINVAL, "too long");
    sg_tuned_list list = {NULL, 0, 0};
    assert_int_equal(sg_tuned_file_read(folder, "here", &list), SHINGLE_EIO);
    assert_int_equal(list.lines, 0);
    /* Nothing is left beside it. */
    snprintf(where, sizeof where, "%s.new", folder);
    assert_int_not_equal(access(where, F_OK), 0);
    snprintf(where, sizeof where, "rm -f %s.lock", folder);
    assert_int_equal(system(where), 0);
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    char link_path[64];
    struct stat about;
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    write_file("# mine\n", 7);
    assert_int_equal(symlink(path, link_path), 0);
    shingle_plan *const plan = plan_of("gemm_rs:f32:512x512x512:r4", "serial", 5);
    assert_int_equal(sg_tuned_file_put(link_path, "here", plan), SHINGLE_OK);
    sg_plan_free(plan);
    assert_int_equal(lstat(link_path, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 1);
    sg_tuned_list_free(&list);
    unlink(link_path);
}

/* ---- Several writers ------------------------------------------------------------------------- */

enum { WRITERS = 4, PLANS = 6 };

static void write_some(int writer)
{
    for (int i = 0; i < PLANS; i++) {
        char problem[64];
        snprintf(problem, sizeof problem, "gemm_rs:f32:%dx64x64:r2", 100 * (writer + 1) + i);
        put("here", problem, "serial", 5);
    }
}

static void *writer_thread(void *context)
{
    write_some(*(int *)context);
    return NULL;
}

static void writers_lose_nothing(void **state)
{
    (void)state;
    pthread_t thread[WRITERS];
    pid_t child[WRITERS];
    int number[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            write_some(WRITERS + i);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        number[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, writer_thread, &number[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 2 * WRITERS * PLANS);
    sg_tuned_list_free(&list);
}

typedef struct holder {
    int file;
    double held_until;
} holder;

static void *let_go_later(void *context)
{
    holder *const h = context;
    const struct timespec pause = {0, 150000000};
    nanosleep(&pause, NULL);
    h->held_until = sg_now_us();
    close(h->file);
    return NULL;
}

/* The lock of the file is held; who writes to WHERE waits for it. */
static void writes_after_the_lock(const char *where)
{
    char lock[80];
    pthread_t thread;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(lock, sizeof lock, "%s.lock", path);
    holder h = {.file = open(lock, O_RDWR | O_CREAT, 0666)};
    assert_true(h.file >= 0);
    assert_int_equal(fcntl(h.file, F_OFD_SETLK, &whole), 0);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &h), 0);
    shingle_plan *const plan = plan_of("gemm_rs:f32:512x512x512:r4", "serial", 5);
    assert_int_equal(sg_tuned_file_put(where, "here", plan), SHINGLE_OK);
    const double done = sg_now_us();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(done >= h.held_until);
    sg_plan_free(plan);
}

static void a_writer_waits_for_the_lock(void **state)
{
    (void)state;
    writes_after_the_lock(path);
}

/* The file has one lock whether it is there yet or not. */
static void a_writer_by_a_link_to_nothing_waits_for_the_lock(void **state)
{
    (void)state;
    char link_path[64];
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(symlink(path, link_path), 0);
    writes_after_the_lock(link_path);
    unlink(link_path);
    sg_tuned_list list = read_list("here");
    assert_int_equal(list.lines, 1);
    sg_tuned_list_free(&list);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

enum { RANKS = 2 };

static void open_group(shingle_comm **comm, int threads)
{
    const shingle_config config = {.plans = path, .threads = threads};
    if (shingle_open(RANKS, &config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static shingle_plan *create(shingle_comm *comm, const char *problem,
                            const shingle_plan_options *options)
{
    shingle_plan *plan = NULL;
    if (shingle_plan_create(comm, problem, options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    return plan;
}

static bool is_tuned(shingle_comm *comm, const char *problem, const shingle_plan_options *options)
{
    return strstr(shingle_plan_reason(create(comm, problem, options)), " tuned, ") != NULL;
}

static void tuned_plans_are_taken_by_later_groups(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    const char *const problem = "gemm_rs:f32:192x64x64:r2";
    const shingle_plan_options quick = {.measure_seconds = 0.02};
    open_group(comm, 1);
    assert_false(is_tuned(comm[0], problem, NULL));
    shingle_plan *tuned = NULL;
    if (shingle_tune(comm[0], problem, &quick, &tuned) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_non_null(strstr(shingle_plan_reason(tuned), "measured"));
    assert_true(tuned->measured_us > 0);
    /* Of this group, too; unless asked otherwise. */
    assert_true(is_tuned(comm[1], problem, NULL));
    assert_false(is_tuned(comm[1], problem, &(shingle_plan_options){.choose = "predict"}));
    assert_false(is_tuned(comm[1], problem, &(shingle_plan_options){.choose = "static"}));
    assert_false(is_tuned(comm[1], problem, &(shingle_plan_options){.strategy = "serial"}));
    shingle_close(RANKS, comm);

    open_group(comm, 1);
    shingle_plan *const again = create(comm[0], problem, NULL);
    assert_string_equal(shingle_plan_text(again), shingle_plan_text(tuned));
    assert_non_null(strstr(shingle_plan_reason(again), " tuned, "));
    /* What was measured need not be measured again, neighbours must. */
    assert_true(is_tuned(comm[0], problem, &(shingle_plan_options){.choose = "measure"}));
    sg_plan_free(tuned);
    shingle_close(RANKS, comm);

    /* Another number of threads is another machine. */
    open_group(comm, 2);
    assert_false(is_tuned(comm[0], problem, NULL));
    shingle_close(RANKS, comm);
}

/* A strategy that no prediction would choose, so that it must come from the file. */
static void nearby_m_follow_what_was_tuned(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    open_group(comm, 1);
    const shingle_plan_options forced = {.strategy = "serial", .measure_seconds = 0.001};
    assert_int_equal(shingle_tune(comm[0], "ag_gemm:f32:64x64x64:r2", &forced, NULL), SHINGLE_OK);
    assert_true(is_tuned(comm[0], "ag_gemm:f32:64x64x64:r2", NULL));
    assert_true(is_tuned(comm[0], "ag_gemm:f32:65x64x64:r2", NULL));
    assert_true(is_tuned(comm[0], "ag_gemm:f32:33x64x64:r2", NULL));
    assert_true(is_tuned(comm[0], "ag_gemm:f32:128x64x64:r2", NULL));
    /* Too far, or another product. */
    assert_false(is_tuned(comm[0], "ag_gemm:f32:31x64x64:r2", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:f32:129x64x64:r2", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:f32:64x65x64:r2", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:f32:64x64x65:r2", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:bf16:64x64x64:r2", NULL));
    assert_false(is_tuned(comm[0], "gemm_rs:f32:64x64x64:r2", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:f32:64x64x64:r2:relu", NULL));
    assert_false(is_tuned(comm[0], "ag_gemm:f32:65x64x64:r2",
                          &(shingle_plan_options){.measure = 1, .measure_seconds = 0.001}));
    /* The nearest of two. */
    assert_int_equal(shingle_tune(comm[0], "ag_gemm:f32:100x64x64:r2", &forced, NULL), SHINGLE_OK);
    assert_non_null(
        strstr(shingle_plan_reason(create(comm[0], "ag_gemm:f32:90x64x64:r2", NULL)), "at m 100"));
    assert_non_null(
        strstr(shingle_plan_reason(create(comm[0], "ag_gemm:f32:70x64x64:r2", NULL)), "at m 64"));
    shingle_close(RANKS, comm);
}

/* Both ranks of a group take the same plan, and it runs. */
static void tuned_plans_run(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    float a[8 * 4], b[4 * 4], c[RANKS][4 * 4];
    open_group(comm, 1);
    const shingle_plan_options quick = {.level = "measure", .measure_seconds = 0.01};
    assert_int_equal(shingle_tune(comm[0], "gemm_rs:f32:8x4x4:r2", &quick, NULL), SHINGLE_OK);
    for (int i = 0; i < 32; i++) a[i] = 1;
    for (int i = 0; i < 16; i++) b[i] = 2;
    for (int r = 0; r < RANKS; r++) plan[r] = create(comm[r], "gemm_rs:f32:8x4x4:r2", NULL);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(shingle_run(plan[r], a, b, c[r], NULL), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        if (shingle_sync(comm[r], 10) != SHINGLE_OK) fail_msg("%s", shingle_error());
        for (int i = 0; i < 16; i++) assert_true(c[r][i] == 2 * 4 * RANKS);
    }
    shingle_close(RANKS, comm);
}

static void wrong_wishes_are_named(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    open_group(comm, 1);
    const shingle_plan_options estimate = {.level = "estimate"};
    assert_int_equal(shingle_tune(NULL, "gemm:f32:4x4x4:r2", NULL, NULL), SHINGLE_EINVAL);
    assert_int_equal(shingle_tune(comm[0], NULL, NULL, NULL), SHINGLE_EINVAL);
    assert_int_equal(shingle_tune(comm[0], "gemm:f32:4x4x4:r3", NULL, NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "has 3 ranks; this group has 2"));
    assert_int_equal(shingle_tune(comm[0], "gemm:f32:4x4x4:r2", &estimate, NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "measures nothing"));
    shingle_close(RANKS, comm);
    /* A file that cannot be read is told when the group opens; one that is not there is none. */
    const shingle_config config = {.plans = folder};
    assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_EIO);
    const shingle_config none = {.plans = "/dev/null"};
    assert_int_equal(shingle_open(RANKS, &none, comm), SHINGLE_OK);
    shingle_close(RANKS, comm);
}

/* A choice that a group keeps is one for the strategy that was set then. */
static void kept_choices_know_the_strategy_that_was_set(void **state)
{
    static const char *const names[] = {"direct", "ring", "direct"};
    (void)state;
    shingle_comm *comm[RANKS];
    assert_int_equal(shingle_open(RANKS, &(shingle_config){.threads = 1}, comm), SHINGLE_OK);
    for (int i = 0; i < 3; i++) {
        char problem[60];
        snprintf(problem, sizeof problem, "gemm_rs:f32:64x48x40:r%d", RANKS);
        setenv("SHINGLE_STRATEGY", names[i], 1);
        const char *const text = shingle_plan_text(create(comm[0], problem, NULL));
        if (strstr(text, names[i]) == NULL) fail_msg("%s is asked for: %s", names[i], text);
    }
    unsetenv("SHINGLE_STRATEGY");
    shingle_close(RANKS, comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_put_is_read, drop_file),
        cmocka_unit_test_teardown(lines_that_nobody_understands_are_kept, drop_file),
        cmocka_unit_test_teardown(times_and_signatures_are_whole, drop_file),
        cmocka_unit_test_teardown(what_is_no_file_of_plans_is_left_alone, drop_file),
        cmocka_unit_test_teardown(lines_of_one_problem_alone_are_replaced, drop_file),
        cmocka_unit_test(signatures_have_eight_digits_of_the_hash),
        cmocka_unit_test_teardown(any_bytes_are_survived, drop_file),
        cmocka_unit_test(places_that_cannot_be_written_are_named),
        cmocka_unit_test_teardown(a_link_stays_a_link, drop_file),
        cmocka_unit_test_teardown(writers_lose_nothing, drop_file),
        cmocka_unit_test_teardown(a_writer_waits_for_the_lock, drop_file),
        cmocka_unit_test_teardown(a_writer_by_a_link_to_nothing_waits_for_the_lock, drop_file),
        cmocka_unit_test_teardown(tuned_plans_are_taken_by_later_groups, drop_file),
        cmocka_unit_test_teardown(nearby_m_follow_what_was_tuned, drop_file),
        cmocka_unit_test_teardown(tuned_plans_run, drop_file),
        cmocka_unit_test_teardown(wrong_wishes_are_named, drop_file),
        cmocka_unit_test(kept_choices_know_the_strategy_that_was_set),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
