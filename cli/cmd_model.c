/* cmd_model.c -- `shingle model`: every tensor-parallel product of a model's layer, planned, run
 * and compared, from the config.json that the model is published with. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "config.h"
#include "group.h"
#include "out.h"
#include "report.h"

typedef struct request {
    const char *path, *pass, *type;
    config_options config;
    group_options where;
    report_options how;
    bool plan_only;
} request;

/* A layer: sums over its products, each counted in the share of the layers that have it. */
typedef struct layer {
    double gemm_us, coll_us, serial_us, ours_us, predicted_us, bound_us;
    double could_hide_us, hid_us; /* only products that can hide something */
    bool hides;                   /* any of them is not serial */
    int64_t wrong;
} layer;

static double hidden_of(const layer *sum)
{
    return sum->hides ? sum->hid_us / sum->could_hide_us : (double)NAN;
}

static void add_up(const config_model *model, const shingle_bench_result *result, layer *sum)
{
    memset(sum, 0, sizeof *sum);
    for (int i = 0; i < model->products; i++) {
        const shingle_bench_result *const r = &result[i];
        const double share = (double)model->product[i].layers / (double)model->layers;
        sum->gemm_us += share * r->gemm_us;
        sum->coll_us += share * r->coll_us;
        sum->serial_us += share * (r->serial_us > 0 ? r->serial_us : (double)NAN);
        sum->ours_us += share * r->overlapped_us;
        sum->predicted_us += share * r->predicted_us;
        sum->bound_us += share * report_bound(r);
        sum->wrong += r->wrong;
        if (!report_can_hide(r->gemm_us, r->coll_us)) continue;
        sum->could_hide_us += share * fmin(r->gemm_us, r->coll_us);
        /* What serial leaves out of the sum of both is noise. */
        if (report_is_serial(r->strategy)) continue;
        sum->hides = true;
        sum->hid_us += share * (r->gemm_us + r->coll_us - r->overlapped_us);
    }
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_model(const request *q, const config_model *model)
{
    printf("%s%s%s\n%s\n", out_on(OUT_HEAD), q->path, out_off(), model->summary);
    printf("%lld rank%s, %lld token%s, %s pass%s%s\n", (long long)q->config.ranks,
           q->config.ranks == 1 ? "" : "s", (long long)q->config.tokens,
           q->config.tokens == 1 ? "" : "s", q->pass, q->config.all_reduce ? ", all-reduced" : "",
           q->plan_only ? "; planned only, nothing runs" : "");
}

static void print_notes(const config_model *model)
{
    for (int i = 0; i < model->notes; i++) out_wrap(4, "not used: %s", model->note[i]);
}

/* Adds the product's name and "512x1536x4096" of its problem. */
static void add_name(out_table *table, const config_product *product)
{
    const char *at = product->problem;
    for (int colons = 0; colons < 2 && *at != '\0'; at++) colons += *at == ':';
    out_table_add(table, "%s", product->name);
    out_table_add(table, "%.*s", (int)strcspn(at, ":"), at);
}

static bool has_shares(const config_model *model)
{
    for (int i = 0; i < model->products; i++)
        if (model->product[i].layers != model->layers) return true;
    return false;
}

/* The whole plan of a product, and how many layers have it if not all do. */
static void print_plan(const config_model *model, int index, const char *strategy)
{
    const config_product *const product = &model->product[index];
    printf("%-12s %s %s", product->name, product->problem, strategy);
    if (product->layers != model->layers)
        printf(" (%lld of %lld layers)", (long long)product->layers, (long long)model->layers);
    putchar('\n');
}

static void print_results(const config_model *model, const shingle_bench_result *result)
{
    layer sum;
    add_up(model, result, &sum);
    const out_unit unit = out_unit_for(fmax(sum.serial_us, sum.ours_us) / model->products);
    out_table *const table =
        out_table_make("<product <m_x_n_x_k " REPORT_HEADS " >bound >hidden >speedup <strategy");
    for (int i = 0; i < model->products; i++) {
        const shingle_bench_result *const r = &result[i];
        add_name(table, &model->product[i]);
        report_times(table, unit, r);
        out_table_time(table, unit, report_bound(r));
        out_table_share(table, report_hidden(r));
        out_table_factor(table, report_speedup(r));
        report_name(table, r->strategy);
        if (r->wrong > 0) out_table_tone(table, OUT_BAD);
    }
    out_table_rule(table);
    out_table_add(table, "layer");
    out_table_add(table, "%s", has_shares(model) ? "mean of all" : "");
    const shingle_bench_result whole = {.gemm_us = sum.gemm_us,
                                        .coll_us = sum.coll_us,
                                        .serial_us = sum.serial_us,
                                        .overlapped_us = sum.ours_us,
                                        .predicted_us = sum.predicted_us};
    report_times(table, unit, &whole);
    out_table_time(table, unit, sum.bound_us);
    out_table_share(table, hidden_of(&sum));
    out_table_factor(table, sum.serial_us / sum.ours_us);
    out_table_add(table, "%s", "");
    report_legend("", unit);
    putchar('\n');
    out_table_print(table, "");
    out_table_free(table);
    putchar('\n');
    for (int i = 0; i < model->products; i++) print_plan(model, i, result[i].strategy);
    if (sum.wrong == 0)
        printf("\n%severy element right%s\n", out_on(OUT_GOOD), out_off());
    else
        printf("\n%s%lld elements WRONG%s\n", out_on(OUT_BAD), (long long)sum.wrong, out_off());
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *model_json(const request *q, const config_model *model)
{
    json_t *const notes = json_array();
    for (int i = 0; i < model->notes; i++)
        json_array_append_new(notes, json_string(model->note[i]));
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:s, s:o}", "version", shingle_version(),
                     "config", out_json_text(q->path), "family", model->family, "layers",
                     (json_int_t)model->layers, "tp", (json_int_t)q->config.ranks, "tokens",
                     (json_int_t)q->config.tokens, "pass", q->pass, "not_used", notes);
}

