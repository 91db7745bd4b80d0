"""Figures of the documents, recomputed: figures.py FOLDER-OF-PROGRAMS.  Tables of products, and means over them, are
compared with the last file of results cited above them, what bench_predict, bench_choose and `shingle paper` print with
what they print now, lists with the lists.  Prints FILE:LINE of each figure that differs.  Exit status 77: no command."""
import fnmatch
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, "scripts")
import gpu_table

programs = sys.argv[1]
wrong = []
compared = 0


def compare(place, name, said, is_):
    global compared
    compared += 1
    if said != is_:
        wrong.append(f"{place}: {name} is {is_}, the document says {said}")


def rounded(value, said):
    """VALUE with as many decimals as SAID has; SAID itself if VALUE lies between two of that many."""
    decimals = len(said.partition(".")[2])
    near = abs(value - float(said)) <= 0.5 * 10**-decimals + 1e-9
    return said if near else f"{value:.{decimals}f}"


# ---- Tables of products: the columns that are known, from the file cited last ------------------------------

cited = re.compile(r"results/gpu/\w+\.json")
product = re.compile(r"^\| (?:`(\w+)` (?:\| )?)?(\d+) ?x ?(\d+) ?x ?(\d+) \|")


def times_of(row, strategy):
    """Of all plans of STRATEGY that the row has: chosen by measuring, predicted, beside these."""
    plans = row["strategies"] + [row["ours"], row["prediction"]]
    return [p["us"] for p in plans if p.get("us") and p["strategy"].partition("{")[0] == strategy]


def cell(row, column):
    peers, ours = row["peers"], row["prediction"]["us"]
    one = {"gemm": row["gemm_us"], "coll": row["coll_us"], "serial": row["serial_us"], "ours": ours,
           "default plan": ours, "peer": row["best_peer_us"], "best peer": row["best_peer_us"],
           "serial / ours": row["serial_us"] / ours, "peer / ours": row["best_peer_us"] / ours,
           "hidden": 100 * (row["gemm_us"] + row["coll_us"] - ours) / min(row["gemm_us"], row["coll_us"])}
    if column in one:
        return one[column]
    kinds = {"product + NCCL": "serial", "one-shot": "one_shot", "two-shot": "two_shot"}
    if column in kinds:
        times = [us for peer, us in peers.items() if peer.startswith(kinds[column])]
        return min(times + [row["serial_us"]] * (column == "product + NCCL"))
    times = times_of(row, column)
    return min(times) if times else None


def check_tables(path):
    results, head = {}, []
    for number, line in enumerate(open(path), 1):
        for name in cited.findall(line):
            # A list of files (v1.json to v3.json) may be cited below what a table is made from.
            data = json.load(open(name)) if os.path.exists(name) else None
            if data is None:
                wrong.append(f"{path}:{number}: there is no {name}")
            elif all("prediction" in row and "peers" in row for row in data.get("results", [{}])):
                results = {(r["op"], r["m"], r["n"], r["k"]): r for r in data["results"]}
        if not line.startswith("|"):
            head = []
            continue
        head = head or [c.strip().strip("`") for c in line.strip("|\n ").split("|")]
        found = product.match(line)
        if not found or "gemm" not in head:
            continue
        row = results.get((found[1] or "gemm_ar", *map(int, found.groups()[1:])))
        if row is None:
            compare(f"{path}:{number}", "product", " x ".join(found.groups()[1:]), "not in the file")
            continue
        for column, text in zip(head, line.strip("|\n ").split("|")):
            text = text.strip("*%` ").partition(" ")[0].strip("*")
            if column == "chosen":
                compare(f"{path}:{number}", column, text, row["prediction"]["strategy"].partition("{")[0])
            elif column not in ("product", "m x n x k") and re.fullmatch(r"-?[\d.]+", text):
                value = cell(row, column)
                compare(f"{path}:{number}", column, text, rounded(value, text) if value else "not there")


# ---- The table of the processor: from the record that is cited last -----------------------------------------

layer_row = re.compile(r"^\| (\w+) \| (\d+)x(\d+)x(\d+) \|")


def check_layer(path):
    products = {}
    for number, line in enumerate(open(path), 1):
        for name in re.findall(r"results/cpu/\w+\.json", line):
            products = {p["product"]: p for p in json.load(open(name)).get("demo", {}).get("products", [])} or products
        found = layer_row.match(line)
        if not found:
            continue
        row = products.get(found[1], {})
        is_ = [row.get(key, 0) * unit for key, unit in (("gemm_us", 1e-3), ("coll_us", 1e-3), ("serial_us", 1e-3),
                                                        ("overlapped_us", 1e-3), ("hidden", 100), ("speedup", 1))]
        cells = [c.strip("`% ") for c in line.strip("|\n ").split("|")]
        compare(f"{path}:{number}", "m x n x k", cells[1], row.get("problem", "::nothing").split(":")[2])
        for said, value in zip(cells[2:8], is_):
            compare(f"{path}:{number}", found[1], said, rounded(value, said))
        compare(f"{path}:{number}", "chosen", cells[8], row.get("strategy", "").partition("{")[0])


