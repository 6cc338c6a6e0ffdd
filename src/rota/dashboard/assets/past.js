// The slider to any past round. The gateway has all changes, so a step costs the scheduler nothing.
const past = { span: null, at: 0, asked: false, wanted: null, fresh: 0 };

async function openPast() {
  byId('past').hidden = false;
  byId('past').replaceChildren(el('p', { class: 'muted' }, 'Reading the rounds that are known …'));
  try { await showRound(Infinity, true); } catch (problem) { byId('past').replaceChildren(el('p', { class: 'notes' }, problem.message)); }
}

function closePast() {
  byId('past').hidden = true;
  mapState.past = null;
  byId('map').classList.remove('then');
  byId('h-overview').textContent = 'GPUs by server';
  drawMap(nodes);
}

async function showRound(at, fresh) {
  const round = await get(`/api/round?${new URLSearchParams({ at_s: Number.isFinite(at) ? at : 'inf', fresh: fresh ? 1 : 0 })}`);
  if (byId('past').hidden) return;
  past.at = round.at_s;
  if (fresh || !past.span) { past.span = round; drawSlider(); }
  mapState.past = new Map(Object.entries(round.nodes));
  byId('h-overview').textContent = `GPUs by server, ${ago((past.span.to_s - round.at_s) / past.span.time_scale)} ago`;
  drawMap(mapState.past);
  tellRound(round);
}

// One question at a time; of those that come meanwhile only the last is asked.
async function wantRound(at) {
  past.wanted = at;
  if (past.asked) return;
  past.asked = true;
  try { while (past.wanted !== null) { const next = past.wanted; past.wanted = null; await showRound(next, false); } } catch (problem) { byId('past-told').textContent = problem.message; } finally { past.asked = false; }
}

function drawSlider() {
  const { from_s, to_s, round_s } = past.span;
  const first = Math.floor(from_s / round_s);
  const last = Math.max(first, Math.floor(to_s / round_s));
  const slider = el('input', { type: 'range', id: 'past-slider', min: first, max: last, step: 1, value: last, 'aria-label': 'Round', oninput: event => wantRound((Number(event.target.value) + 1) * round_s - 1e-6) });
  slider.value = last;
  byId('past').replaceChildren(slider, el('p', { id: 'past-told', class: 'small', role: 'status' }), el('details', {}, el('summary', {}, 'Jobs that waited then'), el('div', { class: 'inside', id: 'past-waiting' })));
}

function tellRound(round) {
  const number = Math.floor(round.at_s / past.span.round_s);
  byId('past-told').textContent = `Round ${number.toLocaleString('en')}, second ${Math.round(round.at_s).toLocaleString('en')} of the scheduler's clock: ${round.running.toLocaleString('en')} jobs ran and ${round.waiting.toLocaleString('en')} waited${status.admin ? '' : ' (yours)'}. Arrow keys move by a round.`;
  const rows = round.oldest.map(([job, tenant, gpus, name]) => el('tr', {}, el('td', {}, el('a', { href: `#/job/${job}` }, String(job))), el('td', { class: 'text' }, name || '–'), el('td', {}, tenant), el('td', { class: 'number' }, text(gpus))));
  byId('past-waiting').replaceChildren(rows.length ? el('table', {}, el('thead', {}, el('tr', {}, ...['job', 'name', 'tenant', 'GPUs'].map(name => el('th', {}, name)))), el('tbody', {}, ...rows)) : el('p', { class: 'muted' }, 'None.'));
}
