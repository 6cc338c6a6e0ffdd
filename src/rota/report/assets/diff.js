// Two lines at the same setting: whether they differ beyond noise, and which jobs gained or lost.
const MOST_POINTS = 2500;
const COMPARED = 10;

function diff() {
  const host = byId('diff');
  const places = [...new Set(DATA.pairs.map(pair => pair[0]))];
  if (!places.length) {
    host.append(el('p', { class: 'muted' }, 'No two policies have finished, stable runs with the same seed at the same setting.'), ...leftOut());
    return;
  }
  const state = { setting: highest(places), a: 0, b: 0, seed: -1 };
  const out = el('div');
  const linesAt = setting => [...new Set(DATA.pairs.filter(p => p[0] === setting).flatMap(p => [p[1], p[2]]))].sort((x, y) => x - y);
  const [atLabel, at] = choice('at', places.map(i => [i, DATA.settings[i].label]), i => { state.setting = i; lines(); }, { id: 'diff-at' });
  at.value = String(state.setting);
  const [aLabel, a] = choice('A', [], i => { state.a = i; seeds(); }, { id: 'diff-a' });
  const [bLabel, b] = choice('B', [], i => { state.b = i; seeds(); }, { id: 'diff-b' });
  const [seedLabel, seed] = choice('jobs of', [], i => { state.seed = i; draw(); }, { id: 'diff-seed' });
  const swap = el('button', { type: 'button', title: 'Exchange A and B', 'aria-label': 'Exchange A and B', id: 'diff-swap', onclick: () => { [state.a, state.b] = [state.b, state.a]; a.value = String(state.a); b.value = String(state.b); seeds(); } }, '⇄');

  function lines() {
    const known = linesAt(state.setting);
    for (const select of [a, b]) select.replaceChildren(...known.map(i => el('option', { value: i }, DATA.lines[i])));
    if (!known.includes(state.a)) state.a = known[0];
    if (!known.includes(state.b) || state.b === state.a) state.b = bestOf(state.setting, known.filter(i => i !== state.a));
    a.value = String(state.a);
    b.value = String(state.b);
    seeds();
  }

  function seeds() {
    const pair = pairOf(state);
    const runs = pair ? pair.runs : [];
    state.seed = -1;
    const names = runs.map(([i], k) => [k, `seed ${text(DATA.runs[i].values.seed)}`]);
    seed.replaceChildren(...[...(runs.length > 1 ? [[-1, 'all seeds']] : []), ...names].map(([value, name]) => el('option', { value }, name)));
    seedLabel.hidden = runs.length < 2;
    draw();
  }

  function draw() {
    const pair = pairOf(state);
    if (!pair) {
      out.replaceChildren(el('p', { class: 'muted' }, state.a === state.b ? 'Choose two different policies.' : 'These two have no finished runs with the same seed here.'));
      return;
    }
    out.replaceChildren(...compared(pair, state));
  }

  host.append(el('div', { class: 'controls' }, ...(places.length > 1 ? [atLabel] : []), aLabel, swap, bLabel, seedLabel), out, ...leftOut());
  lines();
}

// The last place, that is the highest load, of the first scenario; without an axis the first place, or that of the schedule.
function highest(places) {
  if (DATA.x !== null) return places.filter(i => DATA.settings[i].scenario === DATA.settings[places[0]].scenario).at(-1);
  const drawn = DATA.gantts.length ? DATA.runs[DATA.gantts[0].run].setting : null;
  return places.includes(drawn) ? drawn : places[0];
}

// Where a policy was unstable it is not compared: the seeds that came to an end are those that were lucky.
function leftOut() {
  const groups = DATA.groups.filter(group => group.unstable);
  if (!groups.length) return [];
  const said = groups.map(g => `${DATA.lines[g.line]} at ${DATA.settings[g.setting].label} (${g.unstable} of ${g.runs.length} runs)`);
  return [el('p', { class: 'small muted', id: 'diff-left-out' }, `Not compared because unstable: ${said.slice(0, COMPARED).join('; ')}${said.length > COMPARED ? `; and ${said.length - COMPARED} more` : ''}.`)];
}

