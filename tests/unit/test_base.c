/* Tests of base.c: error text, checked arithmetic, arenas, growing lists, text, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base.h"
#include "core/disk.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

static void error_text_is_one_line(void **state)
{
    (void)state;
    assert_int_equal(sg_fail(SHINGLE_EINVAL, "bad \"%s\"",
                             "a\nb\tc\x01"
                             "d\x7f"),
                     SHINGLE_EINVAL);
    assert_string_equal(shingle_error(), "bad \"a?b?c?d?\"");
}

static void error_text_may_quote_itself(void **state)
{
    (void)state;
    sg_fail(SHINGLE_EIO, "inner");
    sg_fail(SHINGLE_EIO, "outer: %s", shingle_error());
    assert_string_equal(shingle_error(), "outer: inner");
}

static void error_text_is_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    sg_fail(SHINGLE_EINVAL, "%s", text);
    const size_t length = strlen(shingle_error());
    assert_true(length > 500 && length < 1000);
}

static void *fail_elsewhere(void *context)
{
    *(bool *)context = shingle_error()[0] == '\0';
    sg_fail(SHINGLE_EIO, "elsewhere");
    return NULL;
}

static void error_text_is_of_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    bool empty = false;
    sg_fail(SHINGLE_EINVAL, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    pthread_join(thread, NULL);
    assert_true(empty);
    assert_string_equal(shingle_error(), "here");
}

static shingle_status forward(shingle_status status, int *went_on)
{
    SG_TRY(status);
    *went_on = 1;
    return SHINGLE_OK;
}

static void try_forwards_failures(void **state)
{
    (void)state;
    int went_on = 0;
    assert_int_equal(forward(SHINGLE_ETIMEOUT, &went_on), SHINGLE_ETIMEOUT);
    assert_int_equal(went_on, 0);
    assert_int_equal(forward(SHINGLE_OK, &went_on), SHINGLE_OK);
    assert_int_equal(went_on, 1);
}

static void version_is_the_header_s(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", SHINGLE_VERSION_MAJOR, SHINGLE_VERSION_MINOR,
             SHINGLE_VERSION_PATCH);
    assert_string_equal(shingle_version(), text);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void products_are_checked(void **state)
{
    (void)state;
    int64_t out = -1;
    assert_true(sg_mul(INT64_C(3000000000), INT64_C(3000000000), &out));
    assert_int_equal(out, INT64_C(9000000000000000000));
    assert_false(sg_mul(INT64_C(4000000000), INT64_C(3000000000), &out));
    assert_int_equal(out, INT64_C(9000000000000000000));
    assert_true(sg_mul(0, INT64_MAX, &out));
    assert_int_equal(out, 0);
}

static void rounding(void **state)
{
    (void)state;
    for (int64_t a = 0; a < 40; a++) {
        for (int64_t b = 1; b < 9; b++) {
            const int64_t up = sg_round_up(a, b);
            assert_true(up % b == 0 && up >= a && up < a + b);
            assert_int_equal(sg_ceil_div(a, b) * b, up);
        }
    }
    assert_int_equal(sg_min(-1, 1), -1);
    assert_int_equal(sg_max(-1, 1), 1);
}

static void hashes_tell_texts_apart(void **state)
{
    (void)state;
    uint64_t seen[300];
    int count = 0;
    const char text[] = "ag_gemm:bf16:8192x7168x8192:r4";
    for (size_t bytes = 0; bytes < sizeof text; bytes++)
        for (uint64_t seed = 0; seed < 8; seed++) seen[count++] = sg_hash(text, bytes, seed);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) assert_true(seen[i] != seen[j]);
    assert_true(sg_hash(text, 9, 1) == sg_hash("ag_gemm:b", 9, 1));
}

static void random_numbers_fill_their_range(void **state)
{
    (void)state;
    sg_random random = {7};
    int seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        const int64_t x = sg_random_below(&random, 10);
        assert_true(x >= 0 && x < 10);
        seen[x]++;
    }
    for (int i = 0; i < 10; i++) assert_true(seen[i] > 800 && seen[i] < 1200);
}

/* Every one once; and in a set of rounds, wherever it begins, everybody stands behind everybody
 * else equally often. */
