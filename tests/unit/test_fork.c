/* Tests of children that are forked whatever the threads of their parent are about: a group of
 * their own works. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/micro.h"
#include "shingle.h"

#ifdef __SANITIZE_THREAD__ /* which allows a child no threads */
int main(void)
{
    return 77;
}
#else

enum { SIDE = 64, CHILDREN = 24, RUNS = 20 };

static float a[SIDE * SIDE], b[SIDE * SIDE];

/* In a child: a group of its own runs. */
static bool runs_alone(void)
{
    static float c[SIDE * SIDE];
    const shingle_config config = {.timeout_seconds = 5};
    shingle_comm *comm[1];
    shingle_plan *plan = NULL;
    if (shingle_open(1, &config, comm) != SHINGLE_OK) return false;
    if (shingle_plan_create(comm[0], "gemm:f32:64x64x64:r1", NULL, &plan) != SHINGLE_OK)
        return false;
    for (int i = 0; i < RUNS; i++)
        if (shingle_run(plan, a, b, c, NULL) != SHINGLE_OK ||
            shingle_sync(comm[0], 5) != SHINGLE_OK || c[SIDE] < SIDE || c[SIDE] > SIDE)
            return false;
    return shingle_close(1, comm) == SHINGLE_OK;
}

static atomic_bool enough;

/* Multiplies blocks of ever other shapes; the engine may make code for each. */
static void *multiply_all_shapes(void *of)
{
    static float c[SIDE * SIDE];
    (void)of;
    for (int i = 0; !atomic_load(&enough); i++) {
        const sg_micro m = {.a = a,
                            .b = b,
                            .c = c,
                            .a_stride = SIDE,
                            .b_stride = SIDE,
                            .c_stride = SIDE,
                            .rows = 12 + i % 40,
                            .cols = 17 + i / 40 % 40,
                            .k = 1 + i / 1600 % SIDE};
        sg_micro_engine()->multiply(&m);
    }
    return NULL;
}

/* LIBXSMM has locks of its own, while it starts and while it makes code. */
static void children_multiply(void **state)
{
    (void)state;
    pthread_t thread;
    for (int i = 0; i < SIDE * SIDE; i++) a[i] = b[i] = 1;
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, multiply_all_shapes, NULL), 0);
    int failed = 0;
    for (int i = 0; i < CHILDREN; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10); /* who waits for a thread that it has not is killed */
            _exit(runs_alone() ? 0 : 1);
        }
        int status = 0;
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
