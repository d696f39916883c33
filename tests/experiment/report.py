"""Tables and plots of what experiment.py kept."""
import json
import statistics

LOADERS = ("ordinary", "zephon", "lanekeeper")


def read(work, one_run):
    found = {}
    for path in sorted((work / "results").glob("*.json")):
        result = json.loads(path.read_text())
        if result["settings"] == one_run:
            found[result["loader"], result["configuration"], result["seed"], result["reduction"]] = result
    return found


def spread(values):
    return max(values) - min(values)


def divergence(one, other):
    """Mean over the steps of the difference of the losses, nats."""
    return statistics.mean(abs(a - b) for a, b in zip(one["losses"], other["losses"]))


def same_steps(one, other, key=lambda rows: rows):
    """Share of the steps whose global batches are equal."""
    return sum(key(a) == key(b) for a, b in zip(one["rows"], other["rows"])) / len(one["rows"])


def seeds_of(found, loader, names, reduction="plain"):
    return [seed for seed in sorted({key[2] for key in found})
            if all((loader, name, seed, reduction) in found for name in names)]


def of_loader(found, loader, names):
    """A row of the table, or None without a seed for which all configurations were run."""
    seeds = seeds_of(found, loader, names)
    if not seeds:
        return None
    runs = {seed: [found[loader, name, seed, "plain"] for name in names] for seed in seeds}
    later = [(runs[seed][0], one) for seed in seeds for one in runs[seed][1:]]
    resumes = [s for seed in seeds for one in runs[seed][1:] for s in one["resume_s"][1:]]
    sizes = [n for seed in seeds for one in runs[seed][1:] for n in one["checkpoint_bytes"]]
    row = {"seeds": len(seeds), "ordered": statistics.mean(same_steps(a, b) for a, b in later),
           "sets": statistics.mean(same_steps(a, b, sorted) for a, b in later),
           "divergence": statistics.mean(divergence(a, b) for a, b in later),
           "resume_s": statistics.median(resumes), "resume_most_s": max(resumes),
           "checkpoint_bytes": statistics.median(sizes), "snapshot_bytes": max(b["snapshot_bytes"] for _, b in later)}
    for mark in ("loss", "next", "choice"):
        row["spread_" + mark] = statistics.mean(spread([one["marks"][mark] for one in runs[seed]]) for seed in seeds)
        of_seeds = [[r["marks"][mark] for key, r in found.items() if key[0] == loader and key[1] == name and key[3] == "plain"]
                    for name in names]
        noise = [spread(values) for values in of_seeds if len(values) > 1]
        row["noise_" + mark] = statistics.mean(noise) if noise else None
    return row


def repeated(result):
    """Share of a run's sequences that it had seen before."""
    rows = [row for step in result["rows"] for row in step]
    return 1 - len(set(rows)) / len(rows)


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}"


def table(rows, found, names):
    lines = ["| | " + " | ".join(rows) + " |", "|---|" + "---|" * len(rows)]

    def line(words, give):
        lines.append(f"| {words} | " + " | ".join(give(name, row) for name, row in rows.items()) + " |")
    line("seeds", lambda _, r: str(r["seeds"]))
    line("steps with the same sequences in the same order", lambda _, r: f"{100 * r['ordered']:.1f} %")
    line("steps with the same set of sequences", lambda _, r: f"{100 * r['sets']:.1f} %")
    line("sequences of `legs` seen twice", lambda n, r: f"{100 * repeated(found[n, 'legs', 1, 'plain']):.1f} %")
    line("divergence of the loss curve, nats a step", lambda _, r: number(r["divergence"]))
    for mark, unit in (("loss", "nats"), ("next", "points"), ("choice", "points")):
        words = {"loss": "validation loss", "next": "next byte right", "choice": "choice of four"}[mark]
        line(f"{words}: spread between configurations, {unit}", lambda _, r, m=mark: number(r["spread_" + m]))
        line(f"{words}: spread between initialisations, {unit}", lambda _, r, m=mark: number(r["noise_" + m]))
    line("resume to first batch, median (most), s", lambda _, r: f"{r['resume_s']:.2f} ({r['resume_most_s']:.2f})")
    line("loader's part of a checkpoint, bytes", lambda _, r: f"{r['checkpoint_bytes']:,.0f}")
    line("kept beside it by the daemon, bytes", lambda _, r: f"{r['snapshot_bytes']:,}" if r["snapshot_bytes"] else "–")
    return lines


