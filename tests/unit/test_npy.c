/* test_npy.c -- the command's .npy files and its atomic writing, below the command line: what is
 * written is read back, and every cut of a file is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/wait.h>

#include "../../cli/file.c"
#include "../../cli/npy.c"
#include "../../cli/out.c"

static char folder[] = "/tmp/shingle_npy_XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_array(const char *name, const char *type, int64_t rows, int64_t cols,
                        const void *data)
{
    char error[FILE_ERROR] = "";
    file_writer writer;
    assert_true(npy_write(path_of(name), type, rows, cols, data, &writer, error));
    assert_true(file_appear(&writer, error));
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16"};
    uint8_t data[4 * 5 * 7];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 37);
    for (int t = 0; t < 3; t++) {
        char error[FILE_ERROR] = "";
        npy_array array = {0};
        const size_t item = t == 0 ? 4 : 2;
        write_array("a.npy", types[t], 5, 7, data);
        assert_true(npy_read(path_of("a.npy"), &array, error));
        assert_string_equal(array.type, types[t]);
        assert_int_equal(array.dims, 2);
        assert_int_equal(array.extent[0], 5);
        assert_int_equal(array.extent[1], 7);
        assert_false(array.fortran);
        assert_int_equal(array.data_bytes, 35 * item);
        assert_memory_equal(array.data, data, 35 * item);
        npy_free(&array);
    }
}

/* NumPy aligns the numbers to 64 bytes and maps files into memory; so do ours. */
static void test_alignment(void **state)
{
    (void)state;
    char error[FILE_ERROR] = "";
    char bytes[512];
    npy_array array;
    size_t data_at = 0;
    for (int64_t rows = 1; rows < INT64_C(1000000000000); rows *= 10) {
        write_array("a.npy", "f32", rows, 0, "");
        FILE *const stream = fopen(path_of("a.npy"), "rb");
        const size_t count = fread(bytes, 1, sizeof bytes, stream);
        fclose(stream);
        assert_true(npy_parse(bytes, count, "a", &array, &data_at, error));
        assert_int_equal(data_at % 64, 0);
        assert_int_equal(data_at, count);
        assert_int_equal(bytes[count - 1], '\n');
        assert_int_equal(array.extent[0], rows);
    }
}

