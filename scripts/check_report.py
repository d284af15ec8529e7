#!/usr/bin/env python3
"""Recomputes every number in the tables of a report from the metrics.jsonl of its runs, and compares.

    scripts/check_report.py DIR        DIR holds report.html, tables/ and the runs

Shares no code with the program that made the report. Needs Python 3.11 and nothing else.
"""
import csv
import html.parser
import json
import math
import pathlib
import statistics
import sys
import tomllib


class Tables(html.parser.HTMLParser):
    """The tables of a page by id: rows of cells by the column's key."""

    def __init__(self):
        super().__init__()
        self.tables, self.keys, self.cell, self.table = {}, [], None, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            self.table, self.keys = [], []
            self.tables[attributes["id"]] = self.table
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.cell = ""
            if "data-key" in attributes:
                self.keys.append(attributes["data-key"])

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.row.append(self.cell)
            self.cell = None
        elif tag == "thead":
            self.table.clear()
        elif tag == "tr":
            self.table.append(dict(zip(self.keys, self.row, strict=True)))


def runs_of(directory):
    """Finished runs: their configuration and metrics."""
    for config in sorted(directory.rglob("config.toml")):
        if (config.parent / "summary.json").exists():
            rows = [json.loads(line) for line in (config.parent / "metrics.jsonl").read_text().splitlines()]
            yield tomllib.loads(config.read_text()), rows


TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "walker2d": "Walker2D", "toy": "1D regression"}
OTHERS = {"curve": "toy", "digits": "drawn-digits", "walks": "drawn-walks", "npy": "recorded-sequences"}


def experiment(config):
    data = config["data"]
    return data.get("stands_in_for", OTHERS.get(data["name"], data["name"]))


def title(config):
    model = {"first-order": "SDE-BNN", "nesterov": "Nesterov-SDEBNN"}[config["model"]["dynamics"]["kind"]]
    return f"{model}, {'fixed' if config['model']['solver']['controller'] == 'fixed' else 'adaptive'}"


def auc(rows):
    curve = [row["test_accuracy"] for row in rows]
    return curve[0] if len(curve) == 1 else math.fsum((a + b) / 2 for a, b in zip(curve, curve[1:])) / (len(curve) - 1)


def from_bins(rows):
    """Accuracy and calibration error, from the reliability diagram."""
    bins = rows[-1]["final_reliability"]
    count = sum(b["count"] for b in bins)
    accuracy = math.fsum(b["count"] * b["accuracy"] for b in bins) / count
    return accuracy, math.fsum(b["count"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / count


def last(key, factor=1.0):
    return lambda config, rows: factor * rows[-1]["final_" + key]


IMAGES = {
    "accuracy": (lambda c, rows: 100 * from_bins(rows)[0], 2),
    "auc": (lambda c, rows: 100 * auc(rows), 2),
    "nll": (last("nll"), 4),
    "brier": (last("brier"), 4),
    "ece": (lambda c, rows: from_bins(rows)[1], 4),
    "nfe_drift": (last("nfe_drift"), 1),
}
SEQUENCES = {
    "mse": (last("mse"), 4),
    "no_change": (lambda c, rows: rows[-1]["test_no_change"], 4),
    "train_nfe_drift": (lambda c, rows: rows[-1]["nfe_drift"], 1),
    "nfe_drift": (last("nfe_drift"), 1),
    "nfe_drift_per_sequence": (lambda c, rows: c["data"]["window"] * rows[-1]["final_nfe_drift"], 0),
}
TOY = {
    "rmse": (last("rmse"), 4),
    "nll": (last("nll"), 3),
    "coverage95": (last("coverage95", 100), 1),
    "band_data": (last("band_data"), 3),
    "band_gap": (last("band_gap"), 3),
    "nfe_drift": (lambda c, rows: rows[-1]["nfe_drift"], 1),
}


def solves(config):
    return config["data"].get("window", 1)


COST = {
    "parameters": (last("parameters"), 0),
    "evaluations": (lambda c, rows: solves(c) * rows[-1]["final_nfe_drift"], 1),
    "drift_mflop": (last("drift_gflop", 1e3), 4),
    "prediction_mflop": (lambda c, r: 1e3 * solves(c) * r[-1]["final_nfe_drift"] * r[-1]["final_drift_gflop"], 3),
    "prediction_ms": (last("prediction_ms"), 3),
    "peak_memory_mib": (last("peak_memory_mib"), 0),
    "minutes": (last("seconds", 1 / 60), 1),
}


def main():
    directory = pathlib.Path(sys.argv[1])
    page = Tables()
    page.feed((directory / "report.html").read_text())
    groups = {}
    for config, rows in runs_of(directory):
        common = json.dumps({**config, "seed": 0}, sort_keys=True, default=str)
        groups.setdefault((experiment(config), title(config), common), []).append((config, rows))
    checked, wrong = 0, []

    def check(table, name, runs, columns):
        nonlocal checked
        shown = [row for row in page.tables[table] if row["model"] == name]
        with open(directory / "tables" / f"{table}.csv", newline="") as file:
            stored = [row for row in csv.DictReader(file) if row["model"] == name]
        if len(shown) != 1 or len(stored) != 1:
            wrong.append(f"{table}: {len(shown)} and {len(stored)} rows of {name}")
            return
        for key, (number, decimals) in columns.items():
            numbers = [number(config, rows) for config, rows in runs]
            mean = statistics.fmean(numbers)
            std = statistics.stdev(numbers) if len(numbers) > 1 else None
            text = f"{mean:.{decimals}f}" + (f" ± {std:.{decimals}f}" if std is not None else "")
            found = float(stored[0][key])
            checked += 1
            if not math.isclose(found, mean, rel_tol=1e-9, abs_tol=1e-12):
                wrong.append(f"{table}.csv, {name}, {key}: {found}, recomputed {mean}")
            # The last digit shown may fall on either side of a half.
            shown_mean = float(shown[0][key].split(" ")[0])
            if abs(shown_mean - mean) > 0.5000001 * 10**-decimals or (" ± " in shown[0][key]) != (" ± " in text):
                wrong.append(f"{table}, {name}, {key}: {shown[0][key]}, recomputed {text}")
            if std is not None:
                if not math.isclose(float(stored[0][key + "_std"]), std, rel_tol=1e-6, abs_tol=1e-9):
                    wrong.append(f"{table}.csv, {name}, {key}_std: {stored[0][key + '_std']}, recomputed {std}")
                if abs(float(shown[0][key].split(" ± ")[1]) - std) > 0.5000001 * 10**-decimals + 1e-9:
                    wrong.append(f"{table}, {name}, {key}: {shown[0][key]}, recomputed {text}")

    for (which, name, _), runs in groups.items():
        columns = SEQUENCES if "window" in runs[0][0]["data"] else TOY if which == "toy" else IMAGES
        check(f"{which}-results", name, runs, columns)
        seeds = [row["seeds"] for row in page.tables[f"{which}-results"] if row["model"] == name]
        if seeds != [str(len(runs))]:
            wrong.append(f"{which}-results, {name}, seeds: {seeds}, recomputed {len(runs)}")
        checked += 1
        check("cost", f"{TITLES.get(which, which.replace('-', ' '))}: {name}", runs, COST)
    rows = sum(len(rows) for name, rows in page.tables.items() if name.endswith("-results"))
    if rows != len(groups):
        wrong.append(f"{rows} rows of results, {len(groups)} groups of runs")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{checked} numbers recomputed, {len(wrong)} wrong")
    sys.exit(bool(wrong) or checked == 0)


main()
