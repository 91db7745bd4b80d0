/* Tests of env.c and the log.  The log opens once per process, so this program runs itself:
 * `test_env child` logs a message of each level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/disk.h"
#include "core/env.h"

static const char *self;

static int child(void)
{
    sg_log(SG_LOG_ERROR, "rank %d is\nlate", 3);
    sg_log(SG_LOG_WARN, "slow link");
    sg_log(SG_LOG_INFO, "chose ring");
    sg_log(SG_LOG_DEBUG, "tile 7");
    sg_fail(SHINGLE_EINVAL, "failed");
    int threads = 0;
    (void)sg_env_count("SHINGLE_THREADS", 1, 1024, 0, &threads);
    return 0;
}

/* Runs the child under SETTINGS and stores what it says on stdout and stderr. */
static void say(const char *settings, char *text, size_t room)
{
    char command[1024];
    snprintf(command, sizeof command, "env %s '%s' child 2>&1", settings, self);
    FILE *const pipe = popen(command, "r");
    assert_non_null(pipe);
    text[fread(text, 1, room - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

static void numbers_are_decimal(void **state)
{
    static const char *const name = "SHINGLE_TIMEOUT";
    static const char *const wrong[] = {"0,5",   "nan",  "inf",   "-1",
                                        "+1",    ".5",   "e3",    "0x10",
                                        " 1",    "1 ",   "1.2.3", "1234567890123456789",
                                        "1e",    "1e+",  "1e 3",  "1e999999999999",
                                        "1e1.0", "1e3x", "1e--1", "0x1p3",
                                        "1e5",   "1e-4", "0e100", "100000"};
    static const struct {
        const char *text;
        double value;
    } right[] = {{"0.125", 0.125}, {"1e3", 1000}, {"2.5E+01", 25},
                 {"1e-3", 0.001},  {"12.e0", 12}, {"86400.", 86400}};
    double value = 0;
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        setenv(name, right[i].text, 1);
        assert_int_equal(sg_env_number(name, 0.001, 86400, 10, &value), SHINGLE_OK);
        assert_true(value == right[i].value);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv(name, wrong[i], 1);
        assert_int_equal(sg_env_number(name, 0.001, 86400, 10, &value), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), wrong[i]));
    }
    assert_true(value == 86400);
    unsetenv(name);
    assert_int_equal(sg_env_number(name, 0.001, 86400, 10, &value), SHINGLE_OK);
    assert_true(value == 10);
    assert_int_equal(shingle_env(0, NULL), SHINGLE_EINVAL);
}

static void table_is_complete(void **state)
{
    (void)state;
    shingle_env_entry entry;
    int count = 0;
    for (; shingle_env(count, &entry) == SHINGLE_OK; count++) {
        assert_int_equal(strncmp(entry.name, "SHINGLE_", 8), 0);
        assert_true(strlen(entry.meaning) > 10);
        unsetenv(entry.name);
        assert_string_equal(sg_env(entry.name), entry.fallback);
        setenv(entry.name, "", 1);
        assert_string_equal(sg_env(entry.name), entry.fallback);
        setenv(entry.name, "7", 1);
        assert_string_equal(sg_env(entry.name), "7");
        assert_int_equal(shingle_env(count, &entry), SHINGLE_OK);
        assert_string_equal(entry.value, "7");
        unsetenv(entry.name);
        assert_int_equal(shingle_env(count, &entry), SHINGLE_OK);
        assert_null(entry.value);
    }
    assert_in_range(count, 1, 12);
    assert_int_equal(shingle_env(-1, &entry), SHINGLE_EINVAL);
    assert_int_equal(shingle_env(count, &entry), SHINGLE_EINVAL);
}

