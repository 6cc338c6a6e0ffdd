// The table of runs: by point (mean and interval over seeds) or run by run; sorted by any column, filtered by any text.
const STATUS_LOOK = { ok: '', unstable: 'warn', interrupted: 'warn', 'cut off': 'warn', failed: 'bad', timeout: 'bad', 'to do': 'idle' };
const SHOWN = ['mean_jct_s', 'p50_jct_s', 'p99_jct_s', 'makespan_s', 'utilization', ...(DATA.groups.some(group => group.stats.missed_fraction) ? ['missed_fraction'] : [])];
const SHORT = { mean_jct_s: 'mean JCT h', p50_jct_s: 'median h', p99_jct_s: 'p99 h', makespan_s: 'makespan h', utilization: 'busy', missed_fraction: 'deadlines missed' };

// What tells rows apart: mechanism, cluster and load, and anything else only where these and the line do not say it.
function axisColumns(byRun) {
  const known = key => DATA.runs.some(run => run.values[key] !== undefined);
  const columns = [...(known('run') ? ['policy'] : []), 'mechanism', 'cluster', 'load'].filter(key => known(key) && DATA.varied.includes(key));
  const more = ['workload', 'trace', ...DATA.varied].filter(key => DATA.varied.includes(key) && !['seed', 'run', 'policy', ...columns].includes(key));
  for (const key of new Set(more)) {
    const said = new Map();
    const place = run => JSON.stringify([run.line, ...columns.map(column => run.values[column] ?? null)]);
    for (const run of DATA.runs) said.set(place(run), (said.get(place(run)) ?? new Set()).add(text(run.values[key])));
    if ([...said.values()].some(values => values.size > 1)) columns.push(key);
  }
  return byRun && known('seed') ? [...columns, 'seed'] : columns;
}

// What holds for all runs is said once, above the table.
function common() {
  const [first] = DATA.runs;
  const known = ['workload', 'trace', 'cluster', 'mechanism', 'load', 'rules', 'profiles', 'measure'].filter(key => first.values[key] !== undefined && !DATA.varied.includes(key));
  if (!known.length || DATA.runs.length < 2) return null;
  const parts = known.map(key => el('span', { class: 'pair' }, `${key} `, el('b', {}, text(first.values[key]))));
  return el('p', { class: 'common small' }, el('span', { class: 'muted' }, 'All runs: '), ...parts);
}

function statusCell(counts, errors) {
  const cell = el('td', {});
  for (const [name, count] of Object.entries(counts)) {
    cell.append(el('span', { class: `status ${STATUS_LOOK[name] ?? 'warn'}` }, Object.keys(counts).length > 1 || count > 1 ? `${count} ${name}` : name), ' ');
  }
  if (errors.length) cell.append(el('div', { class: 'error' }, errors[0] + (errors.length > 1 ? ` (and ${errors.length - 1} more, see the configurations)` : '')));
  return cell;
}

function valueCell(stat, key, best) {
  if (!stat) return { node: el('td', { class: 'number muted' }, '–'), sort: null, text: '' };
  const [mean, low, high] = stat;
  const node = el('td', { class: best ? 'number best' : 'number' }, METRICS[key].show(mean));
  if (low !== null && low !== undefined) {
    const half = METRICS[key].show === percent ? (100 * (high - low) / 2).toFixed(1) : hours((high - low) / 2);
    node.append(el('span', { class: 'interval' }, ` ± ${half}`));
  }
  return { node, sort: mean, text: METRICS[key].show(mean) };
}

