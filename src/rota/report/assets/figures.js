// The figures: a metric over the load (or what else was varied), bars at one setting, distributions, utilisation;
// finish-time fairness and deadlines are drawn in outcomes.js.
const groupsAt = setting => DATA.groups.filter(group => group.setting === setting);

function interval(stat, key) {
  const [, low, high, runs] = stat;
  if (low === null || low === undefined) return runs > 1 ? `, ${runs} runs` : '';
  return ` (${METRICS[key].show(low)} to ${METRICS[key].show(high)}, ${runs} runs)`;
}

function overX(key, scenario) {
  const metric = METRICS[key];
  const found = new Map();
  for (const group of DATA.groups) {
    const setting = DATA.settings[group.setting];
    if (setting.scenario !== scenario || setting.x === null) continue;
    if (!found.has(group.line)) found.set(group.line, { name: DATA.lines[group.line], line: group.line, points: [], crosses: [] });
    const series = found.get(group.line);
    const stat = group.stats[key];
    if (group.unstable) series.crosses.push(setting.x);
    if (stat) {
      const [mean, low, high] = stat.slice(0, 3).map(v => v === null ? null : v * metric.scale);
      series.points.push({ x: setting.x, y: mean, low, high, more: interval(stat, key) });
    }
  }
  const series = [...found.values()].filter(s => s.points.length || s.crosses.length).sort((a, b) => a.line - b.line);
  const name = DATA.x === 'load' ? 'load (jobs per hour)' : DATA.x;
  return lineChart({
    series, xLabel: name, yLabel: `${metric.label} (${metric.unit})`, canXLog: true, canYLog: true, top: key === 'utilization' ? 100 : undefined,
    heading: x => `${DATA.x} = ${plainNumber(x)}`, value: y => metric.show(y / metric.scale), describe: `${metric.label} over ${name}`,
  });
}

function bars(key, setting) {
  const metric = METRICS[key];
  const rows = groupsAt(setting).filter(group => group.stats[key]).map(group => {
    const [mean, low, high] = group.stats[key].slice(0, 3).map(v => v === null ? null : v * metric.scale);
    return { name: DATA.lines[group.line], line: group.line, value: mean, low, high, more: interval(group.stats[key], key) };
  });
  if (!rows.length) return el('p', { class: 'muted' }, 'No run of this setting has this number.');
  rows.sort((a, b) => key === 'utilization' ? b.value - a.value : a.value - b.value);
  return barChart({ rows, xLabel: `${metric.label} (${metric.unit})`, value: y => metric.show(y / metric.scale), describe: `${metric.label} by policy` });
}

function distribution(setting) {
  const series = groupsAt(setting).filter(group => group.cdf).map(group => ({
    name: DATA.lines[group.line], line: group.line, step: true, floor: 0,
    points: group.cdf.t.map((t, i) => ({ x: t / HOUR, y: group.cdf.top * (i + 1) / group.cdf.t.length })),
  }));
  if (!series.length) return { body: el('p', { class: 'muted' }, 'The completion times of these runs are not known.'), controls: null };
  return lineChart({
    series, xLabel: 'completion time (hours)', yLabel: 'part of jobs', xLog: true, canXLog: true, xZero: true, top: 1.0,
    heading: x => `done within ${clock(x * HOUR)}`, value: y => percent(y), describe: 'Distribution of completion times',
  });
}

function busy(setting) {
  const series = DATA.runs.filter(run => run.busy && run.setting === setting).map(run => {
    const step = run.busy.end / run.busy.value.length;
    return { name: lineName(run) + (sameLine(run, setting) ? `, seed ${text(run.values.seed)}` : ''), line: run.line, step: true, floor: 0,
      points: [...run.busy.value, run.busy.value.at(-1)].map((value, i) => ({ x: i * step / HOUR, y: 100 * value })) };
  });
  if (!series.length) return null;
  return lineChart({
    series, xLabel: 'simulated hours', yLabel: 'GPU time held by jobs (%)', top: 100, heading: x => `from ${plainNumber(x, 4)} h`,
    value: y => `${y.toFixed(1)} %`, describe: 'Utilisation over time',
  });
}

const sameLine = (run, setting) => DATA.runs.filter(r => r.busy && r.setting === setting && r.line === run.line).length > 1;

// A figure whose content depends on choices; `make` returns {body, controls}.
function changing(title, extra, make, caption, attributes) {
  const inside = el('div');
  const own = el('span', { class: 'controls' });
  const update = () => {
    const made = make();
    node.hidden = made === null;
    if (made === null) return;
    const { body, controls } = made;
    inside.replaceChildren(body);
    own.replaceChildren(...extra, ...(controls ? [controls] : []));
  };
  const node = card(title, own, inside, caption, attributes);
  return { node, update };
}

