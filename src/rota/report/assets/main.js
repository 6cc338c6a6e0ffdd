// The head of the page, then every section; a section that fails says so and leaves the others alone.
function head() {
  byId('title').textContent = DATA.title;
  const made = new Date(1000 * DATA.made);
  const when = made.toISOString().slice(0, 16).replace('T', ' ');
  const from = DATA.source ? ` from ${DATA.source}${DATA.sweep ? `, sweep ${DATA.sweep}` : ''}` : '';
  byId('about').textContent = `Scheduling policies on a cluster of GPUs, simulated with Rota ${DATA.version}. Made ${when} UTC${from}.`;
  const counts = {};
  for (const run of DATA.runs) counts[run.status] = (counts[run.status] || 0) + 1;
  const count = (n, one, many) => fact(n.toLocaleString('en'), n === 1 ? one : many);
  const different = key => new Set(DATA.runs.map(run => run.values[key]).filter(value => value !== undefined)).size;
  const facts = [count(DATA.runs.length, 'run', 'runs'), count(different('policy') || DATA.lines.length, 'policy', 'policies'), count(DATA.settings.length, 'setting', 'settings')];
  if (different('mechanism') > 1) facts.splice(2, 0, count(different('mechanism'), 'mechanism', 'mechanisms'));
  if (different('seed')) facts.push(count(different('seed'), 'seed', 'seeds'));
  for (const [name, n] of Object.entries(counts)) if (name !== 'ok') facts.push(fact(n.toLocaleString('en'), name));
  const first = DATA.groups.filter(g => g.setting === DATA.groups[0].setting && g.stats.mean_jct_s).sort((a, b) => a.stats.mean_jct_s[0] - b.stats.mean_jct_s[0])[0];
  if (DATA.settings.length === 1 && first && DATA.lines.length > 1) facts.push(fact(DATA.lines[first.line], 'lowest mean completion time'));
  byId('facts').append(...facts);
  byId('notes').append(...DATA.notes.map(note => el('li', {}, note)));
  byId('footer').textContent = `Rota ${DATA.version}. This file needs no network and no other file; print it or send it as it is.`;
}

for (const [name, make] of Object.entries({ head, summary, figures, gantt, diff, config })) {
  try {
    make();
  } catch (error) {
    console.error(error);
    const host = byId(name) || document.querySelector('main');
    host.append(el('p', { class: 'error' }, `This part could not be drawn: ${error.message}`));
  }
}

// The section in view is marked in the navigation.
const links = new Map([...document.querySelectorAll('nav a')].map(a => [a.getAttribute('href').slice(1), a]));
const watch = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id).classList.toggle('here', entry.isIntersecting);
}, { rootMargin: '-20% 0px -70% 0px' });
for (const id of links.keys()) watch.observe(byId(id));