static void test_every_cut_is_an_error(void **state)
{
    (void)state;
    const float data[6] = {1, 2, 3, 4, 5, 6};
    char bytes[256];
    write_array("a.npy", "f32", 2, 3, data);
    FILE *stream = fopen(path_of("a.npy"), "rb");
    const size_t count = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    for (size_t length = 0; length <= count + 1; length++) {
        char error[FILE_ERROR] = "";
        npy_array array = {0};
        stream = fopen(path_of("cut.npy"), "wb");
        assert_int_equal(fwrite(bytes, 1, length, stream), length);
        fclose(stream);
        const bool ok = npy_read(path_of("cut.npy"), &array, error);
        assert_int_equal(ok, length == count);
        if (ok)
            npy_free(&array);
        else
            assert_ptr_equal(strstr(error, path_of("cut.npy")), error);
    }
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* A file is under its name only when all of it is written; dropped, nothing of it is left. */
static void test_appears_whole(void **state)
{
    (void)state;
    char error[FILE_ERROR] = "";
    file_writer writer;
    const int before = files_in_folder();
    assert_true(file_begin(&writer, path_of("new.npy"), error));
    assert_true(file_put(&writer, "half", 4, error));
    assert_int_not_equal(access(path_of("new.npy"), F_OK), 0);
    file_drop(&writer);
    assert_int_equal(files_in_folder(), before);

    assert_true(file_begin(&writer, path_of("new.npy"), error));
    assert_true(file_put(&writer, "whole", 5, error));
    assert_true(file_close(&writer, error));
    assert_int_not_equal(access(path_of("new.npy"), F_OK), 0);
    assert_true(file_appear(&writer, error));
    assert_int_equal(access(path_of("new.npy"), F_OK), 0);
    assert_int_equal(files_in_folder(), before + 1);
    file_drop(&writer); /* nothing left to drop: the file stays */
    assert_int_equal(access(path_of("new.npy"), F_OK), 0);
}

static void write_whole(const char *name)
{
    char error[FILE_ERROR] = "";
    file_writer writer;
    if (!file_begin(&writer, path_of(name), error) || !file_put(&writer, "whole", 5, error) ||
        !file_close(&writer, error) || !file_appear(&writer, error))
        fail_msg("%s", error);
}

static void link_to(const char *target, const char *name)
{
    unlink(path_of(name));
    assert_int_equal(symlink(target, path_of(name)), 0);
}

/* What a killed process of the same number left is neither written over nor followed. */
static void test_names_that_are_taken(void **state)
{
    (void)state;
    static const char *const endings[] = {"", "-0"};
    char part[2][64];
    struct stat about;
    write_whole("new.npy");
    for (int i = 0; i < 2; i++) {
        snprintf(part[i], sizeof part[i], "new.npy.part%ld%s", (long)getpid(), endings[i]);
        link_to("nothing", part[i]);
    }
    const int before = files_in_folder();
    write_whole("new.npy");
    assert_int_equal(files_in_folder(), before);
    assert_int_not_equal(access(path_of("nothing"), F_OK), 0);
    /* So where the file system has no files without a name. */
    file_writer writer = {.nameless = false};
    strcpy(writer.target, path_of("new.npy"));
    const int file = take_name(&writer, NULL, 0666);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(lstat(writer.temporary, &about), 0);
    assert_true(S_ISREG(about.st_mode));
    file_drop(&writer);
    for (int i = 0; i < 2; i++) unlink(path_of(part[i]));
}

/* A file is made where links lead to, by their own folder; they stay. */
static void test_links_to_nothing(void **state)
{
    (void)state;
    char error[FILE_ERROR] = "";
    char target[FILE_PATH];
    char direct[256];
    char second[256];
    struct stat about;
    file_writer writer;
    strcpy(direct, path_of("new.npy"));
    strcpy(second, path_of("second"));
    link_to("new.npy", "second");
    for (int i = 0; i < 2; i++) {
        link_to(i == 0 ? "second" : second, "first");
        unlink(path_of("new.npy"));
        assert_true(file_follow(path_of("first"), target));
        assert_string_equal(target, direct);
        assert_true(file_is_same(path_of("first"), direct));
        assert_false(file_is_same(path_of("a.npy"), direct));
        write_whole("first");
        assert_int_equal(lstat(path_of("new.npy"), &about), 0);
        assert_true(S_ISREG(about.st_mode));
        assert_int_equal(lstat(path_of("first"), &about), 0);
        assert_true(S_ISLNK(about.st_mode));
    }
    link_to("first", "second");
    assert_false(file_begin(&writer, path_of("first"), error));
    assert_non_null(strstr(error, "first: cannot be written: Too many levels"));
    link_to("nowhere/new.npy", "first");
    assert_false(file_begin(&writer, path_of("first"), error));
    assert_non_null(strstr(error, "first: cannot be written: No such file"));
    unlink(path_of("first"));
    unlink(path_of("second"));
}

/* What replaces a file has its mode, which the mask of new files would narrow. */
static void test_modes_stay(void **state)
{
    (void)state;
    struct stat about;
    const mode_t mask = umask(027);
    unlink(path_of("new.npy"));
    write_whole("new.npy");
    assert_int_equal(stat(path_of("new.npy"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(chmod(path_of("new.npy"), 0666), 0);
    write_whole("new.npy");
    umask(mask);
    assert_int_equal(stat(path_of("new.npy"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0666);
}

/* Does file_check of a.npy, by USER, say whether it can be replaced, and why not? */
static bool says_to(uid_t user, bool can)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        char error[FILE_ERROR] = "";
        if (setresuid(user, user, user) != 0) _exit(2);
        const bool checked = file_check(path_of("a.npy"), error);
        _exit(checked != can || (!can && strstr(error, strerror(EPERM)) == NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* In a folder such as /tmp a file of somebody else's is not renamed over, though it may be written:
 * known before there is anything to lose. */
static void test_sticky_folders(void **state)
{
    (void)state;
    enum { ME = 12345, OTHER = 12346 };
    if (geteuid() != 0) skip();
    write_array("a.npy", "f32", 1, 0, "");
    assert_int_equal(chmod(path_of("a.npy"), 0666), 0);
    assert_int_equal(chown(path_of("a.npy"), OTHER, (gid_t)-1), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_true(says_to(ME, false));
    assert_true(says_to(OTHER, true));
    assert_true(says_to(0, true));
    assert_int_equal(chown(folder, ME, (gid_t)-1), 0);
    assert_true(says_to(ME, true));
    assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_true(says_to(ME, true));
    assert_int_equal(chmod(folder, 0700), 0);
}

static void test_full_device(void **state)
{
    (void)state;
    char error[FILE_ERROR] = "";
    file_writer writer;
    const float data[4] = {0};
    if (access("/dev/full", W_OK) != 0) skip();
    assert_false(npy_write("/dev/full", "f32", 2, 2, data, &writer, error));
    assert_non_null(strstr(error, "/dev/full: cannot be written"));
    assert_int_equal(access("/dev/full", F_OK), 0);
}

static void test_file_limit(void **state)
{
    (void)state;
    char error[FILE_ERROR] = "";
    size_t bytes = 0;
    write_array("a.npy", "f32", 1, 0, "");
    char *text = file_read(path_of("a.npy"), 127, &bytes, error);
    assert_null(text);
    assert_non_null(strstr(error, "more than 127 bytes"));
    text = file_read(path_of("a.npy"), 128, &bytes, error);
    assert_non_null(text);
    assert_int_equal(bytes, 128);
    assert_int_equal(text[128], 0);
    free(text);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"a.npy", "cut.npy", "new.npy"};
    for (int i = 0; i < 3; i++) unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_every_cut_is_an_error),
        cmocka_unit_test(test_appears_whole),
        cmocka_unit_test(test_names_that_are_taken),
        cmocka_unit_test(test_links_to_nothing),
        cmocka_unit_test(test_modes_stay),
        cmocka_unit_test(test_sticky_folders),
        cmocka_unit_test(test_full_device),
        cmocka_unit_test(test_file_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
