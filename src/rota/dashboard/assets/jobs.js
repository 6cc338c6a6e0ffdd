// The table of jobs. The gateway sorts, searches and cuts it into pages, and tells only rows that changed.
const COLUMNS = [
  ['job', 'job', 0], ['name', 'name', 1, 'text'], ['tenant', 'tenant', 2, 'text wide'], ['phase', 'phase', 3], ['gpus', 'GPUs', 4, 'number'],
  ['done', 'done', 6], ['time', 'time', 7, 'number'], ['eta', 'starts', 12, 'wide'], ['reason', 'reason or place', 9, 'text wide'],
];
const jobState = { show: 'waiting', search: '', sort: 'job', down: 0, page: 0, total: 0, order: [], rows: new Map(), eta_problem: '' };
const PAGE = 50;

const jobQuery = () => new URLSearchParams({ show: jobState.show, search: jobState.search, sort: jobState.sort, down: jobState.down, page: jobState.page }).toString();

function ago(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [size, unit, small, name] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'm'], [60, 'm', 1, 's']]) {
    if (whole >= size) return `${Math.floor(whole / size)}${unit}${String(Math.floor(whole % size / small)).padStart(2, '0')}${name}`;
  }
  return `${whole}s`;
}

const nowSeconds = () => Date.now() / 1000;

function etaText(band) {
  if (!band) return '–';
  const [at, low, high, unknown] = band;
  if (at === null) return unknown ? 'unknown' : 'later';
  const one = moment => moment === null ? 'later' : moment - nowSeconds() < 1 ? 'now' : ago(moment - nowSeconds());
  const alone = at - nowSeconds() < 1 ? 'now' : `in ${one(at)}`;
  return low === null && high === null ? alone : `${alone} (${one(low)} – ${one(high)})`;
}

function progressBar(part) {
  const bar = el('div', { class: 'bar', role: 'img', 'aria-label': percent(part) }, el('span'));
  bar.firstChild.style.width = `${100 * part}%`;
  return bar;
}

const PHASE_LOOK = { running: '', finished: '', failed: 'bad', waiting: 'warn', stopping: 'warn' };

function jobCell(column, row) {
  const [key, , place] = column;
  if (key === 'job') return el('a', { href: `#/job/${row[0]}` }, String(row[0]));
  if (key === 'phase') return el('span', { class: `status ${PHASE_LOOK[row[3]] ?? 'idle'}` }, row[3]);
  if (key === 'done') return row[6] === null ? '–' : el('span', { title: percent(row[6]) }, progressBar(row[6]));
  if (key === 'time') return el('span', { 'data-since': row[7], 'data-until': row[8] || null }, ago((row[8] || nowSeconds()) - row[7]));
  if (key === 'eta') return el('span', { title: row[12] ? row[12][3] : jobState.eta_problem }, row[8] || row[11] ? '–' : etaText(row[12]));
  if (key === 'reason') return row[11] ? `on ${row[11]}` : el('span', { title: row[10] }, row[9] || row[10] || '–');
  return text(row[place]) || '–';
}

function jobRow(row) {
  return el('tr', { 'data-job': row[0] }, ...COLUMNS.map(column => el('td', { class: column[3] || null }, jobCell(column, row))));
}

function takeRows(message) {
  for (const row of message.set || []) jobState.rows.set(row[0], { values: row, element: jobRow(row) });
  if (message.total !== undefined) jobState.total = message.total;
  if (message.order) {
    jobState.order = message.order;
    const wanted = new Set(message.order);
    for (const job of jobState.rows.keys()) if (!wanted.has(job)) jobState.rows.delete(job);
  }
  const body = byId('job-table').tBodies[0];
  const focused = document.activeElement && document.activeElement.closest('tr[data-job]');
  const rows = jobState.order.map(job => jobState.rows.get(job)).filter(Boolean).map(row => row.element);
  const same = body.children.length === rows.length && rows.every((row, i) => body.children[i] === row);
  if (!same) body.replaceChildren(...rows);
  if (focused && !focused.isConnected) { const again = body.querySelector(`tr[data-job="${focused.dataset.job}"] a`); if (again) again.focus(); }
  if (!rows.length) body.replaceChildren(el('tr', {}, el('td', { colspan: COLUMNS.length, class: 'muted' }, jobState.search ? 'No job matches.' : `No jobs here.`)));
  drawPages();
}

function drawPages() {
  const pages = Math.max(1, Math.ceil(jobState.total / PAGE));
  const go = step => { jobState.page = Math.max(0, Math.min(pages - 1, jobState.page + step)); news.again(); };
  const first = jobState.total ? jobState.page * PAGE + 1 : 0;
  byId('job-pages').replaceChildren(
    el('button', { type: 'button', disabled: jobState.page === 0, onclick: () => go(-1) }, '← previous'),
    el('span', { class: 'small muted', id: 'job-count' }, `${first.toLocaleString('en')} to ${Math.min(jobState.total, first + PAGE - (first ? 1 : 0)).toLocaleString('en')} of ${jobState.total.toLocaleString('en')} jobs`),
    el('button', { type: 'button', disabled: jobState.page >= pages - 1, onclick: () => go(1) }, 'next →'));
}

function jobHead() {
  const head = el('tr', {}, ...COLUMNS.map(([key, label, , look]) => {
    const sorted = jobState.sort === key ? (jobState.down ? 'descending' : 'ascending') : null;
    const hint = key === 'eta' ? 'if nobody else comes, and in brackets 10 to 90 % of sampled futures' : null;
    return el('th', { scope: 'col', title: hint, class: look || null, 'aria-sort': sorted }, el('button', { type: 'button', onclick: () => {
      jobState.down = jobState.sort === key && !jobState.down ? 1 : 0;
      jobState.sort = key;
      jobState.page = 0;
      jobHead();
      news.again();
    } }, label));
  }));
  const focus = document.activeElement && document.activeElement.closest('#job-table thead') ? document.activeElement.textContent : null;
  byId('job-table').tHead.replaceChildren(head);
  if (focus) [...head.querySelectorAll('button')].find(button => button.textContent === focus).focus();
}

function jobControls() {
  let later = 0;
  const search = el('input', { type: 'search', placeholder: 'name, tenant, server, reason, number', 'aria-label': 'Search jobs', oninput: event => {
    clearTimeout(later);
    later = setTimeout(() => { jobState.search = event.target.value; jobState.page = 0; news.again(); }, 250);
  } });
  const which = oneOf('Which jobs', [['waiting', 'waiting'], ['running', 'running'], ['over', 'over'], ['all', 'all']], show => {
    jobState.show = show; jobState.page = 0; news.again();
  });
  byId('job-controls').append(which, search);
  jobHead();
}

// Times go on between two messages.
setInterval(() => {
  for (const time of document.querySelectorAll('[data-since]')) {
    if (!time.dataset.until) time.textContent = ago(nowSeconds() - Number(time.dataset.since));
  }
}, 1000);
