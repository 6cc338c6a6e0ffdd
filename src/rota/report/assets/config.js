// The whole configuration of each run, and the command that makes it again. Filled when it is opened.
function whole(value) {
  if (value && typeof value === 'object' && '$part' in value) return DATA.parts[value.$part];
  return value;
}

// JSON with lists of plain values on one line.
function pretty(value, indent = '') {
  const flat = v => v === null || typeof v !== 'object';
  const deeper = `${indent}  `;
  if (flat(value)) return JSON.stringify(value);
  if (Array.isArray(value)) {
    if (value.every(flat)) return JSON.stringify(value);
    return `[\n${value.map(v => deeper + pretty(v, deeper)).join(',\n')}\n${indent}]`;
  }
  const keys = Object.keys(value);
  if (!keys.length) return '{}';
  return `{\n${keys.map(key => `${deeper}${JSON.stringify(key)}: ${pretty(value[key], deeper)}`).join(',\n')}\n${indent}}`;
}

function copied(text) {
  const button = el('button', { type: 'button' }, 'copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'copied';
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousSibling.nodeType === 1 ? button.previousSibling : button.parentNode);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = 'marked, press Ctrl-C';
    }
  });
  return button;
}

function inside(run) {
  const parts = [];
  if (run.error) parts.push(el('p', { class: 'error' }, run.error));
  if (run.command) parts.push(el('h3', {}, 'The same again'), el('pre', { class: 'command' }, run.command), copied(run.command));
  if (run.note) parts.push(el('p', { class: 'muted small' }, run.note));
  for (const note of run.notes) parts.push(el('p', { class: 'small' }, `Note: ${note}`));
  const about = { ...run.about, key: run.key };
  if (about.started) about.started = new Date(1000 * about.started).toISOString();
  const config = Object.fromEntries(Object.entries(run.config).map(([key, value]) => [key, whole(value)]));
  parts.push(el('h3', {}, 'Configuration'), el('pre', { tabindex: 0 }, pretty(config)), el('h3', {}, 'Metrics'), el('pre', { tabindex: 0 }, pretty({ ...run.metrics, ...about })));
  return el('div', { class: 'inside' }, ...parts);
}

function config() {
  const host = byId('config');
  const list = el('div', { id: 'configs' });
  const draw = wanted => {
    const shown = DATA.runs.filter(run => title(run).toLowerCase().includes(wanted));
    list.replaceChildren(...shown.map(run => {
      const box = el('details', {}, el('summary', {}, el('span', { class: `swatch ${colour(run.line)}` }), title(run)));
      box.addEventListener('toggle', () => { if (box.open && box.children.length === 1) box.append(inside(run)); });
      return box;
    }));
  };
  const title = run => {
    const place = DATA.settings.length > 1 ? ` — ${DATA.settings[run.setting].label}` : '';
    const seed = run.values.seed === undefined ? '' : `, seed ${text(run.values.seed)}`;
    return `${lineName(run)}${place}${seed} (${run.status})`;
  };
  if (DATA.runs.length > 8) {
    host.append(el('div', { class: 'controls' }, el('input', { type: 'search', placeholder: 'filter runs', 'aria-label': 'Filter configurations', oninput: event => draw(event.target.value.trim().toLowerCase()) })));
  }
  host.append(list);
  draw('');
}