static void turns_put_everybody_behind_everybody(void **state)
{
    (void)state;
    enum { MOST = 14 };
    for (int count = 1; count <= MOST; count++) {
        const int rounds = count % 2 != 0 ? 2 * count : count;
        for (uint64_t first = 0; first < 5; first++) {
            int behind[MOST][MOST] = {{0}};
            for (int i = 0; i < rounds; i++) {
                int order[MOST];
                int seen = 0;
                sg_turns(first * UINT64_C(0x123456789) + (uint64_t)i, count, order);
                for (int j = 0; j < count; j++) seen |= 1 << order[j];
                assert_int_equal(seen, (1 << count) - 1);
                for (int j = 1; j < count; j++) behind[order[j]][order[j - 1]]++;
            }
            for (int a = 0; a < count; a++)
                for (int b = 0; b < count; b++)
                    assert_int_equal(behind[a][b], a == b ? 0 : rounds / count);
        }
    }
    sg_turns(1, 0, NULL);
}

static void time_goes_forward(void **state)
{
    (void)state;
    const double before = sg_now_us();
    usleep(2000);
    const double after = sg_now_us();
    assert_true(after - before >= 2000 && after - before < 5e6);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void arena_pieces_are_zeroed_and_apart(void **state)
{
    (void)state;
    sg_arena arena = {0};
    unsigned char *piece[400];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 400; i++) {
            const size_t bytes = (size_t)(i * 7 % 300) + (i % 100 == 99 ? 100000 : 0);
            piece[i] = sg_arena_get(&arena, bytes);
            assert_non_null(piece[i]);
            assert_int_equal((uintptr_t)piece[i] % 16, 0);
            for (size_t j = 0; j < bytes; j++) assert_int_equal(piece[i][j], 0);
            memset(piece[i], i & 0xff, bytes);
        }
        for (int i = 0; i < 400; i++)
            for (size_t j = 0; j < (size_t)(i * 7 % 300); j++)
                assert_int_equal(piece[i][j], i & 0xff);
        sg_arena_reset(&arena);
    }
    sg_arena_free(&arena);
    assert_null(arena.head);
}

static void full_arena_stays_full(void **state)
{
    (void)state;
    sg_arena arena = {0};
    assert_null(sg_arena_get(&arena, SIZE_MAX - 8));
    assert_true(arena.full);
    assert_null(sg_arena_get(&arena, 1));
    sg_arena_reset(&arena);
    assert_non_null(sg_arena_get(&arena, 1));
    sg_arena_free(&arena);
}

static void lists_grow_and_keep_what_they_hold(void **state)
{
    (void)state;
    int64_t *list = NULL;
    int32_t room = 0;
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(sg_grow(&list, &room, (int64_t)i + 1, sizeof *list));
        assert_true(room > i);
        list[i] = i;
    }
    for (int32_t i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    const int32_t before = room;
    assert_false(sg_grow(&list, &room, INT64_C(1) << 40, sizeof *list));
    assert_int_equal(room, before);
    assert_int_equal(list[999], 999);
    free(list);
}