static void numbers_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "1x", "nan", "0", "-3", "101", "1e9", "inf", " "};
    double value = -1;
    unsetenv("SHINGLE_TIMEOUT");
    assert_int_equal(sg_env_number("SHINGLE_TIMEOUT", 1, 100, 10, &value), SHINGLE_OK);
    assert_true(value == 10);
    setenv("SHINGLE_TIMEOUT", "2.5", 1);
    assert_int_equal(sg_env_number("SHINGLE_TIMEOUT", 1, 100, 10, &value), SHINGLE_OK);
    assert_true(value == 2.5);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("SHINGLE_TIMEOUT", bad[i], 1);
        assert_int_equal(sg_env_number("SHINGLE_TIMEOUT", 1, 100, 10, &value), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "SHINGLE_TIMEOUT is \""));
        assert_non_null(strstr(shingle_error(), "1 to 100"));
        assert_true(value == 2.5);
    }
    int count = -1;
    setenv("SHINGLE_TIMEOUT", "7", 1);
    assert_int_equal(sg_env_count("SHINGLE_TIMEOUT", 1, 100, 0, &count), SHINGLE_OK);
    assert_int_equal(count, 7);
    static const char *const broken[] = {"7.5",
                                         "7.",
                                         "1e1",
                                         "101",
                                         "0",
                                         "-7",
                                         "+7",
                                         " 7",
                                         "7x",
                                         "0000000007",
                                         "18446744073709551623"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "\"%s\"; a whole number of 1 to 100", broken[i]);
        setenv("SHINGLE_TIMEOUT", broken[i], 1);
        assert_int_equal(sg_env_count("SHINGLE_TIMEOUT", 1, 100, 0, &count), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), wanted));
        assert_int_equal(count, 7);
    }
    unsetenv("SHINGLE_TIMEOUT");
    assert_int_equal(sg_env_count("SHINGLE_TIMEOUT", 1, 100, 0, &count), SHINGLE_OK);
    assert_int_equal(count, 0);
}

static void unknown_variables_are_found(void **state)
{
    (void)state;
    char text[200];
    assert_false(sg_env_unknown(0, text, sizeof text));
    setenv("SHINGLE_LOGFILE", "x", 1);
    setenv("SHINGLE_THREDS", "2", 1);
    bool log = false;
    bool threads = false;
    for (int i = 0; i < 2; i++) {
        assert_true(sg_env_unknown(i, text, sizeof text));
        log |= strstr(text, "SHINGLE_LOGFILE is") && strstr(text, "nearest is SHINGLE_LOG_FILE");
        threads |= strstr(text, "SHINGLE_THREDS is") && strstr(text, "nearest is SHINGLE_THREADS");
    }
    assert_true(log && threads);
    assert_false(sg_env_unknown(2, text, sizeof text));
    unsetenv("SHINGLE_LOGFILE");
    unsetenv("SHINGLE_THREDS");

    setenv("SHINGLE_WITH_A_NAME_THAT_IS_LONGER_THAN_ANY_NAME_IN_THE_TABLE", "", 1);
    assert_true(sg_env_unknown(0, text, sizeof text));
    unsetenv("SHINGLE_WITH_A_NAME_THAT_IS_LONGER_THAN_ANY_NAME_IN_THE_TABLE");
}

static void log_is_silent_unless_asked(void **state)
{
    (void)state;
    char text[4096];
    say("SHINGLE_TYPO=1", text, sizeof text);
    assert_string_equal(text, "");
}

