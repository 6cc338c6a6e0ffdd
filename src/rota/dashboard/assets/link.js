// The line to the gateway: the key that the link is exchanged for, requests with it, and the stream of news.
const KEY_PLACE = 'rota-dashboard-key';
const SILENCE_MS = 12000;
const AGAIN_MS = [500, 1000, 2000, 4000];
let key = sessionStorage.getItem(KEY_PLACE) || '';

async function enter() {
  const given = /^#enter=([\w-]+)$/.exec(location.hash);
  if (!given) return;
  history.replaceState(null, '', '/#overview');
  const answer = await fetch('/api/enter', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ secret: given[1] }) });
  if (answer.ok || !key) sessionStorage.removeItem(KEY_PLACE);
  if (!answer.ok) { if (!key) throw new Error(await answer.text()); return; }
  key = (await answer.json()).key;
  sessionStorage.setItem(KEY_PLACE, key);
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...options.headers, 'X-Rota-Key': key } });
  if (!answer.ok) {
    const problem = new Error((await answer.text()).trim() || `status ${answer.status}`);
    problem.status = answer.status;
    throw problem;
  }
  return answer;
}

const get = async (path, options) => (await ask(path, options)).json();
const post = async (path, body) => (await ask(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).json();

// A ticket for the case that the gateway is killed and started again. It is in the memory of this page only: whoever
// takes the port meanwhile could read what is stored. The protocol is in tickets.py.
const TICKET_EVERY_MS = 3600e3;
let ticket = null;
let ticketAt = 0;
let returning = null;

async function renewTicket() {
  if (Date.now() - ticketAt < TICKET_EVERY_MS || location.hostname !== '127.0.0.1' || !crypto.subtle) return;
  ticketAt = Date.now();
  try {
    const given = await post('/api/ticket', {});
    if (given.name) ticket = given;
  } catch { ticketAt = 0; }
}

async function proof(what, number, theirs) {
  const bytes = text => new TextEncoder().encode(text);
  const secret = await crypto.subtle.importKey('raw', bytes(ticket.secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const signed = await crypto.subtle.sign('HMAC', secret, bytes([what, location.host, ticket.name, number, theirs].join('|')));
  return Array.from(new Uint8Array(signed), byte => byte.toString(16).padStart(2, '0')).join('');
}

// Whether this page has a key of the gateway that is there now. Throws if something else answers.
async function comeBack() {
  if (!ticket) return false;
  const number = Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('');
  const tell = body => fetch('/api/return', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ name: ticket.name, number, ...body }) });
  const answer = await tell({});
  if (!answer.ok) return false;
  const { theirs, proof: shown } = await answer.json();
  if (typeof theirs !== 'string' || shown !== await proof('gateway', number, theirs)) throw Object.assign(new Error('Something else than your gateway answers on this port.'), { status: 1 });
  if (!(await tell({ theirs, proof: await proof('page', number, theirs) })).ok) return false;
  key = await proof('key', number, theirs);
  sessionStorage.setItem(KEY_PLACE, key);
  ticketAt = 0;
  return true;
}

const backOnce = () => (returning ||= comeBack().finally(() => { returning = null; }));

// Messages of a stream, one after the other, until it ends or `signal` says so. `alive` hears of every sign of life.
async function messages(path, signal, take, alive = () => {}) {
  const reader = (await ask(path, { signal })).body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    rest += decoder.decode(value, { stream: true });
    const pieces = rest.split('\n\n');
    rest = pieces.pop();
    for (const piece of pieces) if (piece.startsWith('data: ')) take(JSON.parse(piece.slice(6)));
  }
}

// A stream that is opened again when it breaks; `changed` hears '' when it is there and why when it is not.
function followed(pathOf, take, changed) {
  let control = null;
  let tries = 0;
  let closed = false;
  let heard = 0;
  let broken = false;
  const open = async () => {
    while (!closed) {
      const own = new AbortController();
      control = own;
      heard = Date.now();
      const watch = setInterval(() => { if (Date.now() - heard > SILENCE_MS) own.abort(); }, 1000);
      try {
        if (broken) await backOnce();
        await messages(pathOf(), own.signal, message => { tries = 0; broken = false; changed(''); take(message); renewTicket(); }, () => { heard = Date.now(); });
        broken = !own.asked;
        if (!own.asked) changed('The gateway ended the connection; trying again.');
      } catch (problem) {
        broken = !own.asked;
        if (problem.status === 401) { changed('This page has no key any more: open the link that `rota dashboard` printed last.'); }
        else if (problem.status) changed(problem.message);
        else if (!own.asked) changed('The gateway (`rota dashboard`) does not answer; trying again.');
      } finally { clearInterval(watch); }
      if (!own.asked) await new Promise(go => setTimeout(go, AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]));
    }
  };
  open();
  return {
    again: () => { control.asked = true; control.abort(); },
    close: () => { closed = true; control.asked = true; control.abort(); },
  };
}
