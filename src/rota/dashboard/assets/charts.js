// Figures over time: what tenants are entitled to and receive, what is used and what is stranded, and how long deciding takes.
const decisions = [];
let usage = null;

function usageSeries(values, name, line) {
  const step = (usage.to_s - usage.from_s) / values.length;
  return { name, line, points: values.map((y, i) => ({ x: (usage.from_s + (i + 0.5) * step) / HOUR, y })) };
}

const inHours = { xLabel: 'hours of the scheduler\'s clock', heading: x => `${plainNumber(x)} h` };

function tenantCharts() {
  return usage.tenants.map(row => {
    const look = lookOfTenant(row.tenant);
    const spec = { ...inHours, yLabel: 'GPUs', describe: `GPUs that ${row.tenant} is entitled to and receives, over time`, value: y => plainNumber(y),
      series: [usageSeries(row.received_gpus, 'received', look % DATA.colours), usageSeries(row.entitled_gpus, 'entitled', 6)] };
    return card(row.tenant, null, lineChart(spec).body, null, { 'data-chart': `tenant ${row.tenant}` });
  });
}

function shareChart(title, parts, caption) {
  const spec = { ...inHours, yLabel: '% of what is up', top: 105, describe: `${title} over time`, value: y => `${y.toFixed(1)} %`,
    series: parts.map(([name, line, part, whole]) => usageSeries(usage[part].map((y, i) => usage[whole][i] > 0 ? 100 * y / usage[whole][i] : 0), name, line)) };
  return card(title, null, lineChart(spec).body, caption, { 'data-chart': title });
}

function decisionChart() {
  const shown = decisions.slice(-240);
  const points = place => shown.map(decision => ({ x: decision[0] / HOUR, y: 1000 * decision[place] }));
  const spec = { ...inHours, yLabel: 'milliseconds', describe: 'time to decide a round, over time', value: y => `${plainNumber(y, 3)} ms`,
    series: [{ name: 'whole decision', line: 0, points: points(1) }, { name: 'policy (solve)', line: 1, points: points(2) }] };
  return card('Time to decide', null, lineChart(spec).body, 'Wall time from the look at the cluster until orders are written, and the policy\'s part of it.', { 'data-chart': 'decisions' });
}

function drawCharts() {
  const cards = [];
  if (usage) {
    cards.push(shareChart('GPUs held', [['held by jobs', 0, 'gpus_held', 'gpus']]));
    cards.push(shareChart('Stranded beside GPUs', [['CPUs', 1, 'cpus_stranded', 'cpus'], ['memory', 2, 'memory_stranded_gb', 'memory_gb']],
      'CPUs and memory that no job holds on servers all of whose GPUs are held: nobody can use them.'));
    if (usage.waiting_jobs) {
      const spec = { ...inHours, yLabel: 'jobs', describe: 'jobs that wait, over time', value: y => plainNumber(y), series: [usageSeries(usage.waiting_jobs, 'waiting', 3)] };
      cards.push(card('Jobs that wait', null, lineChart(spec).body, null, { 'data-chart': 'waiting' }));
    }
  }
  if (decisions.length) cards.push(decisionChart());
  if (usage && usage.tenants.length) {
    cards.push(el('h3', { class: 'card wide' }, 'Entitled and received GPUs, by tenant'), ...tenantCharts());
  }
  byId('chart-cards').replaceChildren(...cards);
}

// A page in the background, or far above them, does not draw them.
let chartsSeen = false;
let chartsOld = true;
new IntersectionObserver(entries => {
  chartsSeen = entries.some(entry => entry.isIntersecting);
  if (chartsSeen && chartsOld) { chartsOld = false; drawCharts(); }
}, { rootMargin: '300px' }).observe(byId('charts'));

function chartsChanged() {
  chartsOld = true;
  if (chartsSeen) { chartsOld = false; drawCharts(); }
}

function takeUsage(message) {
  if (message.problem !== undefined) byId('charts-note').textContent = message.problem ? `Not up to date: ${message.problem}` : '';
  if (message.usage) { usage = message.usage; chartsChanged(); }
}

let decisionsDrawn = 0;

function takeDecisions(message) {
  if (decisions.length && message.add.length && message.add[0][0] < decisions.at(-1)[0]) decisions.length = 0;
  decisions.push(...message.add);
  if (decisions.length > 600) decisions.splice(0, decisions.length - 600);
  if (Date.now() - decisionsDrawn > 5000) { decisionsDrawn = Date.now(); chartsChanged(); }
}