function metricChoice(first, keys, onchange) {
  const known = keys.filter(key => DATA.groups.some(group => group.stats[key]));
  const [label, select] = choice('', known.map((key, i) => [i, METRICS[key].label]), i => onchange(known[i]), { 'aria-label': 'Metric' });
  select.value = String(Math.max(0, known.indexOf(first)));
  return label;
}

function figures() {
  const host = byId('figures');
  const grid = el('div', { class: 'grid' });
  const state = { setting: DATA.settings.length - 1, scenario: 0, over: 'mean_jct_s', left: 'mean_jct_s', right: 'makespan_s' };
  const best = DATA.settings.map((_, i) => groupsAt(i).filter(group => group.stats.mean_jct_s).length);
  state.setting = best.lastIndexOf(Math.max(...best));
  if (DATA.settings.length > 1 && DATA.x === null) state.setting = best.indexOf(Math.max(...best));
  const drawn = DATA.gantts.length ? DATA.runs[DATA.gantts[0].run].setting : -1;
  if (best[drawn] === Math.max(...best)) state.setting = drawn;
  const keys = Object.keys(METRICS);
  const parts = [];
  if (DATA.x !== null) {
    const extra = [];
    const over = changing(DATA.x === 'load' ? 'Over the load' : `Over ${DATA.x}`, extra, () => overX(state.over, state.scenario),
      'Mean over seeds with its 95 % interval. A cross on top marks a place at which a run was unstable: it has no mean.', { class: 'card wide', id: 'fig-over' });
    extra.push(metricChoice('mean_jct_s', keys, key => { state.over = key; over.update(); }));
    if (DATA.scenarios.length > 1) {
      const places = DATA.scenarios.map((_, i) => DATA.settings.filter(s => s.scenario === i).length);
      state.scenario = places.indexOf(Math.max(...places));
      const [label, select] = choice('at', DATA.scenarios.map((name, i) => [i, name]), i => { state.scenario = i; over.update(); });
      select.value = String(state.scenario);
      extra.unshift(label);
    }
    grid.append(over.node);
    over.update();
  }
  const left = changing('By policy', [], () => ({ body: bars(state.left, state.setting) }), null, { id: 'fig-left' });
  const right = changing('By policy', [], () => ({ body: bars(state.right, state.setting) }), null, { id: 'fig-right' });
  for (const [figure, side] of [[left, 'left'], [right, 'right']]) {
    figure.node.querySelector('.controls').replaceWith(el('span', { class: 'controls' }, metricChoice(state[side], keys, key => { state[side] = key; figure.update(); })));
    parts.push(figure);
  }
  parts.push(changing('Distribution of completion times', [], () => distribution(state.setting), 'Runs that differ in their seed only are put together; jobs that did not finish keep a line below 1.', { id: 'fig-cdf' }));
  if (DATA.groups.some(group => group.ftf)) {
    parts.push(changing('Finish-time fairness', [], () => fairness(state.setting), 'How much later a job ended than with its own part of the cluster; right of the line at 1 it was treated worse than that.', { id: 'fig-ftf' }));
  }
  if (DATA.groups.some(group => group.deadlines)) {
    parts.push(changing('Deadlines', [], () => deadlines(state.setting), null, { id: 'fig-deadlines' }));
    parts.push(changing('How early or late', [], () => timeUsed(state.setting), 'From arrival to finish over from arrival to deadline: right of the line at 1 a deadline was missed. Jobs that did not finish keep a line below 1.', { id: 'fig-late' }));
  }
  if (DATA.runs.some(run => run.busy)) {
    parts.push(changing('Utilisation over time', [], () => busy(state.setting), null, { id: 'fig-busy' }));
  }
  const update = () => {
    parts.forEach(part => part.update());
    const shown = parts.filter(part => !part.node.hidden);
    parts[2].node.classList.toggle('wide', shown.length % 2 === 1);
  };
  const at = [];
  if (DATA.settings.length > 1) {
    const [label, select] = choice(DATA.x === null ? 'figures at' : 'other figures at', DATA.settings.map((s, i) => [i, s.label]), i => { state.setting = i; update(); }, { id: 'setting' });
    select.value = String(state.setting);
    at.push(el('div', { class: 'controls' }, label));
  }
  parts.forEach(part => { grid.append(part.node); });
  host.append(...at, grid);
  update();
}
