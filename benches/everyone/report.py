"""Tables of Markdown and a chart from a file of results.

    python benches/everyone report RESULTS [--markdown FILE] [--chart FILE]
"""

import argparse
import json
import statistics
from html import escape
from pathlib import Path

SUBJECT = "kiste"
TITLES = {
    "records": "records of 64 to 1,024 bytes",
    "10kB": "samples of 8 to 12 kB",
    "110kB": "samples of 110 kB",
    "arrays": "arrays of 224 × 224 × 3 float32",
}
# What is a time; of the others the rate is shown.
TIMES = ("first", "resume")
OPS = {
    "epoch": "a shuffled epoch",
    "device": "an epoch to the GPU",
    "scan": "reading all in order",
    "index": "reading by index",
    "key": "reading by key",
    "first": "opening and the first sample",
    "write": "writing",
    "resume": "resuming",
}


class Results:
    def __init__(self, path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.run = next(line for line in lines if line["kind"] == "run")
        self.results = [line for line in lines if line["kind"] == "result"]
        self.titles = {name: about["title"] for name, about in self.run["peers"].items()}
        self.workloads = [name for name in TITLES if any(each["workload"] == name for each in self.results)]
        self.states = list(dict.fromkeys(each["state"] for each in self.results if each["op"] != "write"))

    def of(self, peer, workload, op, state):
        wanted = (peer, workload, op, state)
        found = [each for each in self.results if wanted == tuple(each[k] for k in ("peer", "workload", "op", "state"))]
        return found if found and all(each.get("ok") for each in found) else []

    def value(self, *which):
        """Seconds for what is a time, samples per second else: the median of the rounds."""
        found = self.of(*which)
        if not found:
            return None
        seconds = statistics.median(each["seconds"] / each["items"] for each in found)
        return seconds if which[2] in TIMES else 1 / seconds

    def median(self, field, *which, each_item=False):
        found = [one[field] / (one["items"] if each_item else 1) for one in self.of(*which)]
        return statistics.median(found) if found else None

    def used(self, *which):
        """Microseconds of processors for a sample, and megabytes."""
        cpu, memory = self.median("cpu", *which, each_item=True), self.median("memory", *which)
        return cpu and cpu * 1e6, memory and memory / 1e6

    def better(self, peer, *which):
        """How many times as good as the subject."""
        ours, theirs = self.value(SUBJECT, *which), self.value(peer, *which)
        if not ours or not theirs:
            return None
        return ours / theirs if which[1] in TIMES else theirs / ours

    def peers(self, workload):
        """The best first, by the epoch."""
        names = [name for name, about in self.run["peers"].items() if workload in about["workloads"]]
        return sorted(names, key=lambda name: -(self.value(name, workload, "epoch", self.states[0]) or 0))

    def failures(self):
        for each in self.results:
            if not each.get("ok"):
                told = each.get("error", "the samples were not those that were written")
                yield each["peer"], each["workload"], each["op"], each["state"], told


def short(number):
    """Three digits, with k and M."""
    if number is None:
        return "–"
    for limit, divisor, unit in ((1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if number >= limit:
            return f"{number / divisor:.3g}{unit}"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.0f}"


def milliseconds(seconds):
    return "–" if seconds is None else short(seconds * 1e3)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(results, workload):
    states = results.states

    def each_state(op, shown=short):
        if op not in results.run["peers"][peer]["ops"]:
            return "no"
        return " / ".join(shown(results.value(peer, workload, op, state)) for state in states)

    head = ["", "epoch, samples/s", "kiste ÷ it", "CPU µs a sample", "memory, MB"]
    head += ["in order, samples/s", "by index", "by key", "first, ms", "write, samples/s", "on disk, MB", "resume, ms"]
    with_gpu = any(each["op"] == "device" for each in results.results)
    yield row(head + ["to the GPU"] * with_gpu)
    yield row(["---"] + ["---:"] * (len(head) - 1 + with_gpu))
    for peer in results.peers(workload):
        which = (peer, workload, "epoch", states[0])
        ratio = results.better(peer, *which[1:])
        cpu, memory = results.used(*which)
        disk = results.median("disk", peer, workload, "write", "warm")
        cells = [results.titles[peer], each_state("epoch"), short(1 / ratio) if ratio and peer != SUBJECT else ""]
        cells += [short(cpu), short(memory)]
        cells += [each_state(op) for op in ("scan", "index", "key")] + [each_state("first", milliseconds)]
        cells += [short(results.value(peer, workload, "write", "warm")), short(disk / 1e6) if disk else "–"]
        resumes = "resume" in results.run["peers"][peer]["ops"]
        cells += [milliseconds(results.value(peer, workload, "resume", states[0])) if resumes else "no"]
        cells += [short(results.value(peer, workload, "device", states[0]))] * with_gpu
        yield row([f"**{cell}**" if peer == SUBJECT and cell else cell for cell in cells])


def losses(results):
    """Where another one is at least a twentieth better, in words."""
    for op, told in OPS.items():
        places = []
        for workload in results.workloads:
            for state in ["warm"] if op == "write" else results.states:
                found = [(results.better(peer, workload, op, state) or 0, peer) for peer in results.titles]
                ahead = sorted((each for each in found if each[0] >= 1.05), reverse=True)
                if ahead:
                    who = ", ".join(f"{results.titles[peer]} {ratio:.1f} times" for ratio, peer in ahead)
                    places.append(f"{workload}{'' if op == 'write' else ', ' + state}: {who}")
        if places:
            yield f"- {told}: " + "; ".join(places) + "."
    for field, told, each_item in (("cpu", "processor time of an epoch", True), ("memory", "its memory", False)):
        places = []
        for workload in results.workloads:
            which = (workload, "epoch", results.states[0])
            ours = results.median(field, SUBJECT, *which, each_item=each_item)
            for peer in results.titles:
                theirs = results.median(field, peer, *which, each_item=each_item)
                if ours and theirs is not None and theirs * 1.05 < ours:
                    places.append(f"{workload}: {results.titles[peer]} {theirs / ours:.2f} of ours")
        if places:
            yield f"- {told}: " + "; ".join(places) + "."


def described(results):
    run = results.run
    machine = run["machine"]
    memory = f", {machine['memory'] / 2**30:.0f} GiB of memory" if machine["memory"] else ""
    yield f"`{run['command']}`, {run['date']}, revision {run['revision']}:"
    yield f"{machine['cores']} cores of {machine['processor']}{memory}, {machine['system']},"
    yield f"Python {machine['python']}, a load of {machine['load'][0]:.1f} at the start; medians of {run['options']['rounds']} rounds;"
    yield f"{run['options']['workers']} workers."
    versions = {}
    for about in run["peers"].values():
        versions |= about["versions"]
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) + "."
    if run["missing"]:
        yield "Left out: " + "; ".join(f"{name} ({why})" for name, why in run["missing"].items()) + "."
    failed = {}
    for peer, workload, op, state, told in results.failures():
        failed.setdefault((peer, told), []).append(f"{workload} {op} {state}")
    for (peer, told), places in failed.items():
        yield f"{results.titles[peer]} failed, {', '.join(dict.fromkeys(places))}: {told}."


def summary(results):
    """Epochs only; the best first, by the rate of most workloads."""
    state = results.states[0]
    cells = {}
    for workload in results.workloads:
        which = (workload, "epoch", state)
        for peer in results.peers(workload):
            rate, cpu, memory = results.value(peer, *which), *results.used(peer, *which)
            ratio = results.better(peer, *which)
            told = f" ({short(1 / ratio)})" if ratio and peer != SUBJECT else ""
            cells[peer, workload] = [short(rate) + told, f"{short(cpu)} / {short(memory)}"] if rate else ["–", "–"]
    yield row(["", *[f"{workload}{unit}" for workload in results.workloads for unit in (", samples/s", ": µs / MB")]])
    yield row(["---"] + ["---:"] * 2 * len(results.workloads))
    most = "10kB" if "10kB" in results.workloads else results.workloads[0]
    order = results.peers(most) + [name for name in results.titles if name not in results.peers(most)]
    for peer in order:
        found = [cell for workload in results.workloads for cell in cells.get((peer, workload), ["–", "–"])]
        yield row([f"**{cell}**" if peer == SUBJECT else cell for cell in [results.titles[peer], *found]])


def markdown(results):
    yield from described(results)
    yield ""
    yield f"A shuffled epoch, {results.states[0]}; how many times as fast kiste is; processor time a sample; memory."
    yield ""
    yield from summary(results)
    yield ""
    yield f"Of two figures the first is {' and the second '.join(results.states)}."
    for workload in results.workloads:
        yield from ["", f"### {TITLES[workload][0].upper()}{TITLES[workload][1:]}", "", *table(results, workload)]
    yield from ["", "Better than kiste by at least 5 %:", "", *losses(results)]


STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; } .quiet { fill: #59636e; }
.panel { font-weight: 600; font-size: 14px; } .other { fill: #8c959f; } .subject { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .quiet { fill: #9198a1; } .other { fill: #656c76; } .subject { fill: #4493f8; }
}
"""


def chart(results):
    """For each workload the rates of an epoch, and beside them its processor time."""
    line, width, label = 20, 860, 150
    state = results.states[0]
    panels = [results.peers(workload) for workload in results.workloads]
    height = 24 + sum(len(peers) * line + 52 for peers in panels)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    yield f"<title>Shuffled epochs of kiste and its peers ({state})</title><style>{STYLE}</style>"
    yield f'<text x="{label}" y="15">thousand samples a second ({state}): longer is better</text>'
    yield f'<text x="{width // 2 + 90}" y="15">processor time a sample, µs: shorter is better</text>'
    top = 24
    for workload, peers in zip(results.workloads, panels):
        yield f'<text class="panel" x="{label}" y="{top + 22}">{escape(TITLES[workload])}</text>'
        rates = [(results.value(peer, workload, "epoch", state) or 0) / 1e3 for peer in peers]
        times = [results.used(peer, workload, "epoch", state)[0] or 0 for peer in peers]
        for place, peer in enumerate(peers):
            y = top + 32 + place * line
            kind = "subject" if peer == SUBJECT else "other"
            yield f'<text x="{label - 6}" y="{y + 13}" text-anchor="end">{escape(results.titles[peer])}</text>'
            for left, values in ((label, rates), (width // 2 + 90, times)):
                long = 250 * values[place] / (max(values) or 1)
                yield f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{max(long, 1):.1f}" height="14"/>'
                value = values[place]
                told = (f"{value:,.0f}" if value >= 1000 else f"{value:.3g}") if value else "–"
                yield f'<text class="quiet" x="{left + long + 5:.1f}" y="{y + 13}">{told}</text>'
        top += len(peers) * line + 52
    yield "</svg>"


def main(arguments):
    parser = argparse.ArgumentParser("everyone report")
    parser.add_argument("results", type=Path)
    parser.add_argument("--markdown", type=Path, help="default: beside the results")
    parser.add_argument("--chart", type=Path, help="an SVG; default: beside the results")
    options = parser.parse_args(arguments)
    results = Results(options.results)
    targets = [(options.markdown or options.results.with_suffix(".md"), markdown)]
    targets += [(options.chart or options.results.with_suffix(".svg"), chart)]
    for path, make in targets:
        path.write_text("\n".join(make(results)) + "\n")
        print(path)
