"""`rota plot`: figures for papers from stores, job tables, event logs and catalogues."""

from __future__ import annotations

import click

from rota.cli import plot_catalogues, plot_curves, plot_runs

EXAMPLES = """
\b
Examples:
  rota plot jct-vs-load results.db -o jct.pdf
  rota plot jct-vs-load results.db --metric p99_jct_s --log-y --width acm-column \\
       --label srtf=SRTF --without 'fifo*' --no-band -o p99.pdf
  rota plot jct-cdf fifo=a.csv las=b.csv -o cdf.pdf
  rota plot utilization fifo=a.jsonl.gz las=b.jsonl.gz -o busy.pdf
  rota plot gantt run.jsonl.gz --to-hour 24 --colour-by model -o gantt.pdf
  rota plot sensitivity synergy -o cpus.pdf
  rota plot colocation gavel --type v100 -o pairs.pdf
  rota plot makespan-vs-jobs results.db -o makespan.pdf
  rota plot ftf-cdf fifo=a.csv las=b.csv -o fair.pdf
  rota plot stranded tune=a.jsonl.gz greedy=b.jsonl.gz -o idle.pdf
  rota plot fairness-over-time run.jsonl.gz -o tenants.pdf
  rota plot solve-time-vs-jobs --policy max-min-fairness-perf -o solve.pdf
  rota plot sim-vs-real real.csv sim.csv -o ratio.pdf
"""


@click.group("plot", epilog=EXAMPLES)
def command() -> None:
    """Draw a figure for a paper, as PNG, PDF or SVG by the name of the file.

    Colours can be told apart by people with colour blindness. See docs/figures.md.
    """


for kind in (*plot_curves.KINDS, *plot_runs.KINDS, *plot_catalogues.KINDS):
    command.add_command(kind)