function bestOf(setting, among) {
  const mean = line => DATA.groups.find(g => g.setting === setting && g.line === line).stats.mean_jct_s?.[0] ?? Infinity;
  return among.slice().sort((x, y) => mean(x) - mean(y))[0] ?? among[0];
}

// The pair as it was computed, turned round if A and B are.
function pairOf({ setting, a, b }) {
  for (const [at, first, second, runs, ratio, low, high, method] of DATA.pairs) {
    if (at !== setting) continue;
    if (first === a && second === b) return { a, b, runs, ratio, low, high, method };
    if (first === b && second === a) {
      const turn = value => value === null ? null : 1 / value;
      return { a, b, runs: runs.map(([x, y]) => [y, x]), ratio: 1 / ratio, low: turn(high), high: turn(low), method };
    }
  }
  return null;
}

function jobsOf(i) {
  const { jobs } = DATA.runs[i];
  if (!jobs) return null;
  const shared = DATA.workloads[jobs.of];
  return { of: jobs.of, id: expand(shared.id), arrival: sums(shared.arrival), t: jobs.t, gpus: shared.gpus ? expand(shared.gpus) : null,
    profile: shared.profile ? expand(shared.profile).map(p => shared.profiles[p]) : null };
}

// Jobs that finished in both runs, as [id, a, b, gpus, profile, run]; null if they are not the same jobs.
function paired(first, second) {
  const [x, y] = [jobsOf(first), jobsOf(second)];
  if (!x || !y) return null;
  const place = new Map(y.id.map((id, k) => [id, k]));
  const found = [];
  for (let k = 0; k < x.id.length; k++) {
    const other = place.get(x.id[k]);
    if (other === undefined) continue;
    if (Math.abs(x.arrival[k] - y.arrival[other]) > 1) return null;
    if (x.t[k] > 0 && y.t[other] > 0) found.push([x.id[k], x.t[k], y.t[other], x.gpus && x.gpus[k], x.profile && x.profile[k], first]);
  }
  return found;
}

function verdict(pair) {
  const [a, b] = [DATA.lines[pair.a], DATA.lines[pair.b]];
  const part = 100 * (1 - Math.min(pair.ratio, 1 / pair.ratio));
  if (pair.ratio === 1 && pair.low === 1 && pair.high === 1) return ['no difference', ''];
  const faster = `${pair.ratio < 1 ? b : a} is ${part.toFixed(part >= 10 ? 0 : 1)} % faster`;
  if (pair.low === null) return [`${faster}, but there is too little to tell it from noise`, ''];
  if (pair.low <= 1 && pair.high >= 1) return ['no difference beyond noise', ''];
  if (pair.method !== 'seeds') return [`${faster} with this seed; three seeds or more would tell whether that is luck`, ''];
  return [`${faster}, beyond noise`, pair.ratio < 1 ? 'better' : 'worse'];
}

const METHOD = {
  seeds: n => `95 % interval of the ratio by Student’s t over ${n} paired seeds`,
  jobs: () => '95 % interval by a bootstrap over blocks of jobs; it says nothing about other seeds',
  none: n => n > 1 ? `no interval: ${n} paired seeds are too few, three are the least` : 'no interval: one seed, and too few jobs or none in common',
};