static void log_has_levels(void **state)
{
    (void)state;
    static const struct {
        const char *level, *text;
    } cases[] = {
        {"error", "shingle error: rank 3 is?late\nshingle error: failed\n"},
        {"warn", "shingle error: rank 3 is?late\nshingle warn: slow link\nshingle error: failed\n"},
        {"info",
         "shingle error: rank 3 is?late\nshingle warn: slow link\nshingle info: chose ring\n"
         "shingle error: failed\n"},
        {"debug", "shingle error: rank 3 is?late\nshingle warn: slow link\n"
                  "shingle info: chose ring\nshingle debug: tile 7\nshingle error: failed\n"},
        {"none", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char settings[100];
        char text[4096];
        snprintf(settings, sizeof settings, "SHINGLE_LOG=%s", cases[i].level);
        say(settings, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void log_warns_of_misspelt_settings(void **state)
{
    (void)state;
    char text[4096];
    say("SHINGLE_LOG=warn SHINGLE_STRATEGIE=ring", text, sizeof text);
    assert_non_null(strstr(text, "shingle warn: SHINGLE_STRATEGIE is not a variable of shingle; "
                                 "nearest is SHINGLE_STRATEGY\n"));
    say("SHINGLE_LOG=verbose", text, sizeof text);
    assert_non_null(strstr(text, "SHINGLE_LOG is \"verbose\""));
    assert_non_null(strstr(text, "slow link"));
    assert_null(strstr(text, "chose ring"));
}

/* Whatever users wrote. */
static void settings_are_quoted_in_one_line(void **state)
{
    (void)state;
    char text[4096];
    say("SHINGLE_LOG=error SHINGLE_LOG_FILE=\"$(printf '/no/a\\nb\\033[31m')\"", text, sizeof text);
    assert_non_null(strstr(text, "shingle warn: SHINGLE_LOG_FILE \"/no/a?b?[31m\": No such file"));
    say("SHINGLE_LOG=warn \"$(printf 'SHINGLE_A\\nB\\033[31m')=1\"", text, sizeof text);
    assert_non_null(strstr(text, "shingle warn: SHINGLE_A?B?[31m is not a variable of shingle"));
}

/* A number that is refused is logged once. */
static void wrong_counts_are_logged_once(void **state)
{
    (void)state;
    char text[4096];
    say("SHINGLE_LOG=error SHINGLE_THREADS=1e2", text, sizeof text);
    assert_non_null(strstr(text,
                           "shingle error: SHINGLE_THREADS is \"1e2\"; a whole number of 1 to "
                           "1024 is possible\n"));
    assert_null(strstr(text, "a number of"));
}

static void log_goes_to_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/shingle-test-XXXXXX";
    char settings[200];
    char text[4096];
    char *written = NULL;
    size_t bytes = 0;
    close(mkstemp(path));
    snprintf(settings, sizeof settings, "SHINGLE_LOG=error SHINGLE_LOG_FILE=%s", path);
    say(settings, text, sizeof text);
    assert_string_equal(text, "");
    say(settings, text, sizeof text);
    assert_int_equal(sg_disk_read(path, 4096, &written, &bytes), SHINGLE_OK);
    assert_string_equal(written, "shingle error: rank 3 is?late\nshingle error: failed\n"
                                 "shingle error: rank 3 is?late\nshingle error: failed\n");
    free(written);
    unlink(path);

    say("SHINGLE_LOG=error SHINGLE_LOG_FILE=/no/such/folder/x", text, sizeof text);
    assert_non_null(strstr(text, "SHINGLE_LOG_FILE \"/no/such/folder/x\": No such file"));
    assert_non_null(strstr(text, "rank 3 is?late"));

    /* What a file does not take is told once. */
    say("SHINGLE_LOG=debug SHINGLE_LOG_FILE=/dev/full", text, sizeof text);
    assert_string_equal(text, "shingle warn: SHINGLE_LOG_FILE \"/dev/full\": No space left on "
                              "device; lines of the log are lost\n");

    /* A pipe that nobody reads is not waited for. */
    assert_int_equal(mkfifo(path, 0600), 0);
    say(settings, text, sizeof text);
    assert_non_null(strstr(text, "logging to stderr"));
    unlink(path);
}

static int clean(void **state)
{
    (void)state;
    shingle_env_entry entry;
    for (int i = 0; shingle_env(i, &entry) == SHINGLE_OK; i++) unsetenv(entry.name);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "child") == 0) return child();
    self = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_complete),
        cmocka_unit_test(numbers_are_decimal),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(unknown_variables_are_found),
        cmocka_unit_test(log_is_silent_unless_asked),
        cmocka_unit_test(log_has_levels),
        cmocka_unit_test(log_warns_of_misspelt_settings),
        cmocka_unit_test(settings_are_quoted_in_one_line),
        cmocka_unit_test(wrong_counts_are_logged_once),
        cmocka_unit_test(log_goes_to_a_file),
    };
    return cmocka_run_group_tests_name("env", tests, clean, NULL);
}