static void texts_are_cut_and_counted(void **state)
{
    (void)state;
    char data[8] = "zzzzzzz";
    sg_text text = {data, 6, 0};
    sg_text_add(&text, "%d", 123);
    sg_text_add(&text, "%s", "4567");
    sg_text_add(&text, "%s", "89");
    assert_string_equal(data, "12345");
    assert_int_equal(text.length, 9);
    assert_int_equal(data[6], 'z');

    sg_text none = {NULL, 0, 0};
    sg_text_add(&none, "%s", "abc");
    assert_int_equal(none.length, 3);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void files_are_read_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/shingle-test-XXXXXX";
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    char written[20000];
    for (size_t i = 0; i < sizeof written; i++) written[i] = (char)(i * 31);
    assert_int_equal(write(handle, written, sizeof written), sizeof written);
    close(handle);

    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(sg_disk_read(path, sizeof written, &data, &bytes), SHINGLE_OK);
    assert_int_equal(bytes, sizeof written);
    assert_memory_equal(data, written, sizeof written);
    assert_int_equal(data[bytes], '\0');
    free(data);

    data = NULL;
    assert_int_equal(sg_disk_read(path, sizeof written - 1, &data, &bytes), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "larger than 19999 bytes"));
    assert_non_null(strstr(shingle_error(), path));
    assert_null(data);
    unlink(path);

    assert_int_equal(sg_disk_read(path, 10, &data, &bytes), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), "No such file"));
    assert_int_equal(sg_disk_read("/tmp", 10, &data, &bytes), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), "/tmp: "));
}

/* Nobody is at the other end, and nobody comes. */
static void pipes_are_not_waited_for(void **state)
{
    (void)state;
    char folder[] = "/tmp/shingle-test-XXXXXX";
    char path[64];
    char *data = NULL;
    size_t bytes = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(sg_disk_read(path, 10, &data, &bytes), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "a pipe; a regular file is accepted"));
    assert_int_equal(sg_disk_replace(path, "12", 2), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), "nobody reads it"));
    alarm(0);
    unlink(path);
    rmdir(folder);
}

/* Ends the process: 0 if BYTES came through PATH, of which it takes its time for the first. */
static void read_slowly(const char *path, size_t bytes)
{
    char some[1 << 16];
    size_t all = 0;
    const int file = open(path, O_RDONLY);
    usleep(300000);
    for (ssize_t got = 1; got > 0; all += got > 0 ? (size_t)got : 0)
        got = read(file, some, sizeof some);
    _exit(all == bytes ? 0 : 1);
}

static void readers_are_not_waited_for_long(void **state)
{
    (void)state;
    static char data[1 << 21]; /* more than a pipe has room for */
    char folder[] = "/tmp/shingle-test-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60);
    const int stopped = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(sg_disk_replace(path, data, sizeof data), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), "pipe: cannot be written: who reads it has stopped"));
    close(stopped);

    const pid_t child = fork();
    if (child == 0) read_slowly(path, sizeof data);
    shingle_status status = SHINGLE_EIO;
    int code = 1;
    do {
        status = sg_disk_replace(path, data, sizeof data);
    } while (status == SHINGLE_EIO && strstr(shingle_error(), "nobody reads it") != NULL);
    assert_int_equal(status, SHINGLE_OK);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    alarm(0);
    unlink(path);
    rmdir(folder);
}

static void links_lead_to_new_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/shingle-test-XXXXXX";
    char link_path[64], path[64];
    char *data = NULL;
    size_t bytes = 0;
    struct stat about;
    assert_non_null(mkdtemp(folder));
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(symlink("file", link_path), 0);
    for (size_t i = 0; i < 2; i++) { /* it is not there, and it is */
        assert_int_equal(sg_disk_replace(link_path, "12", 2 - i), SHINGLE_OK);
        assert_int_equal(lstat(link_path, &about), 0);
        assert_true(S_ISLNK(about.st_mode));
        assert_int_equal(sg_disk_read(path, 10, &data, &bytes), SHINGLE_OK);
        assert_int_equal(bytes, 2 - i);
        free(data);
    }
    unlink(link_path);
    unlink(path);
    rmdir(folder);
}

/* Its folder may be written, and root writes whatever the mode. */
static void read_only_files_are_not_replaced(void **state)
{
    (void)state;
    char path[] = "/tmp/shingle-test-XXXXXX";
    char *data = NULL;
    size_t bytes = 0;
    struct stat before, after;
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, "old", 3) == 3 && fchmod(file, 0444) == 0);
    close(file);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(sg_disk_check(path), SHINGLE_EIO);
    assert_int_equal(sg_disk_replace(path, "12", 2), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), path));
    assert_non_null(strstr(shingle_error(), ": cannot be written: Permission denied"));
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && after.st_mode == before.st_mode);
    assert_int_equal(sg_disk_read(path, 10, &data, &bytes), SHINGLE_OK);
    assert_string_equal(data, "old");
    free(data);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(sg_disk_check(path), SHINGLE_OK);
    assert_int_equal(sg_disk_replace(path, "12", 2), SHINGLE_OK);
    unlink(path);
    assert_int_equal(sg_disk_check(path), SHINGLE_OK); /* nothing is there */
}