function compared(pair, state) {
  const [said, look] = verdict(pair);
  const ends = pair.low === null ? '' : ` (${pair.low.toFixed(3)} to ${pair.high.toFixed(3)})`;
  const head = el('p', { class: `verdict ${look}`, id: 'verdict' }, el('b', {}, said), el('br'),
    el('span', { class: 'small muted' }, `Mean completion time of B over A: ${pair.ratio.toFixed(3)}${ends}. ${METHOD[pair.method](pair.runs.length)}.`));
  const chosen = state.seed < 0 ? pair.runs : [pair.runs[state.seed]];
  const parts = chosen.map(([x, y]) => paired(x, y));
  if (parts.some(part => part === null)) return [head, el('p', { class: 'muted' }, 'The jobs of these runs are not on this page, or the runs are not of the same jobs.')];
  const jobs = parts.flat();
  if (!jobs.length) return [head, el('p', { class: 'muted' }, 'No job finished in both runs.')];
  const logs = jobs.map(([, x, y]) => Math.log(y / x));
  const same = logs.filter(v => Math.abs(v) < 1e-9).length;
  const gained = logs.filter(v => v < -1e-9).length;
  const facts = el('ul', { class: 'facts' },
    fact(Math.exp(logs.reduce((s, v) => s + v, 0) / logs.length).toFixed(3), 'geometric mean of B / A over jobs'),
    fact(Math.exp(logs.slice().sort((x, y) => x - y)[Math.floor(logs.length / 2)]).toFixed(3), 'median of B / A'),
    fact(gained.toLocaleString('en'), 'jobs gained (B shorter)'), fact((logs.length - gained - same).toLocaleString('en'), 'jobs lost (B longer)'), fact(same.toLocaleString('en'), 'equal'));
  const grid = el('div', { class: 'grid' },
    card('Every job in A and B', null, cloud(jobs, pair), jobs.length > MOST_POINTS ? `${MOST_POINTS.toLocaleString('en')} of ${jobs.length.toLocaleString('en')} jobs are drawn. Below the line: shorter in B.` : 'Below the line: shorter in B.', { id: 'fig-cloud' }),
    card('B / A by job', null, ratios(logs, pair), 'On a logarithmic axis; the ends hold all that is beyond.', { id: 'fig-ratios' }),
    card('Gained most', null, changes(jobs, 1, 'gained'), null), card('Lost most', null, changes(jobs, -1, 'lost'), null));
  return [head, facts, grid];
}

const fact = (value, name) => el('li', {}, el('b', {}, value), el('span', {}, name));

function changes(jobs, sign, name) {
  const some = jobs.filter(([, x, y]) => sign * (x - y) > 0).sort((p, q) => sign * ((q[1] - q[2]) - (p[1] - p[2]))).slice(0, COMPARED);
  if (!some.length) return el('p', { class: 'muted' }, `No job ${name}.`);
  const seeds = new Set(jobs.map(job => job[5])).size > 1;
  const heads = ['job', ...(seeds ? ['seed'] : []), ...(some[0][4] !== null ? ['model'] : []), ...(some[0][3] !== null ? ['GPUs'] : []), 'A h', 'B h', 'B − A', 'B / A'];
  const rows = some.map(([id, x, y, gpus, profile, run]) => el('tr', {}, el('td', {}, String(id)),
    ...(seeds ? [el('td', {}, text(DATA.runs[run].values.seed))] : []), ...(profile !== null ? [el('td', { class: 'text' }, profile)] : []),
    ...(gpus !== null ? [el('td', { class: 'number' }, String(gpus))] : []),
    ...[hours(x), hours(y), `${y >= x ? '+' : '−'}${hours(Math.abs(y - x))}`, (y / x).toFixed(3)].map(value => el('td', { class: 'number' }, value))));
  const head = heads.map(h => el('th', { scope: 'col', class: ['job', 'seed', 'model'].includes(h) ? null : 'number' }, h));
  return el('div', { class: 'scroll', tabindex: 0 }, el('table', { class: `changes ${name}` }, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows)));
}