def of_orders(found, names, settings):
    """What must hold for Lanekeeper: (lines, whether it does)."""
    lines, good = [], True
    plain = [r for key, r in found.items() if key[0] == "lanekeeper"]
    if plain:
        distinct = {json.dumps(r["rows"]) for r in plain}
        good = len(distinct) == 1
        worlds = sorted({w for r in plain for w in r["worlds"]})
        lines.append(f"Lanekeeper: {len(plain)} runs on {', '.join(map(str, worlds))} processes, {settings['steps']} steps each: "
                     + ("the hashes of every step are equal in all of them." if good else "HASHES DIFFER."))
    fixed = {key[1]: r for key, r in found.items() if key[3] == "fixed"}
    if len(fixed) > 1:
        curves, weights = {tuple(r["losses"]) for r in fixed.values()}, {r["weights"] for r in fixed.values()}
        same = len(curves) == 1 and len(weights) == 1
        good = good and same
        lines.append(f"With gradients added in a fixed order ({', '.join(fixed)}): "
                     + ("all losses and the final weights are bit-identical." if same else "THE CURVES DIFFER."))
        of_plain = {r["weights"] for key, r in found.items() if key[0] == "lanekeeper" and key[1] in fixed
                    and key[2] in {one["seed"] for one in fixed.values()} and key[3] == "plain"}
        lines.append(f"With all-reduce, the same data: {len(of_plain)} different final weights.")
    return lines, good


def pairs(found, names):
    lines = ["| loader | configuration | seed | reduction | validation loss | next byte, % | choice, % | divergence | resume, s | run, s |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for (loader, name, seed, reduction), r in sorted(found.items(), key=lambda item: (LOADERS.index(item[0][0]), item[0][3], item[0][2], item[0][1])):
        base = found.get((loader, "one", seed, reduction))
        away = "–" if base is None or name == "one" else number(divergence(base, r))
        resumes = ", ".join(f"{s:.1f}" for s in r["resume_s"])
        lines.append(f"| {loader} | {name} | {seed} | {reduction} | {r['marks']['loss']:.6f} | {r['marks']['next']:.3f} | "
                     f"{r['marks']['choice']:.2f} | {away} | {resumes} | {r['seconds']:.0f} |")
    return lines


def plot(work, found):
    """Loss curves, and their differences from the run that was not interrupted; seed 1. The files made."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot
    shown = [name for name in LOADERS if (name, "one", 1, "plain") in found]
    if not shown:
        return []
    figure, axes = pyplot.subplots(2, len(shown), figsize=(4.6 * len(shown), 6), sharex=True, sharey="row", squeeze=False)
    for column, loader in enumerate(shown):
        base = found[loader, "one", 1, "plain"]
        for (other, name, seed, reduction), r in found.items():
            if other != loader or seed != 1:
                continue
            words = f"{name}: {', '.join(map(str, r['worlds']))}" + (" fixed order" if reduction == "fixed" else "")
            if reduction == "plain":
                axes[0][column].plot(r["losses"], label=words, linewidth=1)
            against = found.get((loader, "one", 1, reduction))
            if name != "one" and against is not None:
                axes[1][column].plot([max(1e-9, abs(a - b)) for a, b in zip(against["losses"], r["losses"])],
                                     label=words, linewidth=1, linestyle="--" if reduction == "fixed" else "-")
        for end in range(1, 5):
            axes[0][column].axvline(len(base["losses"]) * end / 5, color="0.85", zorder=0)
            axes[1][column].axvline(len(base["losses"]) * end / 5, color="0.85", zorder=0)
        axes[0][column].set_title(loader)
        axes[0][column].legend(fontsize=7)
        axes[1][column].set_yscale("log")
        axes[1][column].set_xlabel("step")
        axes[1][column].legend(fontsize=7)
    axes[0][0].set_ylabel("training loss")
    axes[1][0].set_ylabel("difference from uninterrupted\n(below 1e-9: shown there)")
    figure.tight_layout()
    figure.savefig(work / "curves.png", dpi=110)
    return ["curves.png"]


def report(work, one_run, settings):
    """Writes report.md and plots, prints the former; False if what must hold does not."""
    found = read(work, one_run)
    begun = {key[0] for key in found}
    names = [name for name in settings["configurations"] if all((loader, name, 1, "plain") in found for loader in begun)]
    rows = {loader: row for loader in LOADERS
            if len(names) > 1 and (row := of_loader(found, loader, names)) is not None}
    lines = [f"{settings['steps']} steps of {settings['batch']} sequences of {settings['sequence']} bytes, width {settings['width']}, "
             f"{settings['layers']} layers. Configurations: {', '.join(names)}.", ""]
    facts, good = of_orders(found, names, settings)
    lines += [*facts, ""]
    if rows:
        lines += [*table(rows, found, names), ""]
    if "ordinary" in rows and "lanekeeper" in rows:
        lines += [f"Divergence, ordinary / Lanekeeper: {rows['ordinary']['divergence'] / rows['lanekeeper']['divergence']:.3g}. "
                  f"Spread of the loss, ordinary / Lanekeeper: {rows['ordinary']['spread_loss'] / max(1e-12, rows['lanekeeper']['spread_loss']):.3g}.", ""]
    lines += pairs(found, names)
    if found:
        lines += ["", "Versions: " + ", ".join(f"{k} {v}" for k, v in next(iter(found.values()))["versions"].items())]
    text = "\n".join(lines) + "\n"
    (work / "report.md").write_text(text)
    print(text)
    for name in plot(work, found):
        print(f"{work / name}")
    return good and bool(found)