function tableRows(byRun, columns) {
  const items = byRun
    ? DATA.runs.map((run, i) => ({ runs: [i], line: run.line, setting: run.setting, stats: ofRun(run) }))
    : DATA.groups;
  const lowest = {};
  for (const item of items) {
    const mean = item.stats.mean_jct_s;
    if (mean && !(mean[0] >= lowest[item.setting])) lowest[item.setting] = mean[0];
  }
  const rivals = setting => new Set(items.filter(item => item.setting === setting).map(item => item.line)).size > 1;
  return items.map(item => {
    const runs = item.runs.map(i => DATA.runs[i]);
    const counts = {};
    for (const run of runs) counts[run.status] = (counts[run.status] || 0) + 1;
    const errors = [...new Set(runs.map(run => run.error).filter(Boolean).map(e => e.split('\n')[0]))];
    const name = el('td', { class: `text ${DATA.lines[item.line].length > 44 ? 'long' : ''} ${colour(item.line)}` }, el('span', { class: 'swatch' }), DATA.lines[item.line]);
    const cells = [{ node: name, sort: DATA.lines[item.line], text: DATA.lines[item.line] }];
    for (const key of columns) {
      const value = runs[0].values[key];
      const number = typeof value === 'number';
      cells.push({ node: el('td', { class: number ? 'number' : text(value).length > 28 ? 'text long' : 'text' }, text(value)), sort: value ?? null, text: text(value) });
    }
    if (!byRun) cells.push({ node: el('td', { class: 'number' }, String(runs.length)), sort: runs.length, text: '' });
    for (const key of SHOWN) {
      const best = key === 'mean_jct_s' && rivals(item.setting) && item.stats[key] && item.stats[key][0] === lowest[item.setting];
      cells.push(valueCell(item.stats[key], key, best));
    }
    const said = Object.keys(counts).join(' ');
    cells.push({ node: statusCell(counts, errors), sort: said, text: [said, ...errors].join(' ') });
    return { cells, text: cells.map(cell => cell.text).join(' ').toLowerCase() + ' ' + runs.map(r => r.key).join(' ') };
  });
}

function ofRun(run) {
  const known = SHOWN.filter(key => typeof run.metrics[key] === 'number' && (run.status !== 'unstable' || key === 'utilization'));
  return Object.fromEntries(known.map(key => [key, [run.metrics[key], null, null]]));
}

function summary() {
  const state = { byRun: false, sort: -1, down: false, filter: '' };
  const several = DATA.groups.some(group => group.runs.length > 1);
  const table = el('table', { id: 'runs' });
  const count = el('span', { class: 'muted small', role: 'status' });
  const draw = () => {
    const columns = axisColumns(state.byRun);
    const heads = [DATA.runs.some(run => run.values.run !== undefined) ? 'run' : 'policy', ...columns.map(key => key === 'load' ? 'load /h' : key), ...(state.byRun ? [] : ['seeds']), ...SHOWN.map(key => SHORT[key]), 'status'];
    const rows = tableRows(state.byRun, columns).filter(row => row.text.includes(state.filter));
    const total = state.byRun ? DATA.runs.length : DATA.groups.length;
    if (state.sort >= 0) rows.sort((a, b) => compare(a.cells[state.sort].sort, b.cells[state.sort].sort, state.down));
    const numeric = i => tableIsNumber(rows, i);
    const head = el('tr', {}, ...heads.map((name, i) => el('th', {
      class: numeric(i) ? 'number' : null, scope: 'col', 'aria-sort': state.sort === i ? (state.down ? 'descending' : 'ascending') : 'none',
    }, el('button', { type: 'button', onclick: () => { state.down = state.sort === i && !state.down; state.sort = i; draw(); focusHead(table, i); } }, name))));
    table.replaceChildren(el('thead', {}, head), el('tbody', {}, ...rows.map(row => el('tr', {}, ...row.cells.map(cell => cell.node)))));
    count.textContent = rows.length === total ? `${total} rows` : `${rows.length} of ${total} rows`;
  };
  const search = el('input', { type: 'search', placeholder: 'filter, e.g. fifo or unstable', 'aria-label': 'Filter rows', id: 'filter',
    oninput: event => { state.filter = event.target.value.trim().toLowerCase(); draw(); } });
  const controls = el('div', { class: 'controls' }, search);
  if (several) controls.append(oneOf('Rows', [[false, 'by point'], [true, 'every run']], value => { state.byRun = value; state.sort = -1; draw(); }));
  controls.append(count);
  byId('summary').append(...[common()].filter(Boolean), controls, el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Runs' }, table),
    el('p', { class: 'caption' }, (several ? 'Means over seeds ± half the 95 % interval (Student’s t). ' : '')
      + 'JCT is the time from arrival to finish of measured jobs; the lowest mean of each setting is bold. An unstable run has no mean: its queue grew as long as it went on.'));
  draw();
}

const tableIsNumber = (rows, i) => rows.length > 0 && rows.every(row => row.cells[i].node.classList.contains('number'));
const focusHead = (table, i) => table.querySelectorAll('thead button')[i].focus();

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
  return down ? -order : order;
}