# ---- Sentences: means over the products of the file cited last ---------------------------------------------

number = r"(\d+(?:\.\d+)?)"
sentences = (
    (f"takes {number} times the longer of product and collective "
     f"\\(geometric mean; the best peer {number}, serial {number}\\)",
     ("ours", "peer", "serial")),
    (f"takes {number} times the bound \\(best peer {number}, serial {number}; \\S+\\)", ("ours", "peer", "serial")),
    (f"{number} times the bound (?:over all 36 )?\\(512 rows {number}, 2048 {number}, 8192 {number}, 16384 {number}; "
     f"gathers {number}, scatters {number}, all-reduces {number}\\)",
     ("ours", 512, 2048, 8192, 16384, "ag_gemm", "gemm_rs", "gemm_ar")),
)


def check_sentences(path):
    text = open(path).read()
    for pattern, names in sentences:
        for found in re.finditer(pattern.replace(" ", r"\s+"), text):
            files = [f for f in re.findall(r"results/gpu/table_\w+\.json", text[:found.end()]) if os.path.exists(f)]
            if not files:
                continue
            results = json.load(open(files[-1]))["results"]
            for name, said in zip(names, found.groups()):
                rows = [r for r in results if name in (r["m"], r["op"])] or results
                us = {"peer": lambda r: r["best_peer_us"], "serial": lambda r: r["serial_us"]}.get(
                    name, lambda r: r["prediction"]["us"])
                mean = statistics.geometric_mean(us(r) / r["bound_us"] for r in rows)
                compare(f"{path}:{text.count(chr(10), 0, found.start()) + 1}", name, said, rounded(mean, said))


# ---- What programs print ------------------------------------------------------------------------------------