/* What replaces a file has its mode, which the mask of new files would narrow. */
static void modes_stay(void **state)
{
    (void)state;
    char folder[] = "/tmp/shingle-test-XXXXXX";
    char path[64];
    struct stat about;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    const mode_t mask = umask(027);
    for (size_t i = 0; i < 2; i++) { /* it is not there, and it is */
        assert_int_equal(sg_disk_replace(path, "12", 2), SHINGLE_OK);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 0777, i == 0 ? 0640 : 0666);
        assert_int_equal(chmod(path, 0666), 0);
    }
    umask(mask);
    unlink(path);
    rmdir(folder);
}

/* A program may have a locale whose numbers have commas; what texts tell can be typed again. */
static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL)
        skip();
    char data[8];
    sg_text text = {.data = data, .room = sizeof data};
    sg_text_add(&text, "%g", 0.5);
    assert_int_equal(sg_fail(SHINGLE_EINVAL, "%.1f s", 2.5), SHINGLE_EINVAL);
    char own[8];
    snprintf(own, sizeof own, "%g", 0.5);
    setlocale(LC_ALL, "C");
    assert_string_equal(data, "0.5");
    assert_string_equal(shingle_error(), "2.5 s");
    assert_string_equal(own, "0,5"); /* the program's own numbers stay as they are */
}

/* What is cut is marked, and never longer than was asked for. */
static void a_part_has_what_it_is_about(void **state)
{
    (void)state;
    enum { MOST = 20 };
    static const char whole[] = "abcdefghijklmnopqrstuvwxyzABCDEF";
    for (size_t length = 0; length < sizeof whole; length++)
        for (size_t at = 0; at <= length; at++) {
            char part[64] = "";
            sg_text text = {part, sizeof part, 0};
            sg_text_add_part(&text, whole, length, at, MOST);
            assert_true(text.length == (length < MOST ? length : MOST));
            assert_true(at == length || strchr(part, whole[at]) != NULL);
            const bool front = strncmp(part, "...", 3) == 0;
            const bool back = length > MOST && strcmp(part + MOST - 3, "...") == 0;
            assert_true(front || part[0] == whole[0] || length == 0);
            assert_true(back || length == 0 || part[text.length - 1] == whole[length - 1]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_text_is_one_line),
        cmocka_unit_test(error_text_may_quote_itself),
        cmocka_unit_test(error_text_is_cut),
        cmocka_unit_test(error_text_is_of_the_thread),
        cmocka_unit_test(try_forwards_failures),
        cmocka_unit_test(version_is_the_header_s),
        cmocka_unit_test(products_are_checked),
        cmocka_unit_test(rounding),
        cmocka_unit_test(hashes_tell_texts_apart),
        cmocka_unit_test(random_numbers_fill_their_range),
        cmocka_unit_test(turns_put_everybody_behind_everybody),
        cmocka_unit_test(time_goes_forward),
        cmocka_unit_test(arena_pieces_are_zeroed_and_apart),
        cmocka_unit_test(full_arena_stays_full),
        cmocka_unit_test(lists_grow_and_keep_what_they_hold),
        cmocka_unit_test(texts_are_cut_and_counted),
        cmocka_unit_test(files_are_read_whole),
        cmocka_unit_test(pipes_are_not_waited_for),
        cmocka_unit_test(readers_are_not_waited_for_long),
        cmocka_unit_test(links_lead_to_new_files),
        cmocka_unit_test(read_only_files_are_not_replaced),
        cmocka_unit_test(modes_stay),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(a_part_has_what_it_is_about),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
