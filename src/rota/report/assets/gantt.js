// Who held which GPU when: a canvas with zoom (wheel, buttons, keys) and pan (drag, keys). Rows are GPUs.
const AXIS = 26;
const LOOKS_OF_BARS = 2 * DATA.bar_colours;

function gantt() {
  const host = byId('gantt');
  if (!DATA.gantts.length) {
    host.append(el('p', { class: 'muted' }, 'No placements are known. Give an event log beside the results (rota simulate --events run.jsonl.gz; rota report RESULTS run.jsonl.gz), or let a run of the store be made again (--gantt KEY).'));
    return;
  }
  const name = g => {
    const run = DATA.runs[g.run];
    const seed = run.values.seed === undefined ? '' : `, seed ${text(run.values.seed)}`;
    return DATA.settings.length > 1 ? `${lineName(run)} — ${DATA.settings[run.setting].label}${seed}` : `${lineName(run)}${seed}`;
  };
  const chart = new Gantt();
  const [run] = choice('run', DATA.gantts.map((g, i) => [i, name(g)]), i => chart.load(DATA.gantts[i]), { id: 'gantt-run' });
  const looks = oneOf('Colour by', [['job', 'job'], ['profile', 'model'], ['tenant', 'tenant']], by => { chart.by = by; chart.draw(); });
  const button = (label, title, action) => el('button', { type: 'button', title, 'aria-label': title, onclick: action }, label);
  const zoom = el('span', { class: 'buttons', id: 'zoom' }, button('−', 'Zoom out', () => chart.zoom(2)), button('+', 'Zoom in', () => chart.zoom(0.5)), button('all', 'Show all', () => chart.all()));
  host.append(el('div', { class: 'controls' }, run, el('label', {}, 'colour by', looks), zoom, chart.window), chart.box, chart.legend, chart.caption);
  chart.load(DATA.gantts[0]);
}