def says(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed")
    return done.stdout


def lines_with(path, pattern):
    for number, line in enumerate(open(path), 1):
        for found in re.finditer(pattern, line):
            yield f"{path}:{number}", found


def check_papers():
    said = json.loads(says(programs + "/shingle", "paper", "all", "--json"))
    papers = {p["source"].partition(",")[0]: p for p in said["papers"]}
    papers["all"] = said
    path = "docs/papers.md"
    for place, f in lines_with(path, r"^\| (FLUX|FlashOverlap|CommFuse|FiCCO|all)\b.*?\| (\d+) \| (\d+) \((\S+) %\)"):
        paper = papers[f[1]]
        compare(place, "first-hand rows", f[2], str(paper["judged"]))
        compare(place, "as published", f[3], str(paper["agree"]))
        compare(place, "per cent", f[4], rounded(100 * paper["agree"] / paper["judged"], f[4]))


def check_predictions():
    at = r"^\| (\w+\.json) \|.*\| (\S+) % \| \d+: (\S+) % \| (\S+) % \| (\S+) % \|"
    for place, f in lines_with("docs/machine.md", at):
        gpus, kind = re.search(r"(\d)x(h\d+)_", f[1]).groups()
        out = says(programs + "/bench_predict", f"machines/{kind}x{gpus}.machine", "results/gpu/" + f[1])
        is_ = (re.search(r"^all +median error +(\S+) %", out, re.M)[1],
               re.search(r"chosen ones (\S+) %", out)[1],
               *re.search(r"(\S+) % slower than the best on average, (\S+) % at most", out).groups())
        for name, said, value in zip(("chosen", "others", "choice", "choice at most"), f.groups()[1:], is_):
            compare(place, name, said, value)


def check_reproducible():
    for place, f in lines_with("docs/reproducible.md", r"(\d+) of the 36 choices"):
        problems = re.findall(r"^\w\S*", open("bench/suites/h200x2.txt").read(), re.M)
        plan = [programs + "/shingle", "plan", "--json", "--machine", "h200x2"]
        same = sum(json.loads(says(*plan, p))["plan"] == json.loads(says(*plan, "--reproducible", p))["plan"]
                   for p in problems)
        compare(place, "choices that are the same", f[1], str(same))


def check_choosing():
    machines = sorted(f"machines/{f}" for f in os.listdir("machines"))
    out = {l.split()[0]: l.split() for l in says(programs + "/bench_choose", *machines).splitlines() if l[0] != "#"}
    at = r"^\| (\w\S+) \| (\d+) % \| (\d+) % \| (\S+) % \| (\d+) % \| (\S+) \| (\S+) \|"
    for place, f in lines_with("docs/tuning.md", at):
        for name, said, value in zip(("accuracy", "serial", "mean", "worst", "predict", "static"), f.groups()[1:],
                                     out[f[1]][2:]):
            compare(place, f"{f[1]} {name}", said, rounded(float(value.strip("%")), said))


def check_floors():
    """Means of what bench_floor measured: of all problems, of an operator, of so many rows; and what is hidden."""
    kinds = {"all": "", "gathers": "ag_gemm", "scatters": "gemm_rs", "all-reduces": "gemm_ar"}
    path = "docs/measuring.md"
    files = re.findall(r"results/gpu/floor_\w+\.json", open(path).read())
    of = r"^\| (all|gathers|scatters|all-reduces|\d+ rows|hidden)" + r" \| (\d\.\d+)" * 4 + r" \|$"
    for place, f in lines_with(path, of):
        for i, said in enumerate(f.groups()[1:]):
            values = []
            for row in json.load(open(files[i // 2]))["results"]:
                op, m = row["problem"].split(":")[0], row["problem"].split(":")[2].split("x")[0]
                us = row["chosen_us" if i % 2 else "floor_us"]
                coll = min(row["coll_us"], row.get("coll_in_windows_us", row["coll_us"]))
                if f[1] == "hidden" and int(m) >= 2048:
                    values.append((row["gemm_us"] + coll - us) / min(row["gemm_us"], coll))
                elif f[1] != "hidden" and (f[1] == m + " rows" or op.startswith(kinds.get(f[1], "no"))):
                    values.append(us / row["bound_us"])
            mean = statistics.median(values) if f[1] == "hidden" else statistics.geometric_mean(values)
            compare(place, f"{f[1]} {i}", said, rounded(mean, said))
    by = {"NCCL": lambda row: row["beside_us"], "copy": lambda row: row["engines_us"],
          "our": lambda row: next(iter(row["loose"].values())), "the": lambda row: row["chosen_us"]}
    for place, f in lines_with(path, r"^\| (NCCL|copy|our|the) [^|]*\| (\d\.\d+) \| (\d\.\d+) \|$"):
        for name, said in zip(files, f.groups()[1:]):
            rows = json.load(open(name))["results"]
            mean = statistics.geometric_mean(by[f[1]](row) / row["bound_us"] for row in rows)
            compare(place, f"by {f[1]}", said, rounded(mean, said))


def check_errors_of_plans():
    """Of a table's predictions: as its file has them, and as gpu_table.py sees them now."""
    path = "docs/measuring.md"
    said = (rf"(results/\S+) and\s+(results/\S+) the median error [^(]*\(each once, it is\s+{number} instead of {number} % "
            rf"on four, {number} as before on two\)[^(]*\(with it,\s+the choice is {number} instead of {number} % slower on two\)")
    for f in re.finditer(said, open(path).read()):
        tables = [json.load(open(name)) for name in f.groups()[:2]]
        four, two = (table["predictions"] for table in tables)
        four_now, two_now = (gpu_table.predictions(table["results"]) for table in tables)
        for figure, key, value in zip(f.groups()[2:], ("median_error",) * 3 + ("mean_regret",) * 2,
                                      (four_now, four, two_now, two_now, two)):
            compare(path, key, figure, rounded(100 * value[key], figure))
        compare(path, "median error on two, before", f[5], rounded(100 * two["median_error"], f[5]))


def check_mutants():
    lists = "".join(open("tests/unit/" + f).read() for f in os.listdir("tests/unit") if f.startswith("mutants"))
    for place, f in lines_with("docs/check.md", r"list of (\d+) kinds of schedule bugs"):
        compare(place, "kinds of mutants", f[1], str(lists.count("{.name = ")))


def check_values(path):
    """.json is one value, .jsonl one a line."""
    if not path.endswith((".json", ".jsonl")):
        return
    with open(path) as file:
        text = file.read()
    try:
        for value in text.splitlines() if path.endswith("l") else [text]:
            json.loads(value)
    except ValueError as error:
        wrong.append(f"{path}: {error}")


def check_list_of_results():
    """The first cells of the table in results/README.md name the newest of each family: NAME_v1, v2, OTHER_v1 to v3."""
    newest, listed, family = {}, {}, ""
    for folder in "cpu", "gpu", "lab":
        for name in sorted(os.listdir("results/" + folder)):
            check_values(f"results/{folder}/{name}")
            if f := re.match(r"(\w+)_v(\d+)\.", name):
                newest[f[1]] = max(newest.get(f[1], 0), int(f[2]))
    for place, f in lines_with("results/README.md", r"^\| ([^|]*_v\d[^|]*) \|"):
        for word in re.findall(r"[\w*]+_v\d+|\bv\d+", f[1]):
            name, _, number = word.rpartition("v")
            family = name.rstrip("_") or family
            listed[family] = max(listed.get(family, 0), int(number))
    for family, number in sorted(newest.items()):
        said = max((n for name, n in listed.items() if fnmatch.fnmatch(family, name)), default=0)
        compare("results/README.md", f"newest {family}", str(said), str(number))


if not os.path.exists(programs + "/shingle"):
    sys.exit(77)
for document in "README.md", "docs/strategies.md":
    check_tables(document)
    check_layer(document)
    check_sentences(document)
check_papers()
check_reproducible()
check_floors()
check_errors_of_plans()
check_mutants()
check_list_of_results()
least = 880  # figures there are: where fewer are found, a pattern does not fit a document any more
if os.path.exists(programs + "/bench_predict"):
    check_predictions()
    check_choosing()
    least = 980
if compared < least:
    wrong.append(f"{compared} figures found in the documents, at least {least} expected")
print(*wrong, f"{compared} figures compared, {len(wrong)} differ", sep="\n")
sys.exit(1 if wrong else 0)
