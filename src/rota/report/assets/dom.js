// Elements, numbers as text, and what the page knows. Text is only ever set as text, never as markup.
const DATA = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';
const HOUR = 3600;

function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : shown(value));
  }
  node.append(...children.filter(child => child !== null && child !== undefined).map(shown));
  return node;
}

// Texts are other people's: what changes their direction or is not seen is shown by its number (core/control_characters.py).
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

function shown(value) {
  return typeof value === 'string' ? value.replace(UNSEEN, found => `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}>`) : value;
}

const byId = id => document.getElementById(id);

function text(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return plainNumber(value);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function plainNumber(value, digits = 4) {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString('en', { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(digits)));
}

function hours(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const value = seconds / HOUR;
  return value.toLocaleString('en', fixed(value >= 100 ? 1 : value >= 0.1 ? 2 : 4));
}

const fixed = n => ({ minimumFractionDigits: n, maximumFractionDigits: n });
const percent = part => part === null || part === undefined ? '–' : `${(100 * part).toFixed(1)} %`;

// A time in a unit people think in; `like` chooses the unit by another time, so that two can be compared.
function clock(seconds, like = seconds) {
  if (like < 120) return `${plainNumber(seconds, 3)} s`;
  if (like < 2 * HOUR) return `${(seconds / 60).toFixed(1)} min`;
  if (like < 72 * HOUR) return `${(seconds / HOUR).toFixed(2)} h`;
  return `${(seconds / 86400).toFixed(2)} days`;
}

// Metrics that a figure or a column can show: key -> label, unit, and how to write a value.
const METRICS = {
  mean_jct_s: { label: 'mean completion time', unit: 'hours', scale: 1 / HOUR, show: hours },
  p50_jct_s: { label: 'median completion time', unit: 'hours', scale: 1 / HOUR, show: hours },
  p90_jct_s: { label: '90th percentile', unit: 'hours', scale: 1 / HOUR, show: hours },
  p99_jct_s: { label: '99th percentile', unit: 'hours', scale: 1 / HOUR, show: hours },
  makespan_s: { label: 'makespan', unit: 'hours', scale: 1 / HOUR, show: hours },
  utilization: { label: 'utilisation', unit: '% of GPU time', scale: 100, show: percent },
  cost: { label: 'cost', unit: 'price', scale: 1, show: value => plainNumber(value) },
  mean_ftf: { label: 'mean finish-time fairness', unit: 'rho', scale: 1, show: value => plainNumber(value) },
  worst_ftf: { label: 'worst finish-time fairness', unit: 'rho', scale: 1, show: value => plainNumber(value) },
  unfair_fraction: { label: 'unfair jobs', unit: '% with rho above 1.05', scale: 100, show: percent },
  missed_fraction: { label: 'deadlines missed', unit: '% of jobs with one', scale: 100, show: percent },
};

// The look of a line is the same in every figure: the palette and dashes of Rota's printed figures.
const DASHES = ['', '9 3', '6 2 2 2', '2.2 2.2'];
const LOOKS = looks();
const colour = line => `c${LOOKS[line] % DATA.colours}`;
const dash = line => DASHES[LOOKS[line] % DASHES.length];
const lineName = run => DATA.lines[run.line];

// With more lines than colours, lines that never meet at a setting may share one.
function looks() {
  if (DATA.lines.length <= DATA.colours) return DATA.lines.map((_, i) => i);
  const places = DATA.lines.map((_, i) => new Set(DATA.groups.filter(g => g.line === i).map(g => DATA.settings[g.setting].scenario)));
  const found = [];
  places.forEach((own, i) => {
    const taken = new Set(found.filter((_, j) => [...own].some(place => places[j].has(place))));
    let look = 0;
    while (taken.has(look)) look += 1;
    found[i] = look;
  });
  return found;
}

function expand(column) {
  if (Array.isArray(column)) return column;
  return Array.from({ length: column.count }, (_, i) => column.first + i * column.step);
}

function sums(differences) {
  let total = 0;
  return differences.map(step => (total += step));
}

function choice(label, options, onchange, attributes = {}) {
  const select = el('select', { ...attributes, onchange: event => onchange(Number(event.target.value)) });
  options.forEach(([value, name]) => select.append(el('option', { value }, name)));
  return [el('label', {}, label, select), select];
}

function toggle(name, pressed, onchange, attributes = {}) {
  const button = el('button', { type: 'button', 'aria-pressed': String(pressed), ...attributes }, name);
  button.addEventListener('click', () => {
    const now = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(now));
    onchange(now);
  });
  return button;
}

// One of several, as buttons side by side.
function oneOf(label, options, onchange) {
  const box = el('span', { class: 'buttons', role: 'group', 'aria-label': label });
  options.forEach(([value, name], i) => {
    const button = el('button', { type: 'button', 'aria-pressed': String(i === 0), 'data-value': String(value) }, name);
    button.addEventListener('click', () => {
      for (const other of box.children) other.setAttribute('aria-pressed', String(other === button));
      onchange(value);
    });
    box.append(button);
  });
  return box;
}

const tip = byId('tip');

// Rows are [name, value, class]; the first is a heading.
function showTip(x, y, heading, rows) {
  tip.replaceChildren(el('b', {}, heading));
  for (const [name, value, look] of rows) tip.append(el('div', { class: look || 'bare' }, el('span', {}, name), el('span', {}, value)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 6))}px`;
}

const hideTip = () => { tip.hidden = true; };
