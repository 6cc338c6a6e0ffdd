// The page of one server: what it has, who holds it, and keeping jobs away from it for who may.
function drainButton(name, state, again) {
  const undo = state === 'drained' || state === 'draining';
  const button = el('button', { type: 'button', id: 'drain', class: undo ? null : 'danger' }, undo ? 'Let jobs back' : 'Drain: keep jobs away');
  button.addEventListener('click', async () => {
    button.disabled = true;
    try { await post('/api/drain', { node: name, undo }); again(); } catch (problem) { button.textContent = problem.message; }
  });
  return button;
}

function drawNode(info, body, again) {
  const devices = Object.entries(info.devices).map(([device, jobs]) => el('tr', {}, el('td', {}, device), el('td', {}, ...jobs.flatMap(job => [el('a', { href: `#/job/${job}` }, `job ${job}`), ' ']))));
  const hidden = info.cells.filter(cell => cell === OTHERS).length;
  const free = info.cells.filter(cell => cell === IDLE).length;
  const jobs = info.jobs.map(row => el('tr', {}, el('td', {}, el('a', { href: `#/job/${row[0]}` }, String(row[0]))), el('td', { class: 'text' }, row[1] || '–'), el('td', {}, row[2]), el('td', {}, row[3]), el('td', {}, row[6] === null ? '–' : progressBar(row[6]))));
  body.replaceChildren(
    status.admin ? el('p', { class: 'controls' }, drainButton(info.node, info.state, again)) : null || '',
    pairs([['state', info.state], ['GPUs', `${info.gpus} x ${info.type}, ${info.busy} held`], ['CPUs', plainNumber(info.cpus)], ['memory', `${plainNumber(info.memory_gb)} GB`],
      ['last heard', `${plainNumber(info.silent_s, 3)} s ago`], ['address', info.host || null], ['limits', info.limits || null], ['emulated', info.emulated ? 'yes' : null], ['remark', info.remark || null]]),
    el('div', { class: 'grid' },
      card('GPUs', null, el('table', {}, el('thead', {}, el('tr', {}, el('th', {}, 'device'), el('th', {}, 'held by'))), el('tbody', {}, ...devices,
        hidden ? el('tr', {}, el('td', {}, `${hidden} more`), el('td', { class: 'muted' }, 'other tenants')) : null, free ? el('tr', {}, el('td', {}, `${free} more`), el('td', { class: 'muted' }, 'free')) : null))),
      card('Jobs here', null, info.jobs.length ? el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, ...['job', 'name', 'tenant', 'phase', 'done'].map(name => el('th', {}, name)))), el('tbody', {}, ...jobs))) : el('p', { class: 'muted' }, 'None that you may see.'))));
}

function showNode(name) {
  const control = new AbortController();
  const body = el('div');
  let timer = 0;
  let last = '';
  const refresh = async () => {
    clearTimeout(timer);
    try {
      const info = await get(`/api/node/${encodeURIComponent(name)}`, { signal: control.signal });
      const now = JSON.stringify(info);
      if (now !== last) { last = now; drawNode(info, body, refresh); }
    } catch (problem) {
      if (control.signal.aborted) return;
      if (problem.status) body.replaceChildren(el('p', { class: 'notes' }, problem.message));
    }
    if (!control.signal.aborted) timer = setTimeout(refresh, 2000);
  };
  byId('h-detail').textContent = `Server ${name}`;
  byId('detail-body').replaceChildren(body);
  refresh();
  leave = () => { control.abort(); clearTimeout(timer); };
}