static void name_json(json_t *object, const config_product *product)
{
    json_object_set_new(object, "product", json_string(product->name));
    json_object_set_new(object, "layers", json_integer((json_int_t)product->layers));
    json_object_set_new(object, "widths", json_string(product->widths));
}

static void print_json(const request *q, const group *g, const config_model *model,
                       const shingle_bench_result *result)
{
    layer sum;
    add_up(model, result, &sum);
    json_t *const list = json_array();
    for (int i = 0; i < model->products; i++) {
        json_t *const object = report_json(model->product[i].problem, &result[i]);
        name_json(object, &model->product[i]);
        json_array_append_new(list, object);
    }
    json_t *const object = model_json(q, model);
    json_object_set_new(object, "group", report_group_json(g, &q->where));
    json_object_set_new(object, "products", list);
    json_object_set_new(
        object, "layer",
        json_pack("{s:f, s:f, s:o, s:f, s:f, s:f, s:o, s:o, s:I}", "gemm_us", sum.gemm_us,
                  "coll_us", sum.coll_us, "serial_us", out_json_real(sum.serial_us),
                  "overlapped_us", sum.ours_us, "predicted_us", sum.predicted_us, "bound_us",
                  sum.bound_us, "hidden", out_json_real(hidden_of(&sum)), "speedup",
                  out_json_real(sum.serial_us / sum.ours_us), "wrong", (json_int_t)sum.wrong));
    out_json(object);
}

/* ---- Running --------------------------------------------------------------------------------- */

