// The page of one job: how it is, its attempts, what its time went into, what it asked for and holds, its output as it comes.
let leave = () => {};

function pairs(rows) {
  return el('dl', { class: 'pairs' }, ...rows.filter(row => row && row[1] !== null && row[1] !== '').flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

const moment = at => at ? new Date(1000 * at).toLocaleString() : '–';
const amount = (value, unit) => value ? `${plainNumber(value)} ${unit}` : 'not said';

function attemptsChart(info) {
  const attempts = info.attempts;
  if (!attempts.length) return el('p', { class: 'muted' }, 'No attempt yet.');
  const host = el('div');
  const begin = info.submitted_at;
  const end = info.ended_at || nowSeconds();
  const shown = attempts.slice(-40);
  sized(host, width => {
    const rowHeight = 18;
    const left = Math.min(190, Math.round(width * 0.34));
    const X = scale(begin, Math.max(end, begin + 1), left, width - 8, false);
    const root = svg('svg', { class: 'plot times', viewBox: `0 0 ${width} ${rowHeight * shown.length + 26}`, height: rowHeight * shown.length + 26, role: 'img', 'aria-label': `${attempts.length} attempts since submission` });
    shown.forEach((attempt, i) => {
      const y = i * rowHeight;
      const from = X(attempt.started_at);
      const to = X(attempt.ended_at || end);
      const look = !attempt.outcome ? 'c2' : attempt.outcome === 'completed' ? 'c0' : attempt.outcome === 'stopped' ? 'c1' : 'c3';
      const group = svg('g', { class: look });
      const label = `${attempt.attempt}: ${attempt.nodes.join(', ')}`;
      const most = Math.max(6, Math.floor((left - 8) / 6.6));
      group.append(svg('text', { class: 'label', x: 0, y: y + 13 }, label.length > most ? `${label.slice(0, most - 1)}…` : label));
      group.append(svg('rect', { class: 'block', x: from, y: y + 3, width: Math.max(2, to - from), height: rowHeight - 6, rx: 2 }));
      const how = attempt.outcome ? `${attempt.outcome}${attempt.stop_reason ? ` (${attempt.stop_reason})` : ''}${attempt.exit_code ? `, exit code ${attempt.exit_code}` : ''}` : 'runs';
      const rows = [['servers', attempt.nodes.join(', ')], ['time', ago((attempt.ended_at || end) - attempt.started_at)], ['outcome', how], ...(attempt.detail ? [[attempt.detail.slice(0, 200), '']] : [])];
      group.append(svg('title', {}, `attempt ${label}: ${how}`));
      group.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, `attempt ${attempt.attempt}`, rows));
      group.addEventListener('pointerleave', hideTip);
      root.append(group);
    });
    const y = rowHeight * shown.length;
    root.append(svg('line', { class: 'axis', x1: left, x2: width - 8, y1: y + 4, y2: y + 4 }));
    root.append(svg('text', { x: left, y: y + 19 }, 'submitted'), svg('text', { x: width - 8, y: y + 19, 'text-anchor': 'end' }, info.ended_at ? `ended, ${ago(end - begin)} later` : `now, ${ago(end - begin)} later`));
    host.replaceChildren(root);
  });
  return host;
}

function splitBar(parts) {
  const total = parts.reduce((sum, part) => sum + part[1], 0);
  const bar = el('div', { class: 'bar', role: 'img', 'aria-label': parts.map(([name, value]) => `${name} ${percent(value / total)}`).join(', ') });
  parts.forEach(([, value, look]) => {
    const piece = el('span', { class: look });
    piece.style.width = `${100 * value / total}%`;
    bar.append(piece);
  });
  return el('div', {}, bar, el('div', { class: 'legend' }, ...parts.map(([name, value, look]) => el('span', { class: 'plain' }, el('i', { class: `patch ${look}` }), `${name} ${percent(value / total)}`))));
}

// CPUs that its processes kept busy since the last look; null: not known yet, or not measured.
const lastUse = { job: -1, epoch: -1, cpu_s: 0, at: 0, cpus: null };

