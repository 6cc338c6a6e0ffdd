// What is told by the stream, the line at the top, and which page is shown.
const status = {};
let news = { again: () => {}, close: () => {} };

function takeStatus(message) {
  Object.assign(status, message);
  byId('title').textContent = status.policy ? `${status.policy} with ${status.mechanism}` : 'A Rota cluster';
  const line = byId('health');
  line.textContent = status.away ? `${status.sentence} Last heard ${ago(nowSeconds() - status.away_since)} ago or longer; what follows is as it was then.` : status.sentence;
  line.className = `verdict ${status.level}`;
  document.body.classList.toggle('is-stale', Boolean(status.away));
  for (const id of ['map', 'job-table', 'chart-cards']) byId(id).classList.toggle('stale', Boolean(status.away));
  if (message.eta_problem !== undefined) jobState.eta_problem = status.eta_problem;
  if (!status.policy) return;
  const fact = (value, name) => el('li', {}, el('b', {}, value), el('span', {}, name));
  byId('facts').replaceChildren(
    fact(status.running.toLocaleString('en'), 'running'), fact(status.queued.toLocaleString('en'), 'waiting'), fact(status.finished.toLocaleString('en'), 'finished'),
    fact(status.failed.toLocaleString('en'), 'failed'), fact(status.rounds.toLocaleString('en'), `rounds of ${plainNumber(status.round_s)} s`),
    fact(`${plainNumber(1000 * status.last_decision_s, 3)} ms`, 'last decision'), fact(text(status.late_solves), 'late decisions'),
    fact(status.tenant, status.admin ? 'you, an administrator' : 'you'));
}

const TAKE = { status: takeStatus, nodes: takeNodes, rows: takeRows, usage: takeUsage, decisions: takeDecisions };

function lineChanged(problem) {
  byId('gateway').hidden = !problem;
  byId('gateway').textContent = shown(problem);
  byId('map').classList.toggle('stale', Boolean(problem) || Boolean(status.away));
}

function route() {
  if (location.hash.startsWith('#enter=')) { location.reload(); return; }  // a new link in the same tab
  leave();
  leave = () => {};
  hideTip();
  const found = /^#\/(job|node)\/(.+)$/.exec(location.hash);
  const detail = byId('detail');
  detail.hidden = !found;
  for (const id of ['overview', 'jobs', 'charts']) byId(id).hidden = Boolean(found);
  if (!found) return;
  if (found[1] === 'job' && /^\d{1,18}$/.test(found[2])) showJob(Number(found[2]));
  else if (found[1] === 'node') showNode(decodeURIComponent(found[2]));
  byId('h-detail').focus();
  scrollTo(0, 0);
}

async function start() {
  mapControls();
  jobControls();
  try { await enter(); } catch (problem) { lineChanged(problem.message); byId('title').textContent = 'Not connected'; return; }
  if (!key) { lineChanged('Open the link that `rota dashboard` printed; it can be used once.'); byId('title').textContent = 'Not connected'; return; }
  news = followed(() => `/api/stream?${jobQuery()}`, message => TAKE[message.kind](message), lineChanged);
  addEventListener('hashchange', route);
  route();
}

start();