static int run_products(const request *q, const group *g, const config_model *model,
                        shingle_bench_result *result)
{
    int code = CLI_OK;
    const char *problem[CONFIG_PRODUCTS];
    for (int i = 0; i < model->products; i++) problem[i] = model->product[i].problem;
    report_budget budget = report_plan(&q->how, problem, model->products);
    for (int i = 0; i < model->products && code == CLI_OK; i++) {
        out_progress("%d of %d: %s, %s", i + 1, model->products, model->product[i].name,
                     model->product[i].problem);
        char where[32];
        snprintf(where, sizeof where, "%s: ", model->product[i].name);
        const report_case what = {.where = where,
                                  .problem = problem[i],
                                  .seconds = report_share(&budget, &q->how, problem[i])};
        code = report_measure(g, &what, &q->how, &result[i]);
    }
    out_progress_end();
    return code;
}

static int run_model(const request *q, const config_model *model, bool json)
{
    group g = {.ranks = 0};
    shingle_bench_result result[CONFIG_PRODUCTS];
    int code = group_open(q->config.ranks, &q->where, &g);
    if (code == CLI_OK && !json) {
        print_model(q, model);
        report_group("", &g, &q->where, model->type);
        out_flush();
    }
    if (code == CLI_OK) code = run_products(q, &g, model, result);
    int64_t wrong = 0;
    for (int i = 0; i < model->products && code == CLI_OK; i++) wrong += result[i].wrong;
    if (code == CLI_OK && json) print_json(q, &g, model, result);
    if (code == CLI_OK && !json) {
        print_results(model, result);
        print_notes(model);
    }
    group_close(&g);
    return code == CLI_OK && wrong > 0 ? CLI_WRONG : code;
}

/* ---- Planning only --------------------------------------------------------------------------- */

typedef struct forecast {
    char strategy[96];
    double serial_us, ours_us;
} forecast;

static int plan_product(const request *q, const char *problem, const shingle_machine *machine,
                        forecast *f)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.choose = q->how.choose,
                                          .reproducible = q->how.reproducible};
    const shingle_status status = shingle_plan_for(problem, machine, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c;
        if (shingle_plan_candidate(plan, i, &c) != SHINGLE_OK || c.declined != NULL) continue;
        if (report_is_serial(c.strategy) && (f->serial_us == 0 || c.predicted_us < f->serial_us))
            f->serial_us = c.predicted_us;
        if (!c.chosen) continue;
        f->ours_us = c.predicted_us;
        snprintf(f->strategy, sizeof f->strategy, "%s", c.strategy);
    }
    const int code = drawing_predict(q->how.drawing, plan, machine);
    shingle_plan_free(plan);
    return code;
}

/* The layer: as add_up has it. */
static forecast sum_of(const config_model *model, const forecast *f)
{
    forecast sum = {.strategy = ""};
    for (int i = 0; i < model->products; i++) {
        const double share = (double)model->product[i].layers / (double)model->layers;
        sum.serial_us += share * f[i].serial_us;
        sum.ours_us += share * f[i].ours_us;
    }
    return sum;
}

static void print_forecast(const config_model *model, const forecast *f)
{
    const forecast sum = sum_of(model, f);
    const double serial = sum.serial_us;
    const double ours = sum.ours_us;
    const out_unit unit = out_unit_for(serial / model->products);
    printf("predicted times in %s\n\n", unit.name);
    out_table *const table =
        out_table_make("<product <m_x_n_x_k <widths_of_a_rank >serial >ours >speedup <strategy");
    for (int i = 0; i < model->products; i++) {
        add_name(table, &model->product[i]);
        out_table_add(table, "%s", model->product[i].widths);
        out_table_time(table, unit, f[i].serial_us);
        out_table_time(table, unit, f[i].ours_us);
        out_table_factor(table, f[i].serial_us / f[i].ours_us);
        report_name(table, f[i].strategy);
    }
    out_table_rule(table);
    out_table_add(table, "layer");
    out_table_add(table, "%s", has_shares(model) ? "mean of all" : "");
    out_table_add(table, "%s", "");
    out_table_time(table, unit, serial);
    out_table_time(table, unit, ours);
    out_table_factor(table, serial / ours);
    out_table_add(table, "%s", "");
    out_table_print(table, "");
    out_table_free(table);
    putchar('\n');
    for (int i = 0; i < model->products; i++) print_plan(model, i, f[i].strategy);
    print_notes(model);
}

