// Lines, bars, histograms and clouds of points as SVG, drawn again when their box changes.
const MOST_AREAS = 4;
const NICE = [1, 2, 2.5, 5, 10];

function linearTicks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * NICE.find(n => n * size >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const digits = decades > 3.2 ? [1] : decades > 1.3 ? [1, 3] : [1, 2, 3, 5, 7];
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const digit of digits) {
      const value = Number((digit * 10 ** e).toPrecision(6));
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return ticks.length > 1 ? ticks : linearTicks(low, high, 4);
}

function scale(low, high, from, to, log) {
  const f = log ? Math.log : value => value;
  const start = f(low);
  const span = f(high) - start || 1;
  const place = value => from + (to - from) * (f(value) - start) / span;
  place.back = at => {
    const value = start + span * (at - from) / (to - from);
    return log ? Math.exp(value) : value;
  };
  return place;
}

// Keeps a drawing as wide as its box.
function sized(host, draw) {
  let last = 0;
  const update = () => {
    const width = Math.floor(host.clientWidth);
    if (width > 0 && width !== last) { last = width; draw(width); }
  };
  new ResizeObserver(update).observe(host);
  update();
  return () => draw(Math.max(220, Math.floor(host.clientWidth)));
}

function frame(width, height, margin, xTicks, yTicks, X, Y, spec) {
  const root = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: 'img', 'aria-label': spec.describe });
  const right = width - margin.right;
  const bottom = height - margin.bottom;
  for (const tick of yTicks) {
    root.append(svg('line', { class: 'rule', x1: margin.left, x2: right, y1: Y(tick), y2: Y(tick) }));
    root.append(svg('text', { x: margin.left - 6, y: Y(tick) + 4, 'text-anchor': 'end' }, plainNumber(tick)));
  }
  let free = -Infinity;
  for (const tick of xTicks) {
    const at = X(tick);
    const label = plainNumber(tick);
    root.append(svg('line', { class: 'axis', x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
    if (at - 3.4 * label.length < free) continue;
    free = at + 3.4 * label.length + 6;
    root.append(svg('text', { x: at, y: bottom + 17, 'text-anchor': 'middle' }, label));
  }
  root.append(svg('line', { class: 'axis', x1: margin.left, x2: right, y1: bottom, y2: bottom }));
  root.append(svg('text', { class: 'label', x: (margin.left + right) / 2, y: height - 4, 'text-anchor': 'middle' }, spec.xLabel));
  root.append(svg('text', { class: 'label', x: margin.left, y: 11 }, spec.yLabel));
  return root;
}

// spec: xLabel, yLabel, series [{name, line, points [{x, y, low, high, more}], step, crosses}], xLog, yLog, fromZero,
// top, mark (an x that matters), heading(x), value(y). Returns the card's body; its legend switches series on and off.
function lineChart(spec) {
  const hidden = new Set();
  const state = { xLog: Boolean(spec.xLog), yLog: Boolean(spec.yLog) };
  const host = el('div');
  const legend = el('ul', { class: 'legend' });
  const draw = width => host.replaceChildren(drawLines(spec, state, spec.series.filter(s => !hidden.has(s.name)), width));
  for (const series of spec.series) {
    const sample = svg('svg', { class: colour(series.line), viewBox: '0 0 26 10', 'aria-hidden': 'true' },
      svg('line', { class: 'sample', x1: 0, x2: 26, y1: 5, y2: 5, 'stroke-dasharray': dash(series.line) }));
    const button = toggle('', true, on => { on ? hidden.delete(series.name) : hidden.add(series.name); redraw(); }, { title: 'show or hide' });
    button.append(sample, series.name);
    legend.append(el('li', {}, button));
  }
  const controls = el('span', { class: 'controls' });
  if (spec.canXLog) controls.append(toggle('log x', state.xLog, on => { state.xLog = on; redraw(); }, { 'data-axis': 'x' }));
  if (spec.canYLog) controls.append(toggle('log y', state.yLog, on => { state.yLog = on; redraw(); }, { 'data-axis': 'y' }));
  const body = el('div', {}, host, legend);
  const redraw = sized(host, draw);
  return { body, controls };
}

function drawLines(spec, state, shown, width) {
  const height = Math.round(Math.min(330, Math.max(230, width * 0.52)));
  const margin = { left: 46, right: 12, top: 24, bottom: 38 };
  const all = shown.flatMap(s => s.points.filter(p => p.y !== null));
  const xs = shown.flatMap(s => [...s.points.map(p => p.x), ...(s.crosses || [])]).filter(x => !state.xLog || x > 0);
  const ys = all.map(p => p.y).filter(y => !state.yLog || y > 0);
  if (!xs.length || !ys.length) return el('p', { class: 'muted' }, 'No line is shown; choose one in the legend.');
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  if (x0 === x1) [x0, x1] = state.xLog ? [x0 / 1.5, x1 * 1.5] : [x0 - 0.5, x1 + 0.5];
  if (spec.xZero && !state.xLog) x0 = 0;
  const high = Math.max(...all.map(p => p.high ?? p.y));
  let y1 = spec.top ?? Math.max(Math.min(high, 1.6 * Math.max(...ys)), 1.05 * Math.max(...ys));
  let y0 = state.yLog ? Math.min(...ys) * 0.9 : 0;
  if (y1 <= y0) y1 = y0 + 1;
  const crossed = shown.filter(s => s.crosses && s.crosses.length);
  const X = scale(x0, x1, margin.left + 4, width - margin.right - 6, state.xLog);
  const Y = scale(y0, y1, height - margin.bottom, margin.top + 8 * crossed.length, state.yLog);
  const root = frame(width, height, margin,
    state.xLog ? logTicks(x0, x1) : linearTicks(x0, x1, width / 90), state.yLog ? logTicks(y0, y1) : linearTicks(y0, y1, 5), X, Y, spec);
  if (spec.mark !== undefined && spec.mark >= x0 && spec.mark <= x1) {
    root.append(svg('line', { class: 'equal', x1: X(spec.mark), x2: X(spec.mark), y1: margin.top, y2: height - margin.bottom }));
  }
  const usable = p => p.y !== null && (!state.xLog || p.x > 0) && (!state.yLog || p.y > 0);
  const clip = y => Math.max(margin.top - 6, Math.min(height - margin.bottom, y));
  const low = p => clip(Y(state.yLog ? Math.max(p.low, y0) : p.low));
  const high95 = p => clip(Y(p.high));
  root.append(intervals(shown, usable, X, low, high95));
  shown.forEach(series => {
    const points = series.points.filter(usable);
    const group = svg('g', { class: colour(series.line), 'data-series': series.name });
    let path = '';
    points.forEach((p, i) => {
      const at = `${X(p.x).toFixed(1)},${Y(p.y).toFixed(1)}`;
      if (!i) path += series.step ? `M${X(p.x).toFixed(1)},${Y(Math.max(y0, series.floor ?? p.y)).toFixed(1)}V${Y(p.y).toFixed(1)}` : `M${at}`;
      else path += series.step ? `H${X(p.x).toFixed(1)}V${Y(p.y).toFixed(1)}` : `L${at}`;
    });
    group.append(svg('path', { class: 'series', d: path, 'stroke-dasharray': dash(series.line) }));
    if (!series.step && points.length < 60) for (const p of points) group.append(svg('circle', { class: 'dot', cx: X(p.x), cy: Y(p.y), r: 3.6 }));
    root.append(group);
  });
  crossed.forEach((series, row) => {
    for (const x of series.crosses) {
      const [cx, cy] = [X(x), margin.top + 3 + 9 * row];
      root.append(svg('path', { class: `cross ${colour(series.line)}`, d: `M${cx - 4},${cy - 4}l8,8m0,-8l-8,8` }, svg('title', {}, `${series.name}: unstable`)));
    }
  });
  hover(root, spec, shown, usable, X, margin, width, height, series => series.step);
  return root;
}

// 95 % intervals under all lines: areas with edges of a few, whiskers side by side of many.
function intervals(shown, usable, X, low, high) {
  const all = svg('g', { class: 'intervals' });
  const known = shown.map(series => [series, series.points.filter(p => usable(p) && p.low !== null && p.low !== undefined)]).filter(([, points]) => points.length);
  known.forEach(([series, points], i) => {
    const group = svg('g', { class: colour(series.line) });
    if (known.length <= MOST_AREAS && points.length > 1) {
      const there = points.map(p => `${X(p.x)},${high(p)}`);
      const back = points.map(p => `${X(p.x)},${low(p)}`);
      group.append(svg('polygon', { class: 'band', points: [...there, ...back.slice().reverse()].join(' ') }));
      for (const edge of [there, back]) group.append(svg('polyline', { class: 'edge', points: edge.join(' ') }));
    } else {
      const aside = (i - (known.length - 1) / 2) * Math.min(2.5, 20 / known.length);
      for (const p of points) group.append(svg('line', { class: 'reach', x1: X(p.x) + aside, x2: X(p.x) + aside, y1: high(p), y2: low(p) }));
    }
    all.append(group);
  });
  return all;
}

// A cursor that follows the mouse or the arrow keys, and says what every line is there.
function hover(root, spec, shown, usable, X, margin, width, height) {
  const cursor = svg('line', { class: 'cursor', y1: margin.top, y2: height - margin.bottom, visibility: 'hidden' });
  root.append(cursor);
  const places = [...new Set(shown.flatMap(s => s.points.filter(usable).map(p => p.x)))].sort((a, b) => a - b);
  if (!places.length) return;
  let at = -1;
  const show = (i, clientX, clientY) => {
    at = Math.max(0, Math.min(places.length - 1, i));
    const x = places[at];
    cursor.setAttribute('x1', X(x)); cursor.setAttribute('x2', X(x)); cursor.setAttribute('visibility', 'visible');
    const rows = [];
    for (const series of shown) {
      const points = series.points.filter(usable);
      const p = series.step ? points.filter(q => q.x <= x).at(-1) : points.find(q => q.x === x);
      if (p) rows.push([series.name, spec.value(p.y) + (p.more || ''), colour(series.line)]);
    }
    showTip(clientX, clientY, spec.heading(x), rows);
  };
  root.addEventListener('pointermove', event => {
    const box = root.getBoundingClientRect();
    const wanted = X.back((event.clientX - box.left) * width / box.width);
    let best = 0;
    places.forEach((x, i) => { if (Math.abs(X(x) - X(wanted)) < Math.abs(X(places[best]) - X(wanted))) best = i; });
    show(best, event.clientX, event.clientY);
  });
  const leave = () => { cursor.setAttribute('visibility', 'hidden'); hideTip(); };
  root.addEventListener('pointerleave', leave);
  root.addEventListener('blur', leave);
  root.addEventListener('keydown', event => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    event.preventDefault();
    const step = (event.key === 'ArrowRight' ? 1 : -1) * (event.shiftKey ? 10 : 1);
    const box = root.getBoundingClientRect();
    show(at + step, box.left + box.width / 2, box.top + 20);
  });
}

// Horizontal bars with the ends of an interval; rows [{name, line, value, low, high, more}].
function barChart(spec) {
  const host = el('div');
  const draw = width => {
    const size = 25;
    const rows = spec.rows;
    const longest = Math.max(...rows.map(r => r.name.length));
    const margin = { left: Math.min(Math.round(width * 0.42), 7 * longest + 14), right: 64, top: 6, bottom: 36 };
    const height = margin.top + margin.bottom + size * rows.length;
    const high = Math.max(...rows.map(r => Math.max(r.value, Math.min(r.high ?? r.value, 1.5 * r.value)))) || 1;
    const X = scale(0, high, margin.left, width - margin.right, false);
    const root = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': spec.describe });
    let free = -Infinity;
    for (const tick of linearTicks(0, high, width / 110)) {
      root.append(svg('line', { class: 'rule', x1: X(tick), x2: X(tick), y1: margin.top, y2: height - margin.bottom }));
      if (X(tick) < free) continue;
      free = X(tick) + 42;
      root.append(svg('text', { x: X(tick), y: height - margin.bottom + 15, 'text-anchor': 'middle' }, plainNumber(tick)));
    }
    rows.forEach((row, i) => {
      const y = margin.top + size * i;
      const group = svg('g', { class: colour(row.line) });
      const most = Math.floor((margin.left - 12) / 6.3);
      const name = row.name.length > most ? `${row.name.slice(0, most - 1)}…` : row.name;
      group.append(svg('text', { class: 'label', x: margin.left - 8, y: y + 17, 'text-anchor': 'end' }, name, svg('title', {}, row.name)));
      group.append(svg('rect', { class: 'block', x: X(0), y: y + 4, width: Math.max(1, X(row.value) - X(0)), height: size - 8, rx: 2 }));
      if (row.low !== null && row.low !== undefined) {
        const [a, b] = [X(Math.max(0, row.low)), X(Math.min(row.high, high))];
        group.append(svg('path', { class: 'whisker', d: `M${a},${y + size / 2}H${b}M${a},${y + 8}v${size - 16}M${b},${y + 8}v${size - 16}` }));
      }
      const end = Math.max(X(row.value), row.high ? X(Math.min(row.high, high)) : 0);
      group.append(svg('text', { class: 'label', x: end + 5, y: y + 17 }, spec.value(row.value)));
      group.addEventListener('pointermove', e => showTip(e.clientX, e.clientY, row.name, [[spec.xLabel, spec.value(row.value) + (row.more || ''), colour(row.line)]]));
      group.addEventListener('pointerleave', hideTip);
      root.append(group);
    });
    root.append(svg('text', { class: 'label', x: (margin.left + width - margin.right) / 2, y: height - 3, 'text-anchor': 'middle' }, spec.xLabel));
    host.replaceChildren(root);
  };
  sized(host, draw);
  return host;
}

// Horizontal bars that add up to all jobs; rows [{name, line, parts [{label, look, count}], total, note}].
function stackedBars(spec) {
  const host = el('div');
  const draw = width => {
    const size = 25;
    const longest = Math.max(...spec.rows.map(row => row.name.length));
    const margin = { left: Math.min(Math.round(width * 0.42), 7 * longest + 14), right: 64, top: 6, bottom: 36 };
    const height = margin.top + margin.bottom + size * spec.rows.length;
    const X = scale(0, 1, margin.left, width - margin.right, false);
    const root = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': spec.describe });
    for (const tick of X(1) - X(0) < 220 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
      root.append(svg('line', { class: 'rule', x1: X(tick), x2: X(tick), y1: margin.top, y2: height - margin.bottom }));
      root.append(svg('text', { x: X(tick), y: height - margin.bottom + 15, 'text-anchor': 'middle' }, `${100 * tick} %`));
    }
    spec.rows.forEach((row, i) => {
      const y = margin.top + size * i;
      const group = svg('g', { 'data-row': row.name });
      const most = Math.floor((margin.left - 12) / 6.3);
      const name = row.name.length > most ? `${row.name.slice(0, most - 1)}…` : row.name;
      group.append(svg('text', { class: 'label', x: margin.left - 8, y: y + 17, 'text-anchor': 'end' }, name, svg('title', {}, row.name)));
      let done = 0;
      for (const part of row.parts) {
        const [from, to] = [X(done / row.total), X((done + part.count) / row.total)];
        group.append(svg('rect', { class: part.look, x: from, y: y + 4, width: Math.max(0, to - from), height: size - 8 }));
        done += part.count;
      }
      group.append(svg('text', { class: 'label', x: X(1) + 5, y: y + 17 }, row.said));
      const rows = [...row.parts.map(part => [part.label, `${part.count.toLocaleString('en')} (${percent(part.count / row.total)})`]), ...row.more];
      group.addEventListener('pointermove', event => showTip(event.clientX, event.clientY, row.name, rows));
      group.addEventListener('pointerleave', hideTip);
      root.append(group);
    });
    root.append(svg('text', { class: 'label', x: (margin.left + width - margin.right) / 2, y: height - 3, 'text-anchor': 'middle' }, spec.xLabel));
    host.replaceChildren(root);
  };
  sized(host, draw);
  const looks = new Map(spec.rows.flatMap(row => row.parts).filter(part => part.count).map(part => [part.look, part.label]));
  const samples = [...looks].map(([look, label]) => el('span', { class: 'plain' }, svg('svg', { viewBox: '0 0 12 10', class: 'patch', 'aria-hidden': 'true' }, svg('rect', { class: look, width: 12, height: 10 })), label));
  return el('div', {}, host, el('div', { class: 'legend' }, ...samples));
}

function card(title, controls, body, caption, attributes = {}) {
  return el('figure', { class: 'card', ...attributes },
    el('div', { class: 'head' }, el('h3', {}, title), controls), body, caption ? el('figcaption', { class: 'caption' }, caption) : null);
}
