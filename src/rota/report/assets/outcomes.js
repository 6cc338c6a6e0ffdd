// Finish-time fairness and deadlines: figures that are there only where jobs have them.
function fairness(setting) {
  const groups = groupsAt(setting).filter(group => group.ftf);
  if (!groups.length) return null;
  const series = groups.map(group => ({
    name: DATA.lines[group.line], line: group.line, step: true, floor: 0,
    points: group.ftf.t.map((rho, i) => ({ x: rho, y: (i + 1) / group.ftf.t.length })),
  }));
  return lineChart({
    series, xLabel: 'finish-time fairness (rho; 1 = own share)', yLabel: 'part of jobs', xLog: true, canXLog: true, xZero: true, top: 1.0, mark: 1,
    heading: rho => `rho at most ${plainNumber(rho, 3)}`, value: y => percent(y), describe: 'Distribution of finish-time fairness',
  });
}

const OUTCOMES = [
  ['met', 'met', 'good'],
  ['late', 'finished too late', 'late'],
  ['unfinished', 'not finished', 'never'],
  ['missed', 'missed', 'late'],
];

function deadlines(setting) {
  const groups = groupsAt(setting).filter(group => group.deadlines);
  if (!groups.length) return null;
  const rows = groups.map(group => {
    const found = group.deadlines;
    const late = found.mean_late_s === null ? null : `late by ${clock(found.mean_late_s)} on average, ${clock(found.worst_late_s)} at most`;
    return {
      name: DATA.lines[group.line], line: group.line, total: found.jobs, said: percent(found.met / found.jobs), met: found.met / found.jobs,
      parts: OUTCOMES.map(([key, label, look]) => ({ label, look, count: found[key] })).filter(part => part.count), late,
      more: [['jobs with a deadline', found.jobs.toLocaleString('en')]],
    };
  });
  rows.sort((a, b) => b.met - a.met);
  const chart = stackedBars({ rows, xLabel: 'part of the jobs with a deadline; right: met', describe: 'Deadlines met and missed by policy' });
  return { body: el('div', {}, chart, el('ul', { class: 'late-by' }, ...rows.filter(row => row.late).map(row => el('li', {}, el('b', {}, row.name), ` ${row.late}`)))) };
}

// How much of the time that it was allowed a job took: 1 is the deadline.
function timeUsed(setting) {
  const groups = groupsAt(setting).filter(group => group.deadlines && group.deadlines.used);
  if (!groups.length) return null;
  const series = groups.map(group => ({
    name: DATA.lines[group.line], line: group.line, step: true, floor: 0,
    points: group.deadlines.used.t.map((used, i) => ({ x: used, y: group.deadlines.used.top * (i + 1) / group.deadlines.used.t.length })),
  }));
  return lineChart({
    series, xLabel: 'completion time / time allowed (1 = deadline)', yLabel: 'part of jobs with a deadline', xLog: true, canXLog: true, xZero: true, top: 1.0, mark: 1,
    heading: used => `within ${plainNumber(used, 3)} of the time allowed`, value: y => percent(y), describe: 'Completion times relative to deadlines',
  });
}
