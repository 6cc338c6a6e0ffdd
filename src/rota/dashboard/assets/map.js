// The map: one box per server, one square per GPU, coloured by tenant or by job. Only boxes that changed are made anew.
const IDLE = -1;
const OTHERS = -2;
const nodes = new Map();
const boxes = new Map();
const mapState = { by: 'tenant', past: null };
const tenantLooks = new Map();

function lookOfTenant(tenant) {
  if (!tenantLooks.has(tenant)) tenantLooks.set(tenant, tenantLooks.size);
  return tenantLooks.get(tenant);
}

function lookClass(number) {
  return `c${number % DATA.colours}${Math.floor(number / DATA.colours) % 2 ? ' dotted' : ''}`;
}

function gpuSquare(cell) {
  if (cell === IDLE) return el('i');
  if (!Array.isArray(cell)) return el('i', { class: 'others' });
  const [job, tenant] = cell;
  return el('i', { class: `held ${lookClass(mapState.by === 'tenant' ? lookOfTenant(tenant) : job)}`, 'data-job': job });
}

function serverBox(name, [type, state, remark, cells]) {
  const held = cells.filter(cell => cell !== IDLE).length;
  const note = state === 'up' ? type : state;
  const box = el('a', {
    class: `server ${state}${remark ? ' troubled' : ''}`, href: `#/node/${encodeURIComponent(name)}`,
    'aria-label': `server ${name}, ${type}, ${state}, ${held} of ${cells.length} GPUs held${remark ? `, ${remark}` : ''}`,
  }, el('b', {}, el('span', {}, name), el('span', {}, note)), el('span', { class: 'gpus', 'aria-hidden': 'true' }, ...cells.map(gpuSquare)));
  const tell = (x, y) => showTip(x, y, `${name}: ${type}, ${state}`, serverRows(cells, remark));
  box.addEventListener('pointermove', event => tell(event.clientX, event.clientY));
  box.addEventListener('pointerleave', hideTip);
  box.addEventListener('focus', () => { const at = box.getBoundingClientRect(); tell(at.left, at.bottom); });
  box.addEventListener('blur', hideTip);
  return box;
}

// An administrator sees all jobs, so one that is not known yet has only just begun.
const otherTenants = () => status.admin ? 'just starting' : 'other tenants';

function serverRows(cells, remark) {
  const counts = new Map();
  for (const cell of cells) {
    const label = cell === IDLE ? 'free' : Array.isArray(cell) ? `job ${cell[0]} of ${cell[1]}` : otherTenants();
    counts.set(label, (counts.get(label) || 0) + 1);
  }
  const rows = [...counts].map(([label, count]) => [label, `${count} GPU${count === 1 ? '' : 's'}`]);
  return remark ? [...rows, [remark, '']] : rows;
}

const byName = new Intl.Collator('en', { numeric: true }).compare;

function drawMap(shown, changed = null) {
  const host = byId('map');
  const names = [...shown.keys()].sort(byName);
  for (const name of changed || names) if (shown.has(name)) boxes.set(name, serverBox(name, shown.get(name)));
  for (const name of boxes.keys()) if (!shown.has(name)) boxes.delete(name);
  const wanted = names.map(name => boxes.get(name) || serverBox(name, shown.get(name)));
  const there = host.children;
  if (there.length !== wanted.length || changed === null) host.replaceChildren(...wanted);
  else wanted.forEach((box, i) => { if (there[i] !== box) host.replaceChild(box, there[i]); });
  if (!wanted.length) host.replaceChildren(el('p', { class: 'muted' }, 'No server has joined.'));
  drawLegend(shown);
}

function drawLegend(shown) {
  const tenants = new Map();
  let others = 0;
  let free = 0;
  for (const [, , , cells] of shown.values()) {
    for (const cell of cells) {
      if (Array.isArray(cell)) tenants.set(cell[1], (tenants.get(cell[1]) || 0) + 1);
      else if (cell === OTHERS) others += 1;
      else free += 1;
    }
  }
  const most = [...tenants].sort((a, b) => b[1] - a[1]);
  const item = (look, name, count) => el('span', { class: 'plain' }, el('i', { class: `patch ${look}` }), `${name}: ${count.toLocaleString('en')}`);
  const parts = mapState.by === 'tenant' ? most.slice(0, 16).map(([tenant, count]) => item(lookClass(lookOfTenant(tenant)), tenant, count)) : [el('span', { class: 'plain' }, 'colours repeat; point at a server to see its jobs')];
  if (mapState.by === 'tenant' && most.length > 16) parts.push(el('span', { class: 'plain' }, `and ${most.length - 16} more tenants`));
  if (others) parts.push(item('others', otherTenants(), others));
  parts.push(el('span', { class: 'plain' }, `free: ${free.toLocaleString('en')}`));
  byId('map-legend').replaceChildren(...parts);
}

function takeNodes(message) {
  for (const [name, values] of Object.entries(message.set)) nodes.set(name, values);
  for (const name of message.gone) nodes.delete(name);
  if (mapState.past === null) drawMap(nodes, Object.keys(message.set));
}

function mapControls() {
  byId('map-controls').append(
    oneOf('Colour by', [['tenant', 'by tenant'], ['job', 'by job']], by => { mapState.by = by; drawMap(mapState.past || nodes); }),
    toggle('Past rounds', false, on => on ? openPast() : closePast(), { id: 'past-button' }));
}