function cloud(jobs, pair) {
  const host = el('div');
  const every = Math.ceil(jobs.length / MOST_POINTS);
  const some = jobs.filter((_, i) => i % every === 0);
  sized(host, width => {
    const height = Math.round(Math.min(380, Math.max(250, width * 0.62)));
    const margin = { left: 46, right: 12, top: 24, bottom: 38 };
    const all = some.flatMap(([, x, y]) => [x / HOUR, y / HOUR]);
    const low = all.reduce((m, v) => Math.min(m, v), Infinity) * 0.85;
    const high = all.reduce((m, v) => Math.max(m, v), 0) * 1.15;
    const X = scale(low, high, margin.left, width - margin.right, true);
    const Y = scale(low, high, height - margin.bottom, margin.top, true);
    const root = frame(width, height, margin, logTicks(low, high), logTicks(low, high), X, Y, {
      xLabel: `A: ${DATA.lines[pair.a]} (hours)`, yLabel: `B: ${DATA.lines[pair.b]} (hours)`, describe: 'Completion time of every job in A and B' });
    root.append(svg('line', { class: 'equal', x1: X(low), y1: Y(low), x2: X(high), y2: Y(high) }));
    for (const [id, x, y, gpus, profile] of some) {
      const dot = svg('circle', { class: `point ${colour(pair.b)}`, cx: X(x / HOUR).toFixed(1), cy: Y(y / HOUR).toFixed(1), r: 3 });
      dot.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, `job ${id}`, [['A', clock(x)], ['B', clock(y)], ['B / A', (y / x).toFixed(3)], ...(profile ? [['model', profile]] : []), ...(gpus ? [['GPUs', String(gpus)]] : [])]));
      dot.addEventListener('pointerleave', hideTip);
      root.append(dot);
    }
    host.replaceChildren(root);
  });
  return host;
}

function ratios(logs, pair) {
  const host = el('div');
  const sorted = logs.map(Math.abs).sort((x, y) => x - y);
  const reach = Math.max(Math.log(1.1), sorted[Math.floor(0.98 * (sorted.length - 1))]);
  const bins = 31;
  const counts = Array(bins).fill(0);
  for (const v of logs) counts[Math.max(0, Math.min(bins - 1, Math.round((v / reach + 1) / 2 * (bins - 1))))] += 1;
  const centre = i => Math.exp((2 * i / (bins - 1) - 1) * reach);
  sized(host, width => {
    const height = Math.round(Math.min(380, Math.max(250, width * 0.62)));
    const margin = { left: 46, right: 12, top: 24, bottom: 38 };
    const half = reach / (bins - 1);
    const [low, high] = [Math.exp(-reach - half), Math.exp(reach + half)];
    const X = scale(low, high, margin.left, width - margin.right, true);
    const most = Math.max(...counts);
    const Y = scale(0, most * 1.05, height - margin.bottom, margin.top, false);
    const root = frame(width, height, margin, logTicks(low, high), linearTicks(0, most * 1.05, 5).filter(Number.isInteger), X, Y, {
      xLabel: 'B / A (below 1: shorter in B)', yLabel: 'jobs', describe: 'Histogram of the ratios of completion times' });
    counts.forEach((count, i) => {
      const [x0, x1] = [X(centre(i) * Math.exp(-half)), X(centre(i) * Math.exp(half))];
      const look = centre(i) < 0.9999 ? colour(pair.b) : centre(i) > 1.0001 ? colour(pair.a) : 'neutral';
      const bar = svg('rect', { class: `block ${look}`, x: x0 + 0.5, width: Math.max(0.5, x1 - x0 - 1), y: Y(count), height: Math.max(0, Y(0) - Y(count)) });
      bar.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, `B / A about ${centre(i).toFixed(2)}`, [['jobs', count.toLocaleString('en')]]));
      bar.addEventListener('pointerleave', hideTip);
      root.append(bar);
    });
    root.append(svg('line', { class: 'equal', x1: X(1), x2: X(1), y1: margin.top, y2: height - margin.bottom }));
    host.replaceChildren(root);
  });
  return host;
}