function cpusInUse(info) {
  const now = nowSeconds();
  const same = lastUse.job === info.job && lastUse.epoch === info.epoch && lastUse.cpu_s > 0;
  if (!same) Object.assign(lastUse, { job: info.job, epoch: info.epoch, cpu_s: info.cpu_used_s, at: now, cpus: null });
  else if (info.cpu_used_s > lastUse.cpu_s || now - lastUse.at > 10) {
    Object.assign(lastUse, { cpus: Math.max(0, info.cpu_used_s - lastUse.cpu_s) / Math.max(0.5, now - lastUse.at), cpu_s: info.cpu_used_s, at: now });
  }
  return lastUse.cpus;
}

function resources(info) {
  const cpus = cpusInUse(info);
  const held = key => info.parts.reduce((sum, part) => sum + part[key], 0);
  const runs = info.parts.length > 0;
  const gpus = info.parts.reduce((sum, part) => sum + part.devices.length, 0);
  const row = (name, asked, has, uses) => el('tr', {}, el('td', {}, name), ...[asked, runs ? has : '–', uses].map(value => el('td', { class: 'number' }, value)));
  const measured = runs && info.cpu_used_s > 0;
  return el('table', {}, el('thead', {}, el('tr', {}, el('th', {}, ''), el('th', { class: 'number' }, 'asked for'), el('th', { class: 'number' }, 'holds now'), el('th', { class: 'number' }, 'uses now'))),
    el('tbody', {}, row('GPUs', text(info.spec.gpus ?? 1), text(gpus), '–'), row('CPUs', amount(info.spec.cpus, ''), plainNumber(held('cpus')), measured && cpus !== null ? cpus.toFixed(2) : '–'),
      row('memory, GB', amount(info.spec.memory_gb, ''), plainNumber(held('memory_gb')), measured ? info.memory_used_gb.toFixed(3) : '–')));
}

function jobFacts(info) {
  const spec = info.spec;
  const steps = spec.steps ? `${info.step.toLocaleString('en')} of ${spec.steps.toLocaleString('en')}; saved ${info.saved_step.toLocaleString('en')}` : info.step ? `${info.step.toLocaleString('en')}; how many it has is not known` : '–';
  const places = info.parts.map((part, i) => el('span', {}, i ? ', ' : '', el('a', { href: `#/node/${encodeURIComponent(part.node)}` }, part.node), `: ${part.devices.join(', ')}`));
  return pairs([
    ['phase', `${info.phase}${info.reason ? `: ${info.reason}` : ''}`], ['tenant', spec.tenant || 'default'], ['command', spec.argv ? spec.argv.join(' ') : 'emulated'],
    ['profile', spec.profile || spec.model || null], ['runs on', places.length ? el('span', {}, ...places) : null], ['steps', steps],
    ['submitted', moment(info.submitted_at)], ['started', moment(info.started_at)], ['ended', info.ended_at ? moment(info.ended_at) : null],
    ['attempts', `${info.epoch}; ${info.restarts} failed, ${info.preemptions} preempted`], ['can save', `${info.can_save ? 'yes' : 'no'}: ${info.can_save_why}`],
    ['lost work', info.lost_steps || info.lost_s ? `${info.lost_steps.toLocaleString('en')} steps, ${plainNumber(info.lost_s)} s` : null], ['warning', info.warning || null],
  ]);
}

function drawJob(info, body) {
  const done = info.spec.steps ? Math.min(1, info.step / info.spec.steps) : null;
  const spent = [['computing', info.compute_s, 'c2'], ['waiting for preparation', info.prepare_s, 'c1'], ['waiting for storage', info.storage_s, 'c3']];
  const measured = spent.some(part => part[1] > 0);
  body.replaceChildren(
    el('div', { class: 'grid' },
      card('Progress', done === null ? null : el('span', { class: 'small' }, percent(done)), el('div', {}, done === null ? null : progressBar(done), jobFacts(info))),
      el('div', {},
        card('Attempts', null, attemptsChart(info)),
        card('Where its time goes', null, measured ? splitBar(spent) : el('p', { class: 'muted small' }, 'Not measured: its training loop does not use rota.client, or has not reported yet.')),
        card('Asked for, held and used', null, resources(info)))));
}