class Gantt {
  constructor() {
    this.by = 'job';
    this.window = el('span', { class: 'muted small', id: 'gantt-window', role: 'status' });
    this.caption = el('p', { class: 'caption' });
    this.legend = el('div', { class: 'legend' });
    this.canvas = el('canvas', { id: 'gantt-canvas', tabindex: 0, role: 'application', 'aria-label': 'Gantt chart; arrow keys move, plus and minus zoom, 0 shows all' });
    this.box = el('div', { class: 'ganttbox' }, this.canvas);
    this.canvas.addEventListener('wheel', event => this.wheel(event), { passive: false });
    this.canvas.addEventListener('pointerdown', event => this.grab(event));
    this.canvas.addEventListener('pointermove', event => this.move(event));
    this.canvas.addEventListener('pointerup', () => this.drop());
    this.canvas.addEventListener('pointercancel', () => this.drop());
    this.canvas.addEventListener('pointerleave', hideTip);
    this.canvas.addEventListener('dblclick', event => this.zoom(0.5, this.time(event)));
    this.canvas.addEventListener('keydown', event => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  load(data) {
    this.data = data;
    const { unit } = data;
    this.start = sums(data.start).map(t => t * unit);
    this.end = data.length.map((t, i) => this.start[i] + t * unit);
    this.rows = data.servers.reduce((total, server) => total + server.gpus, 0);
    this.ofRow = Array.from({ length: this.rows }, () => []);
    data.row.forEach((row, i) => { for (let r = row; r < row + data.rows[i]; r++) this.ofRow[r].push(i); });
    this.about = {};
    for (const key of ['profile', 'tenant', 'gpus']) if (data.jobs[key]) this.about[key] = expand(data.jobs[key]);
    this.found = this.looks();
    this.from = data.window[0];
    this.to = data.window[1];
    const run = DATA.runs[data.run];
    const busy = this.start.reduce((total, s, i) => total + (this.end[i] - s) * data.rows[i], 0);
    this.caption.textContent = [
      `${data.start.length.toLocaleString('en')} bars on ${this.rows} GPUs`,
      `${percent(busy / ((data.window[1] - data.window[0]) * this.rows))} of the GPU time shown is held`,
      data.cut, run.again ? 'run again for this report, because a store keeps no placements' : null,
      'which GPU of a server a job holds is not in a log: rows within a server are ours',
      data.partner ? 'hatched: two jobs share the GPU' : null,
    ].filter(Boolean).join('; ') + '. Wheel or + and − zoom, drag or arrow keys move.';
    this.draw();
  }

  all() { [this.from, this.to] = this.data.window; this.draw(); }

  zoom(factor, around = (this.from + this.to) / 2) {
    const [first, last] = this.data.window;
    const span = Math.min(last - first, Math.max(this.data.unit * 20, (this.to - this.from) * factor));
    const part = (around - this.from) / (this.to - this.from);
    this.place(around - part * span, span);
  }

  place(from, span) {
    const [first, last] = this.data.window;
    this.from = Math.max(first, Math.min(from, last - span));
    this.to = this.from + span;
    this.draw();
  }

  pan(part) { this.place(this.from + part * (this.to - this.from), this.to - this.from); }

  wheel(event) {
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); this.pan((event.deltaX || event.deltaY) / 800); return; }
    if (!event.ctrlKey && document.activeElement !== this.canvas && !this.canvas.matches(':hover')) return;
    event.preventDefault();
    this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), this.time(event));
  }

  grab(event) {
    this.held = { x: event.clientX, y: event.clientY, from: this.from, top: this.box.scrollTop };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.classList.add('held');
    hideTip();
  }

  drop() { this.held = null; this.canvas.classList.remove('held'); }

  move(event) {
    if (this.held) {
      const span = this.to - this.from;
      this.box.scrollTop = this.held.top - (event.clientY - this.held.y);
      this.place(this.held.from - (event.clientX - this.held.x) / this.width * span, span);
      return;
    }
    const box = this.canvas.getBoundingClientRect();
    const t = this.time(event);
    const row = Math.floor((event.clientY - box.top - AXIS) / this.size);
    const bar = (this.ofRow[row] || []).find(i => this.start[i] <= t && t < this.end[i]);
    if (bar === undefined || event.clientX - box.left < this.left) { hideTip(); return; }
    const { data } = this;
    const job = data.job[bar];
    const rows = [['GPU', this.rowName(row)], ['from', clock(this.start[bar], this.end[bar])], ['to', clock(this.end[bar])], ['for', clock(this.end[bar] - this.start[bar])]];
    for (const j of [job, data.partner ? data.partner[bar] : -1]) {
      if (j < 0) continue;
      if (j !== job) rows.push(['shared with job', String(j)]);
      if (this.about.profile) rows.push(['model', data.jobs.profiles[this.about.profile[j]]]);
      if (data.jobs.tenants && data.jobs.tenants.length > 1) rows.push(['tenant', data.jobs.tenants[this.about.tenant[j]]]);
      if (this.about.gpus) rows.push(['asks for', `${this.about.gpus[j]} GPU${this.about.gpus[j] > 1 ? 's' : ''}`]);
    }
    showTip(event.clientX, event.clientY, `job ${job}`, rows);
  }

  time(event) {
    const box = this.canvas.getBoundingClientRect();
    const part = Math.max(0, Math.min(1, (event.clientX - box.left - this.left) / this.width));
    return this.from + part * (this.to - this.from);
  }

  key(event) {
    const moves = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), 0: () => this.all(), Home: () => this.pan(-1e9), End: () => this.pan(1e9) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  rowName(row) {
    let first = 0;
    for (const server of this.data.servers) {
      if (row < first + server.gpus) return `${server.id}, GPU ${row - first} (${server.type})`;
      first += server.gpus;
    }
    return '';
  }

  // Looks are colours, then the same colours with dots. Jobs get theirs in the order of their first bar, so that those
  // side by side differ; models and tenants by GPU time, and those beyond the looks share a grey one.
  looks() {
    const { data } = this;
    const found = { job: new Map(), profile: new Map(), tenant: new Map() };
    data.job.forEach(job => { if (!found.job.has(job)) found.job.set(job, found.job.size % LOOKS_OF_BARS); });
    for (const key of ['profile', 'tenant']) {
      if (!this.about[key]) continue;
      const held = new Map();
      data.job.forEach((job, i) => held.set(this.about[key][job], (held.get(this.about[key][job]) || 0) + (this.end[i] - this.start[i]) * data.rows[i]));
      const order = [...held.keys()].sort((a, b) => held.get(b) - held.get(a) || a - b);
      const own = order.length <= LOOKS_OF_BARS ? order.length : LOOKS_OF_BARS - 1;
      order.forEach((place, i) => found[key].set(place, i < own ? i : LOOKS_OF_BARS));
    }
    return found;
  }

  look(bar) {
    const job = this.data.job[bar];
    if (this.by === 'job' || !this.about[this.by]) return this.found.job.get(job);
    return this.found[this.by].get(this.about[this.by][job]);
  }

  draw() {
    if (!this.data || !this.box.clientWidth) return;
    const { canvas, data } = this;
    const full = this.box.clientWidth;
    this.left = full < 560 ? 62 : 104;
    this.width = full - this.left - 8;
    const ratio = Math.min(3, devicePixelRatio || 1);
    // A canvas has a largest height; beyond it rows of very large clusters get thinner.
    this.size = Math.min(Math.max(4, Math.min(20, Math.floor(560 / this.rows))), 14000 / ratio / this.rows);
    const height = Math.ceil(AXIS + this.size * this.rows + 2);
    canvas.width = full * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const look = getComputedStyle(document.documentElement);
    const value = key => look.getPropertyValue(key).trim();
    const palette = Array.from({ length: DATA.bar_colours }, (_, i) => value(`--c${i}`));
    const paint = look => look === LOOKS_OF_BARS ? value('--line') : palette[look % palette.length];
    const X = t => this.left + (t - this.from) / (this.to - this.from) * this.width;
    this.grid(pen, X, height, value);
    pen.save();
    pen.beginPath();
    pen.rect(this.left, AXIS, this.width, height - AXIS);
    pen.clip();
    const gap = this.size > 6 ? 1 : 0.5;
    pen.font = `${Math.min(11, this.size - 4)}px system-ui, sans-serif`;
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    for (let i = 0; i < this.start.length; i++) {
      if (this.end[i] < this.from) continue;
      if (this.start[i] > this.to) break;
      const [x0, x1] = [X(this.start[i]), X(this.end[i])];
      const y = AXIS + data.row[i] * this.size + gap / 2;
      const h = data.rows[i] * this.size - gap;
      const look = this.look(i);
      const ink = readable(paint(look));
      pen.fillStyle = paint(look);
      pen.fillRect(x0, y, Math.max(0.6, x1 - x0 - (x1 - x0 > 3 ? 0.7 : 0)), h);
      if (data.partner && data.partner[i] >= 0) this.hatch(pen, Math.max(x0, this.left), y, Math.min(x1, this.left + this.width) - Math.max(x0, this.left), h, value('--back'));
      const dotted = look >= palette.length && look < LOOKS_OF_BARS;
      if (dotted) this.dots(pen, Math.max(x0, this.left), y, Math.min(x1, this.left + this.width) - Math.max(x0, this.left), h, ink);
      const label = data.partner && data.partner[i] >= 0 ? `${data.job[i]}+${data.partner[i]}` : String(data.job[i]);
      if (this.size >= 11 && x1 - x0 > 7 * label.length + 6) {
        const middle = (Math.max(x0, this.left) + Math.min(x1, this.left + this.width)) / 2;
        if (dotted) {
          pen.fillStyle = paint(look);
          pen.fillRect(middle - 3.4 * label.length - 2, y, 6.8 * label.length + 4, h);
        }
        pen.fillStyle = ink;
        pen.fillText(label, middle, y + h / 2 + 0.5);
      }
    }
    pen.restore();
    this.window.textContent = `${clock(this.from, this.to)} to ${clock(this.to)}`;
    canvas.dataset.from = this.from;
    canvas.dataset.to = this.to;
    this.colours(palette);
  }

  hatch(pen, x, y, w, h, shade) {
    if (w < 3) return;
    pen.save();
    pen.beginPath(); pen.rect(x, y, w, h); pen.clip();
    pen.strokeStyle = shade; pen.globalAlpha = 0.45; pen.lineWidth = 1; pen.beginPath();
    for (let at = x - h; at < x + w; at += 6) { pen.moveTo(at, y + h); pen.lineTo(at + h, y); }
    pen.stroke();
    pen.restore();
  }

  dots(pen, x, y, w, h, shade) {
    if (w < 3 || h < 4) return;
    pen.save();
    pen.beginPath(); pen.rect(x, y, w, h); pen.clip();
    pen.fillStyle = shade; pen.globalAlpha = 0.6;
    for (let at = x + 2; at < x + w; at += 5) for (let down = y + 2; down < y + h; down += 5) pen.fillRect(at, down, 1.6, 1.6);
    pen.restore();
  }

  grid(pen, X, height, value) {
    const full = this.left + this.width;
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.textAlign = 'center';
    pen.strokeStyle = value('--soft');
    pen.fillStyle = value('--muted');
    pen.lineWidth = 1;
    const [unit, word] = this.to - this.from > 4 * 86400 ? [86400, 'd'] : this.to - this.from > 2 * HOUR ? [HOUR, 'h'] : this.to - this.from > 180 ? [60, 'min'] : [1, 's'];
    for (const tick of linearTicks(this.from / unit, this.to / unit, this.width / 95)) {
      const x = Math.round(X(tick * unit)) + 0.5;
      pen.beginPath(); pen.moveTo(x, AXIS - 4); pen.lineTo(x, height); pen.stroke();
      pen.fillText(`${plainNumber(tick, 6)} ${word}`, Math.min(full - 14, Math.max(this.left + 10, x)), 11);
    }
    pen.textAlign = 'right';
    let first = 0;
    let free = 0;
    for (const server of this.data.servers) {
      const y = AXIS + first * this.size;
      pen.beginPath(); pen.moveTo(0, y + 0.5); pen.lineTo(full, y + 0.5); pen.stroke();
      const middle = y + server.gpus * this.size / 2;
      if (middle - 6 >= free) {
        const most = Math.floor(this.left / 6.6);
        pen.fillText(server.id.length > most ? `${server.id.slice(0, most - 1)}…` : server.id, this.left - 7, middle);
        free = middle + 7;
      }
      first += server.gpus;
    }
  }

  colours(palette) {
    const names = this.by === 'profile' ? this.data.jobs.profiles : this.by === 'tenant' ? this.data.jobs.tenants : null;
    const key = `${this.by}/${this.data.run}/${palette[0]}`;
    if (this.shown === key) return;
    this.shown = key;
    this.legend.replaceChildren();
    if (!names) return;
    const looks = [...this.found[this.by]];
    for (const [place, look] of looks.filter(([, look]) => look < LOOKS_OF_BARS)) {
      const kind = look >= palette.length ? 'swatch dotted' : 'swatch';
      this.legend.append(el('span', { class: `plain c${look % palette.length}` }, el('span', { class: kind }), names[place]));
    }
    const rest = looks.filter(([, look]) => look === LOOKS_OF_BARS).length;
    if (rest) this.legend.append(el('span', { class: 'plain rest' }, el('span', { class: 'swatch' }), `${rest} others`));
  }
}

// Black or white, whichever can be read on a colour.
function readable(hex) {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(v => v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
}