static void print_forecast_json(const request *q, const char *machine, const config_model *model,
                                const forecast *f)
{
    json_t *const list = json_array();
    for (int i = 0; i < model->products; i++) {
        json_t *const object =
            json_pack("{s:s, s:s, s:f, s:f}", "problem", model->product[i].problem, "strategy",
                      f[i].strategy, "serial_us", f[i].serial_us, "predicted_us", f[i].ours_us);
        name_json(object, &model->product[i]);
        json_array_append_new(list, object);
    }
    json_t *const object = model_json(q, model);
    json_object_set_new(object, "machine", out_json_text(machine));
    json_object_set_new(object, "products", list);
    const forecast sum = sum_of(model, f);
    json_object_set_new(object, "layer",
                        json_pack("{s:f, s:f, s:o}", "serial_us", sum.serial_us, "predicted_us",
                                  sum.ours_us, "speedup",
                                  out_json_real(sum.serial_us / sum.ours_us)));
    out_json(object);
}

static int plan_model(const request *q, const config_model *model, bool json)
{
    forecast f[CONFIG_PRODUCTS];
    memset(f, 0, sizeof f);
    const char *const name = q->where.as ? q->where.as : "h200x4";
    shingle_machine *machine = NULL;
    int code = group_machine(name, &machine);
    if (code == CLI_OK) code = group_reach("as", name, machine, q->config.ranks);
    for (int i = 0; i < model->products && code == CLI_OK; i++) {
        out_progress("planning %d of %d: %s", i + 1, model->products, model->product[i].problem);
        code = plan_product(q, model->product[i].problem, machine, &f[i]);
    }
    out_progress_end();
    if (code == CLI_OK && json) print_forecast_json(q, name, model, f);
    if (code == CLI_OK && !json) {
        print_model(q, model);
        printf("for %s; ", name);
        print_forecast(model, f);
    }
    shingle_machine_free(machine);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* What --tp takes. */
#define RANKS "1 to 64 (with --plan 1024)"

static int check_words(request *q)
{
    if (!config_pass_of(q->pass, &q->config.pass))
        return out_error(CLI_USAGE, "--pass is \"%s\"; forward, backward or train is accepted",
                         q->pass);
    const char *const type = q->config.type;
    if (type != NULL && strcmp(type, "f32") != 0 && strcmp(type, "bf16") != 0 &&
        strcmp(type, "f16") != 0)
        return out_error(CLI_USAGE, "--type is \"%s\"; f32, bf16 or f16 is accepted", type);
    if (q->config.ranks == 0)
        return out_error(CLI_USAGE, "--tp is missing: the number of ranks, " RANKS);
    if (q->config.tokens == 0)
        return out_error(CLI_USAGE,
                         "--tokens is missing: how many rows go through the layer, such as 512");
    if (q->config.ranks > GROUP_RANKS && !q->plan_only)
        return out_error(CLI_USAGE, "--tp is \"%lld\"; %s is accepted", (long long)q->config.ranks,
                         RANKS);
    if (report_check(&q->how) != CLI_OK) return CLI_USAGE;
    if (q->plan_only && q->how.choose != NULL && strcmp(q->how.choose, "measure") == 0)
        return out_error(CLI_USAGE,
                         "--choose measure times plans on ranks of this computer; with --plan none "
                         "run: leave out --plan");
    return CLI_OK;
}

static int model_of(request *q, bool json)
{
    char path[GROUP_PATH];
    char error[FILE_ERROR];
    config_model model;
    int code = check_words(q);
    if (code != CLI_OK) return code;
    if (shingle_file_find(SHINGLE_MODELS, q->path, path, sizeof path) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%s", shingle_error());
    if (!config_read(path, &q->config, &model, error)) return out_error(CLI_USAGE, "%s", error);
    code = drawing_check(q->how.drawing, (q->plan_only ? 1 : 2) * model.products);
    if (code != CLI_OK) return code;
    return q->plan_only ? plan_model(q, &model, json) : run_model(q, &model, json);
}

/* What is about runs means nothing where none is made. */
static void mark_runs(args_option *list, int count)
{
    static const char *const of_runs[] = {"measure", "seconds", "iters",      "warmup",
                                          "seed",    "threads", "rows-scale", "backend"};
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof of_runs / sizeof *of_runs; j++)
            if (strcmp(list[i].name, of_runs[j]) == 0) list[i].without = "plan";
}

static const char notes[] =
    "CONFIG.json is a name in models/, or the path of a model's own, unmodified, from the\n"
    "Hugging Face hub: Llama, Mistral, Qwen 2 and 3, GPT-NeoX, Gemma 1 to 3, Phi-3,\n"
    "Mixtral, DeepSeek V2 and V3.\n"
    "Routed experts are dealt over the ranks and reached by all-to-all, but with --ar,\n"
    "where they are left out.  What could not be used is named last.\n";

int cmd_model(int argc, char **argv)
{
    request q = {.pass = "forward"};
    drawing_file drawing = {.path = NULL};
    enum { OWN = 8 };
    args_option options[OWN + REPORT_OPTIONS] = {
        {.name = "tp",
         .letter = 'p',
         .kind = ARGS_INT,
         .value = &q.config.ranks,
         .unit = "P",
         .brief = "ranks that share a layer",
         .least = 1,
         .most = 1024,
         .accepted = RANKS},
        {.name = "tokens",
         .letter = 't',
         .kind = ARGS_INT,
         .value = &q.config.tokens,
         .unit = "T",
         .brief = "rows that go through the layer",
         .least = 1,
         .most = 2147483647},
        {.name = "plan",
         .kind = ARGS_FLAG,
         .value = &q.plan_only,
         .brief = "predict for --as (h200x4) and run nothing: any size, up to 1024 ranks"},
        {.name = "pass",
         .kind = ARGS_TEXT,
         .value = &q.pass,
         .unit = "WHICH",
         .brief = "forward, backward for the gradients, or train for both (forward)"},
        {.name = "ar",
         .kind = ARGS_FLAG,
         .value = &q.config.all_reduce,
         .brief = "all-reduce instead of reduce-scatter and gather"},
        {.name = "apart",
         .kind = ARGS_FLAG,
         .value = &q.config.apart,
         .brief = "q k v, and gate up, as weights of their own that share one gather"},
        {.name = "type",
         .kind = ARGS_TEXT,
         .value = &q.config.type,
         .unit = "TYPE",
         .brief = "f32, bf16 or f16 instead of the file's"},
        drawing_option(&drawing),
    };
    report_add_options(&q.where, &q.how, options + OWN);
    mark_runs(options + OWN, REPORT_OPTIONS);
    q.how.drawing = &drawing;
    const args_command command = {
        .name = "model",
        .brief = "The tensor-parallel products of a model's layer: planned, run, compared.",
        .usage = "CONFIG.json --tp P --tokens T [options]",
        .examples = "  shingle model llama-3-8b --tp 4 --tokens 512 --as h200x4\n"
                    "  shingle model llama-3-70b --tp 8 --tokens 8192 --plan --as h100x8\n"
                    "  shingle model gpt-neox-20b --tp 4 --tokens 128 --type f32 --ar\n",
        .notes = notes,
        .option = options,
        .options = OWN + REPORT_OPTIONS,
        .least_words = 1,
        .most_words = 1,
        .reads_words = true,
        .named_words = ARGS_MODEL,
        .words = "one CONFIG.json"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        q.path = a.word[0];
        code = model_of(&q, a.json);
        code = drawing_end(&drawing, code, a.json);
    }
    args_free(&a);
    return code;
}