function why(answer) {
  const changes = answer.changes.map(change => el('li', {}, `${change.by === 'you' ? 'you' : 'an operator'} could ${change.what} (${change.price})`));
  return el('div', {}, el('p', {}, answer.reason || answer.code), changes.length ? el('ul', {}, ...changes) : el('p', { class: 'muted' }, 'No single change was found that would place it in the next round.'));
}

function logCard(number) {
  const output = el('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-label': `output of job ${number}` });
  const control = new AbortController();
  const put = message => {
    const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 24;
    const line = message.note !== undefined ? `— ${message.note}` : `${message.rank ? `[${message.rank}] ` : ''}${message.line}`;
    output.append(el('span', { class: message.note !== undefined ? 'note' : message.stream === 'e' || message.stream === 'stderr' ? 'stderr' : null }, line, '\n'));
    while (output.children.length > 2000) output.firstChild.remove();
    if (atEnd) output.scrollTop = output.scrollHeight;
  };
  const open = async () => {
    while (!control.signal.aborted) {
      try { await messages(`/api/job/${number}/log`, control.signal, put); return; } catch (problem) {
        if (control.signal.aborted) return;
        put({ note: problem.status ? problem.message : 'the line to the gateway broke; trying again' });
        if (problem.status) return;
        await new Promise(go => setTimeout(go, 2000));
        output.replaceChildren();
      }
    }
  };
  open();
  return [card('Output', el('span', { class: 'small muted' }, 'the last 500 lines, and new ones as they come'), output), () => control.abort()];
}

function cancelButton(number, again) {
  const button = el('button', { type: 'button', class: 'danger', id: 'cancel' }, 'Cancel this job');
  button.addEventListener('click', async () => {
    if (button.dataset.sure !== '1') { button.dataset.sure = '1'; button.textContent = 'Really cancel it? Press again'; setTimeout(() => { button.dataset.sure = ''; button.textContent = 'Cancel this job'; }, 5000); return; }
    button.disabled = true;
    try { const answer = await post('/api/cancel', { job: number }); button.textContent = answer.cancelled.length ? 'It is being ended' : 'It was over already'; again(); } catch (problem) { button.disabled = false; button.textContent = problem.message; }
  });
  return button;
}

function showJob(number) {
  const body = el('div');
  const notes = el('div');
  const control = new AbortController();
  let timer = 0;
  const refresh = async () => {
    clearTimeout(timer);
    try {
      const info = await get(`/api/job/${number}`, { signal: control.signal });
      byId('h-detail').textContent = shown(`Job ${number}${info.spec.name ? `: ${info.spec.name}` : ''}`);
      drawJob(info, body);
      actions.hidden = Boolean(info.ended_at);
      whyButton.hidden = info.parts.length > 0;
      if (info.ended_at) return;
    } catch (problem) {
      if (control.signal.aborted) return;
      if (problem.status === 400) { byId('h-detail').textContent = `Job ${number}`; body.replaceChildren(el('p', { class: 'notes' }, problem.message)); actions.hidden = true; return; }
    }
    if (!control.signal.aborted) timer = setTimeout(refresh, 2000);
  };
  const whyButton = el('button', { type: 'button', onclick: async () => {
    notes.replaceChildren(el('p', { class: 'muted' }, 'Asking …'));
    try { notes.replaceChildren(why(await get(`/api/job/${number}/why`))); } catch (problem) { notes.replaceChildren(el('p', { class: 'notes' }, problem.message)); }
  } }, 'Why does it wait?');
  const actions = el('p', { class: 'controls' }, whyButton, cancelButton(number, refresh));
  const [output, closeLog] = logCard(number);
  byId('h-detail').textContent = `Job ${number}`;
  byId('detail-body').replaceChildren(actions, notes, body, output);
  refresh();
  leave = () => { control.abort(); clearTimeout(timer); closeLog(); };
}
